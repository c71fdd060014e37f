//! Waits: a rank spins, yields, or blocks until something has moved.

use std::time::{Duration, Instant};

use rejoin_engine::ReqId;

use super::passes::ProgressHandler;
use super::stall_report::StallHandler;
use crate::error::Result;
use crate::progress::{PREEMPTED, cadences};

/// Longest blocking call: the bound of every wait, after which the caller checks again.
const LONGEST_BLOCK: Duration = Duration::from_secs(1);
/// The longest block while a checkpoint request waits for a child process of the program.
const CHILD_PAUSE: Duration = Duration::from_millis(5);

impl ProgressHandler<'_> {
    /// Makes progress until something has moved or a request for an image is to be met, at most for
    /// `deadline`: spins for a bounded time when this rank has a core of its own, then blocks.
    pub(super) fn wait(&mut self, hint: Option<ReqId>, deadline: Option<Duration>) -> Result<()> {
        if self.progress(hint)? {
            self.link.progress.stall.moved();
            return Ok(());
        }
        if self.is_request_due() {
            return Ok(());
        }
        let half_way = self.is_half_way(hint);
        let spin = self.link.progress.spin.budget(deadline, half_way);
        if !spin.is_zero() && self.spin_for(spin, hint)? {
            return Ok(());
        }
        if self.link.progress.spin.is_never() && self.yield_for_others(hint)? {
            return Ok(());
        }
        let left = deadline.map(|deadline| deadline.saturating_sub(spin));
        if left == Some(Duration::ZERO) {
            return Ok(());
        }
        self.block(hint, left)
    }

    fn stall(&mut self) -> StallHandler<'_> {
        StallHandler {
            member: self.link.member,
            engine: self.link.engine,
            links: self.link.links,
            manager: self.link.manager,
            stall: &mut self.link.progress.stall,
        }
    }

    /// Whether a request for an image ends the wait: the pass is over, and no child process of the
    /// program must end before.
    #[inline]
    fn is_request_due(&self) -> bool {
        self.link.progress.has_request() && !self.link.recovery.holds_request()
    }

    /// Whether the peer of the request that is waited for has moved a part of a message, and the
    /// rest is to follow.
    fn is_half_way(&mut self, hint: Option<ReqId>) -> bool {
        let rank = hint.and_then(|request| self.link.engine.peer_of(request));
        let live = rank.and_then(|rank| self.link.links.live_to(rank));
        live.is_some_and(|live| live.is_half_way())
    }

    /// Spins at most for `limit`; true if that ends the wait. A long gap between two readings of
    /// the clock means that the core is shared with other work. Spinning would only take turns with
    /// that work.
    fn spin_for(&mut self, limit: Duration, hint: Option<ReqId>) -> Result<bool> {
        let start = Instant::now();
        let mut last = Duration::ZERO;
        let mut passes = 0;
        loop {
            if self.progress(hint)? {
                self.link.progress.stall.moved();
                return Ok(true);
            }
            if self.is_request_due() {
                return Ok(true);
            }
            passes += 1;
            if passes % cadences::SPIN_CLOCK_EVERY == 0 {
                let now = start.elapsed();
                if now.saturating_sub(last) > PREEMPTED {
                    self.link.progress.spin.preempted();
                    return Ok(false);
                }
                if now >= limit {
                    return Ok(false);
                }
                last = now;
            }
            std::hint::spin_loop();
        }
    }

    /// With more ranks than cores: yields to the others for a while. When the message arrives soon,
    /// that costs less than a sleep and a wake-up. True if that ends the wait.
    fn yield_for_others(&mut self, hint: Option<ReqId>) -> Result<bool> {
        for _ in 0..cadences::YIELDS_BEFORE_BLOCK {
            std::thread::yield_now();
            if self.progress(hint)? {
                self.link.progress.stall.moved();
                return Ok(true);
            }
            if self.is_request_due() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Blocks in epoll until something has happened.
    fn block(&mut self, hint: Option<ReqId>, deadline: Option<Duration>) -> Result<()> {
        let probe_wait = self.stall().begin();
        self.link.engine.flush_all_acks();
        self.link.progress.grant(self.link.engine);
        if self.flush_ready()? | self.link.drain_readable()? {
            self.link.progress.stall.moved();
            return Ok(());
        }
        let mut limit = deadline.map_or(LONGEST_BLOCK, |deadline| deadline.min(LONGEST_BLOCK));
        if let Some(due) = self.run_timers()? {
            limit = limit.min(due.saturating_duration_since(Instant::now()));
        }
        limit = limit.min(probe_wait.unwrap_or(LONGEST_BLOCK));
        if self.listeners.accepts_later() {
            limit = limit.min(Duration::from_millis(50));
        }
        if self.link.recovery.is_pending() {
            // The request waits for a child process of the program.
            limit = limit.min(CHILD_PAUSE);
        }
        self.link.links.watch_all()?;
        if self.link.links.readable_count() > 0 || self.link.arm()? {
            limit = Duration::ZERO;
        }
        if self.poll_events(Some(limit))? || self.check_links_if_due()? {
            self.link.progress.stall.moved();
        } else {
            self.stall().report(hint)?;
        }
        Ok(())
    }
}
