//! A pass of progress: write ready frames, read arrived bytes.
//!
//! The link that a hint names is read directly; epoll is polled every so many passes only
//! ([`cadences`]). An edge in epoll means "read until it is empty". So a link that was not read to
//! its end is listed, and read again before the device blocks.

use std::time::Duration;

use rejoin_channel_table::ids::Rank;
use rejoin_engine::ReqId;

use super::link_handler::LinkHandler;
use super::manager_updates::ManagerHandler;
use crate::error::Result;
use crate::events::{PollToken, Readiness};
use crate::links::RankListeners;
use crate::progress::cadences::{self, POLL_EVERY};
use crate::served_peers::ServedPeers;
use crate::{program_memory, ticks};

/// The part of the polled links that a poll of epoll also reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Everything that has arrived.
    All,
    /// Everything except short messages that match no receive.
    Matched,
    /// Nothing: this pass has read them.
    None,
}

/// Makes progress with links, connections and the manager's messages. Takes no image: a request for
/// one is noted, and the device meets it when the pass is over.
pub(super) struct ProgressHandler<'a> {
    pub(super) link: LinkHandler<'a>,
    pub(super) listeners: &'a mut RankListeners,
    pub(super) served: &'a mut ServedPeers,
}

impl ProgressHandler<'_> {
    /// Takes the manager's messages.
    pub(super) fn manager(&mut self) -> ManagerHandler<'_> {
        manager_handler!(self.link, self.served)
    }

    /// One pass without blocking; true if anything moved. `hint` names the request that is waited
    /// for: its peer's link is read first, without epoll. This writes deferred nonblocking sends.
    #[inline]
    pub(super) fn progress(&mut self, hint: Option<ReqId>) -> Result<bool> {
        let moved = self.pass(hint)?;
        let engine = &mut *self.link.engine;
        Ok(moved || (engine.has_groups() && program_memory::log_early(engine)))
    }

    /// One pass without blocking, and without the copies that are made when there is nothing else
    /// to do.
    #[inline]
    fn pass(&mut self, hint: Option<ReqId>) -> Result<bool> {
        let mut moved = self.flush_ready()?;
        let link = &mut self.link;
        let pass = link.progress.next_pass();
        // All polled links have been read in this pass, with messages that match no receive.
        let mut served = false;
        let hinted = hint
            .and_then(|request| link.engine.peer_of(request))
            .and_then(|rank| Some((rank, link.links.token_of(rank)?)));
        if let Some((rank, token)) = hinted {
            if link.poll_link(rank, token, true)? {
                link.links
                    .count_direct_read(token, !link.progress.spin.is_never())?;
                moved = true;
            }
            if !moved && pass.is_multiple_of(cadences::SERVE_OTHERS_EVERY) {
                moved |= link.serve_polled(true)?;
            }
            let every = if !moved || link.links.polls_any() {
                POLL_EVERY
            } else if link.engine.has_groups() {
                cadences::POLL_LOGGING_EVERY
            } else {
                cadences::POLL_MOVING_EVERY
            };
            if !link.links.poll_is_due(pass, every) {
                return Ok(self.flush_ready()? | moved);
            }
        } else if link.links.polls_any() {
            moved |= link.serve_polled(true)?;
            served = true;
            if moved {
                self.flush_ready()?;
            }
            let every = cadences::POLL_UNHINTED_EVERY;
            if !self.link.links.poll_is_due(pass, every) {
                return Ok(moved);
            }
        } else if let Some(token) = link.links.recent() {
            moved |= link.ingest(token, None)?;
            if moved {
                self.flush_ready()?;
                if !pass.is_multiple_of(cadences::POLL_BEHIND_BUSY_EVERY) {
                    return Ok(true);
                }
            }
        }
        let polls = self.link.meter.stats.event_polls;
        let reads = if moved && served {
            Reads::None
        } else if moved && !polls.is_multiple_of(cadences::TAKE_UNEXPECTED_EVERY) {
            Reads::Matched
        } else {
            Reads::All
        };
        Ok(self.poll_events_and_read(Some(Duration::ZERO), reads)? | moved)
    }

    /// Polls epoll, at most for `limit`, and serves ready descriptors; true if anything moved.
    pub(super) fn poll_events(&mut self, limit: Option<Duration>) -> Result<bool> {
        self.poll_events_and_read(limit, Reads::All)
    }

    /// Polls epoll, at most for `limit`, and serves ready descriptors; true if anything moved.
    /// `reads` selects the part of the polled links that is read.
    fn poll_events_and_read(&mut self, limit: Option<Duration>, reads: Reads) -> Result<bool> {
        let link = &mut self.link;
        if limit == Some(Duration::ZERO) {
            link.meter.stats.event_polls += 1;
        } else {
            link.meter.stats.blocks += 1;
        }
        let mut events = link.progress.take_events();
        link.links.wait_for_events(limit, &mut events)?;
        let unnoticed = link.links.disarm();
        if events.is_empty() && limit != Some(Duration::ZERO) {
            // Bytes have arrived without a wake-up while the rank slept.
            link.meter.stats.late += unnoticed;
        }
        let mut moved = false;
        // An edge comes once: an error at one link must not lose the readiness of the others.
        let mut first = Ok(());
        for event in &events {
            match self.event(*event) {
                Ok(any) => moved |= any,
                Err(error) => first = first.and(Err(error)),
            }
        }
        self.link.progress.put_events(events);
        first?;
        for number in self.listeners.left_waiting() {
            moved |= self.accept_all(number)?;
        }
        self.run_timers()?;
        moved |= self.link.serve_unwatched()?;
        if reads != Reads::None {
            moved |= self.link.serve_polled(reads == Reads::All)?;
        }
        moved |= self.link.drain_readable()?;
        moved |= self.check_links_now_and_then()?;
        let link = &mut self.link;
        // A program that polls may never block. Its messages must still reach it, also while other
        // messages keep moving.
        let polls = link.meter.stats.event_polls;
        if polls.is_multiple_of(cadences::GRANT_EVERY) {
            link.progress.grant(link.engine);
        }
        link.logs().request_log_room()?;
        self.manager().take_signalled_request()?;
        // A checkpoint ends no wait, and must not delay the report of a long one.
        let link = &mut self.link;
        link.progress.note_request(link.recovery.is_pending());
        Ok(self.flush_ready()? | moved)
    }

    fn event(&mut self, event: Readiness) -> Result<bool> {
        match event.token {
            PollToken::MANAGER => self.manager().read(),
            PollToken::WAKER => Ok(true),
            token if token.is_listener() => self.accept_all(token.generation),
            token => self.link_event(token, event),
        }
    }

    fn link_event(&mut self, token: PollToken, event: Readiness) -> Result<bool> {
        let Some(rank) = self.link.links.note_event(&event) else {
            return self.continue_handshake(token);
        };
        let link = &mut self.link;
        let mut moved = false;
        if event.readable {
            moved |= link.ingest(token, None)?;
            if moved {
                link.links.set_recent(token);
            }
        }
        if event.hangup {
            // A read that is shorter than asked for may end before the end of file.
            link.links.list_readable(token);
        }
        if event.writable && link.engine.tx_pending(rank) {
            moved |= self.flush_link(rank)?;
        }
        Ok(moved)
    }

    /// While polling: checks the links when the last check is a second old. True if anything moved.
    #[inline]
    fn check_links_now_and_then(&mut self) -> Result<bool> {
        let stats = &self.link.meter.stats;
        if !(stats.event_polls + stats.blocks).is_multiple_of(cadences::CLOCK_EVERY) {
            return Ok(false);
        }
        self.check_links_if_due()
    }

    /// Checks the links when the last check is a second old, also after a wait that nothing has
    /// ended.
    #[cold]
    pub(super) fn check_links_if_due(&mut self) -> Result<bool> {
        if !self.link.progress.must_check() {
            return Ok(false);
        }
        let (moved, events) = self.link.check_links()?;
        for event in events {
            self.event(event)?;
        }
        Ok(moved)
    }

    /// Writes to, or dials, every peer that the engine has something for.
    #[inline]
    pub(super) fn flush_ready(&mut self) -> Result<bool> {
        let mut moved = false;
        let link = &mut self.link;
        if link.engine.has_groups() {
            moved = link.engine.any_log_copy();
            program_memory::log_out(link.engine);
            let mut logs = link.logs();
            if logs.engine.any_to_record() && !logs.store_matches()? {
                return Ok(moved);
            }
            if logs.engine.any_ready() && !logs.may_frames_leave()? {
                return Ok(moved);
            }
        }
        while let Some(rank) = self.link.engine.next_ready() {
            moved |= self.flush_link(rank)?;
        }
        if !self.link.progress.detaches_none() {
            moved |= self.detach_all();
        }
        Ok(moved)
    }

    /// Writes the engine's frames for a peer, or dials it.
    #[inline]
    pub(super) fn flush_link(&mut self, rank: Rank) -> Result<bool> {
        if !self.link.may_flush(rank)? {
            return Ok(false);
        }
        if let Some(token) = self.link.links.token_of(rank) {
            return self.link.write(rank, token);
        }
        if self.link.engine.tx_waiting(rank) {
            self.want_link(rank)?;
        }
        Ok(false)
    }

    /// A nonblocking send of `len` bytes has been queued: it is written at once, or with the next
    /// write of its burst.
    #[inline]
    pub(super) fn push_out(&mut self, rank: Rank, len: usize, long: bool) -> Result<()> {
        let Some(live) = self.link.links.live_to(rank) else {
            return self.flush_link(rank).map(|_| ());
        };
        if live.burst.defers(ticks::now(), len, long) {
            return Ok(());
        }
        self.flush_link(rank)?;
        if let Some(live) = self.link.links.live_to(rank) {
            live.burst.begin(ticks::now());
        }
        Ok(())
    }

    /// Copies the bodies of blocking sends that are written, which completes the sends.
    fn detach_all(&mut self) -> bool {
        let engine = &mut *self.link.engine;
        let progress = &mut *self.link.progress;
        progress.retain_detaching(|request| !program_memory::detach(engine, *request))
    }
}

#[cfg(test)]
mod tests {
    use rejoin_channel_table::Epoch;

    use crate::{Device, Options};

    #[test]
    fn a_pass_ends_a_wait_for_a_request_and_leaves_the_image_to_the_device() {
        let mut device = Device::alone(Options::default()).expect("a device");
        device.recovery.request(Epoch(1), device.engine.epoch());
        // Without a message, this would block for a second.
        device.passes().wait(None, None).expect("nothing fails");
        assert!(device.progress.has_request() && device.recovery.is_pending());
        assert_eq!(device.epoch(), Epoch(0));
        device.progress(None).expect("nothing fails");
        assert!(!device.progress.has_request() && !device.recovery.is_pending());
        assert_eq!(device.epoch(), Epoch(1));
    }
}
