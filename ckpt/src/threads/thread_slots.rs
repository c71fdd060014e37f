//! A slot for each thread, in memory that a signal handler may take.
//!
//! A slot belongs to the thread whose number it holds. Slots lie in pages of their own, which are
//! never given back. A thread that was started again has its former slot.

use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use super::kernel_state::KernelState;
use super::saved_registers::SavedRegisters;
use super::thread_signals::ThreadSignals;
use crate::rewind::Restarts;
use crate::sys;

/// Values of [`ThreadSlot::state`].
pub(super) mod state {
    /// The thread runs.
    pub const RUNNING: u32 = 0;
    /// The taker has sent it a signal.
    pub const ASKED: u32 = 1;
    /// The thread waits in its handler.
    pub const PARKED: u32 = 2;
    /// The thread waits in its handler, and is to run the taker's work.
    pub const CALLED: u32 = 3;
    /// The thread may leave its handler.
    pub const RESUMED: u32 = 4;
    /// The thread waits in its handler, and is to take the signals that have come since.
    pub const COLLECTING: u32 = 5;
}

/// What the library keeps of a thread. All zeros is a free slot.
#[repr(C, align(64))]
pub(crate) struct ThreadSlot {
    /// The thread's number; 0 in a free slot.
    pub(super) tid: AtomicI32,
    /// The number that the thread had in the process that the image is of.
    pub(super) former: AtomicI32,
    /// See [`state`].
    pub(super) state: AtomicU32,
    /// The process in which the thread was parked, as [`process`] counts them.
    pub(super) process: AtomicU32,
    /// The system call in which the thread was found, as [`crate::hint::Hint::word`].
    pub(super) hint: AtomicU32,
    /// The scan of all threads that met this one last.
    pub(super) scan: AtomicU32,
    /// The thread waits in the kernel for the owner of a mutex.
    pub(super) waits_for_owner: AtomicBool,
    pub(super) registers: UnsafeCell<SavedRegisters>,
    pub(super) signals: UnsafeCell<ThreadSignals>,
    pub(super) kernel: UnsafeCell<std::mem::MaybeUninit<KernelState>>,
    restarts: Restarts,
}

// SAFETY: the thread itself writes what is not atomic, before it is parked; the taker reads it
// afterwards.
unsafe impl Sync for ThreadSlot {}

impl ThreadSlot {
    /// The calls of its thread that were started again; for that thread only.
    pub(crate) fn restarts(&self) -> &Restarts {
        &self.restarts
    }

    /// The slot gets another thread, or none.
    fn renew(&self, tid: i32) {
        self.state.store(state::RUNNING, Ordering::Relaxed);
        self.tid.store(tid, Ordering::Release);
    }
}

/// Counts the processes from the first one to this one, each restored from an image of the one
/// before. The kernel may give a restored process the number of a former one.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Number of this process, counted from the first one.
pub(super) fn process() -> u32 {
    PROCESS.load(Ordering::Acquire)
}

/// The number of a thread that does not exist in this process yet.
const NAMELESS: i32 = -1;

/// This process is a new one, restored from an image, and the calling thread its only one. The
/// former numbers of the others mean nothing: on another host the first new threads may have
/// them. `taker`: the slot of the thread that parked the others, or that was one of them and is
/// the calling thread.
pub(super) fn enter_clone(taker: Option<&'static ThreadSlot>) {
    PROCESS.fetch_add(1, Ordering::AcqRel);
    for slot in all() {
        let is_taker = taker.is_some_and(|taker| std::ptr::eq(taker, slot));
        let state = slot.state.load(Ordering::Acquire);
        let comes_back = is_taker || matches!(state, state::PARKED | state::CALLED);
        let former = slot.tid.load(Ordering::Acquire);
        if former != 0 {
            let tid = if comes_back { NAMELESS } else { 0 };
            slot.former.store(former, Ordering::Relaxed);
            slot.tid.store(tid, Ordering::Release);
        }
    }
}

/// Counts threads that have parked; the taker waits for its change.
pub(super) static PARKED: AtomicU32 = AtomicU32::new(0);

const SLOTS: usize = 28;

#[repr(C)]
struct SlotPage {
    next: AtomicPtr<SlotPage>,
    slots: [ThreadSlot; SLOTS],
}

static FIRST: AtomicPtr<SlotPage> = AtomicPtr::new(null_mut());

/// All slots, free ones among them.
pub(super) fn all() -> impl Iterator<Item = &'static ThreadSlot> {
    let mut next = &FIRST;
    let pages = std::iter::from_fn(move || {
        // SAFETY: null, or a page that is never given back.
        let page = unsafe { next.load(Ordering::Acquire).as_ref() }?;
        next = &page.next;
        Some(page)
    });
    pages.flat_map(|page| page.slots.iter())
}

/// The slot of a thread.
pub(super) fn find(tid: i32) -> Option<&'static ThreadSlot> {
    all().find(|slot| slot.tid.load(Ordering::Acquire) == tid)
}

/// The slot of a thread, which gets one if it has none. `None` without memory for it.
pub(super) fn of(tid: i32) -> Option<&'static ThreadSlot> {
    if let Some(slot) = find(tid) {
        return Some(slot);
    }
    loop {
        let taken = all().find(|slot| {
            let (order, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            slot.tid.compare_exchange(0, tid, order, failure).is_ok()
        });
        if let Some(slot) = taken {
            slot.renew(tid);
            return Some(slot);
        }
        add_page()?;
    }
}

/// The calling thread's slot. Safe in a signal handler.
pub(crate) fn mine() -> Option<&'static ThreadSlot> {
    of(sys::tid())
}

/// Frees the slots of the threads that this scan has not met and that have ended. A list of threads
/// may omit one that lives, and that waits in its slot.
pub(super) fn free_unmet(scan: u32) {
    for slot in all() {
        let tid = slot.tid.load(Ordering::Relaxed);
        let is_unmet = tid != 0 && slot.scan.load(Ordering::Relaxed) != scan;
        if is_unmet && !sys::has_thread(tid) {
            slot.renew(0);
        }
    }
}

/// The slot at an address, if one is there.
pub(super) fn at(address: usize) -> Option<&'static ThreadSlot> {
    all().find(|slot| std::ptr::from_ref(*slot).addr() == address)
}

fn add_page() -> Option<()> {
    let length = size_of::<SlotPage>();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping wherever the system likes; zeros are a page of free slots.
    let page = unsafe { libc::mmap(null_mut(), length, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    let page = page.cast::<SlotPage>();
    let (order, failure) = (Ordering::AcqRel, Ordering::Acquire);
    let mut end = &FIRST;
    while let Err(there) = end.compare_exchange(null_mut(), page, order, failure) {
        // SAFETY: a page that is never given back.
        end = unsafe { &(*there).next };
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test, because the table is one for the process.
    #[test]
    fn threads_keep_their_slots_and_freed_ones_are_used_again() {
        let numbers = 1_000_000..1_000_100;
        let slots: Vec<_> = numbers
            .clone()
            .map(|tid| of(tid).expect("memory"))
            .collect();
        for (tid, slot) in numbers.zip(&slots) {
            assert!(std::ptr::eq(*slot, of(tid).expect("its slot")));
            assert!(at(std::ptr::from_ref(*slot).addr()).is_some());
            slot.scan.store(u32::from(tid % 2 == 0), Ordering::Relaxed);
        }
        assert!(at(std::ptr::from_ref(slots[0]).addr() + 8).is_none());
        // A living thread keeps its slot, though a scan has not met it.
        mine().expect("memory").scan.store(0, Ordering::Relaxed);
        free_unmet(1);
        assert!(find(sys::tid()).is_some());
        assert!(find(1_000_000).is_some() && find(1_000_001).is_none());
        let before = all().count();
        assert!((2_000_000..2_000_040).all(|tid| of(tid).is_some()));
        assert_eq!(all().count(), before);
        clones_forget_former_numbers();
    }

    /// The first new thread of a clone may have the former number of another one.
    fn clones_forget_former_numbers() {
        let [taker, parked, gone] = [3_000_000, 3_000_001, 3_000_002].map(|tid| {
            let slot = of(tid).expect("memory");
            slot.state.store(state::RUNNING, Ordering::Relaxed);
            slot
        });
        parked.state.store(state::PARKED, Ordering::Relaxed);
        let before = process();
        enter_clone(Some(taker));
        assert_eq!(process(), before + 1);
        taker.tid.store(3_000_001, Ordering::Relaxed);
        assert!(std::ptr::eq(find(3_000_001).expect("the taker"), taker));
        assert_eq!(parked.tid.load(Ordering::Relaxed), NAMELESS);
        assert_eq!(parked.former.load(Ordering::Relaxed), 3_000_001);
        assert_eq!(gone.tid.load(Ordering::Relaxed), 0);
        for slot in [taker, parked] {
            slot.renew(0);
        }
    }
}
