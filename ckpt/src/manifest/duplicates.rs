//! Whether two numbers name one open file description, as `dup` makes them.

use std::os::fd::RawFd;

use crate::sys;

/// Whether both numbers have one description. The caller has found that they have one file.
pub(super) fn are_one(first: RawFd, second: RawFd) -> bool {
    let pid = sys::pid();
    // SAFETY: touches no memory. Type 0 compares open files.
    match unsafe { libc::syscall(libc::SYS_kcmp, pid, pid, 0, first, second) } {
        -1 => toggles(first, second),
        order => order == 0,
    }
}

/// Whether both numbers have one description, without `kcmp`, which containers often forbid. The
/// test sets a flag through one number, and looks for it through the other. No call of the program
/// is under way.
fn toggles(first: RawFd, second: RawFd) -> bool {
    let flags = |fd| sys::control(fd, libc::F_GETFL, 0);
    let (Ok(before), Ok(other)) = (flags(first), flags(second)) else {
        return false;
    };
    if before != other {
        return false;
    }
    let changed = sys::control(first, libc::F_SETFL, before ^ libc::O_NONBLOCK);
    let shows = flags(second).is_ok_and(|flags| (flags ^ before) & libc::O_NONBLOCK != 0);
    let _ = sys::control(first, libc::F_SETFL, before);
    changed.is_ok() && shows
}
