//! The raw clone, and the state of a thread that must be registered again in it.

use std::ffi::c_void;

use crate::sys;

/// State of a thread that the kernel does not copy to its clone, although the C library relies on
/// it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadState {
    robust_list: *mut c_void,
    robust_length: usize,
    tid_address: *mut c_void,
}

impl ThreadState {
    /// Reads it.
    pub fn read() -> Self {
        let null = std::ptr::null_mut();
        let mut state = Self {
            robust_list: null,
            robust_length: 0,
            tid_address: null,
        };
        let (list, length) = (&raw mut state.robust_list, &raw mut state.robust_length);
        // SAFETY: the pointers are to a pointer, to a length and to a pointer, which the system
        // sets.
        unsafe {
            libc::syscall(libc::SYS_get_robust_list, 0, list, length);
            libc::prctl(
                libc::PR_GET_TID_ADDRESS,
                &raw mut state.tid_address,
                0,
                0,
                0,
            );
        }
        state
    }

    /// Registers it in a clone.
    pub fn restore(&self) {
        // SAFETY: the addresses are those that the C library gave for this very memory.
        unsafe {
            if !self.robust_list.is_null() {
                libc::syscall(
                    libc::SYS_set_robust_list,
                    self.robust_list,
                    self.robust_length,
                );
            }
            if !self.tid_address.is_null() {
                libc::syscall(libc::SYS_set_tid_address, self.tid_address);
            }
        }
    }
}

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

/// A twin's name in `ps` and `/proc/PID/comm`.
pub const NAME: &str = "rejoin-twin";

/// This thread's name.
pub(super) fn name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: the system writes 16 bytes at most.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) };
    name
}

/// Sets this thread's name, which ends with a zero byte.
pub(super) fn set_name(name: &[u8; 16]) {
    // SAFETY: the system reads 16 bytes at most.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}
