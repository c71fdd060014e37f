//! The keys of the handler of checkpoints, and what hosts get to know of commits.

use super::group_schedule::TurnHandler;
use super::job_parts::{JobParts, keys};
use super::recovery::GroupCommitHandler;
use crate::checkpoint::Coordinator;
use crate::handler_keys::handler;
use crate::manager_messages::{ImageOrder, ToLocal};
use rejoin_channel_table::Epoch;

handler! {
    /// Requests checkpoints, and commits them.
    pub(in crate::central) CheckpointHandler of JobParts {
        changes { course, cluster, commits, out }
        reads { moves, terms }
    }
}

impl CheckpointHandler<'_> {
    pub(in crate::central) fn turns(&mut self) -> TurnHandler<'_> {
        TurnHandler {
            course: self.course,
            cluster: self.cluster,
            commits: self.commits,
            terms: self.terms,
            out: self.out,
        }
    }

    pub(in crate::central) fn group_commits(&mut self) -> GroupCommitHandler<'_> {
        GroupCommitHandler {
            course: self.course,
            cluster: self.cluster,
            commits: self.commits,
            terms: self.terms,
            out: self.out,
        }
    }

    /// Whether files can be begun.
    pub(super) fn begins_files(&self) -> bool {
        self.course.begins_files(self.moves)
    }

    /// Tells the hosts which images count, and orders copies that were begun.
    pub(super) fn notify_committed(&mut self, abandoned: Epoch) {
        let generation = self.cluster.ranks.generation();
        let checkpoints = self.commits.checkpoints();
        let epochs = checkpoints.map(|c| c.epochs()).unwrap_or_default();
        if let Some(oldest) = epochs.oldest() {
            self.cluster.former_hosts.forget_before(oldest);
            self.cluster.end_drained(self.out);
        }
        let commit = || {
            ToLocal::Image(ImageOrder::Commit {
                generation,
                epochs,
                abandoned,
            })
        };
        self.cluster.hosts.send_all(commit, self.out);
        self.turns().write_groups(epochs.writing);
        self.order_copies();
    }

    /// Has partner hosts copy files, if that was begun and they do not know it.
    pub(super) fn order_copies(&mut self) {
        let checkpoints = self.commits.checkpoints_mut();
        let Some(epoch) = checkpoints.and_then(Coordinator::take_unordered) else {
            return;
        };
        for stripe in self.cluster.copy_groups().stripes() {
            let members = stripe.members.clone();
            let copy = ToLocal::Copy { members, epoch };
            self.out.send(stripe.holder, copy);
        }
    }
}
