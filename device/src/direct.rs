//! The shortest way of a message over shared memory: from one call into another.
//!
//! A blocking send of few bytes goes into the peer's memory, a blocking receive takes it out, and neither makes a
//! request or a pass of progress. Whatever else there is to do is left to the long way: now and then such
//! a call says that it did nothing, and the caller goes there.

use rejoin_channel_table::ids::Rank;
use rejoin_engine::{BRIEF_BODY, Completion, Envelope, Pattern, Segment};

use crate::cut::Cutter;
use crate::device::Device;
use crate::error::Result;
use crate::memory;
use crate::transport::{Stream, shm};

/// Calls after which the long way makes a pass of progress.
const PASS_AFTER: u32 = 64;
/// Looks at the link before a receive is posted: about as long as an answer takes.
const LOOKS: u32 = 100;

impl Device {
    /// Sends a message of few bytes at once; false: nothing was done.
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes.
    #[inline(always)]
    pub unsafe fn send_now(
        &mut self,
        to: Rank,
        env: &Envelope,
        buf: *const u8,
        len: usize,
    ) -> bool {
        if !self.engine.copies(len) || !self.may_go_direct() {
            return false;
        }
        let Some((_, token)) = self.table.live(to) else {
            return false;
        };
        let Some(live) = self.io.slots.live(token) else {
            return false;
        };
        if live.write_blocked || !live.ahead.is_empty() {
            return false;
        }
        let Some(link) = live.stream.brief() else {
            return false;
        };
        // SAFETY: the caller's promise.
        let bytes = unsafe { memory::bytes(memory::segment(buf, len)) };
        let apart = if len > BRIEF_BODY { bytes } else { &[] };
        if !apart.is_empty() && !link.has_room_apart(len).unwrap_or(false) {
            return false;
        }
        let Ok(Some(rest)) = link.free_brief() else {
            return false;
        };
        let Some(first) = self.engine.send_brief(to, env, bytes, rest) else {
            return false;
        };
        link.publish_brief(first, apart);
        self.meter.stats.briefs_out += 1;
        true
    }

    /// Receives a message of few bytes that is there, or comes at once, and that no other receive could get;
    /// `None`: nothing was received, and the caller posts it.
    ///
    /// # Safety
    /// `buf` is writable for `len` bytes, and nothing else uses it during the call.
    ///
    /// # Errors
    /// As [`Device::progress`].
    #[inline(always)]
    pub unsafe fn recv_now(
        &mut self,
        pattern: &Pattern,
        buf: *mut u8,
        len: usize,
    ) -> Result<Option<Completion>> {
        let Some(from) = pattern.from else {
            return Ok(None);
        };
        if !self.may_go_direct() || self.engine.any_ready() || !self.engine.is_alone(pattern) {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        let done = unsafe { self.take_now(from, pattern, memory::segment(buf, len)) };
        if done.is_some() && self.engine.any_ready() {
            self.flush_ready()?;
        }
        Ok(done)
    }

    /// The brief message that is next on the link of this peer, or comes at once, if it meets the receive.
    ///
    /// # Safety
    /// The segment is writable, and nothing else uses it.
    #[inline(always)]
    unsafe fn take_now(
        &mut self,
        from: Rank,
        pattern: &Pattern,
        segment: Segment,
    ) -> Option<Completion> {
        let (_, token) = self.table.live(from)?;
        let live = self.io.slots.live(token)?;
        if !live.is_between_frames() {
            return None;
        }
        let link = live.stream.brief()?;
        let mut looks = if self.spin.is_zero() { 1 } else { LOOKS };
        let brief = loop {
            if let Some(brief) = link.next_brief() {
                break brief;
            }
            looks -= 1;
            if looks == 0 {
                return None;
            }
            std::hint::spin_loop();
        };
        if !shm::can_be(&brief) {
            return None;
        }
        let (done, met) = self.engine.rx_direct(from, &brief, pattern, segment)?;
        if brief.is_apart() {
            let into = memory::incoming(memory::start(met.into), met.into.len);
            // SAFETY: a part of the caller's buffer, by its promise.
            unsafe { link.release_apart(into, met.len) };
        } else {
            // SAFETY: as above.
            unsafe { memory::fill_words(met.into, brief.body()) };
            link.release_brief();
        }
        let stats = &mut self.meter.stats;
        stats.frames_in += 1;
        stats.briefs_in += 1;
        Some(done)
    }

    /// Whether nothing needs the long way.
    #[inline(always)]
    fn may_go_direct(&mut self) -> bool {
        self.passes = self.passes.wrapping_add(1);
        !self.passes.is_multiple_of(PASS_AFTER)
            && self.image_due.is_none()
            && self.detaching.is_empty()
            && (self.meter.cutter.is_none() || self.snip())
    }

    /// With the scissors of a test: now and then one of the links ends between two direct calls, as when its other
    /// side dies. What goes over it until that is noticed is lost, and comes again.
    #[cold]
    fn snip(&mut self) -> bool {
        let strikes = |cutter: &mut Cutter| cutter.strike(0).is_some();
        if self.meter.cutter.as_mut().is_some_and(strikes) {
            let at = self.passes as usize % self.io.polled.len().max(1);
            let token = self.io.polled.get(at).copied();
            if let Some(live) = token.and_then(|token| self.io.slots.live(token)) {
                live.stream.cut();
                self.meter.stats.snips += 1;
            }
        }
        true
    }
}
