//! The hosts, the ranks, and which rank is where: now, at earlier checkpoints, and after a move.

use super::copy_groups::CopyGroups;
use super::host_table::HostTable;
use super::interface::{HostIndex, Job, RankPlacement};
use super::moves::{Departures, FormerHosts, RankMove};
use super::out::Out;
use super::rank_table::RankTable;
use super::recovery::RecoveryPlanner;
use super::returns::RankPlaces;
use crate::checkpoint::CopyInterval;
use crate::manager_messages::{MovedRank, ToLocal};
use rejoin_channel_table::{Epoch, ImageId, Incarnation, MoveNumber, Rank};

/// The hosts of the job and the ranks on them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Cluster {
    pub hosts: HostTable,
    pub ranks: RankTable,
    pub former_hosts: FormerHosts,
    /// Where processes of ranks that are on other hosts may still act.
    pub departures: Departures,
    /// Where ranks are, if this launch has lost hosts or ranks have moved.
    placement: Option<RankPlacement>,
    /// The size of groups of hosts whose files other hosts keep, if they do.
    group_size: Option<usize>,
    /// When files are copied.
    copy_interval: CopyInterval,
    /// Which host keeps what of which files; empty where no copies are made.
    copy_groups: CopyGroups,
}

impl Cluster {
    /// Of a job that has not begun.
    pub fn new(job: &Job) -> Cluster {
        Cluster {
            hosts: HostTable::new(job),
            ranks: RankTable::new(job.generation, first_incarnation(job), &job.placement),
            former_hosts: FormerHosts::default(),
            departures: Departures::default(),
            placement: None,
            group_size: job.copies,
            copy_interval: job.recovery.map(|r| r.copies).unwrap_or_default(),
            copy_groups: groups(&job.placement, job.copies),
        }
    }

    /// Where ranks are, if this launch has lost hosts or ranks have moved.
    pub fn placement(&self) -> Option<&RankPlacement> {
        self.placement.as_ref()
    }

    /// Ranks of lost hosts are on other hosts from now on, or ranks are back after moves. Returns
    /// whether copies begin anew.
    pub fn place(&mut self, placement: RankPlacement, mode: &mut RecoveryPlanner) -> bool {
        self.ranks.place(&placement.hosts);
        self.hosts.set_changed();
        let begins = self.regroup(mode);
        placement
            .lost
            .iter()
            .for_each(|host| self.hosts.recall_lost(*host));
        self.placement = Some(placement);
        begins
    }

    /// Ranks are on other hosts: others keep copies of their files. Returns whether copies begin
    /// anew, because there was no host for them before.
    fn regroup(&mut self, mode: &mut RecoveryPlanner) -> bool {
        let had_partners = self.has_partners();
        self.copy_groups = groups(&self.ranks.placement(), self.group_size);
        let has_partners = self.has_partners();
        let begins = has_partners && !had_partners;
        match mode.checkpoints_mut() {
            Some(checkpoints) if begins => checkpoints.copy_files(self.copy_interval),
            Some(checkpoints) if !has_partners => checkpoints.stop_copies(),
            Some(_) | None => {}
        }
        begins
    }

    /// A rank has moved with its image of this number. Returns whether copies begin anew.
    pub fn has_moved(
        &mut self,
        number: MoveNumber,
        moved: &RankMove,
        mode: &mut RecoveryPlanner,
    ) -> bool {
        self.former_hosts.add(moved.rank, number.after, moved.from);
        self.ranks.move_to(moved.rank, moved.to, moved.incarnation);
        if let Some(checkpoints) = mode.checkpoints_mut() {
            checkpoints.moved(number.after);
        }
        self.note_placement(mode)
    }

    /// These ranks are back on these hosts.
    pub fn move_back(&mut self, ranks: &[(Rank, HostIndex)], mode: &mut RecoveryPlanner) {
        for (rank, host) in ranks {
            let incarnation = self.ranks.instance(*rank).incarnation;
            self.ranks.move_to(*rank, *host, incarnation);
        }
        self.note_placement(mode);
    }

    fn note_placement(&mut self, mode: &mut RecoveryPlanner) -> bool {
        self.hosts.set_changed();
        let begins = self.regroup(mode);
        let hosts = self.ranks.placement();
        let placement = self.placement.get_or_insert_with(|| RankPlacement {
            hosts: Vec::new(),
            lost: Vec::new(),
            moved: Vec::new(),
            from: None,
        });
        placement.hosts = hosts;
        begins
    }

    /// The ranks among these that were on hosts which this launch has lost.
    pub fn moved_among(&self, ranks: &[(Rank, Incarnation)]) -> Vec<MovedRank> {
        let moved = self
            .placement()
            .map_or(&[][..], |placement| &placement.moved[..]);
        let among = |one: &&MovedRank| ranks.iter().any(|(rank, _)| *rank == one.rank);
        moved.iter().filter(among).cloned().collect()
    }

    /// Hosts copy files of each other.
    pub fn copies_files(&self) -> bool {
        self.group_size.is_some()
    }

    /// Which host kept what of which files when ranks were on these hosts.
    pub fn copy_groups_of(&self, placement: &[HostIndex]) -> CopyGroups {
        groups(placement, self.group_size)
    }

    /// Which host keeps what of which files.
    pub fn copy_groups(&self) -> &CopyGroups {
        &self.copy_groups
    }

    /// Some host keeps copies of another one's files.
    pub fn has_partners(&self) -> bool {
        !self.copy_groups.stripes().is_empty()
    }

    /// Orders a host to restore these of its ranks, which may be its first ones. `from`: the image,
    /// and the registered memory with which ranks start.
    pub fn order_restore(
        &mut self,
        host: HostIndex,
        (from, regions): (Option<ImageId>, Option<Epoch>),
        ranks: Vec<(Rank, Incarnation)>,
        moved: Vec<MovedRank>,
        out: &mut Out,
    ) {
        let generation = self.ranks.generation();
        let order = match self.hosts.begins(host) {
            true => ToLocal::Restore {
                generation,
                from,
                regions,
                ranks,
                moved,
            },
            false => ToLocal::Spawn {
                generation,
                ranks,
                from: from.and_then(ImageId::checkpoint),
                regions,
                moved,
            },
        };
        out.send(host, order);
    }

    /// Hosts whose ranks have all moved away are needed no more.
    pub fn end_empty_hosts(&self, out: &mut Out) {
        for host in self.departures.visited() {
            if !self.ranks.is_any_on(host) && !self.hosts.is_done(host) {
                out.send(host, ToLocal::Kill);
            }
        }
    }

    /// Hosts that get no ranks any more, and have nothing that the job needs, end.
    pub fn end_drained(&self, out: &mut Out) {
        let is_needed = |host: &HostIndex| {
            self.ranks.is_any_on(*host) || !self.former_hosts.ranks_of(*host).is_empty()
        };
        let ended = self.hosts.draining().filter(|host| !is_needed(host));
        ended.for_each(|host| out.send(host, ToLocal::Kill));
    }
}

impl RankPlaces for Cluster {
    fn host_of(&self, rank: Rank) -> HostIndex {
        self.ranks.host_of(rank)
    }

    fn acts_elsewhere(&self, rank: Rank) -> bool {
        self.departures.acts_elsewhere(rank, self.host_of(rank))
    }
}

/// The incarnation of the first processes. In a job that is restarted, ranks that have not moved
/// get later ones than before. Processes of earlier launches are of earlier generations anyway.
fn first_incarnation(job: &Job) -> Incarnation {
    Incarnation(job.from.map_or(0, |_| job.generation.0))
}

fn groups(placement: &[HostIndex], size: Option<usize>) -> CopyGroups {
    size.map_or_else(CopyGroups::default, |size| CopyGroups::new(placement, size))
}
