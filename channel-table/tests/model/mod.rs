//! Processes of two ranks, their tables and handshakes (the code under test), and connections
//! between them. Connections deliver, delay and die, and a process may notice late that one is
//! dead.
//!
//! A minimal stand-in for the engine counts messages, so that the model finds a stale resume. Its
//! signs are a message lost, duplicated or overtaken, or a resume that takes back an
//! acknowledgement.

use std::collections::{BTreeMap, VecDeque};

use rejoin_channel_table::handshake::HandshakeRefusal;
use rejoin_channel_table::*;

pub fn key() -> JobKey {
    JobKey::new([5; 32])
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Dialing(Dialer),
    Accepting(Acceptor),
    Live,
    Closed,
}

/// A unit of data in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Chunk {
    Bytes(Vec<u8>),
    Frame { ssn: Option<u8>, ack: u8 },
    Eof,
}

/// A connection; index 0 is the dialer's end. `queues[i]` travels to end `i`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    pub owners: [usize; 2],
    pub ends: [End; 2],
    pub queues: [VecDeque<Chunk>; 2],
    /// Cut: all bytes that are sent from now on are lost.
    pub dead: bool,
}

/// One process: an incarnation of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub table: Table<u8>,
    pub alive: bool,
    /// Messages that the peer has acknowledged, messages received, next message to send.
    pub acked: u8,
    pub received: u8,
    pub cursor: u8,
    pub dials: u8,
    /// Its last attempt failed: the next dial waits for a timer.
    pub backs_off: bool,
}

/// The world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub processes: Vec<Process>,
    pub connections: BTreeMap<u8, Connection>,
    pub next_connection: u8,
    /// Newest generation and incarnations, as the managers know them.
    pub generation: Generation,
    pub incarnations: [Incarnation; 2],
    /// The first thing that went wrong.
    pub wrong: Option<&'static str>,
    /// Messages that each rank has to send.
    pub messages: [u8; 2],
}

pub fn book(incarnations: [Incarnation; 2]) -> AddressBook {
    AddressBook::new(incarnations.map(|i| (i, BusinessCard::default())).to_vec())
}

impl Process {
    pub fn rank(&self) -> Rank {
        self.table.me().rank
    }

    pub fn peer(&self) -> Rank {
        Rank(1 - self.rank().0)
    }

    fn resume(&self) -> Resume {
        Resume {
            next_envelope: Ssn(self.received.into()),
            ..Resume::default()
        }
    }
}

impl World {
    pub fn new(messages: [u8; 2]) -> World {
        let mut world = World {
            processes: Vec::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            generation: Generation(0),
            incarnations: [Incarnation(0); 2],
            wrong: None,
            messages,
        };
        world.spawn(Rank(0));
        world.spawn(Rank(1));
        world
    }

    /// Starts a process of `rank` as the managers see it now, from an image taken at the start.
    pub fn spawn(&mut self, rank: Rank) {
        let me = Identity {
            job: JobId(1),
            rank,
            generation: self.generation,
            incarnation: self.incarnations[rank.index()],
        };
        self.processes.push(Process {
            table: Table::new(me, book(self.incarnations)),
            alive: true,
            acked: 0,
            received: 0,
            cursor: 0,
            dials: 0,
            backs_off: false,
        });
    }

    /// Whether `process` is the newest of its rank.
    pub fn is_current(&self, process: &Process) -> bool {
        let me = process.table.me();
        me.generation == self.generation && me.incarnation == self.incarnations[me.rank.index()]
    }

    pub fn wants_link(&self, process: &Process) -> bool {
        process.alive && process.acked < self.to_send(process)
    }

    pub fn to_send(&self, process: &Process) -> u8 {
        self.messages[process.rank().index()]
    }

    /// Everything of the newest processes has arrived, and they know it.
    pub fn is_done(&self) -> bool {
        self.processes
            .iter()
            .filter(|p| self.is_current(p))
            .all(|p| {
                p.alive
                    && p.acked == self.to_send(p)
                    && p.received == self.messages[p.peer().index()]
            })
    }

    /// Connections that both ends hold for the link between them, per pair of processes.
    pub fn channels_between(&self, a: usize, b: usize) -> usize {
        let live = |c: &&Connection| {
            c.ends.iter().all(|end| matches!(end, End::Live))
                && (c.owners == [a, b] || c.owners == [b, a])
        };
        self.connections.values().filter(live).count()
    }

    fn wrong(&mut self, what: &'static str) {
        self.wrong.get_or_insert(what);
    }

    pub fn dial(&mut self, from: usize, to: usize) {
        let process = &mut self.processes[from];
        let peer = process.peer();
        let Ok((attempt, incarnation)) = process.table.dial(peer) else {
            return;
        };
        process.dials += 1;
        process.backs_off = false;
        let id = self.next_connection;
        self.next_connection += 1;
        let mut hello = Vec::new();
        let me = process.table.me();
        let dialer = Dialer::new(me, peer, incarnation, attempt, [id; 32], &mut hello);
        let acceptor = Acceptor::new(self.processes[to].table.me(), [id + 100; 32]);
        self.connections.insert(
            id,
            Connection {
                owners: [from, to],
                ends: [End::Dialing(dialer), End::Accepting(acceptor)],
                queues: [VecDeque::new(), VecDeque::from([Chunk::Bytes(hello)])],
                dead: false,
            },
        );
    }

    /// Sends the next message of `from` over its live link.
    pub fn send(&mut self, from: usize) {
        let process = &mut self.processes[from];
        let Some(id) = process.table.live(process.peer()) else {
            return;
        };
        let frame = Chunk::Frame {
            ssn: Some(process.cursor),
            ack: process.received,
        };
        process.cursor += 1;
        self.push(id, from, frame);
    }

    fn side(&self, id: u8, process: usize) -> usize {
        usize::from(self.connections[&id].owners[0] != process)
    }

    /// Queues `chunk` from the end of `process` towards the other one.
    fn push(&mut self, id: u8, process: usize, chunk: Chunk) {
        let side = self.side(id, process);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if connection.ends[1 - side] != End::Closed && !connection.dead {
            connection.queues[1 - side].push_back(chunk);
        }
    }

    fn push_bytes(&mut self, id: u8, process: usize, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.push(id, process, Chunk::Bytes(bytes));
        }
    }

    /// `process` closes its end: its sent bytes still arrive, then the end.
    pub fn close(&mut self, id: u8, process: usize) {
        if !self.connections.contains_key(&id) {
            return;
        }
        let side = self.side(id, process);
        self.push(id, process, Chunk::Eof);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.ends[side] = End::Closed;
        connection.queues[side].clear();
        if connection.ends.iter().all(|end| *end == End::Closed) {
            self.connections.remove(&id);
        }
    }

    /// The network drops the connection. Both ends notice the loss, each in its own time; the
    /// `deaf` end never notices it.
    pub fn cut(&mut self, id: u8, deaf: Option<usize>) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.dead = true;
        for side in 0..2 {
            connection.queues[side].clear();
            if connection.ends[side] != End::Closed && deaf != Some(side) {
                connection.queues[side].push_back(Chunk::Eof);
            }
        }
    }

    /// Whether an end waits for acknowledgements that cannot come.
    pub fn waits_in_vain(&self, connection: &Connection, side: usize) -> bool {
        let process = &self.processes[connection.owners[side]];
        matches!(connection.ends[side], End::Live) && self.wants_link(process)
    }

    /// A handshake took too long.
    pub fn expire(&mut self, id: u8, side: usize) {
        let process = self.connections[&id].owners[side];
        self.end(id, side, process);
    }

    /// A process is gone.
    pub fn kill(&mut self, process: usize) {
        self.processes[process].alive = false;
        let owned = |c: &Connection| c.owners.contains(&process);
        let ids: Vec<u8> = self
            .connections
            .iter()
            .filter(|(_, c)| owned(c))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.close(id, process);
        }
    }

    /// The manager tells `process` of a newer incarnation of its peer; false if there is no news.
    pub fn has_news(&self, process: &Process) -> bool {
        process.alive
            && process.table.me().generation == self.generation
            && self.is_current(process)
            && process.table.book().incarnation(process.peer())
                < Some(self.incarnations[process.peer().index()])
    }

    pub fn tell_news(&mut self, index: usize) {
        let incarnations = self.incarnations;
        let process = &mut self.processes[index];
        let peer = process.peer();
        let dialing = match process.table.state(peer) {
            LinkState::Dialing { attempt, .. } => Some(attempt),
            _ => None,
        };
        let Ok(handle) =
            process
                .table
                .update(peer, incarnations[peer.index()], BusinessCard::default())
        else {
            return self.wrong("news were refused");
        };
        // The new incarnation starts from an image that has seen nothing.
        process.acked = 0;
        process.cursor = 0;
        process.backs_off = false;
        if let Some(id) = handle {
            self.close(id, index);
        }
        if let Some(attempt) = dialing {
            self.close_attempt(index, attempt);
        }
    }

    fn close_attempt(&mut self, index: usize, attempt: Attempt) {
        let found = self.connections.iter().find(|(_, c)| {
            c.owners[0] == index && matches!(&c.ends[0], End::Dialing(d) if d.attempt() == attempt)
        });
        if let Some((&id, _)) = found {
            self.close(id, index);
        }
    }

    pub fn deliver(&mut self, id: u8, side: usize) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Some(chunk) = connection.queues[side].pop_front() else {
            return;
        };
        let process = connection.owners[side];
        let mut end = connection.ends[side].clone();
        match (&mut end, chunk) {
            (_, Chunk::Eof) => return self.end(id, side, process),
            (End::Dialing(dialer), Chunk::Bytes(bytes)) => {
                self.feed_dialer(id, process, dialer, &bytes);
            }
            (End::Accepting(acceptor), Chunk::Bytes(bytes)) => {
                self.feed_acceptor(id, process, acceptor, &bytes);
            }
            (End::Live, Chunk::Frame { ssn, ack }) => {
                return self.frame(id, process, ssn, ack);
            }
            _ => return self.wrong("a chunk that the end cannot understand"),
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            let slot = &mut connection.ends[side];
            let moved_on = matches!(slot, End::Live | End::Closed);
            if !moved_on {
                *slot = end;
            }
        }
    }

    /// The end of `process` learns that nothing more comes.
    fn end(&mut self, id: u8, side: usize, process: usize) {
        let peer = self.processes[process].peer();
        match self.connections[&id].ends[side].clone() {
            End::Dialing(dialer) => self.attempt_failed(process, peer, dialer.attempt()),
            End::Live => {
                self.processes[process].table.lost(peer, id);
            }
            End::Accepting(_) | End::Closed => {}
        }
        self.close(id, process);
    }

    fn attempt_failed(&mut self, process: usize, peer: Rank, attempt: Attempt) {
        let process = &mut self.processes[process];
        if process.table.failed(peer, attempt) {
            process.backs_off = true;
        }
    }

    fn feed_dialer(&mut self, id: u8, process: usize, dialer: &mut Dialer, bytes: &[u8]) {
        let peer = dialer.peer();
        let mut out = Vec::new();
        let (_, step) = dialer.feed(&key(), bytes, &mut out);
        match step {
            DialerStep::More => {}
            DialerStep::Prove => {
                let owner = &mut self.processes[process];
                match owner.table.prove(peer, dialer.attempt()) {
                    Ok(seen) => {
                        let resume = owner.resume();
                        dialer.prove(&key(), seen, &resume, &mut out).unwrap();
                    }
                    Err(_) => return self.close(id, process),
                }
            }
            DialerStep::Established(opened) => {
                match self.processes[process].table.established(&opened, id) {
                    Ok(()) => self.open(id, process, &opened.resume),
                    Err(_) => return self.close(id, process),
                }
            }
            DialerStep::Refused(refusal) => {
                self.push_bytes(id, process, out);
                self.attempt_failed(process, peer, dialer.attempt());
                self.close(id, process);
                return self.refused(process, refusal);
            }
        }
        self.push_bytes(id, process, out);
    }

    fn feed_acceptor(&mut self, id: u8, process: usize, acceptor: &mut Acceptor, bytes: &[u8]) {
        let mut out = Vec::new();
        let owner = &mut self.processes[process];
        let (_, step) = acceptor.feed(&key(), owner.table.book(), bytes, &mut out);
        match step {
            AcceptorStep::More => {}
            AcceptorStep::Admit(proved) => match owner.table.admit(&proved, id) {
                Ok(admission) => {
                    if let Some(old) = admission.closes {
                        self.close(old, process);
                    }
                    if let Some(attempt) = admission.abandons {
                        self.close_attempt(process, attempt);
                    }
                    let resume = self.processes[process].resume();
                    acceptor
                        .accept(&key(), admission.renounced, &resume, &mut out)
                        .unwrap();
                    self.push_bytes(id, process, out);
                    return self.open(id, process, &proved.resume);
                }
                Err(refusal) => {
                    acceptor.refuse(&key(), refusal, &mut out);
                    self.push_bytes(id, process, out);
                    return self.close(id, process);
                }
            },
            AcceptorStep::Refused(refusal) => {
                self.push_bytes(id, process, out);
                self.close(id, process);
                return self.refused(process, refusal);
            }
        }
        self.push_bytes(id, process, out);
    }

    /// A process ends when it learns from an authenticated peer that it has been replaced.
    fn refused(&mut self, index: usize, refusal: HandshakeRefusal) {
        let me = self.processes[index].table.me();
        match refusal {
            HandshakeRefusal::PeerIsNewer { theirs, .. } => {
                if theirs.generation > me.generation || theirs.yours > me.incarnation {
                    if self.is_current(&self.processes[index]) {
                        return self.wrong("the newest process was told that it is old");
                    }
                    self.kill(index);
                }
            }
            HandshakeRefusal::PeerIsOlder { .. }
            | HandshakeRefusal::Yield
            | HandshakeRefusal::Superseded => {}
            _ => self.wrong("a refusal that two genuine ranks never give"),
        }
    }

    fn open(&mut self, id: u8, index: usize, resume: &Resume) {
        let side = self.side(id, index);
        let messages = self.to_send(&self.processes[index]);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.ends[side] = End::Live;
        }
        let process = &mut self.processes[index];
        process.backs_off = false;
        let next = resume.next_envelope.0 as u8;
        if next < process.acked {
            return self.wrong("a resume took back what had been acknowledged");
        }
        if next > messages {
            return self.wrong("a resume claims what was never sent");
        }
        process.acked = next;
        process.cursor = next;
        self.check_view(id, index);
    }

    /// A receiver accepts frames only from the incarnation that it knows as the newest.
    fn check_view(&mut self, id: u8, index: usize) {
        let owners = self.connections[&id].owners;
        let other = if owners[0] == index {
            owners[1]
        } else {
            owners[0]
        };
        let (mine, theirs) = (
            &self.processes[index].table,
            self.processes[other].table.me(),
        );
        let same_generation = mine.me().generation == theirs.generation;
        if !same_generation || mine.book().incarnation(theirs.rank) != Some(theirs.incarnation) {
            self.wrong("something of an old generation or incarnation was accepted");
        }
    }

    fn frame(&mut self, id: u8, index: usize, ssn: Option<u8>, ack: u8) {
        let process = &self.processes[index];
        if process.table.live(process.peer()) != Some(id) {
            return self.wrong("a frame of a link that is not the table's");
        }
        self.check_view(id, index);
        let process = &mut self.processes[index];
        process.acked = process.acked.max(ack);
        let Some(ssn) = ssn else { return };
        if ssn < process.received {
            return self.wrong("a message was doubled");
        }
        if ssn > process.received {
            return self.wrong("a message was lost or overtaken");
        }
        process.received += 1;
        let ack = process.received;
        self.push(id, index, Chunk::Frame { ssn: None, ack });
    }
}
