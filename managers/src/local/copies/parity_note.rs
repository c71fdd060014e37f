//! What lies beside the parity of several ranks' files: which they are, and their own notes.

use rejoin_channel_table::Rank;
use rejoin_wire::codec::{FrameReader, MANAGER_LIMIT, encode};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The format of such a note. Another one is refused.
const FORMAT: u32 = 1;

/// A file that has gone into a parity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParityMember {
    /// The rank of the image.
    pub rank: Rank,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// XXH3 of the file.
    pub checksum: u64,
    /// The note of the image.
    pub note: ByteBuf,
}

/// The note of a parity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParityNote {
    format: u32,
    /// The files, in the order of their ranks.
    pub members: Vec<ParityMember>,
}

impl ParityNote {
    /// The note of the parity of these files.
    pub fn new(members: Vec<ParityMember>) -> ParityNote {
        ParityNote {
            format: FORMAT,
            members,
        }
    }

    /// Length of the parity in bytes: that of the longest file.
    pub fn bytes(&self) -> u64 {
        let lengths = self.members.iter().map(|member| member.bytes);
        lengths.max().unwrap_or(0)
    }

    /// The note as bytes.
    ///
    /// # Errors
    /// The note is too long.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        encode(self, MANAGER_LIMIT, &mut bytes).map_err(|e| e.to_string())?;
        Ok(bytes)
    }

    /// From bytes.
    ///
    /// # Errors
    /// Why they are no such note.
    pub fn decode(bytes: &[u8]) -> Result<ParityNote, String> {
        let mut reader = FrameReader::new(MANAGER_LIMIT);
        reader.push(bytes);
        let note: ParityNote = match reader.next() {
            Ok(Some(note)) => note,
            Ok(None) => return Err("the note of the parity is cut short".into()),
            Err(error) => return Err(error.to_string()),
        };
        match note.format {
            FORMAT => Ok(note),
            other => Err(format!(
                "the note of the parity has format {other}, and {FORMAT} is known here"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_as_it_was_and_a_damaged_one_does_not() {
        let member = |rank, bytes| ParityMember {
            rank: Rank(rank),
            bytes,
            checksum: 7,
            note: ByteBuf::from("note"),
        };
        let note = ParityNote::new(vec![member(1, 20), member(5, 30)]);
        assert_eq!(note.bytes(), 30);
        let bytes = note.encode().expect("short enough");
        assert_eq!(ParityNote::decode(&bytes), Ok(note.clone()));
        for length in 0..bytes.len() {
            assert!(ParityNote::decode(&bytes[..length]).is_err(), "{length}");
        }
        let newer = ParityNote { format: 2, ..note };
        let bytes = newer.encode().expect("short enough");
        assert!(ParityNote::decode(&bytes).is_err());
    }
}
