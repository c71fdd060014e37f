//! The shortest way of a message over shared memory: from one call into another.
//!
//! A blocking send of few bytes goes into the peer's memory, a blocking receive takes it out, and neither makes a
//! request or a pass of progress. Whatever else there is to do is left to the long way: now and then such
//! a call says that it did nothing, and the caller goes there.

use rejoin_channel_table::ids::Rank;
use rejoin_engine::{Completion, Engine, Envelope, Pattern, Segment};

use crate::cut::Cutter;
use crate::device::Device;
use crate::error::Result;
use crate::live::{Live, Meter};
use crate::transport::{Stream, shm};
use crate::{memory, receive, transmit};

/// Calls after which the long way makes a pass of progress.
const PASS_AFTER: u32 = 256;
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
        if !self.may_go_direct() {
            return false;
        }
        let Some(live) = self.io.slots.live_to(&self.table, to) else {
            return false;
        };
        if !live.ahead.is_empty() {
            return false;
        }
        if live.write_blocked && !unblock(&mut self.engine, live, &mut self.meter) {
            return false;
        }
        let Some(link) = live.stream.brief() else {
            return false;
        };
        if link.looks_full() && !link.await_cell() {
            return false;
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { memory::bytes(memory::segment(buf, len)) };
        transmit::put_in(
            &mut self.engine,
            link,
            &mut self.meter.stats,
            (to, env),
            bytes,
        )
    }

    /// Receives a message of few bytes that is there, or comes at once, and that no other receive could get;
    /// `None`: nothing was received, and the caller posts it.
    ///
    /// # Safety
    /// `buf` is writable for `len` bytes, and nothing else uses it during the call.
    #[inline(always)]
    pub unsafe fn recv_now(
        &mut self,
        pattern: &Pattern,
        buf: *mut u8,
        len: usize,
    ) -> Option<Completion> {
        let from = pattern.from?;
        if !self.may_go_direct() || !self.engine.is_alone(pattern) {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe { self.take_now(from, pattern, memory::segment(buf, len)) }
    }

    /// Whether the last such receive has left an ack to be sent, which [`Device::answer`] does.
    #[inline(always)]
    #[must_use]
    pub fn owes_answer(&self) -> bool {
        self.engine.any_ready()
    }

    /// Writes what such a receive has left to be written.
    ///
    /// # Errors
    /// As [`Device::progress`].
    #[cold]
    pub fn answer(&mut self) -> Result<()> {
        self.flush_ready().map(|_| ())
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
        let live = self.io.slots.live_to(&self.table, from)?;
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
        let (done, met) = self.engine.rx_direct(from, &brief, pattern, segment)?;
        // SAFETY: a part of the caller's buffer, by its promise.
        unsafe { receive::take_out(link, &brief, &met) };
        let stats = &mut self.meter.stats;
        stats.frames_in += 1;
        stats.briefs_in += 1;
        Some(done)
    }

    /// Whether nothing needs the long way. What was put off, to whomever, goes out there.
    #[inline(always)]
    fn may_go_direct(&mut self) -> bool {
        self.passes = self.passes.wrapping_add(1);
        !self.passes.is_multiple_of(PASS_AFTER)
            && !self.engine.any_ready()
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

/// Waits for the reader of a link that could not take all, while it goes on; true if nothing is left to be written.
#[cold]
#[inline(never)]
fn unblock(engine: &mut Engine, live: &mut Live, meter: &mut Meter) -> bool {
    for _ in 0..shm::MOVES {
        let Some(link) = live.stream.brief() else {
            return false;
        };
        if !link.reader_goes_on() {
            return false;
        }
        // A broken link is found again, by who can drop it.
        if transmit::flush(engine, live, meter).is_err() {
            return false;
        }
        if !live.write_blocked {
            return true;
        }
    }
    false
}

#[cfg(test)]
#[path = "direct_tests.rs"]
mod tests;
