//! Parks all other threads of the process, so that an image can be taken of it.
//!
//! `docs/threads-in-twins.md` describes the whole. [`park_others`] gives a guard. While it lives,
//! no other thread of the process runs, and none of them is in the middle of the library's heap.
//! When it is dropped, the threads continue. In a process restored from an image that was taken
//! meanwhile, dropping it makes them again.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::arena::{self, HeldHeap};
use crate::error::Refused;
use crate::sys;

mod first_thread;
pub(crate) mod kernel_state;
mod parking_signal;
mod saved_registers;
mod taker;
mod thread_signals;
pub(crate) mod thread_slots;

pub(crate) use first_thread::CloneSide;
pub(crate) use parking_signal::Meet;

/// The thread that parks the others, by its thread pointer; 0 for none.
static TAKER: AtomicUsize = AtomicUsize::new(0);

/// When the taker began to park them, in nanoseconds.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds for which a thread waits at most while another one is the taker.
const PATIENCE: u64 = 5_000_000_000;
/// Nanoseconds in which all threads are to be parked.
const PARKED_IN: u64 = 1_000_000_000;
/// Nanoseconds of one attempt. A thread that begins or ends has all signals blocked in the C
/// library, and may wait there for a lock of a thread that is parked: all go on for a moment.
const ATTEMPT: u64 = 50_000_000;

/// All other threads are parked while this lives, and all signals are blocked. It belongs to the
/// thread that made it.
#[derive(Debug)]
#[must_use]
pub struct Parked {
    /// Of the outermost guard of the thread.
    outer: Option<Outer>,
    /// Not to be given to another thread.
    thread: std::marker::PhantomData<*mut ()>,
}

#[derive(Debug)]
struct Outer {
    mask: sys::SignalSet,
    /// Whether the thread could be cancelled.
    cancel_state: c_int,
    /// `None` if the process has one thread.
    heap: Option<HeldHeap>,
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, former: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Says whether the calling thread can be cancelled, and returns what held before. A cancelled
/// thread would end in the middle of an image.
fn set_cancel_state(state: c_int) -> c_int {
    let mut former = 0;
    // SAFETY: the pointer is to a number.
    unsafe { pthread_setcancelstate(state, &mut former) };
    former
}

/// Finds out what parking needs to know, when the library starts. `request_signal` asks for images.
/// Requests that come by the signal that parks threads go to `meet`.
pub(crate) fn prepare(request_signal: i32, meet: Meet) {
    thread_signals::leave_out(request_signal);
    kernel_state::find_rseq();
    parking_signal::accept_requests(meet);
}

/// No request comes by the signal that parks threads any more.
pub(crate) fn remove_handler() {
    parking_signal::remove();
}

/// Passes a request on to the process's first thread. Says whether that was possible.
pub(crate) fn pass_to_first(value: u64) -> bool {
    !taker::has_ended(sys::pid()) && parking_signal::pass_to_first(value)
}

/// Takes the requests that wait for the calling thread as signals that park threads, and gives
/// their values.
pub(crate) fn take_requests(each: impl FnMut(u64)) {
    parking_signal::take_requests(each);
}

/// Parks all other threads, as soon as no other thread does so. To be called outside of signal
/// handlers.
///
/// # Errors
/// A thread does not stop within a second.
pub fn park_others() -> Result<Parked, Refused> {
    let begun = sys::now();
    loop {
        match try_park_others() {
            Err(Refused::Busy) if sys::now() < begun + PATIENCE => sys::sleep(100_000),
            result => return result,
        }
    }
}

/// Parks all other threads, unless another thread does so now. Safe in a signal handler.
///
/// # Errors
/// [`Refused::Busy`] if another thread parks this one, or is in the middle of the library's heap.
/// Otherwise as for [`park_others`].
pub fn try_park_others() -> Result<Parked, Refused> {
    let me = sys::thread_pointer();
    match TAKER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {}
        Err(taker) if taker == me => return Ok(Parked::new(None)),
        Err(_) => return Err(Refused::Busy),
    }
    let mask = sys::set_mask(sys::ALL_SIGNALS);
    let cancel_state = set_cancel_state(PTHREAD_CANCEL_DISABLE);
    SINCE.store(sys::now(), Ordering::Relaxed);
    let stopped = stop_others();
    let outer = |heap| Outer {
        mask,
        cancel_state,
        heap,
    };
    match stopped {
        Ok(heap) => Ok(Parked::new(Some(outer(heap)))),
        Err(refused) => {
            outer(None).end();
            Err(refused)
        }
    }
}

impl Outer {
    /// The thread is no longer the taker.
    fn end(self) {
        TAKER.store(0, Ordering::Release);
        set_cancel_state(self.cancel_state);
        sys::set_mask(self.mask);
    }
}

fn stop_others() -> Result<Option<HeldHeap>, Refused> {
    let count = sys::thread_count()
        .map_err(|errno| Refused::system("count the threads in /proc/self/task", errno))?;
    if count <= 1 {
        return Ok(None);
    }
    let end = sys::now() + PARKED_IN;
    loop {
        let heap = arena::hold().ok_or(Refused::Busy)?;
        match taker::stop_others(end.min(sys::now() + ATTEMPT)) {
            Ok(()) => {
                heap.become_exclusive();
                return Ok(Some(heap));
            }
            Err(why) => {
                drop(heap);
                taker::resume_others();
                let is_late = matches!(why, taker::NotStopped::Unparkable { .. });
                if !is_late || sys::now() > end {
                    return Err(why.into());
                }
            }
        }
        sys::sleep(1_000_000);
    }
}

impl Parked {
    fn new(outer: Option<Outer>) -> Self {
        Self {
            outer,
            thread: std::marker::PhantomData,
        }
    }

    /// When the other threads began to be parked, in nanoseconds.
    pub(crate) fn since(&self) -> u64 {
        SINCE.load(Ordering::Relaxed)
    }

    /// Runs `work` in the process's first thread, which may clone the process. In the clone, the
    /// caller is a thread again when this returns; the other threads follow when the guard is
    /// dropped.
    pub(crate) fn in_first_thread(&self, work: &mut dyn FnMut() -> CloneSide) {
        first_thread::in_first_thread(work);
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let Some(mut outer) = self.outer.take() else {
            return;
        };
        if let Some(heap) = outer.heap.take() {
            drop(heap);
            taker::resume_others();
            taker::queue_own_signals();
        }
        outer.end();
    }
}
