//! Ranks that leave this host while the job runs, and updates about ranks that have moved or come
//! back.
//!
//! A rank that is to move first takes images while it runs, which the other host loads
//! ([`ToLocal::Load`]). Each has a number of its own, goes to a file, and refers to the one before.
//! Then the rank stops at a safe point with a last one. It waits there until its successor has
//! registered on the other host ([`ToLocal::Vacate`]), or the move is given up ([`ToLocal::Stay`]).

use super::host_state::{Local, LocalPhase};
use super::inputs::LocalEffect;
use super::move_images::OrderedImage;
use super::rank_messages::one_line;
use super::rank_process::RankProcess;
use crate::manager_messages::{
    ImageMessage, MoveMessage, ProcessInstance, ProcessMessage, Time, ToCentral, ToLocal,
};
use rejoin_channel_table::{BusinessCard, Generation, ImageId, MoveNumber, Rank};
use rejoin_wire::FromManager;

impl Local {
    /// An order about ranks that move or have moved.
    pub(super) fn order_of_move(
        &mut self,
        now: Time,
        order: ToLocal,
        effects: &mut Vec<LocalEffect>,
    ) {
        let present = self.processes.generation();
        match order {
            ToLocal::Move {
                instance,
                number,
                base,
                stops,
            } => {
                let image = OrderedImage {
                    number,
                    base,
                    stops,
                };
                self.begin_move(instance, image, effects);
            }
            ToLocal::Load {
                generation,
                rank,
                number,
                holder,
            } if generation >= present => self.load(rank, number, holder, effects),
            ToLocal::Stay { instance, number } => self.stay(instance, number, effects),
            ToLocal::Vacate { instance } => self.vacate(now, instance, effects),
            ToLocal::Update { instance, card } if instance.generation == present => {
                self.update(instance, card, effects);
            }
            // Stale news of an older generation.
            _ => {}
        }
    }

    /// A rank is about to move here: its image of this number is loaded ahead.
    fn load(
        &mut self,
        rank: Rank,
        number: MoveNumber,
        holder: Option<usize>,
        effects: &mut Vec<LocalEffect>,
    ) {
        match self.phase {
            LocalPhase::Idle | LocalPhase::Running => {
                self.moves.load(rank);
                effects.push(LocalEffect::Load(rank, number, holder));
            }
            _ => {
                let why = "the job ends on its host".to_string();
                self.not_loaded(rank, number, why, effects);
            }
        }
    }

    /// A rank does not move here: drops what is loaded of it.
    pub(super) fn unload(&mut self, rank: Rank, effects: &mut Vec<LocalEffect>) {
        self.moves.unload(rank);
        effects.push(LocalEffect::Unload(rank));
    }

    /// The image of a rank that is to move here is loaded.
    pub(super) fn loaded(
        &self,
        rank: Rank,
        number: MoveNumber,
        bytes: u64,
        effects: &mut Vec<LocalEffect>,
    ) {
        let loaded = ToCentral::Move(MoveMessage::Loaded {
            rank,
            number,
            bytes,
        });
        self.tell(loaded, effects);
    }

    /// The image of a rank that is to move here can't be loaded.
    pub(super) fn not_loaded(
        &self,
        rank: Rank,
        number: MoveNumber,
        why: String,
        effects: &mut Vec<LocalEffect>,
    ) {
        let why = one_line(&why);
        let not_loaded = ToCentral::Move(MoveMessage::NotLoaded { rank, number, why });
        self.tell(not_loaded, effects);
    }

    /// This process is to take such an image, which goes to a file.
    fn begin_move(
        &mut self,
        instance: ProcessInstance,
        image: OrderedImage,
        effects: &mut Vec<LocalEffect>,
    ) {
        let OrderedImage { number, stops, .. } = image;
        let ProcessInstance {
            generation,
            rank,
            incarnation,
        } = instance;
        let is_present = generation == self.processes.generation();
        let runs = is_present && self.phase == LocalPhase::Running;
        let process = self.processes.find(rank, incarnation);
        if !runs || !process.is_some_and(|process| process.has_begun()) {
            let why = "it does not run".to_string();
            let refusal = ToCentral::Image(ImageMessage::NotTaken {
                instance,
                image: ImageId::Move(number),
                why,
                outlives: false,
            });
            return self.tell(refusal, effects);
        }
        self.moves.order(rank, image);
        let order = FromManager::Move {
            generation,
            number,
            stops,
        };
        effects.push(LocalEffect::Ranks(vec![rank], order));
    }

    /// The images with which ranks move whose files are being written: rank, number, and whether it
    /// is the first one, with all memory.
    pub fn files_of_moves(&self) -> impl Iterator<Item = (Rank, MoveNumber, bool)> {
        let written = |(rank, image): &(Rank, OrderedImage)| {
            self.images
                .is_being_written(*rank, ImageId::Move(image.number))
        };
        let latest = self.moves.all_latest().filter(written);
        latest.map(|(rank, image)| (rank, image.number, image.base.is_none()))
    }

    /// This process continues here.
    fn stay(
        &mut self,
        instance: ProcessInstance,
        number: MoveNumber,
        effects: &mut Vec<LocalEffect>,
    ) {
        let ProcessInstance {
            generation,
            rank,
            incarnation,
        } = instance;
        let latest = self.drop_images_of_move(rank, effects);
        let number = latest.unwrap_or(number);
        let process = self.processes.find(rank, incarnation);
        if process.is_some_and(|process| process.has_begun()) {
            let order = FromManager::Stay { generation, number };
            effects.push(LocalEffect::Ranks(vec![rank], order));
        }
    }

    /// Drops the images with which a rank has moved, or does not move. Returns the number of the
    /// latest.
    pub(super) fn drop_images_of_move(
        &mut self,
        rank: Rank,
        effects: &mut Vec<LocalEffect>,
    ) -> Option<MoveNumber> {
        let numbers = self.moves.take(rank);
        for number in &numbers {
            let image = ImageId::Move(*number);
            self.images.remove(rank, image);
            effects.push(LocalEffect::DropImage(rank, image));
        }
        numbers.first().copied()
    }

    /// A rank is not on this host any more.
    fn vacate(&mut self, now: Time, instance: ProcessInstance, effects: &mut Vec<LocalEffect>) {
        let rank = instance.rank;
        // Of a later order, it is here again.
        if self.ordered(rank) > Some(instance.incarnation) {
            return self.tell(ProcessMessage::Vacated { instance }, effects);
        }
        self.restore.forget(rank);
        self.unload(rank, effects);
        self.drop_images_of_move(rank, effects);
        let Some(process) = self.processes.of_mut(rank) else {
            self.drop_arrival(rank, effects);
            return self.tell(ProcessMessage::Vacated { instance }, effects);
        };
        process.set_leaves_host(true);
        let incarnation = process.instance().incarnation;
        if process.state_mut().retire(now) {
            effects.push(LocalEffect::Retire(rank, incarnation));
        }
        self.leave_vacated(effects);
    }

    /// Forgets processes that have made room for a successor on another host, and ends them.
    pub(super) fn leave_vacated(&mut self, effects: &mut Vec<LocalEffect>) {
        let has_left = |p: &&RankProcess| p.leaves_host() && p.state().has_made_room();
        let left = self.processes.iter().filter(has_left);
        let left: Vec<ProcessInstance> = left.map(RankProcess::instance).collect();
        for instance in left {
            self.processes.remove(instance.rank);
            effects.push(LocalEffect::Discard(instance.rank, instance.incarnation));
            self.drop_arrival(instance.rank, effects);
            effects.push(LocalEffect::HasLeft(instance.rank));
            self.tell(ProcessMessage::Vacated { instance }, effects);
        }
    }

    /// Drops the image with which a rank has come, or was to come, if it is still there: no
    /// checkpoint has it.
    fn drop_arrival(&mut self, rank: Rank, effects: &mut Vec<LocalEffect>) {
        let arrival = self.moves.take_arrival(rank).map(ImageId::Move);
        if let Some(image) = arrival.filter(|image| self.images.remove(rank, *image)) {
            effects.push(LocalEffect::DropImage(rank, image));
        }
    }

    /// A rank has moved or come back. Those of this host learn of it, unless they wait for the
    /// table, which has it.
    fn update(
        &mut self,
        instance: ProcessInstance,
        card: BusinessCard,
        effects: &mut Vec<LocalEffect>,
    ) {
        self.learn_of(instance, card.clone(), effects);
        let ProcessInstance {
            generation,
            rank,
            incarnation,
        } = instance;
        let concerned = |p: &&RankProcess| p.has_begun() && p.instance().rank != rank;
        let to = self.processes.iter().filter(concerned);
        let to: Vec<Rank> = to.map(|process| process.instance().rank).collect();
        let update = FromManager::Card {
            generation,
            rank,
            incarnation,
            card,
        };
        effects.push(LocalEffect::Ranks(to, update));
    }

    /// All ranks of this host have left it: rollbacks do not concern it, but it may have images. It
    /// enters this generation then, unless it is older.
    pub(super) fn has_only_images(&mut self, generation: Generation) -> bool {
        let runs = self.phase == LocalPhase::Running;
        let enters = runs && self.processes.is_empty() && generation > self.processes.generation();
        if enters {
            self.processes.enter(generation);
        }
        enters
    }
}
