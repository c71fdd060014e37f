//! Waits: a rank spins, yields, or blocks until something has moved.

use std::time::{Duration, Instant};

use rejoin_engine::ReqId;

use super::Device;
use crate::error::Result;
use crate::links::LinkFault;
use crate::progress::PREEMPTED;

/// Yields before blocking where ranks share cores. Each gives the core to whoever can use it, and
/// costs about half a microsecond if nobody can. A sleep and a wake-up cost tens of them on both
/// sides: ten yields made an alltoall of 64 KiB by 8 ranks on 2 cores take one and a half times as
/// long as these, and a barrier of 16 ranks twice as long. A thousand gained no more.
const YIELDS: u32 = 100;
/// Longest blocking call: the bound of every wait, after which the caller checks again.
const LONGEST_BLOCK: Duration = Duration::from_secs(1);
/// The longest block while a checkpoint request waits for a child process of the program.
const CHILD_PAUSE: Duration = Duration::from_millis(5);

impl Device {
    /// Makes progress until something has moved, at most for `deadline`: spins for a bounded time
    /// when this rank has a core of its own, then blocks. Returns early at a wake from another
    /// thread, at a signal, and at the latest after a second, so the caller must look again.
    ///
    /// # Errors
    /// As [`Device::progress`].
    pub fn wait(&mut self, hint: Option<ReqId>, deadline: Option<Duration>) -> Result<()> {
        if self.progress(hint)? {
            self.progress.stall.moved();
            return Ok(());
        }
        let half_way = self.is_half_way(hint);
        let spin = self.progress.spin.budget(deadline, half_way);
        if !spin.is_zero() && self.spin_for(spin, hint)? {
            return Ok(());
        }
        if self.progress.spin.is_never() && self.yield_for_others(hint)? {
            return Ok(());
        }
        let left = deadline.map(|deadline| deadline.saturating_sub(spin));
        if left == Some(Duration::ZERO) {
            return Ok(());
        }
        self.block(hint, left)
    }

    /// One pass for a call that does not wait. With more ranks than cores a program that only calls
    /// such calls gives its core to the others after some in vain: it waits for one of them.
    ///
    /// # Errors
    /// As [`Device::progress`].
    #[inline]
    pub fn look(&mut self, hint: Option<ReqId>) -> Result<bool> {
        let moved = self.progress(hint)?;
        if self.progress.spin.is_never() && self.progress.spin.looks_in_vain(moved) {
            std::thread::yield_now();
            return self.progress(hint);
        }
        Ok(moved)
    }

    /// Whether the peer of the request that is waited for has moved a part of a message, and the
    /// rest is to follow.
    fn is_half_way(&mut self, hint: Option<ReqId>) -> bool {
        let rank = hint.and_then(|request| self.engine.peer_of(request));
        let live = rank.and_then(|rank| self.links.live_to(rank));
        live.is_some_and(|live| live.is_half_way())
    }

    /// Spins at most for `limit`; true if anything moved. A long gap between two readings of the
    /// clock means that the core is shared with other work. Spinning would only take turns with
    /// that work.
    fn spin_for(&mut self, limit: Duration, hint: Option<ReqId>) -> Result<bool> {
        let start = Instant::now();
        let mut last = Duration::ZERO;
        let mut passes = 0;
        loop {
            if self.progress(hint)? {
                self.progress.stall.moved();
                return Ok(true);
            }
            passes += 1;
            if passes % 32 == 0 {
                let now = start.elapsed();
                if now.saturating_sub(last) > PREEMPTED {
                    self.progress.spin.preempted();
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
    /// that costs less than a sleep and a wake-up. True if anything moved.
    fn yield_for_others(&mut self, hint: Option<ReqId>) -> Result<bool> {
        for _ in 0..YIELDS {
            std::thread::yield_now();
            if self.progress(hint)? {
                self.progress.stall.moved();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Blocks in epoll until something has happened.
    fn block(&mut self, hint: Option<ReqId>, deadline: Option<Duration>) -> Result<()> {
        let stall_report = self.member.options().stall_report;
        let probe_wait = self.probe_wait();
        self.progress.stall.blocks(stall_report.or(probe_wait));
        self.engine.flush_all_acks();
        self.progress.grant(&mut self.engine);
        if self.flush_ready()? | self.drain_readable()? {
            self.progress.stall.moved();
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
        if self.recovery.is_pending() {
            // The request waits for a child process of the program.
            limit = limit.min(CHILD_PAUSE);
        }
        self.links.watch_all()?;
        if self.links.readable_count() > 0 || self.arm_links()? {
            limit = Duration::ZERO;
        }
        if self.poll_events(Some(limit))? || self.check_links_if_due()? {
            self.progress.stall.moved();
        } else {
            self.report_stall(hint);
            self.ask_about_wait(hint)?;
        }
        Ok(())
    }

    /// Has every polled link raise an event from here on; true if one of them has something
    /// already, so that nothing may block.
    fn arm_links(&mut self) -> Result<bool> {
        let (any, broken) = self.links.arm(&self.engine);
        for (token, lost) in broken {
            self.drop_link(token, LinkFault::Lost(lost))?;
        }
        Ok(any)
    }
}
