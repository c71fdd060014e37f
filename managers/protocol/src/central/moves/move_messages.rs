//! What hosts say of moves that are under way, and the next step of each.

use super::rank_progress::{MoveProgress, MoveStage};
use crate::central::event::Event;
use crate::central::interface::{CentralEffect, HostIndex, Record};
use crate::central::job_state::Central;
use crate::checkpoint::Coordinator;
use crate::manager_messages::{Cause, MoveBytes, MovedRank, Time, ToCentral, ToLocal};
use crate::verdict::Described;
use rejoin_channel_table::{BusinessCard, Epoch, Rank};
use rejoin_wire::Limits;

impl Central {
    /// Takes a message that concerns a move. Returns other messages.
    pub(in crate::central) fn move_message(
        &mut self,
        now: Time,
        host: HostIndex,
        message: ToCentral,
        effects: &mut Vec<CentralEffect>,
    ) -> Option<ToCentral> {
        let (rank, number) = match &message {
            ToCentral::Imaged {
                instance, epoch, ..
            }
            | ToCentral::NotImaged {
                instance, epoch, ..
            }
            | ToCentral::ImageLost {
                instance, epoch, ..
            } => (instance.rank, *epoch),
            ToCentral::ImageStored { rank, epoch }
            | ToCentral::ImageNotStored { rank, epoch, .. } => (*rank, *epoch),
            ToCentral::Loaded { rank, number, .. }
            | ToCentral::NotLoaded { rank, number, .. }
            | ToCentral::MoveBytes(MoveBytes { rank, number, .. }) => (*rank, *number),
            _ => return self.arrival_message(now, host, message, effects),
        };
        let Some(is_latest) = self.moves.has_image(rank, number) else {
            // These belong to moves only.
            let is_stale = matches!(
                message,
                ToCentral::Loaded { .. } | ToCentral::NotLoaded { .. } | ToCentral::MoveBytes(_)
            );
            return (!is_stale).then_some(message);
        };
        if is_latest {
            self.image_of_move(now, host, (rank, number), message, effects);
        }
        None
    }

    /// A message about the latest image of a rank that moves.
    fn image_of_move(
        &mut self,
        now: Time,
        host: HostIndex,
        (rank, number): (Rank, Epoch),
        message: ToCentral,
        effects: &mut Vec<CentralEffect>,
    ) {
        let why = match message {
            ToCentral::Imaged { .. } => return self.moves.taken(rank),
            ToCentral::ImageStored { .. } => {
                return self.image_is_there(now, host, rank, effects);
            }
            ToCentral::Loaded { bytes, .. } => {
                return self.moves.loaded(now, (host, rank, number), bytes);
            }
            ToCentral::MoveBytes(bytes) => return self.moves.note_bytes(now, host, bytes),
            ToCentral::NotImaged { instance, why, .. } if self.ranks.is_live(host, instance) => why,
            ToCentral::ImageLost { why, .. } => why.unwrap_or_else(|| "its image was ended".into()),
            ToCentral::ImageNotStored { why, .. } => {
                why.unwrap_or_else(|| "its image was interrupted".into())
            }
            ToCentral::NotLoaded { why, .. } => {
                let progress = self.moves.of(rank);
                if !progress.is_some_and(|p| p.is_loading(host, number)) {
                    return;
                }
                why
            }
            _ => return,
        };
        self.give_up_move(now, rank, &why, effects);
    }

    /// A message about a process that is made on another host.
    fn arrival_message(
        &mut self,
        now: Time,
        host: HostIndex,
        message: ToCentral,
        effects: &mut Vec<CentralEffect>,
    ) -> Option<ToCentral> {
        let instance = match &message {
            ToCentral::Spawned { instance, .. }
            | ToCentral::Registered { instance, .. }
            | ToCentral::ExitDetected { instance, .. }
            | ToCentral::ExitStatus { instance, .. }
            | ToCentral::Failed { instance, .. }
            | ToCentral::Ended { instance, .. } => *instance,
            _ => return Some(message),
        };
        let Some(arriving) = self.moves.arriving(host, instance) else {
            return Some(message);
        };
        match message {
            ToCentral::Spawned { .. } => {}
            ToCentral::Registered {
                pid, card, limits, ..
            } => self.arrived(now, &arriving, (pid, card, limits), effects),
            ToCentral::ExitStatus { cause, .. } | ToCentral::Failed { cause, .. } => {
                let why = match cause {
                    Cause::NotStarted { why } => why,
                    other => Described(&other).to_string(),
                };
                self.give_up_move(now, instance.rank, &why, effects);
            }
            _ => self.give_up_move(now, instance.rank, "its new process has ended", effects),
        }
        None
    }

    /// The rank's image is in a file. If the rank waits at it, the other host makes a process of
    /// it. Otherwise the other host loads it.
    fn image_is_there(
        &mut self,
        now: Time,
        host: HostIndex,
        rank: Rank,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(progress) = self.moves.stored(now, host, rank) else {
            return;
        };
        let (one, number) = (&progress.one, progress.number);
        let generation = self.ranks.generation();
        if !self.hosts.begins(one.to) {
            self.begin_without_ranks(one.to, number, effects);
        }
        let holder = self.copies_files().then_some(one.from);
        if progress.stage == MoveStage::Loading {
            let order = ToLocal::Load {
                generation,
                rank,
                number,
                holder,
            };
            effects.push(CentralEffect::Send(one.to, order));
            return;
        }
        let moved = MovedRank {
            rank,
            moves: true,
            holder,
            others: Vec::new(),
        };
        let order = ToLocal::Restore {
            generation,
            epoch: Some(number),
            ranks: vec![(rank, one.incarnation)],
            moved: vec![moved],
        };
        effects.push(CentralEffect::Send(one.to, order));
    }

    /// Ranks whose copies are loaded take another one, or stop. A rank that stops must not have
    /// files of checkpoints under way on the host that it leaves.
    pub(super) fn order_images(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let checkpoints = self.mode.checkpoints();
        let may = |c: &&Coordinator| c.pending().is_none() && !c.is_short_of_numbers();
        let Some(checkpoints) = checkpoints.filter(may) else {
            return;
        };
        for rank in self.moves.awaiting_images(checkpoints.is_quiet()) {
            let Some(number) = self.number_of_image(rank, effects) else {
                return;
            };
            let Some((progress, before)) = self.moves.next_image(now, rank, number) else {
                return;
            };
            let order = ToLocal::Move {
                instance: self.ranks.instance(rank),
                number,
                base: Some(before),
                stops: progress.stage == MoveStage::Stopping,
            };
            effects.push(CentralEffect::Send(progress.one.from, order));
        }
    }

    /// The number of a rank's next image: that of the last image of another rank, if it is newer
    /// than the rank's own and no checkpoint has come since.
    fn number_of_image(&mut self, rank: Rank, effects: &mut Vec<CentralEffect>) -> Option<Epoch> {
        let checkpoints = self.mode.checkpoints_mut()?;
        let last = checkpoints.last_number();
        if self.moves.shares_number(rank, last) {
            return Some(last);
        }
        let number = checkpoints.take_number();
        effects.push(CentralEffect::Persist(Record::Requested { epoch: number }));
        Some(number)
    }

    /// A host gets its first order, and has no rank yet.
    fn begin_without_ranks(
        &mut self,
        host: HostIndex,
        number: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        let generation = self.ranks.generation();
        let checkpoints = self.mode.checkpoints();
        let begin = ToLocal::Spawn {
            generation,
            ranks: Vec::new(),
            hold: self.mode.recovers(),
            from: None,
            moved: Vec::new(),
        };
        effects.push(CentralEffect::Send(host, begin));
        let commit = ToLocal::Commit {
            generation,
            epochs: checkpoints.map(|c| c.epochs()).unwrap_or_default(),
            abandoned: Epoch(number.0.saturating_sub(1)),
        };
        effects.push(CentralEffect::Send(host, commit));
    }

    /// The new process has registered: from here on the rank is there.
    fn arrived(
        &mut self,
        now: Time,
        progress: &MoveProgress,
        (pid, card, limits): (u32, BusinessCard, Limits),
        effects: &mut Vec<CentralEffect>,
    ) {
        let (one, number) = (&progress.one, progress.number);
        let since = self.moves.since().unwrap_or(now);
        let before = self.ranks.instance(one.rank);
        effects.push(CentralEffect::Persist(Record::Moved {
            number,
            moved: one.clone(),
            card: Box::new(card.clone()),
        }));
        self.moves.moved(one.rank);
        self.has_moved(number, one);
        self.ranks.arrived(one.rank, (pid, card, limits));
        effects.push(CentralEffect::Moved {
            number,
            rank: one.rank,
            to: one.to,
        });
        self.tell_moved(one.rank, effects);
        let vacate = ToLocal::Vacate { instance: before };
        effects.push(CentralEffect::Send(one.from, vacate));
        effects.push(CentralEffect::Event(Event::Moved {
            rank: one.rank,
            from: self.hosts.name(one.from),
            to: self.hosts.name(one.to),
            incarnation: one.incarnation,
            took: now.0.saturating_sub(since.0),
            pause: now.0.saturating_sub(progress.stops_since.unwrap_or(now).0),
            copies: progress.copies.0,
            copied: progress.copied,
        }));
        self.moves_ended(now, effects);
    }
}
