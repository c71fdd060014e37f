//! Tests that this machine cannot run.
//!
//! A test that returns early looks like one that passed. So it records here that it did not run.
//! `cargo xtask test` counts it, names it at the end, and fails unless `REJOIN_ALLOW_SKIPPED`
//! allows it.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Names the file that lists the tests that did not run: one line for each, its name and the reason
/// with a tab between them. `cargo xtask test` sets it.
const LIST: &str = "REJOIN_SKIPPED_LIST";

/// Notes that the calling test does not run, with the reason. The test returns afterwards.
///
/// # Panics
/// When the list cannot be written.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test without a name");
    eprintln!("SKIPPED: {test}: {reason}");
    let Some(path) = std::env::var_os(LIST) else {
        return;
    };
    let reason = reason.replace(['\n', '\t'], " ");
    // One write for each line: tests of several processes share the file.
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut f| f.write_all(format!("{test}\t{reason}\n").as_bytes()));
    written.expect("the list of skipped tests");
}
