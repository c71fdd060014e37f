//! The simulated world: time, the network with its faults, and ranks that run a plan.

mod memory_reads;
mod network;
mod program;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use rejoin_channel_table::{
    AddressBook, BusinessCard, Generation, Identity, Incarnation, JobId, Rank,
};
use rejoin_engine::{FailedProbes, ReqId, Segment};

use crate::message_check::{Bound, Outcome};
use crate::message_plan::Plan;
use crate::node::{ConnectionId, Node, Violation};
use crate::node::{GetCounts, Load, ShortCounts};
use crate::rng::Rng;

/// Microseconds since the start.
type Time = u64;

/// A handshake must end within this.
const HANDSHAKE_LIMIT: Time = 20_000;
/// A rank that waits polls at this interval even if nothing arrived.
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
    /// Percent of cuts that one end notices very late.
    pub late: u64,
}

#[derive(Clone, Debug)]
enum Event {
    /// A rank takes its next step.
    Step(u32),
    /// Something arrives at an end, or its end (`None`).
    Arrive(ConnectionId, usize, Option<Load>),
    /// A handshake at an end takes too long.
    Expire(ConnectionId, usize),
    /// A rank dials.
    Dial(u32, u32),
    /// A poll of the device, if the program waits.
    Tick(u32),
    /// A rank has posted a request outside of its script: takes completed ones.
    Reap(u32),
    /// A rank reads bodies out of their senders' memory.
    Get(u32),
    /// A connection breaks.
    Cut,
}

#[derive(Debug)]
struct Connection {
    ranks: [u32; 2],
    /// Which ends still read and write.
    open: [bool; 2],
    /// Only the end of the connection is still delivered.
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
    /// Receives in the order in which they were bound, and their results.
    bound: Vec<usize>,
    outcomes: BTreeMap<usize, Outcome>,
    /// Waits in `Await`, or probes: takes a step again after an event.
    waiting: bool,
    /// Waits by polling: never blocks before its end.
    polls: bool,
    /// Polls while waiting so far.
    polled: u32,
    /// How often a receive has polled for its message without being posted.
    spins: u32,
    /// The probes that found no message.
    probing: FailedProbes,
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
    /// Random bits that decide which ranks share a host: their connections carry short messages.
    near: u64,
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
        let (seed, near) = (rng.bits(), rng.bits() | rng.bits());
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
            near,
            trace: VecDeque::new(),
            cuts: 0,
        };
        world.share_memory();
        for rank in 0..size {
            world.programs[rank as usize].polls = rng.chance(40);
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

    /// Counts of short messages, over all ranks.
    pub fn short_counts(&self) -> ShortCounts {
        let mut all = ShortCounts::default();
        self.nodes.iter().for_each(|node| all += node.short_counts);
        all
    }

    /// Counts of bodies that were read out of their senders' memory, over all ranks.
    pub fn get_counts(&self) -> GetCounts {
        let mut all = GetCounts::default();
        self.nodes.iter().for_each(|node| all += node.get_counts);
        all
    }

    fn note(&mut self, event: &Event) {
        let text = match event {
            Event::Tick(_) | Event::Get(_) => return,
            Event::Arrive(id, side, bytes) => {
                let ranks = self.connections.get(id).map(|c| c.ranks);
                let len = bytes.as_ref().map(Load::len);
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
                self.drain_queues(rank);
            }
            Event::Arrive(id, side, bytes) => self.arrive(id, side, bytes)?,
            Event::Expire(id, side) => {
                let rank = self.connections[&id].ranks[side];
                if self.nodes[rank as usize].is_half_open(id) {
                    self.end(id, side);
                    self.drain_queues(rank);
                }
            }
            Event::Dial(from, to) => self.dial(from, to),
            Event::Tick(rank) => {
                self.look(rank)?;
                self.get(rank)?;
                self.idle(rank);
                self.reap(rank)?;
                self.step_if_waiting(rank)?;
                self.drain_queues(rank);
                self.after(TICK, Event::Tick(rank));
            }
            Event::Reap(rank) => {
                self.reap(rank)?;
                self.drain_queues(rank);
            }
            Event::Get(rank) => {
                self.get(rank)?;
                self.step_if_waiting(rank)?;
                self.drain_queues(rank);
            }
            Event::Cut => self.cut(),
        }
        Ok(())
    }
}
