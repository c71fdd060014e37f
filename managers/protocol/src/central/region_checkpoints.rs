//! Checkpoints of registered memory: their numbers and their commits.

use super::event::Event;
use super::interface::{CentralEffect, HostIndex, Record};
use super::job_state::Central;
use crate::manager_messages::{ToCentral, ToLocal};
use crate::region_commits::RegionProgress;
use rejoin_channel_table::Epoch;

/// A rank may ask for a number by so much above the last one. A peer's epoch is known from its low
/// bits (`device/engine/src/short_header.rs`), so numbers have no larger gap while ranks run.
const MOST_SKIPPED: u32 = 2_000;

impl Central {
    /// A rank that stores registered memory asks for a number, or has stored the memory.
    pub(super) fn region_message(
        &mut self,
        host: HostIndex,
        message: ToCentral,
        effects: &mut Vec<CentralEffect>,
    ) {
        let (ToCentral::AskRegionsNumber { instance, .. }
        | ToCentral::RegionsStored { instance, .. }) = message
        else {
            return;
        };
        if !self.ranks.is_live(host, instance) {
            return;
        }
        let generation = self.ranks.generation();
        match message {
            ToCentral::AskRegionsNumber { above, .. } => {
                let epoch = self.take_number(above);
                effects.push(CentralEffect::Persist(Record::RegionsNumbered { epoch }));
                let number = ToLocal::RegionsNumber {
                    generation,
                    rank: instance.rank,
                    epoch,
                };
                effects.push(CentralEffect::Send(host, number));
            }
            ToCentral::RegionsStored { epoch, .. } if epoch <= self.last_number() => {
                let ranks = self.ranks.count();
                match self.regions.stored(instance.rank, epoch, ranks) {
                    RegionProgress::Waiting => {}
                    RegionProgress::Complete => self.commit_regions(epoch, effects),
                    RegionProgress::Known => {
                        let epochs = self.regions.epochs();
                        let answer = ToLocal::RegionsCommitted { generation, epochs };
                        effects.push(CentralEffect::Send(host, answer));
                    }
                }
            }
            _ => {}
        }
    }

    fn commit_regions(&mut self, epoch: Epoch, effects: &mut Vec<CentralEffect>) {
        self.regions.commit(epoch);
        let (generation, epochs) = (self.ranks.generation(), self.regions.epochs());
        effects.push(CentralEffect::Persist(Record::RegionsCommitted { epochs }));
        let committed = || ToLocal::RegionsCommitted { generation, epochs };
        self.hosts.send_all(committed, effects);
        effects.push(CentralEffect::Event(Event::RegionsCommitted { epochs }));
    }

    /// The highest number that was given to a checkpoint.
    pub(super) fn last_number(&self) -> Epoch {
        let checkpoints = self.mode.checkpoints();
        checkpoints.map_or(self.requested, |c| c.last_number())
    }

    fn take_number(&mut self, above: Epoch) -> Epoch {
        let last = self.last_number();
        let is_near = above.0.saturating_sub(last.0) <= MOST_SKIPPED;
        let least = if is_near { last.max(above) } else { last };
        let epoch = Epoch(least.0.saturating_add(1));
        match self.mode.checkpoints_mut() {
            Some(checkpoints) => checkpoints.number_is_taken(epoch),
            None => self.requested = epoch,
        }
        epoch
    }
}
