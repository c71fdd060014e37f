//! Errors of a determinant log.

use super::DeterminantKind;
use thiserror::Error;

/// Why a log can't be used, or a replay does not go as its determinants say.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeterminantError {
    /// The memory holds no record.
    #[error("{words} words of memory are too few for a log of determinants")]
    TooSmall {
        /// Words of the memory.
        words: usize,
    },
    /// The memory is no log, or one of another version.
    #[error("the memory begins with {found:#x}, which is no log of determinants of this version")]
    Magic {
        /// The first word.
        found: u64,
    },
    /// The memory that was opened again has another size.
    #[error("the log of determinants has room for {found} records, and had room for {expected}")]
    Resized {
        /// Records that fit now.
        found: u64,
        /// Records that fitted before.
        expected: u64,
    },
    /// The ring does not hold the records that the process needs.
    #[error(
        "the log of determinants holds the records {first} to {end}, \
         and the image needs those from {position}"
    )]
    OutOfRange {
        /// The first record that the ring holds.
        first: u64,
        /// The end of the records.
        end: u64,
        /// The first record that is needed.
        position: u64,
    },
    /// A counter contradicts the image or the records.
    #[error(
        "the image is at number {next}, and the log of determinants counts {given}: \
         its records do not lie between these"
    )]
    Contradiction {
        /// The next number of the process.
        next: u64,
        /// The counter of the log.
        given: u64,
    },
    /// A record has a kind that there is not.
    #[error("record {index} of the log of determinants is of the unknown kind {kind}")]
    UnknownKind {
        /// Index of the record.
        index: u64,
        /// The kind's byte.
        kind: u8,
    },
    /// A record has a number that another record has, or that does not grow.
    #[error("record {index} of the log of determinants repeats number {number} of {kind}")]
    Repeated {
        /// Index of the record.
        index: u64,
        /// The record's kind.
        kind: DeterminantKind,
        /// The number in the sequence of the kind.
        number: u64,
    },
    /// The ring is full. Nothing was written.
    #[error(
        "the log of determinants is full ({records} records since the last checkpoint): \
         take checkpoints more often"
    )]
    Full {
        /// Records that the ring holds.
        records: u64,
    },
    /// The replay asks for another kind of answer than the log has.
    #[error("answer {number} is asked for by {asked}, and was recorded for {recorded}")]
    OtherKind {
        /// Number of the answer.
        number: u64,
        /// The kind that the replay asks for.
        asked: DeterminantKind,
        /// The kind of the record.
        recorded: DeterminantKind,
    },
    /// The replay did something else than the log says.
    #[error("{kind} number {number} was {recorded} and is {repeated} in the replay")]
    Diverged {
        /// The kind.
        kind: DeterminantKind,
        /// The number in the sequence of the kind.
        number: u64,
        /// What the log says.
        recorded: String,
        /// What the replay did.
        repeated: String,
    },
}
