//! A server and two clients on the code itself: engine, table, handshake and resume of three ranks,
//! each a recovery group of its own.
//!
//! The clients ask the server, which receives their questions from any source. It answers each with
//! its place in the order of all questions. So a client knows which order the server had.

use std::collections::VecDeque;

use rejoin_channel_table::{
    AddressBook, BusinessCard, Epoch, Generation, Identity, Incarnation, JobId, Rank,
};
use rejoin_engine::{Config, Envelope, FailedProbes, MessageMode, Pattern, ReqId, Segment};
use rejoin_sim::node::{Node, Output};

/// The rank of the server.
pub const SERVER: usize = 0;
/// The ranks of the clients.
pub const CLIENTS: [usize; 2] = [1, 2];
/// How many ranks there are.
pub const RANKS: usize = 3;
const CONTEXT: u32 = 1;
/// Dials beyond which ranks are said to dial without end.
const MOST_DIALS: u32 = 24;

/// The state of a rank's program: part of its image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    /// Questions or answers.
    pub done: usize,
    /// The client has asked, and waits.
    asked: bool,
    open: Option<(ReqId, Segment)>,
    /// Sends that are not complete.
    pub sends: Vec<(ReqId, Segment)>,
    /// Of the server: who has asked, in order. Of a client: the places of its questions.
    pub seen: Vec<u8>,
}

/// A connection of a client to the server, and the bytes to the server and to the client; `None` is
/// the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Connection {
    pub id: u32,
    pub queues: [VecDeque<Option<Vec<u8>>>; 2],
}

/// Something that programs, connections or libraries do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The next step of a rank's program.
    Program(usize),
    /// One of the two dials: the server or not, and the client.
    Dial(bool, usize),
    /// The next piece on a client's connection arrives, at the server or not.
    Deliver(bool, usize),
    /// Ranks tell what they have.
    Idle,
}

/// The ranks and their connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ranks {
    /// What the library has.
    pub nodes: [Node; RANKS],
    /// What the programs have.
    pub programs: [Program; RANKS],
    /// Ranks that are lost and not back.
    pub away: [bool; RANKS],
    /// By client.
    pub connections: [Option<Connection>; 2],
    dials: u32,
    /// What went wrong.
    pub wrong: Option<String>,
}

/// A rank in its job.
pub fn identity(rank: usize, incarnations: [u32; RANKS]) -> Identity {
    Identity {
        job: JobId(3),
        rank: Rank(rank as u32),
        generation: Generation(0),
        incarnation: Incarnation(incarnations[rank]),
    }
}

/// The address book of a job with these incarnations.
pub fn book(incarnations: [u32; RANKS]) -> AddressBook {
    let entry = |number| (Incarnation(number), BusinessCard::default());
    AddressBook::new(incarnations.map(entry).to_vec())
}

/// A rank by its number.
pub fn rank(number: usize) -> Rank {
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
    pub fn step(
        &mut self,
        number: usize,
        questions: usize,
        node: &mut Node,
    ) -> Result<bool, String> {
        match number {
            SERVER => self.serve(questions * CLIENTS.len(), node),
            client => self.ask(client, questions, node),
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
    pub fn reap(&mut self, node: &mut Node) {
        self.sends.retain(|(id, segment)| {
            let done = node.engine.poll(*id).is_some();
            if done {
                node.overwrite(*segment);
            }
            !done
        });
    }
}

impl Ranks {
    /// All ranks at their first image, of epoch 1, before which each is prepared.
    pub fn new(prepare: impl Fn(&mut Node)) -> Ranks {
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
            prepare(&mut node);
            node.enter(Epoch(1));
            node
        };
        Ranks {
            nodes: std::array::from_fn(node),
            programs: Default::default(),
            away: [false; RANKS],
            connections: Default::default(),
            dials: 0,
            wrong: None,
        }
    }

    fn connection(&mut self, client: usize) -> &mut Option<Connection> {
        &mut self.connections[client - 1]
    }

    /// Whether a rank's program has something to do.
    pub fn can_step(&self, number: usize, questions: usize) -> bool {
        let (mut node, mut program) = (self.nodes[number].clone(), self.programs[number].clone());
        program.step(number, questions, &mut node) != Ok(false)
    }

    /// What connections can do. A rank takes part in a handshake only if it `may_shake`.
    pub fn connection_steps(&self, may_shake: impl Fn(usize) -> bool) -> Vec<Step> {
        let mut steps = Vec::new();
        for client in CLIENTS {
            match &self.connections[client - 1] {
                Some(connection) => {
                    for (side, to_server, to) in [(0, true, SERVER), (1, false, client)] {
                        let live = self.nodes[to].is_live(connection.id);
                        if !connection.queues[side].is_empty() && (live || may_shake(to)) {
                            steps.push(Step::Deliver(to_server, client));
                        }
                    }
                }
                None if self.away[SERVER] || self.away[client] => {}
                None => {
                    for (by_server, from, to) in [(true, SERVER, client), (false, client, SERVER)] {
                        if self.nodes[from].wants_link(rank(to)) && may_shake(from) {
                            steps.push(Step::Dial(by_server, client));
                        }
                    }
                }
            }
        }
        steps
    }

    /// Makes a step.
    pub fn make(&mut self, step: Step, questions: usize) {
        match step {
            Step::Program(number) => {
                let node = &mut self.nodes[number];
                let done = self.programs[number].step(number, questions, node);
                self.wrong = self.wrong.take().or(done.err());
            }
            Step::Dial(by_server, client) => self.dial(by_server, client),
            Step::Deliver(to_server, client) => self.deliver(to_server, client),
            Step::Idle => self.idle(),
        }
    }

    /// What a rank's library does by itself after an event.
    pub fn settle(&mut self, number: usize) {
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

    /// A rank dials: the server or a client.
    fn dial(&mut self, by_server: bool, client: usize) {
        let id = self.dials;
        self.dials += 1;
        let (from, to) = match by_server {
            true => (SERVER, client),
            false => (client, SERVER),
        };
        let dialed = self.nodes[from].dial(rank(to), id, [id as u8; 32]);
        self.wrong = self
            .wrong
            .take()
            .or(dialed.err().map(|error| error.to_string()));
        self.nodes[to].accept(id, [100 + id as u8; 32]);
        let queues = Default::default();
        *self.connection(client) = Some(Connection { id, queues });
        if self.dials > MOST_DIALS {
            self.wrong = Some("dials without end".into());
        }
    }

    /// The next piece of a client's connection arrives.
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

    /// A rank is lost, and its connections.
    pub fn lose(&mut self, number: usize) {
        self.away[number] = true;
        for client in CLIENTS {
            if number == SERVER || number == client {
                self.close(client);
            }
        }
    }

    /// Nothing else happens: ranks tell what they have.
    fn idle(&mut self) {
        for node in &mut self.nodes {
            node.engine.flush_all_acks();
            node.engine.grant_if_starved(&FailedProbes::default());
        }
    }

    /// Whether all have ended, and each client was told the server's order.
    pub fn verdict(&self, questions: usize) -> Result<(), String> {
        let order = &self.programs[SERVER].seen;
        if order.len() != questions * CLIENTS.len() {
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
}
