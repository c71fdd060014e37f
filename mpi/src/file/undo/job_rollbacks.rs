//! What the records of a file need to know of the job.

use std::path::Path;

use rejoin_channel_table::{Epoch, JobId};
use rejoin_device::Rollback;

use super::file_interval::{FileInterval, prefix};
use crate::error::Result;
use crate::runtime::Mpi;

/// What one rank knows of its job.
pub(in crate::file) trait JobRollbacks {
    /// The number of the job.
    fn id(&self) -> JobId;
    /// The interval that the rank is in.
    fn interval(&self) -> FileInterval;
    /// The rollbacks in the past of the rank, the oldest first.
    fn rollbacks(&self) -> Vec<Rollback>;
    /// No rollback returns the job to a checkpoint before this one.
    fn horizon(&self) -> Epoch;
    /// Most bytes that this rank keeps of one file in one interval.
    fn limit(&self) -> u64;
    /// Asks for a checkpoint, and does not wait for it.
    fn ask_for_checkpoint(&self) -> Result<()>;
    /// The job has records in this folder, which are to be removed at its end.
    fn has_records_in(&self, folder: &Path);
}

impl JobRollbacks for Mpi {
    fn id(&self) -> JobId {
        self.identity().job
    }

    fn interval(&self) -> FileInterval {
        let dev = self.dev();
        FileInterval {
            generation: dev.identity().generation,
            epoch: dev.epoch(),
        }
    }

    fn rollbacks(&self) -> Vec<Rollback> {
        self.dev().rollbacks().to_vec()
    }

    fn horizon(&self) -> Epoch {
        self.dev().horizon()
    }

    fn limit(&self) -> u64 {
        self.dev().file_undo_limit()
    }

    fn ask_for_checkpoint(&self) -> Result<()> {
        self.dev_mut().request_checkpoint().map(drop)
    }

    fn has_records_in(&self, folder: &Path) {
        self.leftovers().add(folder, &prefix(self.identity().job));
    }
}
