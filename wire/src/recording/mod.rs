//! The recording of a rank (`mpirun --record`): what its replay alone needs, and what it must do
//! again.
//!
//! A recording is one file per rank. Its first [`HEADER_BYTES`] are words that the rank has mapped,
//! so they outlive it however it ends:
//!
//! | words | meaning |
//! |---|---|
//! | from 0, [`DETERMINANT_WORDS`] | the newest records of the rank's log of determinants |
//! | [`MAGIC_WORD`] | magic number and version |
//! | [`STAGED_AT`] | where the staged bytes belong in the file |
//! | [`STAGED_BYTES`] | how many bytes are staged; 0: the file has all |
//! | [`STOPPED`] | not 0: the recording could not be continued |
//! | from [`STAGE`], [`STAGE_WORDS`] | the staged bytes |
//!
//! Entries follow, each a [`RecordingEntry`] in the frame of [`codec`](crate::codec), filled up to
//! eight bytes. Behind [`RecordingEntry::Got`] the body of the message stands, filled up as well.
//! The rank writes staged bytes to their place before it says that none are staged; so a reader
//! that finds some puts them there, whether they were written or not.
//!
//! Messages have no order of their own: the answer to the receive of each number is recorded. So a
//! replay does not match, and needs no other rank.

mod rank_start;
mod recording_entry;
mod recording_reader;
mod replay_outcome;

pub use rank_start::RankStart;
pub use recording_entry::{MessageName, RecordingEntry};
pub use recording_reader::{Located, RecordingError, RecordingReader};
pub use replay_outcome::{OUTCOME_VARIABLE, RECORDING_VARIABLE, ReplayOutcome};

use crate::codec::{CodecError, encode};

/// Bytes before the first entry.
pub const HEADER_BYTES: usize = 256 << 10;
/// Words of a log of 4096 determinants.
pub const DETERMINANT_WORDS: usize = 16 + 4 * 4096;
/// Word: [`MAGIC`].
pub const MAGIC_WORD: usize = DETERMINANT_WORDS;
/// Word: where the staged bytes belong in the file.
pub const STAGED_AT: usize = DETERMINANT_WORDS + 1;
/// Word: how many bytes are staged.
pub const STAGED_BYTES: usize = DETERMINANT_WORDS + 2;
/// Word: 1 if the rank continued without a recording.
pub const STOPPED: usize = DETERMINANT_WORDS + 3;
/// First word of the staged bytes.
pub const STAGE: usize = DETERMINANT_WORDS + 16;
/// Words for staged bytes: 64 KiB.
pub const STAGE_WORDS: usize = 8 << 10;
/// "RJNREC", and the version of the format in the low 16 bits.
pub const MAGIC: u64 = 0x524a_4e52_4543_0001;

const _: () = assert!((STAGE + STAGE_WORDS) * 8 <= HEADER_BYTES);

/// Most bytes of an entry: the environment of a process is in one.
const ENTRY_LIMIT: usize = 32 << 20;

/// So many bytes, filled up to whole words.
#[must_use]
pub const fn filled(bytes: u64) -> u64 {
    bytes.div_ceil(8) * 8
}

/// The name of the file in a folder of recordings.
#[must_use]
pub fn file_name(rank: u32) -> String {
    format!("rank-{rank}.recording")
}

/// Appends an entry, filled up to whole words.
///
/// # Errors
/// The entry is too long; `out` is unchanged then.
pub fn append_entry(entry: &RecordingEntry, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = out.len();
    encode(entry, ENTRY_LIMIT, out)?;
    out.resize(start + filled((out.len() - start) as u64) as usize, 0);
    Ok(())
}
