//! What is reported to users as it happens.

use crate::control::Cause;
use rejoin_channel_table::{Epoch, Generation, Incarnation, Rank};
use serde::{Deserialize, Serialize};

/// What people want to know as it happens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// A checkpoint was ordered.
    Ordered(Epoch),
    /// It is the one that the job goes back to.
    Committed {
        /// Its number.
        epoch: Epoch,
        /// Nanoseconds from the order.
        took: u64,
    },
    /// A checkpoint was given up; the last one stands.
    GivenUp {
        /// Its number.
        epoch: Epoch,
        /// A rank that did not come along.
        rank: Rank,
        /// Its reason.
        why: String,
        /// It is none that lasts: another is ordered at once.
        again: bool,
    },
    /// A rank's image was ended by somebody else. It is that of the committed checkpoint, or of the
    /// one that was to follow.
    ImageLost {
        /// The image's checkpoint.
        epoch: Epoch,
        /// The committed checkpoint.
        committed: Option<Epoch>,
        /// The rank.
        rank: Rank,
        /// Name of its host.
        host: String,
    },
    /// Checkpoints cost too much for the interval that was asked for, which is lengthened.
    Stretched {
        /// The interval that was asked for, in milliseconds.
        asked: u64,
        /// The interval from now on, in milliseconds.
        interval: u64,
        /// What a checkpoint costs a rank, in microseconds.
        cost: u64,
    },
    /// A rank failed, and the job goes back.
    Lost {
        /// Which rank.
        rank: Rank,
        /// Name of its host.
        host: String,
        /// Its process id.
        pid: u32,
        /// How it failed.
        cause: Cause,
        /// The generation that begins; the job's own when the rank comes back alone.
        generation: Generation,
        /// All ranks are behind `MPI_Finalize`: only this one comes back.
        alone: bool,
    },
    /// A host is silent, and its ranks are suspended if they live.
    HostSilent {
        /// Its number.
        host: usize,
        /// Its name.
        name: String,
    },
    /// A host that was silent is there again.
    HostHeard {
        /// Its name.
        name: String,
    },
    /// All ranks are back, or one is that came back alone.
    Recovered {
        /// The generation that has begun; the job's own for one that came back alone.
        generation: Generation,
        /// Which one that is, in which incarnation; `None`: all.
        alone: Option<(Rank, Incarnation)>,
        /// The checkpoint that they are back from; `None`: from the start.
        epoch: Option<Epoch>,
        /// Nanoseconds since the first failure was heard of.
        took: u64,
        /// Nanoseconds from that checkpoint to that failure: what is done again.
        repeated: u64,
    },
}
