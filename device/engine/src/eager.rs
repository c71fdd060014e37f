//! The fast path of a small message: on the sending side it is the only one on its link, and on the
//! receiving side it matches a receive.
//!
//! The fast path has the same effects as the slow path (`tx.rs`, `rx.rs`). It skips the write plan,
//! the list of ready peers and the state of a body under way. Such a message would enter and leave
//! them at once. The fast path refuses all other messages before it changes any state; they take
//! the slow path. Every message that is received here, over any transport, passes
//! [`Engine::accept`].

use std::ops::Range;

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};

use crate::channel_state::Channel;
use crate::engine::Engine;
use crate::frame::{FRAME_MAGIC, FrameKind, HEADER_LEN, Header};
use crate::requests::completion_of;
use crate::tx::{ENVELOPE_COST, SendContext};
use crate::types::{Completion, Envelope, Pattern, Segment};

/// A frame that the retention keeps and that is to be written now.
#[derive(Debug)]
pub struct EagerFrame<'a> {
    /// The frame, in two parts where the retention wraps around.
    pub pieces: [&'a [u8]; 2],
    /// Where it is retained, for [`Engine::send_rest`].
    pub place: Range<u64>,
}

/// A small message that has matched a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Where its body goes: at most `len` bytes of it.
    pub into: Segment,
    /// Length of the body in bytes.
    pub len: usize,
}

/// The fields that the fast path needs from the header of an eager message.
pub(crate) trait EagerHeader {
    /// Length of the body in bytes, as the sender claims.
    fn len(&self) -> usize;
    /// Context id, source and tag.
    fn envelope(&self) -> Envelope;
    /// Whether this is a plain message of this epoch and with this number.
    fn is_next(&self, epoch: Epoch, next: Ssn) -> bool;
    /// Acknowledgement and credit.
    fn acks(&self, channel: &Channel) -> (Ssn, u64);
}

/// The header of a frame, in words of eight bytes.
struct FrameWords<'a>(&'a [[u8; 8]]);

impl FrameWords<'_> {
    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        self.0.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// The first eight bytes of an eager envelope without flags.
fn plain_eager(epoch: Epoch) -> u64 {
    let start = u32::from_le_bytes([FRAME_MAGIC[0], FRAME_MAGIC[1], FrameKind::Eager as u8, 0]);
    u64::from(epoch.0) << 32 | u64::from(start)
}

impl EagerHeader for FrameWords<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        usize::try_from(self.word(3)).unwrap_or(usize::MAX)
    }

    #[inline(always)]
    fn envelope(&self) -> Envelope {
        let (context_source, tag) = (self.word(1), self.word(2));
        Envelope {
            context: context_source as u32,
            source: ((context_source >> 32) as u32).cast_signed(),
            tag: (tag as u32).cast_signed(),
        }
    }

    #[inline(always)]
    fn is_next(&self, epoch: Epoch, next: Ssn) -> bool {
        self.word(0) == plain_eager(epoch) && self.word(2) >> 32 == 0 && self.word(4) == next.0
    }

    #[inline(always)]
    fn acks(&self, _: &Channel) -> (Ssn, u64) {
        (Ssn(self.word(5)), self.word(6))
    }
}

impl Engine {
    /// Sends a message that is copied ([`Engine::copies`]), if the link has nothing else to write.
    /// The retention keeps the frame, and the device writes it at once. The device returns the
    /// unwritten rest by [`Engine::send_rest`]. `None`: nothing was done.
    #[inline]
    pub fn send_eager(&mut self, to: Rank, env: &Envelope, bytes: &[u8]) -> Option<EagerFrame<'_>> {
        let (channel, place, _) = self.keep_eager(to, env, bytes)?;
        let (a, b) = channel.tx.retention.slices(place.clone());
        Some(EagerFrame {
            pieces: [a, b],
            place,
        })
    }

    /// Keeps the frame of a message that its link has alone: where it lies, and its header.
    #[inline(always)]
    pub(crate) fn keep_eager(
        &mut self,
        to: Rank,
        env: &Envelope,
        bytes: &[u8],
    ) -> Option<(&Channel, Range<u64>, Header)> {
        debug_assert!(self.copies(bytes.len()), "the device refuses longer ones");
        let channel = self.channels.get_mut(to.index())?.as_deref_mut()?;
        let idle = channel.up && channel.tx.plan.is_empty() && channel.tx.bulk.is_empty();
        if !idle {
            return None;
        }
        let mut tx = SendContext {
            channel,
            core: &mut self.core,
            config: &self.config,
        };
        let (place, header) = tx.keep_copied(env, bytes)?;
        Some((tx.channel, place, header))
    }

    /// Of a frame of [`Engine::send_eager`] only the first `written` bytes were written: the rest
    /// is planned.
    #[cold]
    pub fn send_rest(&mut self, to: Rank, place: &Range<u64>, written: usize) {
        if let Some(Some(channel)) = self.channels.get_mut(to.index()) {
            let rest = place.start + written as u64..place.end;
            if channel.up && rest.start < rest.end {
                channel.tx.plan.push_frames(rest);
                channel.mark_ready(&mut self.core);
            }
        }
    }

    /// Takes a frame that lies whole at the beginning of `bytes`: a plain eager message, the next
    /// of its peer, for which a receive waits. The device copies its body before it calls the
    /// engine again. `None`: nothing was taken but the ack; the frame takes the slow path.
    #[inline]
    pub fn rx_eager(&mut self, peer: Rank, bytes: &[u8]) -> Option<Matched> {
        let (head, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let header = FrameWords(head.as_chunks::<8>().0);
        if header.len() > rest.len() {
            return None;
        }
        self.accept_posted(peer, &header)
    }

    /// Messages that wait for a receive.
    #[inline]
    #[must_use]
    pub fn unexpected(&self) -> usize {
        self.core.matching.unexpected()
    }

    /// Whether a receive that is about to be posted would match the next message of its sender and
    /// no other. Then [`Engine::rx_short_into`] need not post it.
    #[inline(always)]
    #[must_use]
    pub fn is_next_match(&mut self, pattern: &Pattern) -> bool {
        let Some(from) = pattern.from else {
            return false;
        };
        let core = &mut self.core;
        from != self.me
            && pattern.tag.is_some()
            && core.none_posted(from)
            && core.matching.find(&mut core.messages, pattern).is_none()
    }

    /// Takes a message for which a receive is posted.
    #[inline(always)]
    pub(crate) fn accept_posted(
        &mut self,
        peer: Rank,
        header: &impl EagerHeader,
    ) -> Option<Matched> {
        let (mut rx, len) = self.accept(peer, header)?;
        let envelope = header.envelope();
        let into = rx.core.match_whole(&envelope, len)?;
        rx.accepted_whole(&envelope, into, len);
        Some(Matched { into, len })
    }

    /// Takes a message for a receive that is not posted.
    #[inline(always)]
    pub(crate) fn accept_into(
        &mut self,
        peer: Rank,
        header: &impl EagerHeader,
        pattern: &Pattern,
        seg: Segment,
    ) -> Option<(Completion, Matched)> {
        let env = header.envelope();
        if (env.context, Some(env.source), Some(env.tag))
            != (pattern.context, pattern.source, pattern.tag)
            || header.len() > seg.len
        {
            return None;
        }
        let (mut rx, len) = self.accept(peer, header)?;
        let into = seg.part(0, len);
        rx.accepted_whole(&env, into, len);
        rx.core.moved += 1;
        Some((
            completion_of(&env, len as u64, seg.len),
            Matched { into, len },
        ))
    }

    /// Takes the acknowledgement and the credit of a plain eager message that comes next and fits
    /// the window; its length.
    #[inline(always)]
    fn accept(
        &mut self,
        peer: Rank,
        header: &impl EagerHeader,
    ) -> Option<(SendContext<'_>, usize)> {
        let len = header.len();
        let channel = self.channels.get_mut(peer.index())?.as_deref_mut()?;
        let rx = &channel.rx;
        if !header.is_next(channel.epoch, rx.order.next())
            || rx.current.is_some()
            || len > self.config.eager_max
            || !rx.window.fits(ENVELOPE_COST.saturating_add(len as u64))
        {
            return None;
        }
        let (ack, credit) = header.acks(channel);
        let mut rx = SendContext {
            channel,
            core: &mut self.core,
            config: &self.config,
        };
        rx.acknowledged(ack).ok()?;
        rx.credited(credit).ok()?;
        Some((rx, len))
    }
}

impl SendContext<'_> {
    /// The next message of the peer, whose cost fits the window, came and was received with its
    /// body at once.
    #[inline(always)]
    fn accepted_whole(&mut self, env: &Envelope, into: Segment, len: usize) {
        let (channel, cost) = (&mut *self.channel, ENVELOPE_COST + len as u64);
        channel.log_matched(self.core, env, into, len);
        channel.rx.window.pass(cost);
        channel.rx.order.take();
        channel.rx.unacked += cost;
        channel.owed(self.core, self.config);
    }
}

#[cfg(test)]
mod tests;
