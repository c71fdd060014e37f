//! The simulated world: time, the network with its faults, and ranks that run a plan.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use rejoin_channel_table::{
    AddressBook, BusinessCard, Generation, Identity, Incarnation, JobId, Rank,
};
use rejoin_engine::{Envelope, ReqId, Segment};

use crate::check::{self, Bound, Outcome};
use crate::node::{ConnectionId, Node, Output, Violation};
use crate::plan::{CANCEL_CONTEXT, IDLE_CONTEXT, Plan, Receive, Step, content, pattern};
use crate::rng::Rng;

/// Microseconds since the start.
type Time = u64;

/// A handshake must end within this.
const HANDSHAKE_LIMIT: Time = 20_000;
/// A rank that waits looks after its acks and grants this often.
const TICK: Time = 1_000;
/// A run that takes longer is stuck.
const END: Time = 120_000_000;
/// Bytes on their way in one direction of a connection.
const IN_FLIGHT: usize = 64 << 10;

/// How often things go wrong.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Mean time between cut connections, in microseconds; 0: never.
    pub cut_every: Time,
    /// Faults end then.
    pub until: Time,
    /// Percent of new connections that never deliver anything.
    pub dead_on_arrival: u64,
    /// Percent of cuts of which one end hears very late.
    pub late: u64,
}

#[derive(Clone, Debug)]
enum Event {
    /// A rank takes its next step.
    Step(u32),
    /// Bytes arrive at an end, or its end (`None`).
    Arrive(ConnectionId, usize, Option<Vec<u8>>),
    /// A handshake at an end takes too long.
    Expire(ConnectionId, usize),
    /// A rank dials.
    Dial(u32, u32),
    /// Acks and grants.
    Tick(u32),
    /// A rank did something outside of its script.
    Poke(u32),
    /// A connection breaks.
    Cut,
}

#[derive(Debug)]
struct Connection {
    ranks: [u32; 2],
    /// Which ends still read and write.
    open: [bool; 2],
    /// Nothing is delivered any more but the end.
    cut: bool,
    in_flight: [usize; 2],
    last_arrival: [Time; 2],
}

#[derive(Debug)]
struct Pending {
    id: ReqId,
    segment: Segment,
    /// Number in the plan.
    number: usize,
    blocking: bool,
}

/// A rank's program as far as it has come.
#[derive(Debug, Default)]
struct Program {
    position: usize,
    sends: Vec<Pending>,
    receives: Vec<Pending>,
    /// Receives in the order in which they were bound, and what became of them.
    bound: Vec<usize>,
    outcomes: BTreeMap<usize, Outcome>,
    /// Waits in `Await`, or probes: steps again when something has happened.
    waiting: bool,
}

/// A run.
pub struct World {
    rng: Rng,
    now: Time,
    sequence: u64,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    payloads: BTreeMap<u64, Event>,
    plan: Plan,
    faults: Faults,
    nodes: Vec<Node>,
    programs: Vec<Program>,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: ConnectionId,
    dialing: BTreeSet<(u32, u32)>,
    failures: BTreeMap<(u32, u32), u32>,
    bounds: BTreeMap<(u32, u32), Bound>,
    trace: VecDeque<String>,
    /// Connections cut so far.
    pub cuts: u32,
}

impl World {
    /// Ranks that are about to run `plan`.
    pub fn new(mut rng: Rng, plan: Plan, faults: Faults) -> World {
        let size = plan.scripts.len() as u32;
        let entry = (Incarnation(0), BusinessCard::default());
        let book = AddressBook::new(vec![entry; size as usize]);
        let identity = |rank| Identity {
            job: JobId(3),
            rank: Rank(rank),
            generation: Generation(0),
            incarnation: Incarnation(0),
        };
        let nodes = (0..size)
            .map(|r| Node::new(plan.config, identity(r), book.clone()))
            .collect();
        let seed = rng.bits();
        let mut world = World {
            rng: Rng::new(seed),
            now: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            payloads: BTreeMap::new(),
            plan,
            faults,
            nodes,
            programs: (0..size).map(|_| Program::default()).collect(),
            connections: BTreeMap::new(),
            next_connection: 0,
            dialing: BTreeSet::new(),
            failures: BTreeMap::new(),
            bounds: BTreeMap::new(),
            trace: VecDeque::new(),
            cuts: 0,
        };
        for rank in 0..size {
            world.after(rng.below(500), Event::Step(rank));
            world.after(TICK + rng.below(TICK), Event::Tick(rank));
        }
        if faults.cut_every > 0 {
            world.after(faults.cut_every, Event::Cut);
        }
        world
    }

    /// Runs to the end and checks everything.
    ///
    /// # Errors
    /// What went wrong first, with the last events.
    pub fn run(&mut self) -> Result<(), String> {
        let done = self.go();
        done.map_err(|violation| {
            let trace: Vec<&str> = self.trace.iter().map(String::as_str).collect();
            format!("{violation}\nlast events:\n{}", trace.join("\n"))
        })
    }

    fn go(&mut self) -> Result<(), Violation> {
        while let Some(Reverse((time, sequence))) = self.events.pop() {
            self.now = time;
            let Some(event) = self.payloads.remove(&sequence) else {
                continue;
            };
            if time > END {
                return Err(self.stuck());
            }
            self.note(&event);
            self.handle(event)?;
            if self.is_over() {
                return self.check();
            }
        }
        Err(self.stuck())
    }

    fn note(&mut self, event: &Event) {
        let text = match event {
            Event::Tick(_) => return,
            Event::Arrive(id, side, bytes) => {
                let ranks = self.connections.get(id).map(|c| c.ranks);
                let len = bytes.as_ref().map(Vec::len);
                format!("{} arrive {id}/{side} {ranks:?} {len:?}", self.now)
            }
            Event::Step(rank) => {
                let next =
                    self.plan.scripts[*rank as usize].get(self.programs[*rank as usize].position);
                format!("{} step {rank} {next:?}", self.now)
            }
            other => format!("{} {other:?}", self.now),
        };
        if let Event::Arrive(id, side, Some(_)) = event {
            // Of bytes that arrive one after the other, the last line is enough.
            let same = format!(" arrive {id}/{side} ");
            if self.trace.back().is_some_and(|last| last.contains(&same)) {
                self.trace.pop_back();
            }
        }
        self.trace.push_back(text);
        if self.trace.len() > 60 {
            self.trace.pop_front();
        }
    }

    fn stuck(&self) -> String {
        let mut text = format!("stuck at {} us", self.now);
        for (rank, program) in self.programs.iter().enumerate() {
            let node = &self.nodes[rank];
            let script = self.plan.scripts[rank].len();
            text += &format!(
                "\nrank {rank}: step {} of {script}, sends {:?}, receives {:?}, unfinished {:?}",
                program.position,
                program
                    .sends
                    .iter()
                    .map(|p| self.plan.messages[p.number])
                    .collect::<Vec<_>>(),
                program
                    .receives
                    .iter()
                    .map(|p| p.number)
                    .collect::<Vec<_>>(),
                node.engine.unfinished(),
            );
        }
        text
    }

    fn after(&mut self, delay: Time, event: Event) {
        self.at(self.now + delay, event);
    }

    fn at(&mut self, time: Time, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence)));
        self.payloads.insert(self.sequence, event);
    }

    fn handle(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Step(rank) => {
                self.step(rank)?;
                self.pump(rank);
            }
            Event::Arrive(id, side, bytes) => self.arrive(id, side, bytes)?,
            Event::Expire(id, side) => {
                let rank = self.connections[&id].ranks[side];
                if self.nodes[rank as usize].is_half_open(id) {
                    self.end(id, side);
                    self.pump(rank);
                }
            }
            Event::Dial(from, to) => self.dial(from, to),
            Event::Tick(rank) => {
                let node = &mut self.nodes[rank as usize];
                node.engine.flush_all_acks();
                node.engine.grant_if_starved(None);
                self.reap(rank)?;
                self.step_if_waiting(rank)?;
                self.pump(rank);
                self.after(TICK, Event::Tick(rank));
            }
            Event::Poke(rank) => {
                self.reap(rank)?;
                self.pump(rank);
            }
            Event::Cut => self.cut(),
        }
        Ok(())
    }

    // The network.

    fn delay(&mut self) -> Time {
        match self.rng.below(20) {
            0 => self.rng.between(500, 3_000),
            1..=4 => self.rng.between(50, 500),
            _ => self.rng.between(5, 50),
        }
    }

    /// Schedules what travels to the end `side`.
    fn travel(&mut self, id: ConnectionId, side: usize, bytes: Option<Vec<u8>>, extra: Time) {
        let delay = self.delay() + extra;
        let now = self.now;
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if connection.cut && bytes.is_some() {
            return;
        }
        connection.in_flight[side] += bytes.as_ref().map_or(0, Vec::len);
        let time = connection.last_arrival[side].max(now + delay);
        connection.last_arrival[side] = time;
        self.at(time, Event::Arrive(id, side, bytes));
    }

    fn arrive(
        &mut self,
        id: ConnectionId,
        side: usize,
        bytes: Option<Vec<u8>>,
    ) -> Result<(), Violation> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let (rank, writer) = (connection.ranks[side], connection.ranks[1 - side]);
        connection.in_flight[side] -= bytes.as_ref().map_or(0, Vec::len);
        if !connection.open[side] || (connection.cut && bytes.is_some()) {
            return Ok(());
        }
        match bytes {
            None => self.end(id, side),
            Some(bytes) => {
                let failed = self.nodes[rank as usize].feed(id, &bytes)?;
                self.bounds(rank)?;
                let peer = self.connections[&id].ranks[1 - side];
                self.dialed(rank, peer, failed);
            }
        }
        self.reap(rank)?;
        self.step_if_waiting(rank)?;
        self.pump(rank);
        self.pump_to(writer, rank);
        Ok(())
    }

    /// The end `side` of a connection is over for its rank.
    fn end(&mut self, id: ConnectionId, side: usize) {
        let ranks = self.connections[&id].ranks;
        let failed = self.nodes[ranks[side] as usize].end(id);
        self.dialed(ranks[side], ranks[1 - side], failed);
    }

    fn dialed(&mut self, from: u32, to: u32, failed: bool) {
        if failed {
            let failures = self.failures.entry((from, to)).or_default();
            *failures += 1;
            let longest = 200 << (*failures).min(6);
            let delay = self.rng.between(100, longest);
            if self.dialing.insert((from, to)) {
                self.after(delay, Event::Dial(from, to));
            }
        } else if self.nodes[from as usize].table().live(Rank(to)).is_some() {
            self.failures.remove(&(from, to));
        }
    }

    fn dial(&mut self, from: u32, to: u32) {
        self.dialing.remove(&(from, to));
        let nonces = [self.rng.nonce(), self.rng.nonce()];
        let node = &mut self.nodes[from as usize];
        let id = self.next_connection;
        if !node.wants_link(Rank(to)) || node.dial(Rank(to), id, nonces[0]).is_err() {
            return;
        }
        self.next_connection += 1;
        let faulty = self.now < self.faults.until;
        let dead = faulty && self.rng.chance(self.faults.dead_on_arrival);
        self.connections.insert(
            id,
            Connection {
                ranks: [from, to],
                open: [true; 2],
                cut: dead,
                in_flight: [0; 2],
                last_arrival: [0; 2],
            },
        );
        self.nodes[to as usize].accept(id, nonces[1]);
        self.after(HANDSHAKE_LIMIT, Event::Expire(id, 0));
        self.after(HANDSHAKE_LIMIT, Event::Expire(id, 1));
        self.pump(from);
    }

    fn cut(&mut self) {
        let ids: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, c)| !c.cut && c.open == [true; 2])
            .map(|(id, _)| *id)
            .collect();
        if self.now < self.faults.until {
            let next = self.rng.between(1, 2 * self.faults.cut_every);
            self.after(next, Event::Cut);
            if !ids.is_empty() {
                let id = *self.rng.pick(&ids);
                self.cut_one(id);
            }
        }
    }

    fn cut_one(&mut self, id: ConnectionId) {
        self.cuts += 1;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.cut = true;
        }
        let late = self.rng.chance(self.faults.late);
        let deaf = self.rng.below(2) as usize;
        for side in 0..2 {
            let extra = if late && side == deaf { 300_000 } else { 0 };
            self.travel(id, side, None, extra);
        }
    }

    /// Does what the node of `rank` wants, and writes whatever is ready.
    fn pump(&mut self, rank: u32) {
        self.flush(rank);
        while let Some(peer) = self.nodes[rank as usize].engine.next_ready() {
            self.pump_to(rank, peer.0);
        }
    }

    fn pump_to(&mut self, rank: u32, peer: u32) {
        let node = &self.nodes[rank as usize];
        if node.wants_link(Rank(peer)) && self.dialing.insert((rank, peer)) {
            let delay = self.rng.below(100);
            self.after(delay, Event::Dial(rank, peer));
        }
        while let Some((_, id)) = self.nodes[rank as usize].table().live(Rank(peer)) {
            let connection = &self.connections[&id];
            let side = usize::from(connection.ranks[0] == rank);
            let room = IN_FLIGHT.saturating_sub(connection.in_flight[side]);
            if room == 0 {
                break;
            }
            let limit = (self.rng.between(1, 9_000) as usize).min(room);
            let bytes = self.nodes[rank as usize].write(Rank(peer), limit);
            if bytes.is_empty() {
                break;
            }
            self.travel(id, side, Some(bytes), 0);
        }
    }

    fn flush(&mut self, rank: u32) {
        for output in self.nodes[rank as usize].take_output() {
            match output {
                Output::Bytes(_, bytes) if bytes.is_empty() => {}
                Output::Bytes(id, bytes) => {
                    let side = usize::from(self.connections[&id].ranks[0] == rank);
                    self.travel(id, side, Some(bytes), 0);
                }
                Output::Close(id) => {
                    let Some(connection) = self.connections.get_mut(&id) else {
                        continue;
                    };
                    let side = usize::from(connection.ranks[0] == rank);
                    connection.open[1 - side] = false;
                    if !connection.cut && connection.open[side] {
                        self.travel(id, side, None, 0);
                    }
                }
            }
        }
    }

    fn bounds(&mut self, rank: u32) -> Result<(), Violation> {
        let node = &mut self.nodes[rank as usize];
        for (peer, header) in std::mem::take(&mut node.headers) {
            let credit = node.engine.resume(peer).credit;
            let bound = self.bounds.entry((rank, peer.0)).or_default();
            bound
                .note(&self.plan.config, &header, credit)
                .map_err(|e| format!("rank {rank} from {peer}: {e}"))?;
        }
        Ok(())
    }

    // The program.

    fn step_if_waiting(&mut self, rank: u32) -> Result<(), Violation> {
        if self.programs[rank as usize].waiting {
            self.step(rank)?;
        }
        Ok(())
    }

    fn step(&mut self, rank: u32) -> Result<(), Violation> {
        let program = &mut self.programs[rank as usize];
        let Some(&step) = self.plan.scripts[rank as usize].get(program.position) else {
            return Ok(());
        };
        program.waiting = false;
        let mut pause = self.rng.below(30);
        match step {
            Step::Send(number) => self.send(rank, number),
            Step::Receive(number) => {
                if !self.receive(rank, number)? {
                    self.programs[rank as usize].waiting = true;
                    return Ok(());
                }
            }
            Step::Await(number) => {
                let program = &mut self.programs[rank as usize];
                if !program.outcomes.contains_key(&number) {
                    program.waiting = true;
                    let engine = &mut self.nodes[rank as usize].engine;
                    engine.grant_if_starved(None);
                    return Ok(());
                }
            }
            Step::Cancel(number) => {
                let pending = self.programs[rank as usize].sends.iter();
                if let Some(send) = pending.into_iter().find(|p| p.number == number) {
                    self.nodes[rank as usize].engine.cancel(send.id);
                }
            }
            Step::CancelReceive(number) => {
                let pending = self.programs[rank as usize].receives.iter();
                if let Some(receive) = pending.into_iter().find(|p| p.number == number) {
                    self.nodes[rank as usize].engine.cancel(receive.id);
                }
            }
            Step::Compute(time) => pause = time,
        }
        self.programs[rank as usize].position += 1;
        self.reap(rank)?;
        self.after(pause, Event::Step(rank));
        Ok(())
    }

    fn send(&mut self, rank: u32, number: usize) {
        let message = self.plan.messages[number];
        let envelope = Envelope {
            context: message.context,
            source: rank.cast_signed(),
            tag: message.tag,
        };
        let bytes = content(number, message.len);
        let node = &mut self.nodes[rank as usize];
        match node.send(Rank(message.to), envelope, &bytes, message.mode) {
            Some((id, segment)) => self.programs[rank as usize].sends.push(Pending {
                id,
                segment,
                number,
                blocking: message.mode == rejoin_engine::Mode::Blocking,
            }),
            None => self.not_cancelled(number),
        }
    }

    /// A message that was to be cancelled went out after all: it gets its receive.
    fn not_cancelled(&mut self, number: usize) {
        let message = self.plan.messages[number];
        if message.context != CANCEL_CONTEXT {
            return;
        }
        let receive = self.plan.receives.len();
        let pattern = pattern(CANCEL_CONTEXT, Some(message.from), Some(message.tag));
        self.plan.receives.push(Receive {
            at: message.to,
            pattern,
            len: message.len,
            probed: false,
        });
        // Outside of the receiver's script.
        let _ = self.receive(message.to, receive);
        self.after(0, Event::Poke(message.to));
    }

    /// Posts a receive; false if it probes and nothing is there yet.
    fn receive(&mut self, rank: u32, number: usize) -> Result<bool, Violation> {
        let receive = self.plan.receives[number];
        let node = &mut self.nodes[rank as usize];
        let (id, segment) = if receive.probed {
            match node.engine.mprobe(&receive.pattern) {
                Some((message, _)) => node.receive_matched(message, receive.len)?,
                None => {
                    node.engine.grant_if_starved(Some(&receive.pattern));
                    return Ok(false);
                }
            }
        } else {
            node.receive(receive.pattern, receive.len)?
        };
        let program = &mut self.programs[rank as usize];
        program.bound.push(number);
        program.receives.push(Pending {
            id,
            segment,
            number,
            blocking: false,
        });
        Ok(true)
    }

    /// Takes what has completed.
    fn reap(&mut self, rank: u32) -> Result<(), Violation> {
        let node = &mut self.nodes[rank as usize];
        let program = &mut self.programs[rank as usize];
        let mut kept = Vec::new();
        for pending in std::mem::take(&mut program.receives) {
            let Some(completion) = node.engine.poll(pending.id) else {
                kept.push(pending);
                continue;
            };
            let bytes = node.bytes(pending.segment).to_vec();
            node.spoil(pending.segment);
            let outcome = Outcome {
                receive: pending.number,
                completion,
                bytes,
            };
            if program.outcomes.insert(pending.number, outcome).is_some() {
                return Err(format!("receive {} ended twice", pending.number));
            }
        }
        program.receives = kept;
        let mut sent = Vec::new();
        let mut kept = Vec::new();
        for pending in std::mem::take(&mut program.sends) {
            if pending.blocking && node.detach(pending.id, pending.segment) {
                node.engine
                    .poll(pending.id)
                    .ok_or("a detached send is not complete")?;
                continue;
            }
            match node.engine.poll(pending.id) {
                None => kept.push(pending),
                Some(completion) => {
                    node.spoil(pending.segment);
                    if !completion.cancelled {
                        sent.push(pending.number);
                    } else if self.plan.messages[pending.number].context != CANCEL_CONTEXT {
                        return Err(format!("send {} was cancelled by itself", pending.number));
                    }
                }
            }
        }
        program.sends = kept;
        for number in sent {
            self.not_cancelled(number);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.programs.iter().enumerate().all(|(rank, program)| {
            program.position == self.plan.scripts[rank].len()
                && program.sends.is_empty()
                && program.receives.is_empty()
        }) && self.nodes.iter().all(|node| node.engine.quiescent())
    }

    fn check(&self) -> Result<(), Violation> {
        for (rank, program) in self.programs.iter().enumerate() {
            let outcomes = |context| {
                let of = |n: &&usize| self.plan.receives[**n].pattern.context == context;
                let outcome = |n: &usize| program.outcomes[n].clone();
                program
                    .bound
                    .iter()
                    .filter(of)
                    .map(outcome)
                    .collect::<Vec<Outcome>>()
            };
            for context in [1, 2, 3, CANCEL_CONTEXT] {
                check::receives(&self.plan, rank as u32, context, &outcomes(context))
                    .map_err(|e| format!("rank {rank}, context {context}: {e}"))?;
            }
            if outcomes(IDLE_CONTEXT)
                .iter()
                .any(|o| !o.completion.cancelled)
            {
                return Err(format!("rank {rank}: a cancelled receive got a message"));
            }
        }
        Ok(())
    }
}
