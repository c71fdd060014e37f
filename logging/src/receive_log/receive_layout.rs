//! Where the header and the messages of a receive log are.

use super::receive_log_error::ReceiveLogError;
use crate::determinants::LogMemory;

/// "RJNRCV", and the version of the layout in the low 16 bits.
pub(super) const MAGIC: u64 = 0x524a_4e52_4356_0001;
/// Word: words of messages ever appended.
pub(super) const END: usize = 1;
/// Word: words of messages that the ring does not hold any more.
pub(super) const FIRST: usize = 2;
/// Word: 1 if the memory was filled from a copy, which may be older than the process's image.
pub(super) const COPIED: usize = 3;
/// Word: which process has begun the log.
pub(super) const LIFE: usize = 4;
/// Words of the header: a cache line.
pub(super) const HEADER_WORDS: usize = 8;

/// Words of a message before its body.
pub(super) const HEAD_WORDS: usize = 6;

/// The ring of a log's memory.
pub(super) fn capacity(memory: &impl LogMemory) -> Result<u64, ReceiveLogError> {
    let words = memory.words();
    match words.saturating_sub(HEADER_WORDS) {
        0..HEAD_WORDS => Err(ReceiveLogError::TooSmall { words }),
        ring => Ok(ring as u64),
    }
}

/// The place of a word of the ring, which was appended as the one of this number.
pub(super) fn place(capacity: u64, number: u64) -> usize {
    HEADER_WORDS + (number % capacity) as usize
}

/// Words that a body takes.
pub(super) fn body_words(bytes: u64) -> u64 {
    bytes.div_ceil(8)
}
