//! The one lock of `MPI_THREAD_MULTIPLE` (MPI-5.0 §11.6).
//!
//! At most one thread blocks in the device, and it keeps the lock while it blocks. A thread that
//! wants to enter first notifies the device, and the blocked thread lets it pass. So no borrow
//! crosses threads, and requests that one thread posts while another is blocked take effect at
//! once. Other threads that wait are *suspended*. A suspended thread is queued for the lock when
//! its request is complete, or when no other thread is left to block in the device. So a message
//! resumes only the thread that waits for it. Threads whose calls make no progress may keep the
//! lock among themselves. So every 64th release resumes the thread that is suspended for longest,
//! which makes one pass of progress.
//!
//! A thread on its way to the lock finds it free or taken: the lock is not kept for it, because a
//! change of threads at each call costs more than the call. After a few such attempts it is given
//! the lock, so none starves.

use crate::adi::ReqId;
use crate::error::Result;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// What the lock asks the runtime about the waits of suspended threads. Asked by the holder.
pub trait Completions {
    /// Counts what has arrived or completed.
    fn events(&self) -> u64;
    /// Whether a request of the device is complete, or no longer known.
    fn is_complete(&self, request: ReqId) -> bool;
}

/// When a wait checks its condition again.
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

/// Releases after which a suspended thread makes a pass of progress.
const PASS_AFTER: u32 = 64;

/// What a thread does in the device when its wait is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The thread makes progress, and blocks until something happens.
    Blocking,
    /// The thread makes one pass of progress, because the other threads may make none.
    Once,
}

/// A thread on its way to the lock, and what it sleeps on. It is no [`std::thread::Thread`], which
/// is not available in destructors of a thread's variables: they may call MPI.
#[derive(Clone, Default)]
struct Sleeper(Arc<Condvar>);

impl Sleeper {
    /// Resumes the thread.
    fn resume(&self) {
        self.0.notify_one();
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A thread that is queued or suspended.
struct Waiter {
    thread: Sleeper,
    until: Until,
    /// The thread was resumed while the lock was free, and has not tried to take it yet.
    resumed: bool,
    /// How often the thread may find the lock taken until it is given the lock.
    attempts: u8,
    /// The thread is in a wait, and blocks in the device when its turn comes.
    waits: bool,
    /// The thread makes a pass of progress when it has the lock.
    passes: bool,
}

impl Waiter {
    /// The calling thread, in a wait or on its way into the library.
    fn new(until: Until, waits: bool) -> Self {
        Self {
            thread: Sleeper::default(),
            until,
            resumed: false,
            attempts: FEW,
            waits,
            passes: false,
        }
    }

    /// Whether the thread checks its condition again after an event.
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
    given: Option<Waiter>,
    /// The holder blocks in the device.
    in_wait: bool,
    /// The holder that blocks was notified.
    notified: bool,
    /// The count of events at the last check of the suspended threads.
    seen: u64,
    /// Threads that want the lock.
    queue: VecDeque<Waiter>,
    /// Threads whose wait is not over, those that wait for longest first.
    suspended: Vec<Waiter>,
    /// Releases since a suspended thread was resumed for a pass of progress.
    releases: u32,
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
    fn release(&mut self) -> Option<Sleeper> {
        self.releases += 1;
        if self.releases >= PASS_AFTER {
            self.releases = 0;
            if !self.suspended.is_empty() {
                let longest = self.suspended.remove(0);
                self.queue.push_back(Waiter {
                    passes: true,
                    ..longest
                });
            }
        }
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
            let thread = next.thread.clone();
            self.given = Some(next);
            return Some(thread);
        }
        let resumed = std::mem::replace(&mut next.resumed, true);
        (!resumed).then(|| next.thread.clone())
    }

    /// Takes this thread off the lists if it has the lock now.
    fn take(&mut self, me: &Sleeper) -> Option<Waiter> {
        let given = self.given.take_if(|waiter| waiter.thread.is(me));
        if given.is_some() {
            return given;
        }
        let at = self.queue.iter().position(|w| w.thread.is(me))?;
        let waiter = &mut self.queue[at];
        // A thread that lets others have their turn takes the lock after those queued before it.
        let lets_pass = waiter.waits && waiter.until == Until::Turn && at > 0;
        if !self.held && !lets_pass {
            self.held = true;
            return self.queue.remove(at);
        }
        if std::mem::take(&mut waiter.resumed) {
            waiter.attempts = waiter.attempts.saturating_sub(1);
        }
        None
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
        let me = Waiter::new(Until::Turn, false);
        let thread = me.thread.clone();
        s.queue.push_back(me);
        sleep(s, &thread);
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
            next.resume();
        }
    }

    /// Asked by the holder: whether another thread waits, which will block in the device.
    pub fn is_another_waiting(&self) -> bool {
        let s = self.state();
        !s.suspended.is_empty() || s.queue.iter().any(|waiter| waiter.waits)
    }

    /// Called by the holder whose wait is not over: blocks in `wait` (the device's), or lets others
    /// pass and is suspended as `until` says. A thread that was suspended for long makes a pass by
    /// `wait` then. On return the lock is held and the caller checks its condition again.
    ///
    /// # Errors
    /// The errors of `wait`.
    pub fn block(
        &self,
        completions: &dyn Completions,
        until: Until,
        wait: &mut dyn FnMut(Pass) -> Result<()>,
    ) -> Result<()> {
        let mut s = self.state();
        s.resume_due(completions);
        if !s.queue.is_empty() {
            let me = Waiter::new(until, true);
            let thread = me.thread.clone();
            match until {
                // It has completed since the caller checked, and no event would follow.
                Until::Complete(request) if completions.is_complete(request) => return Ok(()),
                Until::Complete(_) | Until::Event => s.suspended.push(me),
                Until::Turn => s.queue.push_back(me),
            }
            if let Some(next) = s.release() {
                next.resume();
            }
            if sleep(s, &thread).passes {
                wait(Pass::Once)?;
                self.resume_due(completions);
            }
            return Ok(());
        }
        s.in_wait = true;
        drop(s);
        let result = wait(Pass::Blocking);
        let mut s = self.state();
        s.in_wait = false;
        s.notified = false;
        s.resume_due(completions);
        result
    }
}

/// Sleeps until this thread, queued or suspended, has the lock.
fn sleep(mut s: MutexGuard<'_, State>, me: &Sleeper) -> Waiter {
    loop {
        if let Some(waiter) = s.take(me) {
            return waiter;
        }
        s = me.0.wait(s).unwrap_or_else(|e| e.into_inner());
    }
}

#[cfg(test)]
mod tests;
