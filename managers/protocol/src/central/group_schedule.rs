//! Which recovery groups take their images now, and which write them to files ([`GroupTurns`]).

use super::central_omission::CentralOmission;
use super::interface::CentralEffect;
use super::job_state::Central;
use super::phase::CentralPhase;
use crate::manager_messages::{Time, ToLocal};
use rejoin_channel_table::{Epoch, Generation, Incarnation, Rank};
use std::cmp::Reverse;

impl Central {
    /// Whether groups take turns. A job that stops, or whose ranks have all done their work, has no
    /// time for that.
    fn takes_turns(&self) -> bool {
        let has_time = matches!(
            self.phase,
            CentralPhase::Running | CentralPhase::Restoring(_)
        );
        let has_time = has_time && self.stop.is_none() && !self.omits(CentralOmission::Turns);
        self.groups.are_several() && has_time
    }

    /// Whether images and files are still needed. Nothing comes back from them in a job that ends,
    /// so no group has its turn any more.
    fn gives_turns(&self) -> bool {
        !matches!(
            self.phase,
            CentralPhase::Ending | CentralPhase::Relaunching(_) | CentralPhase::Over
        )
    }

    /// The first rank of each group: those first for which most is retained, because
    /// their checkpoints make most room.
    fn groups_in_turn(&self) -> Vec<Rank> {
        let needs = self.logs.retained_for();
        let need = |rank: &Rank| needs.get(rank).copied().unwrap_or(0);
        let of_group = |leader: &Rank| {
            let needs = self.groups.members(*leader).iter().map(need);
            needs.fold(0, u64::saturating_add)
        };
        let mut leaders = self.groups.leaders();
        leaders.sort_by_cached_key(|leader| Reverse(of_group(leader)));
        leaders
    }

    /// Requests images of this checkpoint: of all ranks, or of the first groups.
    pub(super) fn request_images(
        &mut self,
        now: Time,
        epoch: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        if self.takes_turns() {
            self.image_turns.begin(epoch, self.groups_in_turn());
            return self.request_next_groups(now, effects);
        }
        self.image_turns.end();
        let generation = self.ranks.generation();
        let request = ToLocal::Checkpoint { generation, epoch };
        self.hosts.spread(request, effects);
    }

    /// A group has its images of this checkpoint: the next one takes its own.
    pub(super) fn group_is_imaged(
        &mut self,
        now: Time,
        rank: Rank,
        epoch: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        let members = self.groups.members(rank);
        let Some(leader) = members.first().copied() else {
            return;
        };
        let checkpoints = self.mode.checkpoints();
        let is_whole = checkpoints.is_some_and(|c| c.has_images_of(members, epoch));
        if is_whole && self.image_turns.ends(epoch, leader) {
            self.request_next_groups(now, effects);
        }
    }

    /// Requests images of the groups whose turn it is now.
    pub(super) fn request_next_groups(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let epoch = self.image_turns.epoch().filter(|_| self.gives_turns());
        let checkpoints = self.mode.checkpoints_mut();
        let Some(checkpoints) = checkpoints.filter(|c| c.pending().is_some()) else {
            return self.image_turns.end();
        };
        let Some(epoch) = epoch.filter(|epoch| checkpoints.pending() == Some(*epoch)) else {
            return self.image_turns.end();
        };
        checkpoints.goes_on(now);
        let next = match self.takes_turns() {
            true => self.image_turns.take_next(),
            false => self.image_turns.take_rest(),
        };
        for leader in next {
            self.order_of_group(leader, effects, |generation, ranks| {
                ToLocal::CheckpointRanks {
                    generation,
                    epoch,
                    ranks,
                }
            });
        }
    }

    /// Images of this checkpoint are to be written to files, in a job of several groups. `None`:
    /// none are to be written.
    pub(super) fn write_groups(
        &mut self,
        writing: Option<Epoch>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let writing = writing.filter(|_| self.groups.are_several() && self.gives_turns());
        let Some(epoch) = writing else {
            return self.file_turns.end();
        };
        self.file_turns.begin(epoch, self.groups_in_turn());
        self.write_next_groups(epoch, effects);
    }

    /// The file of a rank's image is there: when its group has all of them, the next one writes.
    pub(super) fn group_is_stored(
        &mut self,
        rank: Rank,
        epoch: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        let members = self.groups.members(rank);
        let Some(leader) = members.first().copied() else {
            return;
        };
        let checkpoints = self.mode.checkpoints();
        let is_whole = checkpoints.is_some_and(|c| c.has_files_of(members, epoch));
        if is_whole && self.file_turns.ends(epoch, leader) {
            self.write_next_groups(epoch, effects);
        }
    }

    fn write_next_groups(&mut self, epoch: Epoch, effects: &mut Vec<CentralEffect>) {
        let next = match self.takes_turns() {
            true => self.file_turns.take_next(),
            false => self.file_turns.take_rest(),
        };
        for leader in next {
            self.order_of_group(leader, effects, |_, ranks| ToLocal::WriteImages {
                ranks,
                epoch,
            });
        }
    }

    /// Sends an order about a group's ranks to each of their hosts.
    fn order_of_group(
        &self,
        leader: Rank,
        effects: &mut Vec<CentralEffect>,
        order: impl Fn(Generation, Vec<Rank>) -> ToLocal,
    ) {
        let members = self.groups.members(leader).iter();
        let ranks: Vec<_> = members
            .map(|rank| (*rank, Incarnation::default()))
            .collect();
        let generation = self.ranks.generation();
        for (host, ranks) in self.on_hosts(&ranks) {
            let ranks = ranks.into_iter().map(|(rank, _)| rank).collect();
            effects.push(CentralEffect::Send(host, order(generation, ranks)));
        }
    }
}
