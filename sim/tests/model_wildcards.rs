//! Exhaustive check, with stateright, of wildcards and recovery groups on the code itself: engine,
//! table, handshake and resume of three ranks, each a group of its own.
//!
//! Two clients ask a server, which receives their questions from any source. It answers each with
//! its place in the order of all questions. So a client knows which order the server had. With
//! larger bounds the server takes images when it likes, and commits them later. Ranks crash at any
//! step, and each comes back alone from its last committed image, while the others go on. The
//! matches of the server's receives are stored before anything leaves it, and are repeated when it
//! comes back. The model checks that
//!
//! - no rank refuses what another one says, and no stored match is contradicted;
//! - every client always ends with the answers that belong to the server's order: nothing is lost,
//!   doubled or told in two ways;
//! - it finds a violation when matches are not stored, or only after something has left.
//!
//! Bounds: one or two questions of each client, one connection of a client at a time, whole writes.
//! `REJOIN_MODELS=soak` takes larger ones than `ci`. Without the variable only the searches for
//! violations run.

use std::collections::BTreeMap;
use std::time::Instant;

use rejoin_channel_table::{Epoch, Incarnation};
use rejoin_engine::WildMatch;
use rejoin_tests::models::{ci, soak, tell};
use stateright::{Checker, Model, Property};

mod server_and_clients;

use server_and_clients::{CLIENTS, Program, RANKS, Ranks, SERVER, Step, book, identity, rank};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    ranks: Ranks,
    images: [BTreeMap<Epoch, Program>; RANKS],
    committed: [Epoch; RANKS],
    taken: [Option<Epoch>; RANKS],
    incarnations: [u32; RANKS],
    /// Matches of the server, which outlive it.
    stored: BTreeMap<u64, WildMatch>,
    left: Budget,
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Budget {
    images: u8,
    crashes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Step(Step),
    TakeImage(usize),
    Commit(usize),
    Crash(usize),
    Back(usize),
}

/// What is switched off, to show that the model finds what it prevents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Matches are not stored.
    Store,
    /// They are stored after what depends on them has left.
    Order,
}

struct Setup {
    questions: usize,
    budget: Budget,
    /// Only the server crashes.
    server_only: bool,
    without: Without,
}

impl State {
    fn new(setup: &Setup) -> State {
        let image = || BTreeMap::from([(Epoch(1), Program::default())]);
        State {
            ranks: Ranks::new(|_| {}),
            images: std::array::from_fn(|_| image()),
            committed: [Epoch(1); RANKS],
            taken: [None; RANKS],
            incarnations: [0; RANKS],
            stored: BTreeMap::new(),
            left: setup.budget,
        }
    }

    /// All steps that the ranks make by themselves after an event.
    fn settle(&mut self, without: Without) {
        if without != Without::Order {
            self.store(without);
        }
        for number in 0..RANKS {
            if self.ranks.away[number] {
                continue;
            }
            self.ranks.settle(number);
            let keep = [Some(self.committed[number]), self.taken[number]];
            self.ranks.nodes[number].keep_images(|epoch| keep.contains(&Some(epoch)));
            self.images[number].retain(|epoch, _| keep.contains(&Some(*epoch)));
        }
    }

    /// Stores the server's matches.
    fn store(&mut self, without: Without) {
        if self.ranks.away[SERVER] {
            return;
        }
        let (stored, wrong) = (&mut self.stored, &mut self.ranks.wrong);
        self.ranks.nodes[SERVER].engine.store_wild_matches(|one| {
            if without != Without::Store {
                let before = stored.insert(one.number, one);
                if before.is_some_and(|before| before != one) {
                    *wrong = Some(format!("{before:?} is contradicted by {one:?}"));
                }
            }
            true
        });
    }

    fn crash(&mut self, number: usize) {
        self.ranks.lose(number);
        self.taken[number] = None;
    }

    fn take_image(&mut self, number: usize) {
        let epoch = Epoch(self.ranks.nodes[number].engine.epoch().0 + 1);
        self.ranks.nodes[number].enter(epoch);
        self.images[number].insert(epoch, self.ranks.programs[number].clone());
        self.taken[number] = Some(epoch);
    }

    fn commit(&mut self, number: usize) {
        if let Some(epoch) = self.taken[number].take() {
            self.committed[number] = epoch;
            self.ranks.nodes[number].commit(epoch);
        }
    }

    fn back(&mut self, number: usize) {
        self.incarnations[number] += 1;
        let (epoch, now) = (self.committed[number], self.incarnations);
        let node = self.ranks.nodes[number].rejoin(epoch, identity(number, now), book(now));
        let program = self.images[number].get(&epoch);
        let (Some(mut node), Some(program)) = (node, program) else {
            self.ranks.wrong = Some("a committed image is gone".into());
            return;
        };
        // Its commit was stored, whether or not the rank has told its peers.
        node.commit(epoch);
        if number == SERVER {
            // The image knows how many receives it had posted.
            node.engine
                .replay_wild_matches(self.stored.values().copied());
        }
        self.ranks.programs[number] = program.clone();
        self.ranks.nodes[number] = node;
        self.ranks.away[number] = false;
        for other in (0..RANKS).filter(|other| *other != number) {
            // One that is away gets the table as it comes back.
            if !self.ranks.away[other] {
                let told = self.ranks.nodes[other].update(rank(number), Incarnation(now[number]));
                self.ranks.wrong = self.ranks.wrong.take().or(told.err());
            }
        }
    }
}

/// What a client was told that contradicts the server, as far as that has got.
fn contradiction(ranks: &Ranks) -> Option<String> {
    let order = &ranks.programs[SERVER].seen;
    for client in CLIENTS {
        for place in &ranks.programs[client].seen {
            let who = order.get(usize::from(*place));
            if who.is_some_and(|who| usize::from(*who) != client) {
                return Some(format!("client {client} was told {place} of {order:?}"));
            }
        }
    }
    None
}

impl Model for Setup {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.ranks.wrong.is_some() {
            return;
        }
        for number in 0..RANKS {
            if state.ranks.away[number] {
                actions.push(Action::Back(number));
                continue;
            }
            if state.ranks.can_step(number, self.questions) {
                actions.push(Action::Step(Step::Program(number)));
            }
            if state.taken[number].is_some() {
                actions.push(Action::Commit(number));
            }
        }
        let steps = state.ranks.connection_steps(|_| true);
        actions.extend(steps.into_iter().map(Action::Step));
        if actions.is_empty() {
            let mut idle = state.clone();
            idle.ranks.make(Step::Idle, self.questions);
            idle.settle(self.without);
            if idle != *state {
                actions.push(Action::Step(Step::Idle));
            }
        }
        for number in (0..RANKS).filter(|number| !state.ranks.away[*number]) {
            if state.left.crashes > 0 && (number == SERVER || !self.server_only) {
                actions.push(Action::Crash(number));
            }
            if number == SERVER && state.left.images > 0 && state.taken[number].is_none() {
                actions.push(Action::TakeImage(number));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        if self.without == Without::Order && action == Action::Step(Step::Idle) {
            // What depends on them has left by now.
            next.store(self.without);
        }
        match action {
            Action::Step(step) => next.ranks.make(step, self.questions),
            Action::TakeImage(number) => {
                next.left.images -= 1;
                next.take_image(number);
            }
            Action::Commit(number) => next.commit(number),
            Action::Crash(number) => {
                next.left.crashes -= 1;
                next.crash(number);
            }
            Action::Back(number) => next.back(number),
        }
        next.settle(self.without);
        if next.ranks.wrong.is_none() {
            next.ranks.wrong = contradiction(&next.ranks);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nobody is told two orders", |_: &Setup, state: &State| {
                state.ranks.wrong.is_none()
            }),
            Property::always("what ends, ends well", |model: &Setup, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let over = actions.is_empty() && state.ranks.wrong.is_none();
                !over || state.ranks.verdict(model.questions).is_ok()
            }),
            Property::sometimes("either client is the first", |_: &Setup, s: &State| {
                s.ranks.programs[SERVER].seen.first() == Some(&2)
            }),
            Property::sometimes("all is done", |model: &Setup, s: &State| {
                let back = s.incarnations[SERVER] > 0 || model.budget.crashes == 0;
                let committed = s.committed[SERVER] != Epoch(1) || model.budget.images == 0;
                back && committed && s.ranks.verdict(model.questions).is_ok()
            }),
        ]
    }
}

fn check(name: &str, questions: usize, budget: Budget) {
    if ci() == 0 {
        return println!("{name}: only with REJOIN_MODELS=ci");
    }
    let begun = Instant::now();
    let setup = Setup {
        questions,
        budget,
        server_only: budget.images > 0,
        without: Without::Nothing,
    };
    let checker = setup.checker().spawn_dfs().join();
    tell(name, begun, &checker, |state| {
        let verdict = state.ranks.verdict(checker.model().questions);
        format!("{:?} {verdict:?}", state.ranks.wrong)
    });
    checker.assert_properties();
}

#[test]
fn ranks_crash_at_any_step() {
    let (images, crashes) = (0, 1);
    check("one question, no image", 1, Budget { images, crashes });
    if soak() > 0 {
        check("one question, an image", 1, Budget { images: 1, crashes });
        check("two questions", 2, Budget { images, crashes });
        let crashes = 2;
        check("two crashes", 1, Budget { images, crashes });
    }
}

/// The violation that the checker finds.
fn found(without: Without) -> String {
    let setup = Setup {
        questions: 1,
        budget: Budget {
            images: 0,
            crashes: 1,
        },
        server_only: true,
        without,
    };
    let checker = setup.checker().spawn_dfs().join();
    let told = checker.discovery("nobody is told two orders");
    let ended = checker.discovery("what ends, ends well");
    let state = told.or(ended).expect("a violation").last_state().clone();
    let verdict = state.ranks.verdict(checker.model().questions);
    state.ranks.wrong.or(verdict.err()).expect("a violation")
}

#[test]
fn matches_that_are_not_stored_are_made_in_another_order() {
    println!("{}", found(Without::Store));
}

#[test]
fn matches_that_are_stored_too_late_are_lost() {
    println!("{}", found(Without::Order));
}
