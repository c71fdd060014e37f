//! The one lock of the library: recursive, because callbacks of the program call MPI again. Taken
//! only at `MPI_THREAD_MULTIPLE` and by the few functions that are thread-safe at any level
//! (MPI-5.0 §11.6.1).
//!
//! Until [`install`], a futex excludes; after it, the runtime's own lock, which can resume a thread
//! that blocks in the device.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(FREE);
static INNER: OnceLock<Inner> = OnceLock::new();
/// A child of `fork`: the thread that held the runtime's lock may not be in it.
static FORKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// How many times this thread has taken the lock.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The runtime's lock.
#[derive(Clone, Copy)]
pub struct Inner {
    /// Takes it; called by a thread that does not hold it.
    pub enter: fn(),
    /// Gives it back.
    pub leave: fn(),
}

/// From now on the runtime's lock excludes. The calling thread (in `MPI_Init_thread`) holds the
/// lock and keeps holding it.
pub fn install(inner: Inner) {
    if INNER.set(inner).is_ok() && is_held() {
        (inner.enter)();
        unlock();
    }
}

/// The runtime's lock, if it excludes.
fn inner() -> Option<&'static Inner> {
    INNER.get().filter(|_| !FORKED.load(Ordering::Relaxed))
}

/// Runs in a child of `fork`, which has this thread only. It starts with a futex that no other
/// thread holds. Async-signal-safe.
pub fn forked() {
    STATE.store(if is_held() { HELD } else { FREE }, Ordering::Relaxed);
    FORKED.store(true, Ordering::Relaxed);
}

/// Takes the lock; waits while another thread holds it.
pub fn acquire() {
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    if depth > 0 {
        return;
    }
    if let Some(inner) = inner() {
        return (inner.enter)();
    }
    lock();
    if let Some(inner) = inner() {
        // Installed while this thread waited.
        unlock();
        (inner.enter)();
    }
}

/// Gives back what one [`acquire`] took.
pub fn release() {
    let depth = DEPTH.get() - 1;
    if depth == 0 {
        match inner() {
            Some(inner) => (inner.leave)(),
            None => unlock(),
        }
    }
    // Last: a signal handler that comes between must not wait for this thread.
    DEPTH.set(depth);
}

/// Whether this thread holds the lock.
pub fn is_held() -> bool {
    DEPTH.get() > 0
}

fn lock() {
    for _ in 0..100 {
        if STATE
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
        {
            return;
        }
        std::hint::spin_loop();
    }
    while STATE.swap(CONTENDED, Ordering::Acquire) != FREE {
        futex(libc::FUTEX_WAIT, CONTENDED);
    }
}

fn unlock() {
    if STATE.swap(FREE, Ordering::Release) == CONTENDED {
        futex(libc::FUTEX_WAKE, 1);
    }
}

fn futex(operation: libc::c_int, value: u32) {
    // SAFETY: the word is a static; a wait returns at once when it no longer has `value`.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            STATE.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COUNT: AtomicU32 = AtomicU32::new(0);
    static ENTERED: AtomicU32 = AtomicU32::new(0);

    thread_local! {
        /// Other tests of this process take the lock, too: their entries do not count.
        static COUNTS: Cell<bool> = const { Cell::new(false) };
    }

    fn add_from_four_threads() {
        let add = || {
            COUNTS.set(true);
            for _ in 0..5_000 {
                acquire();
                acquire();
                // Not one atomic step on purpose: only exclusion keeps the sum right.
                let seen = COUNT.load(Ordering::Relaxed);
                COUNT.store(seen + 1, Ordering::Relaxed);
                release();
                assert!(is_held());
                release();
            }
        };
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(add);
            }
        });
    }

    // One test, because the lock is one for the process.
    #[test]
    fn excludes_nests_and_moves_to_the_runtimes_lock() {
        static SPIN: AtomicU32 = AtomicU32::new(0);
        COUNTS.set(true);
        add_from_four_threads();
        assert_eq!(COUNT.load(Ordering::Relaxed), 20_000);

        acquire();
        install(Inner {
            enter: || {
                ENTERED.fetch_add(u32::from(COUNTS.get()), Ordering::Relaxed);
                while SPIN.swap(1, Ordering::Acquire) != 0 {
                    std::thread::yield_now();
                }
            },
            leave: || SPIN.store(0, Ordering::Release),
        });
        assert_eq!(SPIN.load(Ordering::Relaxed), 1);
        release();
        assert!(!is_held());
        add_from_four_threads();
        assert_eq!(COUNT.load(Ordering::Relaxed), 40_000);
        assert_eq!(ENTERED.load(Ordering::Relaxed), 20_001);
    }
}
