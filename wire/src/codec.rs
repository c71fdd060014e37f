//! Frames on a manager's stream socket: a little-endian `u32` length, then the message in bincode.
//!
//! This module touches no socket. The caller pushes received bytes into a [`FrameReader`]. Its
//! memory grows only with received bytes, never with a length that the other side claims.

use bincode::Options;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest body of a message that a rank sends to its manager, in bytes.
pub const RANK_LIMIT: usize = 64 * 1024;

/// Largest body of a message from a manager (tables of all ranks go this way), in bytes.
pub const MANAGER_LIMIT: usize = 16 * 1024 * 1024;

/// Bytes of the length prefix.
const PREFIX: usize = 4;

/// An error of a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The announced or produced body is larger than this link allows.
    #[error("a message of {length} bytes is above this link's limit of {limit}")]
    TooLong {
        /// Announced or produced length of the body, in bytes.
        length: u64,
        /// The link's limit, in bytes.
        limit: usize,
    },
    /// The body is no message of the expected type.
    #[error("malformed message: {0}")]
    Malformed(String),
}

fn options(limit: usize) -> impl Options {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .with_little_endian()
        .with_limit(limit as u64)
        .reject_trailing_bytes()
}

/// Appends `message` as one frame to `out`.
///
/// # Errors
/// [`CodecError::TooLong`] when the body exceeds `limit` bytes; `out` is then unchanged.
pub fn encode<T: Serialize>(
    message: &T,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let size = bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .serialized_size(message)
        .map_err(|e| CodecError::Malformed(e.to_string()))?;
    let length = match u32::try_from(size) {
        Ok(length) if length as usize <= limit => length,
        _ => {
            return Err(CodecError::TooLong {
                length: size,
                limit,
            });
        }
    };
    let start = out.len();
    out.reserve(PREFIX + length as usize);
    out.extend_from_slice(&length.to_le_bytes());
    options(limit)
        .serialize_into(&mut *out, message)
        .map_err(|e| {
            out.truncate(start);
            CodecError::Malformed(e.to_string())
        })
}

/// Assembles frames from the pieces that the socket delivers.
///
/// ```
/// use rejoin_wire::codec::{FrameReader, encode};
///
/// let mut bytes = Vec::new();
/// encode(&"rank 3 is back", 1024, &mut bytes)?;
///
/// let mut reader = FrameReader::new(1024);
/// let (begin, rest) = bytes.split_at(7);
/// reader.push(begin);
/// assert_eq!(reader.next::<String>()?, None);
/// reader.push(rest);
/// assert_eq!(reader.next::<String>()?.as_deref(), Some("rank 3 is back"));
/// # Ok::<(), rejoin_wire::codec::CodecError>(())
/// ```
#[derive(Debug, Clone)]
pub struct FrameReader {
    limit: usize,
    buffer: Vec<u8>,
    /// Bytes at the front that were handed out already.
    taken: usize,
}

impl FrameReader {
    /// A reader that refuses bodies above `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        FrameReader {
            limit,
            buffer: Vec::new(),
            taken: 0,
        }
    }

    /// Adds bytes as they came from the socket.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            // The rest moves once per push, so the buffer is no larger than the unread bytes.
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// A length above the limit or a body that is no `T`. The stream can't be read further then:
    /// the caller drops the link.
    #[expect(clippy::should_implement_trait, reason = "it is generic and can fail")]
    pub fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CodecError> {
        let unread = &self.buffer[self.taken..];
        let Some((prefix, rest)) = unread.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > self.limit {
            return Err(CodecError::TooLong {
                length: length as u64,
                limit: self.limit,
            });
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let message = options(self.limit)
            .deserialize(body)
            .map_err(|e| CodecError::Malformed(e.to_string()))?;
        self.taken += PREFIX + length;
        Ok(Some(message))
    }

    /// Overwrites the bytes of messages that were handed out: they may hold the job's key.
    pub fn wipe_taken(&mut self) {
        self.buffer[..self.taken].fill(0);
    }

    /// Bytes that came and belong to no message handed out so far.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.buffer.len() - self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(message: &(u64, String)) -> Vec<u8> {
        let mut out = Vec::new();
        encode(message, 1024, &mut out).unwrap();
        out
    }

    #[test]
    fn messages_survive_any_cutting_of_the_stream() {
        let sent = [
            (1u64, "one".to_string()),
            (2, String::new()),
            (3, "three".repeat(50)),
        ];
        let bytes: Vec<u8> = sent.iter().flat_map(frame).collect();
        for step in 1..bytes.len() {
            let mut reader = FrameReader::new(1024);
            let mut got = Vec::new();
            for piece in bytes.chunks(step) {
                reader.push(piece);
                while let Some(message) = reader.next::<(u64, String)>().unwrap() {
                    got.push(message);
                }
            }
            assert_eq!(got, sent, "pieces of {step} bytes");
            assert_eq!(reader.unread(), 0);
        }
    }

    #[test]
    fn a_forged_length_is_refused_before_any_body_comes() {
        let mut reader = FrameReader::new(1024);
        reader.push(&u32::MAX.to_le_bytes());
        let got = reader.next::<(u64, String)>();
        assert_eq!(
            got,
            Err(CodecError::TooLong {
                length: u64::from(u32::MAX),
                limit: 1024
            })
        );
        assert!(reader.buffer.capacity() < 64);
    }

    #[test]
    fn a_forged_inner_length_is_malformed() {
        let mut bytes = 16u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(&7u64.to_le_bytes());
        bytes.extend_from_slice(&u64::MAX.to_le_bytes());
        let mut reader = FrameReader::new(1024);
        reader.push(&bytes);
        assert!(matches!(
            reader.next::<(u64, String)>(),
            Err(CodecError::Malformed(_))
        ));
        let mut reader = FrameReader::new(1024);
        reader.push(&bytes);
        assert!(matches!(
            reader.next::<(u64, Vec<u64>)>(),
            Err(CodecError::Malformed(_))
        ));
    }

    #[test]
    fn trailing_bytes_in_a_body_are_malformed() {
        let mut bytes = 9u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[0; 9]);
        let mut reader = FrameReader::new(1024);
        reader.push(&bytes);
        assert!(matches!(
            reader.next::<u64>(),
            Err(CodecError::Malformed(_))
        ));
    }

    #[test]
    fn too_long_a_message_is_not_sent_in_part() {
        let mut out = vec![9];
        let error = encode(&vec![0u8; 100], 50, &mut out).unwrap_err();
        assert_eq!(
            error,
            CodecError::TooLong {
                length: 108,
                limit: 50
            }
        );
        assert_eq!(out, [9]);
    }

    #[test]
    fn the_limit_itself_is_allowed_and_a_byte_more_is_not() {
        let body = [7u8; 24];
        let mut bytes = Vec::new();
        encode(&body, 24, &mut bytes).unwrap();
        assert!(encode(&body, 23, &mut Vec::new()).is_err());
        let read = |limit| {
            let mut reader = FrameReader::new(limit);
            reader.push(&bytes);
            reader.next::<[u8; 24]>()
        };
        assert_eq!(read(24), Ok(Some(body)));
        let (length, limit) = (24, 23);
        assert_eq!(read(23), Err(CodecError::TooLong { length, limit }));
        assert_eq!(MANAGER_LIMIT, 16_777_216);
        assert_eq!(RANK_LIMIT, 65_536);
    }

    #[test]
    fn what_was_handed_out_is_wiped_and_nothing_else() {
        let (key, next) = ((5, "secret".to_owned()), (6, "next".to_owned()));
        let mut reader = FrameReader::new(1024);
        reader.push(&frame(&key));
        reader.push(&frame(&next));
        assert_eq!(reader.next(), Ok(Some(key)));
        let unread = reader.unread();
        assert_eq!(unread, frame(&next).len());
        reader.wipe_taken();
        assert!(!reader.buffer.windows(6).any(|bytes| bytes == b"secret"));
        assert_eq!(reader.unread(), unread);
        assert_eq!(reader.next(), Ok(Some(next.clone())));
        // What was handed out leaves the buffer with the next push.
        reader.push(&frame(&next));
        assert_eq!(reader.buffer.len(), reader.unread());
        assert_eq!(reader.next(), Ok(Some(next)));
    }
}
