//! A pass of progress: write ready frames, read arrived bytes.
//!
//! The link that a hint names is read directly; epoll is polled every so many passes only. An
//! edge in epoll means "read until it is empty". So a link that was not read to its end is listed,
//! and read again before the device blocks.

use std::time::Duration;

use rejoin_channel_table::ids::Rank;
use rejoin_engine::ReqId;

use super::{Device, POLL_EVERY};
use crate::error::Result;
use crate::events::{PollToken, Readiness};
use crate::links::Intake;
use crate::program_memory;
use crate::transport::Endpoint;

/// Passes between two polls of epoll where no request names a peer and some links need epoll.
const POLL_OFTEN: u32 = 4;
/// Passes between two polls of epoll while the hinted link keeps moving: the manager must be heard.
const POLL_MOVING: u32 = 256;
/// The same in logging modes, where a poll also bounds the log.
const POLL_LOGGING: u32 = 16;
/// Passes with a hinted link between two polls of the links that need no epoll.
const SERVE_EVERY: u32 = 8;
/// Polls of epoll between two grants to peers that may hold what is waited or probed for.
const GRANT_EVERY: u64 = 4;
/// While messages match receives: number of epoll calls between two passes that also take messages
/// without a receive.
const ALL_EVERY: u64 = 16;

/// The part of the polled links that a poll of epoll also reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Everything that has arrived.
    All,
    /// Everything except short messages that match no receive. To keep those and find them again
    /// costs more than to receive them from their links.
    Matched,
    /// Nothing: this pass has read them.
    None,
}

impl Device {
    /// One pass without blocking; true if anything moved. `hint` names the request that is waited
    /// for: its peer's link is read first, without epoll. This writes deferred nonblocking sends.
    ///
    /// # Errors
    /// A peer that cannot be reached, or a manager that cannot be understood.
    #[inline]
    pub fn progress(&mut self, hint: Option<ReqId>) -> Result<bool> {
        let moved = self.pass(hint)?;
        Ok(moved || (self.engine.has_groups() && program_memory::log_early(&mut self.engine)))
    }

    /// The same, without the copies that are made when there is nothing else to do.
    #[inline]
    fn pass(&mut self, hint: Option<ReqId>) -> Result<bool> {
        let mut moved = self.flush_ready()?;
        let pass = self.progress.next_pass();
        // All polled links have been read in this pass, with messages that match no receive.
        let mut served = false;
        let hinted = hint
            .and_then(|request| self.engine.peer_of(request))
            .and_then(|rank| Some((rank, self.links.token_of(rank)?)));
        if let Some((rank, token)) = hinted {
            if self.poll_link(rank, token, true)? {
                self.links
                    .count_direct_read(token, !self.progress.spin.is_never())?;
                moved = true;
            }
            if !moved && pass.is_multiple_of(SERVE_EVERY) {
                moved |= self.serve_polled(true)?;
            }
            let every = match moved && !self.links.polls_any() {
                false => POLL_EVERY,
                // The log grows with each message.
                true if self.engine.has_groups() => POLL_LOGGING,
                true => POLL_MOVING,
            };
            if !self.links.poll_is_due(pass, every) {
                return Ok(self.flush_ready()? | moved);
            }
        } else if self.links.polls_any() {
            moved |= self.serve_polled(true)?;
            served = true;
            if moved {
                self.flush_ready()?;
            }
            if !self.links.poll_is_due(pass, POLL_OFTEN) {
                return Ok(moved);
            }
        } else if let Some(token) = self.links.recent() {
            moved |= self.ingest(token, None)?;
            if moved {
                self.flush_ready()?;
                // The others must not starve behind a busy link.
                if !pass.is_multiple_of(8) {
                    return Ok(true);
                }
            }
        }
        let reads = match moved {
            true if served => Reads::None,
            true if !self.meter.stats.event_polls.is_multiple_of(ALL_EVERY) => Reads::Matched,
            _ => Reads::All,
        };
        Ok(self.poll_events_and_read(Some(Duration::ZERO), reads)? | moved)
    }

    /// Polls epoll, at most for `limit`, and serves ready descriptors; true if anything moved.
    pub(super) fn poll_events(&mut self, limit: Option<Duration>) -> Result<bool> {
        self.poll_events_and_read(limit, Reads::All)
    }

    /// The same; `reads` selects the part of the polled links that is read.
    fn poll_events_and_read(&mut self, limit: Option<Duration>, reads: Reads) -> Result<bool> {
        if limit == Some(Duration::ZERO) {
            self.meter.stats.event_polls += 1;
        } else {
            self.meter.stats.blocks += 1;
        }
        let mut events = self.progress.take_events();
        self.links.wait_for_events(limit, &mut events)?;
        let unnoticed = self.links.disarm();
        if events.is_empty() && limit != Some(Duration::ZERO) {
            // Bytes have arrived without a wake-up while the rank slept.
            self.meter.stats.late += unnoticed;
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
        self.progress.put_events(events);
        first?;
        for number in self.listeners.left_waiting() {
            moved |= self.accept_all(number)?;
        }
        self.run_timers()?;
        moved |= self.serve_unwatched()?;
        if reads != Reads::None {
            moved |= self.serve_polled(reads == Reads::All)?;
        }
        moved |= self.drain_readable()?;
        moved |= self.check_links_now_and_then()?;
        // A program that polls may never block. Its messages must still reach it, also while other
        // messages keep moving.
        if self.meter.stats.event_polls.is_multiple_of(GRANT_EVERY) {
            self.progress.grant(&mut self.engine);
        }
        self.ask_for_log_room()?;
        self.take_signalled_request()?;
        if self.recovery.is_pending() {
            // A checkpoint ends no wait, and must not delay the report of a long one.
            self.safe_point()?;
        }
        Ok(self.flush_ready()? | moved)
    }

    pub(super) fn event(&mut self, event: Readiness) -> Result<bool> {
        match event.token {
            PollToken::MANAGER => self.read_manager_messages(),
            PollToken::WAKER => Ok(true),
            token if token.is_listener() => self.accept_all(token.generation),
            token => self.link_event(token, event),
        }
    }

    fn link_event(&mut self, token: PollToken, event: Readiness) -> Result<bool> {
        let Some(rank) = self.links.note_event(&event) else {
            return self.handshake_event(token);
        };
        let mut moved = false;
        if event.readable {
            moved |= self.ingest(token, None)?;
            if moved {
                self.links.set_recent(token);
            }
        }
        if event.hangup {
            // A read that is shorter than asked for may end before the end of file.
            self.links.list_readable(token);
        }
        if event.writable && self.engine.tx_pending(rank) {
            moved |= self.flush_link(rank)?;
        }
        Ok(moved)
    }

    /// Reads a link that is waited for, and retries what did not fit: its turn in a spin. Unless
    /// `all` is wanted, short messages that meet no receive stay where they are.
    #[inline]
    pub(super) fn poll_link(&mut self, rank: Rank, token: PollToken, all: bool) -> Result<bool> {
        let Some(live) = self.links.live(token) else {
            return Ok(false);
        };
        let mut moved = false;
        if live.may_look_for_short() {
            if !self.meter.injects_faults() {
                let mut intake = Intake {
                    engine: &mut self.engine,
                    staging: self.progress.staging(),
                    meter: &mut self.meter,
                    checkpoint: self.recovery.checkpoint(),
                };
                moved = intake.take_matched(live) > 0;
            }
            // A message without a receive stays in its link until a pass in which no message has
            // one.
            if moved || live.endpoint.is_idle() || (!all && live.has_short()) {
                let moved = moved || live.serve_get(&mut self.meter);
                self.log_received();
                return Ok(moved);
            }
        }
        moved |= self.ingest(token, None)?;
        if let Some(live) = self.links.live(token)
            && live.is_write_blocked()
            && self.engine.tx_pending(rank)
        {
            live.retry_write();
            moved |= self.flush_link(rank)?;
        }
        Ok(moved)
    }

    /// Reads every polled link that has something, and retries what did not fit. `all`: as
    /// [`Device::poll_link`].
    #[inline]
    fn serve_polled(&mut self, all: bool) -> Result<bool> {
        let mut moved = false;
        for at in 0..self.links.polled_count() {
            let Some((token, live)) = self.links.polled(at) else {
                break;
            };
            let rank = live.rank();
            moved |= self.poll_link(rank, token, all)?;
        }
        Ok(moved)
    }

    /// Reads the links that epoll does not watch, and retries what did not fit.
    fn serve_unwatched(&mut self) -> Result<bool> {
        let mut moved = false;
        for at in 0..self.links.unwatched_count() {
            let Some((token, rank)) = self.links.unwatched(at) else {
                break;
            };
            moved |= self.poll_link(rank, token, true)?;
        }
        Ok(moved)
    }

    /// Reads every link that may hold bytes which no event will announce.
    pub(super) fn drain_readable(&mut self) -> Result<bool> {
        let mut moved = false;
        for _ in 0..self.links.readable_count() {
            let Some(token) = self.links.next_readable() else {
                break;
            };
            moved |= self.ingest(token, None)?;
        }
        Ok(moved)
    }
}
