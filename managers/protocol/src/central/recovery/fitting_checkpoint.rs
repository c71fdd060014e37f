//! From which checkpoint a group can come back beside the others.
//!
//! The file of an image lacks messages that its receivers' images of the same checkpoint hold. So
//! no group is made of files of a checkpoint if another one has come back from an earlier one
//! since. And if a group comes back from an earlier one, so do those that were made of such files.
//! Central assumes that a file makes a process, until its rank says that it has all messages. An
//! image in memory of a checkpoint whose files were not begun is no such case.

use crate::central::central_omission::CentralOmission;
use crate::central::event::Event;
use crate::central::interface::{CentralEffect, HostIndex};
use crate::central::job_state::Central;
use crate::central::recovery_groups::GroupCheckpoint;
use crate::manager_messages::ProcessInstance;
use rejoin_channel_table::{Epoch, Rank};

impl Central {
    /// Files of images lack messages.
    fn must_fit(&self) -> bool {
        self.files_lack && !self.omits(CentralOmission::FittingFiles)
    }

    /// The newest checkpoint of which there may be files.
    fn newest_of_files(&self) -> Epoch {
        let checkpoints = self.mode.checkpoints();
        checkpoints.map_or(Epoch(0), |c| c.newest_of_files())
    }

    /// A rank that has come back has all messages that it retains.
    pub(in crate::central) fn log_is_whole(&mut self, host: HostIndex, instance: ProcessInstance) {
        if self.ranks.is_live(host, instance) {
            self.groups.is_whole(instance.rank);
        }
    }

    /// The checkpoint from which a group comes back whose last commit is this one.
    pub(super) fn fitting(&self, epoch: Epoch) -> Epoch {
        if epoch > self.newest_of_files() || !self.must_fit() {
            return epoch;
        }
        let oldest = self.groups.oldest_commit();
        oldest.map_or(epoch, |oldest| oldest.min(epoch))
    }

    /// The ranks of the groups that come back, too, if one comes back from this checkpoint.
    pub(super) fn returning_beside(&self, epoch: Epoch) -> Vec<Rank> {
        if !self.must_fit() {
            return Vec::new();
        }
        let leaders = self.groups.made_of_files(epoch, self.newest_of_files());
        let ranks = leaders.flat_map(|leader| self.groups.members(leader));
        ranks.copied().collect()
    }

    /// The groups of these ranks come back from this checkpoint, and not from later commits of
    /// theirs.
    pub(super) fn fall_back_to(
        &mut self,
        ranks: &[Rank],
        epoch: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        let is_later = |rank: &Rank| {
            let last = self.groups.committed(*rank);
            last.filter(|last| last.epoch > epoch)
        };
        let later = ranks
            .iter()
            .filter_map(|rank| Some((*rank, is_later(rank)?)));
        let later: Vec<(Rank, GroupCheckpoint)> = later.collect();
        let checkpoints = self.mode.checkpoints_mut();
        let Some(checkpoints) = checkpoints.filter(|_| !later.is_empty()) else {
            return;
        };
        let at = checkpoints.committed_at(epoch).unwrap_or_default();
        // What its ranks do from there on uses the memory of later images.
        let ranks: Vec<Rank> = later.iter().map(|(rank, _)| *rank).collect();
        checkpoints.fall_back(&ranks, epoch);
        for (rank, last) in later {
            self.losses.report(Event::FallsBack {
                rank,
                host: self.hosts.name(self.ranks.host_of(rank)),
                from: last.epoch,
                why: "its file may lack messages for ranks that come back from an earlier one"
                    .to_owned(),
                to: epoch,
            });
            self.set_group_commit(rank, GroupCheckpoint { epoch, at }, effects);
        }
    }
}
