//! `mpirun` with a folder that has little room.

use crate::folder::Folder;
use crate::skip::skipped;
use crate::{Run, prefix};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// `mpirun` in a mount namespace of its own, in which the folder is a file system of so many
/// mebibytes. `None`, and noted as skipped: this machine can't do it. Other processes find the
/// files below `/proc/PID/root`, with the number of mpirun.
pub fn with_small_disk(folder: &Folder, mebibytes: u32, arguments: &[&str]) -> Option<Run> {
    let script = format!(r#"mount -t tmpfs -o size={mebibytes}m none "$0" || exit 77; exec "$@""#);
    let inside = |words: &[&OsStr]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        command.arg(folder).args(words);
        command
    };
    let tried = inside(&["true".as_ref()]).status();
    if !tried.is_ok_and(|status| status.success()) {
        skipped("a file system of the test's own needs root (a mount namespace)");
        return None;
    }
    let mut command = inside(&[prefix().join("bin/mpirun").as_os_str()]);
    command.args(arguments);
    Some(Run::of(command))
}

/// Takes all room of a file system, by a file of this name.
///
/// # Panics
/// When the file can't be made.
pub fn fill_disk(path: &Path) {
    let mut file = File::create(path).expect("a file");
    for length in [1 << 20, 4096] {
        let piece = vec![1u8; length];
        while file.write_all(&piece).is_ok() {}
    }
}
