//! Checkpoints of registered memory: what the ranks of this host wait for, and central's answers.

use super::host_parts::HostParts;
use super::inputs::LocalEffect;
use super::local_out::LocalOut;
use super::process_table::ProcessTable;
use super::rank_process::RankProcess;
use crate::handler_keys::handler;
use crate::manager_messages::{ProcessInstance, RegionMessage, Stage, ToCentral, ToLocal};
use crate::region_commits::RegionEpochs;
use rejoin_channel_table::{Epoch, Rank};
use rejoin_wire::{FromManager, ToManager};

handler! {
    /// Checkpoints of registered memory, for ranks of this host.
    pub(super) RankRegionHandler of HostParts {
        processes: &'a mut ProcessTable,
        out: &'a mut LocalOut,
    }
}

impl RankRegionHandler<'_> {
    /// Central's answers to ranks that store their registered memory.
    pub fn order(&mut self, order: ToLocal) {
        let present = self.processes.generation();
        match order {
            ToLocal::RegionsNumber {
                generation,
                rank,
                epoch,
            } if generation == present => self.number_regions(rank, epoch),
            ToLocal::RegionsCommitted { generation, epochs } if generation == present => {
                self.regions_committed(epochs);
            }
            // Stale news of an older generation.
            _ => {}
        }
    }

    /// A rank's program stores its registered memory. The driver has told mpirun of what is stored,
    /// in its place among the output.
    pub fn said_of_regions(&mut self, instance: ProcessInstance, message: ToManager) {
        let Some(process) = self.processes.find(instance.rank, instance.incarnation) else {
            return;
        };
        let news = match message {
            ToManager::AskRegionsNumber { above } => {
                process.regions().number = Some(above);
                ToCentral::Regions(RegionMessage::NumberWanted { instance, above })
            }
            ToManager::RegionsStored { epoch } => {
                process.regions().commit = Some(epoch);
                ToCentral::Regions(RegionMessage::Stored { instance, epoch })
            }
            _ => return,
        };
        self.out.report(news);
    }

    /// The number for which a rank's program waits.
    fn number_regions(&mut self, rank: Rank, epoch: Epoch) {
        let generation = self.processes.generation();
        let process = self.processes.of_mut(rank);
        // A second answer came, after a question that a new central manager has repeated.
        if process.is_some_and(|process| process.regions().number.take().is_some()) {
            let number = FromManager::RegionsNumber { generation, epoch };
            self.out.push(LocalEffect::Ranks(vec![rank], number));
        }
    }

    /// Every rank has stored its registered memory.
    fn regions_committed(&mut self, epochs: RegionEpochs) {
        let Some(newest) = epochs.newest else {
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
                generation: self.processes.generation(),
                newest,
                before: epochs.before,
            };
            self.out.push(LocalEffect::Ranks(to, committed));
        }
    }
}
