//! Exhaustive check, with stateright, of engine, table and handshake together: one channel whose
//! link is cut at any moment.
//!
//! Bounds:
//!
//! - Two ranks send two to four messages of every way of sending, in the smallest window.
//! - There is one cut in quick builds and for long messages, else two. Both ends notice each cut,
//!   each in its own time.
//! - A rank writes all that it may write at once, and the bytes travel as one piece. Once per run a
//!   piece is torn, inside of a header or a body, so that a cut may fall there.
//! - Dials, handshakes, deliveries and calls of the program come in any order. So do reads of
//!   bodies out of the sender's memory. One read may fail after half of the body.
//! - Timers (the end of a handshake or a back-off, acks and grants before a rank blocks) fire when
//!   no other step is possible.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use rejoin_channel_table::{
    AddressBook, BusinessCard, Epoch, Generation, Identity, Incarnation, JobId, Rank,
};
use rejoin_engine::{
    Completion, Config, Envelope, FailedProbes, Gets, MessageMode, ReqId, Segment,
};
use rejoin_sim::message_check::{self, Outcome};
use rejoin_sim::message_plan::{Message, Plan, Receive, Step, content, pattern};
use rejoin_sim::node::{MemoryAccess, Node, Output};
use rejoin_tests::models::{ci, full, tell};
use stateright::{Checker, Model, Property};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Connection {
    ranks: [usize; 2],
    open: [bool; 2],
    cut: bool,
    /// Bytes on the way to each end; `None` is the end of the connection.
    queues: [VecDeque<Option<Vec<u8>>>; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: [Node; 2],
    positions: [usize; 2],
    backs_off: [bool; 2],
    sends: Vec<(usize, usize, ReqId, Segment)>,
    receives: Vec<(usize, usize, ReqId, Segment)>,
    cancelled: Vec<usize>,
    /// Rank, receive, its end and buffer; sorted.
    ended: Vec<(usize, usize, Completion, Vec<u8>)>,
    connections: BTreeMap<u32, Connection>,
    next: u32,
    cuts: u8,
    tears: u8,
    failures: u8,
    wrong: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Program(usize),
    Dial(usize),
    Deliver(u32, usize),
    Tear(u32, usize, usize),
    /// A rank reads a body out of its sender's memory; true: all of it.
    Get(usize, bool),
    Cut(u32),
    Expire(u32, usize),
    Idle,
}

struct Setup {
    plan: Plan,
    cuts: u8,
    tears: u8,
    /// Ranks read long bodies out of each other's memory.
    reads: bool,
    /// Sends that must end cancelled.
    gone: Vec<usize>,
}

impl State {
    fn new(setup: &Setup) -> State {
        let book = AddressBook::new(vec![(Incarnation(0), BusinessCard::default()); 2]);
        let node = |rank| {
            let me = Identity {
                job: JobId(3),
                rank: Rank(rank),
                generation: Generation(0),
                incarnation: Incarnation(0),
            };
            let mut node = Node::new(setup.plan.config, me, book.clone());
            if setup.reads {
                node.share_memory(peer(rank as usize), ACCESS);
            }
            node
        };
        State {
            nodes: [node(0), node(1)],
            positions: [0; 2],
            backs_off: [false; 2],
            sends: Vec::new(),
            receives: Vec::new(),
            cancelled: Vec::new(),
            ended: Vec::new(),
            connections: BTreeMap::new(),
            next: 0,
            cuts: setup.cuts,
            tears: setup.tears,
            failures: u8::from(setup.reads),
            wrong: None,
        }
    }

    fn wants_link(&self, rank: usize) -> bool {
        self.nodes[rank].wants_link(peer(rank))
    }

    fn settle(&mut self) {
        for rank in 0..2 {
            self.flush(rank);
            while self.nodes[rank].engine.next_ready().is_some() {}
            self.write(rank);
        }
        self.reap();
        // A connection that neither end reads any more is forgotten.
        self.connections.retain(|_, c| c.open != [false; 2]);
        for node in &mut self.nodes {
            node.headers.clear();
        }
    }

    fn flush(&mut self, rank: usize) {
        for output in self.nodes[rank].take_output() {
            match output {
                Output::Bytes(id, bytes) => self.travel(id, rank, Some(bytes)),
                Output::Close(id) => {
                    self.travel(id, rank, None);
                    if let Some(connection) = self.connections.get_mut(&id) {
                        let side = usize::from(connection.ranks[0] != rank);
                        connection.open[side] = false;
                        connection.queues[side].clear();
                    }
                }
            }
        }
    }

    fn write(&mut self, rank: usize) {
        while let Some(id) = self.nodes[rank].table().live(peer(rank)) {
            let bytes = self.nodes[rank].write(peer(rank), usize::MAX);
            if bytes.is_empty() {
                break;
            }
            self.travel(id, rank, Some(bytes));
        }
    }

    fn travel(&mut self, id: u32, from: usize, chunk: Option<Vec<u8>>) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let side = usize::from(connection.ranks[0] == from);
        let empty = chunk.as_ref().is_some_and(Vec::is_empty);
        if connection.open[side] && !connection.cut && !empty {
            connection.queues[side].push_back(chunk);
        }
    }

    fn deliver(&mut self, id: u32, side: usize, upto: usize) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let rank = connection.ranks[side];
        match connection.queues[side].pop_front() {
            None => {}
            Some(None) => {
                self.backs_off[rank] |= self.nodes[rank].end(id);
            }
            Some(Some(mut bytes)) => {
                if bytes.len() > upto {
                    connection.queues[side].push_front(Some(bytes.split_off(upto)));
                }
                match self.nodes[rank].feed(id, &bytes) {
                    Ok(failed) => self.backs_off[rank] |= failed,
                    Err(violation) => self.wrong = Some(violation),
                }
            }
        }
    }

    fn reap(&mut self) {
        for (rank, number, id, segment) in std::mem::take(&mut self.receives) {
            let node = &mut self.nodes[rank];
            match node.engine.poll(id) {
                None => self.receives.push((rank, number, id, segment)),
                Some(completion) => {
                    let bytes = node.bytes(segment).to_vec();
                    node.overwrite(segment);
                    self.ended.push((rank, number, completion, bytes));
                }
            }
        }
        self.ended.sort_by_key(|(_, number, ..)| *number);
        for (rank, number, id, segment) in std::mem::take(&mut self.sends) {
            let node = &mut self.nodes[rank];
            match node.engine.poll(id) {
                None => self.sends.push((rank, number, id, segment)),
                Some(completion) => {
                    node.overwrite(segment);
                    if completion.cancelled {
                        self.cancelled.push(number);
                    }
                }
            }
        }
    }

    fn program(&mut self, plan: &Plan, rank: usize) {
        let step = plan.scripts[rank][self.positions[rank]];
        self.positions[rank] += 1;
        let node = &mut self.nodes[rank];
        match step {
            Step::Send(number) => {
                let message = plan.messages[number];
                let envelope = Envelope {
                    context: message.context,
                    source: rank as i32,
                    tag: message.tag,
                };
                let bytes = content(number, message.len);
                if let Some((id, at)) = node.send(peer(rank), envelope, &bytes, message.mode) {
                    self.sends.push((rank, number, id, at));
                }
            }
            Step::Receive(number) => {
                let receive = plan.receives[number];
                match node.receive(receive.pattern, receive.len) {
                    Ok((id, at)) => self.receives.push((rank, number, id, at)),
                    Err(violation) => self.wrong = Some(violation),
                }
            }
            Step::Cancel(number) => {
                for (_, _, id, _) in self.sends.iter().filter(|s| s.1 == number) {
                    node.engine.cancel(*id);
                }
            }
            Step::Checkpoint(epoch) => node.enter(Epoch(epoch)),
            Step::Await(_) | Step::CancelReceive(_) | Step::Compute(_) => {}
        }
    }

    /// Whether a rank has bodies to read out of the other's memory, or clears their sender.
    fn may_get(&self, rank: usize) -> bool {
        let mut engine = self.nodes[rank].engine.clone();
        engine.next_get().is_some() || engine != self.nodes[rank].engine
    }

    fn get(&mut self, rank: usize, whole: bool) {
        let Some(get) = self.nodes[rank].engine.next_get() else {
            return;
        };
        match self.nodes[1 - rank].expose_memory(&get) {
            Ok(mut bytes) => {
                bytes.truncate(if whole { bytes.len() } else { bytes.len() / 2 });
                self.nodes[rank].take_get(&get, &bytes);
            }
            Err(violation) => self.wrong = Some(violation),
        }
    }

    /// Whether the program may take its next step: an `Await` waits for its receive.
    fn may_step(&self, plan: &Plan, rank: usize) -> bool {
        match plan.scripts[rank].get(self.positions[rank]) {
            Some(Step::Await(number)) => self.ended.iter().any(|e| e.1 == *number),
            step => step.is_some(),
        }
    }

    fn idle(&mut self) {
        for node in &mut self.nodes {
            node.engine.flush_all_acks();
            node.engine.grant_if_starved(&FailedProbes::default());
        }
        self.settle();
    }

    fn verdict(&self, setup: &Setup) -> Result<(), String> {
        if !self.sends.is_empty() || !self.receives.is_empty() {
            return Err(format!("unfinished: {:?} {:?}", self.sends, self.receives));
        }
        if self.cancelled != setup.gone {
            return Err(format!("cancelled: {:?}", self.cancelled));
        }
        self.nodes[0].check_consistency(&self.nodes[1])?;
        for rank in 0..2 {
            if !self.nodes[rank].engine.quiescent() {
                return Err(format!("rank {rank} is not quiescent"));
            }
            let of = |e: &&(usize, usize, Completion, Vec<u8>)| e.0 == rank;
            let outcomes: Vec<Outcome> = self
                .ended
                .iter()
                .filter(of)
                .map(|(_, receive, completion, bytes)| Outcome {
                    receive: *receive,
                    completion: *completion,
                    bytes: bytes.clone(),
                })
                .collect();
            if setup.gone.is_empty() {
                message_check::receives(&setup.plan, rank as u32, 1, &outcomes)?;
            }
            if self.nodes[rank]
                .engine
                .clone()
                .probe(&pattern(1, None, None))
                .is_some()
            {
                return Err("a message is left over".into());
            }
        }
        Ok(())
    }
}

fn peer(rank: usize) -> Rank {
    Rank(1 - rank as u32)
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
            if state.may_step(&self.plan, rank) {
                actions.push(Action::Program(rank));
            }
            if state.wants_link(rank) && !state.backs_off[rank] {
                actions.push(Action::Dial(rank));
            }
            if self.reads && state.may_get(rank) {
                actions.push(Action::Get(rank, true));
                if state.failures > 0 {
                    actions.push(Action::Get(rank, false));
                }
            }
        }
        for (&id, connection) in &state.connections {
            for side in 0..2 {
                if !connection.queues[side].is_empty() && connection.open[side] {
                    actions.push(Action::Deliver(id, side));
                }
            }
        }
        if actions.is_empty() {
            self.timers(state, actions);
        }
        if state.cuts > 0 {
            let whole = |c: &&Connection| !c.cut && c.open == [true; 2];
            for (&id, _) in state.connections.iter().filter(|(_, c)| whole(c)) {
                actions.push(Action::Cut(id));
            }
            if state.tears > 0 {
                self.tears(state, actions);
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Program(rank) => next.program(&self.plan, rank),
            Action::Dial(rank) => {
                let id = next.next;
                next.backs_off[rank] = false;
                if next.nodes[rank]
                    .dial(peer(rank), id, [id as u8; 32])
                    .is_err()
                {
                    return None;
                }
                next.next += 1;
                next.nodes[1 - rank].accept(id, [100 + id as u8; 32]);
                next.connections.insert(
                    id,
                    Connection {
                        ranks: [rank, 1 - rank],
                        open: [true; 2],
                        cut: false,
                        queues: Default::default(),
                    },
                );
                if next.next > 12 {
                    next.wrong = Some("dials without end".into());
                }
            }
            Action::Deliver(id, side) => next.deliver(id, side, usize::MAX),
            Action::Tear(id, side, upto) => {
                next.tears -= 1;
                next.deliver(id, side, upto);
            }
            Action::Get(rank, whole) => {
                next.failures -= u8::from(!whole);
                next.get(rank, whole);
            }
            Action::Cut(id) => {
                next.cuts -= 1;
                let connection = next.connections.get_mut(&id)?;
                connection.cut = true;
                for queue in &mut connection.queues {
                    queue.clear();
                    queue.push_back(None);
                }
            }
            Action::Expire(id, side) => {
                let rank = next.connections[&id].ranks[side];
                next.backs_off[rank] |= next.nodes[rank].end(id);
            }
            Action::Idle => next.idle(),
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
                !actions.is_empty() || state.wrong.is_some() || state.verdict(model).is_ok()
            }),
            Property::sometimes(
                "a body is read, where there are any",
                |model: &Setup, s: &State| {
                    !model.reads || s.nodes.iter().any(|node| node.get_counts.whole > 0)
                },
            ),
            Property::sometimes("all is done", |model: &Setup, state: &State| {
                state.positions.iter().sum::<usize>()
                    == model.plan.scripts.iter().map(Vec::len).sum::<usize>()
                    && state.verdict(model).is_ok()
            }),
        ]
    }
}

impl Setup {
    fn timers(&self, state: &State, actions: &mut Vec<Action>) {
        let mut idle = state.clone();
        idle.idle();
        if idle != *state {
            actions.push(Action::Idle);
            return;
        }
        for (&id, connection) in &state.connections {
            for side in 0..2 {
                if state.nodes[connection.ranks[side]].is_half_open(id) {
                    actions.push(Action::Expire(id, side));
                }
            }
        }
        if actions.is_empty() {
            let waiting = (0..2).filter(|&r| state.wants_link(r) && state.backs_off[r]);
            actions.extend(waiting.map(Action::Dial));
        }
    }

    /// Inside of a header, behind it, and inside of a body; only frames are torn.
    fn tears(&self, state: &State, actions: &mut Vec<Action>) {
        for (&id, connection) in &state.connections {
            for side in 0..2 {
                let live = connection.open[side] && state.nodes[connection.ranks[side]].is_live(id);
                let Some(Some(bytes)) = connection.queues[side].front() else {
                    continue;
                };
                let mut places = vec![32, 64, bytes.len() / 2, bytes.len() - 1];
                places.sort_unstable();
                places.dedup();
                places.retain(|&at| live && at < bytes.len());
                actions.extend(places.into_iter().map(|at| Action::Tear(id, side, at)));
            }
        }
    }
}

const SMALL: Config = Config {
    eager_copy: 8,
    eager_max: 64,
    window: 0,
    chunk: 0,
    beyond: 0,
};

/// Each of two ranks reads bodies of 100 bytes out of the other's memory.
const ACCESS: MemoryAccess = MemoryAccess {
    ours: true,
    theirs: Some(Gets::all_from(100)),
};

fn plan(config: Config, messages: &[(u32, i32, usize, MessageMode)], receives: &[Receive]) -> Plan {
    let message = |&(from, tag, len, mode): &(u32, i32, usize, MessageMode)| Message {
        from,
        to: 1 - from,
        context: 1,
        tag,
        len,
        mode,
    };
    let messages: Vec<Message> = messages.iter().map(message).collect();
    let script = |rank: u32| {
        let own = |m: &usize| messages[*m].from == rank;
        let mut script: Vec<Step> = (0..messages.len()).filter(own).map(Step::Send).collect();
        let mine = |r: &usize| receives[*r].at == rank;
        script.extend((0..receives.len()).filter(mine).map(Step::Receive));
        script
    };
    Plan {
        config: config.consistent(),
        scripts: vec![script(0), script(1)],
        messages,
        receives: receives.to_vec(),
        cancels: false,
    }
}

fn receive(at: u32, tag: Option<i32>, len: usize) -> Receive {
    Receive {
        at,
        pattern: pattern(1, None, tag),
        len,
        probed: false,
    }
}

fn check(name: &str, setup: Setup) {
    let begun = Instant::now();
    let checker = setup.checker().spawn_dfs().join();
    tell(name, begun, &checker, |state| {
        format!("{:?} {:?}", state.wrong, state.verdict(checker.model()))
    });
    checker.assert_properties();
}

/// Cuts at most: one without `REJOIN_MODELS`.
fn cuts() -> u8 {
    1 + ci()
}

#[test]
fn small_and_rendezvous() {
    let messages = [
        (0, 0, 8, MessageMode::Standard),
        (0, 0, 100, MessageMode::Standard),
    ];
    let receives = [receive(1, None, 100), receive(1, None, 100)];
    let plan = plan(SMALL, &messages, &receives);
    check(
        "small and rendezvous",
        Setup {
            plan,
            cuts: cuts(),
            tears: 1,
            reads: false,
            gone: vec![],
        },
    );
}

#[test]
fn bodies_that_are_read_out_of_their_senders_memory() {
    for (name, first, cuts) in [
        ("read: one", (0, 0, 8, MessageMode::Standard), 1),
        (
            "read: both ways",
            (1, 0, 100, MessageMode::Standard),
            full(),
        ),
    ] {
        let messages = [first, (0, 0, 100, MessageMode::Synchronous)];
        let receives = messages.map(|message| receive(1 - message.0, None, 100));
        check(
            name,
            Setup {
                plan: plan(SMALL, &messages, &receives),
                cuts,
                tears: 0,
                reads: true,
                gone: vec![],
            },
        );
    }
}

#[test]
fn images_of_one_epoch_fit_together() {
    for len in [8, 60, 100] {
        let messages = [(0, 0, len, MessageMode::Standard)];
        let mut plan = plan(SMALL, &messages, &[receive(1, None, 100)]);
        plan.scripts[0].push(Step::Checkpoint(1));
        plan.scripts[1].insert(0, Step::Checkpoint(1));
        check(
            "images",
            Setup {
                plan,
                cuts: 1,
                tears: cuts() - 1,
                reads: false,
                gone: vec![],
            },
        );
    }
}

#[test]
fn medium_and_synchronous() {
    let messages = [
        (0, 0, 60, MessageMode::Standard),
        (0, 0, 60, MessageMode::Synchronous),
    ];
    let receives = [receive(1, None, 60), receive(1, None, 60)];
    let plan = plan(SMALL, &messages, &receives);
    check(
        "medium and synchronous",
        Setup {
            plan,
            cuts: cuts(),
            tears: 1,
            reads: false,
            gone: vec![],
        },
    );
}

#[test]
fn both_directions() {
    let messages = [
        (0, 0, 60, MessageMode::Standard),
        (1, 0, 100, MessageMode::Synchronous),
    ];
    let receives = [receive(0, None, 100), receive(1, None, 60)];
    let plan = plan(SMALL, &messages, &receives);
    check(
        "both directions",
        Setup {
            plan,
            cuts: 1,
            tears: cuts() - 1,
            reads: false,
            gone: vec![],
        },
    );
}

#[test]
fn a_full_window_and_a_receive_for_what_is_behind_it() {
    // Rendezvous; eager from the program's memory; eager by copy.
    for (name, copy, len) in [
        ("full window: long", 0, usize::MAX),
        ("full window: short", 0, 8),
        ("full window: copied", 8, 8),
    ] {
        behind_a_full_window(name, copy, len);
    }
}

fn behind_a_full_window(name: &str, eager_copy: usize, len: usize) {
    let config = Config {
        eager_copy,
        eager_max: usize::MAX,
        ..SMALL
    }
    .consistent();
    let full = config.eager_max;
    let len = len.min(full + 1);
    let messages = [
        (0, 1, full, MessageMode::Standard),
        (0, 1, full, MessageMode::Standard),
        (0, 1, full, MessageMode::Standard),
        (0, 2, len, MessageMode::Standard),
    ];
    let receives = [
        receive(1, Some(2), len),
        receive(1, Some(1), full),
        receive(1, Some(1), full),
        receive(1, Some(1), full),
    ];
    let mut plan = plan(config, &messages, &receives);
    plan.scripts[1].insert(1, Step::Await(0));
    check(
        name,
        Setup {
            plan,
            cuts: 1,
            tears: 1,
            reads: false,
            gone: vec![],
        },
    );
}

#[test]
fn a_cancelled_synchronous_send() {
    let messages = [(0, 0, 60, MessageMode::Synchronous)];
    let mut plan = plan(SMALL, &messages, &[]);
    plan.scripts[0].push(Step::Cancel(0));
    check(
        "cancel",
        Setup {
            plan,
            cuts: 2,
            tears: 1,
            reads: false,
            gone: vec![0],
        },
    );
}
