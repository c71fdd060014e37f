//! Brief messages: a plain eager envelope in one cache line, with a short body, for links that can carry such
//! a line faster than bytes. A longer body stands apart, where the transport has put it.
//!
//! | word | bits | field |
//! |---|---|---|
//! | 0 | 0–7, 32–63 | the transport's |
//! | 0 | 8–15 | length of the body, or 255: it stands apart |
//! | 0 | 16–31 | epoch, low half |
//! | 1 | | context id, source |
//! | 2 | | tag, SSN (low half) |
//! | 3 | | ack, credit (low halves) |
//! | 4–7 | | body, then anything; or the length of one that stands apart |
//!
//! What is cut off of a number is known: on a link these only grow, by less than a half of what is left.

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};

use crate::channel::{Channel, Target};
use crate::engine::Engine;
use crate::frame::{Flags, Header, Kind};
use crate::quick::Met;
use crate::requests::met;
use crate::tx::{Context, ENVELOPE_COST};
use crate::types::{Completion, Envelope, Pattern, Segment};

/// Longest body that lies in a brief message itself, in bytes.
pub const BRIEF_BODY: usize = 32;
/// In the place of the length: the body stands apart.
const APART: u8 = 255;
/// Words of a brief message behind the first.
pub const BRIEF_REST: usize = 7;
/// The word where the body begins, of these.
const BODY: usize = 3;

/// A brief message that has come: a copy, which the peer can't change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brief {
    /// The first word. The transport's part of it is not looked at.
    pub first: u64,
    /// The others.
    pub rest: [u64; BRIEF_REST],
}

/// Packs a frame into the words of a brief message; returns the first, the transport's part zero.
#[inline(always)]
pub(crate) fn pack(header: &Header, body: &[u8], rest: &mut [u64; BRIEF_REST]) -> u64 {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let env = &header.envelope;
    rest[0] = pair(env.context, env.source.cast_unsigned());
    rest[1] = pair(env.tag.cast_unsigned(), header.ssn.0 as u32);
    rest[2] = pair(header.ack.0 as u32, header.credit as u32);
    let mut length = body.len() as u64;
    if let Ok(word) = body.try_into() {
        rest[BODY] = u64::from_le_bytes(word);
    } else if body.len() > BRIEF_BODY {
        rest[BODY] = length;
        length = APART.into();
    } else {
        let (whole, last) = body.as_chunks::<8>();
        for (to, from) in rest[BODY..].iter_mut().zip(whole) {
            *to = u64::from_le_bytes(*from);
        }
        if !last.is_empty() {
            let word = last
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
            rest[BODY + whole.len()] = word;
        }
    }
    length << 8 | u64::from(header.epoch.0 as u16) << 16
}

impl Brief {
    /// The words of a body that lies in the message.
    #[must_use]
    #[inline]
    pub fn body(&self) -> &[u64] {
        &self.rest[BODY..]
    }

    /// Whether the body stands apart.
    #[must_use]
    #[inline]
    pub fn is_apart(&self) -> bool {
        (self.first >> 8) as u8 == APART
    }

    /// Length of the body in bytes, as the message claims.
    #[must_use]
    #[inline]
    pub fn claimed(&self) -> usize {
        if self.is_apart() {
            return usize::try_from(self.rest[BODY]).unwrap_or(usize::MAX);
        }
        usize::from((self.first >> 8) as u8)
    }

    /// Whether the message can be one: neither shorter nor longer than what lies where it does.
    #[inline]
    fn is_sound(&self, longest: usize) -> bool {
        let length = self.claimed();
        if self.is_apart() {
            length > BRIEF_BODY && length <= longest
        } else {
            length <= BRIEF_BODY
        }
    }

    #[inline]
    fn epoch(&self) -> u16 {
        (self.first >> 16) as u16
    }

    #[inline]
    fn ssn(&self) -> u32 {
        (self.rest[1] >> 32) as u32
    }

    #[inline]
    fn envelope(&self) -> Envelope {
        Envelope {
            context: self.rest[0] as u32,
            source: ((self.rest[0] >> 32) as u32).cast_signed(),
            tag: (self.rest[1] as u32).cast_signed(),
        }
    }

    /// Ack and credit, as numbers near those that are known.
    #[inline]
    fn word_of_acks(&self, channel: &Channel) -> (Ssn, u64) {
        let ack = near(channel.tx.kept.unacked().0, self.rest[2] as u32);
        let credit = near(channel.tx.window.credited(), (self.rest[2] >> 32) as u32);
        (Ssn(ack), credit)
    }
}

/// The number nearest to one that is known, of which the low half is given.
#[inline]
fn near(known: u64, low: u32) -> u64 {
    let by = low.wrapping_sub(known as u32).cast_signed();
    known.wrapping_add_signed(i64::from(by))
}

impl Engine {
    /// As [`Engine::send_alone`], as a brief message: fills the words behind the first, which it returns; the
    /// transport's part of that is zero. The frame is kept, and the device shows the message to the peer at
    /// once, the body too where it is longer than [`BRIEF_BODY`].
    #[inline(always)]
    pub fn send_brief(
        &mut self,
        to: Rank,
        env: &Envelope,
        bytes: &[u8],
        rest: &mut [u64; BRIEF_REST],
    ) -> Option<u64> {
        let (_, _, header) = self.keep_alone(to, env, bytes)?;
        Some(pack(&header, bytes, rest))
    }

    /// As [`Engine::rx_met`], of a brief message.
    #[inline(always)]
    pub fn rx_brief(&mut self, peer: Rank, brief: &Brief) -> Option<Met> {
        let (mut rx, len) = self.heed_brief(peer, brief)?;
        let request = rx.core.match_posted(&brief.envelope(), len as u64)?;
        let into = rx.core.recv_segment(request).part(0, len);
        rx.channel.rx.window.take(ENVELOPE_COST + len as u64).ok()?;
        rx.channel.rx.order.take();
        rx.eager_done(Target::Request(request), len, false, false);
        Some(Met { into, len })
    }

    /// Whether a receive that is about to be posted would be met by the next message of its sender and by
    /// nothing else: then [`Engine::rx_direct`] need not post it.
    #[inline(always)]
    #[must_use]
    pub fn is_alone(&mut self, pattern: &Pattern) -> bool {
        let Some(from) = pattern.from else {
            return false;
        };
        let core = &mut self.core;
        from != self.me
            && pattern.tag.is_some()
            && core.none_posted(from)
            && core.matching.find(&mut core.messages, pattern).is_none()
    }

    /// A brief message for a receive that [`Engine::is_alone`] and has room for it: how that ends, and where the
    /// body goes. `None`: nothing was taken but the ack.
    #[inline(always)]
    pub fn rx_direct(
        &mut self,
        peer: Rank,
        brief: &Brief,
        pattern: &Pattern,
        seg: Segment,
    ) -> Option<(Completion, Met)> {
        let env = brief.envelope();
        if (env.context, Some(env.source), Some(env.tag))
            != (pattern.context, pattern.source, pattern.tag)
            || brief.claimed() > seg.len
        {
            return None;
        }
        let (rx, len) = self.heed_brief(peer, brief)?;
        let cost = ENVELOPE_COST + len as u64;
        let channel = rx.channel;
        channel.rx.window.take(cost).ok()?;
        channel.rx.order.take();
        channel.rx.window.give_back(cost);
        channel.rx.unacked += cost;
        channel.owed(rx.core, rx.config);
        rx.core.moved += 1;
        let into = seg.part(0, len);
        Some((met(&env, len as u64, seg.len), Met { into, len }))
    }

    /// Takes the word of acks of a brief message that comes next; its length.
    #[inline(always)]
    fn heed_brief(&mut self, peer: Rank, brief: &Brief) -> Option<(Context<'_>, usize)> {
        let length = brief.claimed();
        let cost = ENVELOPE_COST.saturating_add(length as u64);
        let channel = self.channels.get_mut(peer.index())?.as_deref_mut()?;
        let rx = &channel.rx;
        if brief.epoch() != self.epoch.0 as u16
            || brief.ssn() != rx.order.next().0 as u32
            || rx.current.is_some()
            || !brief.is_sound(self.config.eager_max)
            || !rx.window.fits(cost)
        {
            return None;
        }
        let (ack, credit) = brief.word_of_acks(channel);
        let mut rx = Context {
            channel,
            core: &mut self.core,
            config: &self.config,
            epoch: self.epoch,
        };
        rx.acknowledged(ack).ok()?;
        rx.credited(credit).ok()?;
        Some((rx, length))
    }

    /// The header of the frame that a brief message stands for, which the long way takes with the body
    /// behind it. `None` for a peer without a channel, and for what can't be such a message.
    #[must_use]
    pub fn unpack(&self, peer: Rank, brief: &Brief) -> Option<Header> {
        if !brief.is_sound(self.config.eager_max) {
            return None;
        }
        let channel = self.channels.get(peer.index())?.as_deref()?;
        let (ack, credit) = brief.word_of_acks(channel);
        let by = brief
            .epoch()
            .wrapping_sub(self.epoch.0 as u16)
            .cast_signed();
        Some(Header {
            kind: Kind::Eager,
            flags: Flags::NONE,
            epoch: Epoch(self.epoch.0.wrapping_add_signed(i32::from(by))),
            envelope: brief.envelope(),
            length: brief.claimed() as u64,
            ssn: Ssn(near(channel.rx.order.next().0, brief.ssn())),
            ack,
            credit,
            aux: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_body_that_stands_apart_has_its_length_and_no_other() {
        let mut rest = [0; BRIEF_REST];
        let header = Header {
            kind: Kind::Eager,
            flags: Flags::NONE,
            epoch: Epoch(0),
            envelope: Envelope::default(),
            length: 33,
            ssn: Ssn(0),
            ack: Ssn(0),
            credit: 0,
            aux: 0,
        };
        let first = pack(&header, &[7; 33], &mut rest);
        let sound = |first, length, longest| {
            let mut rest = rest;
            rest[BODY] = length;
            Brief { first, rest }.is_sound(longest)
        };
        assert_eq!(rest[BODY], 33);
        assert!(sound(first, 33, 33) && !sound(first, 34, 33) && !sound(first, 32, 33));
        assert!(!sound(first, u64::MAX, usize::MAX - 1));
        assert!(!sound(33 << 8, 0, 100), "longer than what lies there");
    }

    proptest! {
        #[test]
        fn the_low_half_of_a_number_names_it(known in any::<u64>(), by in any::<i32>()) {
            let other = known.saturating_add_signed(i64::from(by));
            prop_assert_eq!(near(known, other as u32), other);
        }

        #[test]
        fn a_body_comes_out_as_it_went_in(body in prop::collection::vec(any::<u8>(), 0..=BRIEF_BODY)) {
            let header = Header {
                kind: Kind::Eager,
                flags: Flags::NONE,
                epoch: Epoch(70_000),
                envelope: Envelope { context: 7, source: -3, tag: i32::MIN },
                length: body.len() as u64,
                ssn: Ssn(1 << 40 | 5),
                ack: Ssn(6),
                credit: 1 << 33 | 7,
                aux: 0,
            };
            let mut rest = [u64::MAX; BRIEF_REST];
            let first = pack(&header, &body, &mut rest);
            let brief = Brief { first, rest };
            prop_assert!(brief.is_sound(BRIEF_BODY) && !brief.is_apart());
            let bytes: Vec<u8> = brief.body().iter().flat_map(|word| word.to_le_bytes()).collect();
            prop_assert_eq!(&bytes[..brief.claimed()], &body[..]);
            prop_assert_eq!(brief.envelope(), header.envelope);
            prop_assert_eq!(first & 0xffff_ffff_0000_00ff, 0);
        }
    }
}
