//! Requests for a checkpoint that come by signal, wherever the program is. The program does not
//! notice.
//!
//! The signal carries the epoch. The handler asks the library whether an image may be taken right
//! there, and if so the library takes it ([`Ask`]); if not, the request is pending until the next
//! safe point ([`take_pending`]). Calls that report an interruption although the handler asks for
//! their restart are started again by changing the saved registers (x86-64; elsewhere such calls
//! return EINTR as they do for any signal).
//!
//! What cannot be hidden: a long write to a pipe or socket returns the part that it has written,
//! and a relative time-out of which the system does not tell the rest starts anew, once (that of a
//! socket's own: at each order, until its time is over).

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

use crate::{proc, sys};

mod hint;
#[cfg(target_arch = "x86_64")]
mod rewind;

pub use hint::Hint;

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

/// Ignores the signal from now on: at the end of the library's use. What still comes does no harm.
pub fn remove(signal: i32) {
    // SAFETY: takes no address.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// The epoch of the request that could not be met where it came, once.
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

/// Takes a request that came just when the program began to block signals, and leaves it for the
/// next safe point: the program must not find it, nor must an image hold it. Safe in a signal
/// handler.
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

/// The process is another one now.
pub(crate) fn rebind() {
    PROCESS.store(sys::pid(), Ordering::Release);
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = sys::errno();
    #[cfg(target_arch = "x86_64")]
    let begin = rewind::HandlerStart::now(signal);
    // SAFETY: the kernel gives a handler with SA_SIGINFO valid information.
    let (is_request, value) = unsafe {
        let is_request = (*info).si_code == libc::SI_QUEUE;
        (is_request, (*info).si_value().sival_ptr as u64)
    };
    if is_request && sys::pid() == PROCESS.load(Ordering::Acquire) {
        arrived(value as u32);
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel gives the interrupted registers, and takes them back when this returns.
    unsafe {
        rewind::settle(
            &mut *context.cast::<libc::ucontext_t>(),
            Hint::of(value),
            begin,
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (context, signal);
    sys::set_errno(errno);
}

fn arrived(epoch: u32) {
    let ask = ASK.load(Ordering::Acquire);
    if ask.is_null() {
        return;
    }
    // SAFETY: `install` stored a function of this type.
    let ask = unsafe { std::mem::transmute::<*mut c_void, Ask>(ask) };
    let mut latest = epoch;
    while ask(latest) {
        // A later one that came meanwhile was drained.
        match take_pending() {
            Some(epoch) if epoch > latest => latest = epoch,
            _ => return,
        }
    }
    defer(latest);
}

/// What earlier tries saw of a rank's processes, for [`send`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pid: i32,
    /// It takes the signal in its own code, and has not been seen to block it since.
    open: bool,
    /// Since it was seen to block it, or first, it was seen running with the signal open: its time
    /// on processors in nanoseconds, and how often it had gone to sleep.
    ran: Option<(u64, u64)>,
    /// How often it was so in a row.
    times: u8,
}

/// Time on a processor, in nanoseconds, after which a process that never slept is in no call.
const RAN: u64 = 1_000_000;

/// Tries in a row that found a process running with the signal open, which is then taken to be: one
/// that comes out of a wait for signals is not met there time after time.
const TIMES: u8 = 4;

/// Sends a request to the rank that `pidfd` and `pid` name, if it takes the signal at once. A
/// program that changed what the signal does, or runs another program by now, would die of it; one
/// that blocks it, or waits for all signals (`sigwait`), would find one that is none of its own.
/// `false` then: the request by socket stands, and the caller may try again.
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
        // One that comes of an image blocks what the one before did.
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
    // While a process waits for signals the system shows them as not blocked, and it may have done
    // so a moment ago.
    if !is_open(pid, signal, &mut text)? {
        return Ok(false);
    }
    // Of one that is to run again the system does not tell what call it comes out of.
    if !before && !sleeps && !seen.runs(pid, &text) {
        return Ok(false);
    }
    (seen.open, seen.ran, seen.times) = (true, None, 0);
    queue(pidfd, signal, hint.with(epoch)).map(|()| true)
}

impl Seen {
    /// Whether a process has been running with the signal open since the last try, and slept in no
    /// call; by the text of `/proc/PID/status`.
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

/// Whether a process handles a signal and does not put it off.
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
    // Who can't tell must not meddle.
    read.is_err() || u64::from_ne_bytes(bytes) & sys::bit(signal) != 0
}

/// The head of a `siginfo_t` as the kernel reads it for a queued signal.
#[repr(C)]
struct Queued {
    signal: i32,
    errno: i32,
    code: i32,
    pad: i32,
    pid: i32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

fn queue(pidfd: BorrowedFd<'_>, signal: i32, value: u64) -> io::Result<()> {
    let code = libc::SI_QUEUE;
    // SAFETY: touches no memory.
    let uid = unsafe { libc::getuid() };
    let pid = sys::pid();
    let info = Queued {
        signal,
        errno: 0,
        code,
        pad: 0,
        pid,
        uid,
        value,
        rest: [0; 12],
    };
    let fd = pidfd.as_raw_fd();
    // SAFETY: the pointer is to as many bytes as a siginfo has.
    let result =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, &raw const info, 0) };
    sys::check(result)
        .map(drop)
        .map_err(io::Error::from_raw_os_error)
}

const _: () = assert!(std::mem::size_of::<Queued>() == std::mem::size_of::<libc::siginfo_t>());
