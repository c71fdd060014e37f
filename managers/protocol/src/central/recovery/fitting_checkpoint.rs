//! From which checkpoint a group can come back beside the others.
//!
//! The file of an image lacks messages that its receivers' images of the same checkpoint hold. So
//! no group is made of files of a checkpoint if another one has come back from an earlier one
//! since. And if a group comes back from an earlier one, so do those that were made of such files.
//! Central assumes that a file makes a process, until its rank says that it has all messages. An
//! image in memory of a checkpoint whose files were not begun is no such case.

use crate::central::central_omission::CentralOmission;
use crate::central::commits::Commits;
use crate::central::job_terms::JobTerms;
use rejoin_channel_table::{Epoch, Rank};

impl Commits {
    /// Files of images lack messages.
    fn must_fit(&self, terms: &JobTerms) -> bool {
        self.files_lack && !terms.omits(CentralOmission::FittingFiles)
    }

    /// The newest checkpoint of which there may be files.
    fn newest_of_files(&self) -> Epoch {
        let checkpoints = self.mode.checkpoints();
        checkpoints.map_or(Epoch(0), |c| c.newest_of_files())
    }

    /// The checkpoint from which a group comes back whose last commit is this one.
    pub(in crate::central) fn fitting(&self, epoch: Epoch, terms: &JobTerms) -> Epoch {
        if epoch > self.newest_of_files() || !self.must_fit(terms) {
            return epoch;
        }
        let oldest = self.groups.oldest_commit();
        oldest.map_or(epoch, |oldest| oldest.min(epoch))
    }

    /// The ranks of the groups that come back, too, if one comes back from this checkpoint.
    pub(in crate::central) fn returning_beside(&self, epoch: Epoch, terms: &JobTerms) -> Vec<Rank> {
        if !self.must_fit(terms) {
            return Vec::new();
        }
        let leaders = self.groups.made_of_files(epoch, self.newest_of_files());
        let ranks = leaders.flat_map(|leader| self.groups.members(leader));
        ranks.copied().collect()
    }
}
