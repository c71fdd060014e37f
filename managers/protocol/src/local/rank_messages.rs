//! Messages of ranks, and the answers that several of them wait for.

use super::checkpoint_messages::ImageHandler;
use super::exits::ExitHandler;
use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use super::local_out::one_line;
use super::lookups::LookupHandler;
use super::region_messages::RankRegionHandler;
use crate::handler_keys::handler;
use crate::manager_messages::{
    Cause, ImageMessage, LogMessage, ProcessInstance, ProcessMessage, Stage, ToCentral,
};
use rejoin_channel_table::{Generation, Incarnation, Rank};
use rejoin_wire::{FromManager, MOST_COUNTERS, ToManager, VERSION};

handler! {
    /// Messages of the ranks of this host.
    pub(super) RankMessageHandler of HostParts {
        changes { processes, images, copies, lookups, out }
        reads { course, moves }
    }
    with {
        images: ImageHandler { course, processes, images, copies, moves, out },
        regions: RankRegionHandler { processes, out },
        cards: LookupHandler { processes, moves, lookups, out },
        exits: ExitHandler { processes, out },
    }
}

impl RankMessageHandler<'_> {
    /// A rank sent this message.
    pub fn on_message(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        pid: u32,
        message: ToManager,
    ) {
        let instance = self.processes.instance(rank, incarnation);
        let process = self.processes.find(rank, incarnation);
        if process.is_some_and(|process| !process.state().is_retiring()) {
            self.on_present_message(instance, pid, message);
        } else if let ToManager::Imaged { image, .. } = message {
            self.out.push(LocalEffect::DropImage(rank, image));
        }
    }

    /// The present process of a rank sent this message.
    fn on_present_message(&mut self, instance: ProcessInstance, pid: u32, message: ToManager) {
        let (rank, incarnation) = (instance.rank, instance.incarnation);
        let Some(process) = self.processes.find(rank, incarnation) else {
            return;
        };
        let stage = process.stage();
        match message {
            ToManager::Imaged {
                image,
                cost,
                caveats,
                ..
            } if stage > Stage::Spawned => self.images().imaged(instance, image, cost, caveats),
            ToManager::NotImaged {
                image,
                why,
                outlives,
                ..
            } if stage > Stage::Spawned => self.images().not_imaged(instance, image, why, outlives),
            ToManager::Checkpoint { after } if stage == Stage::Registered => {
                self.images().on_request(instance, after);
            }
            ToManager::WantFiles { .. } | ToManager::LogIsWhole if stage >= Stage::Registered => {
                self.on_log_message(instance, &message);
            }
            ToManager::Register { .. } if stage == Stage::Spawned => {
                self.register(instance, pid, message);
            }
            ToManager::RequestRegionsNumber { above } if stage == Stage::Registered => {
                self.regions().on_number_request(instance, above);
            }
            ToManager::RegionsStored { epoch } if stage == Stage::Registered => {
                self.regions().stored(instance, epoch);
            }
            ToManager::Note { important, text } => {
                self.out
                    .push(LocalEffect::Note(rank, important, one_line(&text)));
            }
            ToManager::Finalizing if stage == Stage::Registered => {
                process.finalizing();
                self.out.report(ProcessMessage::Finalizing { instance });
            }
            ToManager::Counters { counters } if stage == Stage::Finalized => {
                let counters = presentable(counters);
                self.out
                    .report(ProcessMessage::Counters { instance, counters });
            }
            ToManager::Leave if stage == Stage::Finalized => process.leaves(),
            ToManager::Abort { .. }
            | ToManager::Imaged { .. }
            | ToManager::NotImaged { .. }
            | ToManager::Register { .. }
            | ToManager::Checkpoint { .. }
            | ToManager::WantFiles { .. }
            | ToManager::LogIsWhole
            | ToManager::RequestRegionsNumber { .. }
            | ToManager::RegionsStored { .. }
            | ToManager::Finalizing
            | ToManager::Counters { .. }
            | ToManager::LookUp { .. }
            | ToManager::Waits { .. }
            | ToManager::StoreDeterminants { .. }
            | ToManager::StoreReceived { .. }
            | ToManager::SignalLater { .. }
            | ToManager::Orphan { .. }
            | ToManager::Leave => self
                .exits()
                .fail(rank, incarnation, cause_of(message, stage)),
        }
    }

    /// A rank says something about the messages that it retains.
    fn on_log_message(&mut self, instance: ProcessInstance, message: &ToManager) {
        let news = match *message {
            ToManager::WantFiles { of } => {
                ToCentral::Image(ImageMessage::FilesWanted { instance, of })
            }
            _ => ToCentral::Log(LogMessage::Whole { instance }),
        };
        self.out.report(news);
    }

    /// The process that called `MPI_Init` is there.
    fn register(&mut self, instance: ProcessInstance, pid: u32, message: ToManager) {
        let ToManager::Register {
            rank: said,
            incarnation: also,
            card,
            version,
            limits,
            ..
        } = message
        else {
            return;
        };
        let (rank, incarnation) = (instance.rank, instance.incarnation);
        if let Some(why) = unfit(said, also, version, instance) {
            return self
                .exits()
                .fail(rank, incarnation, Cause::Misbehaved { why });
        }
        let Some(process) = self.processes.find(rank, incarnation) else {
            return;
        };
        if process.register(pid, card.clone(), limits) {
            self.out.push(LocalEffect::Watch(rank, incarnation, pid));
        }
        // A move may be given up, and its process never starts: an update tells of it.
        if !self.moves.is_arrival(rank) {
            self.cards().learn_of(instance, card.clone());
        }
        let news = ToCentral::Process(ProcessMessage::Registered {
            instance,
            pid,
            card,
            limits,
        });
        self.out.report(news);
    }

    /// Every rank is in `MPI_Finalize`.
    pub fn all_finalized(&mut self, generation: Generation) {
        if generation != self.processes.generation() {
            return;
        }
        let to = self.processes.listening(&[Stage::Finalizing]);
        for process in self.processes.iter_mut() {
            process.all_finalized();
        }
        self.out.push(LocalEffect::Ranks(
            to,
            FromManager::AllFinalized { generation },
        ));
    }
}

/// Why a process ends that has said this at this stage.
fn cause_of(message: ToManager, stage: Stage) -> Cause {
    let misbehaved = |why| Cause::Misbehaved { why };
    match message {
        ToManager::Abort { code, why } => Cause::Aborted {
            code,
            why: one_line(&why),
        },
        ToManager::Orphan { on } if matches!(stage, Stage::Registered | Stage::Finalizing) => {
            Cause::Orphaned { on }
        }
        ToManager::Register { .. } => {
            misbehaved("a second process of this rank called MPI_Init".to_string())
        }
        _ => misbehaved(format!(
            "it said {} when it was {stage:?}",
            name_of(&message)
        )),
    }
}

/// The name of a message that came at the wrong time.
fn name_of(message: &ToManager) -> &'static str {
    match message {
        ToManager::Imaged { .. } => "Imaged",
        ToManager::NotImaged { .. } => "NotImaged",
        ToManager::Checkpoint { .. } => "Checkpoint",
        ToManager::WantFiles { .. } => "WantFiles",
        ToManager::LogIsWhole => "LogIsWhole",
        ToManager::RequestRegionsNumber { .. } => "RequestRegionsNumber",
        ToManager::RegionsStored { .. } => "RegionsStored",
        ToManager::Finalizing => "Finalizing",
        ToManager::Leave => "Leave",
        ToManager::LookUp { .. } => "LookUp",
        ToManager::StoreDeterminants { .. } => "StoreDeterminants",
        ToManager::StoreReceived { .. } => "StoreReceived",
        ToManager::SignalLater { .. } => "SignalLater",
        ToManager::Orphan { .. } => "Orphan",
        _ => "Counters",
    }
}

/// Why a process that registers can't be this rank.
fn unfit(
    rank: Rank,
    incarnation: Incarnation,
    version: u32,
    instance: ProcessInstance,
) -> Option<String> {
    if version != VERSION {
        return Some(format!(
            "its library speaks version {version} of the managers' protocol, mpirun {VERSION}"
        ));
    }
    (rank != instance.rank || incarnation != instance.incarnation)
        .then(|| format!("it registered as rank {}", rank.0))
}

/// Few counters with short names of one line, whatever a program's process says.
fn presentable(counters: Vec<(String, u64)>) -> Vec<(String, u64)> {
    let shorten = |(name, value): (String, u64)| {
        let name = one_line(&name).chars().take(40).collect();
        (name, value)
    };
    counters
        .into_iter()
        .take(MOST_COUNTERS)
        .map(shorten)
        .collect()
}
