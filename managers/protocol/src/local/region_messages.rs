//! Checkpoints of registered memory: what the ranks of this host wait for, and central's answers.

use super::host_state::Local;
use super::inputs::LocalEffect;
use super::rank_process::RankProcess;
use crate::manager_messages::{ProcessInstance, RegionMessage, Stage, ToCentral, ToLocal};
use crate::region_commits::RegionEpochs;
use rejoin_channel_table::{Epoch, Rank};
use rejoin_wire::{FromManager, ToManager};

impl Local {
    /// Central's answers to ranks that store their registered memory.
    pub(super) fn order_of_regions(&mut self, order: ToLocal, effects: &mut Vec<LocalEffect>) {
        let present = self.processes.generation();
        match order {
            ToLocal::RegionsNumber {
                generation,
                rank,
                epoch,
            } if generation == present => self.number_regions(rank, epoch, effects),
            ToLocal::RegionsCommitted { generation, epochs } if generation == present => {
                self.regions_committed(epochs, effects);
            }
            // Stale news of an older generation.
            _ => {}
        }
    }

    /// A rank's program stores its registered memory. The driver has told mpirun of what is stored,
    /// in its place among the output.
    pub(super) fn said_of_regions(
        &mut self,
        instance: ProcessInstance,
        message: ToManager,
        effects: &mut Vec<LocalEffect>,
    ) {
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
        self.tell(news, effects);
    }

    /// The number for which a rank's program waits.
    fn number_regions(&mut self, rank: Rank, epoch: Epoch, effects: &mut Vec<LocalEffect>) {
        let generation = self.processes.generation();
        let process = self.processes.of_mut(rank);
        // A second answer came, after a question that a new central manager has repeated.
        if process.is_some_and(|process| process.regions().number.take().is_some()) {
            let number = FromManager::RegionsNumber { generation, epoch };
            effects.push(LocalEffect::Ranks(vec![rank], number));
        }
    }

    /// Every rank has stored its registered memory.
    fn regions_committed(&mut self, epochs: RegionEpochs, effects: &mut Vec<LocalEffect>) {
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
            effects.push(LocalEffect::Ranks(to, committed));
        }
    }
}
