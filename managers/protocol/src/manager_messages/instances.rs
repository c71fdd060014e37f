//! What messages name: moments, process instances, and how processes end.

use rejoin_channel_table::{Generation, ImageId, Incarnation, Rank};
use serde::{Deserialize, Serialize};

/// A moment, in nanoseconds by a clock that all drivers of one machine share (CLOCK_BOOTTIME), so
/// that a core that was started again continues with it. Cores only compare and add.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(pub u64);

impl Time {
    /// This moment and some milliseconds.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Time {
        Time(self.0.saturating_add(millis.saturating_mul(1_000_000)))
    }
}

/// One process of the job: a rank in one of its instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessInstance {
    /// The job's generation.
    pub generation: Generation,
    /// The rank.
    pub rank: Rank,
    /// Incarnation of the rank.
    pub incarnation: Incarnation,
}

/// A rank that was on another host: it moves while the job runs, or that host was lost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MovedRank {
    /// The rank.
    pub rank: Rank,
    /// The number of the host that has the file of its image, a copy of it, or the parity with the
    /// files of other ranks; `None`: all hosts see one folder, or there is no such host.
    pub holder: Option<usize>,
    /// These ranks, and the numbers of the hosts that have their files.
    pub others: Vec<(Rank, usize)>,
}

/// What a host keeps for the files of images of other hosts' ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeptFile {
    /// The rank; of several, the first.
    pub rank: Rank,
    /// The image.
    pub image: ImageId,
    /// The host keeps the parity of the files of several ranks, and not a copy of one.
    pub is_parity: bool,
}

/// How far a rank has come in its use of MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// The rank's process was started and has not called `MPI_Init`.
    Spawned,
    /// The rank registered: it waits in `MPI_Init` or computes.
    Registered,
    /// The rank waits in `MPI_Finalize` for the others.
    Finalizing,
    /// The rank knows that all ranks have arrived.
    Finalized,
    /// The rank left `MPI_Finalize`.
    Left,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum End {
    /// The process exited with this code.
    Exited(i32),
    /// This signal killed it.
    Signaled(i32),
    /// The process is gone; its parent, which is not ours, knows how.
    Unknown,
}

/// Why a rank counts as failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// The rank's process ended when or how it should not have.
    Ended {
        /// Exit code or signal of the process.
        end: End,
        /// How far it had come.
        stage: Stage,
    },
    /// The rank called `MPI_Abort`.
    Aborted {
        /// The program's error code.
        code: i32,
        /// One line, may be empty.
        why: String,
    },
    /// The process could not be started.
    NotStarted {
        /// The system's reason.
        why: String,
    },
    /// The process broke the rules of the manager's socket.
    Misbehaved {
        /// The broken rule, one line.
        why: String,
    },
    /// The process does not stop, and its rank is on another host.
    NotStopped {
        /// For how long, one line.
        why: String,
    },
    /// The rank depends on messages that were lost with a host, and waits for its end.
    Orphaned {
        /// The rank that had sent them.
        on: Rank,
    },
}
