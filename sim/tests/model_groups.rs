//! Exhaustive check, with stateright, of recovery groups on the code itself: engine, table,
//! handshake and resume of two ranks, each a group of its own.
//!
//! Each rank takes images when it likes, and commits them later. A rank crashes at any step and
//! comes back alone from its last committed image, while the other one computes on. The link is cut
//! at any step. Bodies are sent in every way, or read out of the sender's memory. The programs
//! receive without wildcards. The model checks that
//!
//! - no rank refuses what the other one says;
//! - the program always ends, and has received every message once, in order, unchanged;
//! - nothing is retained for ever: an image of the end releases all messages;
//! - it finds a violation when one part of the protocol is switched off.
//!
//! Bounds: two or three messages, one connection at a time, whole writes. `REJOIN_MODELS=soak`
//! takes larger ones than `full`, and `full` than `ci`. Without the variable only the searches for
//! violations run, because the others take minutes.

mod two_ranks;

use std::collections::BTreeMap;
use std::time::Instant;

use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_engine::{FailedProbes, MessageMode, Omission};
use rejoin_sim::message_plan::Plan;
use rejoin_sim::node::Node;
use rejoin_tests::models::{ci, full, soak, tell};
use stateright::{Checker, Model, Property};
use two_ranks::{ACCESS, Program, Wire, book, identity, peer, plan};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: [Node; 2],
    programs: [Program; 2],
    images: [BTreeMap<Epoch, Program>; 2],
    committed: [Epoch; 2],
    /// The image that is not committed yet.
    taken: [Option<Epoch>; 2],
    incarnations: [u32; 2],
    /// The ranks that are not restored yet.
    away: [bool; 2],
    wire: Wire,
    left: Budget,
    wrong: Option<String>,
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Budget {
    images: u8,
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
    TakeImage(usize),
    Commit(usize),
    Cut,
    /// One rank crashes; the other one stands.
    Crash(usize),
    Back(usize),
}

/// A part of the protocol that is switched off, to show that the model finds what it prevents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Messages are retained until they are acknowledged only.
    Groups,
    /// An image counts as committed when it is taken.
    Commits,
    /// Survivors do not ask whether a rank that came back lacks messages.
    Notice,
    /// What the receivers have not logged, for lack of room, they say to have logged.
    Room,
    /// A part of the engine.
    Part(Omission),
}

struct Setup {
    plan: Plan,
    budget: Budget,
    without: Without,
    /// Ranks read long bodies out of each other's memory.
    reads: bool,
    /// Words of the memory in which each rank logs what it receives; 0: it does not.
    log_words: usize,
}

/// Room for all messages of a program.
const ROOM: usize = 120;

impl State {
    fn new(setup: &Setup) -> State {
        let node = |rank| {
            let mut node = Node::new(setup.plan.config, identity(rank, [0; 2]), book([0; 2]));
            if setup.without != Without::Groups {
                node.engine.set_groups(&[0, 1]);
            }
            if setup.log_words > 0 {
                node.begin_receive_log(setup.log_words, false);
                node.claims_log = setup.without == Without::Room;
            }
            if let Without::Part(part) = setup.without {
                node.engine.omit(part);
            }
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
            committed: [Epoch(1); 2],
            taken: [None; 2],
            incarnations: [0; 2],
            away: [false; 2],
            wire: Wire::default(),
            left: setup.budget,
            wrong: None,
        }
    }

    /// All steps that the ranks make by themselves after an event.
    fn settle(&mut self) {
        for rank in (0..2).filter(|rank| !self.away[*rank]) {
            self.wire.flush(rank, &mut self.nodes[rank]);
            while self.nodes[rank].engine.next_ready().is_some() {}
            self.wire.write(rank, &mut self.nodes[rank]);
            self.programs[rank].reap(&mut self.nodes[rank]);
            self.nodes[rank].headers.clear();
            let keep = [Some(self.committed[rank]), self.taken[rank]];
            self.nodes[rank].keep_images(|epoch| keep.contains(&Some(epoch)));
            self.images[rank].retain(|epoch, _| keep.contains(&Some(*epoch)));
        }
    }

    fn take_image(&mut self, rank: usize, without: Without) {
        let epoch = Epoch(self.nodes[rank].engine.epoch().0 + 1);
        self.nodes[rank].enter(epoch);
        self.images[rank].insert(epoch, self.programs[rank].clone());
        self.taken[rank] = Some(epoch);
        if without == Without::Commits {
            self.nodes[rank].commit(epoch);
        }
    }

    fn commit(&mut self, rank: usize) {
        if let Some(epoch) = self.taken[rank].take() {
            self.committed[rank] = epoch;
            self.nodes[rank].commit(epoch);
        }
    }

    fn cut(&mut self) {
        let away = self.away;
        let ends = self.nodes.iter_mut().zip(away);
        self.wire
            .cut(ends.filter(|(_, away)| !away).map(|(node, _)| node));
    }

    fn crash(&mut self, rank: usize) {
        self.away[rank] = true;
        self.taken[rank] = None;
        self.cut();
    }

    fn back(&mut self, rank: usize, without: Without) {
        self.incarnations[rank] += 1;
        let (epoch, now) = (self.committed[rank], self.incarnations);
        let node = self.nodes[rank].rejoin(epoch, identity(rank, now), book(now));
        let program = self.images[rank].get(&epoch);
        let (Some(mut node), Some(program)) = (node, program) else {
            self.wrong = Some("a committed image is gone".into());
            return;
        };
        // Its commit was stored, whether or not the rank has told its peers.
        node.commit(epoch);
        if let Some(memory) = self.nodes[rank].received_memory() {
            let restored = node.restore_received(memory, |_| false);
            self.wrong = restored.err().map(|error| error.to_string());
        }
        self.nodes[rank] = node;
        self.programs[rank] = program.clone();
        self.away[rank] = false;
        let other = &mut self.nodes[1 - rank];
        let before = other.engine.clone();
        let told = other.update(Rank(rank as u32), Incarnation(now[rank]));
        // A survivor that does not ask only learns the address.
        if without == Without::Notice {
            other.engine = before;
            other.engine.link_down(Rank(rank as u32));
        }
        if let Err(violation) = told {
            self.wrong = Some(violation);
        }
    }

    fn idle(&mut self) {
        for node in &mut self.nodes {
            node.engine.flush_all_acks();
            node.engine.grant_if_starved(&FailedProbes::default());
        }
        self.settle();
    }

    fn runs(&self) -> bool {
        self.away == [false; 2]
    }

    /// Whether the programs have ended well. Images of the end release what is retained.
    fn verdict(&self, plan: &Plan) -> Result<(), String> {
        for rank in 0..2 {
            self.programs[rank].verdict(plan, rank, &self.nodes[rank])?;
        }
        let mut last = self.clone();
        for rank in 0..2 {
            last.take_image(rank, Without::Nothing);
            last.commit(rank);
        }
        for _ in 0..8 {
            last.idle();
            for rank in 0..2 {
                last.deliver(rank);
            }
        }
        let connected = last.wire.is_open();
        let held = last.nodes.iter().enumerate().find_map(|(rank, node)| {
            let counts = node.engine.peer_counts(peer(rank))?;
            (counts.retained > 0).then(|| format!("rank {rank} retains {}", counts.retained))
        });
        match (last.wrong, held) {
            (Some(wrong), _) => Err(wrong),
            (None, Some(held)) if connected => Err(held),
            _ => Ok(()),
        }
    }

    fn deliver(&mut self, rank: usize) {
        match self.wire.deliver(rank, &mut self.nodes[rank]) {
            Ok(true) => {}
            Ok(false) => self.cut(),
            Err(violation) => self.wrong = Some(violation),
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
                continue;
            }
            if state.programs[rank].position < self.plan.scripts[rank].len() {
                actions.push(Action::Program(rank));
            }
            if self.reads && state.nodes[rank].may_get() && !state.away[1 - rank] {
                actions.push(Action::Get(rank));
            }
            if state.taken[rank].is_some() {
                actions.push(Action::Commit(rank));
            }
            if state.wire.has_bytes(rank) {
                actions.push(Action::Deliver(rank));
            }
            let dials = !state.wire.is_open() && state.nodes[rank].wants_link(peer(rank));
            if dials && state.runs() {
                actions.push(Action::Dial(rank));
            }
        }
        if actions.is_empty() {
            let mut idle = state.clone();
            idle.idle();
            if idle != *state {
                actions.push(Action::Idle);
            }
        }
        let left = state.left;
        for rank in (0..2).filter(|rank| !state.away[*rank]) {
            if left.crashes > 0 {
                actions.push(Action::Crash(rank));
            }
            if left.images > 0 && state.taken[rank].is_none() {
                actions.push(Action::TakeImage(rank));
            }
        }
        if left.cuts > 0 && state.wire.is_open() {
            actions.push(Action::Cut);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Program(rank) => {
                let node = &mut next.nodes[rank];
                let done = next.programs[rank].step(&self.plan, rank, node);
                next.wrong = done.err();
            }
            Action::Dial(rank) => next.wrong = next.wire.dial(rank, &mut next.nodes).err(),
            Action::Deliver(rank) => next.deliver(rank),
            Action::Get(rank) => next.wrong = two_ranks::get(rank, &mut next.nodes).err(),
            Action::Idle => next.idle(),
            Action::TakeImage(rank) => {
                next.left.images -= 1;
                next.take_image(rank, self.without);
            }
            Action::Commit(rank) => next.commit(rank),
            Action::Cut => {
                next.left.cuts -= 1;
                next.cut();
            }
            Action::Crash(rank) => {
                next.left.crashes -= 1;
                next.crash(rank);
            }
            Action::Back(rank) => next.back(rank, self.without),
        }
        next.settle();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the protocol is kept", |_: &Setup, s: &State| {
                s.wrong.is_none()
            }),
            Property::always("what ends, ends well", |model: &Setup, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let over = actions.is_empty() && state.wrong.is_none();
                !over || state.verdict(&model.plan).is_ok()
            }),
            Property::sometimes(
                "a body is read, where there are any",
                |model: &Setup, s: &State| {
                    !model.reads || s.nodes.iter().any(|node| node.get_counts.whole > 0)
                },
            ),
            Property::sometimes("all is done", |model: &Setup, s: &State| {
                let back = s.incarnations != [0; 2] || model.budget.crashes == 0;
                let committed = s.committed != [Epoch(1); 2] || model.budget.images == 0;
                back && committed && s.verdict(&model.plan).is_ok()
            }),
        ]
    }
}

const BUDGET: Budget = Budget {
    images: 1,
    cuts: 0,
    crashes: 1,
};

const SMALL: (usize, MessageMode) = (8, MessageMode::Standard);
const MEDIUM: (usize, MessageMode) = (60, MessageMode::Standard);
const SYNCHRONOUS: (usize, MessageMode) = (60, MessageMode::Synchronous);
const LONG: (usize, MessageMode) = (100, MessageMode::Standard);

/// Messages by sender.
fn messages(of: &[(u32, (usize, MessageMode))]) -> Plan {
    let listed: Vec<_> = of
        .iter()
        .map(|&(from, (len, mode))| (from, len, mode))
        .collect();
    plan(&listed)
}

fn check(name: &str, setup: Setup) {
    if ci() == 0 {
        return println!("{name}: only with REJOIN_MODELS=ci");
    }
    let begun = Instant::now();
    let checker = setup.checker().spawn_dfs().join();
    tell(name, begun, &checker, |state| {
        let verdict = state.verdict(&checker.model().plan);
        format!("{:?} {verdict:?}", state.wrong)
    });
    checker.assert_properties();
}

#[test]
fn one_rank_returns_and_the_other_stands() {
    let plans = [
        ("small", [(0, SMALL), (0, SMALL)]),
        ("there and back", [(0, SMALL), (1, MEDIUM)]),
        ("medium", [(0, MEDIUM), (0, SMALL)]),
        ("synchronous", [(0, SYNCHRONOUS), (1, SMALL)]),
        ("long", [(0, LONG), (0, SMALL)]),
        ("long there and back", [(0, LONG), (1, LONG)]),
    ];
    for (name, of) in plans.into_iter().take(5 + usize::from(full())) {
        let setup = Setup {
            plan: messages(&of),
            budget: BUDGET,
            without: Without::Nothing,
            reads: false,
            log_words: 0,
        };
        check(name, setup);
    }
}

#[test]
fn both_return_one_after_the_other_or_at_once() {
    // It takes two minutes, so most runs have the first one only.
    let plans = [
        ("small", [(0, SMALL), (1, SMALL)]),
        ("medium and long", [(0, MEDIUM), (1, LONG)]),
    ];
    for (name, of) in plans.into_iter().take(1 + usize::from(soak())) {
        let setup = Setup {
            plan: messages(&of),
            budget: Budget {
                crashes: 2,
                images: 1,
                cuts: 0,
            },
            without: Without::Nothing,
            reads: false,
            log_words: 0,
        };
        check(name, setup);
    }
}

#[test]
fn a_cut_around_a_return() {
    // A further image of the long one takes five minutes.
    for (name, of, images) in [
        ("small", [(0, SMALL), (0, MEDIUM)], 1),
        ("long", [(0, LONG), (1, SMALL)], full()),
    ] {
        let setup = Setup {
            plan: messages(&of),
            budget: Budget {
                images,
                cuts: 1 + soak(),
                ..BUDGET
            },
            without: Without::Nothing,
            reads: false,
            log_words: 0,
        };
        check(name, setup);
    }
}

#[test]
fn a_return_around_a_read_of_the_senders_memory() {
    let setup = Setup {
        // The first one brings the link: a body that is sent without a link is not offered.
        plan: messages(&[(0, SMALL), (0, LONG)]),
        budget: Budget {
            cuts: full(),
            ..BUDGET
        },
        without: Without::Nothing,
        reads: true,
        log_words: 0,
    };
    check("read", setup);
}

#[test]
fn a_rank_returns_to_what_it_has_logged() {
    let plans = [
        ("small, logged", [(0, SMALL), (0, SMALL)], ROOM),
        ("there and back, logged", [(0, SMALL), (1, MEDIUM)], ROOM),
        ("synchronous, logged", [(0, SYNCHRONOUS), (1, SMALL)], ROOM),
        ("long, logged", [(0, LONG), (0, SMALL)], ROOM),
        // There is room for the small one.
        ("medium, not logged", [(0, MEDIUM), (0, SMALL)], 16),
    ];
    for (name, of, log_words) in plans {
        let setup = Setup {
            plan: messages(&of),
            budget: BUDGET,
            without: Without::Nothing,
            reads: false,
            log_words,
        };
        check(name, setup);
    }
}

/// The violation that the checker finds with a part of the protocol switched off. Some are found by
/// the engine's own assertions.
fn found(without: Without, of: &[(u32, (usize, MessageMode))], reads: bool) -> String {
    found_with_logs(without, of, reads, 0)
}

/// The same with receive logs of so many words.
fn found_with_logs(
    without: Without,
    of: &[(u32, (usize, MessageMode))],
    reads: bool,
    log_words: usize,
) -> String {
    let setup = Setup {
        plan: messages(of),
        budget: BUDGET,
        without,
        reads,
        log_words,
    };
    let checked = std::panic::catch_unwind(|| setup.checker().spawn_dfs().join());
    let Ok(checker) = checked else {
        return "an assertion of the engine".into();
    };
    let kept = checker.discovery("the protocol is kept");
    let ended = checker.discovery("what ends, ends well");
    let state = kept.or(ended).expect("a violation").last_state().clone();
    let verdict = state.verdict(&checker.model().plan);
    state.wrong.or(verdict.err()).expect("a violation")
}

#[test]
fn without_the_later_horizon_a_message_is_lost() {
    println!(
        "{}",
        found(Without::Groups, &[(0, SMALL), (0, SMALL)], false)
    );
}

#[test]
fn with_a_horizon_before_the_commit_a_message_is_lost() {
    println!(
        "{}",
        found(Without::Commits, &[(0, SMALL), (0, SMALL)], false)
    );
}

#[test]
fn without_a_question_to_the_returned_rank_it_waits_for_ever() {
    println!(
        "{}",
        found(Without::Notice, &[(0, SMALL), (0, SMALL)], false)
    );
}

#[test]
fn what_is_not_logged_is_lost_without_its_sender() {
    let of = [(0, MEDIUM), (0, SMALL)];
    println!("{}", found_with_logs(Without::Room, &of, false, 16));
    let part = Without::Part(Omission::LoggedBody);
    let of = [(0, LONG), (0, SMALL)];
    println!("{}", found_with_logs(part, &of, false, ROOM));
}

#[test]
fn each_part_of_the_engine_prevents_something() {
    for (part, of, reads) in [
        (Omission::EagerCopy, [(0, MEDIUM), (0, SMALL)], false),
        (Omission::RendezvousCopy, [(0, LONG), (0, SMALL)], false),
        (Omission::ForgottenAddress, [(0, SMALL), (0, LONG)], true),
        (Omission::ClampedAck, [(0, SMALL), (0, SMALL)], false),
        (Omission::Unwritten, [(0, SMALL), (0, SMALL)], false),
        (Omission::AheadResume, [(0, SMALL), (0, SMALL)], false),
        (Omission::RestartedWindow, [(0, SMALL), (0, SMALL)], false),
    ] {
        println!("{part:?}: {}", found(Without::Part(part), &of, reads));
    }
}
