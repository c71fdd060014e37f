//! Headers of short messages: eager envelopes that a transport carries beside its stream of frames.
//!
//! Such a header has only the fields that the receiver cannot know. Numbers lack their upper half,
//! which the receiver reconstructs. On a link they only grow, by less than half of the remaining
//! range, and the sender's epoch is hardly ahead of the receiver's. The transport decides how a
//! header and its body lie in its memory.

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};

use crate::channel_state::Channel;
use crate::eager::{EagerHeader, Matched};
use crate::engine::Engine;
use crate::frame::{Flags, FrameKind, Header};
use crate::types::{Completion, Envelope, Pattern, Segment};

/// The header of an eager message, without the fields that its receiver knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShortHeader {
    /// Context id, source and tag.
    pub envelope: Envelope,
    /// Length of the body in bytes, as the sender claims.
    pub len: u16,
    /// Epoch, low half.
    pub epoch: u16,
    /// Send sequence number, low half.
    pub ssn: u32,
    /// Acknowledgement, low half.
    pub ack: u32,
    /// Credit, low half.
    pub credit: u32,
}

impl ShortHeader {
    /// The header of a plain eager frame, whose body has at most 65,535 bytes.
    #[inline(always)]
    pub(crate) fn of(header: &Header) -> Self {
        Self {
            envelope: header.envelope,
            len: header.length as u16,
            epoch: header.epoch.0 as u16,
            ssn: header.ssn.0 as u32,
            ack: header.ack.0 as u32,
            credit: header.credit as u32,
        }
    }
}

impl EagerHeader for ShortHeader {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len.into()
    }

    #[inline(always)]
    fn envelope(&self) -> Envelope {
        self.envelope
    }

    #[inline(always)]
    fn is_next(&self, epoch: Epoch, next: Ssn) -> bool {
        self.epoch == epoch.0 as u16 && self.ssn == next.0 as u32
    }

    #[inline(always)]
    fn acks(&self, channel: &Channel) -> (Ssn, u64) {
        let ack = near(channel.tx.retention.unacked().0, self.ack);
        let credit = near(channel.tx.window.credited(), self.credit);
        (Ssn(ack), credit)
    }
}

/// Epochs by which a peer may be ahead. It cannot be far ahead, because its next epoch waits for
/// this rank. But a message may be unread in its link while this rank enters many epochs. The low
/// half distinguishes up to 61,440 of them; at ten a second, that many take more than an hour and a
/// half.
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
    /// Sends like [`Engine::send_eager`], as a short message: returns its header. The frame is
    /// retained, and the device shows the message with its body to the peer at once. `None`:
    /// nothing was done.
    #[inline(always)]
    pub fn send_short(&mut self, to: Rank, env: &Envelope, bytes: &[u8]) -> Option<ShortHeader> {
        if bytes.len() > usize::from(u16::MAX) {
            return None;
        }
        let (_, _, header) = self.keep_eager(to, env, bytes)?;
        Some(ShortHeader::of(&header))
    }

    /// Takes a short message of a peer, as [`Engine::rx_eager`] takes a frame.
    #[inline(always)]
    pub fn rx_short(&mut self, peer: Rank, header: &ShortHeader) -> Option<Matched> {
        self.accept_posted(peer, header)
    }

    /// A short message for a receive that is not posted, which [`Engine::is_next_match`] and has
    /// room for it: how it ends, and where the body goes. `None`: nothing was taken but the ack.
    #[inline(always)]
    pub fn rx_short_into(
        &mut self,
        peer: Rank,
        header: &ShortHeader,
        pattern: &Pattern,
        seg: Segment,
    ) -> Option<(Completion, Matched)> {
        self.accept_into(peer, header, pattern, seg)
    }

    /// The header of the frame that is equivalent to a short message. [`Engine::rx_header`] takes
    /// it with the body behind it. `None` for a peer without a channel, and for a header that no
    /// short message can have.
    #[must_use]
    pub fn widen(&self, peer: Rank, header: &ShortHeader) -> Option<Header> {
        if header.len() > self.config.eager_max {
            return None;
        }
        let channel = self.channels.get(peer.index())?.as_deref()?;
        let (ack, credit) = header.acks(channel);
        Some(Header {
            kind: FrameKind::Eager,
            flags: Flags::NONE,
            epoch: epoch_near(channel.epoch, header.epoch),
            envelope: header.envelope,
            length: header.len.into(),
            ssn: Ssn(near(channel.rx.order.next().0, header.ssn)),
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
    }
}
