//! Where the header and the records of a log are.

use super::determinant_record::RECORD_WORDS;
use super::{DeterminantError, LogMemory};

/// "RJNDTM", and the version of the layout in the low 16 bits.
pub(super) const MAGIC: u64 = 0x524a_4e44_544d_0004;
/// Word: number of records ever appended.
pub(super) const END: usize = 1;
/// Word: number of the first record that the ring still holds.
pub(super) const FIRST: usize = 2;
/// Word: number of answers ever given.
pub(super) const ANSWERS: usize = 3;
/// Word: number of sends whose order matters: those up to the last one that was issued while tasks
/// of the program could send, too.
pub(super) const SENDS: usize = 4;
/// Word: 1 if the memory was filled from a copy, which may be older than the process's image.
pub(super) const COPIED: usize = 5;
/// Word: one more than the number of the dependency before which the log is being ended; 0: none.
/// The other words follow, and whoever may die in between leaves the rest to the next reader.
pub(super) const CUT: usize = 6;
/// Word: bytes of messages that are retained for other recovery groups. This word and those below
/// are for readers, and have a cache line of their own.
pub(super) const RETAINED: usize = 8;
/// Word: the most of these bytes that there ever were.
pub(super) const MOST_RETAINED: usize = 9;
/// Word: bytes of the memory of bodies that are in use.
pub(super) const BODY_BYTES: usize = 10;
/// Word: since when messages wait for a release; 0 if none is retained.
pub(super) const WAIT_SINCE: usize = 11;
/// Word: the same of the file into which the log spills.
pub(super) const FILE_BYTES: usize = 12;
/// Word: one more than the rank of the peer for which most is retained; 0: there is none.
pub(super) const MOST_FOR: usize = 13;
/// Word: bytes that are retained for it.
pub(super) const BYTES_FOR: usize = 14;
/// Words of the header: two cache lines.
pub(super) const HEADER_WORDS: usize = 16;

/// Records that fit in the memory.
pub(super) fn capacity(memory: &impl LogMemory) -> Result<u64, DeterminantError> {
    let words = memory.words();
    match words.saturating_sub(HEADER_WORDS) / RECORD_WORDS {
        0 => Err(DeterminantError::TooSmall { words }),
        records => Ok(records as u64),
    }
}

/// The first word of a record.
pub(super) fn place(capacity: u64, index: u64) -> usize {
    HEADER_WORDS + (index % capacity) as usize * RECORD_WORDS
}
