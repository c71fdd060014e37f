//! Signals as the kernel defines them, where the C library's view is narrower.

use crate::sys;

/// The signal that parks threads: glibc's `SIGSETXID`, which no thread blocks. Requests come by it,
/// too.
pub(crate) const PARKING_SIGNAL: i32 = 33;

/// The kernel's own `struct sigaction`. Not the C library's function: it takes a lock for some
/// signals and refuses others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct SignalAction {
    pub handler: usize,
    pub flags: u64,
    pub restorer: usize,
    pub mask: sys::SignalSet,
}

impl SignalAction {
    /// The present action of a signal.
    pub fn read(signal: i32) -> Self {
        let mut action = Self::default();
        let none = std::ptr::null::<Self>();
        // SAFETY: the pointer is to the kernel's structure, whose set has the size given.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, none, &raw mut action, 8) };
        action
    }

    /// Makes this the action of a signal, and gives the former one.
    ///
    /// # Safety
    /// Handler and restorer are functions of the kind that the flags say.
    pub unsafe fn set(&self, signal: i32) -> sys::Sys<Self> {
        let mut former = Self::default();
        let (new, old) = (std::ptr::from_ref(self), &raw mut former);
        // SAFETY: the pointers are to the kernel's structures, whose sets have the size given; the
        // functions are the caller's word.
        let result = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, 8) };
        sys::check(result).map(|_| former)
    }

    /// Whether a function handles the signal.
    pub fn has_handler(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }
}

/// The error number that tells a request from other signals of the same number. The kernel passes
/// it on without a meaning of its own.
const REQUEST: i32 = 0x5a_1e5e;

/// The value of a signal that requests a checkpoint; `None` for another signal.
pub(crate) fn request_in(info: &libc::siginfo_t) -> Option<u64> {
    let is_request = info.si_code == libc::SI_QUEUE && info.si_errno == REQUEST;
    // SAFETY: a queued signal has a value.
    is_request.then(|| unsafe { info.si_value() }.sival_ptr.addr() as u64)
}

/// A `siginfo_t` as the kernel reads it for a queued signal.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct QueuedSignal {
    signal: i32,
    errno: i32,
    code: i32,
    pad: i32,
    pid: i32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

impl QueuedSignal {
    /// A signal of this process with a value.
    pub fn new(signal: i32, value: u64) -> Self {
        Self::marked(signal, value, 0)
    }

    /// A signal that requests a checkpoint.
    pub fn request(signal: i32, value: u64) -> Self {
        Self::marked(signal, value, REQUEST)
    }

    fn marked(signal: i32, value: u64, errno: i32) -> Self {
        // SAFETY: touches no memory.
        let uid = unsafe { libc::getuid() };
        Self {
            signal,
            errno,
            code: libc::SI_QUEUE,
            pad: 0,
            pid: sys::pid(),
            uid,
            value,
            rest: [0; 12],
        }
    }
}

const _: () = assert!(size_of::<QueuedSignal>() == size_of::<libc::siginfo_t>());
