//! The fast path of a blocking call: from the call into the endpoint and back.
//!
//! A send of few bytes goes directly to the peer's endpoint, and a receive takes the message from
//! there. Neither makes a request or a pass of progress. All other work is left to the slow path.
//! Now and then such a call returns that it did nothing, and the caller takes the slow path.

use rejoin_channel_table::ids::Rank;
use rejoin_engine::{Completion, Engine, Envelope, Pattern, Segment, ShortHeader};

use super::{Caller, Device};
use crate::error::Result;
use crate::links;
use crate::program_memory;
use crate::progress::cadences::{POLLS_BEFORE_POST, SLOW_PATH_EVERY};
use crate::transport::{Endpoint, Fault, MakeHeader, SendOutcome};

/// A short message that the engine keeps once there is room for it. No closure, so that it is
/// inlined at both of its places.
struct ShortSend<'a> {
    engine: &'a mut Engine,
    to: Rank,
    env: &'a Envelope,
    bytes: &'a [u8],
}

impl MakeHeader for ShortSend<'_> {
    #[inline(always)]
    fn make(self) -> Option<ShortHeader> {
        self.engine.send_short(self.to, self.env, self.bytes)
    }
}

impl Device {
    /// Sends a message of few bytes over the endpoint of its peer. After
    /// [`SendOutcome::WouldBlock`] the caller continues with [`Device::continue_send`] or
    /// [`Device::continue_isend`].
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes.
    #[inline(always)]
    pub unsafe fn try_send(
        &mut self,
        to: Rank,
        env: &Envelope,
        buf: *const u8,
        len: usize,
        caller: Caller,
    ) -> SendOutcome {
        if !self.may_take_fast_path() {
            return SendOutcome::Untried;
        }
        // SAFETY: the caller's promise.
        unsafe { self.try_eager(to, env, buf, len, caller) }
    }

    /// Sends like [`Device::try_send`] in logging modes, where each send is counted before the
    /// message can leave.
    ///
    /// # Safety
    /// The conditions are those of [`Device::try_send`].
    #[inline]
    pub unsafe fn try_counted_send(
        &mut self,
        to: Rank,
        env: &Envelope,
        buf: *const u8,
        len: usize,
        caller: Caller,
    ) -> SendOutcome {
        // What is not stored must not be seen by others.
        let stored = !self.engine.any_to_record();
        let Some(rank_log) = self.logs.determinants.as_mut().filter(|_| stored) else {
            return SendOutcome::Untried;
        };
        if !rank_log.log().count_live_send() {
            return SendOutcome::Untried;
        }
        rank_log.note_action();
        if !rank_log.is_stable() {
            rank_log.log().withdraw_live_send();
            return SendOutcome::Untried;
        }
        // SAFETY: the caller's promise.
        let outcome = unsafe { self.try_send(to, env, buf, len, caller) };
        if matches!(outcome, SendOutcome::Untried | SendOutcome::WouldBlock)
            && let Some(log) = self.determinants()
        {
            log.withdraw_live_send();
        }
        outcome
    }

    /// Sends like [`Device::try_send`], also where other work is due. A body that the engine would
    /// not copy is refused before the link is looked up.
    ///
    /// # Safety
    /// The conditions are those of [`Device::try_send`].
    #[inline(always)]
    pub(crate) unsafe fn try_eager(
        &mut self,
        to: Rank,
        env: &Envelope,
        buf: *const u8,
        len: usize,
        caller: Caller,
    ) -> SendOutcome {
        if !self.engine.copies(len) {
            return SendOutcome::WouldBlock;
        }
        let Some(live) = self.links.live_to(to) else {
            return SendOutcome::WouldBlock;
        };
        if !live.is_handshaken()
            || (caller == Caller::Nonblocking && !live.is_polled())
            || (live.is_write_blocked() && !links::unblock(&mut self.engine, live, &mut self.meter))
            || !live.endpoint.await_room()
        {
            return SendOutcome::WouldBlock;
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { program_memory::bytes(program_memory::segment(buf, len)) };
        let short = ShortSend {
            engine: &mut self.engine,
            to,
            env,
            bytes,
        };
        match live.endpoint.try_message(bytes, short) {
            SendOutcome::Sent => {
                self.meter.stats.short_out += 1;
                SendOutcome::Sent
            }
            SendOutcome::Untried | SendOutcome::WouldBlock => {
                links::send_frame(&mut self.engine, live, &mut self.meter, to, env, bytes)
            }
            lost @ SendOutcome::LinkLost(_) => lost,
        }
    }

    /// Drops the link over which a send failed; the message goes over the next one. Unread messages
    /// of the peer come again over that link, too.
    ///
    /// # Errors
    /// The errors are those of [`Device::progress`].
    #[cold]
    pub fn link_lost(&mut self, rank: Rank, fault: Fault) -> Result<()> {
        let Some(token) = self.links.token_of(rank) else {
            return Ok(());
        };
        self.links().write_failed(rank, token, fault).map(drop)
    }

    /// Receives a message of few bytes that is there, or comes at once, and that no other receive
    /// could get; `None`: nothing was received, and the caller posts it by [`Device::irecv`]. That
    /// finds no message by the first comparison of its search, so it need not know of this attempt.
    ///
    /// # Safety
    /// `buf` is writable for `len` bytes, and nothing else uses it during the call.
    #[inline(always)]
    pub unsafe fn try_recv(
        &mut self,
        pattern: &Pattern,
        buf: *mut u8,
        len: usize,
    ) -> Option<Completion> {
        let from = pattern.from?;
        if !self.may_take_fast_path() || !self.engine.is_next_match(pattern) {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe { self.take_next(from, pattern, program_memory::segment(buf, len)) }
    }

    /// Whether the last such receive has left an ack to be sent, which [`Device::write_acks`] does.
    #[inline(always)]
    #[must_use]
    pub fn owes_ack(&self) -> bool {
        self.engine.any_ready()
    }

    /// Writes what such a receive has left to be written.
    ///
    /// # Errors
    /// The errors are those of [`Device::progress`].
    #[cold]
    pub fn write_acks(&mut self) -> Result<()> {
        self.passes().flush_ready().map(|_| ())
    }

    /// The short message that is next on the link of this peer, or comes at once, if it matches the
    /// receive.
    ///
    /// # Safety
    /// The segment is writable, and nothing else uses it.
    #[inline(always)]
    unsafe fn take_next(
        &mut self,
        from: Rank,
        pattern: &Pattern,
        segment: Segment,
    ) -> Option<Completion> {
        let live = self.links.live_to(from)?;
        if !live.is_polled() || !live.is_between_frames() {
            return None;
        }
        let endpoint = &mut live.endpoint;
        let mut polls_left = if self.progress.spin.is_never() {
            1
        } else {
            POLLS_BEFORE_POST
        };
        let header = loop {
            if let Some(header) = endpoint.try_recv() {
                break header;
            }
            polls_left -= 1;
            if polls_left == 0 {
                return None;
            }
            std::hint::spin_loop();
        };
        let engine = &mut self.engine;
        let (done, matched) = engine.rx_short_into(from, &header, pattern, segment)?;
        // SAFETY: a part of the caller's buffer, by its promise.
        unsafe { endpoint.take(&header, program_memory::place(matched.into)) };
        let stats = &mut self.meter.stats;
        stats.frames_in += 1;
        stats.short_in += 1;
        if self.engine.any_received() {
            self.logs().log_received();
        }
        Some(done)
    }

    /// With the fault injector of a test: the link over which a short message has just gone may
    /// end.
    #[inline]
    pub(crate) fn inject_cut_of(&mut self, rank: Rank) -> Result<()> {
        if !self.meter.injects_faults() {
            return Ok(());
        }
        let Some(live) = self.links.live_to(rank) else {
            return Ok(());
        };
        if live.is_polled()
            && let Err(fault) = live.inject_cut_after(&mut self.meter)
        {
            self.link_lost(rank, *fault)?;
        }
        Ok(())
    }

    /// Whether nothing needs the slow path, which writes all deferred sends, to any peer.
    #[inline(always)]
    fn may_take_fast_path(&mut self) -> bool {
        !self.progress.next_pass().is_multiple_of(SLOW_PATH_EVERY)
            && !self.engine.any_ready()
            && !self.recovery.is_pending()
            && self.progress.detaches_none()
            && (!self.meter.injects_faults() || self.inject_cut())
    }

    /// With the fault injector of a test: now and then one of the links ends between two such
    /// calls, as when its other side dies. Messages over it are lost until a side notices that, and
    /// are sent again.
    #[cold]
    fn inject_cut(&mut self) -> bool {
        if self.meter.draw_cut(0).is_some() {
            let at = self.progress.pass() as usize % self.links.polled_count().max(1);
            if let Some((_, live)) = self.links.polled(at) {
                live.endpoint.cut();
                self.meter.stats.injected_cuts += 1;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
