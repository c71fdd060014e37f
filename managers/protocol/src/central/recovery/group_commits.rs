//! The commits of recovery groups: which images of a group count, and from which on its peers need
//! retain nothing more for it.
//!
//! Without files the two are the same. With files, a group may have to come back from the newest
//! ones that outlive a host, also if a newer image in memory counts. So its peers retain what these
//! files lack.

use crate::central::central_omission::CentralOmission;
use crate::central::interface::{CentralEffect, HostIndex, Record};
use crate::central::job_state::Central;
use crate::central::phase::CentralPhase;
use crate::central::recovery_groups::GroupCheckpoint;
use crate::manager_messages::{Time, ToLocal};
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use std::collections::BTreeMap;

impl Central {
    /// A rank has its image of the checkpoint under way: its group may have all of them now.
    pub(in crate::central) fn commit_group(
        &mut self,
        now: Time,
        rank: Rank,
        epoch: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        let members = self.groups.members(rank).to_vec();
        let checkpoints = self.mode.checkpoints();
        let is_whole = checkpoints.is_some_and(|c| c.has_images_of(&members, epoch));
        let checkpoint = GroupCheckpoint { epoch, at: now };
        if members.is_empty() || !is_whole || !self.groups.commit(rank, checkpoint) {
            return;
        }
        if !self.omits(CentralOmission::StoredCommit) {
            effects.push(CentralEffect::Persist(Record::GroupCommitted {
                rank: members[0],
                epoch,
                at: now,
            }));
        }
        self.tell_group_commit(&members, effects);
    }

    /// Tells the hosts of a group's ranks which images of these count.
    pub(in crate::central) fn tell_group_commit(
        &self,
        members: &[Rank],
        effects: &mut Vec<CentralEffect>,
    ) {
        let ranks: Vec<_> = (members.iter())
            .map(|member| (*member, Incarnation::default()))
            .collect();
        for (host, ranks) in self.on_hosts(&ranks) {
            let ranks = ranks.into_iter().map(|(rank, _)| rank);
            self.repeat_group_commits(host, ranks, effects);
        }
        // What is there of ranks that have moved away may count no more.
        for member in members {
            for host in self.former_hosts.hosts_of(*member) {
                if host != self.ranks.host_of(*member) {
                    self.repeat_group_commits(host, std::iter::once(*member), effects);
                }
            }
        }
    }

    /// The checkpoint before which peers of this rank's group need retain nothing.
    fn released(&self, rank: Rank) -> Option<Epoch> {
        let retains = !self.omits(CentralOmission::FilesRelease);
        let checkpoints = self.mode.checkpoints().filter(|_| retains);
        match checkpoints.filter(|c| c.keeps_files()) {
            Some(checkpoints) => checkpoints.outlives_hosts(),
            None => Some(self.groups.committed(rank)?.epoch),
        }
    }

    /// Files of a checkpoint are there: peers need retain nothing that they have.
    pub(in crate::central) fn release_by_files(&self, effects: &mut Vec<CentralEffect>) {
        if !self.groups.are_several() {
            return;
        }
        let by_host = self.ranks.by_host(self.hosts.len());
        for (host, ranks) in by_host.into_iter().enumerate() {
            let ranks = ranks.into_iter().map(|(rank, _)| rank);
            self.repeat_group_commits(host, ranks, effects);
        }
    }

    /// Tells a host the last commits of the groups that have these ranks of it.
    pub(in crate::central) fn repeat_group_commits(
        &self,
        host: HostIndex,
        ranks: impl Iterator<Item = Rank>,
        effects: &mut Vec<CentralEffect>,
    ) {
        if self.hosts.is_done(host) {
            return;
        }
        let committed = ranks.filter_map(|rank| {
            let epoch = self.groups.committed(rank)?.epoch;
            Some((rank, (epoch, self.released(rank))))
        });
        let mut by_epoch: BTreeMap<_, Vec<Rank>> = BTreeMap::new();
        for (rank, epochs) in committed {
            by_epoch.entry(epochs).or_default().push(rank);
        }
        let generation = self.ranks.generation();
        for ((epoch, released), ranks) in by_epoch {
            let commit = ToLocal::CommitGroup {
                generation,
                ranks,
                epoch,
                released,
            };
            effects.push(CentralEffect::Send(host, commit));
        }
    }

    /// The image of this rank from which its group was to come back is gone: the group comes back
    /// from the files of an earlier checkpoint, if there are any. Returns the number of that.
    pub(in crate::central) fn group_falls_back(
        &mut self,
        rank: Rank,
        lost: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) -> Option<Epoch> {
        let last = self.groups.committed(rank)?;
        if last.epoch != lost {
            return None;
        }
        let runs = matches!(self.phase, CentralPhase::Running | CentralPhase::Finalizing);
        let checkpoints = self.mode.checkpoints().filter(|_| runs)?;
        let epoch = checkpoints.files_before(lost)?;
        let at = checkpoints.committed_at(epoch)?;
        if self.mode.outlived(epoch).is_some() {
            return None;
        }
        // What its ranks do from there on uses the memory of later images.
        let members = self.groups.members(rank).to_vec();
        if let Some(checkpoints) = self.mode.checkpoints_mut() {
            checkpoints.fall_back(&members, epoch);
        }
        self.set_group_commit(rank, GroupCheckpoint { epoch, at }, effects);
        Some(epoch)
    }

    /// All ranks come back from this checkpoint, in a new generation.
    pub(in crate::central) fn commit_all_groups(
        &mut self,
        epoch: Epoch,
        at: Time,
        effects: &mut Vec<CentralEffect>,
    ) {
        let checkpoint = GroupCheckpoint { epoch, at };
        self.groups.return_all(checkpoint);
        let leaders = self.groups.leaders().into_iter();
        effects.extend(
            leaders.map(|rank| CentralEffect::Persist(Record::GroupCommitted { rank, epoch, at })),
        );
    }

    /// The group of this rank comes back from this checkpoint, which may be older than its last.
    pub(super) fn set_group_commit(
        &mut self,
        rank: Rank,
        checkpoint: GroupCheckpoint,
        effects: &mut Vec<CentralEffect>,
    ) {
        let members = self.groups.members(rank).to_vec();
        let Some(first) = members.first() else {
            return;
        };
        if self.groups.committed(rank) == Some(checkpoint) {
            return;
        }
        self.groups.fall_back(rank, checkpoint);
        effects.push(CentralEffect::Persist(Record::GroupCommitted {
            rank: *first,
            epoch: checkpoint.epoch,
            at: checkpoint.at,
        }));
        self.tell_group_commit(&members, effects);
    }
}
