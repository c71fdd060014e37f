//! The frame header: 64 bytes, little endian, encoded by hand and checked when read.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | magic and version |
//! | 2 | kind |
//! | 3 | flags |
//! | 4 | epoch in which the SSN or the ack was fixed |
//! | 8 | context id |
//! | 12 | source: rank in the communicator |
//! | 16 | tag |
//! | 20 | zero |
//! | 24 | length: of the message's body; of a data frame's own body; ack and finish: the message below which a committed image or the receive log holds all, between recovery groups |
//! | 32 | SSN; image: the message below which it holds all |
//! | 40 | ack: all envelopes below are in memory with their eager bodies |
//! | 48 | credit: bytes of window ever given back |
//! | 56 | aux: rts: address of the body, where the receiver can read it; data: offset; ack: envelopes ever granted; cancel: see `cancel.rs`; interval: mark of the sender's log; image: its epoch |

use rejoin_channel_table::ids::{Epoch, Ssn};
use thiserror::Error;

use crate::types::Envelope;

/// Length of a header in bytes.
pub const HEADER_LEN: usize = 64;
/// Version of the frames (`3`) and magic, the first two bytes.
pub const FRAME_MAGIC: [u8; 2] = *b"3R";
const MAGIC: u16 = u16::from_le_bytes(FRAME_MAGIC);
/// Longest body of an eager message that any configuration allows.
pub(crate) const EAGER_LIMIT: u64 = 4 << 20;
/// Longest body that an envelope beyond the window brings along.
pub(crate) const GRANTED_LIMIT: u64 = 192;
/// Longest body of one data frame.
const DATA_LIMIT: u64 = 64 << 20;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// An envelope with its whole body behind it.
    Eager = 1,
    /// An envelope whose body follows when the receiver is clear to take it (ready to send).
    Rts = 2,
    /// The receiver has matched a rendezvous message: send its body (clear to send).
    Cts = 3,
    /// A part of a body.
    Data = 4,
    /// The receiver has the whole body of a rendezvous message.
    Finish = 5,
    /// A synchronous eager message was matched.
    Matched = 6,
    /// The sender wants a message back.
    CancelRequest = 7,
    /// The answer: aux is 1 when the message was removed.
    CancelReply = 8,
    /// Ack, credit and grants alone.
    Ack = 9,
    /// What follows on this link depends on determinants of the sender that are not stable yet: aux
    /// is the mark up to which its log must be stored (`interval_frames.rs`).
    Interval = 10,
    /// The sender has taken an image, which its group may come back from (`image_bodies.rs`).
    Image = 11,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        Some(match byte {
            1 => FrameKind::Eager,
            2 => FrameKind::Rts,
            3 => FrameKind::Cts,
            4 => FrameKind::Data,
            5 => FrameKind::Finish,
            6 => FrameKind::Matched,
            7 => FrameKind::CancelRequest,
            8 => FrameKind::CancelReply,
            9 => FrameKind::Ack,
            10 => FrameKind::Interval,
            11 => FrameKind::Image,
            _ => return None,
        })
    }
}

/// Flag bits of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// No flag is set.
    pub const NONE: Flags = Flags(0);
    /// Synchronous mode: the sender waits for the match.
    pub const SYNC: Flags = Flags(1);
    /// The sender waits for the ack: of an envelope, for that of its body; of an ack, for one of
    /// everything before it.
    pub const WANT_ACK: Flags = Flags(2);
    /// An envelope beyond the window, on a grant; eager only up to a short body.
    pub const GRANTED: Flags = Flags(4);
    /// Other bodies of the sender may have been under way when this one was sent: a hint, of bodies
    /// that a receiver may read.
    pub const STREAM: Flags = Flags(8);
    const KNOWN: u8 = 15;

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags without `other`.
    #[must_use]
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// With `other`, if it `is` so.
    #[must_use]
    pub fn with_if(self, other: Flags, is: bool) -> Flags {
        if is { self.with(other) } else { self }
    }

    /// Both together.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// Flags.
    pub flags: Flags,
    /// Epoch in which the SSN or ack was fixed.
    pub epoch: Epoch,
    /// Matching information of an envelope.
    pub envelope: Envelope,
    /// Length of the message's body; of a data frame, of the body behind this header.
    pub length: u64,
    /// The message.
    pub ssn: Ssn,
    /// Cumulative acknowledgement of the other direction.
    pub ack: Ssn,
    /// Bytes of window ever given back, of the other direction.
    pub credit: u64,
    /// Depends on the kind.
    pub aux: u64,
}

/// The defect of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Other magic or version.
    #[error("a frame begins with {0:#06x}, which is not this protocol's version")]
    Magic(u16),
    /// Unknown kind.
    #[error("a frame of unknown kind {0}")]
    Kind(u8),
    /// Unknown flags, or flags that the kind does not have.
    #[error("a frame with flags {0:#04x}, which it cannot have")]
    Flags(u8),
    /// The reserved bytes are not zero.
    #[error("a frame with reserved bytes in use")]
    Reserved,
    /// A length beyond the limits of its kind.
    #[error("a frame with a length of {0} bytes")]
    Length(u64),
}

impl Header {
    /// Bytes of body that follow this header on the link.
    #[inline]
    pub fn body_len(&self) -> u64 {
        match self.kind {
            FrameKind::Eager | FrameKind::Data => self.length,
            _ => 0,
        }
    }

    /// The 64 bytes as words, whose bytes go in little endian order.
    #[inline(always)]
    pub fn words(&self) -> [u64; HEADER_LEN / 8] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let start = u32::from_le_bytes([
            FRAME_MAGIC[0],
            FRAME_MAGIC[1],
            self.kind as u8,
            self.flags.0,
        ]);
        let env = &self.envelope;
        [
            pair(start, self.epoch.0),
            pair(env.context, env.source.cast_unsigned()),
            u64::from(env.tag.cast_unsigned()),
            self.length,
            self.ssn.0,
            self.ack.0,
            self.credit,
            self.aux,
        ]
    }

    /// The 64 bytes.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let (chunks, _) = out.as_chunks_mut::<8>();
        for (to, word) in chunks.iter_mut().zip(self.words()) {
            *to = word.to_le_bytes();
        }
        out
    }

    /// Reads and checks 64 bytes.
    ///
    /// # Errors
    /// Whatever is wrong with them; no length is believed beyond the limit of its kind.
    #[inline]
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, HeaderError> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let magic = u16::from_le_bytes([bytes[0], bytes[1]]);
        if magic != MAGIC {
            return Err(HeaderError::Magic(magic));
        }
        let kind = FrameKind::from_byte(bytes[2]).ok_or(HeaderError::Kind(bytes[2]))?;
        let allowed = match kind {
            FrameKind::Eager | FrameKind::Rts => Flags::KNOWN,
            FrameKind::Ack => Flags::WANT_ACK.0,
            _ => 0,
        };
        if bytes[3] & !allowed != 0 {
            return Err(HeaderError::Flags(bytes[3]));
        }
        if word(20) != 0 {
            return Err(HeaderError::Reserved);
        }
        let length = long(24);
        let limit = match kind {
            FrameKind::Eager => EAGER_LIMIT,
            FrameKind::Data => DATA_LIMIT,
            FrameKind::Rts => i64::MAX as u64,
            _ => u64::MAX,
        };
        if length > limit {
            return Err(HeaderError::Length(length));
        }
        Ok(Header {
            kind,
            flags: Flags(bytes[3]),
            epoch: Epoch(word(4)),
            envelope: Envelope {
                context: word(8),
                source: word(12).cast_signed(),
                tag: word(16).cast_signed(),
            },
            length,
            ssn: Ssn(long(32)),
            ack: Ssn(long(40)),
            credit: long(48),
            aux: long(56),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            kind: FrameKind::Eager,
            flags: Flags::SYNC.with(Flags::WANT_ACK),
            epoch: Epoch(3),
            envelope: Envelope {
                context: 0xdead_beef,
                source: -2,
                tag: i32::MIN,
            },
            length: 99,
            ssn: Ssn(1 << 40),
            ack: Ssn(u64::MAX),
            credit: 7,
            aux: 1 << 63,
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        assert_eq!(Header::decode(&header().encode()), Ok(header()));
        assert_eq!(header().encode()[..3], *b"3R\x01");
    }

    #[test]
    fn damage_is_refused() {
        let with = |at: usize, byte: u8| {
            let mut bytes = header().encode();
            bytes[at] = byte;
            Header::decode(&bytes)
        };
        assert_eq!(with(1, 0), Err(HeaderError::Magic(0x33)));
        assert_eq!(with(2, 0), Err(HeaderError::Kind(0)));
        assert_eq!(with(2, 12), Err(HeaderError::Kind(12)));
        assert_eq!(with(3, 16), Err(HeaderError::Flags(16)));
        assert_eq!(with(2, FrameKind::Ack as u8), Err(HeaderError::Flags(3)));
        assert_eq!(with(2, FrameKind::Cts as u8), Err(HeaderError::Flags(3)));
        assert_eq!(with(20, 1), Err(HeaderError::Reserved));
        assert!(matches!(with(31, 1), Err(HeaderError::Length(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_without_panic(mut bytes in prop::array::uniform32(any::<u8>()), kind in 0u8..12) {
            bytes[..2].copy_from_slice(&FRAME_MAGIC);
            bytes[2] = kind;
            bytes[3] &= 7;
            bytes[20..24].fill(0);
            let mut all = [0; HEADER_LEN];
            all[..32].copy_from_slice(&bytes);
            all[32..].copy_from_slice(&bytes);
            if let Ok(header) = Header::decode(&all) {
                prop_assert_eq!(header.encode(), all);
                prop_assert!(header.body_len() <= DATA_LIMIT);
            }
        }
    }
}
