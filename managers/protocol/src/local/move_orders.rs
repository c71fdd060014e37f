//! Ranks that leave this host while the job runs, and updates about ranks that have moved or come
//! back.
//!
//! A rank that is to move first takes images while it runs, which the other host loads
//! ([`RankMoveOrder::Load`]). Each has a number of its own, goes to a file, and refers to the one
//! before. Then the rank stops at a safe point with a last one. It waits there until its successor
//! has registered on the other host ([`RankMoveOrder::Vacate`]), or the move is given up
//! ([`RankMoveOrder::Stay`]).

use super::host_course::LocalPhase;
use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use super::local_out::one_line;
use super::lookups::LookupHandler;
use super::move_images::OrderedImage;
use super::rank_process::RankProcess;
use super::vacated::VacateHandler;
use crate::handler_keys::handler;
use crate::manager_messages::{
    ImageMessage, MoveMessage, ProcessInstance, ProcessMessage, RankMoveOrder, ToCentral,
};
use rejoin_channel_table::{BusinessCard, ImageId, MoveNumber, Rank};
use rejoin_wire::FromManager;

handler! {
    /// Ranks that leave this host or come to it.
    pub(super) MoveOrderHandler of HostParts {
        changes { processes, restore, moves, images, lookups, out }
        reads { course }
    }
    with {
        vacates: VacateHandler { processes, moves, images, out },
        lookups: LookupHandler { processes, moves, lookups, out },
    }
}

impl MoveOrderHandler<'_> {
    /// An order about a rank that moves.
    pub fn order(&mut self, order: RankMoveOrder) {
        match order {
            RankMoveOrder::Move {
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
                self.begin_move(instance, image);
            }
            RankMoveOrder::Load {
                generation,
                rank,
                number,
                holder,
            } => {
                // Not of an older generation.
                if generation >= self.processes.generation() {
                    self.load(rank, number, holder);
                }
            }
            RankMoveOrder::Unload { rank } => self.vacates().unload(rank),
            RankMoveOrder::Stay { instance, number } => self.stay(instance, number),
            RankMoveOrder::Vacate { instance } => self.vacate(instance),
        }
    }

    /// A rank is about to move here: its image of this number is loaded ahead.
    fn load(&mut self, rank: Rank, number: MoveNumber, holder: Option<usize>) {
        match self.course.phase {
            LocalPhase::Idle | LocalPhase::Running => {
                self.moves.load(rank);
                self.out.push(LocalEffect::Load(rank, number, holder));
            }
            _ => {
                let why = "the job ends on its host".to_string();
                self.not_loaded(rank, number, why);
            }
        }
    }

    /// The image of a rank that is to move here is loaded.
    pub fn loaded(&mut self, rank: Rank, number: MoveNumber, bytes: u64) {
        let loaded = ToCentral::Move(MoveMessage::Loaded {
            rank,
            number,
            bytes,
        });
        self.out.report(loaded);
    }

    /// The image of a rank that is to move here can't be loaded.
    pub fn not_loaded(&mut self, rank: Rank, number: MoveNumber, why: String) {
        let why = one_line(&why);
        let not_loaded = ToCentral::Move(MoveMessage::NotLoaded { rank, number, why });
        self.out.report(not_loaded);
    }

    /// This process is to take such an image, which goes to a file.
    fn begin_move(&mut self, instance: ProcessInstance, image: OrderedImage) {
        let OrderedImage { number, stops, .. } = image;
        let ProcessInstance {
            generation,
            rank,
            incarnation,
        } = instance;
        let is_present = generation == self.processes.generation();
        let runs = is_present && self.course.runs();
        let process = self.processes.find(rank, incarnation);
        if !runs || !process.is_some_and(|process| process.has_begun()) {
            let why = "it does not run".to_string();
            let refusal = ToCentral::Image(ImageMessage::NotTaken {
                instance,
                image: ImageId::Move(number),
                why,
                outlives: false,
            });
            return self.out.report(refusal);
        }
        self.moves.order(rank, image);
        let order = FromManager::Move {
            generation,
            number,
            stops,
        };
        self.out.push(LocalEffect::Ranks(vec![rank], order));
    }

    /// This process continues here.
    fn stay(&mut self, instance: ProcessInstance, number: MoveNumber) {
        let ProcessInstance {
            generation,
            rank,
            incarnation,
        } = instance;
        let latest = self.vacates().drop_images_of_move(rank);
        let number = latest.unwrap_or(number);
        let process = self.processes.find(rank, incarnation);
        if process.is_some_and(|process| process.has_begun()) {
            let order = FromManager::Stay { generation, number };
            self.out.push(LocalEffect::Ranks(vec![rank], order));
        }
    }

    /// A rank is not on this host any more.
    fn vacate(&mut self, instance: ProcessInstance) {
        let rank = instance.rank;
        // Of a later order, it is here again.
        if self.restore.latest(rank, self.processes) > Some(instance.incarnation) {
            return self.out.report(ProcessMessage::Vacated { instance });
        }
        self.restore.forget(rank);
        self.vacates().unload(rank);
        self.vacates().drop_images_of_move(rank);
        let Some(process) = self.processes.of_mut(rank) else {
            self.vacates().drop_arrival(rank);
            return self.out.report(ProcessMessage::Vacated { instance });
        };
        process.set_leaves_host(true);
        let incarnation = process.instance().incarnation;
        if process.state_mut().retire(self.out.now) {
            self.out.push(LocalEffect::Retire(rank, incarnation));
        }
        self.vacates().leave_vacated();
    }

    /// A rank has moved or come back. Those of this host learn of it, unless they wait for the
    /// table, which has it.
    pub fn update(&mut self, instance: ProcessInstance, card: BusinessCard) {
        if instance.generation != self.processes.generation() {
            return;
        }
        self.lookups().learn_of(instance, card.clone());
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
        self.out.push(LocalEffect::Ranks(to, update));
    }
}
