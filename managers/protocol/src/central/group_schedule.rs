//! Which recovery groups take their images now, and which write them to files ([`GroupTurns`]).

use super::central_omission::CentralOmission;
use super::job_parts::{JobParts, keys};
use super::phase::CentralPhase;
use crate::handler_keys::handler;
use crate::manager_messages::{ImageOrder, ToLocal};
use rejoin_channel_table::{Epoch, Generation, Incarnation, Rank};
use std::cmp::Reverse;

handler! {
    /// Gives recovery groups their turns.
    pub(in crate::central) TurnHandler of JobParts {
        changes { commits, out }
        reads { course, cluster, terms }
    }
}

impl TurnHandler<'_> {
    /// Whether groups take turns. A job that stops, or whose ranks have all done their work, has no
    /// time for that.
    fn takes_turns(&self) -> bool {
        let has_time = matches!(
            self.course.phase,
            CentralPhase::Running | CentralPhase::Restoring(_)
        );
        let has_time =
            has_time && self.course.stop.is_none() && !self.terms.omits(CentralOmission::Turns);
        self.commits.mode.logs_messages() && has_time
    }

    /// Whether images and files are still needed. Nothing comes back from them in a job that ends,
    /// so no group has its turn any more.
    fn gives_turns(&self) -> bool {
        !matches!(self.course.phase, CentralPhase::Ending | CentralPhase::Over)
    }

    /// The first rank of each group: those first for which most is retained, because
    /// their checkpoints make most room.
    fn groups_in_turn(&self) -> Vec<Rank> {
        let needs = self.commits.logs.retained_for();
        let need = |rank: &Rank| needs.get(rank).copied().unwrap_or(0);
        let of_group = |leader: &Rank| {
            let needs = self.commits.groups.members(*leader).iter().map(need);
            needs.fold(0, u64::saturating_add)
        };
        let mut leaders = self.commits.groups.leaders();
        leaders.sort_by_cached_key(|leader| Reverse(of_group(leader)));
        leaders
    }

    /// Requests images of this checkpoint: of all ranks, or of the first groups.
    pub(super) fn request_images(&mut self, epoch: Epoch) {
        if self.takes_turns() {
            self.commits.image_turns.begin(epoch, self.groups_in_turn());
            return self.request_next_groups();
        }
        self.commits.image_turns.end();
        let generation = self.cluster.ranks.generation();
        let request = ToLocal::Image(ImageOrder::Checkpoint { generation, epoch });
        self.cluster.hosts.spread(request, self.out);
    }

    /// A group has its images of this checkpoint: the next one takes its own.
    pub(super) fn group_is_imaged(&mut self, rank: Rank, epoch: Epoch) {
        let members = self.commits.groups.members(rank);
        let Some(leader) = members.first().copied() else {
            return;
        };
        let checkpoints = self.commits.checkpoints();
        let is_whole = checkpoints.is_some_and(|c| c.has_images_of(members, epoch));
        if is_whole && self.commits.image_turns.ends(epoch, leader) {
            self.request_next_groups();
        }
    }

    /// Requests images of the groups whose turn it is now.
    pub(super) fn request_next_groups(&mut self) {
        let now = self.out.now;
        let epoch = self
            .commits
            .image_turns
            .epoch()
            .filter(|_| self.gives_turns());
        let checkpoints = self.commits.checkpoints_mut();
        let Some(checkpoints) = checkpoints.filter(|c| c.pending().is_some()) else {
            return self.commits.image_turns.end();
        };
        let Some(epoch) = epoch.filter(|epoch| checkpoints.pending() == Some(*epoch)) else {
            return self.commits.image_turns.end();
        };
        checkpoints.goes_on(now);
        let next = match self.takes_turns() {
            true => self.commits.image_turns.take_next(),
            false => self.commits.image_turns.take_rest(),
        };
        for leader in next {
            self.order_of_group(leader, |generation, ranks| {
                ToLocal::Image(ImageOrder::CheckpointRanks {
                    generation,
                    epoch,
                    ranks,
                })
            });
        }
    }

    /// Images of this checkpoint are to be written to files, in a job of several groups. `None`:
    /// none are to be written.
    pub(super) fn write_groups(&mut self, writing: Option<Epoch>) {
        let writing = writing.filter(|_| self.commits.mode.logs_messages() && self.gives_turns());
        let Some(epoch) = writing else {
            return self.commits.file_turns.end();
        };
        self.commits.file_turns.begin(epoch, self.groups_in_turn());
        self.write_next_groups(epoch);
    }

    /// The file of a rank's image is there: when its group has all of them, the next one writes.
    pub(super) fn group_is_stored(&mut self, rank: Rank, epoch: Epoch) {
        let members = self.commits.groups.members(rank);
        let Some(leader) = members.first().copied() else {
            return;
        };
        let checkpoints = self.commits.checkpoints();
        let is_whole = checkpoints.is_some_and(|c| c.has_files_of(members, epoch));
        if is_whole && self.commits.file_turns.ends(epoch, leader) {
            self.write_next_groups(epoch);
        }
    }

    fn write_next_groups(&mut self, epoch: Epoch) {
        let next = match self.takes_turns() {
            true => self.commits.file_turns.take_next(),
            false => self.commits.file_turns.take_rest(),
        };
        for leader in next {
            self.order_of_group(leader, |_, ranks| {
                ToLocal::Image(ImageOrder::WriteImages { ranks, epoch })
            });
        }
    }

    /// Sends an order about a group's ranks to each of their hosts.
    fn order_of_group(&mut self, leader: Rank, order: impl Fn(Generation, Vec<Rank>) -> ToLocal) {
        let members = self.commits.groups.members(leader).iter();
        let ranks: Vec<_> = members
            .map(|rank| (*rank, Incarnation::default()))
            .collect();
        let generation = self.cluster.ranks.generation();
        for (host, ranks) in self.cluster.ranks.on_hosts(&ranks) {
            let ranks = ranks.into_iter().map(|(rank, _)| rank).collect();
            self.out.send(host, order(generation, ranks));
        }
    }
}
