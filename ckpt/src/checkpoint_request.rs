//! Checkpoint requests by signal, at any place in the program. The program does not notice them.
//!
//! The signal carries the epoch. The handler asks the library whether it may take an image at this
//! place ([`Ask`]). If so, the library takes it. If not, the request is pending until the next safe
//! point ([`take_pending`]). Some calls report an interruption although the handler asks for their
//! restart. The handler restarts them by changing the saved registers.
//!
//! Two effects cannot be hidden. A long write to a pipe or socket returns the part that it has
//! written. A relative time-out whose rest the system does not report starts anew once. The
//! time-out of a socket starts anew at each request, until its time is over.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

use crate::hint::Hint;
use crate::rewind::{self, HandlerStart};
use crate::signals::QueuedSignal;
use crate::threads::thread_slots;
use crate::{proc, sys, threads};

/// Takes the image of an epoch if one may be taken here, and says whether it may. Runs in the
/// handler, with all signals blocked.
pub type Ask = fn(epoch: u32) -> bool;

/// The signal of requests unless another is configured: `SIGRTMAX - 2`.
#[must_use]
pub fn usual_signal() -> i32 {
    libc::SIGRTMAX() - 2
}

/// The process that requests are for: a child that the program forks inherits the handler, but is
/// not the rank.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// The epoch of the pending request, plus one; 0 for none.
static PENDING: AtomicU64 = AtomicU64::new(0);
static ASK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Installs the handler.
///
/// # Errors
/// When the system refuses the signal.
pub fn install(signal: i32, ask: Ask) -> io::Result<()> {
    ASK.store(ask as *mut c_void, Ordering::Release);
    rebind();
    threads::prepare(signal);
    // SAFETY: `sigaction` is plain data; the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Ignores the signal from now on, when the program stops using the library. Later requests do no
/// harm.
pub fn remove(signal: i32) {
    // SAFETY: takes no address.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Returns the epoch of the pending request, once.
pub fn take_pending() -> Option<u32> {
    if PENDING.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // Stored as an epoch plus one, so it fits.
    PENDING
        .swap(0, Ordering::AcqRel)
        .checked_sub(1)
        .map(|epoch| epoch as u32)
}

/// Whether a request is pending.
#[inline]
pub fn is_pending() -> bool {
    PENDING.load(Ordering::Relaxed) != 0
}

/// Leaves a request for the next safe point.
fn defer(epoch: u32) {
    PENDING.fetch_max(u64::from(epoch) + 1, Ordering::AcqRel);
}

/// Moves a request that arrived while the program began to block signals to the next safe point.
/// Neither the program nor an image may find the signal. Safe in a signal handler.
pub fn drain() {
    let set = sys::bit(usual_signal());
    if sys::pending() & set == 0 {
        return;
    }
    let errno = sys::errno();
    // SAFETY: both structures are plain data for which all zeros is a value.
    let (mut info, now): (libc::siginfo_t, libc::timespec) = unsafe { std::mem::zeroed() };
    let (set, info_at, now) = (&raw const set, &raw mut info, &raw const now);
    // SAFETY: the pointers are to a set of the size given, to details to fill in, and to a
    // timespec.
    while unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, set, info_at, now, 8) } > 0 {
        if info.si_code == libc::SI_QUEUE {
            // SAFETY: the kernel has filled in the value of a queued signal.
            defer(unsafe { info.si_value() }.sival_ptr as u64 as u32);
        }
    }
    sys::set_errno(errno);
}

/// Makes this process, a new one, the process that requests are for.
pub(crate) fn rebind() {
    PROCESS.store(sys::pid(), Ordering::Release);
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = sys::errno();
    let begin = HandlerStart::now(signal);
    // SAFETY: the kernel gives a handler with SA_SIGINFO valid information.
    let (is_request, value) = unsafe {
        let is_request = (*info).si_code == libc::SI_QUEUE;
        (is_request, (*info).si_value().sival_ptr as u64)
    };
    if is_request && sys::pid() == PROCESS.load(Ordering::Acquire) {
        arrived(value as u32);
    }
    if let Some(slot) = thread_slots::mine() {
        // SAFETY: the kernel gives the interrupted registers, and takes them back when this
        // returns. The slot is this thread's.
        unsafe {
            rewind::settle(
                &mut *context.cast::<libc::ucontext_t>(),
                Hint::of(value),
                begin,
                slot.restarts(),
            );
        }
    }
    sys::set_errno(errno);
}

/// The request is pending before the library is asked. So a call of another thread that ends
/// meanwhile finds it.
fn arrived(epoch: u32) {
    defer(epoch);
    let ask = ASK.load(Ordering::Acquire);
    if ask.is_null() {
        return;
    }
    // SAFETY: `install` stored a function of this type.
    let ask = unsafe { std::mem::transmute::<*mut c_void, Ask>(ask) };
    loop {
        let pending = PENDING.load(Ordering::Acquire);
        // Stored as an epoch plus one, so it fits.
        let Some(latest) = pending.checked_sub(1) else {
            return;
        };
        if !ask(latest as u32) {
            return;
        }
        // A later request that arrived meanwhile stays.
        let (order, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = PENDING.compare_exchange(pending, 0, order, failure);
    }
}

/// Observations of a rank's processes by earlier tries of [`send`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pid: i32,
    /// The process takes the signal in its own code. No later try found the signal blocked.
    open: bool,
    /// Set when a try found the process running with the signal unblocked: its processor time in
    /// nanoseconds, and how often it had gone to sleep. A try that finds the signal blocked clears
    /// it.
    ran: Option<(u64, u64)>,
    /// How many tries in a row found this.
    times: u8,
}

/// Time on a processor, in nanoseconds, after which a process that never slept is in no call.
const RAN: u64 = 1_000_000;

/// After so many tries in a row that found the process running with the signal unblocked, it counts
/// as such. A process on its way out of a wait for signals is not found there several times.
const TIMES: u8 = 4;

/// Sends a request to the rank that `pidfd` and `pid` name, if the rank takes the signal at once.
/// Otherwise it returns `false`: the request by socket stands, and the caller may try again. The
/// signal would kill a process that changed its disposition or runs another program by now. A
/// program that blocks the signal, or waits for all signals (`sigwait`), would find a signal that
/// is not its own.
///
/// # Errors
/// When the process is gone, or the system refuses.
pub fn send(
    pidfd: BorrowedFd<'_>,
    pid: i32,
    signal: i32,
    epoch: u32,
    seen: &mut Seen,
) -> io::Result<bool> {
    let mut text = Vec::with_capacity(4096);
    if seen.pid != pid {
        // A process restored from an image blocks the signals that the former process blocked.
        (seen.pid, seen.ran, seen.times) = (pid, None, 0);
    }
    let before = std::mem::take(&mut seen.open);
    if !is_open(pid, signal, &mut text)? {
        (seen.ran, seen.times) = (None, 0);
        return Ok(false);
    }
    let call = sys::ShortPath::new(format_args!("/proc/{pid}/syscall"));
    let (hint, sleeps) = match sys::read_file(call.as_c_str(), &mut text) {
        Ok(()) if waits_for(pid, signal, &text) => {
            (seen.ran, seen.times) = (None, 0);
            return Ok(false);
        }
        Ok(()) => (
            Hint::read(&text),
            text.first().is_some_and(u8::is_ascii_digit),
        ),
        Err(_) => (Hint::none(), false),
    };
    // While a process waits for signals, the system shows them as not blocked. The process may have
    // waited a moment ago.
    if !is_open(pid, signal, &mut text)? {
        return Ok(false);
    }
    // For a runnable process the system does not report the call that it returns from.
    if !before && !sleeps && !seen.runs(pid, &text) {
        return Ok(false);
    }
    (seen.open, seen.ran, seen.times) = (true, None, 0);
    queue(pidfd, signal, hint.with(epoch)).map(|()| true)
}

impl Seen {
    /// Whether a process has been running with the signal unblocked since the last try, and slept
    /// in no call. `status` is the text of `/proc/PID/status`.
    fn runs(&mut self, pid: i32, status: &[u8]) -> bool {
        self.times += 1;
        if self.times >= TIMES {
            return true;
        }
        let field = |name| proc::field(status, name).and_then(proc::number);
        let path = sys::ShortPath::new(format_args!("/proc/{pid}/schedstat"));
        let mut text = Vec::with_capacity(64);
        let read = sys::read_file(path.as_c_str(), &mut text).ok();
        let time = read.and_then(|()| proc::words(text.trim_ascii()).next().and_then(proc::number));
        let Some((ran, slept)) = time.zip(field("voluntary_ctxt_switches:")) else {
            return false;
        };
        match self.ran {
            Some((then, before)) if slept == before => ran >= then + RAN,
            _ => {
                self.ran = Some((ran, slept));
                false
            }
        }
    }
}

/// Whether a process handles a signal and does not block it.
fn is_open(pid: i32, signal: i32, text: &mut Vec<u8>) -> io::Result<bool> {
    let status = sys::ShortPath::new(format_args!("/proc/{pid}/status"));
    sys::read_file(status.as_c_str(), text).map_err(io::Error::from_raw_os_error)?;
    let has = |name| {
        let set = proc::field(text, name).and_then(proc::hex).unwrap_or(0);
        set & sys::bit(signal) != 0
    };
    Ok(has("SigCgt:") && !has("SigBlk:"))
}

/// Whether a process is in a call that takes this signal as its result, by the text of
/// `/proc/PID/syscall`.
fn waits_for(pid: i32, signal: i32, call: &[u8]) -> bool {
    let mut words = proc::words(call.trim_ascii());
    let number = words.next().and_then(proc::number);
    if number.and_then(|n| i64::try_from(n).ok()) != Some(libc::SYS_rt_sigtimedwait) {
        return false;
    }
    let Some(set) = words.next().and_then(proc::hex) else {
        return true;
    };
    let mut bytes = [0u8; 8];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"));
    let read = memory.and_then(|memory| memory.read_exact_at(&mut bytes, set));
    // Without the set, assume that the call waits for the signal.
    read.is_err() || u64::from_ne_bytes(bytes) & sys::bit(signal) != 0
}

/// Sends the signal to the first thread of the process, which has the largest stack. Kernels before
/// Linux 6.9 choose the thread.
fn queue(pidfd: BorrowedFd<'_>, signal: i32, value: u64) -> io::Result<()> {
    const PIDFD_SIGNAL_THREAD: u32 = 1;
    let info = QueuedSignal::new(signal, value);
    let fd = pidfd.as_raw_fd();
    let send = |flags: u32| {
        // SAFETY: the pointer is to as many bytes as a siginfo has.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                fd,
                signal,
                &raw const info,
                flags,
            )
        };
        sys::check(result).map(drop)
    };
    let sent = match send(PIDFD_SIGNAL_THREAD) {
        Err(libc::EINVAL) => send(0),
        sent => sent,
    };
    sent.map_err(io::Error::from_raw_os_error)
}
