//! What hosts say of moves that are under way, and the next step of each.

use super::rank_progress::{MoveProgress, MoveStage};
use crate::central::event::Event;
use crate::central::interface::{CentralEffect, HostIndex, Record};
use crate::central::moves::MoveHandler;
use crate::manager_messages::{
    Cause, ImageOrder, MoveMessage, MovedRank, ProcessInstance, ProcessMessage, RankMoveOrder,
    ToLocal,
};
use crate::verdict::Described;
use rejoin_channel_table::{BusinessCard, ImageId, MoveNumber, Rank};
use rejoin_wire::Limits;

impl MoveHandler<'_> {
    /// The image with which a rank moves is there. Of all images, only the latest counts.
    pub(in crate::central) fn taken(&mut self, rank: Rank, number: MoveNumber) {
        if self.moves.is_latest(rank, number) {
            self.moves.taken(rank);
        }
    }

    /// A rank can't take the image with which it would move.
    pub(in crate::central) fn not_taken(
        &mut self,
        host: HostIndex,
        instance: ProcessInstance,
        number: MoveNumber,
        why: &str,
    ) {
        if self.cluster.ranks.is_live(host, instance) {
            self.has_no_image(instance.rank, number, why);
        }
    }

    /// The image with which a rank was to move is gone, or is in no file.
    pub(in crate::central) fn has_no_image(&mut self, rank: Rank, number: MoveNumber, why: &str) {
        if self.moves.is_latest(rank, number) {
            self.give_up_move(rank, why);
        }
    }

    /// The image with which a rank moves is in a file.
    pub(in crate::central) fn stored(&mut self, host: HostIndex, rank: Rank, number: MoveNumber) {
        if self.moves.is_latest(rank, number) {
            self.image_is_there(host, rank);
        }
    }

    /// The host to which a rank moves reports about its copy, or either host how far it is.
    pub(in crate::central) fn move_message(&mut self, host: HostIndex, message: MoveMessage) {
        let now = self.out.now;
        match message {
            MoveMessage::Loaded {
                rank,
                number,
                bytes,
            } => {
                if self.moves.is_latest(rank, number) {
                    self.moves.loaded(now, (host, rank, number), bytes);
                }
            }
            MoveMessage::NotLoaded { rank, number, why } => {
                let progress = self.moves.of(rank);
                if progress.is_some_and(|p| p.is_loading(host, number)) {
                    self.has_no_image(rank, number, &why);
                }
            }
            MoveMessage::Bytes(bytes) => {
                if self.moves.is_latest(bytes.rank, bytes.number) {
                    self.moves.note_bytes(now, host, bytes);
                }
            }
        }
    }

    /// Takes a message about a process that is made on another host. Returns other messages.
    pub(in crate::central) fn arrival_message(
        &mut self,
        host: HostIndex,
        message: ProcessMessage,
    ) -> Option<ProcessMessage> {
        let Some(arriving) = self.moves.arriving(host, message.instance()) else {
            return Some(message);
        };
        let rank = arriving.one.rank;
        match message {
            ProcessMessage::Spawned { .. } => {}
            ProcessMessage::Registered {
                pid, card, limits, ..
            } => self.arrived(&arriving, (pid, card, limits)),
            ProcessMessage::ExitStatus { cause, .. } | ProcessMessage::Failed { cause, .. } => {
                let why = match cause {
                    Cause::NotStarted { why } => why,
                    other => Described(&other).to_string(),
                };
                self.give_up_move(rank, &why);
            }
            ProcessMessage::ExitDetected { .. } | ProcessMessage::Ended { .. } => {
                self.give_up_move(rank, "its new process has ended");
            }
            ProcessMessage::Vacated { .. }
            | ProcessMessage::Finalizing { .. }
            | ProcessMessage::Counters { .. } => return Some(message),
        }
        None
    }

    /// The rank's image is in a file. If the rank waits at it, the other host makes a process of
    /// it. Otherwise the other host loads it.
    fn image_is_there(&mut self, host: HostIndex, rank: Rank) {
        let now = self.out.now;
        let Some(progress) = self.moves.stored(now, host, rank) else {
            return;
        };
        let (one, number) = (&progress.one, progress.number);
        let generation = self.cluster.ranks.generation();
        if !self.cluster.hosts.begins(one.to) {
            self.begin_without_ranks(one.to, number);
        }
        let holder = self.cluster.copies_files().then_some(one.from);
        if progress.stage == MoveStage::Loading {
            let order = ToLocal::Move(RankMoveOrder::Load {
                generation,
                rank,
                number,
                holder,
            });
            self.out.send(one.to, order);
            return;
        }
        let moved = MovedRank {
            rank,
            holder,
            others: Vec::new(),
        };
        let ranks = vec![(rank, one.incarnation)];
        let image = ImageId::Move(number);
        self.cluster.order_restore(
            one.to,
            (Some(image), self.commits.regions.start()),
            ranks,
            vec![moved],
            self.out,
        );
    }

    /// A host gets its first order, and has no rank yet.
    fn begin_without_ranks(&mut self, host: HostIndex, number: MoveNumber) {
        let generation = self.cluster.ranks.generation();
        let checkpoints = self.commits.checkpoints();
        let begin = ToLocal::Spawn {
            generation,
            ranks: Vec::new(),
            from: None,
            regions: self.commits.regions.start(),
            moved: Vec::new(),
        };
        self.out.send(host, begin);
        let commit = ToLocal::Image(ImageOrder::Commit {
            generation,
            epochs: checkpoints.map(|c| c.epochs()).unwrap_or_default(),
            abandoned: number.after,
        });
        self.out.send(host, commit);
    }

    /// The new process has registered: from here on the rank is there.
    fn arrived(
        &mut self,
        progress: &MoveProgress,
        (pid, card, limits): (u32, BusinessCard, Limits),
    ) {
        let now = self.out.now;
        let (one, number) = (&progress.one, progress.number);
        let since = self.moves.since().unwrap_or(now);
        let before = self.cluster.ranks.instance(one.rank);
        self.out.persist(Record::Moved {
            number,
            moved: one.clone(),
            card: Box::new(card.clone()),
        });
        self.moves.moved(one.rank);
        self.cluster.has_moved(number, one, &mut self.commits.mode);
        self.cluster.ranks.arrived(one.rank, (pid, card, limits));
        self.out.push(CentralEffect::Moved {
            number,
            rank: one.rank,
            to: one.to,
        });
        self.notify_moved(one.rank);
        let vacate = ToLocal::Move(RankMoveOrder::Vacate { instance: before });
        self.out.send(one.from, vacate);
        self.out.event(Event::Moved {
            rank: one.rank,
            from: self.cluster.hosts.name(one.from),
            to: self.cluster.hosts.name(one.to),
            incarnation: one.incarnation,
            took: now.0.saturating_sub(since.0),
            pause: now.0.saturating_sub(progress.stops_since.unwrap_or(now).0),
            copies: progress.copies.0,
            copied: progress.copied,
        });
        self.moves_ended();
    }
}
