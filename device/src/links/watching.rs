//! Which links epoll watches, and which are read without it.
//!
//! A watched socket costs the sender's side of the kernel a callback per segment, 5 to 8 % of a
//! small message's latency. A link that a spinning rank reads directly needs none: busy links leave
//! epoll for as long as their rank spins. Before the rank blocks, every such link is watched again,
//! which reports at once bytes that have arrived meanwhile.
//!
//! Links over shared memory raise no event by themselves: they are polled, and armed before the
//! rank blocks.

use std::time::Duration;

use rejoin_channel_table::ids::Rank;
use rejoin_engine::Engine;

use super::{Links, Live, MOST_UNWATCHED};
use crate::error::{Result, text_of};
use crate::events::{PollToken, Readiness};
use crate::ticks;
use crate::transport::{Endpoint, Fault, Lost};

/// Successful direct reads after which a link leaves epoll.
const BUSY_AFTER: u32 = 64;

impl Links {
    /// Waits for events at most for `limit`, and appends them.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn wait_for_events(
        &mut self,
        limit: Option<Duration>,
        events: &mut Vec<Readiness>,
    ) -> Result<()> {
        self.poller.wait(limit, |event| events.push(event))?;
        if !self.polled.is_empty() {
            self.poll_clock.polled(ticks::now());
        }
        Ok(())
    }

    /// Whether the pass with this number must ask epoll. If some links need epoll, it does so after
    /// `every` passes. If links are polled, it does so after a while, however few the passes are,
    /// because some calls make no pass.
    #[inline]
    pub(crate) fn poll_is_due(&mut self, pass: u32, every: u32) -> bool {
        if self.polled.is_empty() || self.slots.any_pending() || self.slots.any_watched() {
            if pass.is_multiple_of(every) {
                return true;
            }
            if self.polled.is_empty() {
                return false;
            }
        }
        self.poll_clock.is_due(ticks::now)
    }

    /// A direct read of a link has brought something: a busy link leaves epoll.
    ///
    /// # Errors
    /// The system refuses.
    #[inline]
    pub(crate) fn count_direct_read(&mut self, token: PollToken, spins: bool) -> Result<()> {
        let Some(live) = self.slots.live(token) else {
            return Ok(());
        };
        if !live.watched {
            return Ok(());
        }
        live.hits = live.hits.saturating_add(1);
        if live.hits < BUSY_AFTER {
            return Ok(());
        }
        live.hits = 0;
        if !spins || self.unwatched.len() == MOST_UNWATCHED {
            return Ok(());
        }
        self.poller.remove(live.endpoint.descriptor())?;
        live.watched = false;
        self.unwatched.push(token);
        Ok(())
    }

    /// The link at this position among those that epoll does not watch.
    pub(crate) fn unwatched(&mut self, at: usize) -> Option<(PollToken, Rank)> {
        let token = *self.unwatched.get(at)?;
        let live = self.slots.live(token)?;
        Some((token, live.rank))
    }

    /// Number of links that epoll does not watch.
    pub(crate) fn unwatched_count(&self) -> usize {
        self.unwatched.len()
    }

    /// Has epoll watch every link again: the rank is about to block.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn watch_all(&mut self) -> Result<()> {
        while let Some(token) = self.unwatched.pop() {
            if let Some(live) = self.slots.live(token) {
                let descriptor = live.endpoint.descriptor();
                self.poller.add(descriptor, token, true)?;
                live.watched = true;
                live.hits = 0;
            }
        }
        Ok(())
    }

    /// Whether any link is polled.
    #[inline(always)]
    pub(crate) fn polls_any(&self) -> bool {
        !self.polled.is_empty()
    }

    /// Number of polled links.
    #[inline(always)]
    pub(crate) fn polled_count(&self) -> usize {
        self.polled.len()
    }

    /// The polled link at this position.
    #[inline(always)]
    pub(crate) fn polled(&mut self, at: usize) -> Option<(PollToken, &mut Live)> {
        let token = *self.polled.get(at)?;
        Some((token, self.slots.live(token)?))
    }

    /// Has every polled link raise an event from here on. True if one of them has something
    /// already, so that nothing may block; and the links that turn out to be broken.
    pub(crate) fn arm(&mut self, engine: &Engine) -> (bool, Vec<(PollToken, Lost)>) {
        self.armed = !self.polled.is_empty();
        let (mut any, mut broken) = (false, Vec::new());
        for token in &self.polled {
            let Some(live) = self.slots.live(*token) else {
                continue;
            };
            let for_room = live.write_blocked && engine.tx_pending(live.rank);
            match live.endpoint.arm_doorbell(for_room) {
                Ok(ready) => any |= ready,
                Err(fault) => {
                    any = true;
                    let lost = match *fault {
                        Fault::Link(lost) => lost,
                        Fault::Memory(error) => Lost(text_of(&error)),
                    };
                    broken.push((*token, lost));
                }
            }
        }
        (any, broken)
    }

    /// Disarms the doorbells: the rank is awake. Returns the number of links that hold something.
    pub(crate) fn disarm(&mut self) -> u64 {
        if !std::mem::take(&mut self.armed) {
            return 0;
        }
        let mut unnoticed = 0;
        for token in &self.polled {
            if let Some(live) = self.slots.live(*token) {
                unnoticed += u64::from(live.endpoint.disarm_doorbell());
            }
        }
        unnoticed
    }

    /// A link may hold bytes that no event will announce.
    pub(crate) fn list_readable(&mut self, token: PollToken) {
        if let Some(live) = self.slots.live(token)
            && !live.listed
        {
            live.listed = true;
            self.readable.push_back(token);
        }
    }

    /// Number of links that may hold bytes which no event will announce.
    pub(crate) fn readable_count(&self) -> usize {
        self.readable.len()
    }

    /// Takes the next of them off the list.
    pub(crate) fn next_readable(&mut self) -> Option<PollToken> {
        let token = self.readable.pop_front()?;
        if let Some(live) = self.slots.live(token) {
            live.listed = false;
        }
        Some(token)
    }

    /// The link that brought something last.
    #[inline]
    pub(crate) fn recent(&self) -> Option<PollToken> {
        self.recent
    }

    /// An event of a link that is read next: its peer. `None`: the token names no link.
    pub(crate) fn note_event(&mut self, event: &Readiness) -> Option<Rank> {
        let live = self.slots.live(event.token)?;
        if live.polled {
            live.endpoint.note_event();
        }
        if event.writable {
            live.write_blocked = false;
        }
        Some(live.rank)
    }

    /// A link has brought something.
    pub(crate) fn set_recent(&mut self, token: PollToken) {
        self.recent = Some(token);
    }
}
