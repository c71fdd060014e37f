//! The commits of recovery groups: which images of a group count, and from which on its peers need
//! retain nothing more for it.
//!
//! Without files the two are the same. With files, a group may have to come back from the newest
//! ones that outlive a host, also if a newer image in memory counts. So its peers retain what these
//! files lack.

use crate::central::central_omission::CentralOmission;
use crate::central::interface::{CentralEffect, HostIndex, Record};
use crate::central::job_parts::{JobParts, keys};
use crate::central::phase::CentralPhase;
use crate::central::recovery_groups::GroupCheckpoint;
use crate::handler_keys::handler;
use crate::manager_messages::{ImageOrder, ProcessInstance, Time, ToLocal};
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use std::collections::BTreeMap;

handler! {
    /// Commits checkpoints of recovery groups.
    pub(in crate::central) GroupCommitHandler of JobParts {
        changes { commits, out }
        reads { course, cluster, terms }
    }
}

impl GroupCommitHandler<'_> {
    /// A rank has its image of the checkpoint under way: its group may have all of them now.
    pub(in crate::central) fn commit_group(&mut self, rank: Rank, epoch: Epoch) {
        let now = self.out.now;
        let members = self.commits.groups.members(rank).to_vec();
        let checkpoints = self.commits.checkpoints();
        let is_whole = checkpoints.is_some_and(|c| c.has_images_of(&members, epoch));
        let checkpoint = GroupCheckpoint { epoch, at: now };
        if members.is_empty() || !is_whole || !self.commits.groups.commit(rank, checkpoint) {
            return;
        }
        if !self.terms.omits(CentralOmission::StoredCommit) {
            self.out.persist(Record::GroupCommitted {
                rank: members[0],
                epoch,
                at: now,
            });
        }
        self.notify_group_commit(&members);
    }

    /// Tells the hosts of a group's ranks which images of these count.
    pub(in crate::central) fn notify_group_commit(&mut self, members: &[Rank]) {
        let ranks: Vec<_> = (members.iter())
            .map(|member| (*member, Incarnation::default()))
            .collect();
        for (host, ranks) in self.cluster.ranks.on_hosts(&ranks) {
            let ranks = ranks.into_iter().map(|(rank, _)| rank);
            self.repeat_group_commits(host, ranks);
        }
        // What is there of ranks that have moved away may count no more.
        for member in members {
            for host in self.cluster.former_hosts.hosts_of(*member) {
                if host != self.cluster.ranks.host_of(*member) {
                    self.repeat_group_commits(host, std::iter::once(*member));
                }
            }
        }
    }

    /// The checkpoint before which peers of this rank's group need retain nothing.
    fn released(&self, rank: Rank) -> Option<Epoch> {
        let retains = !self.terms.omits(CentralOmission::FilesRelease);
        let checkpoints = self.commits.checkpoints().filter(|_| retains);
        match checkpoints.filter(|c| c.keeps_files()) {
            Some(checkpoints) => checkpoints.outlives_hosts(),
            None => Some(self.commits.groups.committed(rank)?.epoch),
        }
    }

    /// Files of a checkpoint are there: peers need retain nothing that they have.
    pub(in crate::central) fn release_by_files(&mut self) {
        if !self.commits.mode.logs_messages() {
            return;
        }
        let by_host = self.cluster.ranks.by_host(self.cluster.hosts.len());
        for (host, ranks) in by_host.into_iter().enumerate() {
            let ranks = ranks.into_iter().map(|(rank, _)| rank);
            self.repeat_group_commits(host, ranks);
        }
    }

    /// Tells a host the last commits of the groups that have these ranks of it.
    pub(in crate::central) fn repeat_group_commits(
        &mut self,
        host: HostIndex,
        ranks: impl Iterator<Item = Rank>,
    ) {
        if self.cluster.hosts.is_done(host) {
            return;
        }
        let committed = ranks.filter_map(|rank| {
            let epoch = self.commits.groups.committed(rank)?.epoch;
            Some((rank, (epoch, self.released(rank))))
        });
        let mut by_epoch: BTreeMap<_, Vec<Rank>> = BTreeMap::new();
        for (rank, epochs) in committed {
            by_epoch.entry(epochs).or_default().push(rank);
        }
        let generation = self.cluster.ranks.generation();
        for ((epoch, released), ranks) in by_epoch {
            let commit = ToLocal::Image(ImageOrder::CommitGroup {
                generation,
                ranks,
                epoch,
                released,
            });
            self.out.send(host, commit);
        }
    }

    /// The image of this rank from which its group was to come back is gone: the group comes back
    /// from the files of an earlier checkpoint, if there are any. Returns the number of that.
    pub(in crate::central) fn group_falls_back(
        &mut self,
        rank: Rank,
        lost: Epoch,
    ) -> Option<Epoch> {
        let last = self.commits.groups.committed(rank)?;
        if last.epoch != lost {
            return None;
        }
        let runs = matches!(
            self.course.phase,
            CentralPhase::Running | CentralPhase::Finalizing
        );
        let checkpoints = self.commits.checkpoints().filter(|_| runs)?;
        let epoch = checkpoints.files_before(lost)?;
        let at = checkpoints.committed_at(epoch)?;
        if self.commits.mode.outlived(epoch).is_some() {
            return None;
        }
        // What its ranks do from there on uses the memory of later images.
        let members = self.commits.groups.members(rank).to_vec();
        if let Some(checkpoints) = self.commits.checkpoints_mut() {
            checkpoints.fall_back(&members, epoch);
        }
        self.set_group_commit(rank, GroupCheckpoint { epoch, at });
        Some(epoch)
    }

    /// All ranks come back from this checkpoint, in a new generation.
    pub(in crate::central) fn commit_all_groups(&mut self, epoch: Epoch, at: Time) {
        let checkpoint = GroupCheckpoint { epoch, at };
        self.commits.groups.return_all(checkpoint);
        let leaders = self.commits.groups.leaders().into_iter();
        self.out.effects.extend(
            leaders.map(|rank| CentralEffect::Persist(Record::GroupCommitted { rank, epoch, at })),
        );
    }

    /// The groups of these ranks come back from the files of this checkpoint.
    pub(in crate::central) fn commit_files_of(&mut self, members: &[Rank], epoch: Epoch) {
        let at = self
            .commits
            .checkpoints()
            .and_then(|c| c.committed_at(epoch));
        let at = at.unwrap_or_default();
        let leads = |rank: &&Rank| self.commits.groups.members(**rank).first() == Some(*rank);
        let leaders: Vec<Rank> = members.iter().filter(leads).copied().collect();
        for leader in leaders {
            self.set_group_commit(leader, GroupCheckpoint { epoch, at });
        }
    }

    /// The group of this rank comes back from this checkpoint, which may be older than its last.
    pub(in crate::central) fn set_group_commit(&mut self, rank: Rank, checkpoint: GroupCheckpoint) {
        let members = self.commits.groups.members(rank).to_vec();
        let Some(first) = members.first() else {
            return;
        };
        if self.commits.groups.committed(rank) == Some(checkpoint) {
            return;
        }
        self.commits.groups.fall_back(rank, checkpoint);
        self.out.persist(Record::GroupCommitted {
            rank: *first,
            epoch: checkpoint.epoch,
            at: checkpoint.at,
        });
        self.notify_group_commit(&members);
    }

    /// A rank that has come back has all messages that it retains.
    pub(in crate::central) fn log_is_whole(&mut self, host: HostIndex, instance: ProcessInstance) {
        if self.cluster.ranks.is_live(host, instance) {
            self.commits.groups.is_whole(instance.rank);
        }
    }
}
