//! Exhaustive check of handshake and table with stateright, on the code itself.
//!
//! Bounds:
//!
//! - Two ranks send one or two messages in each direction.
//! - At most a fixed number of cuts. One end may never notice a cut.
//! - At most a fixed number of timers fire before all messages under way have arrived
//!   (`impatience`). Such a timer gives up a handshake early, or redials without back-off. A timer
//!   that fires when no other step is possible does not count.
//! - The time limit of a handshake fires before the longest back-off is over.
//! - At most one restore of rank 1 whose old process stays alive, or two rollbacks of the job, the
//!   first of which is aborted half way.
//! - Connections deliver whole messages, in order. The two directions are independent in time.
//! - Dials are unlimited but counted. More than `dials` of one process is a failure, so the check
//!   finds a livelock.

mod model;

use model::{End, World};
use rejoin_channel_table::{Generation, Incarnation, LinkState, Rank};
use rejoin_tests::models::{ci, tell};
use stateright::{Checker, Model, Property};
use std::time::Instant;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    world: World,
    cuts: u8,
    impatience: u8,
    restores: u8,
    rollbacks: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Dial {
        from: usize,
        to: usize,
        early: bool,
    },
    Deliver {
        id: u8,
        side: usize,
    },
    Send {
        from: usize,
    },
    Cut {
        id: u8,
        deaf: Option<usize>,
    },
    Expire {
        id: u8,
        side: usize,
        early: bool,
    },
    News {
        process: usize,
    },
    Kill {
        process: usize,
    },
    Restore,
    /// `both`: or only rank 0 is restored before the next event. `keep`: an old process that
    /// stays alive.
    Rollback {
        both: bool,
        keep: Option<Rank>,
    },
    SpawnRest,
}

#[derive(Clone)]
struct Setup {
    messages: [u8; 2],
    cuts: u8,
    impatience: u8,
    restores: u8,
    rollbacks: u8,
    dials: u8,
}

impl Setup {
    /// Adds the dials of a process that lacks a link.
    fn dials(&self, state: &State, free: bool, actions: &mut Vec<Action>) {
        let world = &state.world;
        for (from, process) in world.processes.iter().enumerate() {
            let idle = process.table.state(process.peer()) == LinkState::Null;
            if !idle || !world.wants_link(process) || process.backs_off != free {
                continue;
            }
            // An address may have been taken over by any process of that rank.
            for (to, target) in world.processes.iter().enumerate() {
                if target.alive && target.rank() == process.peer() {
                    actions.push(Action::Dial {
                        from,
                        to,
                        early: false,
                    });
                }
            }
        }
    }

    fn timers(&self, state: &State, early: bool, actions: &mut Vec<Action>) {
        for (&id, connection) in &state.world.connections {
            for side in 0..2 {
                let half = matches!(connection.ends[side], End::Dialing(_) | End::Accepting(_));
                if half || (!early && state.world.waits_in_vain(connection, side)) {
                    actions.push(Action::Expire { id, side, early });
                }
            }
        }
        if !early && !actions.is_empty() {
            return;
        }
        let before = actions.len();
        self.dials(state, true, actions);
        for action in &mut actions[before..] {
            if let Action::Dial { early: slot, .. } = action {
                *slot = early;
            }
        }
    }

    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let world = &state.world;
        if state.cuts > 0 {
            for (&id, _) in world.connections.iter().filter(|(_, c)| !c.dead) {
                actions.extend([None, Some(0), Some(1)].map(|deaf| Action::Cut { id, deaf }));
            }
        }
        if state.restores > 0 {
            actions.push(Action::Restore);
        }
        if state.rollbacks > 0 {
            for keep in [None, Some(Rank(0)), Some(Rank(1))] {
                actions.push(Action::Rollback {
                    both: state.rollbacks == 1,
                    keep,
                });
            }
        }
        if state.impatience > 0 {
            self.timers(state, true, actions);
        }
    }
}

impl Model for Setup {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            world: World::new(self.messages),
            cuts: self.cuts,
            impatience: self.impatience,
            restores: self.restores,
            rollbacks: self.rollbacks,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let world = &state.world;
        if world.wrong.is_some() {
            return;
        }
        self.dials(state, false, actions);
        for (&id, connection) in &world.connections {
            for side in 0..2 {
                if !connection.queues[side].is_empty() {
                    actions.push(Action::Deliver { id, side });
                }
            }
        }
        for (index, process) in world.processes.iter().enumerate() {
            let live = process.table.live(process.peer()).is_some();
            if process.alive && live && process.cursor < world.to_send(process) {
                actions.push(Action::Send { from: index });
            }
            if world.has_news(process) {
                actions.push(Action::News { process: index });
            }
            if process.alive && !world.is_current(process) {
                actions.push(Action::Kill { process: index });
            }
        }
        if [Rank(0), Rank(1)].iter().any(|&rank| lacks(world, rank)) {
            actions.push(Action::SpawnRest);
        }
        if actions.is_empty() {
            self.timers(state, false, actions);
        }
        self.faults(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        let world = &mut next.world;
        match action {
            Action::Dial { from, to, early } => {
                next.impatience -= u8::from(early);
                world.dial(from, to);
                if world.processes[from].dials > self.dials {
                    world.wrong = Some("dials without end");
                }
            }
            Action::Deliver { id, side } => world.deliver(id, side),
            Action::Send { from } => world.send(from),
            Action::Cut { id, deaf } => {
                next.cuts -= 1;
                world.cut(id, deaf);
            }
            Action::Expire { id, side, early } => {
                next.impatience -= u8::from(early);
                world.expire(id, side);
            }
            Action::News { process } => world.tell_news(process),
            Action::Kill { process } => world.kill(process),
            Action::Restore => {
                next.restores -= 1;
                world.incarnations[1] = Incarnation(world.incarnations[1].0 + 1);
                world.spawn(Rank(1));
            }
            Action::Rollback { both, keep } => {
                next.rollbacks -= 1;
                for index in 0..world.processes.len() {
                    let process = &world.processes[index];
                    if !world.is_current(process) || Some(process.rank()) != keep {
                        world.kill(index);
                    }
                }
                world.generation = Generation(world.generation.0 + 1);
                world.incarnations = world.incarnations.map(|i| Incarnation(i.0 + 1));
                world.spawn(Rank(0));
                if both {
                    world.spawn(Rank(1));
                }
            }
            Action::SpawnRest => {
                for rank in [Rank(0), Rank(1)] {
                    if lacks(&next.world, rank) {
                        next.world.spawn(rank);
                    }
                }
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing goes wrong", |_: &Setup, state: &State| {
                state.world.wrong.is_none()
            }),
            Property::always("one live channel per pair", |_, state: &State| {
                let count = state.world.processes.len();
                (0..count).all(|a| (a..count).all(|b| state.world.channels_between(a, b) <= 1))
            }),
            Property::always("no stuck state", |model: &Setup, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || state.world.is_done() || state.world.wrong.is_some()
            }),
            Property::sometimes("all is delivered", |_, state: &State| state.world.is_done()),
            Property::sometimes("a link replaces another", |_, state: &State| {
                state.world.next_connection > 1 && state.world.is_done()
            }),
        ]
    }
}

/// No process of the newest identity of `rank` runs: its restore is pending.
fn lacks(world: &World, rank: Rank) -> bool {
    !world
        .processes
        .iter()
        .any(|p| p.rank() == rank && world.is_current(p))
}

fn check(name: &str, setup: Setup) {
    let begun = Instant::now();
    let checker = setup.checker().spawn_dfs().join();
    tell(name, begun, &checker, |state| {
        format!("{:?}", state.world.wrong)
    });
    checker.assert_properties();
}

/// Without `REJOIN_MODELS=ci` bounds are one smaller, so that a plain `cargo test` stays quick.
fn quick() -> u8 {
    1 - ci()
}

const NONE: Setup = Setup {
    messages: [1, 1],
    cuts: 0,
    impatience: 0,
    restores: 0,
    rollbacks: 0,
    dials: 6,
};

#[test]
fn simultaneous_connects() {
    let messages = [2 - quick(), 2 - quick()];
    check(
        "simultaneous connects",
        Setup {
            messages,
            dials: 1,
            ..NONE
        },
    );
}

#[test]
fn lost_links() {
    check(
        "lost links",
        Setup {
            cuts: 2 - quick(),
            ..NONE
        },
    );
}

#[test]
fn half_open_and_late_attempts() {
    check(
        "half-open and late attempts",
        Setup {
            impatience: 2 - quick(),
            ..NONE
        },
    );
}

#[test]
fn a_lost_link_and_impatience() {
    check(
        "a lost link and impatience",
        Setup {
            messages: [1, 1 - quick()],
            cuts: 1,
            impatience: 1,
            ..NONE
        },
    );
}

#[test]
fn a_restored_rank_and_its_old_incarnation() {
    let one = Setup {
        restores: 1,
        ..NONE
    };
    check(
        "restored rank sends",
        Setup {
            messages: [0, 1],
            impatience: 1,
            ..one.clone()
        },
    );
    check(
        "restored rank receives",
        Setup {
            messages: [1, 0],
            impatience: 1,
            ..one.clone()
        },
    );
    check(
        "restored rank and a cut",
        Setup {
            messages: [1, 0],
            cuts: 1,
            ..one
        },
    );
}

#[test]
fn an_aborted_generation() {
    check(
        "aborted generation",
        Setup {
            messages: [1, 0],
            rollbacks: 2,
            ..NONE
        },
    );
    let one = Setup {
        rollbacks: 1,
        impatience: 1,
        ..NONE
    };
    check(
        "generation",
        Setup {
            messages: [0, 1],
            ..one.clone()
        },
    );
    check(
        "generation and a cut",
        Setup {
            messages: [1, 0],
            cuts: 1 - quick(),
            ..one
        },
    );
}
