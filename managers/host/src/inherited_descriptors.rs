//! Descriptors that a manager has found open when it began: a build tool's job server, pipes of a
//! CI agent, a file of the user's shell.
//!
//! A rank must not have them. It may come back on another host, or in another launch, where there
//! is nothing under their numbers, or something else. A pipe to a stranger also keeps the images of
//! a rank out of files.

use std::path::Path;

/// Marks all descriptors above standard error as closed by exec, so that no program which this
/// process starts has them. This process still has them: an option may name one (`/dev/fd/63`).
pub fn close_on_exec() {
    let Ok(entries) = Path::new("/proc/self/fd").read_dir() else {
        return;
    };
    let name = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    for number in entries
        .flatten()
        .filter_map(name)
        .filter(|number| *number > 2)
    {
        // SAFETY: a system call with plain numbers. A descriptor that is closed meanwhile (that of
        // the folder) is an error without an effect.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}
