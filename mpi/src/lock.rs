//! The one lock of `MPI_THREAD_MULTIPLE` (MPI-5.0 §11.6).
//!
//! Tickets make it fair. The thread that blocks in the device keeps the lock while it blocks. A
//! thread that wants to enter first wakes the device, and the blocked thread lets it pass. So no
//! borrow crosses threads, and requests that one thread posts while another is blocked take effect
//! at once. Only one thread at a time has the *role* of blocking in the device. Other waiting
//! threads sleep until something moved or the role is free, and then check again.

use crate::error::Result;
use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard};

thread_local! {
    static ME: Cell<u64> = const { Cell::new(0) };
}

fn me() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    ME.with(|m| {
        if m.get() == 0 {
            m.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        m.get()
    })
}

#[derive(Default)]
struct State {
    /// Next ticket to give out.
    next: u64,
    /// Ticket that holds the lock, when `next > serving`.
    serving: u64,
    /// The holder is inside the device's wait.
    in_wait: bool,
    /// The thread that blocks in the device, if any.
    role: Option<u64>,
    /// The runtime's event count of which the waiting threads know.
    told: u64,
    /// Bumped whenever waiting threads should look again.
    news: u64,
    /// Threads that sleep until it is free: a wake-up without a sleeper would cost a system call.
    sleepers: u32,
}

impl State {
    fn others_queue(&self) -> bool {
        self.next > self.serving + 1
    }
}

/// See the module.
pub struct BigLock {
    state: Mutex<State>,
    entry: Condvar,
    news: Condvar,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for BigLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BigLock")
    }
}

impl BigLock {
    /// A free lock; `wake` brings a thread back from the device's wait and may be called from any
    /// thread.
    pub fn new(wake: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            state: Mutex::default(),
            entry: Condvar::new(),
            news: Condvar::new(),
            wake,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes the lock.
    pub fn enter(&self) {
        let s = self.state();
        drop(self.acquire(s));
    }

    fn acquire<'a>(&self, mut s: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let ticket = s.next;
        s.next += 1;
        if ticket != s.serving && s.in_wait {
            (self.wake)();
        }
        while s.serving != ticket {
            s = self.entry.wait(s).unwrap_or_else(|e| e.into_inner());
        }
        s
    }

    fn release(&self, s: &mut State) {
        s.serving += 1;
        if s.next > s.serving {
            self.entry.notify_all();
        }
    }

    fn tell(&self, s: &mut State) {
        s.news += 1;
        if s.sleepers > 0 {
            self.news.notify_all();
        }
    }

    fn note(&self, s: &mut State, events: u64) {
        if s.told != events {
            s.told = events;
            self.tell(s);
        }
    }

    /// Releases the lock at the end of an MPI call; `events` is the runtime's count of events.
    pub fn leave(&self, events: u64) {
        let mut s = self.state();
        self.note(&mut s, events);
        if s.role == Some(me()) {
            s.role = None;
            self.tell(&mut s);
        }
        self.release(&mut s);
    }

    /// Asked by the holder: whether another thread blocks in the device, or will when it has the
    /// lock again.
    pub fn is_blocking_elsewhere(&self) -> bool {
        self.state().role.is_some_and(|role| role != me())
    }

    /// Called by the holder whose wait is not over: blocks in `wait` (the device's), or lets others
    /// pass, or sleeps until told. `events` is the runtime's count, before and after `wait`.
    /// On return the lock is held and the caller looks at its condition again.
    pub fn block(
        &self,
        events: &dyn Fn() -> u64,
        wait: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut s = self.state();
        self.note(&mut s, events());
        let mine = me();
        if s.role.is_some_and(|r| r != mine) {
            let seen = s.news;
            self.release(&mut s);
            s.sleepers += 1;
            while s.news == seen {
                s = self.news.wait(s).unwrap_or_else(|e| e.into_inner());
            }
            s.sleepers -= 1;
            drop(self.acquire(s));
            return Ok(());
        }
        s.role = Some(mine);
        if s.others_queue() {
            self.release(&mut s);
            drop(self.acquire(s));
            return Ok(());
        }
        s.in_wait = true;
        drop(s);
        let result = wait();
        let mut s = self.state();
        s.in_wait = false;
        self.note(&mut s, events());
        if s.others_queue() {
            self.release(&mut s);
            drop(self.acquire(s));
        }
        result
    }
}

#[cfg(test)]
mod tests;
