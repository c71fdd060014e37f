//! What the models of two ranks share: a program with messages of one context, and one connection
//! at a time, over which the ranks write all that they have at once.

use std::collections::{BTreeMap, VecDeque};

use rejoin_channel_table::{
    AddressBook, BusinessCard, Generation, Identity, Incarnation, JobId, Rank,
};
use rejoin_engine::{Completion, Config, Envelope, Gets, MessageMode, ReqId, Segment};
use rejoin_sim::message_check::{self, Outcome};
use rejoin_sim::message_plan::{Message, Plan, Receive, Step, content, pattern};
use rejoin_sim::node::{MemoryAccess, Node, Output, Violation};

/// The state of a rank's program: part of its image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    pub position: usize,
    sends: Vec<(ReqId, Segment)>,
    receives: Vec<(usize, ReqId, Segment)>,
    /// Receives that ended, by number.
    ended: BTreeMap<usize, (Completion, Vec<u8>)>,
}

impl Program {
    /// The next step.
    pub fn step(&mut self, plan: &Plan, rank: usize, node: &mut Node) -> Result<(), Violation> {
        let step = plan.scripts[rank][self.position];
        self.position += 1;
        match step {
            Step::Send(number) => {
                let message = plan.messages[number];
                let envelope = Envelope {
                    context: message.context,
                    source: rank as i32,
                    tag: message.tag,
                };
                let bytes = content(number, message.len);
                let sent = node.send(peer(rank), envelope, &bytes, message.mode);
                self.sends.extend(sent);
            }
            Step::Receive(number) => {
                let receive = plan.receives[number];
                let (id, at) = node.receive(receive.pattern, receive.len)?;
                self.receives.push((number, id, at));
            }
            other => return Err(format!("{other:?} in this model")),
        }
        Ok(())
    }

    /// Takes what has ended.
    pub fn reap(&mut self, node: &mut Node) {
        for (number, id, segment) in std::mem::take(&mut self.receives) {
            match node.engine.poll(id) {
                None => self.receives.push((number, id, segment)),
                Some(completion) => {
                    let bytes = node.bytes(segment).to_vec();
                    node.overwrite(segment);
                    self.ended.insert(number, (completion, bytes));
                }
            }
        }
        self.sends.retain(|(id, segment)| {
            let done = node.engine.poll(*id).is_some();
            if done {
                node.overwrite(*segment);
            }
            !done
        });
    }

    /// Whether the program has ended, and every message came once, unchanged.
    pub fn verdict(&self, plan: &Plan, rank: usize, node: &Node) -> Result<(), Violation> {
        let over = self.position == plan.scripts[rank].len();
        if !over || !self.sends.is_empty() || !self.receives.is_empty() {
            return Err(format!("rank {rank} is stuck: {self:?}"));
        }
        if !node.engine.quiescent() {
            let counts = node.engine.peer_counts(peer(rank));
            return Err(format!("rank {rank} is not quiescent: {counts:?}"));
        }
        let outcome = |(receive, (completion, bytes)): (&usize, &(Completion, Vec<u8>))| Outcome {
            receive: *receive,
            completion: *completion,
            bytes: bytes.clone(),
        };
        let outcomes: Vec<Outcome> = self.ended.iter().map(outcome).collect();
        message_check::receives(plan, rank as u32, 1, &outcomes)?;
        let mut engine = node.engine.clone();
        if engine.probe(&pattern(1, None, None)).is_some() {
            return Err("a message is left over".into());
        }
        Ok(())
    }
}

type Queue = VecDeque<Option<Vec<u8>>>;

/// The one connection, and the bytes on the way to each rank; `None` is the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wire {
    open: Option<(u32, [Queue; 2])>,
    next: u32,
}

/// Dials beyond which ranks are said to dial without end.
const MOST_DIALS: u32 = 12;

impl Wire {
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether something is on the way to a rank.
    pub fn has_bytes(&self, rank: usize) -> bool {
        let mut open = self.open.iter();
        open.any(|(_, queues)| !queues[rank].is_empty())
    }

    /// A rank dials the other one.
    pub fn dial(&mut self, rank: usize, nodes: &mut [Node; 2]) -> Result<(), Violation> {
        let id = self.next;
        let dialed = nodes[rank].dial(peer(rank), id, [id as u8; 32]);
        dialed.map_err(|error| error.to_string())?;
        nodes[1 - rank].accept(id, [100 + id as u8; 32]);
        self.open = Some((id, Default::default()));
        self.next += 1;
        if self.next > MOST_DIALS {
            return Err("dials without end".into());
        }
        Ok(())
    }

    /// Handshakes and ends that a rank has to send.
    pub fn flush(&mut self, rank: usize, node: &mut Node) {
        for output in node.take_output() {
            match output {
                Output::Bytes(id, bytes) if !bytes.is_empty() => self.travel(id, rank, Some(bytes)),
                Output::Bytes(..) => {}
                Output::Close(id) => self.travel(id, rank, None),
            }
        }
    }

    /// Frames that a rank has to send.
    pub fn write(&mut self, rank: usize, node: &mut Node) {
        while let Some(id) = node.table().live(peer(rank)) {
            let bytes = node.write(peer(rank), usize::MAX);
            if bytes.is_empty() {
                break;
            }
            self.travel(id, rank, Some(bytes));
        }
    }

    fn travel(&mut self, id: u32, from: usize, chunk: Option<Vec<u8>>) {
        if let Some((open, queues)) = &mut self.open
            && *open == id
        {
            queues[1 - from].push_back(chunk);
        }
    }

    /// The next piece arrives at a rank. False: it was the end of the connection.
    pub fn deliver(&mut self, rank: usize, node: &mut Node) -> Result<bool, Violation> {
        let Some((id, queues)) = &mut self.open else {
            return Ok(true);
        };
        match queues[rank].pop_front() {
            None => Ok(true),
            Some(None) => Ok(false),
            Some(Some(bytes)) => node.feed(*id, &bytes).map(|_| true),
        }
    }

    /// The connection is gone, and these ranks see its end.
    pub fn cut<'a>(&mut self, nodes: impl IntoIterator<Item = &'a mut Node>) {
        if let Some((id, _)) = self.open.take() {
            for node in nodes {
                node.end(id);
            }
        }
    }
}

/// A rank reads a body out of the other's memory, or clears its sender.
pub fn get(rank: usize, nodes: &mut [Node; 2]) -> Result<(), Violation> {
    let Some(get) = nodes[rank].engine.next_get() else {
        return Ok(());
    };
    let bytes = nodes[1 - rank].expose_memory(&get)?;
    nodes[rank].take_get(&get, &bytes);
    Ok(())
}

/// The other rank.
pub fn peer(rank: usize) -> Rank {
    Rank(1 - rank as u32)
}

/// A rank in generation 0, with the incarnations of both.
pub fn identity(rank: usize, incarnations: [u32; 2]) -> Identity {
    Identity {
        job: JobId(3),
        rank: Rank(rank as u32),
        generation: Generation(0),
        incarnation: Incarnation(incarnations[rank]),
    }
}

/// The table of both ranks with these incarnations.
pub fn book(incarnations: [u32; 2]) -> AddressBook {
    let entry = |number| (Incarnation(number), BusinessCard::default());
    AddressBook::new(incarnations.map(entry).to_vec())
}

/// Each of two ranks reads bodies of 100 bytes out of the other's memory.
pub const ACCESS: MemoryAccess = MemoryAccess {
    ours: true,
    theirs: Some(Gets::all_from(100)),
};

const SMALL: Config = Config {
    eager_copy: 8,
    eager_max: 64,
    window: 0,
    chunk: 0,
    beyond: 0,
};

/// Messages by sender, length and mode; all are received in the order in which they were sent.
pub fn plan(messages: &[(u32, usize, MessageMode)]) -> Plan {
    let message = |&(from, len, mode): &(u32, usize, MessageMode)| Message {
        from,
        to: 1 - from,
        context: 1,
        tag: 0,
        len,
        mode,
    };
    let receive = |&(from, len, _): &(u32, usize, MessageMode)| Receive {
        at: 1 - from,
        pattern: pattern(1, None, None),
        len,
        probed: false,
    };
    let script = |rank: u32| {
        let step = |(number, message): (usize, &(u32, usize, MessageMode))| {
            if message.0 == rank {
                Step::Send(number)
            } else {
                Step::Receive(number)
            }
        };
        messages.iter().enumerate().map(step).collect()
    };
    Plan {
        config: SMALL.consistent(),
        scripts: vec![script(0), script(1)],
        messages: messages.iter().map(message).collect(),
        receives: messages.iter().map(receive).collect(),
        cancels: false,
    }
}
