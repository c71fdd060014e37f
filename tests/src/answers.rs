//! The output of programs in undisturbed runs, which is the same in every run. It is kept beside
//! the compiled programs.

use crate::Finished;
use crate::installation::prefix;
use crate::programs::{key, put};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Output};
use std::time::{Duration, UNIX_EPOCH};

/// What an undisturbed run of a program has put out, whose output is the same in every run. `what`
/// is all that the output depends on beside the program and the installation.
///
/// # Panics
/// When it does not end well.
pub fn undisturbed(program: &Path, what: &str, run: impl FnOnce() -> Finished) -> Finished {
    let parts = ["lib/libmpi_abi.so.1", "bin/mpirun"].map(|part| {
        let file = fs::metadata(prefix().join(part)).expect("an installed file");
        let changed = file
            .modified()
            .expect("its time")
            .duration_since(UNIX_EPOCH);
        (changed.expect("a time").as_nanos(), file.len())
    });
    let kept = program.with_extension(key(&(parts, what)));
    if !kept.exists() {
        put(&kept, |fresh| {
            let done = run();
            assert!(done.output.status.success(), "{what}: {}", done.text());
            let texts = [done.stdout(), done.stderr()];
            let all = serde_json::json!([texts, done.took.as_micros() as u64]);
            fs::write(fresh, all.to_string()).expect("writing an answer");
        });
    }
    let text = fs::read_to_string(&kept).expect("an answer");
    let ([stdout, stderr], micros): ([String; 2], u64) =
        serde_json::from_str(&text).expect("an answer");
    let [stdout, stderr] = [stdout, stderr].map(String::into_bytes);
    Finished {
        output: Output {
            status: ExitStatus::from_raw(0),
            stdout,
            stderr,
        },
        took: Duration::from_micros(micros),
    }
}
