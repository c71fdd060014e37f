//! A snapshot of the job that the driver may show.

use super::{Central, HostIndex, Phase};
use crate::control::{Stage, Time};
use rejoin_channel_table::{Epoch, Generation, Incarnation};
use serde::{Deserialize, Serialize};

/// How far the job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Course {
    /// Ranks start, or wait in `MPI_Init` for the others.
    Starting,
    /// Ranks are being rolled back to a checkpoint.
    Restoring,
    /// All ranks compute.
    Running,
    /// All ranks are in `MPI_Finalize` or behind it.
    Finalizing,
    /// Everything is being ended.
    Ending,
    /// Central was started again and asks how everything is.
    Resuming,
}

/// The job at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// Generation of the job.
    pub generation: Generation,
    /// How far it has come.
    pub course: Course,
    /// Failures are masked.
    pub recovers: bool,
    /// The checkpoint under way.
    pub ordered: Option<Epoch>,
    /// The checkpoint that the job rolls back to, and when it was committed.
    pub committed: Option<(Epoch, Time)>,
}

/// A rank at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankView {
    /// Number of its host.
    pub host: HostIndex,
    /// Its process id there; 0 while it has none.
    pub pid: u32,
    /// Incarnation of the rank.
    pub incarnation: Incarnation,
    /// How far it has come.
    pub stage: Stage,
    /// Its process has ended.
    pub ended: bool,
}

impl Central {
    /// The job as it is now.
    #[must_use]
    pub fn view(&self) -> JobView {
        let checkpoints = self.mode.checkpoints();
        JobView {
            generation: self.generation,
            course: match self.phase {
                Phase::Starting => Course::Starting,
                Phase::Resuming(_) => Course::Resuming,
                Phase::Restoring(_) => Course::Restoring,
                Phase::Running => Course::Running,
                Phase::Finalizing | Phase::Finalized => Course::Finalizing,
                Phase::Ending | Phase::Relaunching(_) | Phase::Over => Course::Ending,
            },
            recovers: checkpoints.is_some(),
            ordered: checkpoints.and_then(|c| c.ordered()),
            committed: checkpoints.and_then(|c| Some((c.committed()?, c.committed_at()))),
        }
    }

    /// The ranks as they are now, in their order.
    pub fn ranks(&self) -> impl Iterator<Item = RankView> {
        self.ranks.iter().map(|rank| RankView {
            host: rank.host,
            pid: rank.pid,
            incarnation: rank.incarnation,
            stage: rank.stage,
            ended: rank.ended,
        })
    }
}
