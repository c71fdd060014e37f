//! Errors: wrong use by the device, and peers that break the protocol.

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};
use thiserror::Error;

use crate::frame::FrameKind;

/// A call that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// No such rank in the job.
    #[error("rank {rank} is outside of a job of {size} ranks")]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// Ranks in the job.
        size: u32,
    },
    /// The message was received already, or never existed.
    #[error("the message handle is stale")]
    StaleMessage,
}

/// The peer broke the protocol; its link must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// No such rank in the job, or the rank itself.
    #[error("rank {0} is no peer")]
    NotAPeer(Rank),
    /// The frame or the resume is of a later epoch: take the image, set the epoch, and pass it
    /// again.
    #[error("a frame of epoch {0} came before this rank's image of it")]
    LaterEpoch(Epoch),
    /// A header came while the body before it is not done.
    #[error("a header came within a body")]
    WithinBody,
    /// `rx_done` without a body.
    #[error("a body ended that had not begun")]
    NoBody,
    /// An envelope is missing.
    #[error("message {got} came where {expected} was due")]
    Gap {
        /// The next envelope.
        expected: Ssn,
        /// The envelope that came.
        got: Ssn,
    },
    /// An eager body is longer than any rank may send.
    #[error("an eager message of {0} bytes")]
    TooLong(u64),
    /// More bytes than the window and all grants allow.
    #[error("the peer sent more than its window")]
    WindowExceeded,
    /// Data of a message that expects none.
    #[error("data for message {0}, which expects none")]
    UnexpectedData(Ssn),
    /// Data that does not continue where the last frame ended, or goes beyond the message's end.
    #[error("data for message {ssn} at offset {offset} does not fit")]
    Misplaced {
        /// The message.
        ssn: Ssn,
        /// Offset in its body.
        offset: u64,
    },
    /// A control frame for a message that was never sent, or is of another kind.
    #[error("a {kind:?} frame for message {ssn} makes no sense")]
    Pointless {
        /// Kind of the frame.
        kind: FrameKind,
        /// The message.
        ssn: Ssn,
    },
    /// More acknowledged, or more credit, than was ever sent; or a resume below what was
    /// acknowledged before.
    #[error("the peer acknowledges {0}, which cannot be")]
    FalseAck(Ssn),
    /// The peer lacks a message whose body is nowhere any more: the file that this process was made
    /// of has none of those that the peer's image of the same epoch held.
    #[error("the peer lacks message {0}, which its image of this rank's epoch had")]
    LeftOut(Ssn),
    /// More bytes given back than were taken.
    #[error("the peer gave back more window than was used")]
    FalseCredit,
}
