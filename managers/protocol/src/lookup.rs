//! Look-ups of cards on demand, for a rank that does not have the whole table yet, or that needs
//! few peers.
//!
//! A local manager answers from its own data. Otherwise it asks the manager of the peer's host,
//! which has the card from the peer itself, and after that central. One question is under way for
//! each peer, however many ranks wait for the answer. The incarnation decides: an answer that is
//! older than the asker needs, or than the known card, does not count.

use crate::broadcast::Peer;
use crate::manager_messages::Time;
use rejoin_channel_table::{BusinessCard, Generation, Incarnation, Rank};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Milliseconds to the next question when none was answered; doubled `SLOWEST` times at most.
pub const PATIENCE: u64 = 100;
/// How often the time between two questions is doubled.
const SLOWEST: u32 = 6;

/// Questions and answers between managers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LookupMessage {
    /// Where is this rank?
    Where {
        /// The job's generation.
        generation: Generation,
        /// The rank whose card is wanted.
        rank: Rank,
        /// No older incarnation will do.
        least: Incarnation,
    },
    /// The rank is here.
    Here {
        /// The job's generation.
        generation: Generation,
        /// The rank of the card.
        rank: Rank,
        /// Incarnation of that rank.
        incarnation: Incarnation,
        /// Where it listens.
        card: BusinessCard,
    },
    /// This side does not know, or no incarnation as late as that.
    Unknown {
        /// The job's generation.
        generation: Generation,
        /// The rank whose card is unknown.
        rank: Rank,
    },
}

/// An effect of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupEffect {
    /// Send this to a manager.
    Send(Peer, LookupMessage),
    /// Tell these ranks of this host where a rank is.
    Tell(Vec<Rank>, Rank, Incarnation, BusinessCard),
}

/// A question under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    least: Incarnation,
    /// Ranks of this host that wait.
    askers: BTreeSet<Rank>,
    tries: u32,
    due: Time,
}

/// The cards that a manager knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Directory {
    me: Peer,
    generation: Generation,
    /// For each rank its host's position.
    places: Arc<[usize]>,
    known: BTreeMap<Rank, (Incarnation, Arc<BusinessCard>)>,
    questions: BTreeMap<Rank, Question>,
}

impl Directory {
    /// Of central (`None`) or the host at a position; for each rank its host's position.
    #[must_use]
    pub fn new(me: Peer, places: Arc<[usize]>) -> Directory {
        Directory {
            me,
            generation: Generation(0),
            places,
            known: BTreeMap::new(),
            questions: BTreeMap::new(),
        }
    }

    /// For each rank its host's position from now on: other managers are asked next. A size that is
    /// not the job's changes nothing.
    pub fn place(&mut self, places: Arc<[usize]>) {
        if places.len() == self.places.len() {
            self.places = places;
        }
    }

    /// When [`Directory::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.questions.values().map(|q| q.due).min()
    }

    /// A new generation: drops all cards and all waiting ranks.
    pub fn renew(&mut self, generation: Generation) {
        if generation > self.generation {
            self.generation = generation;
            self.known.clear();
            self.questions.clear();
        }
    }

    /// Learns the card of a rank that registered or is in a table, unless a later incarnation is
    /// known.
    pub fn learn(
        &mut self,
        generation: Generation,
        rank: Rank,
        incarnation: Incarnation,
        card: impl Into<Arc<BusinessCard>>,
        effects: &mut Vec<LookupEffect>,
    ) {
        self.renew(generation);
        let known = self.known.get(&rank).is_some_and(|k| k.0 >= incarnation);
        if generation < self.generation || known || rank.index() >= self.places.len() {
            return;
        }
        let card = card.into();
        self.known.insert(rank, (incarnation, Arc::clone(&card)));
        let answers = |q: &Question| q.least <= incarnation;
        if self.questions.get(&rank).is_some_and(answers)
            && let Some(question) = self.questions.remove(&rank)
        {
            let to = question.askers.into_iter().collect();
            let card = BusinessCard::clone(&card);
            effects.push(LookupEffect::Tell(to, rank, incarnation, card));
        }
    }

    /// A rank of this host needs to know where another is, in no older incarnation than this.
    pub fn request(
        &mut self,
        now: Time,
        asker: Rank,
        rank: Rank,
        least: Incarnation,
        effects: &mut Vec<LookupEffect>,
    ) {
        if let Some((incarnation, card)) = self.at_least(rank, least) {
            effects.push(LookupEffect::Tell(vec![asker], rank, incarnation, card));
            return;
        }
        let size = self.places.len();
        if rank.index() >= size || asker.index() >= size {
            return;
        }
        let under_way = self.questions.contains_key(&rank);
        let question = self.questions.entry(rank).or_insert_with(|| Question {
            least,
            askers: BTreeSet::new(),
            tries: 0,
            due: now.plus_millis(PATIENCE),
        });
        let later = least > question.least;
        question.least = question.least.max(least);
        question.askers.insert(asker);
        if !under_way || later {
            self.send(rank, effects);
        }
    }

    /// Another manager says this.
    pub fn on_message(
        &mut self,
        now: Time,
        from: Peer,
        message: LookupMessage,
        effects: &mut Vec<LookupEffect>,
    ) {
        match message {
            LookupMessage::Where {
                generation,
                rank,
                least,
            } => {
                let known = self.at_least(rank, least);
                let known = known.filter(|_| generation == self.generation);
                let answer = match known {
                    Some((incarnation, card)) => LookupMessage::Here {
                        generation,
                        rank,
                        incarnation,
                        card,
                    },
                    None => LookupMessage::Unknown { generation, rank },
                };
                effects.push(LookupEffect::Send(from, answer));
            }
            // An answer begins no generation.
            LookupMessage::Here {
                generation,
                rank,
                incarnation,
                card,
            } if generation == self.generation => {
                self.learn(generation, rank, incarnation, card, effects);
            }
            // The peer's manager does not know the card: ask central at once. If central does not
            // know it either, ask later.
            LookupMessage::Unknown { generation, rank } if generation == self.generation => {
                if let Some(question) = self.questions.get_mut(&rank)
                    && from.is_some()
                    && question.tries == 0
                {
                    self.again(now, rank, effects);
                }
            }
            LookupMessage::Here { .. } | LookupMessage::Unknown { .. } => {}
        }
    }

    /// The deadline may have come.
    pub fn tick(&mut self, now: Time, effects: &mut Vec<LookupEffect>) {
        let due = self.questions.iter().filter(|(_, q)| q.due <= now);
        let due: Vec<Rank> = due.map(|(rank, _)| *rank).collect();
        for rank in due {
            self.again(now, rank, effects);
        }
    }

    fn at_least(&self, rank: Rank, least: Incarnation) -> Option<(Incarnation, BusinessCard)> {
        let known = self.known.get(&rank);
        let (incarnation, card) = known.filter(|known| known.0 >= least)?;
        Some((*incarnation, BusinessCard::clone(card)))
    }

    fn again(&mut self, now: Time, rank: Rank, effects: &mut Vec<LookupEffect>) {
        if let Some(question) = self.questions.get_mut(&rank) {
            question.tries = question.tries.saturating_add(1);
            question.due = now.plus_millis(PATIENCE << question.tries.min(SLOWEST));
            self.send(rank, effects);
        }
    }

    /// The peer's manager and central in turn.
    fn send(&self, rank: Rank, effects: &mut Vec<LookupEffect>) {
        let place = self.places.get(rank.index());
        let (Some(question), Some(&host)) = (self.questions.get(&rank), place) else {
            return;
        };
        let peer = Some(host).filter(|_| question.tries.is_multiple_of(2) && Some(host) != self.me);
        let ask = LookupMessage::Where {
            generation: self.generation,
            rank,
            least: question.least,
        };
        effects.push(LookupEffect::Send(peer, ask));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATION: Generation = Generation(3);

    fn card(pid: u32) -> BusinessCard {
        BusinessCard {
            pid,
            ..BusinessCard::default()
        }
    }

    /// Rank 0 on host 0, rank 1 on host 1; the first knows nothing.
    fn host() -> Directory {
        let mut host = Directory::new(Some(0), Arc::new([0, 1]));
        host.renew(GENERATION);
        host
    }

    fn here(incarnation: u32) -> LookupMessage {
        LookupMessage::Here {
            generation: GENERATION,
            rank: Rank(1),
            incarnation: Incarnation(incarnation),
            card: card(incarnation),
        }
    }

    #[test]
    fn one_question_goes_to_the_peers_manager_then_to_central() {
        let (mut host, mut effects) = (host(), Vec::new());
        let ask = |least| LookupMessage::Where {
            generation: GENERATION,
            rank: Rank(1),
            least: Incarnation(least),
        };
        host.request(Time(0), Rank(0), Rank(1), Incarnation(2), &mut effects);
        host.request(Time(0), Rank(0), Rank(1), Incarnation(1), &mut effects);
        assert_eq!(effects, [LookupEffect::Send(Some(1), ask(2))]);
        effects.clear();
        let unknown = LookupMessage::Unknown {
            generation: GENERATION,
            rank: Rank(1),
        };
        host.on_message(Time(0), Some(1), unknown.clone(), &mut effects);
        assert_eq!(effects, [LookupEffect::Send(None, ask(2))]);
        effects.clear();
        host.on_message(Time(0), None, unknown, &mut effects);
        assert_eq!(effects, [], "not at once again");
        let at = host.deadline().expect("it waits");
        host.tick(at, &mut effects);
        assert_eq!(effects, [LookupEffect::Send(Some(1), ask(2))]);
        effects.clear();
        host.on_message(at, Some(1), here(1), &mut effects);
        assert_eq!(effects, [], "too old");
        host.on_message(at, Some(1), here(2), &mut effects);
        let told = LookupEffect::Tell(vec![Rank(0)], Rank(1), Incarnation(2), card(2));
        assert_eq!(effects, [told]);
        assert_eq!(host.deadline(), None);
    }

    #[test]
    fn what_is_known_is_answered_and_never_gets_older() {
        let (mut host, mut effects) = (host(), Vec::new());
        host.on_message(Time(0), None, here(4), &mut effects);
        host.on_message(Time(0), None, here(3), &mut effects);
        host.request(Time(0), Rank(0), Rank(1), Incarnation(0), &mut effects);
        let told = LookupEffect::Tell(vec![Rank(0)], Rank(1), Incarnation(4), card(4));
        assert_eq!(effects, [told]);
        effects.clear();
        host.renew(Generation(4));
        host.on_message(Time(0), None, here(9), &mut effects);
        host.request(Time(0), Rank(0), Rank(1), Incarnation(0), &mut effects);
        assert!(
            matches!(effects[..], [LookupEffect::Send(Some(1), _)]),
            "of an older generation"
        );
    }

    #[test]
    fn forged_ranks_take_no_room() {
        let (mut host, mut effects) = (host(), Vec::new());
        host.request(
            Time(0),
            Rank(0),
            Rank(u32::MAX),
            Incarnation(0),
            &mut effects,
        );
        host.learn(GENERATION, Rank(7), Incarnation(0), card(0), &mut effects);
        assert_eq!((effects.len(), host.known.len()), (0, 0));
        assert_eq!(host.deadline(), None);
    }
}
