//! The taker: the thread that parks all others, and resumes them.

use std::sync::atomic::{AtomicU32, Ordering};

use super::thread_slots::{self, PARKED, ThreadSlot, state};
use super::{first_thread, parking_signal, thread_signals};
use crate::error::Refused;
use crate::hint::Hint;
use crate::{manifest, proc, sys};

/// How often the list of threads is read again meanwhile, in nanoseconds, if none parks.
const PAUSE: u64 = 1_000_000;

/// Counts readings of the list of threads.
static SCANS: AtomicU32 = AtomicU32::new(0);
/// The process in which the threads were parked.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Why threads were not stopped. No part of it lies in the heap, whose lock the taker holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum NotStopped {
    /// A thread did not park in time.
    Unparkable {
        tid: i32,
        name: [u8; 16],
        state: char,
    },
    /// A thread waits for a mutex whose owner has another number in a clone.
    WaitsForOwner { tid: i32 },
    /// A system call failed.
    System { action: &'static str, errno: i32 },
}

impl From<NotStopped> for Refused {
    fn from(why: NotStopped) -> Self {
        match why {
            NotStopped::Unparkable { tid, name, state } => {
                let name = name.split(|byte| matches!(byte, 0 | b'\n')).next();
                let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
                Self::Unparkable { tid, name, state }
            }
            NotStopped::WaitsForOwner { tid } => Self::PriorityInheritance { tid },
            NotStopped::System { action, errno } => Self::system(action, errno),
        }
    }
}

/// Parks all other threads.
///
/// # Errors
/// A thread does not park until `limit`, or its state can't be restored. The caller must resume the
/// others.
pub(super) fn stop_others(limit: u64) -> Result<(), NotStopped> {
    PROCESS.store(thread_slots::process(), Ordering::Relaxed);
    let failed = |errno| NotStopped::System {
        action: "install the handler that parks threads",
        errno,
    };
    parking_signal::install().map_err(failed)?;
    loop {
        let seen = PARKED.load(Ordering::Acquire);
        let scan = Scan::read()?;
        let Some(tid) = scan.running else {
            check_waits()?;
            collect_signals();
            return Ok(());
        };
        if sys::now() > limit {
            return Err(unparkable(tid));
        }
        sys::futex_wait(&PARKED, seen, Some(PAUSE));
    }
}

/// One reading of the list of threads.
struct Scan {
    number: u32,
    /// Threads that are parked, have ended, or are the taker.
    stopped: u64,
    /// A thread that is not parked yet.
    running: Option<i32>,
}

impl Scan {
    /// Reads the list, and asks threads that were not asked yet.
    fn read() -> Result<Self, NotStopped> {
        let mut scan = Self {
            number: SCANS.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            stopped: 0,
            running: None,
        };
        let (me, pid) = (sys::tid(), sys::pid());
        let listed = sys::numbers_in(c"/proc/self/task", |tid| {
            let Some(slot) = thread_slots::of(tid) else {
                scan.running = Some(tid);
                return;
            };
            slot.scan.store(scan.number, Ordering::Relaxed);
            if tid == me || (tid == pid && has_ended(tid)) || is_parked(slot, tid) {
                scan.stopped += 1;
            } else {
                scan.running = Some(tid);
            }
        });
        let count = listed.and_then(|()| sys::thread_count());
        let count = count.map_err(|errno| NotStopped::System {
            action: "list the threads in /proc/self/task",
            errno,
        })?;
        thread_slots::free_unmet(scan.number);
        if scan.running.is_none() && count != scan.stopped {
            // The list may omit a thread if another one ends while it is read.
            scan.running = Some(0);
        }
        Ok(scan)
    }
}

/// Whether a thread is parked. Asks it to park if nobody has.
fn is_parked(slot: &'static ThreadSlot, tid: i32) -> bool {
    // Before the state, which a new thread changes first.
    let is_of_here = slot.process.load(Ordering::Acquire) == thread_slots::process();
    match slot.state.load(Ordering::Acquire) {
        // In another process it is on its way out of its handler, as a new thread.
        state::PARKED => is_of_here,
        state::RUNNING => {
            slot.hint.store(hint(tid).word(), Ordering::Relaxed);
            slot.state.store(state::ASKED, Ordering::Release);
            if parking_signal::send(slot, tid).is_err() {
                // It has just ended, or there is no memory for the signal.
                slot.state.store(state::RUNNING, Ordering::Release);
            }
            false
        }
        _ => false,
    }
}

/// The call in which a thread sleeps, if it does.
fn hint(tid: i32) -> Hint {
    let path = sys::ShortPath::new(format_args!("/proc/self/task/{tid}/syscall"));
    let mut text = [0; 256];
    match sys::read_into(path.as_c_str(), &mut text) {
        Ok(length) => Hint::read(&text[..length]),
        Err(_) => Hint::none(),
    }
}

/// The state letter of a thread, as `/proc` shows it.
fn state_of(tid: i32) -> Option<char> {
    let path = sys::ShortPath::new(format_args!("/proc/self/task/{tid}/stat"));
    let mut text = [0; 512];
    let length = sys::read_into(path.as_c_str(), &mut text).ok()?;
    // Behind the name, which may hold anything.
    let end = text[..length].iter().rposition(|byte| *byte == b')')?;
    proc::words(&text[end + 1..length])
        .next()
        .and_then(|word| word.first())
        .map(|letter| char::from(*letter))
}

/// Whether the process's first thread has ended before the others: it stays in the list.
pub(super) fn has_ended(tid: i32) -> bool {
    matches!(state_of(tid), Some('Z' | 'X'))
}

fn unparkable(tid: i32) -> NotStopped {
    let path = sys::ShortPath::new(format_args!("/proc/self/task/{tid}/comm"));
    let mut name = [0; 16];
    let _ = sys::read_into(path.as_c_str(), &mut name);
    let state = state_of(tid).unwrap_or('?');
    NotStopped::Unparkable { tid, name, state }
}

/// No thread may wait in the kernel for the owner of a mutex: there the owner has another number in
/// a restored process.
fn check_waits() -> Result<(), NotStopped> {
    let is_parked = |slot: &&ThreadSlot| slot.state.load(Ordering::Acquire) == state::PARKED;
    let mut parked = thread_slots::all().filter(|slot| is_parked(slot));
    match parked.find(|slot| slot.waits_for_owner.load(Ordering::Relaxed)) {
        Some(slot) => Err(NotStopped::WaitsForOwner {
            tid: slot.tid.load(Ordering::Relaxed),
        }),
        None => Ok(()),
    }
}

/// A thread may have sent a signal to one that was parked already. Now that all are parked, each
/// takes such signals.
fn collect_signals() {
    let is_parked = |slot: &&ThreadSlot| slot.state.load(Ordering::Acquire) == state::PARKED;
    for slot in thread_slots::all().filter(is_parked) {
        if !thread_signals::wait_for(slot.tid.load(Ordering::Relaxed)) {
            continue;
        }
        slot.state.store(state::COLLECTING, Ordering::Release);
        sys::futex_wake(&slot.state, 1);
        // The thread only makes calls that don't wait.
        while slot.state.load(Ordering::Acquire) == state::COLLECTING {
            sys::futex_wait(&slot.state, state::COLLECTING, None);
        }
    }
    if let Some(mine) = thread_slots::find(sys::tid()) {
        // SAFETY: the slot is this thread's, which is not parked.
        unsafe { (*mine.signals.get()).take() };
    }
}

/// Queues again the signals that waited for the taker.
pub(super) fn queue_own_signals() {
    if let Some(mine) = thread_slots::find(sys::tid()) {
        // SAFETY: the slot is this thread's, which is not parked.
        unsafe { (*mine.signals.get()).queue_again() };
    }
}

/// Resumes all other threads. In a clone it starts them anew.
pub(super) fn resume_others() {
    let (me, process) = (sys::tid(), thread_slots::process());
    let is_clone = PROCESS.swap(process, Ordering::Relaxed) != process;
    let others =
        || thread_slots::all().filter(|slot| ![0, me].contains(&slot.tid.load(Ordering::Acquire)));
    if is_clone {
        parking_signal::forget_signals();
        others()
            .filter(|slot| is_missing(slot, process))
            .for_each(first_thread::start_again);
        restore_timers();
        first_thread::let_run();
    }
    others().for_each(|slot| resume(slot, process));
}

/// Whether a thread was parked in another process, and does not exist here yet.
fn is_missing(slot: &ThreadSlot, process: u32) -> bool {
    slot.state.load(Ordering::Acquire) == state::PARKED
        && slot.process.load(Ordering::Relaxed) != process
}

/// Sets the timers again that name threads. The threads must not run yet: they may use the timers.
fn restore_timers() {
    let caveats = manifest::restore_late_timers(|former| {
        let is_it = |slot: &&ThreadSlot| {
            slot.former.load(Ordering::Relaxed) == former && slot.tid.load(Ordering::Acquire) > 0
        };
        let slot = thread_slots::all().find(is_it)?;
        Some(slot.tid.load(Ordering::Acquire))
    });
    for caveat in caveats {
        let _ = sys::write_all(2, format!("rejoin: {caveat}\n").as_bytes());
    }
}

fn resume(slot: &'static ThreadSlot, process: u32) {
    loop {
        let now = slot.state.load(Ordering::Acquire);
        let next = match now {
            state::ASKED => state::RUNNING,
            // It was started just now, and is on its way.
            state::PARKED if is_missing(slot, process) => return,
            state::PARKED => state::RESUMED,
            state::CALLED => {
                sys::futex_wait(&slot.state, state::CALLED, None);
                continue;
            }
            _ => return,
        };
        let (order, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let changed = slot.state.compare_exchange(now, next, order, failure);
        if changed.is_ok() {
            sys::futex_wake(&slot.state, 1);
            return;
        }
    }
}
