//! The checkpoints of the job and of its recovery groups, and registered memory.

use super::group_turns::GroupTurns;
use super::interface::{CentralEffect, Job};
use super::log_table::LogTable;
use super::recovery::RecoveryPlanner;
use super::recovery_groups::RecoveryGroups;
use crate::checkpoint::Coordinator;
use crate::manager_messages::Time;
use crate::region_commits::RegionCommits;
use rejoin_channel_table::Epoch;

/// What is committed, and what is under way to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Commits {
    /// The recovery mode, with the checkpoints of the job.
    pub mode: RecoveryPlanner,
    pub groups: RecoveryGroups,
    /// Files of images lack messages that their receivers' images hold.
    pub files_lack: bool,
    /// What the logs of ranks hold, in jobs of several groups.
    pub logs: LogTable,
    /// The highest number of a checkpoint that earlier launches have requested. Without recovery,
    /// also the highest of this launch.
    pub requested: Epoch,
    /// Checkpoints of registered memory.
    pub regions: RegionCommits,
    /// The groups that take their images.
    pub image_turns: GroupTurns,
    /// The groups that write their images to files.
    pub file_turns: GroupTurns,
}

impl Commits {
    /// Of a job without checkpoints. `has_partners`: hosts copy files of each other.
    pub fn new(job: &Job, has_partners: bool) -> Commits {
        let size = u32::try_from(job.placement.len()).unwrap_or(u32::MAX);
        let mut mode = RecoveryPlanner::new(job.recovery, size, !job.log_groups.is_empty());
        if let (Some(recovery), Some(checkpoints)) = (job.recovery, mode.checkpoints_mut())
            && has_partners
        {
            checkpoints.copy_files(recovery.copies);
        }
        Commits {
            mode,
            groups: RecoveryGroups::new(job.log_groups.clone()),
            files_lack: job.files_lack,
            logs: LogTable::default(),
            requested: job.requested,
            regions: RegionCommits::default(),
            image_turns: GroupTurns::default(),
            file_turns: GroupTurns::default(),
        }
    }

    /// The job's processes were first started at this time.
    pub fn begin(&mut self, at: Time) {
        if let Some(checkpoints) = self.mode.checkpoints_mut() {
            checkpoints.begin(at);
        }
    }

    /// The job's checkpoints; `None` in a mode without any.
    pub fn checkpoints(&self) -> Option<&Coordinator> {
        self.mode.checkpoints()
    }

    /// The job's checkpoints, to be changed.
    pub fn checkpoints_mut(&mut self) -> Option<&mut Coordinator> {
        self.mode.checkpoints_mut()
    }

    /// The highest number that was given to a checkpoint.
    pub fn last_number(&self) -> Epoch {
        let checkpoints = self.mode.checkpoints();
        checkpoints.map_or(self.requested, |c| c.last_number())
    }

    /// Where the job stands, for observers of checkpoints.
    pub fn resumed(&self) -> CentralEffect {
        let checkpoints = self.mode.checkpoints();
        CentralEffect::Resumed {
            committed: checkpoints.map(|c| c.epochs()).unwrap_or_default(),
            abandoned: checkpoints.map(|c| c.last_number()).unwrap_or_default(),
        }
    }
}
