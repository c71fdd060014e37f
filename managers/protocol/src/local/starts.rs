//! All ranks have registered: those of this host begin, with the table or ahead of it.

use super::host_lookups::HostLookups;
use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use super::lookups::LookupHandler;
use crate::handler_keys::handler;
use crate::manager_messages::Stage;
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, Rank};
use rejoin_wire::{FromManager, ProcessMap};
use std::sync::Arc;

handler! {
    /// Ranks that begin.
    pub(super) StartHandler of HostParts {
        changes { processes, restore, lookups, out }
        reads { moves }
    }
    with {
        cards: LookupHandler { processes, moves, lookups, out },
    }
}

impl StartHandler<'_> {
    /// All ranks have registered: those that wait for that continue, the table may come later.
    pub fn begin_without_table(
        &mut self,
        generation: Generation,
        process_map: ProcessMap,
        image: Option<Epoch>,
    ) {
        if self.cards().opens_directory(generation, &process_map) {
            let cards = self.processes.iter();
            let cards = cards.filter_map(|p| Some((p.instance().rank, p.card()?.clone())));
            let of_table = process_map.clone();
            let begin = FromManager::Begin {
                generation,
                process_map,
                cards: cards.collect(),
                image,
            };
            self.start(begin, |rank| of_table.incarnation(rank));
        }
    }

    /// The table is there.
    pub fn take_table(
        &mut self,
        generation: Generation,
        table: Vec<(Incarnation, Arc<BusinessCard>)>,
        image: Option<Epoch>,
    ) {
        let fits = |l: &HostLookups| table.len() == l.size() as usize;
        if !self.lookups.as_ref().is_some_and(fits) {
            let of_table: Vec<Incarnation> = table.iter().map(|(i, _)| *i).collect();
            let own = |(incarnation, card)| (incarnation, Arc::unwrap_or_clone(card));
            let start = FromManager::Start {
                generation,
                table: table.into_iter().map(own).collect(),
                image,
            };
            return self.start(start, |rank| of_table.get(rank.index()).copied());
        }
        if self.processes.iter().any(|process| process.waits()) {
            // For data that is not in the table, other hosts should ask central.
            let process_map = ProcessMap::of(&table, |_| usize::MAX);
            self.begin_without_table(generation, process_map, image);
        }
        let mut wanted = Vec::new();
        if let Some(directory) = self.cards().directory() {
            for (rank, (incarnation, card)) in (0..).map(Rank).zip(table) {
                directory.learn(generation, rank, incarnation, card, &mut wanted);
            }
        }
        self.cards().pass_on(wanted);
        if let Some(lookups) = self.lookups.as_mut() {
            lookups.completed(generation);
        }
    }

    /// Every rank has registered: those that wait for that continue, unless the table has another
    /// incarnation of them. Such a process is of a move, or comes back, and has its turn later.
    fn start(&mut self, start: FromManager, of_table: impl Fn(Rank) -> Option<Incarnation>) {
        let mut to = self
            .processes
            .listening(&[Stage::Registered, Stage::Finalizing]);
        to.retain(|rank| {
            let process = self.processes.of_mut(*rank);
            let meant = process.filter(|p| of_table(*rank) == Some(p.instance().incarnation));
            meant.is_some_and(|process| process.stop_waiting())
        });
        self.out.push(LocalEffect::Ranks(to, start));
        self.discard_retired();
    }

    /// Ends the processes whose successors have all begun; until then that would only keep the
    /// cores busy with taking down memory.
    fn discard_retired(&mut self) {
        for (rank, incarnation) in self.restore.take_retired() {
            self.out.push(LocalEffect::Discard(rank, incarnation));
        }
    }
}
