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
//! `REJOIN_MODELS=soak` takes larger ones than `full`. Without the variable only the searches for
//! violations run.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use rejoin_channel_table::{
    AddressBook, BusinessCard, Epoch, Generation, Identity, Incarnation, JobId, Rank,
};
use rejoin_engine::{
    Config, Envelope, FailedProbes, MessageMode, Pattern, ReqId, Segment, WildMatch,
};
use rejoin_sim::node::{Node, Output};
use rejoin_tests::models::{full, soak, tell};
use stateright::{Checker, Model, Property};

const SERVER: usize = 0;
const CLIENTS: [usize; 2] = [1, 2];
const RANKS: usize = 3;
const CONTEXT: u32 = 1;
/// Dials beyond which ranks are said to dial without end.
const MOST_DIALS: u32 = 24;

/// The state of a rank's program: part of its image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Program {
    /// Questions that were received, or answers.
    done: usize,
    /// The client has asked, and waits.
    asked: bool,
    open: Option<(ReqId, Segment)>,
    /// Sends that are not complete.
    sends: Vec<(ReqId, Segment)>,
    /// Of the server: who has asked, in order. Of a client: the places of its questions.
    seen: Vec<u8>,
}

/// A connection of a client to the server, and the bytes to the server and to the client; `None` is
/// the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Connection {
    id: u32,
    queues: [VecDeque<Option<Vec<u8>>>; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: [Node; RANKS],
    programs: [Program; RANKS],
    images: [BTreeMap<Epoch, Program>; RANKS],
    committed: [Epoch; RANKS],
    taken: [Option<Epoch>; RANKS],
    incarnations: [u32; RANKS],
    away: [bool; RANKS],
    /// By client.
    connections: [Option<Connection>; 2],
    dials: u32,
    /// Matches of the server, which outlive it.
    stored: BTreeMap<u64, WildMatch>,
    left: Budget,
    wrong: Option<String>,
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Budget {
    images: u8,
    crashes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Program(usize),
    /// One of the two dials: the server or not, and the client.
    Dial(bool, usize),
    /// The next piece on a client's connection arrives, at the server or not.
    Deliver(bool, usize),
    Idle,
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

fn identity(rank: usize, incarnations: [u32; RANKS]) -> Identity {
    Identity {
        job: JobId(3),
        rank: Rank(rank as u32),
        generation: Generation(0),
        incarnation: Incarnation(incarnations[rank]),
    }
}

fn book(incarnations: [u32; RANKS]) -> AddressBook {
    let entry = |number| (Incarnation(number), BusinessCard::default());
    AddressBook::new(incarnations.map(entry).to_vec())
}

fn rank(number: usize) -> Rank {
    Rank(number as u32)
}

fn pattern(source: Option<usize>) -> Pattern {
    Pattern {
        context: CONTEXT,
        source: source.map(|source| source as i32),
        tag: Some(0),
        from: source.map(rank),
    }
}

impl Program {
    /// What the program does next; false: it waits, or has ended.
    fn step(&mut self, number: usize, setup: &Setup, node: &mut Node) -> Result<bool, String> {
        match number {
            SERVER => self.serve(setup.questions * CLIENTS.len(), node),
            client => self.ask(client, setup.questions, node),
        }
    }

    fn serve(&mut self, questions: usize, node: &mut Node) -> Result<bool, String> {
        let Some((request, segment)) = self.open else {
            if self.done == questions {
                return Ok(false);
            }
            self.open = Some(node.receive(pattern(None), 1)?);
            return Ok(true);
        };
        let Some(done) = node.engine.poll(request) else {
            return Ok(false);
        };
        let client = node.bytes(segment)[0];
        if i32::from(client) != done.source {
            return Err(format!("a question of {client} comes from {}", done.source));
        }
        node.overwrite(segment);
        self.open = None;
        self.seen.push(client);
        self.send(node, SERVER, usize::from(client), self.done as u8);
        self.done += 1;
        Ok(true)
    }

    fn ask(&mut self, client: usize, questions: usize, node: &mut Node) -> Result<bool, String> {
        if self.done == questions {
            return Ok(false);
        }
        if !self.asked {
            self.send(node, client, SERVER, client as u8);
            self.asked = true;
            self.open = Some(node.receive(pattern(Some(SERVER)), 1)?);
            return Ok(true);
        }
        let Some((request, segment)) = self.open else {
            return Err("a client waits for nothing".into());
        };
        if node.engine.poll(request).is_none() {
            return Ok(false);
        }
        self.seen.push(node.bytes(segment)[0]);
        node.overwrite(segment);
        self.open = None;
        self.asked = false;
        self.done += 1;
        Ok(true)
    }

    fn send(&mut self, node: &mut Node, from: usize, to: usize, byte: u8) {
        let envelope = Envelope {
            context: CONTEXT,
            source: from as i32,
            tag: 0,
        };
        let open = node.send(rank(to), envelope, &[byte], MessageMode::Standard);
        self.sends.extend(open);
    }

    /// Uses the memory of complete sends again.
    fn reap(&mut self, node: &mut Node) {
        self.sends.retain(|(id, segment)| {
            let done = node.engine.poll(*id).is_some();
            if done {
                node.overwrite(*segment);
            }
            !done
        });
    }
}

impl State {
    fn new(setup: &Setup) -> State {
        let config = Config {
            eager_copy: 8,
            eager_max: 64,
            window: 0,
            chunk: 0,
            beyond: 0,
        };
        let node = |number| {
            let me = identity(number, [0; RANKS]);
            let mut node = Node::new(config.consistent(), me, book([0; RANKS]));
            node.engine.set_groups(&[0, 1, 2]);
            node.enter(Epoch(1));
            node
        };
        let image = || BTreeMap::from([(Epoch(1), Program::default())]);
        State {
            nodes: std::array::from_fn(node),
            programs: Default::default(),
            images: std::array::from_fn(|_| image()),
            committed: [Epoch(1); RANKS],
            taken: [None; RANKS],
            incarnations: [0; RANKS],
            away: [false; RANKS],
            connections: Default::default(),
            dials: 0,
            stored: BTreeMap::new(),
            left: setup.budget,
            wrong: None,
        }
    }

    fn connection(&mut self, client: usize) -> &mut Option<Connection> {
        &mut self.connections[client - 1]
    }

    /// All steps that the ranks make by themselves after an event.
    fn settle(&mut self, without: Without) {
        if without != Without::Order {
            self.store(without);
        }
        let away = self.away;
        for number in (0..RANKS).filter(|number| !away[*number]) {
            for output in self.nodes[number].take_output() {
                match output {
                    Output::Bytes(id, bytes) if !bytes.is_empty() => {
                        self.travel(id, number, Some(bytes));
                    }
                    Output::Bytes(..) => {}
                    Output::Close(id) => self.travel(id, number, None),
                }
            }
            let node = &mut self.nodes[number];
            while node.engine.next_ready().is_some() {}
            self.write(number);
            let node = &mut self.nodes[number];
            self.programs[number].reap(node);
            node.headers.clear();
            let keep = [Some(self.committed[number]), self.taken[number]];
            node.keep_images(|epoch| keep.contains(&Some(epoch)));
            self.images[number].retain(|epoch, _| keep.contains(&Some(*epoch)));
        }
    }

    /// Stores the server's matches.
    fn store(&mut self, without: Without) {
        if self.away[SERVER] {
            return;
        }
        let (stored, wrong) = (&mut self.stored, &mut self.wrong);
        self.nodes[SERVER].engine.store_wild_matches(|one| {
            if without != Without::Store {
                let before = stored.insert(one.number, one);
                if before.is_some_and(|before| before != one) {
                    *wrong = Some(format!("{before:?} is contradicted by {one:?}"));
                }
            }
            true
        });
    }

    fn write(&mut self, number: usize) {
        let peers = match number {
            SERVER => &CLIENTS[..],
            _ => &[SERVER],
        };
        for peer in peers {
            while let Some(id) = self.nodes[number].table().live(rank(*peer)) {
                let bytes = self.nodes[number].write(rank(*peer), usize::MAX);
                if bytes.is_empty() {
                    break;
                }
                self.travel(id, number, Some(bytes));
            }
        }
    }

    fn travel(&mut self, id: u32, from: usize, chunk: Option<Vec<u8>>) {
        let mut open = self.connections.iter_mut().flatten();
        if let Some(connection) = open.find(|connection| connection.id == id) {
            connection.queues[usize::from(from == SERVER)].push_back(chunk);
        }
    }

    fn dial(&mut self, by_server: bool, client: usize) {
        let id = self.dials;
        self.dials += 1;
        let (from, to) = match by_server {
            true => (SERVER, client),
            false => (client, SERVER),
        };
        let dialed = self.nodes[from].dial(rank(to), id, [id as u8; 32]);
        self.wrong = dialed.err().map(|error| error.to_string());
        self.nodes[to].accept(id, [100 + id as u8; 32]);
        let queues = Default::default();
        *self.connection(client) = Some(Connection { id, queues });
        if self.dials > MOST_DIALS {
            self.wrong = Some("dials without end".into());
        }
    }

    fn deliver(&mut self, to_server: bool, client: usize) {
        let number = if to_server { SERVER } else { client };
        let Some(connection) = self.connection(client) else {
            return;
        };
        let id = connection.id;
        match connection.queues[usize::from(!to_server)].pop_front() {
            None => {}
            Some(None) => self.close(client),
            Some(Some(bytes)) => {
                let fed = self.nodes[number].feed(id, &bytes);
                self.wrong = fed.err();
            }
        }
    }

    /// A client's connection is gone, and those of its ends that are there see that.
    fn close(&mut self, client: usize) {
        if let Some(connection) = self.connection(client).take() {
            for number in [SERVER, client] {
                if !self.away[number] {
                    self.nodes[number].end(connection.id);
                }
            }
        }
    }

    fn crash(&mut self, number: usize) {
        self.away[number] = true;
        self.taken[number] = None;
        for client in CLIENTS {
            if number == SERVER || number == client {
                self.close(client);
            }
        }
    }

    fn take_image(&mut self, number: usize) {
        let epoch = Epoch(self.nodes[number].engine.epoch().0 + 1);
        self.nodes[number].enter(epoch);
        self.images[number].insert(epoch, self.programs[number].clone());
        self.taken[number] = Some(epoch);
    }

    fn commit(&mut self, number: usize) {
        if let Some(epoch) = self.taken[number].take() {
            self.committed[number] = epoch;
            self.nodes[number].commit(epoch);
        }
    }

    fn back(&mut self, number: usize) {
        self.incarnations[number] += 1;
        let (epoch, now) = (self.committed[number], self.incarnations);
        let node = self.nodes[number].rejoin(epoch, identity(number, now), book(now));
        let program = self.images[number].get(&epoch);
        let (Some(mut node), Some(program)) = (node, program) else {
            self.wrong = Some("a committed image is gone".into());
            return;
        };
        // Its commit was stored, whether or not the rank has told its peers.
        node.commit(epoch);
        if number == SERVER {
            // The image knows how many receives it had posted.
            node.engine
                .replay_wild_matches(self.stored.values().copied());
        }
        self.programs[number] = program.clone();
        self.nodes[number] = node;
        self.away[number] = false;
        for other in (0..RANKS).filter(|other| *other != number) {
            // One that is away gets the table as it comes back.
            if !self.away[other] {
                let told = self.nodes[other].update(rank(number), Incarnation(now[number]));
                self.wrong = self.wrong.take().or(told.err());
            }
        }
    }

    fn idle(&mut self) {
        for node in &mut self.nodes {
            node.engine.flush_all_acks();
            node.engine.grant_if_starved(&FailedProbes::default());
        }
    }

    /// Whether all have ended, and each client was told the server's order.
    fn verdict(&self, setup: &Setup) -> Result<(), String> {
        let order = &self.programs[SERVER].seen;
        if order.len() != setup.questions * CLIENTS.len() {
            return Err(format!("the server is stuck after {order:?}"));
        }
        if let Some(open) = self.programs.iter().position(|p| !p.sends.is_empty()) {
            return Err(format!("a send of rank {open} does not end"));
        }
        for client in CLIENTS {
            let places = (0u8..).zip(order);
            let own = places.filter(|(_, who)| usize::from(**who) == client);
            let own: Vec<u8> = own.map(|(place, _)| place).collect();
            let told = &self.programs[client].seen;
            if *told != own {
                return Err(format!("client {client} knows {told:?} of {order:?}"));
            }
        }
        Ok(())
    }

    /// What a client was told that contradicts the server, as far as that has got.
    fn contradiction(&self) -> Option<String> {
        let order = &self.programs[SERVER].seen;
        for client in CLIENTS {
            for place in &self.programs[client].seen {
                let who = order.get(usize::from(*place));
                if who.is_some_and(|who| usize::from(*who) != client) {
                    return Some(format!("client {client} was told {place} of {order:?}"));
                }
            }
        }
        None
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
        for number in 0..RANKS {
            if state.away[number] {
                actions.push(Action::Back(number));
                continue;
            }
            let (mut node, mut program) =
                (state.nodes[number].clone(), state.programs[number].clone());
            if program.step(number, self, &mut node) != Ok(false) {
                actions.push(Action::Program(number));
            }
            if state.taken[number].is_some() {
                actions.push(Action::Commit(number));
            }
        }
        for client in CLIENTS {
            match &state.connections[client - 1] {
                Some(connection) => {
                    for (side, to_server) in [(0, true), (1, false)] {
                        if !connection.queues[side].is_empty() {
                            actions.push(Action::Deliver(to_server, client));
                        }
                    }
                }
                None if state.away[SERVER] || state.away[client] => {}
                None => {
                    for (by_server, from, to) in [(true, SERVER, client), (false, client, SERVER)] {
                        if state.nodes[from].wants_link(rank(to)) {
                            actions.push(Action::Dial(by_server, client));
                        }
                    }
                }
            }
        }
        if actions.is_empty() {
            let mut idle = state.clone();
            idle.idle();
            idle.settle(self.without);
            if idle != *state {
                actions.push(Action::Idle);
            }
        }
        for number in (0..RANKS).filter(|number| !state.away[*number]) {
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
        if self.without == Without::Order && action == Action::Idle {
            // What depends on them has left by now.
            next.store(self.without);
        }
        match action {
            Action::Program(number) => {
                let node = &mut next.nodes[number];
                let done = next.programs[number].step(number, self, node);
                next.wrong = next.wrong.take().or(done.err());
            }
            Action::Dial(by_server, client) => next.dial(by_server, client),
            Action::Deliver(to_server, client) => next.deliver(to_server, client),
            Action::Idle => next.idle(),
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
        if next.wrong.is_none() {
            next.wrong = next.contradiction();
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nobody is told two orders", |_: &Setup, state: &State| {
                state.wrong.is_none()
            }),
            Property::always("what ends, ends well", |model: &Setup, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let over = actions.is_empty() && state.wrong.is_none();
                !over || state.verdict(model).is_ok()
            }),
            Property::sometimes("either client is the first", |_: &Setup, s: &State| {
                s.programs[SERVER].seen.first() == Some(&2)
            }),
            Property::sometimes("all is done", |model: &Setup, s: &State| {
                let back = s.incarnations[SERVER] > 0 || model.budget.crashes == 0;
                let committed = s.committed[SERVER] != Epoch(1) || model.budget.images == 0;
                back && committed && s.verdict(model).is_ok()
            }),
        ]
    }
}

fn check(name: &str, questions: usize, budget: Budget) {
    if full() == 0 {
        return println!("{name}: only with REJOIN_MODELS=full");
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
        let verdict = state.verdict(checker.model());
        format!("{:?} {verdict:?}", state.wrong)
    });
    checker.assert_properties();
}

#[test]
fn one_rank_crashes_at_any_step() {
    let (images, crashes) = (0, 1);
    check("one question, no image", 1, Budget { images, crashes });
    if soak() > 0 {
        check("one question, an image", 1, Budget { images: 1, crashes });
    }
}

#[test]
fn two_crashes_at_any_steps() {
    let (images, crashes) = (0, 2);
    if soak() > 0 {
        check("two crashes", 1, Budget { images, crashes });
        check("two questions", 2, Budget { images, crashes: 1 });
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
    let verdict = state.verdict(checker.model());
    state.wrong.or(verdict.err()).expect("a violation")
}

#[test]
fn matches_that_are_not_stored_are_made_in_another_order() {
    println!("{}", found(Without::Store));
}

#[test]
fn matches_that_are_stored_too_late_are_lost() {
    println!("{}", found(Without::Order));
}
