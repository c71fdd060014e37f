//! Brief messages: a plain eager envelope in one cache line, with a short body, for links that can carry such
//! a line faster than bytes. A longer body stands apart: where, the transport knows by its length.
//!
//! | word | bits | field |
//! |---|---|---|
//! | 0 | 0–1, 32–63 | the transport's |
//! | 0 | 2–15 | length of the body |
//! | 0 | 16–31 | epoch, low half |
//! | 1 | | context id, source |
//! | 2 | | tag, SSN (low half) |
//! | 3 | | ack, credit (low halves) |
//! | 4–7 | | body, then anything; or nothing of the engine's, where it stands apart |
//!
//! What is cut off of a number is known: on a link these only grow, by less than a half of what is left; and of
//! epochs, the sender is hardly ahead of the receiver.

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};

use crate::channel::Channel;
use crate::engine::Engine;
use crate::frame::{Flags, Header, Kind};
use crate::quick::Met;
use crate::requests::met;
use crate::tx::{Context, ENVELOPE_COST};
use crate::types::{Completion, Envelope, Pattern, Segment};

/// Longest body that lies in a brief message itself, in bytes.
pub const BRIEF_BODY: usize = 32;
/// Longest body of a brief message at all, in bytes.
pub const BRIEF_MOST: usize = (1 << 14) - 1;
/// Where its length begins in the first word.
const LENGTH: u32 = 2;
/// Words of a brief message behind the first.
pub const BRIEF_REST: usize = 7;
/// The word where the body begins, of these.
const BODY: usize = 3;

/// A brief message that has come: a copy, which the peer can't change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    debug_assert!(body.len() <= BRIEF_MOST);
    if let Ok(word) = body.try_into() {
        rest[BODY] = u64::from_le_bytes(word);
    } else if body.len() <= BRIEF_BODY {
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
    (body.len() as u64) << LENGTH | u64::from(header.epoch.0 as u16) << 16
}

impl Brief {
    /// The words of a body that lies in the message.
    #[must_use]
    #[inline(always)]
    pub fn body(&self) -> [u64; BRIEF_BODY / 8] {
        std::array::from_fn(|at| self.rest[BODY + at])
    }

    /// Whether the body stands apart.
    #[must_use]
    #[inline(always)]
    pub fn is_apart(&self) -> bool {
        self.claimed() > BRIEF_BODY
    }

    /// Length of the body in bytes, as the message claims.
    #[must_use]
    #[inline(always)]
    pub fn claimed(&self) -> usize {
        (self.first as u16 >> LENGTH).into()
    }

    #[inline(always)]
    fn epoch(&self) -> u16 {
        (self.first >> 16) as u16
    }

    #[inline(always)]
    fn ssn(&self) -> u32 {
        (self.rest[1] >> 32) as u32
    }

    #[inline(always)]
    fn envelope(&self) -> Envelope {
        Envelope {
            context: self.rest[0] as u32,
            source: ((self.rest[0] >> 32) as u32).cast_signed(),
            tag: (self.rest[1] as u32).cast_signed(),
        }
    }

    /// Ack and credit, as numbers near those that are known.
    #[inline(always)]
    fn word_of_acks(&self, channel: &Channel) -> (Ssn, u64) {
        let ack = near(channel.tx.kept.unacked().0, self.rest[2] as u32);
        let credit = near(channel.tx.window.credited(), (self.rest[2] >> 32) as u32);
        (Ssn(ack), credit)
    }
}

/// Epochs by which a peer may be ahead. It cannot be by many: its next epoch waits for this rank. But a message may
/// lie unread in its link while this rank enters many epochs: fewer than 61,440 are told from later ones, which take
/// more than an hour and a half at ten a second.
const AHEAD: u16 = 4096;

/// The epoch of a message, of which the low half is given, as this one sees it.
#[inline]
fn epoch_near(own: Epoch, low: u16) -> Epoch {
    let ahead = low.wrapping_sub(own.0 as u16);
    Epoch(if ahead < AHEAD {
        own.0.saturating_add(ahead.into())
    } else {
        own.0.saturating_sub(u32::from(ahead.wrapping_neg()))
    })
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
        if bytes.len() > BRIEF_MOST {
            return None;
        }
        let (_, _, header) = self.keep_alone(to, env, bytes)?;
        Some(pack(&header, bytes, rest))
    }

    /// As [`Engine::rx_met`], of a brief message.
    #[inline(always)]
    pub fn rx_brief(&mut self, peer: Rank, brief: &Brief) -> Option<Met> {
        let (mut rx, len) = self.heed_brief(peer, brief)?;
        let into = rx.core.meet_posted(&brief.envelope(), len)?;
        rx.passed(len);
        Some(Met { into, len })
    }

    /// Messages that wait for a receive.
    #[inline]
    #[must_use]
    pub fn unexpected(&self) -> usize {
        self.core.matching.unexpected()
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
        let (mut rx, len) = self.heed_brief(peer, brief)?;
        rx.passed(len);
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
            || length > self.config.eager_max
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
        if brief.claimed() > self.config.eager_max {
            return None;
        }
        let channel = self.channels.get(peer.index())?.as_deref()?;
        let (ack, credit) = brief.word_of_acks(channel);
        Some(Header {
            kind: Kind::Eager,
            flags: Flags::NONE,
            epoch: epoch_near(self.epoch, brief.epoch()),
            envelope: brief.envelope(),
            length: brief.claimed() as u64,
            ssn: Ssn(near(channel.rx.order.next().0, brief.ssn())),
            ack,
            credit,
            aux: 0,
        })
    }
}

impl Context<'_> {
    /// The next message of the peer, whose cost fits the window, came and was received with its body at once.
    #[inline(always)]
    pub(crate) fn passed(&mut self, len: usize) {
        let (channel, cost) = (&mut *self.channel, ENVELOPE_COST + len as u64);
        channel.rx.window.pass(cost);
        channel.rx.order.take();
        channel.rx.unacked += cost;
        channel.owed(self.core, self.config);
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
        fn an_epoch_is_read_as_a_past_one_unless_it_is_just_ahead(
            own in 1u32 << 16..u32::MAX - 4096,
            ahead in -61_440i64..4096,
        ) {
            let epoch = u32::try_from(i64::from(own) + ahead).expect("in range");
            prop_assert_eq!(epoch_near(Epoch(own), epoch as u16), Epoch(epoch));
        }

        #[test]
        fn no_half_of_an_epoch_leads_out_of_their_range(own in any::<u32>(), low in any::<u16>()) {
            let epoch = epoch_near(Epoch(own), low).0;
            prop_assert!(epoch <= own.saturating_add(4095));
            prop_assert!(epoch >= own.saturating_sub(61_440));
        }

        #[test]
        fn a_body_comes_out_as_it_went_in(body in prop::collection::vec(any::<u8>(), 0..=2 * BRIEF_BODY)) {
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
            prop_assert_eq!(brief.claimed(), body.len());
            if brief.is_apart() {
                prop_assert!(body.len() > BRIEF_BODY);
                prop_assert_eq!(&rest[BODY..], &[u64::MAX; BRIEF_REST - BODY]);
            } else {
                let bytes: Vec<u8> = brief.body().iter().flat_map(|word| word.to_le_bytes()).collect();
                prop_assert_eq!(&bytes[..body.len()], &body[..]);
            }
            prop_assert_eq!(brief.envelope(), header.envelope);
            prop_assert_eq!(first & 0xffff_ffff_0000_0003, 0);
        }
    }
}
