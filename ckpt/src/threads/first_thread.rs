//! Work that the process's first thread does on behalf of the taker, and threads of a clone.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::kernel_state::KernelState;
use super::saved_registers::{self, SavedRegisters, ThreadAddresses, save_and_call};
use super::thread_slots::{self, ThreadSlot, state};
use crate::sys;

/// In which process the work of [`in_first_thread`] has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloneSide {
    /// The same process as before.
    Same,
    /// A clone of it, with one thread.
    Clone,
}

/// Work of the taker for the first thread.
struct Call {
    /// A `&mut dyn FnMut() -> CloneSide`.
    work: *mut c_void,
    registers: SavedRegisters,
    kernel: KernelState,
    /// The taker's slot.
    taker: Option<&'static ThreadSlot>,
}

/// What the first thread runs.
static CALL: AtomicPtr<Call> = AtomicPtr::new(std::ptr::null_mut());

/// Runs `work` in the process's first thread, while all others are parked. If it ends in a clone,
/// the taker becomes a thread of the clone.
pub(super) fn in_first_thread(mut work: &mut dyn FnMut() -> CloneSide) {
    let (me, pid) = (sys::tid(), sys::pid());
    let mine = thread_slots::find(me);
    let first = thread_slots::find(pid)
        .filter(|slot| me != pid && slot.state.load(Ordering::Acquire) == state::PARKED);
    let side = match first {
        Some(first) => call_first(first, mine, (&raw mut work).cast()),
        None => {
            let side = work();
            if side == CloneSide::Clone {
                thread_slots::enter_clone(mine);
            }
            side
        }
    };
    if let Some(mine) = mine.filter(|_| side == CloneSide::Clone) {
        mine.process
            .store(thread_slots::process(), Ordering::Relaxed);
        mine.tid.store(sys::tid(), Ordering::Release);
    }
}

fn call_first(
    first: &'static ThreadSlot,
    taker: Option<&'static ThreadSlot>,
    work: *mut c_void,
) -> CloneSide {
    let mut call = Call {
        work,
        registers: SavedRegisters::default(),
        kernel: KernelState::read(),
        taker,
    };
    let place = &raw mut call;
    CALL.store(place, Ordering::Release);
    let argument = std::ptr::from_ref(first).cast_mut().cast();
    // SAFETY: the pointers are to the call's context and to the slot that `await_call` takes. The
    // call outlives its use, since this waits.
    let is_new = unsafe { save_and_call(&raw mut (*place).registers, await_call, argument) };
    if !is_new {
        return CloneSide::Same;
    }
    // SAFETY: written above, in the process that the image is of.
    unsafe { (*place).kernel.restore() };
    CloneSide::Clone
}

/// Has the first thread run the call, and waits for its end.
unsafe extern "C" fn await_call(first: *mut c_void) {
    // SAFETY: the caller passes a slot, which lives forever.
    let first = unsafe { &*first.cast::<ThreadSlot>() };
    first.state.store(state::CALLED, Ordering::Release);
    sys::futex_wake(&first.state, 1);
    while first.state.load(Ordering::Acquire) == state::CALLED {
        sys::futex_wait(&first.state, state::CALLED, None);
    }
}

/// The first thread runs the taker's work. In a clone it makes the taker's thread.
pub(super) fn run_call(first: &'static ThreadSlot) {
    let call = CALL.load(Ordering::Acquire);
    // SAFETY: the taker waits, so the call and its work live and nobody else uses them.
    let work = unsafe { &mut *(*call).work.cast::<&mut dyn FnMut() -> CloneSide>() };
    if work() == CloneSide::Same {
        return;
    }
    // SAFETY: as above.
    thread_slots::enter_clone(unsafe { (*call).taker });
    first.tid.store(sys::pid(), Ordering::Release);
    first
        .process
        .store(thread_slots::process(), Ordering::Relaxed);
    // SAFETY: the taker saved its registers before it let this thread begin, and does not exist in
    // this clone.
    let started =
        unsafe { saved_registers::start(&raw const (*call).registers, addresses(&(*call).kernel)) };
    if let Err(errno) = started {
        give_up(errno);
    }
}

/// Makes the thread of a slot in a clone.
pub(super) fn start_again(slot: &'static ThreadSlot) {
    // SAFETY: the thread filled in its slot before it was parked, and does not exist here; its
    // stack and its thread pointer belong to no other thread.
    let started = unsafe {
        let kernel = (*slot.kernel.get()).assume_init_ref();
        saved_registers::start(slot.registers.get(), addresses(kernel))
    };
    match started {
        Ok(tid) => slot.tid.store(tid, Ordering::Release),
        Err(errno) => give_up(errno),
    }
}

/// The process whose new threads may run, as [`thread_slots::process`] counts them.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Lets the threads run that [`start_again`] has made in this process.
pub(super) fn let_run() {
    RUNNING.store(thread_slots::process(), Ordering::Release);
    sys::futex_wake(&RUNNING, i32::MAX);
}

/// Waits in a new thread until [`let_run`].
pub(super) fn wait_to_run() {
    loop {
        let now = RUNNING.load(Ordering::Acquire);
        if now == thread_slots::process() {
            return;
        }
        sys::futex_wait(&RUNNING, now, None);
    }
}

fn addresses(kernel: &KernelState) -> ThreadAddresses {
    ThreadAddresses {
        thread_pointer: kernel.thread_pointer,
        tid_address: kernel.registered.tid_address(),
    }
}

/// Without all of its threads the process would do something else than the program says.
fn give_up(errno: i32) -> ! {
    let text = sys::ShortPath::new(format_args!(
        "rejoin: no thread could be made (error {errno})\n"
    ));
    let _ = sys::write_all(2, text.as_c_str().to_bytes());
    // SAFETY: ends this process; the job treats that as its failure.
    unsafe { libc::kill(sys::pid(), libc::SIGKILL) };
    sys::exit(1)
}
