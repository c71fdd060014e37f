//! Checkpoints of registered memory: their numbers and their commits.

use super::event::Event;
use super::interface::{HostIndex, Record};
use super::job_parts::{JobParts, keys};
use crate::handler_keys::handler;
use crate::manager_messages::{ProcessInstance, RegionMessage, RegionOrder, ToLocal};
use crate::region_commits::RegionProgress;
use rejoin_channel_table::{Epoch, Rank};

/// A rank may ask for a number by so much above the last one. A peer's epoch is known from its low
/// bits (`device/engine/src/short_header.rs`), so numbers have no larger gap while ranks run.
const MOST_SKIPPED: u32 = 2_000;

handler! {
    /// Numbers and commits checkpoints of registered memory.
    pub(in crate::central) RegionHandler of JobParts {
        changes { commits, out }
        reads { cluster }
    }
}

impl RegionHandler<'_> {
    /// A rank that stores registered memory asks for a number, or has stored the memory.
    pub(super) fn region_message(&mut self, host: HostIndex, message: RegionMessage) {
        let ranks = &self.cluster.ranks;
        match message {
            RegionMessage::NumberWanted { instance, above } => {
                if ranks.is_live(host, instance) {
                    self.give_number(host, instance, above);
                }
            }
            RegionMessage::Stored { instance, epoch } => {
                if ranks.is_live(host, instance) && epoch <= self.commits.last_number() {
                    self.stored(host, instance.rank, epoch);
                }
            }
        }
    }

    fn give_number(&mut self, host: HostIndex, instance: ProcessInstance, above: Epoch) {
        let epoch = self.take_number(above);
        self.out.persist(Record::RegionsNumbered { epoch });
        let number = ToLocal::Regions(RegionOrder::Number {
            generation: instance.generation,
            rank: instance.rank,
            epoch,
        });
        self.out.send(host, number);
    }

    fn stored(&mut self, host: HostIndex, rank: Rank, epoch: Epoch) {
        let ranks = self.cluster.ranks.count();
        match self.commits.regions.stored(rank, epoch, ranks) {
            RegionProgress::Waiting => {}
            RegionProgress::Complete => self.commit_regions(epoch),
            RegionProgress::Known => {
                let generation = self.cluster.ranks.generation();
                let epochs = self.commits.regions.epochs();
                let answer = ToLocal::Regions(RegionOrder::Committed { generation, epochs });
                self.out.send(host, answer);
            }
        }
    }

    fn commit_regions(&mut self, epoch: Epoch) {
        self.commits.regions.commit(epoch);
        let (generation, epochs) = (
            self.cluster.ranks.generation(),
            self.commits.regions.epochs(),
        );
        self.out.persist(Record::RegionsCommitted { epochs });
        let committed = || ToLocal::Regions(RegionOrder::Committed { generation, epochs });
        self.cluster.hosts.send_all(committed, self.out);
        self.out.event(Event::RegionsCommitted { epochs });
    }

    fn take_number(&mut self, above: Epoch) -> Epoch {
        let last = self.commits.last_number();
        let is_near = above.0.saturating_sub(last.0) <= MOST_SKIPPED;
        let least = if is_near { last.max(above) } else { last };
        let epoch = Epoch(least.0.saturating_add(1));
        match self.commits.checkpoints_mut() {
            Some(checkpoints) => checkpoints.number_is_taken(epoch),
            None => self.commits.requested = epoch,
        }
        epoch
    }
}
