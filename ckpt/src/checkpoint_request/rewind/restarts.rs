//! What the handler keeps of calls that it started again, and the registers by which it knows them.

use std::cell::UnsafeCell;

use libc::{greg_t, timespec};

use super::super::hint::CallSite;
use crate::sys;

/// The saved general registers of a context, in the order of `libc::REG_*`.
pub(super) type Registers = [greg_t; 23];

pub(super) const RAX: usize = libc::REG_RAX as usize;
pub(super) const RIP: usize = libc::REG_RIP as usize;
pub(super) const RSP: usize = libc::REG_RSP as usize;
pub(super) const RDI: usize = libc::REG_RDI as usize;
pub(super) const RSI: usize = libc::REG_RSI as usize;
pub(super) const RDX: usize = libc::REG_RDX as usize;
pub(super) const R10: usize = libc::REG_R10 as usize;
pub(super) const R8: usize = libc::REG_R8 as usize;
pub(super) const R9: usize = libc::REG_R9 as usize;

/// When the handler began, and in which process.
#[derive(Clone, Copy)]
pub(in crate::checkpoint_request) struct HandlerStart {
    /// The next order may wait already: it interrupts nothing either.
    pub(super) signal: i32,
    pub(super) time: u64,
    process: i32,
}

impl HandlerStart {
    pub(in crate::checkpoint_request) fn now(signal: i32) -> Self {
        Self {
            signal,
            time: sys::now(),
            process: sys::pid(),
        }
    }

    /// Up to when a time-out has run: the handler's own time counts, but not how long an image was
    /// kept.
    pub(super) fn counted(&self) -> u64 {
        if sys::pid() == self.process {
            sys::now()
        } else {
            self.time
        }
    }
}

/// Time-outs of calls that were started again. Only the handler uses it, and it is never
/// interrupted.
pub(super) struct Restarts {
    /// What a call's argument points to in place of the program's own: so the call is known again.
    pub(super) time: UnsafeCell<timespec>,
    pub(super) call: UnsafeCell<RestartedCall>,
    /// Where the last such call was made, and its number.
    pub(super) last: UnsafeCell<(CallSite, i64)>,
}

// SAFETY: a process with twins has one thread.
unsafe impl Sync for Restarts {}

/// A call that was started again.
#[derive(Clone, Copy)]
pub(super) struct RestartedCall {
    pub(super) stack: greg_t,
    pub(super) code: greg_t,
    /// The time-out it was given then, in milliseconds.
    pub(super) argument: greg_t,
    /// When it is over, in nanoseconds.
    pub(super) deadline: u64,
}

pub(super) static RESTARTS: Restarts = Restarts {
    last: UnsafeCell::new(([0; 8], 0)),
    time: UnsafeCell::new(timespec {
        tv_sec: 0,
        tv_nsec: 0,
    }),
    call: UnsafeCell::new(RestartedCall {
        stack: 0,
        code: 0,
        argument: 0,
        deadline: 0,
    }),
};
