//! Checkpoints of registered memory: what the ranks of this host wait for, and central's answers.

use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use super::rank_process::RankProcess;
use crate::handler_keys::handler;
use crate::manager_messages::{ProcessInstance, RegionMessage, RegionOrder, Stage};
use crate::region_commits::RegionEpochs;
use rejoin_channel_table::{Epoch, Generation, Rank};
use rejoin_wire::FromManager;

handler! {
    /// Checkpoints of registered memory, for ranks of this host.
    pub(super) RankRegionHandler of HostParts {
        changes { processes, out }
    }
}

impl RankRegionHandler<'_> {
    /// A rank's program asks for a number above this one for its registered memory.
    pub fn on_number_request(&mut self, instance: ProcessInstance, above: Epoch) {
        if let Some(process) = self.processes.find(instance.rank, instance.incarnation) {
            process.regions().number = Some(above);
            self.out
                .report(RegionMessage::NumberWanted { instance, above });
        }
    }

    /// A rank's program has stored its registered memory. The driver has told mpirun of what is
    /// stored, in its place among the output.
    pub fn stored(&mut self, instance: ProcessInstance, epoch: Epoch) {
        if let Some(process) = self.processes.find(instance.rank, instance.incarnation) {
            process.regions().commit = Some(epoch);
            self.out.report(RegionMessage::Stored { instance, epoch });
        }
    }

    /// An answer of central.
    pub fn order(&mut self, order: RegionOrder) {
        match order {
            RegionOrder::Number {
                generation,
                rank,
                epoch,
            } => self.number_regions(generation, rank, epoch),
            RegionOrder::Committed { generation, epochs } => self.committed(generation, epochs),
        }
    }

    /// The number for which a rank's program waits.
    fn number_regions(&mut self, generation: Generation, rank: Rank, epoch: Epoch) {
        if generation != self.processes.generation() {
            return;
        }
        let process = self.processes.of_mut(rank);
        // A second answer came, after a question that a new central manager has repeated.
        if process.is_some_and(|process| process.regions().number.take().is_some()) {
            let number = FromManager::RegionsNumber { generation, epoch };
            self.out.push(LocalEffect::Ranks(vec![rank], number));
        }
    }

    /// Every rank has stored its registered memory.
    fn committed(&mut self, generation: Generation, epochs: RegionEpochs) {
        let is_present = generation == self.processes.generation();
        let Some(newest) = epochs.newest.filter(|_| is_present) else {
            return;
        };
        let mut to = self.processes.listening(&[Stage::Registered]);
        to.retain(|rank| {
            let process = self.processes.of_mut(*rank);
            let answered = |process: &mut RankProcess| {
                let wait = process.regions();
                wait.commit
                    .take_if(|stored| epochs.answers(*stored))
                    .is_some()
            };
            process.is_some_and(answered)
        });
        if !to.is_empty() {
            let committed = FromManager::RegionsCommitted {
                generation,
                newest,
                before: epochs.before,
            };
            self.out.push(LocalEffect::Ranks(to, committed));
        }
    }
}
