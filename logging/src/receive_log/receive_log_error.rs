//! Errors of a receive log.

use thiserror::Error;

/// Why a receive log can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReceiveLogError {
    /// The memory holds no message.
    #[error("{words} words of memory are too few for a receive log")]
    TooSmall {
        /// Words of the memory.
        words: usize,
    },
    /// The memory is no log, or one of another version.
    #[error("the memory begins with {found:#x}, which is no receive log of this version")]
    Magic {
        /// The first word.
        found: u64,
    },
    /// The memory that was opened again has another size.
    #[error("the receive log has {found} words, and had {expected}")]
    Resized {
        /// Words of the memory now.
        found: usize,
        /// Words that it had when the log began.
        expected: usize,
    },
    /// The ring does not hold what the process needs.
    #[error(
        "the receive log holds the words {first} to {end}, and the image needs those from {position}"
    )]
    OutOfRange {
        /// The first word that the ring holds.
        first: u64,
        /// The end of the words.
        end: u64,
        /// The first word that is needed.
        position: u64,
    },
    /// A message is longer than the log.
    #[error("the message at word {at} of the receive log is damaged")]
    Damaged {
        /// First word of the message.
        at: u64,
    },
}
