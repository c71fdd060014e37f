//! Exhaustive check, with stateright, of coordinated checkpoints on the code itself: engine, table,
//! handshake and resume of two ranks. The ranks take images by the rule of epochs, and roll back to
//! them.
//!
//! Checkpoints are requested, taken, committed and aborted in any order with all other steps. The
//! link is cut, and both ranks crash at any step, also during a rollback. Long bodies are sent, or
//! read out of the sender's memory. The model checks that
//!
//! - a committed pair of images is consistent (no orphan, no lost message);
//! - the program always ends, and has received every message once, in order, unchanged;
//! - it finds a violation when one half of the rule is switched off.
//!
//! Bounds: two messages, one connection at a time, whole writes. `REJOIN_MODELS=soak` takes larger
//! ones than `full`, and `full` than `ci`; without the variable they are smallest.

mod two_ranks;

use std::collections::BTreeMap;
use std::time::Instant;

use rejoin_channel_table::{Epoch, Generation, Identity};
use rejoin_engine::{FailedProbes, MessageMode};
use rejoin_sim::message_plan::Plan;
use rejoin_sim::node::{DisabledEpochRule, Node};
use rejoin_tests::models::{ci, full, soak, tell};
use stateright::{Checker, Model, Property};
use two_ranks::{ACCESS, Program, Wire, book, peer, plan};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: [Node; 2],
    programs: [Program; 2],
    images: [BTreeMap<Epoch, Program>; 2],
    wire: Wire,
    generation: u32,
    /// The ranks that are not restored yet.
    away: [bool; 2],
    /// Checkpoint requests on their way.
    orders: [Option<Epoch>; 2],
    ordered: Option<Epoch>,
    next_epoch: u32,
    committed: Epoch,
    left: Budget,
    wrong: Option<String>,
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Budget {
    orders: u8,
    aborts: u8,
    cuts: u8,
    crashes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Program(usize),
    Dial(usize),
    Deliver(usize),
    /// A rank reads a body out of its sender's memory.
    Get(usize),
    Idle,
    /// A rank that is about to block sends its acks and credits.
    Block(usize),
    Order,
    TakeImage(usize),
    Commit,
    Abort,
    Cut,
    /// The whole job rolls back: ranks that have not crashed are stopped.
    Crash,
    Back(usize),
}

struct Setup {
    plan: Plan,
    budget: Budget,
    disabled_rule: DisabledEpochRule,
    /// Ranks block at any time, not only when no other step is possible.
    blocks: bool,
    /// Ranks read long bodies out of each other's memory.
    reads: bool,
}

/// A rank whose incarnation is that of the generation: all roll back together.
fn identity(rank: usize, generation: u32) -> Identity {
    Identity {
        generation: Generation(generation),
        ..two_ranks::identity(rank, [generation; 2])
    }
}

impl State {
    fn new(setup: &Setup) -> State {
        let node = |rank| {
            let mut node = Node::new(setup.plan.config, identity(rank, 0), book([0; 2]));
            node.disabled_rule = setup.disabled_rule;
            if setup.reads {
                node.share_memory(peer(rank), ACCESS);
            }
            node.enter(Epoch(1));
            node
        };
        let image = || BTreeMap::from([(Epoch(1), Program::default())]);
        State {
            nodes: [node(0), node(1)],
            programs: Default::default(),
            images: [image(), image()],
            wire: Wire::default(),
            generation: 0,
            away: [false; 2],
            orders: [None; 2],
            ordered: None,
            next_epoch: 2,
            committed: Epoch(1),
            left: setup.budget,
            wrong: None,
        }
    }

    fn runs(&self) -> bool {
        self.away == [false; 2]
    }

    /// All steps that a rank makes by itself after an event.
    fn settle(&mut self) {
        for rank in 0..2 {
            self.image(rank);
            let node = &mut self.nodes[rank];
            self.wire.flush(rank, node);
            while node.engine.next_ready().is_some() {}
            self.wire.write(rank, node);
            self.programs[rank].reap(node);
            self.nodes[rank].headers.clear();
        }
        let (committed, ordered) = (self.committed, self.ordered);
        for rank in 0..2 {
            let keep = |epoch| epoch == committed || Some(epoch) >= ordered.or(Some(epoch));
            let abandoned = |epoch: Epoch| ordered.is_none() && epoch != committed;
            self.nodes[rank].keep_images(|epoch| keep(epoch) && !abandoned(epoch));
            let node = &self.nodes[rank];
            self.images[rank].retain(|epoch, _| node.has_image(*epoch));
        }
    }

    /// Saves the program's part of an image that was taken just now.
    fn image(&mut self, rank: usize) {
        let epoch = self.nodes[rank].engine.epoch();
        if self.nodes[rank].has_image(epoch) && !self.images[rank].contains_key(&epoch) {
            self.images[rank].insert(epoch, self.programs[rank].clone());
        }
    }

    fn deliver(&mut self, rank: usize) {
        match self.wire.deliver(rank, &mut self.nodes[rank]) {
            Ok(true) => {}
            Ok(false) => self.wire.cut(&mut self.nodes),
            Err(violation) => self.wrong = Some(violation),
        }
    }

    fn crash(&mut self) {
        self.wire.cut([]);
        self.generation += 1;
        self.away = [true; 2];
        self.orders = [None; 2];
        self.ordered = None;
    }

    fn back(&mut self, rank: usize) {
        let me = identity(rank, self.generation);
        let node = self.nodes[rank].rejoin(self.committed, me, book([self.generation; 2]));
        let program = self.images[rank].get(&self.committed);
        match (node, program) {
            (Some(node), Some(program)) => {
                self.nodes[rank] = node;
                self.programs[rank] = program.clone();
                self.away[rank] = false;
            }
            _ => self.wrong = Some("a committed image is gone".into()),
        }
    }

    fn commit(&mut self) {
        if let Some(epoch) = self.ordered.take() {
            self.committed = epoch;
            if let Err(violation) = self.nodes[0].check_consistency(&self.nodes[1]) {
                self.wrong = Some(violation);
            }
        }
    }

    fn idle(&mut self) {
        for node in &mut self.nodes {
            node.engine.flush_all_acks();
            node.engine.grant_if_starved(&FailedProbes::default());
        }
        self.settle();
    }

    fn verdict(&self, plan: &Plan) -> Result<(), String> {
        let mut ranks = self.programs.iter().zip(&self.nodes).enumerate();
        ranks.try_for_each(|(rank, (program, node))| program.verdict(plan, rank, node))
    }
}

impl Setup {
    fn fate(state: &State, actions: &mut Vec<Action>) {
        let left = state.left;
        if left.crashes > 0 {
            actions.push(Action::Crash);
        }
        if !state.runs() {
            return;
        }
        if left.cuts > 0 && state.wire.is_open() {
            actions.push(Action::Cut);
        }
        if left.orders > 0 && state.ordered.is_none() {
            actions.push(Action::Order);
        }
        if left.aborts > 0 && state.ordered.is_some() {
            actions.push(Action::Abort);
        }
    }
}

impl Model for Setup {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.wrong.is_some() {
            return;
        }
        for rank in 0..2 {
            if state.away[rank] {
                actions.push(Action::Back(rank));
            } else if state.orders[rank].is_some() {
                actions.push(Action::TakeImage(rank));
            }
            if !state.runs() {
                continue;
            }
            if state.programs[rank].position < self.plan.scripts[rank].len() {
                actions.push(Action::Program(rank));
            }
            if self.reads && state.nodes[rank].may_get() {
                actions.push(Action::Get(rank));
            }
            if state.wire.has_bytes(rank) {
                actions.push(Action::Deliver(rank));
            }
            if !state.wire.is_open() && state.nodes[rank].wants_link(peer(rank)) {
                actions.push(Action::Dial(rank));
            }
        }
        if let Some(epoch) = state.ordered
            && state.nodes.iter().all(|node| node.has_image(epoch))
        {
            actions.push(Action::Commit);
        }
        for rank in (0..2).filter(|_| self.blocks) {
            let mut engine = state.nodes[rank].engine.clone();
            engine.flush_all_acks();
            if engine != state.nodes[rank].engine {
                actions.push(Action::Block(rank));
            }
        }
        if actions.is_empty() {
            let mut idle = state.clone();
            idle.idle();
            if idle != *state {
                actions.push(Action::Idle);
            }
        }
        Self::fate(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Program(rank) => {
                let node = &mut next.nodes[rank];
                next.wrong = next.programs[rank].step(&self.plan, rank, node).err();
            }
            Action::Dial(rank) => next.wrong = next.wire.dial(rank, &mut next.nodes).err(),
            Action::Deliver(rank) => next.deliver(rank),
            Action::Get(rank) => next.wrong = two_ranks::get(rank, &mut next.nodes).err(),
            Action::Idle => next.idle(),
            Action::Block(rank) => next.nodes[rank].engine.flush_all_acks(),
            Action::Order => {
                next.left.orders -= 1;
                let epoch = Epoch(next.next_epoch);
                next.next_epoch += 1;
                next.ordered = Some(epoch);
                next.orders = [Some(epoch); 2];
            }
            Action::TakeImage(rank) => {
                let epoch = next.orders[rank].take()?;
                next.nodes[rank].enter(epoch);
            }
            Action::Commit => next.commit(),
            // Requests that are on their way are still taken.
            Action::Abort => {
                next.left.aborts -= 1;
                next.ordered = None;
            }
            Action::Cut => {
                next.left.cuts -= 1;
                next.wire.cut(&mut next.nodes);
            }
            Action::Crash => {
                next.left.crashes -= 1;
                next.crash();
            }
            Action::Back(rank) => next.back(rank),
        }
        if next.runs() {
            next.settle();
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "images fit and the protocol is kept",
                |_: &Setup, s: &State| s.wrong.is_none(),
            ),
            Property::always("what ends, ends well", |model: &Setup, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || state.wrong.is_some() || state.verdict(&model.plan).is_ok()
            }),
            Property::sometimes(
                "a body is read, where there are any",
                |model: &Setup, s: &State| {
                    !model.reads || s.nodes.iter().any(|node| node.get_counts.whole > 0)
                },
            ),
            Property::sometimes("all is done", |model: &Setup, s: &State| {
                let back = s.generation > 0 || model.budget.crashes == 0;
                back && s.committed > Epoch(1) && s.verdict(&model.plan).is_ok()
            }),
        ]
    }
}

fn check(name: &str, setup: Setup) {
    let begun = Instant::now();
    let checker = setup.checker().spawn_dfs().join();
    tell(name, begun, &checker, |state| {
        format!(
            "{:?} {:?}",
            state.wrong,
            state.verdict(&checker.model().plan)
        )
    });
    checker.assert_properties();
}

const BUDGET: Budget = Budget {
    orders: 1,
    aborts: 0,
    cuts: 0,
    crashes: 1,
};

#[test]
fn one_checkpoint_and_a_crash() {
    for (name, messages) in [
        (
            "small",
            [(0, 8, MessageMode::Standard), (0, 8, MessageMode::Standard)],
        ),
        (
            "both",
            [
                (0, 8, MessageMode::Standard),
                (1, 60, MessageMode::Standard),
            ],
        ),
        (
            "long",
            [
                (0, 60, MessageMode::Synchronous),
                (0, 100, MessageMode::Standard),
            ],
        ),
    ] {
        let setup = Setup {
            plan: plan(&messages),
            budget: BUDGET,
            disabled_rule: DisabledEpochRule::default(),
            blocks: false,
            reads: false,
        };
        check(name, setup);
    }
}

#[test]
fn a_crash_around_a_read_of_the_senders_memory() {
    for (name, budget) in [
        ("read", BUDGET),
        (
            "read, cut",
            Budget {
                cuts: 1,
                crashes: full(),
                ..BUDGET
            },
        ),
    ] {
        let setup = Setup {
            // The first one brings the link: a body that is sent without a link is not offered.
            plan: plan(&[
                (0, 8, MessageMode::Standard),
                (0, 100, MessageMode::Standard),
            ]),
            budget,
            disabled_rule: DisabledEpochRule::default(),
            blocks: false,
            reads: true,
        };
        check(name, setup);
    }
}

#[test]
fn acks_at_any_time() {
    let setup = Setup {
        plan: plan(&[(0, 8, MessageMode::Standard), (0, 8, MessageMode::Standard)]),
        budget: Budget {
            crashes: ci(),
            ..BUDGET
        },
        disabled_rule: DisabledEpochRule::default(),
        blocks: true,
        reads: false,
    };
    check("acks", setup);
}

#[test]
fn a_cut_between_images() {
    let setup = Setup {
        plan: plan(&[
            (0, 8, MessageMode::Standard),
            (1, 8 + 52 * usize::from(full()), MessageMode::Standard),
        ]),
        budget: Budget {
            cuts: 1,
            crashes: ci(),
            orders: 1 + soak(),
            ..BUDGET
        },
        disabled_rule: DisabledEpochRule::default(),
        blocks: false,
        reads: false,
    };
    check("cut", setup);
}

#[test]
fn an_aborted_checkpoint_and_its_successor() {
    let setup = Setup {
        plan: plan(&[
            (0, 8, MessageMode::Standard),
            (1, 8 + 52 * usize::from(full()), MessageMode::Standard),
        ]),
        budget: Budget {
            orders: 2,
            aborts: 1,
            crashes: ci(),
            ..BUDGET
        },
        disabled_rule: DisabledEpochRule::default(),
        blocks: false,
        reads: false,
    };
    check("aborted", setup);
}

#[test]
fn a_crash_during_a_rollback() {
    let setup = Setup {
        plan: plan(&[
            (0, 8, MessageMode::Standard),
            (1, 60 + 40 * usize::from(ci()), MessageMode::Standard),
        ]),
        budget: Budget {
            crashes: 2,
            ..BUDGET
        },
        disabled_rule: DisabledEpochRule::default(),
        blocks: false,
        reads: false,
    };
    check("two crashes", setup);
}

/// The violation that the checker finds with half of the rule switched off.
fn found(disabled_rule: DisabledEpochRule) -> String {
    let setup = Setup {
        plan: plan(&[(0, 8, MessageMode::Standard), (0, 8, MessageMode::Standard)]),
        budget: Budget {
            crashes: 0,
            ..BUDGET
        },
        disabled_rule,
        blocks: true,
        reads: false,
    };
    let checker = setup.checker().spawn_dfs().join();
    let path = checker.discovery("images fit and the protocol is kept");
    let wrong = path.and_then(|path| path.last_state().wrong.clone());
    wrong.expect("half of the rule is enough for the checker")
}

#[test]
fn without_the_rule_for_messages_there_is_an_orphan() {
    let wrong = found(DisabledEpochRule {
        messages: true,
        acks: false,
    });
    println!("{wrong}");
    assert!(wrong.contains("images of epoch"), "{wrong}");
}

#[test]
fn without_the_rule_for_acks_a_message_is_lost() {
    let wrong = found(DisabledEpochRule {
        messages: false,
        acks: true,
    });
    println!("{wrong}");
    assert!(wrong.contains("images of epoch"), "{wrong}");
}
