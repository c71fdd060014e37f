//! The progress engine: flush what is ready, read what has come, wait when there is neither.
//!
//! The link that a hint names is read directly; epoll is looked at every so many passes only. An
//! edge in epoll means "read until it is empty", so a link that was not read to its end is listed
//! and read again before anything blocks.

use std::time::{Duration, Instant};

use rejoin_channel_table::ids::Rank;
use rejoin_engine::ReqId;

use crate::clock;
use crate::device::{Device, LOOK_EVERY};
use crate::error::{Error, Result};
use crate::poller::{Event, Token};
use crate::receive::{Broken, Intake, copy_out};
use crate::slots::Slot;
use crate::spin::PREEMPTED;
use crate::transmit;
use crate::transport::{Endpoint, Fault};

/// Passes between two looks at epoll where nothing is hinted at and some links need it.
const LOOK_OFTEN: u32 = 4;
/// Passes with a hinted link between two looks at the links that need no epoll.
const SERVE_EVERY: u32 = 8;
/// Looks at epoll between two grants to peers that may hold what is waited or probed for.
const GRANT_EVERY: u64 = 4;
/// Looks at epoll, while messages meet their receives, between two that take in what meets none.
const ALL_EVERY: u64 = 16;
/// Small sends put off to one link at most, in messages.
const BATCH: u32 = 32;
/// Longer eager sends put off to one link at most, in messages: one write takes as many.
const BATCH_LONG: u32 = (rejoin_engine::GATHER_PIECES / 2) as u32;
/// Bytes of longer eager sends put off at most: a larger write gains nothing more.
const BATCH_BYTES: usize = 1 << 20;
/// Longer sends of a burst that go out one by one before any is put off: a few messages to a
/// neighbour are on their way while the program computes, a stream shares writes.
const STREAM: u32 = 4;
/// A send that follows the last write by less than this belongs to a burst.
const BURST: u64 = 2 * clock::MICROSECOND;
/// Times to yield before blocking where ranks share cores: more gained nothing at 4, 8 and 16 ranks
/// on 2 cores, none at all made barriers half as fast again.
const YIELDS: u32 = 10;
/// Longest blocking call: the bound of every wait, after which the caller looks again.
const LONGEST_BLOCK: Duration = Duration::from_secs(1);

impl Device {
    /// One pass without blocking; true if anything moved. `hint` names the request that is waited
    /// for: its peer's link is read first, without epoll. Nonblocking small sends that were put
    /// off go out here.
    ///
    /// # Errors
    /// A peer that cannot be reached, or a manager that cannot be understood.
    #[inline]
    pub fn progress(&mut self, hint: Option<ReqId>) -> Result<bool> {
        let mut moved = self.flush_ready()?;
        self.passes = self.passes.wrapping_add(1);
        let hinted = hint
            .and_then(|request| self.engine.peer_of(request))
            .and_then(|rank| self.table.live(rank).map(|(_, token)| (rank, token)));
        if let Some((rank, token)) = hinted {
            if self.poll_link(rank, token, true)? {
                self.hit(token)?;
                moved = true;
            }
            if !moved && self.passes.is_multiple_of(SERVE_EVERY) {
                moved |= self.serve_polled(true)?;
            }
            if (moved && self.io.polled.is_empty()) || !self.must_look(LOOK_EVERY) {
                return Ok(self.flush_ready()? | moved);
            }
        } else if !self.io.polled.is_empty() {
            moved |= self.serve_polled(true)?;
            if moved {
                self.flush_ready()?;
            }
            if !self.must_look(LOOK_OFTEN) {
                return Ok(moved);
            }
        } else if let Some(token) = self.io.recent {
            moved |= self.take_in(token, None)?;
            if moved {
                self.flush_ready()?;
                // The others must not starve behind a busy link.
                if !self.passes.is_multiple_of(8) {
                    return Ok(true);
                }
            }
        }
        let all = !moved || self.meter.stats.looks.is_multiple_of(ALL_EVERY);
        Ok(self.look_at(Some(Duration::ZERO), all)? | moved)
    }

    /// Makes progress until something has moved, at most for `deadline`: spins for a bounded time
    /// when this rank has a core of its own, then blocks. Returns early at a wake from another
    /// thread, at a signal, and at the latest after a second, so the caller must look again.
    ///
    /// # Errors
    /// As [`Device::progress`].
    pub fn wait(&mut self, hint: Option<ReqId>, deadline: Option<Duration>) -> Result<()> {
        if self.progress(hint)? {
            self.io.waiting_since = None;
            return Ok(());
        }
        let half_way = self.is_half_way(hint);
        let spin = self.spin.budget(deadline, half_way);
        if !spin.is_zero() && self.spin_for(spin, hint)? {
            return Ok(());
        }
        if self.spin.is_never() && self.give_way(hint)? {
            return Ok(());
        }
        let left = deadline.map(|deadline| deadline.saturating_sub(spin));
        if left == Some(Duration::ZERO) {
            return Ok(());
        }
        self.block(hint, left)
    }

    /// Whether the peer of the request that is waited for has moved a part of a message, and the
    /// rest is to follow.
    fn is_half_way(&mut self, hint: Option<ReqId>) -> bool {
        let rank = hint.and_then(|request| self.engine.peer_of(request));
        let live = rank.and_then(|rank| self.io.slots.live_to(&self.table, rank));
        live.is_some_and(|live| live.polled && (live.write_blocked || !live.is_between_frames()))
    }

    /// Spins at most for `limit`; true if anything moved. A long gap between two looks at the clock
    /// means that the core is shared with other work, and spinning would only take turns with it.
    fn spin_for(&mut self, limit: Duration, hint: Option<ReqId>) -> Result<bool> {
        let start = Instant::now();
        let mut last = Duration::ZERO;
        let mut passes = 0;
        loop {
            if self.progress(hint)? {
                self.io.waiting_since = None;
                return Ok(true);
            }
            passes += 1;
            if passes % 32 == 0 {
                let now = start.elapsed();
                if now.saturating_sub(last) > PREEMPTED {
                    self.spin.preempted();
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

    /// With more ranks than cores: lets the others run a few times, which costs less than to be
    /// put to sleep and started again when the message is about to come. True if anything moved.
    fn give_way(&mut self, hint: Option<ReqId>) -> Result<bool> {
        for _ in 0..YIELDS {
            std::thread::yield_now();
            if self.progress(hint)? {
                self.io.waiting_since = None;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Blocks in epoll until something has happened.
    fn block(&mut self, hint: Option<ReqId>, deadline: Option<Duration>) -> Result<()> {
        self.engine.flush_all_acks();
        self.engine
            .grant_if_starved(&std::mem::take(&mut self.probing));
        if self.flush_ready()? | self.drain_readable()? {
            return Ok(());
        }
        let mut limit = deadline.map_or(LONGEST_BLOCK, |deadline| deadline.min(LONGEST_BLOCK));
        if let Some(due) = self.run_timers()? {
            limit = limit.min(due.saturating_duration_since(Instant::now()));
        }
        if self.io.accept_again {
            limit = limit.min(Duration::from_millis(50));
        }
        self.watch_all()?;
        if !self.io.readable.is_empty() || self.arm_polled()? {
            limit = Duration::ZERO;
        }
        if self.look(Some(limit))? || self.check_links_if_due()? {
            self.io.waiting_since = None;
        } else {
            self.report_stall(hint);
        }
        Ok(())
    }

    /// Looks at epoll, at most for `limit`, and serves what is ready; true if anything moved.
    pub(crate) fn look(&mut self, limit: Option<Duration>) -> Result<bool> {
        self.look_at(limit, true)
    }

    /// The same; unless `all` is wanted, short messages that meet no receive are left in their
    /// links: to keep them and to find them again costs more than to receive them there.
    fn look_at(&mut self, limit: Option<Duration>, all: bool) -> Result<bool> {
        if limit == Some(Duration::ZERO) {
            self.meter.stats.looks += 1;
        } else {
            self.meter.stats.blocks += 1;
        }
        let mut events = std::mem::take(&mut self.io.events);
        events.clear();
        self.io.poller.wait(limit, |event| events.push(event))?;
        if !self.io.polled.is_empty() {
            self.io.looked = clock::ticks();
            if self.io.armed {
                self.disarm_polled(events.is_empty() && limit != Some(Duration::ZERO));
            }
        }
        let mut moved = false;
        // An edge comes once: an error at one link must not lose what is ready at the others.
        let mut first = Ok(());
        for event in &events {
            match self.event(*event) {
                Ok(any) => moved |= any,
                Err(error) => first = first.and(Err(error)),
            }
        }
        self.io.events = events;
        first?;
        if self.io.accept_again {
            self.io.accept_again = false;
            for number in self.io.listeners.numbers() {
                moved |= self.accept_all(number)?;
            }
        }
        self.run_timers()?;
        if !self.io.unwatched.is_empty() {
            moved |= self.serve_unwatched()?;
        }
        moved |= self.serve_polled(all)?;
        moved |= self.drain_readable()?;
        moved |= self.check_links_now_and_then()?;
        // A program that polls may never block: what it looks for must reach it all the same, also
        // while other messages keep moving.
        if self.meter.stats.looks.is_multiple_of(GRANT_EVERY) {
            self.engine
                .grant_if_starved(&std::mem::take(&mut self.probing));
        }
        self.hear_signal();
        if self.checkpoint.is_pending() {
            // Nothing that a wait waits for: a report of one that lasts must not be put off by it.
            self.safe_point()?;
        }
        Ok(self.flush_ready()? | moved)
    }

    pub(crate) fn event(&mut self, event: Event) -> Result<bool> {
        match event.token {
            Token::MANAGER => self.hear_manager(),
            Token::WAKER => Ok(true),
            token if token.is_listener() => self.accept_all(token.generation),
            token => self.link_event(token, event),
        }
    }

    fn link_event(&mut self, token: Token, event: Event) -> Result<bool> {
        let rank = match self.io.slots.get(token) {
            Some(Slot::Pending(_)) => return self.handshake_event(token),
            Some(Slot::Live(live)) => {
                if live.polled {
                    live.endpoint.note_event();
                }
                if event.writable {
                    live.write_blocked = false;
                }
                live.rank
            }
            _ => return Ok(false),
        };
        let mut moved = false;
        if event.readable {
            moved |= self.take_in(token, None)?;
            if moved {
                self.io.recent = Some(token);
            }
        }
        if event.hangup {
            // A read that is shorter than asked for may end before the end of file.
            self.list_readable(token);
        }
        if event.writable && self.engine.tx_pending(rank) {
            moved |= self.flush_link(rank)?;
        }
        Ok(moved)
    }

    /// Reads a link that is waited for, and retries what did not fit: its turn in a spin. Unless
    /// `all` is wanted, short messages that meet no receive stay where they are.
    #[inline]
    pub(crate) fn poll_link(&mut self, rank: Rank, token: Token, all: bool) -> Result<bool> {
        let Some(live) = self.io.slots.live(token) else {
            return Ok(false);
        };
        let mut moved = false;
        if live.polled && !live.write_blocked && live.held.is_empty() {
            if self.meter.injector.is_none() {
                let mut intake = Intake {
                    engine: &mut self.engine,
                    staging: &mut self.io.staging,
                    meter: &mut self.meter,
                    checkpoint: &mut self.checkpoint,
                };
                match intake.take_matched(live) {
                    Ok(count) => moved = count > 0,
                    Err(broken) => return self.drop_link(token, broken).map(|()| true),
                }
            }
            // What meets no receive yet is left where it is for a pass in which nothing does.
            if moved || live.endpoint.is_idle() || (!all && live.has_short()) {
                return Ok(moved || live.serve_get(&mut self.meter));
            }
        }
        moved |= self.take_in(token, None)?;
        if let Some(live) = self.io.slots.live(token)
            && live.write_blocked
            && self.engine.tx_pending(rank)
        {
            live.write_blocked = false;
            moved |= self.flush_link(rank)?;
        }
        Ok(moved)
    }

    /// Writes to, or dials, every peer that the engine has something for.
    #[inline]
    pub(crate) fn flush_ready(&mut self) -> Result<bool> {
        let mut moved = false;
        while let Some(rank) = self.engine.next_ready() {
            moved |= self.flush_link(rank)?;
        }
        if !self.detaching.is_empty() {
            moved |= self.detach_all();
        }
        Ok(moved)
    }

    /// Writes what the engine has for a peer, or sees to a link.
    #[inline]
    pub(crate) fn flush_link(&mut self, rank: Rank) -> Result<bool> {
        let Some((_, token)) = self.table.live(rank) else {
            if self.engine.tx_waiting(rank) {
                self.want_link(rank)?;
            }
            return Ok(false);
        };
        let Some(live) = self.io.slots.live(token) else {
            return Ok(false);
        };
        match transmit::flush(&mut self.engine, live, &mut self.meter) {
            Ok(moved) => Ok(moved),
            Err(fault) => self.write_failed(rank, token, *fault),
        }
    }

    /// A nonblocking send of `len` bytes has been queued: the first since the last progress goes
    /// out at once; those that follow within two microseconds of it share a write, which the next
    /// progress or a full batch makes. A program that computes after a pause of that length has
    /// nothing left unsent but the tail of a burst, which its next call flushes. Bodies that the
    /// write takes out of the program's memory (`long`) share one only in a stream of them: large
    /// writes move a third more bytes per second than writes of 64 KiB.
    #[inline]
    pub(crate) fn push_out(&mut self, rank: Rank, len: usize, long: bool) -> Result<()> {
        let Some((_, token)) = self.table.live(rank) else {
            return self.flush_link(rank).map(|_| ());
        };
        let Some(live) = self.io.slots.live(token) else {
            return Ok(());
        };
        if clock::ticks().wrapping_sub(live.last_write) < BURST {
            live.in_a_row = live.in_a_row.saturating_add(u32::from(long));
            let room = if long {
                live.in_a_row > STREAM
                    && live.burst < BATCH_LONG
                    && live.put_off + len <= BATCH_BYTES
            } else {
                live.burst < BATCH
            };
            if live.burst > 0 && room {
                live.burst += 1;
                live.put_off += if long { len } else { 0 };
                live.last_write = clock::ticks();
                return Ok(());
            }
        } else {
            live.in_a_row = 0;
        }
        self.flush_link(rank)?;
        if let Some(live) = self.io.slots.live(token) {
            live.burst = 1;
            live.last_write = clock::ticks();
        }
        Ok(())
    }

    /// Reads every link that may hold bytes which no event will announce.
    fn drain_readable(&mut self) -> Result<bool> {
        let mut moved = false;
        for _ in 0..self.io.readable.len() {
            let Some(token) = self.io.readable.pop_front() else {
                break;
            };
            if let Some(live) = self.io.slots.live(token) {
                live.listed = false;
                moved |= self.take_in(token, None)?;
            }
        }
        Ok(moved)
    }

    pub(crate) fn list_readable(&mut self, token: Token) {
        if let Some(live) = self.io.slots.live(token)
            && !live.listed
        {
            live.listed = true;
            self.io.readable.push_back(token);
        }
    }

    /// A link cannot be used on: its handle is nulled, and it is redialed.
    pub(crate) fn drop_link(&mut self, token: Token, broken: Broken) -> Result<()> {
        let Slot::Live(live) = self.io.slots.take(token) else {
            return Ok(());
        };
        let rank = live.rank;
        let moved = live.endpoint.path().map_or(0, |path| path.moved);
        let heard = live.heard;
        self.meter.stats.wakes += live.endpoint.doorbells_rung();
        self.unlist(token);
        drop(live);
        self.meter.stats.links_lost += 1;
        if self
            .table
            .live(rank)
            .is_some_and(|(_, current)| current == token)
        {
            self.table.null(rank);
            self.engine.link_down(rank);
            self.redial_lost(rank);
            self.expect_link(rank);
        }
        match broken {
            Broken::Lost(lost) => {
                let (me, why) = (self.identity.rank, lost.0);
                tracing::debug!("rank {me}: link to {rank} lost: {why}");
                self.end_link(rank, moved, heard, &why)
            }
            Broken::Breach(why) => self.breach(rank, &why),
            // Held before they come here.
            Broken::Memory(_) | Broken::Later(_) => Ok(()),
        }
    }

    #[cold]
    pub(crate) fn write_failed(&mut self, rank: Rank, token: Token, fault: Fault) -> Result<bool> {
        match fault {
            Fault::Memory(error) => Err(self.bad_buffer(rank, "send", error)),
            Fault::Link(lost) => self.drop_link(token, Broken::Lost(lost)).map(|()| true),
        }
    }

    /// A link is good, but not the memory of the program that its bytes are in, or are to go to.
    #[cold]
    pub(crate) fn bad_buffer(
        &self,
        rank: Rank,
        operation: &'static str,
        problem: std::io::Error,
    ) -> Error {
        Error::Buffer {
            rank,
            host: self.host_of(rank).to_owned(),
            operation,
            problem,
        }
    }

    /// Copies the bodies of blocking sends whose write is through, which completes them.
    pub(crate) fn detach_all(&mut self) -> bool {
        let mut waiting = std::mem::take(&mut self.detaching);
        let before = waiting.len();
        waiting.retain(|request| !self.detach(*request));
        let moved = waiting.len() < before;
        self.detaching = waiting;
        moved
    }

    /// After calls that may have matched what is already here.
    #[inline]
    pub(crate) fn copy_matched(&mut self) {
        copy_out(&mut self.engine);
        self.get_all();
    }
}
