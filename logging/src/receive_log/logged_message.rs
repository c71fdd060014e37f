//! The messages of a receive log, and their form in words.

use std::ops::Range;

use rejoin_channel_table::ids::{Incarnation, Rank, Ssn};

use super::receive_layout::{HEAD_WORDS, body_words};

/// What a receive log says of a message beside its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MessageHead {
    /// World rank of the sender.
    pub sender: Rank,
    /// The incarnation that sent it.
    pub incarnation: Incarnation,
    /// Number of the message in the channel.
    pub ssn: Ssn,
    /// Context id of the communicator.
    pub context: u32,
    /// The sender's rank in the communicator.
    pub source: i32,
    /// Tag.
    pub tag: i32,
    /// The message's sender waits until a receive takes it.
    pub synchronous: bool,
    /// The mark of the sender's log on which it depends; 0: on nothing that can be lost.
    pub interval: u64,
}

impl MessageHead {
    /// The words of a message whose body has so many bytes.
    pub(super) fn encode(&self, length: u64) -> [u64; HEAD_WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            pair(self.sender.0, self.incarnation.0),
            self.ssn.0,
            pair(self.context, self.source.cast_unsigned()),
            pair(self.tag.cast_unsigned(), self.synchronous.into()),
            length,
            self.interval,
        ]
    }

    /// The message of these words, and the length of its body in bytes.
    fn decode(words: [u64; HEAD_WORDS]) -> (Self, u64) {
        let [sender, ssn, communicator, tag, length, interval] = words;
        let high = |word: u64| (word >> 32) as u32;
        let head = Self {
            sender: Rank(sender as u32),
            incarnation: Incarnation(high(sender)),
            ssn: Ssn(ssn),
            context: communicator as u32,
            source: high(communicator).cast_signed(),
            tag: (tag as u32).cast_signed(),
            synchronous: high(tag) != 0,
            interval,
        };
        (head, length)
    }
}

/// A message that was read from a receive log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedReceive {
    /// All but its body.
    pub head: MessageHead,
    /// The bytes of the message.
    pub body: Vec<u8>,
    /// Words of the log up to its end ([`super::ReceiveLog::position`]).
    pub end: u64,
}

impl LoggedReceive {
    /// How many words the message at the begin of a range has. `None`: more than there are.
    pub(super) fn length(load: impl Fn(u64) -> u64, range: Range<u64>) -> Option<u64> {
        let left = range.end.checked_sub(range.start)?;
        let of_body = left.checked_sub(HEAD_WORDS as u64)?;
        let (_, bytes) = MessageHead::decode(Self::head(&load, range.start));
        let words = body_words(bytes);
        (words <= of_body).then_some(HEAD_WORDS as u64 + words)
    }

    fn head(load: impl Fn(u64) -> u64, start: u64) -> [u64; HEAD_WORDS] {
        std::array::from_fn(|word| load(start + word as u64))
    }

    /// Reads the message at the begin of a range of words. `None`: it would have more than there
    /// are.
    pub(super) fn read(load: impl Fn(u64) -> u64, range: Range<u64>) -> Option<Self> {
        let end = range.start + Self::length(&load, range.clone())?;
        let (head, length) = MessageHead::decode(Self::head(&load, range.start));
        let words = (range.start + HEAD_WORDS as u64..end).map(load);
        let mut body: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        body.truncate(length as usize);
        Some(Self { head, body, end })
    }
}
