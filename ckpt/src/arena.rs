//! The library's own heap over `mmap`, apart from the C library's.
//!
//! The C library's heap stays the program's alone: a checkpoint request may interrupt it anywhere.
//! Other threads may be in the middle of this heap when the process is to be frozen. So the thread
//! that parks them takes the heap's lock before ([`hold`]).

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use dlmalloc::Dlmalloc;

use crate::sys;

/// The global allocator of the library that ranks load.
#[derive(Debug, Default, Clone, Copy)]
pub struct Arena;

struct Heap(UnsafeCell<Dlmalloc>);

// SAFETY: used by the holder of `LOCK` only, or by the one thread that runs.
unsafe impl Sync for Heap {}

static HEAP: Heap = Heap(UnsafeCell::new(Dlmalloc::new()));

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const CONTENDED: u32 = 2;

static LOCK: AtomicU32 = AtomicU32::new(FREE);
/// The thread that has the lock, by its thread pointer; 0 for none.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// All other threads are parked, outside the heap: the lock is not needed.
static EXCLUSIVE: AtomicBool = AtomicBool::new(false);

/// Nanoseconds for which [`hold`] waits for a thread in the middle of the heap, which may have no
/// processor.
const PATIENCE: u64 = 1_000_000_000;
/// The longest part of that wait.
const PAUSE: u64 = 10_000_000;

/// The heap's lock, taken for the time for which other threads are parked.
#[derive(Debug)]
pub(crate) struct HeldHeap(());

/// Takes the heap's lock, so that no thread is parked in the middle of the heap. `None` if another
/// thread keeps it for long, or if the caller has interrupted its own thread there. Safe in a
/// signal handler.
pub(crate) fn hold() -> Option<HeldHeap> {
    if OWNER.load(Ordering::Relaxed) == sys::thread_pointer() {
        return None;
    }
    let begun = sys::now();
    while LOCK.swap(CONTENDED, Ordering::Acquire) != FREE {
        if sys::now() > begun + PATIENCE {
            return None;
        }
        sys::futex_wait(&LOCK, CONTENDED, Some(PAUSE));
    }
    Some(HeldHeap(()))
}

impl HeldHeap {
    /// All other threads are parked: from here on, the running thread uses the heap without lock.
    pub fn become_exclusive(&self) {
        EXCLUSIVE.store(true, Ordering::Release);
    }
}

impl Drop for HeldHeap {
    fn drop(&mut self) {
        EXCLUSIVE.store(false, Ordering::Release);
        unlock();
    }
}

fn try_lock() -> bool {
    LOCK.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

fn lock() {
    for _ in 0..100 {
        if try_lock() {
            return;
        }
        std::hint::spin_loop();
    }
    while LOCK.swap(CONTENDED, Ordering::Acquire) != FREE {
        sys::futex_wait(&LOCK, CONTENDED, None);
    }
}

fn unlock() {
    if LOCK.swap(FREE, Ordering::Release) == CONTENDED {
        sys::futex_wake(&LOCK, 1);
    }
}

/// Runs `use_heap` with the heap, which no other thread uses meanwhile.
fn with_heap<T>(use_heap: impl FnOnce(&mut Dlmalloc) -> T) -> T {
    let is_alone = EXCLUSIVE.load(Ordering::Acquire);
    if !is_alone {
        lock();
        OWNER.store(sys::thread_pointer(), Ordering::Relaxed);
    }
    // SAFETY: this thread has the lock, or no other thread runs.
    let result = use_heap(unsafe { &mut *HEAP.0.get() });
    if !is_alone {
        OWNER.store(0, Ordering::Relaxed);
        unlock();
    }
    result
}

// SAFETY: the heap gives memory of the size and alignment asked for, to one owner at a time.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's word: the size is not zero.
        with_heap(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's word: the memory is this heap's, of this layout.
        with_heap(|heap| unsafe { heap.free(memory, layout.size(), layout.align()) });
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        with_heap(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`, with a new size that is not zero.
        with_heap(|heap| unsafe { heap.realloc(memory, layout.size(), layout.align(), size) })
    }
}
