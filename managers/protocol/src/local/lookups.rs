//! A large job: ranks start without the table, and ask for the cards that they need.

use super::exits::ExitHandler;
use super::host_lookups::HostLookups;
use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use crate::broadcast::Peer;
use crate::handler_keys::handler;
use crate::lookup::{self, Directory, LookupMessage};
use crate::manager_messages::{Cause, ProcessInstance, Stage};
use rejoin_channel_table::{BusinessCard, Generation, Incarnation, Rank};
use rejoin_wire::FromManager;
use rejoin_wire::ProcessMap;

handler! {
    /// Where ranks are, of which ranks and other managers ask.
    pub(super) LookupHandler of HostParts {
        changes { processes, lookups, out }
        reads { moves }
    }
    with {
        exits: ExitHandler { processes, out },
    }
}

impl LookupHandler<'_> {
    /// From here on the managers to ask are known. `false`: this host's ranks get the table, or the
    /// process map is of another job.
    pub fn opens_directory(&mut self, generation: Generation, process_map: &ProcessMap) -> bool {
        let Some(lookups) = self.lookups.as_mut() else {
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
        self.pass_on(wanted);
        true
    }

    /// A rank of this host has registered, maybe in a new generation.
    pub fn learn_of(&mut self, instance: ProcessInstance, card: BusinessCard) {
        let mut wanted = Vec::new();
        if let Some(directory) = self.directory() {
            let ProcessInstance {
                generation,
                rank,
                incarnation,
            } = instance;
            directory.learn(generation, rank, incarnation, card, &mut wanted);
        }
        self.pass_on(wanted);
    }

    /// A rank of this host asks where another is.
    pub fn looks_up(&mut self, instance: ProcessInstance, rank: Rank, least: Incarnation) {
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
                directory.request(self.out.now, instance.rank, rank, least, &mut wanted);
                return self.pass_on(wanted);
            }
            (None, _) => {
                format!("it asked where rank {rank} is before the start, or has the table")
            }
        };
        self.exits().fail(
            instance.rank,
            instance.incarnation,
            Cause::Misbehaved { why },
        );
    }

    /// Another manager asks, or answers.
    pub fn on_lookup(&mut self, from: Peer, message: LookupMessage) {
        let now = self.out.now;
        let mut wanted = Vec::new();
        match (self.directory(), &message) {
            (Some(directory), _) => directory.on_message(now, from, message, &mut wanted),
            // It knows of the start before this host.
            (None, LookupMessage::Where { .. }) => {
                let answer = self.own(&message);
                wanted.extend(answer.map(|answer| lookup::LookupEffect::Send(from, answer)));
            }
            (None, _) => {}
        }
        self.pass_on(wanted);
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
    pub fn request_again(&mut self) {
        let now = self.out.now;
        let mut wanted = Vec::new();
        if let Some(directory) = self.directory() {
            directory.tick(now, &mut wanted);
        }
        self.pass_on(wanted);
    }

    /// Where ranks are, once the managers to ask are known.
    pub fn directory(&mut self) -> Option<&mut Directory> {
        self.lookups.as_mut()?.directory()
    }

    /// Carries out what the directory wants.
    pub fn pass_on(&mut self, wanted: Vec<lookup::LookupEffect>) {
        for effect in wanted {
            match effect {
                lookup::LookupEffect::Send(to, message) => {
                    self.out.push(LocalEffect::LookUp(to, message))
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
                        self.out.push(LocalEffect::Ranks(to, card));
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
