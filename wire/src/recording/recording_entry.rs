//! The entries of a recording.

use serde::{Deserialize, Serialize};

use super::RankStart;

/// The names by which a message is matched.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct MessageName {
    /// Context id of the communicator.
    pub context: u32,
    /// The sender's rank in the communicator.
    pub source: i32,
    /// Tag.
    pub tag: i32,
}

/// An entry. `task` is the nonblocking collective that acts, or none: the program itself. The
/// receives of each are numbered from 0. `operation` is the number of an MPI function's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordingEntry {
    /// How the rank began: the first entry.
    Start(RankStart),
    /// The name of an MPI function; such names are numbered from 0.
    Operation(String),
    /// A message is sent.
    Send {
        /// Number of the MPI function.
        operation: u16,
        /// The task that sends, if one does.
        task: Option<u64>,
        /// World rank of the receiver.
        to: u32,
        /// Context, sender and tag.
        name: MessageName,
        /// Bytes.
        len: u64,
        /// Hash of the body.
        digest: u64,
    },
    /// A receive is posted.
    Receive {
        /// Number of the MPI function.
        operation: u16,
        /// The task that receives, if one does.
        task: Option<u64>,
        /// Context of the messages that match.
        context: u32,
        /// Sender of the messages, or any.
        source: Option<i32>,
        /// Tag of the messages, or any.
        tag: Option<i32>,
        /// Bytes of the buffer.
        capacity: u64,
    },
    /// A matched probe has taken a message, which counts as a receive.
    Taken {
        /// Number of the MPI function.
        operation: u16,
        /// The task that probes, if one does.
        task: Option<u64>,
        /// Context, sender and tag.
        name: MessageName,
        /// Bytes of the message.
        len: u64,
    },
    /// A receive is complete. The body follows, except if the receive was cancelled.
    Got {
        /// The task that posted the receive, if one did.
        task: Option<u64>,
        /// Number of the receive among those of its task.
        number: u64,
        /// Context, sender and tag.
        name: MessageName,
        /// Bytes of the body.
        len: u64,
        /// Bytes of the message, if the buffer was too short.
        truncated: Option<u64>,
        /// The receive was cancelled.
        cancelled: bool,
    },
    /// A message that a matched probe took is received.
    ReceiveTaken {
        /// Number of the MPI function.
        operation: u16,
        /// The task that receives, if one does.
        task: Option<u64>,
        /// Bytes of the buffer.
        capacity: u64,
    },
    /// A probe of the program has found this message, of so many bytes, after so many receives of
    /// the program.
    Found {
        /// Receives that the program itself had posted, or taken by matched probes.
        receives: u64,
        /// Context, sender and tag.
        name: MessageName,
        /// Bytes of the message.
        len: u64,
    },
    /// Determinants, the first of which has this number in the log.
    Determinants {
        /// Number of the first record.
        from: u64,
        /// The records.
        records: Vec<[u64; 4]>,
    },
    /// The program has called `MPI_Finalize`: the last entry.
    Finalized,
}

impl RecordingEntry {
    /// Bytes of the body that follows.
    #[must_use]
    pub fn body_len(&self) -> u64 {
        match self {
            RecordingEntry::Got { len, .. } => *len,
            _ => 0,
        }
    }
}
