//! Brief messages: a plain eager envelope and a short body in one cache line, for links that can carry such
//! a line faster than bytes.
//!
//! | word | bits | field |
//! |---|---|---|
//! | 0 | 0–7, 32–63 | the transport's |
//! | 0 | 8–15 | length of the body |
//! | 0 | 16–31 | epoch, low half |
//! | 1 | | context id, source |
//! | 2 | | tag, SSN (low half) |
//! | 3 | | ack, credit (low halves) |
//! | 4–7 | | body, then zeros |
//!
//! What is cut off of a number is known: on a link these only grow, by less than a half of what is left.

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};

use crate::channel::{Channel, Target};
use crate::engine::Engine;
use crate::frame::{Flags, Header, Kind};
use crate::quick::Met;
use crate::tx::{Context, ENVELOPE_COST};
use crate::types::Envelope;

/// Longest body of a brief message, in bytes.
pub const BRIEF_BODY: usize = 32;
/// Words of a brief message behind the first.
pub const BRIEF_REST: usize = 7;
/// The word where the body begins, of these.
const BODY: usize = 3;

/// A brief message that has come, where the transport has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brief<'a> {
    /// The first word. The transport's part of it is not looked at.
    pub first: u64,
    /// The others.
    pub rest: &'a [u64; BRIEF_REST],
}

/// Packs a frame into the words of a brief message; returns the first, the transport's part zero.
#[inline(always)]
fn pack(header: &Header, body: &[u8], rest: &mut [u64; BRIEF_REST]) -> u64 {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let env = &header.envelope;
    rest[0] = pair(env.context, env.source.cast_unsigned());
    rest[1] = pair(env.tag.cast_unsigned(), header.ssn.0 as u32);
    rest[2] = pair(header.ack.0 as u32, header.credit as u32);
    if let Ok(word) = body.try_into() {
        rest[BODY] = u64::from_le_bytes(word);
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
    (body.len() as u64) << 8 | u64::from(header.epoch.0 as u16) << 16
}

impl Brief<'_> {
    /// The words of the body.
    #[must_use]
    #[inline]
    pub fn body(&self) -> &[u64] {
        &self.rest[BODY..]
    }

    /// Length of the body in bytes, as the message claims.
    #[must_use]
    #[inline]
    pub fn claimed(&self) -> usize {
        usize::from((self.first >> 8) as u8)
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
    /// As [`Engine::send_alone`], as a brief message of at most [`BRIEF_BODY`] bytes: fills the words behind the
    /// first, which it returns; the transport's part of that is zero. The frame is kept, and the device shows
    /// the message to the peer at once.
    #[inline(always)]
    pub fn send_brief(
        &mut self,
        to: Rank,
        env: &Envelope,
        bytes: &[u8],
        rest: &mut [u64; BRIEF_REST],
    ) -> Option<u64> {
        if bytes.len() > BRIEF_BODY {
            return None;
        }
        let (_, _, header) = self.keep_alone(to, env, bytes)?;
        Some(pack(&header, bytes, rest))
    }

    /// As [`Engine::rx_met`], of a brief message.
    #[inline(always)]
    pub fn rx_brief(&mut self, peer: Rank, brief: &Brief<'_>) -> Option<Met> {
        let length = brief.claimed();
        let cost = ENVELOPE_COST + length as u64;
        let channel = self.channels.get_mut(peer.index())?.as_deref_mut()?;
        let rx = &channel.rx;
        if brief.epoch() != self.epoch.0 as u16
            || brief.ssn() != rx.order.next().0 as u32
            || rx.current.is_some()
            || length > BRIEF_BODY.min(self.config.eager_max)
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
        let request = rx.core.match_posted(&brief.envelope(), length as u64)?;
        let into = rx.core.recv_segment(request).part(0, length);
        rx.channel.rx.window.take(cost).ok()?;
        rx.channel.rx.order.take();
        rx.eager_done(Target::Request(request), length, false, false);
        Some(Met { into, len: length })
    }

    /// The header of the frame that a brief message stands for, which the long way takes with the body
    /// behind it. `None` for a peer without a channel.
    #[must_use]
    pub fn unpack(&self, peer: Rank, brief: &Brief<'_>) -> Option<Header> {
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
            let brief = Brief { first, rest: &rest };
            let bytes: Vec<u8> = brief.body().iter().flat_map(|word| word.to_le_bytes()).collect();
            prop_assert_eq!(&bytes[..brief.claimed()], &body[..]);
            prop_assert_eq!(brief.envelope(), header.envelope);
            prop_assert_eq!(first & 0xffff_ffff_0000_00ff, 0);
        }
    }
}
