//! Central's part of look-ups: ranks of a large job begin ahead of the table, and central answers
//! for local managers that do not know a card.
//!
//! The directory has what central has last told: each table of a start, and each update. So a
//! central manager that was started again knows a card as soon as it tells any host of it. A rank's
//! place says only who is asked first. It may be of a host that is lost, or that the rank has left:
//! the next question goes to central.

use crate::broadcast::Peer;
use crate::lookup::{Directory, LookupEffect, LookupMessage};
use crate::manager_messages::{ProcessInstance, Time, ToLocal};
use rejoin_channel_table::{BusinessCard, Rank};
use rejoin_wire::ProcessMap;
use std::sync::Arc;

/// The cards that central has told, and which manager is asked for each first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CentralLookups {
    directory: Directory,
    /// For each rank the number by which managers know that of its host.
    places: Arc<[usize]>,
}

impl CentralLookups {
    /// Knows no card yet. `places`: for each rank the number of its host's manager among all.
    #[must_use]
    pub fn new(places: Arc<[usize]>) -> CentralLookups {
        CentralLookups {
            directory: Directory::new(None, Arc::clone(&places)),
            places,
        }
    }

    /// From now on the ranks are on hosts whose managers have these numbers.
    pub fn place(&mut self, places: Arc<[usize]>) {
        self.directory.place(Arc::clone(&places));
        self.places = places;
    }

    /// A rank has moved or come back.
    pub fn update(&mut self, instance: ProcessInstance, card: &BusinessCard) {
        let ProcessInstance {
            generation,
            rank,
            incarnation,
        } = instance;
        // No rank waits here for an answer.
        let told = &mut Vec::new();
        self.directory
            .learn(generation, rank, incarnation, card.clone(), told);
    }

    /// Learns the table of a start. The order that goes ahead of it, or instead of it, with which
    /// ranks begin and ask. `None`: it is another order.
    pub fn ahead(&mut self, order: &ToLocal) -> Option<ToLocal> {
        let ToLocal::Start {
            generation,
            table,
            image,
        } = order
        else {
            return None;
        };
        for (rank, (incarnation, card)) in (0..).map(Rank).zip(table) {
            // No rank waits here for an answer.
            let (card, told) = (Arc::clone(card), &mut Vec::new());
            self.directory
                .learn(*generation, rank, *incarnation, card, told);
        }
        let place = |rank: usize| self.places.get(rank).copied().unwrap_or(usize::MAX);
        Some(ToLocal::Begin {
            generation: *generation,
            process_map: ProcessMap::of(table, place),
            image: *image,
        })
    }

    /// A manager asks where a rank is. The answer.
    pub fn answer(
        &mut self,
        now: Time,
        from: Peer,
        question: LookupMessage,
    ) -> Option<LookupMessage> {
        let mut effects = Vec::new();
        self.directory.on_message(now, from, question, &mut effects);
        effects.into_iter().find_map(|effect| match effect {
            LookupEffect::Send(to, answer) => (to == from).then_some(answer),
            LookupEffect::Tell(..) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::{Generation, Incarnation};

    fn card(pid: u32) -> BusinessCard {
        BusinessCard {
            pid,
            ..BusinessCard::default()
        }
    }

    fn start(generation: u32, incarnation: u32) -> ToLocal {
        let entry = |rank| (Incarnation(incarnation), Arc::new(card(rank)));
        ToLocal::Start {
            generation: Generation(generation),
            table: (0..3).map(entry).collect(),
            image: None,
        }
    }

    fn asks(central: &mut CentralLookups, generation: u32, least: u32) -> Option<LookupMessage> {
        let question = LookupMessage::Where {
            generation: Generation(generation),
            rank: Rank(2),
            least: Incarnation(least),
        };
        central.answer(Time(0), Some(0), question)
    }

    fn positions(order: &ToLocal) -> Vec<usize> {
        match order {
            ToLocal::Begin { process_map, .. } => process_map.positions(3).expect("of this job"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ranks_of_a_lost_host_begin_with_their_new_places() {
        let mut central = CentralLookups::new(Arc::new([0, 1, 1]));
        let began = central.ahead(&start(1, 0)).expect("a start");
        assert_eq!(positions(&began), [0, 1, 1]);
        central.place(Arc::new([0, 2, 3]));
        let began = central.ahead(&start(2, 1)).expect("a start");
        assert_eq!(positions(&began), [0, 2, 3]);
        let here =
            |answer: Option<LookupMessage>| matches!(answer, Some(LookupMessage::Here { .. }));
        assert!(here(asks(&mut central, 2, 1)));
        assert!(!here(asks(&mut central, 1, 0)), "of an earlier generation");
    }

    #[test]
    fn another_run_of_central_knows_what_it_tells_one_host() {
        let mut central = CentralLookups::new(Arc::new([0, 1, 1]));
        let unknown = LookupMessage::Unknown {
            generation: Generation(1),
            rank: Rank(2),
        };
        assert_eq!(asks(&mut central, 1, 0), Some(unknown));
        central.ahead(&start(1, 4));
        let here = |incarnation, pid| LookupMessage::Here {
            generation: Generation(1),
            rank: Rank(2),
            incarnation: Incarnation(incarnation),
            card: card(pid),
        };
        assert_eq!(asks(&mut central, 1, 4), Some(here(4, 2)));
        let moved = ProcessInstance {
            generation: Generation(1),
            rank: Rank(2),
            incarnation: Incarnation(5),
        };
        central.update(moved, &card(9));
        assert_eq!(asks(&mut central, 1, 4), Some(here(5, 9)));
    }
}
