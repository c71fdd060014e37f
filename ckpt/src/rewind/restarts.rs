//! State of the calls that a thread's handlers restarted, and the registers by which they recognise
//! them.

use std::cell::UnsafeCell;

use libc::{greg_t, timespec};

use crate::hint::CallSite;
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

/// Marks a restarted call, in the upper half of the register of an `int`, which the kernel ignores.
const MARK: greg_t = 0x0052_6a6e << 32;

/// The register of an `int` argument, with the mark of a restarted call.
pub(super) fn marked(argument: greg_t) -> greg_t {
    argument & 0xffff_ffff | MARK
}

/// When the handler began, and in which process.
#[derive(Clone, Copy)]
pub(crate) struct HandlerStart {
    /// The next request may be pending already; it interrupts no call either.
    pub(super) signal: i32,
    pub(super) time: u64,
    process: i32,
}

impl HandlerStart {
    pub(crate) fn now(signal: i32) -> Self {
        Self {
            signal,
            time: sys::now(),
            process: sys::pid(),
        }
    }

    /// The time until which a time-out has run. It includes the handler's own time, but not the
    /// time that an image was frozen.
    pub(super) fn counted(&self) -> u64 {
        if sys::pid() == self.process {
            sys::now()
        } else {
            self.time
        }
    }
}

/// Time-outs of a thread's restarted calls. Only the thread's own handlers use this. They may nest:
/// the inner one finds a call of the outer one, and neither keeps a reference over such a call.
pub(crate) struct Restarts {
    /// A call's argument points here instead of the program's own time-out. So the handler
    /// recognises the call.
    pub(super) time: UnsafeCell<timespec>,
    pub(super) call: UnsafeCell<RestartedCall>,
    /// Where the last such call was made, and its number.
    pub(super) last: UnsafeCell<(CallSite, i64)>,
}

/// A call that was started again.
#[derive(Clone, Copy)]
pub(super) struct RestartedCall {
    pub(super) stack: greg_t,
    pub(super) code: greg_t,
    /// The marked argument that it was given then.
    pub(super) argument: greg_t,
    /// When it is over, in nanoseconds.
    pub(super) deadline: u64,
}
