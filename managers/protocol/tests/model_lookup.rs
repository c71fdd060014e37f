//! Rank 0 asks where rank 1 is, first in any incarnation, then in the incarnation after a restart.
//! Central and the peer's manager learn of the restart at different times. Messages overtake each
//! other and are lost.

use rejoin_channel_table::{BusinessCard, Generation, Incarnation, Rank};
use rejoin_managers_protocol::broadcast::Peer;
use rejoin_managers_protocol::lookup::{Directory, LookupEffect, LookupMessage};
use rejoin_managers_protocol::manager_messages::Time;
use rejoin_tests::models::{soak, tell};
use stateright::{Checker, Model, Property};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

const GENERATION: Generation = Generation(1);
/// Whose rank asks, and whose is asked for.
const ASKER: usize = 0;
const PEERS: [Peer; 3] = [None, Some(ASKER), Some(1)];

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    /// Central's, then those of hosts 0 and 1.
    directories: Vec<Directory>,
    letters: Vec<(Peer, Peer, LookupMessage)>,
    /// Incarnations that central and host 1 do not know yet.
    news: [BTreeSet<u32>; 2],
    asks: BTreeSet<u32>,
    told: Vec<(u32, u32)>,
    asked: u32,
    losses: u8,
    early: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    Learn(usize, u32),
    Ask(u32),
    Arrive(usize),
    Lose(usize),
    Tick,
}

struct Job {
    losses: u8,
    early: u8,
}

impl State {
    fn perform(&mut self, me: Peer, effects: Vec<LookupEffect>) {
        for effect in effects {
            match effect {
                LookupEffect::Send(to, message) => {
                    let letter = (me, to, message);
                    if !self.letters.contains(&letter) {
                        self.letters.push(letter);
                    }
                }
                LookupEffect::Tell(_, _, incarnation, card) => {
                    assert_eq!(card.pid, incarnation.0, "a card of its incarnation");
                    self.told.push((self.asked, incarnation.0));
                }
            }
        }
        self.letters.sort_by_key(|letter| format!("{letter:?}"));
    }

    fn on(&mut self, peer: Peer, step: impl FnOnce(&mut Directory, &mut Vec<LookupEffect>)) {
        let mut effects = Vec::new();
        step(
            &mut self.directories[peer.map_or(0, |host| host + 1)],
            &mut effects,
        );
        self.perform(peer, effects);
    }
}

impl Model for Job {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let directory = |peer| {
            let mut directory = Directory::new(peer, Arc::new([0, 1]));
            directory.renew(GENERATION);
            directory
        };
        vec![State {
            directories: PEERS.map(directory).to_vec(),
            letters: Vec::new(),
            news: [BTreeSet::from([0, 1]), BTreeSet::from([0, 1])],
            asks: BTreeSet::from([0, 1]),
            told: Vec::new(),
            asked: 0,
            losses: self.losses,
            early: self.early,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, news) in state.news.iter().enumerate() {
            // In any order: news of a restart may overtake what was before it.
            actions.extend(news.iter().map(|n| Action::Learn(at, *n)));
        }
        actions.extend(state.asks.first().map(|least| Action::Ask(*least)));
        actions.extend((0..state.letters.len()).map(Action::Arrive));
        let rings = state.directories[ASKER + 1].deadline().is_some();
        if rings && (actions.is_empty() || state.early > 0) {
            actions.push(Action::Tick);
        }
        if state.losses > 0 {
            actions.extend((0..state.letters.len()).map(Action::Lose));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Learn(at, incarnation) => {
                state.news[at].remove(&incarnation);
                let card = BusinessCard {
                    pid: incarnation,
                    ..BusinessCard::default()
                };
                let peer = [None, Some(1)][at];
                state.on(peer, |d, effects| {
                    d.learn(GENERATION, Rank(1), Incarnation(incarnation), card, effects);
                });
            }
            Action::Ask(least) => {
                state.asks.remove(&least);
                state.asked = least;
                state.on(Some(ASKER), |d, effects| {
                    d.request(Time(0), Rank(0), Rank(1), Incarnation(least), effects);
                });
            }
            Action::Arrive(at) => {
                let (from, to, message) = state.letters.remove(at);
                state.on(to, |d, effects| {
                    d.on_message(Time(0), from, message, effects)
                });
            }
            Action::Lose(at) => {
                state.losses -= 1;
                state.letters.remove(at);
            }
            Action::Tick => {
                let quiet = state.letters.is_empty() && state.asks.is_empty();
                let quiet = quiet && state.news.iter().all(BTreeSet::is_empty);
                state.early -= u8::from(!quiet);
                state.on(Some(ASKER), |d, effects| {
                    if let Some(at) = d.deadline() {
                        d.tick(at, effects);
                    }
                });
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::eventually("rank 0 knows the newest", |_, s: &State| {
                s.told.contains(&(1, 1))
            }),
            Property::always("no answer is older than asked for", |_, s: &State| {
                s.told.iter().all(|(least, told)| told >= least)
            }),
            Property::always("nobody waits once all is known", |_, s: &State| {
                let done = s.asks.is_empty() && s.told.contains(&(1, 1));
                !done || s.directories[ASKER + 1].deadline().is_none()
            }),
            Property::always("few letters are on their way", |_, s: &State| {
                s.letters.len() <= 12
            }),
        ]
    }
}

#[test]
fn who_asks_learns_where_a_rank_is_now() {
    let job = Job {
        losses: 1 + soak(),
        early: 1 + soak(),
    };
    let begun = Instant::now();
    let checker = job.checker().threads(2).spawn_bfs().join();
    tell("look-up", begun, &checker, |_| String::new());
    checker.assert_properties();
}
