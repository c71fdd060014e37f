//! A snapshot of the job that the driver may show.

use super::job_state::Central;
use super::phase::CentralPhase;
use super::rank_table::RankView;
use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Generation};
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
    pub pending: Option<Epoch>,
    /// The newest committed checkpoint, and when it was committed.
    pub committed: Option<(Epoch, Time)>,
    /// The newest checkpoint in files, and when it was committed in memory.
    pub in_files: Option<(Epoch, Time)>,
}

impl Central {
    /// The job as it is now.
    #[must_use]
    pub fn view(&self) -> JobView {
        let checkpoints = self.mode.checkpoints();
        let epochs = checkpoints.map(|c| c.epochs()).unwrap_or_default();
        let timed = |epoch: Option<Epoch>| Some((epoch?, checkpoints?.committed_at(epoch?)?));
        JobView {
            generation: self.ranks.generation(),
            course: match self.phase {
                CentralPhase::Starting => Course::Starting,
                CentralPhase::Resuming(_) => Course::Resuming,
                CentralPhase::Restoring(_) => Course::Restoring,
                CentralPhase::Running => Course::Running,
                CentralPhase::Finalizing | CentralPhase::Finalized => Course::Finalizing,
                CentralPhase::Ending | CentralPhase::Relaunching(_) | CentralPhase::Over => {
                    Course::Ending
                }
            },
            recovers: checkpoints.is_some(),
            pending: checkpoints.and_then(|c| c.pending()),
            committed: timed(epochs.memory),
            in_files: timed(epochs.file),
        }
    }

    /// The ranks as they are now, in their order.
    pub fn ranks(&self) -> impl Iterator<Item = RankView> {
        let checkpoints = self.mode.checkpoints();
        self.ranks
            .views(move |rank| checkpoints.and_then(|c| c.image_of(rank)))
    }
}
