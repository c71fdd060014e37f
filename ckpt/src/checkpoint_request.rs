//! Checkpoint requests by signal, at any place in the program. The program does not notice them.
//!
//! The signal carries the epoch. The handler asks the library whether it may take an image at this
//! place ([`Ask`]). If so, the library takes it. If not, the request is pending until the next safe
//! point ([`take_pending`]).
//!
//! The process's first thread has the largest stack, so it takes the image. If it blocks the
//! signal, [`send`] finds another thread, whose handler passes the request on to the first one.
//! That goes by the signal that parks threads, which no thread blocks.
//!
//! Some calls report an interruption although the handler asks for their restart. The handler
//! restarts them by changing the saved registers.
//!
//! Two effects cannot be hidden. A long write to a pipe or socket returns the part that it has
//! written. A relative time-out whose rest the system does not report starts anew once. The
//! time-out of a socket starts anew at each request, until its time is over.

use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

use crate::hint::Hint;
use crate::rewind::{self, HandlerStart};
use crate::signals::PARKING_SIGNAL;
use crate::threads::thread_slots;
use crate::{sys, threads};

mod sending;

pub use sending::{Seen, send};

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
    threads::prepare(signal, meet);
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
    threads::remove_handler();
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
    if sys::pending() & (set | sys::bit(PARKING_SIGNAL)) == 0 {
        return;
    }
    let errno = sys::errno();
    while let Some(info) = sys::take_signal(set) {
        if info.si_code == libc::SI_QUEUE {
            // SAFETY: the kernel has filled in the value of a queued signal.
            defer(unsafe { info.si_value() }.sival_ptr as u64 as u32);
        }
    }
    threads::take_requests(|value| defer(value as u32));
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
    // SAFETY: the kernel gives the interrupted registers, and takes them back when this returns.
    let interrupted = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let value = if is_request { value } else { 0 };
    if is_request && is_for_first_thread(value as u32) && threads::pass_to_first(value) {
        settle(value, interrupted, begin);
    } else {
        meet(value, interrupted, begin);
    }
    sys::set_errno(errno);
}

/// Whether this is another thread than the first one. Its request stays pending, for a thread that
/// enters the library meanwhile.
fn is_for_first_thread(epoch: u32) -> bool {
    let (pid, tid) = (sys::pid(), sys::tid());
    if pid == tid || pid != PROCESS.load(Ordering::Acquire) {
        return false;
    }
    defer(epoch);
    true
}

/// Meets a request with this value in a handler, if it is for this process; 0 is no request.
fn meet(value: u64, interrupted: &mut libc::ucontext_t, begin: HandlerStart) {
    if value != 0 && sys::pid() == PROCESS.load(Ordering::Acquire) {
        arrived(value as u32);
    }
    settle(value, interrupted, begin);
}

/// Hides the interruption from the program.
fn settle(value: u64, interrupted: &mut libc::ucontext_t, begin: HandlerStart) {
    if let Some(slot) = thread_slots::mine() {
        // SAFETY: the caller is a handler, to which the kernel gave the interrupted registers. The
        // slot is this thread's.
        unsafe { rewind::settle(interrupted, Hint::of(value), begin, slot.restarts()) };
    }
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
