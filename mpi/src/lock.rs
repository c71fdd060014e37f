//! The one lock of `MPI_THREAD_MULTIPLE` (MPI-5.0 §11.6).
//!
//! At most one thread blocks in the device, and it keeps the lock while it blocks. A thread that
//! wants to enter first notifies the device, and the blocked thread lets it pass. So no borrow
//! crosses threads, and requests that one thread posts while another is blocked take effect at
//! once. Other threads that wait are *suspended*. A suspended thread is queued for the lock when
//! its request is complete, or when no other thread is left to block in the device. So a message
//! resumes only the thread that waits for it.
//!
//! A thread on its way to the lock finds it free or taken: the lock is not kept for it, because a
//! change of threads at each call costs more than the call. After a few such attempts it is given
//! the lock, so none starves.

use crate::adi::ReqId;
use crate::error::Result;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::thread::{Thread, ThreadId};

/// What the lock asks the runtime about the waits of suspended threads. Asked by the holder.
pub trait Completions {
    /// Counts what has arrived or completed.
    fn events(&self) -> u64;
    /// Whether a request of the device is complete, or no more known.
    fn is_complete(&self, request: ReqId) -> bool;
}

/// When a wait is to look at its condition again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When this request is complete: the condition can't hold before.
    Complete(ReqId),
    /// After any event.
    Event,
    /// When the other threads have had their turn: the wait has a deadline, which a suspended
    /// thread would miss.
    Turn,
}

/// Attempts of a thread that has something to do with the lock. One more change of threads would
/// not cost more than the attempt.
const FEW: u8 = 1;
/// Attempts of a thread that would only block in the device. While it makes them, other threads
/// call the library, and most calls make progress.
const MANY: u8 = 16;

/// A thread that is queued or suspended.
struct Waiter {
    thread: Thread,
    until: Until,
    /// The thread was resumed while the lock was free, and has not looked yet.
    resumed: bool,
    /// How often the thread may find the lock taken until it is given the lock.
    attempts: u8,
    /// The thread is in a wait, and blocks in the device when its turn comes.
    waits: bool,
}

impl Waiter {
    /// The calling thread, in a wait or on its way into the library.
    fn new(until: Until, waits: bool) -> Self {
        Self {
            thread: std::thread::current(),
            until,
            resumed: false,
            attempts: FEW,
            waits,
        }
    }

    /// Whether the thread is to look at its condition again after an event.
    fn is_due(&self, completions: &dyn Completions) -> bool {
        match self.until {
            Until::Complete(request) => completions.is_complete(request),
            Until::Event | Until::Turn => true,
        }
    }
}

#[derive(Default)]
struct State {
    /// A thread holds the lock, or was given it.
    held: bool,
    /// The thread that was given the lock and has not seen it yet.
    given: Option<ThreadId>,
    /// The holder blocks in the device.
    in_wait: bool,
    /// The holder that blocks was notified.
    notified: bool,
    /// The count of events after which the suspended threads were last looked through.
    seen: u64,
    /// Threads that want the lock.
    queue: VecDeque<Waiter>,
    /// Threads whose wait is not over.
    suspended: Vec<Waiter>,
}

impl State {
    /// Queues the suspended threads whose wait may be over.
    fn resume_due(&mut self, completions: &dyn Completions) {
        let events = completions.events();
        if self.seen != events {
            self.seen = events;
            let due = |waiter: &mut Waiter| waiter.is_due(completions);
            self.queue.extend(self.suspended.extract_if(.., due));
            for waiter in &mut self.queue {
                if waiter.attempts > FEW && waiter.is_due(completions) {
                    waiter.attempts = FEW;
                }
            }
        }
    }

    /// The lock is free, or given to the next thread. Returns the thread to resume.
    #[must_use]
    fn release(&mut self) -> Option<Thread> {
        if self.queue.is_empty() {
            // Somebody must block in the device.
            let next = self.suspended.pop();
            self.queue.extend(next.map(|next| Waiter {
                attempts: MANY,
                ..next
            }));
        }
        self.held = false;
        let next = self.queue.front_mut()?;
        if next.attempts == 0 {
            let next = self.queue.pop_front()?;
            self.held = true;
            self.given = Some(next.thread.id());
            return Some(next.thread);
        }
        let resumed = std::mem::replace(&mut next.resumed, true);
        (!resumed).then(|| next.thread.clone())
    }

    /// Whether this thread, queued or suspended, has the lock now.
    fn take(&mut self, me: ThreadId) -> bool {
        if self.given == Some(me) {
            self.given = None;
            return true;
        }
        let Some(at) = self.queue.iter().position(|w| w.thread.id() == me) else {
            return false;
        };
        let waiter = &mut self.queue[at];
        // Who lets the others have their turn takes the lock after those before it.
        let lets_pass = waiter.waits && waiter.until == Until::Turn && at > 0;
        if !self.held && !lets_pass {
            self.queue.remove(at);
            self.held = true;
            return true;
        }
        if std::mem::take(&mut waiter.resumed) {
            waiter.attempts = waiter.attempts.saturating_sub(1);
        }
        false
    }
}

/// See the module.
pub struct BigLock {
    state: Mutex<State>,
    notify: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for BigLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BigLock")
    }
}

impl BigLock {
    /// A free lock; `notify` brings a thread back from the device's wait and may be called from any
    /// thread.
    pub fn new(notify: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            state: Mutex::default(),
            notify,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes the lock.
    pub fn enter(&self) {
        let mut s = self.state();
        if !s.held {
            s.held = true;
            return;
        }
        if s.in_wait && !std::mem::replace(&mut s.notified, true) {
            (self.notify)();
        }
        s.queue.push_back(Waiter::new(Until::Turn, false));
        self.sleep(s);
    }

    /// Sleeps until this thread, queued or suspended, has the lock.
    fn sleep<'a>(&'a self, mut s: MutexGuard<'a, State>) {
        let me = std::thread::current().id();
        while !s.take(me) {
            drop(s);
            std::thread::park();
            s = self.state();
        }
    }

    /// Called by the holder: queues the threads whose wait has ended.
    pub fn resume_due(&self, completions: &dyn Completions) {
        let mut s = self.state();
        if !s.suspended.is_empty() {
            s.resume_due(completions);
        }
    }

    /// Releases the lock at the end of an MPI call.
    pub fn leave(&self) {
        let next = self.state().release();
        if let Some(next) = next {
            next.unpark();
        }
    }

    /// Asked by the holder: whether another thread waits, which will block in the device.
    pub fn is_another_waiting(&self) -> bool {
        let s = self.state();
        !s.suspended.is_empty() || s.queue.iter().any(|waiter| waiter.waits)
    }

    /// Called by the holder whose wait is not over: blocks in `wait` (the device's), or lets others
    /// pass and is suspended as `until` says. On return the lock is held and the caller looks at
    /// its condition again.
    ///
    /// # Errors
    /// Those of `wait`.
    pub fn block(
        &self,
        completions: &dyn Completions,
        until: Until,
        wait: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut s = self.state();
        s.resume_due(completions);
        if !s.queue.is_empty() {
            let me = Waiter::new(until, true);
            match until {
                // It has completed since the caller looked, and no event would tell.
                Until::Complete(request) if completions.is_complete(request) => return Ok(()),
                Until::Complete(_) | Until::Event => s.suspended.push(me),
                Until::Turn => s.queue.push_back(me),
            }
            if let Some(next) = s.release() {
                next.unpark();
            }
            self.sleep(s);
            return Ok(());
        }
        s.in_wait = true;
        drop(s);
        let result = wait();
        let mut s = self.state();
        s.in_wait = false;
        s.notified = false;
        s.resume_due(completions);
        result
    }
}

#[cfg(test)]
mod tests;
