//! Recovery groups: the ranks that roll back together, and the image that each group comes back
//! from. A job without message logging is one group, of which nothing is kept here.

use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Rank};
use std::collections::BTreeSet;

/// A checkpoint of a group: all its ranks have their images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct GroupCheckpoint {
    pub epoch: Epoch,
    /// When it was committed.
    pub at: Time,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Group {
    members: Vec<Rank>,
    committed: Option<GroupCheckpoint>,
    /// Ranks that may lack messages which they retain, because a file made them or a process before
    /// them.
    lacking: BTreeSet<Rank>,
    /// The checkpoints whose files that may have been: those from which it came back while others
    /// stood.
    returned: BTreeSet<Epoch>,
}

/// The division of the ranks, and the last commit of each group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct RecoveryGroups {
    /// For each rank its group; empty if the job is one group.
    of_rank: Vec<u32>,
    groups: Vec<Group>,
}

impl RecoveryGroups {
    /// `of_rank`: for each rank the number of its group, from 0; empty: the job is one group.
    pub fn new(of_rank: Vec<u32>) -> RecoveryGroups {
        let count = of_rank.iter().max().map_or(0, |last| *last as usize + 1);
        let mut groups = vec![Group::default(); count.min(of_rank.len())];
        for (rank, group) in (0u32..).map(Rank).zip(&of_rank) {
            if let Some(group) = groups.get_mut(*group as usize) {
                group.members.push(rank);
            }
        }
        RecoveryGroups { of_rank, groups }
    }

    fn of(&self, rank: Rank) -> Option<&Group> {
        let group = self.of_rank.get(rank.index())?;
        self.groups.get(*group as usize)
    }

    /// The ranks of a rank's group; none if the job is one group.
    pub fn members(&self, rank: Rank) -> &[Rank] {
        self.of(rank).map_or(&[], |group| &group.members)
    }

    /// The last commit of a rank's group.
    pub fn committed(&self, rank: Rank) -> Option<GroupCheckpoint> {
        self.of(rank)?.committed
    }

    /// The group of this rank has committed a checkpoint. Returns whether it is new.
    pub fn commit(&mut self, rank: Rank, checkpoint: GroupCheckpoint) -> bool {
        let group = self.of_rank.get(rank.index());
        let Some(group) = group.and_then(|group| self.groups.get_mut(*group as usize)) else {
            return false;
        };
        let is_new = group
            .committed
            .is_none_or(|last| last.epoch < checkpoint.epoch);
        if is_new {
            group.committed = Some(checkpoint);
        }
        is_new
    }

    /// The image of its last commit is gone: the group of this rank comes back from this one.
    pub fn fall_back(&mut self, rank: Rank, checkpoint: GroupCheckpoint) {
        let group = self.of_rank.get(rank.index());
        if let Some(group) = group.and_then(|group| self.groups.get_mut(*group as usize)) {
            group.committed = Some(checkpoint);
        }
    }

    /// All groups come back from this checkpoint.
    pub fn return_all(&mut self, checkpoint: GroupCheckpoint) {
        for group in &mut self.groups {
            group.committed = Some(checkpoint);
            group.returned.clear();
        }
    }

    /// The groups of these ranks come back from this checkpoint, and others stand.
    pub fn return_of(&mut self, ranks: &[Rank], epoch: Epoch) {
        for rank in ranks {
            let group = self.of_rank.get(rank.index());
            if let Some(group) = group.and_then(|group| self.groups.get_mut(*group as usize)) {
                group.returned.insert(epoch);
                group.lacking.extend(&group.members);
            }
        }
    }

    /// Central was started again: ranks that came back may lack what the files of these checkpoints
    /// lack.
    pub fn recall_files(&mut self, files: impl Iterator<Item = Epoch> + Clone) {
        for group in &mut self.groups {
            let last = group.returned.last().copied();
            let before = files.clone().filter(|epoch| Some(*epoch) < last);
            group.returned.extend(before);
        }
    }

    /// This rank has come back with all messages that it retains.
    pub fn is_whole(&mut self, rank: Rank) {
        let group = self.of_rank.get(rank.index());
        if let Some(group) = group.and_then(|group| self.groups.get_mut(*group as usize)) {
            group.lacking.remove(&rank);
            if group.lacking.is_empty() {
                group.returned.clear();
            }
        }
    }

    /// The first ranks of the groups that may lack what files of checkpoints later than `after`, up
    /// to `last`, lack.
    pub fn made_of_files(&self, after: Epoch, last: Epoch) -> impl Iterator<Item = Rank> {
        let is_within = move |epoch: &Epoch| *epoch > after && *epoch <= last;
        let groups = self.groups.iter();
        let groups = groups.filter(move |group| group.returned.iter().any(is_within));
        groups.filter_map(|group| group.members.first().copied())
    }

    /// The oldest of the last commits of all groups.
    pub fn oldest_commit(&self) -> Option<Epoch> {
        let commits = self.groups.iter().filter_map(|group| group.committed);
        commits.map(|checkpoint| checkpoint.epoch).min()
    }

    /// The first rank of each group.
    pub fn leaders(&self) -> Vec<Rank> {
        let groups = self.groups.iter();
        groups.filter_map(|g| g.members.first().copied()).collect()
    }

    /// The job starts anew. Returns the newest of the commits that count no more.
    pub fn forget_commits(&mut self) -> Option<Epoch> {
        let groups = self.groups.iter_mut();
        let forgotten = groups.filter_map(|group| {
            group.returned.clear();
            group.committed.take()
        });
        forgotten.map(|checkpoint| checkpoint.epoch).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_concerns_the_ranks_of_its_group() {
        let mut groups = RecoveryGroups::new(vec![0, 1, 0]);
        let at = |epoch| GroupCheckpoint {
            epoch: Epoch(epoch),
            at: Time(7),
        };
        assert_eq!(groups.members(Rank(2)), [Rank(0), Rank(2)]);
        assert!(groups.commit(Rank(2), at(3)));
        assert!(!groups.commit(Rank(0), at(3)), "it came twice");
        assert_eq!(groups.committed(Rank(0)), Some(at(3)));
        assert_eq!(groups.committed(Rank(1)), None);
        groups.fall_back(Rank(0), at(2));
        assert_eq!(groups.committed(Rank(2)), Some(at(2)));
        assert!(groups.commit(Rank(2), at(3)));
        assert_eq!(groups.forget_commits(), Some(Epoch(3)));
        assert_eq!(groups.committed(Rank(0)), None);
    }

    #[test]
    fn it_is_known_from_where_groups_came_back() {
        let mut groups = RecoveryGroups::new(vec![0, 1, 0, 2]);
        let at = |epoch| GroupCheckpoint {
            epoch: Epoch(epoch),
            at: Time(7),
        };
        assert_eq!(groups.oldest_commit(), None);
        groups.return_all(at(3));
        groups.commit(Rank(1), at(5));
        assert_eq!(groups.oldest_commit(), Some(Epoch(3)));
        groups.return_of(&[Rank(0), Rank(2)], Epoch(4));
        groups.return_of(&[Rank(3)], Epoch(6));
        let within = |groups: &RecoveryGroups, after, last| {
            let found = groups.made_of_files(Epoch(after), Epoch(last));
            found.map(|rank| rank.0).collect::<Vec<_>>()
        };
        assert_eq!(within(&groups, 3, 6), [0, 3]);
        assert_eq!(within(&groups, 4, 9), [3]);
        assert_eq!(within(&groups, 3, 5), [0]);
        groups.is_whole(Rank(2));
        assert_eq!(within(&groups, 3, 6), [0, 3], "rank 0 may lack some");
        groups.is_whole(Rank(0));
        assert_eq!(within(&groups, 3, 6), [3]);
        groups.return_of(&[Rank(3)], Epoch(8));
        assert_eq!(
            within(&groups, 5, 7),
            [3],
            "it may lack what the first file lacked"
        );
        groups.recall_files([Epoch(2)].into_iter());
        assert_eq!(within(&groups, 1, 3), [3]);
        groups.return_all(at(6));
        assert!(within(&groups, 0, 9).is_empty());
    }

    #[test]
    fn a_job_of_one_group_has_no_commits_of_groups() {
        let mut groups = RecoveryGroups::default();
        assert!(groups.members(Rank(0)).is_empty());
        let checkpoint = GroupCheckpoint {
            epoch: Epoch(1),
            at: Time(0),
        };
        assert!(!groups.commit(Rank(0), checkpoint));
    }

    #[test]
    fn a_forged_number_makes_no_groups() {
        let groups = RecoveryGroups::new(vec![u32::MAX, 0]);
        assert_eq!(groups.groups.len(), 2);
        assert!(groups.members(Rank(0)).is_empty());
    }
}
