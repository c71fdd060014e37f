//! A large job: ranks start without the table, and ask for the cards that they need.

use super::host_lookups::HostLookups;
use super::host_state::Local;
use super::inputs::LocalEffect;
use crate::broadcast::Peer;
use crate::lookup::{self, Directory, LookupMessage};
use crate::manager_messages::{Cause, ProcessInstance, Stage, Time};
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, Rank};
use rejoin_wire::FromManager;
use rejoin_wire::ProcessMap;
use std::sync::Arc;

impl Local {
    /// Ranks of this host look cards up, in a job of so many ranks. `position` is the place of this
    /// host in the tree; without a tree, any number.
    pub fn use_lookups(&mut self, position: usize, size: u32) {
        self.lookups = Some(HostLookups::new(Some(position), size));
    }

    /// All ranks have registered: those that wait for that continue, the table may come later.
    pub(super) fn begin_without_table(
        &mut self,
        generation: Generation,
        process_map: ProcessMap,
        image: Option<Epoch>,
        effects: &mut Vec<LocalEffect>,
    ) {
        if self.opens_directory(generation, &process_map, effects) {
            let cards = self.processes.iter();
            let cards = cards.filter_map(|p| Some((p.instance().rank, p.card()?.clone())));
            let begin = FromManager::Begin {
                generation,
                process_map,
                cards: cards.collect(),
                image,
            };
            self.start(begin, effects);
        }
    }

    /// The table is there.
    pub(super) fn take_table(
        &mut self,
        generation: Generation,
        table: Vec<(Incarnation, Arc<BusinessCard>)>,
        image: Option<Epoch>,
        effects: &mut Vec<LocalEffect>,
    ) {
        let fits = |l: &HostLookups| table.len() == l.size() as usize;
        if !self.lookups.as_ref().is_some_and(fits) {
            let own = |(incarnation, card)| (incarnation, Arc::unwrap_or_clone(card));
            let start = FromManager::Start {
                generation,
                table: table.into_iter().map(own).collect(),
                image,
            };
            return self.start(start, effects);
        }
        if self.processes.iter().any(|process| process.waits()) {
            // For data that is not in the table, other hosts should ask central.
            let process_map = ProcessMap::of(&table, |_| usize::MAX);
            self.begin_without_table(generation, process_map, image, effects);
        }
        let mut wanted = Vec::new();
        if let Some(directory) = self.directory() {
            for (rank, (incarnation, card)) in (0..).map(Rank).zip(table) {
                directory.learn(generation, rank, incarnation, card, &mut wanted);
            }
        }
        self.pass_on(wanted, effects);
        if let Some(lookups) = &mut self.lookups {
            lookups.completed(generation);
        }
    }

    /// Ranks of this host have begun, and the table of their generation has not come.
    pub(super) fn lacks_table(&self) -> bool {
        let generation = self.processes.generation();
        let lookups = self.lookups.as_ref();
        lookups.is_some_and(|lookups| lookups.lacks_table(generation))
    }

    /// From here on the managers to ask are known. `false`: this host's ranks get the table, or the
    /// process map is of another job.
    fn opens_directory(
        &mut self,
        generation: Generation,
        process_map: &ProcessMap,
        effects: &mut Vec<LocalEffect>,
    ) -> bool {
        let Some(lookups) = &mut self.lookups else {
            return false;
        };
        let Some(directory) = lookups.open(process_map) else {
            return false;
        };
        // Also if no rank of this host has a card that counts yet.
        directory.renew(generation);
        let mut wanted = Vec::new();
        for process in self.processes.iter() {
            let ProcessInstance {
                rank, incarnation, ..
            } = process.instance();
            let card = process.card().filter(|_| !self.moves.is_arrival(rank));
            if let Some(card) = card.cloned() {
                directory.learn(generation, rank, incarnation, card, &mut wanted);
            }
        }
        self.pass_on(wanted, effects);
        true
    }

    /// A rank of this host has registered, maybe in a new generation.
    pub(super) fn learn_of(
        &mut self,
        instance: ProcessInstance,
        card: BusinessCard,
        effects: &mut Vec<LocalEffect>,
    ) {
        let mut wanted = Vec::new();
        if let Some(directory) = self.directory() {
            let ProcessInstance {
                generation,
                rank,
                incarnation,
            } = instance;
            directory.learn(generation, rank, incarnation, card, &mut wanted);
        }
        self.pass_on(wanted, effects);
    }

    /// A rank of this host asks where another is.
    pub(super) fn looks_up(
        &mut self,
        now: Time,
        instance: ProcessInstance,
        rank: Rank,
        least: Incarnation,
        effects: &mut Vec<LocalEffect>,
    ) {
        let process = self.processes.find(instance.rank, instance.incarnation);
        let Some(process) = process.filter(|process| !process.state().is_retiring()) else {
            return;
        };
        let begun = process.stage() >= Stage::Registered && !process.waits();
        let mut wanted = Vec::new();
        let lookups = self.lookups.as_mut().filter(|_| begun);
        let size = lookups.as_ref().map(|lookups| lookups.size());
        let why = match (lookups.and_then(HostLookups::directory), size) {
            (_, Some(size)) if rank.0 >= size => {
                format!("it asked where rank {rank} is, in a job of {size}")
            }
            (Some(directory), _) => {
                directory.ask(now, instance.rank, rank, least, &mut wanted);
                return self.pass_on(wanted, effects);
            }
            (None, _) => {
                format!("it asked where rank {rank} is before the start, or has the table")
            }
        };
        self.fail(
            instance.rank,
            instance.incarnation,
            Cause::Misbehaved { why },
            effects,
        );
    }

    /// Another manager asks, or answers.
    pub(super) fn hear_lookup(
        &mut self,
        now: Time,
        from: Peer,
        message: LookupMessage,
        effects: &mut Vec<LocalEffect>,
    ) {
        let mut wanted = Vec::new();
        match (self.directory(), &message) {
            (Some(directory), _) => directory.hear(now, from, message, &mut wanted),
            // It knows of the start before this host.
            (None, LookupMessage::Where { .. }) => {
                let answer = self.own(&message);
                wanted.extend(answer.map(|answer| lookup::LookupEffect::Send(from, answer)));
            }
            (None, _) => {}
        }
        self.pass_on(wanted, effects);
    }

    /// The answer from this host's own data.
    fn own(&self, question: &LookupMessage) -> Option<LookupMessage> {
        let LookupMessage::Where {
            generation,
            rank,
            least,
        } = *question
        else {
            return None;
        };
        let known = self.processes.of(rank);
        let known = known.filter(|p| {
            generation == self.processes.generation() && p.instance().incarnation >= least
        });
        Some(
            match known.and_then(|p| Some((p.card()?.clone(), p.instance().incarnation))) {
                Some((card, incarnation)) => LookupMessage::Here {
                    generation,
                    rank,
                    incarnation,
                    card,
                },
                None => LookupMessage::Unknown { generation, rank },
            },
        )
    }

    /// Questions that were not answered are asked again.
    pub(super) fn ask_again(&mut self, now: Time, effects: &mut Vec<LocalEffect>) {
        let mut wanted = Vec::new();
        if let Some(directory) = self.directory() {
            directory.tick(now, &mut wanted);
        }
        self.pass_on(wanted, effects);
    }

    fn directory(&mut self) -> Option<&mut Directory> {
        self.lookups.as_mut()?.directory()
    }

    fn pass_on(&self, wanted: Vec<lookup::LookupEffect>, effects: &mut Vec<LocalEffect>) {
        for effect in wanted {
            match effect {
                lookup::LookupEffect::Send(to, message) => {
                    effects.push(LocalEffect::LookUp(to, message))
                }
                lookup::LookupEffect::Tell(mut to, rank, incarnation, card) => {
                    // A rank that was restored meanwhile asks again.
                    to.retain(|asker| self.has_begun(*asker));
                    if !to.is_empty() {
                        let card = FromManager::Card {
                            generation: self.processes.generation(),
                            rank,
                            incarnation,
                            card,
                        };
                        effects.push(LocalEffect::Ranks(to, card));
                    }
                }
            }
        }
    }

    fn has_begun(&self, rank: Rank) -> bool {
        let process = self.processes.of(rank);
        process.is_some_and(|process| process.has_begun())
    }
}
