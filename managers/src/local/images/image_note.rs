//! What a local manager knows of an image beside the process itself. It lies beside the file of the
//! image, so that another manager can restore the rank when the job is restarted.

use rejoin_channel_table::{Generation, Incarnation};
use rejoin_wire::Holds;
use rejoin_wire::codec::{FrameReader, MANAGER_LIMIT, encode};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The format of a note. Another one is refused.
const FORMAT: u32 = 3;

/// The note of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageNote {
    format: u32,
    /// The generation in which the image was taken.
    pub generation: Generation,
    /// The incarnation of the rank.
    pub incarnation: Incarnation,
    /// Files and locks of the process.
    pub holds: Holds,
    /// Unfinished lines of its output.
    pub partial: [ByteBuf; 2],
    /// Bytes of standard input that it had read, if it is the rank that reads it.
    pub input: Option<u64>,
}

impl ImageNote {
    /// The note of an image of this incarnation.
    pub fn new(generation: Generation, incarnation: Incarnation, holds: Holds) -> ImageNote {
        ImageNote {
            format: FORMAT,
            generation,
            incarnation,
            holds,
            partial: Default::default(),
            input: None,
        }
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
    /// Why they are no note.
    pub fn decode(bytes: &[u8]) -> Result<ImageNote, String> {
        let mut reader = FrameReader::new(MANAGER_LIMIT);
        reader.push(bytes);
        let note: ImageNote = match reader.next() {
            Ok(Some(note)) => note,
            Ok(None) => return Err("it is cut short".into()),
            Err(error) => return Err(error.to_string()),
        };
        match note.format {
            FORMAT => Ok(note),
            other => Err(format!("format {other}, and {FORMAT} is known here")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> ImageNote {
        let holds = Holds {
            files: Some(vec![(1, 2)]),
            ..Holds::default()
        };
        ImageNote {
            partial: [ByteBuf::from("half a "), ByteBuf::new()],
            input: Some(17),
            ..ImageNote::new(Generation(3), Incarnation(2), holds)
        }
    }

    #[test]
    fn a_note_comes_back_as_it_was() {
        let bytes = note().encode().expect("short enough");
        assert_eq!(ImageNote::decode(&bytes), Ok(note()));
    }

    #[test]
    fn a_note_that_is_cut_short_or_of_another_format_is_refused() {
        let bytes = note().encode().expect("short enough");
        for length in 0..bytes.len() {
            assert!(ImageNote::decode(&bytes[..length]).is_err(), "{length}");
        }
        let newer = ImageNote {
            format: FORMAT + 1,
            ..note()
        };
        let bytes = newer.encode().expect("short enough");
        let why = ImageNote::decode(&bytes).expect_err("refused");
        let want = format!("format {}, and {FORMAT} is known here", FORMAT + 1);
        assert_eq!(why, want);
    }
}
