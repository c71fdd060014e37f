//! The signal that parks a thread, and what a thread does in its handler.
//!
//! glibc never lets a thread block its two internal signals. It uses this one to change the user of
//! a process with threads, and installs its own handler when it makes the first further thread. So
//! this handler is installed again for each parking, and passes on each signal that is neither the
//! taker's nor a request.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::first_thread;
use super::kernel_state::KernelState;
use super::saved_registers::{self, save_and_call};
use super::thread_slots::{self, PARKED, ThreadSlot, state};
use crate::hint::Hint;
use crate::rewind::{self, HandlerStart};
use crate::signals::{PARKING_SIGNAL, QueuedSignal, SignalAction, request_in};
use crate::sys;

const SA_RESTORER: u64 = 0x0400_0000;

/// Meets a request with this value in a handler, and hides the interruption.
pub(crate) type Meet = fn(u64, &mut libc::ucontext_t, HandlerStart);

/// A [`Meet`]; null until the library starts.
static MEET: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The program's action, while this module's stands: handler, flags, restorer, mask.
static FORMER: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

fn former() -> SignalAction {
    let [handler, flags, restorer, mask] = FORMER.each_ref().map(|f| f.load(Ordering::Acquire));
    SignalAction {
        handler: handler as usize,
        flags,
        restorer: restorer as usize,
        mask,
    }
}

fn set_former(action: &SignalAction) {
    let SignalAction {
        handler,
        flags,
        restorer,
        mask,
    } = *action;
    let values = [handler as u64, flags, restorer as u64, mask];
    for (place, value) in FORMER.iter().zip(values) {
        place.store(value, Ordering::Release);
    }
}

/// Signals that were sent and have not reached their handler.
static UNDER_WAY: AtomicU32 = AtomicU32::new(0);

/// From here on requests come by this signal, too.
pub(super) fn accept_requests(meet: Meet) {
    MEET.store(meet as *mut c_void, Ordering::Release);
    // Without the handler no request comes past a thread's mask.
    let _ = install();
}

/// Installs the handler, unless it stands.
pub(super) fn install() -> sys::Sys<()> {
    let action = SignalAction {
        handler: handle as *const () as usize,
        flags: (libc::SA_SIGINFO | libc::SA_RESTART) as u64 | SA_RESTORER,
        restorer: saved_registers::return_from_signal as *const () as usize,
        mask: sys::ALL_SIGNALS,
    };
    let present = SignalAction::read(PARKING_SIGNAL);
    if present.handler == action.handler {
        return Ok(());
    }
    set_former(&present);
    // SAFETY: handler and restorer are of the kinds that the flags say.
    unsafe { action.set(PARKING_SIGNAL) }.map(drop)
}

/// Puts the program's action back, unless another one stands, or a signal is still on its way. The
/// default action would end the process: a manager that has just seen the handler sends its request
/// in spite of this. So the signal is ignored instead.
pub(super) fn remove() {
    MEET.store(std::ptr::null_mut(), Ordering::Release);
    let is_ours = SignalAction::read(PARKING_SIGNAL).handler == handle as *const () as usize;
    if is_ours && UNDER_WAY.load(Ordering::Acquire) == 0 {
        let mut action = former();
        if action.handler == libc::SIG_DFL {
            action.handler = libc::SIG_IGN;
        }
        // SAFETY: it stood there before, or is no function.
        let _ = unsafe { action.set(PARKING_SIGNAL) };
    }
}

/// Passes a request on to the process's first thread. Says whether that was possible.
pub(super) fn pass_to_first(value: u64) -> bool {
    let (pid, info) = (sys::pid(), QueuedSignal::request(PARKING_SIGNAL, value));
    install().is_ok() && queue(pid, &info).is_ok()
}

/// Queues a signal for a thread of this process.
fn queue(tid: i32, info: &QueuedSignal) -> sys::Sys<()> {
    let (pid, info) = (sys::pid(), std::ptr::from_ref(info));
    // SAFETY: the pointer is to as many bytes as a siginfo has.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, PARKING_SIGNAL, info) };
    sys::check(result).map(drop)
}

/// Gives the values of the requests that wait for the calling thread. Other signals of this number
/// wait on.
pub(super) fn take_requests(mut each: impl FnMut(u64)) {
    const MOST: usize = 8;
    for _ in 0..MOST {
        let Some(info) = sys::take_signal(sys::bit(PARKING_SIGNAL)) else {
            return;
        };
        match request_in(&info) {
            Some(value) => each(value),
            None => drop(sys::queue_signal(sys::tid(), &info)),
        }
    }
}

/// In a restored process: no signal has come along.
pub(super) fn forget_signals() {
    UNDER_WAY.store(0, Ordering::Release);
}

/// Sends the signal to a thread of this process.
pub(super) fn send(slot: &'static ThreadSlot, tid: i32) -> sys::Sys<()> {
    let info = QueuedSignal::new(PARKING_SIGNAL, std::ptr::from_ref(slot).addr() as u64);
    UNDER_WAY.fetch_add(1, Ordering::AcqRel);
    queue(tid, &info).inspect_err(|_| {
        UNDER_WAY.fetch_sub(1, Ordering::AcqRel);
    })
}

unsafe extern "C" fn handle(
    signal: i32,
    info: *mut libc::siginfo_t,
    interrupted: *mut libc::ucontext_t,
) {
    let errno = sys::errno();
    let begin = HandlerStart::now(signal);
    // SAFETY: the kernel gives valid information.
    let Some(slot) = (unsafe { own_slot(&*info) }) else {
        // SAFETY: the arguments are the kernel's.
        unsafe {
            match request_in(&*info) {
                Some(value) => meet(value, &mut *interrupted, begin),
                None => pass_on(signal, info, interrupted),
            }
        }
        sys::set_errno(errno);
        return;
    };
    // One that the thread took along into a clone is not counted there.
    let arrived = |count: u32| count.checked_sub(1);
    let _ = UNDER_WAY.fetch_update(Ordering::AcqRel, Ordering::Acquire, arrived);
    // SAFETY: the kernel gives the interrupted registers, and takes them back when this returns.
    let interrupted = unsafe { &mut *interrupted };
    slot.waits_for_owner
        .store(rewind::waits_for_owner(interrupted), Ordering::Relaxed);
    park(slot);
    let hint = Hint::from_word(slot.hint.load(Ordering::Relaxed));
    // SAFETY: as above; the slot is this thread's.
    unsafe { rewind::settle(interrupted, hint, begin, slot.restarts()) };
    sys::set_errno(errno);
}

/// This thread's slot, if the signal is the taker's.
fn own_slot(info: &libc::siginfo_t) -> Option<&'static ThreadSlot> {
    if info.si_code != libc::SI_QUEUE {
        return None;
    }
    // SAFETY: a queued signal has a sender and a value.
    let (pid, value) = unsafe { (info.si_pid(), info.si_value().sival_ptr.addr()) };
    if pid != sys::pid() {
        return None;
    }
    thread_slots::at(value).filter(|slot| slot.tid.load(Ordering::Acquire) == sys::tid())
}

fn meet(value: u64, interrupted: &mut libc::ucontext_t, begin: HandlerStart) {
    let meet = MEET.load(Ordering::Acquire);
    if !meet.is_null() {
        // SAFETY: `accept_requests` stored a function of this type.
        let meet = unsafe { std::mem::transmute::<*mut c_void, Meet>(meet) };
        meet(value, interrupted, begin);
    }
}

/// Gives a signal to the program's handler.
///
/// # Safety
/// The arguments are what the kernel gave.
unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, interrupted: *mut libc::ucontext_t) {
    let former = former();
    if !former.has_handler() {
        return;
    }
    type WithInfo = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::ucontext_t);
    type Plain = unsafe extern "C" fn(i32);
    // SAFETY: the program installed a function of the kind that the flags say.
    unsafe {
        if former.flags & libc::SA_SIGINFO as u64 == 0 {
            std::mem::transmute::<usize, Plain>(former.handler)(signal);
        } else {
            std::mem::transmute::<usize, WithInfo>(former.handler)(signal, info, interrupted);
        }
    }
}

/// Parks this thread, if it is still asked to. Returns when it may continue, in this process or as
/// a new thread of a restored one.
fn park(slot: &'static ThreadSlot) {
    if slot.state.load(Ordering::Acquire) != state::ASKED {
        return;
    }
    let argument = std::ptr::from_ref(slot).cast_mut().cast();
    // SAFETY: only this thread writes to its slot before it is parked, and `wait` takes a slot.
    let is_new = unsafe {
        (*slot.kernel.get()).write(KernelState::read());
        (*slot.signals.get()).take();
        slot.process
            .store(thread_slots::process(), Ordering::Relaxed);
        save_and_call(slot.registers.get(), wait, argument)
    };
    if is_new {
        // SAFETY: written above, in the process that the image is of.
        unsafe { (*slot.kernel.get()).assume_init_ref() }.restore();
        slot.tid.store(sys::tid(), Ordering::Release);
        // The state first: parked in this process, it would count as stopped.
        slot.state.store(state::RUNNING, Ordering::Release);
        slot.process
            .store(thread_slots::process(), Ordering::Release);
        first_thread::wait_to_run();
    }
    // SAFETY: the slot is this thread's again.
    unsafe { (*slot.signals.get()).queue_again() };
}

/// Waits in the handler for the taker.
unsafe extern "C" fn wait(slot: *mut c_void) {
    // SAFETY: `park` passes a slot, which lives forever.
    let slot = unsafe { &*slot.cast::<ThreadSlot>() };
    let (order, failure) = (Ordering::AcqRel, Ordering::Acquire);
    let parked = slot
        .state
        .compare_exchange(state::ASKED, state::PARKED, order, failure);
    if parked.is_err() {
        return;
    }
    PARKED.fetch_add(1, Ordering::AcqRel);
    sys::futex_wake(&PARKED, 1);
    loop {
        match slot.state.load(Ordering::Acquire) {
            state::PARKED => sys::futex_wait(&slot.state, state::PARKED, None),
            state::CALLED => {
                first_thread::run_call(slot);
                slot.state.store(state::PARKED, Ordering::Release);
                sys::futex_wake(&slot.state, i32::MAX);
            }
            state::COLLECTING => {
                // SAFETY: the slot is this thread's, and the taker waits.
                unsafe { (*slot.signals.get()).take_more() };
                slot.state.store(state::PARKED, Ordering::Release);
                sys::futex_wake(&slot.state, i32::MAX);
            }
            _ => return slot.state.store(state::RUNNING, Ordering::Release),
        }
    }
}
