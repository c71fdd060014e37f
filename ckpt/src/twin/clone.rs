//! The raw clone.

use crate::sys;

/// Clones this process. With `as_sibling` the clone is a child of this process's parent. Otherwise
/// it is a child of this process that ends without a signal, so only a wait for all kinds of
/// children sees it.
///
/// The C library keeps the old thread number in the clone. A new number would break locks that the
/// interrupted program holds.
pub(super) fn clone(as_sibling: bool) -> sys::Sys<i32> {
    let raw = |flags: libc::c_int| {
        // SAFETY: without a new stack and without shared memory this is a fork: both sides continue
        // from here, each with memory of its own.
        sys::check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })
            .map(|pid| pid as i32)
    };
    if !as_sibling {
        return raw(0);
    }
    match raw(libc::CLONE_PARENT | libc::SIGCHLD) {
        // The first process of a namespace has no parent to give it to.
        Err(libc::EINVAL) => raw(0),
        result => result,
    }
}
