//! One rank: engine, table and handshakes, combined as in a device, over connections that are only
//! numbers. No part of the code under test is replaced.

mod connection_load;
mod memory_access;
mod receive_memory;
mod received_messages;
mod remote_gets;
mod short_messages;

pub use connection_load::{Load, ShortCounts};
pub use memory_access::{GetCounts, MemoryAccess};
use receive_memory::NodeLog;

use std::collections::{BTreeMap, VecDeque};

use rejoin_channel_table::table::TableError;
use rejoin_channel_table::{
    Acceptor, AcceptorStep, AddressBook, Admission, Attempt, BusinessCard, Dialer, DialerStep,
    Epoch, HandshakeRefusal, Identity, ImageId, Incarnation, JobKey, LinkState, MoveNumber, Proved,
    Rank, Resume, Table,
};
use rejoin_engine::{
    BodySource, Config, Detach, Engine, Envelope, FrameKind, HEADER_LEN, Header, MessageMode,
    MsgId, Pattern, ReqId, RxBody, Segment, Sent, WritePiece,
};

/// Bytes of a body that are copied into the log at once, while its receiver takes it.
const EARLY_COPY: usize = 64;

/// Number of a connection, the same at both ends.
pub type ConnectionId = u32;

/// A node's request to the network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Bytes of a handshake to write.
    Bytes(ConnectionId, Vec<u8>),
    /// Close this end: written bytes still arrive, then the end.
    Close(ConnectionId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Body {
    into: Option<Segment>,
    buffer: bool,
    at: usize,
    len: usize,
}

/// Puts frames together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Reader {
    header: Vec<u8>,
    body: Option<Body>,
}

impl Reader {
    fn is_between_frames(&self) -> bool {
        self.header.is_empty() && self.body.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum End {
    Dialing(Dialer),
    Accepting(Acceptor),
    Live(Rank, Reader),
}

/// A rank. User memory is a vector; the address of a segment is an index into it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The engine, for calls that need nothing else.
    pub engine: Engine,
    table: Table<ConnectionId>,
    memory: Vec<u8>,
    ends: BTreeMap<ConnectionId, End>,
    /// Arrived bytes and messages that are not read yet.
    unread: BTreeMap<ConnectionId, VecDeque<Load>>,
    /// Counts of short messages.
    pub short_counts: ShortCounts,
    /// Who reads whose memory, for each peer that is on this node's host.
    access: BTreeMap<Rank, MemoryAccess>,
    /// Counts of bodies that this node read out of other nodes' memory.
    pub get_counts: GetCounts,
    output: Vec<Output>,
    /// Headers read since they were last taken, for checkers.
    pub headers: Vec<(Rank, Header)>,
    /// This rank at the start of each epoch that it has entered.
    images: BTreeMap<Epoch, Image>,
    /// This rank at the moment of its last move, with the number of that image and its epoch.
    moving: Option<(MoveNumber, Epoch, Image)>,
    /// The half of the rule of epochs that it ignores.
    pub disabled_rule: DisabledEpochRule,
    /// Messages of other groups, if it logs them.
    receive_log: Option<NodeLog>,
    /// Messages that were not logged for lack of room.
    pub unlogged: u64,
    /// Messages that this node has taken from the log of the one before.
    pub restored: u64,
    /// What is not logged is said to be logged, to show that checkers find that.
    pub claims_log: bool,
}

/// A rank's engine and memory at the start of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Image {
    engine: Engine,
    memory: Vec<u8>,
    receive_log: Option<NodeLog>,
}

/// Parts of the rule of epochs that are disabled, to show that checkers find what it prevents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DisabledEpochRule {
    /// Messages of a later epoch are received without an image.
    pub messages: bool,
    /// Acks of a later epoch, with the resume, are accepted without an image.
    pub acks: bool,
}

/// Something that must never happen; the text says what.
pub type Violation = String;

/// The key of every simulated job.
pub fn key() -> JobKey {
    JobKey::new([9; 32])
}

impl Node {
    /// A rank without connections.
    pub fn new(config: Config, me: Identity, book: AddressBook) -> Node {
        Node {
            engine: Engine::new(config, me.rank, book.size()),
            table: Table::new(me, book),
            // No segment begins at address 0, as in a process.
            memory: vec![0],
            ends: BTreeMap::new(),
            unread: BTreeMap::new(),
            short_counts: ShortCounts::default(),
            access: BTreeMap::new(),
            get_counts: GetCounts::default(),
            output: Vec::new(),
            headers: Vec::new(),
            images: BTreeMap::new(),
            moving: None,
            disabled_rule: DisabledEpochRule::default(),
            receive_log: None,
            unlogged: 0,
            restored: 0,
            claims_log: false,
        }
    }

    /// Takes this rank's image of an epoch and enters the epoch. Does nothing for the current epoch
    /// or an earlier one.
    pub fn enter(&mut self, epoch: Epoch) {
        if self.engine.accepts_epoch(epoch).is_err() {
            let image = self.image();
            self.images.insert(epoch, image);
            self.engine.set_epoch(epoch);
        }
    }

    /// Takes an image of this number, with which the rank moves. It enters no epoch.
    pub fn save(&mut self, number: MoveNumber) {
        self.moving = Some((number, self.engine.epoch(), self.image()));
    }

    fn image(&self) -> Image {
        Image {
            engine: self.engine.clone(),
            memory: self.memory.clone(),
            receive_log: self.receive_log.clone(),
        }
    }

    /// Another rank has a new incarnation: the link to its earlier one is closed.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn update(&mut self, rank: Rank, incarnation: Incarnation) -> Result<(), Violation> {
        let card = BusinessCard::default();
        let is_new = self.table.book().incarnation(rank) != Some(incarnation);
        let closed = self.table.update(rank, incarnation, card);
        if let Some(id) = closed.map_err(|error| error.to_string())? {
            self.ends.remove(&id);
            self.unread.remove(&id);
            self.output.push(Output::Close(id));
        }
        if is_new {
            self.engine.peer_returned(rank);
        }
        Ok(())
    }

    /// Whether there is an image of this epoch.
    pub fn has_image(&self, epoch: Epoch) -> bool {
        self.images.contains_key(&epoch)
    }

    /// Drops all images but those that `keep` selects.
    pub fn keep_images(&mut self, keep: impl Fn(Epoch) -> bool) {
        self.images.retain(|epoch, _| keep(*epoch));
    }

    /// A new incarnation of this rank, from this image.
    pub fn come_from(&self, image: ImageId, me: Identity, book: AddressBook) -> Option<Node> {
        match image {
            ImageId::Checkpoint(epoch) => self.rejoin(epoch, me, book),
            ImageId::Move(number) => self.arrive_with(number, me, book),
        }
    }

    /// A new incarnation of this rank, from its image of an epoch, as the device makes it. It has
    /// no links. It keeps the image and earlier ones, from which it may be restored again.
    pub fn rejoin(&self, epoch: Epoch, me: Identity, book: AddressBook) -> Option<Node> {
        Some(self.successor(epoch, self.images.get(&epoch)?, me, book))
    }

    /// The same from the image of this number, with which the rank has moved.
    pub fn arrive_with(&self, number: MoveNumber, me: Identity, book: AddressBook) -> Option<Node> {
        let moving = self.moving.as_ref().filter(|(last, ..)| *last == number);
        let (_, epoch, image) = moving?;
        Some(self.successor(*epoch, image, me, book))
    }

    fn successor(&self, epoch: Epoch, image: &Image, me: Identity, book: AddressBook) -> Node {
        let mut node = Node::new(*image.engine.config(), me, book);
        node.engine = image.engine.clone();
        node.memory = image.memory.clone();
        node.receive_log = image.receive_log.clone();
        (node.disabled_rule, node.claims_log) = (self.disabled_rule, self.claims_log);
        node.access = self.access.clone();
        for peer in (0..node.table.book().size()).map(Rank) {
            if node.engine.is_up(peer) {
                node.engine.link_down(peer);
            }
        }
        node.engine.set_epoch(epoch);
        node.engine.returned();
        let earlier = self.images.range(..=epoch);
        node.images = earlier
            .map(|(epoch, image)| (*epoch, image.clone()))
            .collect();
        node
    }

    /// Enters the epoch of an arriving resume or frame, unless it is ignored: the image is taken
    /// first. Returns the epoch that counts.
    fn accept_epoch(&mut self, epoch: Epoch, ack: bool) -> Epoch {
        let disabled_rule = if ack {
            self.disabled_rule.acks
        } else {
            self.disabled_rule.messages
        };
        if disabled_rule {
            return epoch.min(self.engine.epoch());
        }
        self.enter(epoch);
        epoch
    }

    /// Whether two ranks' images of one epoch are consistent: each accepts the other's resume. So
    /// neither has received a message that the other has not sent, and neither has dropped a
    /// message that the other lacks. An epoch that a rank has skipped, or not entered, is not
    /// checked.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check_consistency(&self, other: &Node) -> Result<(), Violation> {
        let ranks = [self.table.me().rank, other.table.me().rank];
        for (epoch, mine) in &self.images {
            let Some(theirs) = other.images.get(epoch) else {
                continue;
            };
            let (mut mine, mut theirs) = (mine.engine.clone(), theirs.engine.clone());
            mine.link_down(ranks[1]);
            theirs.link_down(ranks[0]);
            let said = [mine.resume(ranks[1]), theirs.resume(ranks[0])].map(|resume| Resume {
                epoch: Epoch(0),
                ..resume
            });
            for (engine, peer, resume) in [
                (&mut mine, ranks[1], &said[1]),
                (&mut theirs, ranks[0], &said[0]),
            ] {
                engine
                    .link_up(peer, resume)
                    .map_err(|e| format!("images of epoch {epoch:?} of ranks {ranks:?}: {e}"))?;
            }
        }
        Ok(())
    }

    /// The table of channels.
    pub fn table(&self) -> &Table<ConnectionId> {
        &self.table
    }

    /// The requests to the network, in order.
    pub fn take_output(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.output)
    }

    /// Whether this end is half open.
    pub fn is_half_open(&self, id: ConnectionId) -> bool {
        self.ends
            .get(&id)
            .is_some_and(|end| !matches!(end, End::Live(..)))
    }

    /// Whether this end is the table's link to its peer.
    pub fn is_live(&self, id: ConnectionId) -> bool {
        matches!(self.ends.get(&id), Some(End::Live(peer, _)) if self.table.live(*peer) == Some(id))
    }

    /// Whether there is something to send to `peer` and nothing to send it over.
    pub fn wants_link(&self, peer: Rank) -> bool {
        self.engine.tx_waiting(peer) && self.table.state(peer) == LinkState::Null
    }

    /// Dials `peer` over a new connection.
    ///
    /// # Errors
    /// As [`Table::dial`].
    pub fn dial(
        &mut self,
        peer: Rank,
        id: ConnectionId,
        nonce: [u8; 32],
    ) -> Result<(), TableError> {
        let (attempt, incarnation) = self.table.dial(peer)?;
        let mut hello = Vec::new();
        let me = self.table.me();
        let dialer = Dialer::new(me, peer, incarnation, attempt, nonce, &mut hello);
        self.ends.insert(id, End::Dialing(dialer));
        self.output.push(Output::Bytes(id, hello));
        Ok(())
    }

    /// Accepts a connection from a dialer.
    pub fn accept(&mut self, id: ConnectionId, nonce: [u8; 32]) {
        self.ends
            .insert(id, End::Accepting(Acceptor::new(self.table.me(), nonce)));
    }

    /// The connection ended, or its time is over. True if an own attempt failed: back off.
    pub fn end(&mut self, id: ConnectionId) -> bool {
        let failed = match self.ends.get(&id) {
            Some(End::Dialing(dialer)) => {
                let (peer, attempt) = (dialer.peer(), dialer.attempt());
                self.table.failed(peer, attempt)
            }
            _ => false,
        };
        self.close(id);
        failed
    }

    fn close(&mut self, id: ConnectionId) {
        self.unread.remove(&id);
        let Some(end) = self.ends.remove(&id) else {
            return;
        };
        if let End::Live(peer, _) = end
            && self.table.lost(peer, id)
        {
            self.engine.link_down(peer);
        }
        self.output.push(Output::Close(id));
    }

    fn close_attempt(&mut self, attempt: Attempt, peer: Rank) {
        let ours = |end: &End| matches!(end, End::Dialing(d) if d.attempt() == attempt && d.peer() == peer);
        if let Some((&id, _)) = self.ends.iter().find(|(_, end)| ours(end)) {
            self.close(id);
        }
    }

    /// Takes bytes that arrived. True if an own attempt failed: back off.
    ///
    /// # Errors
    /// Whatever a genuine peer never sends.
    pub fn feed(&mut self, id: ConnectionId, mut bytes: &[u8]) -> Result<bool, Violation> {
        while !bytes.is_empty() {
            let Some(end) = self.ends.remove(&id) else {
                return Ok(false);
            };
            match end {
                End::Live(peer, mut reader) => {
                    let done = self.read(peer, &mut reader, bytes);
                    self.ends.insert(id, End::Live(peer, reader));
                    return done.map(|()| false);
                }
                End::Dialing(mut dialer) => {
                    let mut out = Vec::new();
                    let (taken, step) = dialer.feed(&key(), bytes, &mut out);
                    bytes = &bytes[taken..];
                    if self.dialer_step(id, dialer, step, out)? {
                        return Ok(true);
                    }
                }
                End::Accepting(mut acceptor) => {
                    let mut out = Vec::new();
                    let book = self.table.book();
                    let (taken, step) = acceptor.feed(&key(), book, bytes, &mut out);
                    bytes = &bytes[taken..];
                    self.acceptor_step(id, acceptor, step, out)?;
                }
            }
        }
        Ok(false)
    }

    fn dialer_step(
        &mut self,
        id: ConnectionId,
        mut dialer: Dialer,
        step: DialerStep,
        mut out: Vec<u8>,
    ) -> Result<bool, Violation> {
        let peer = dialer.peer();
        match step {
            DialerStep::More => {}
            DialerStep::Prove => {
                let Ok(seen) = self.table.prove(peer, dialer.attempt()) else {
                    self.output.push(Output::Close(id));
                    return Ok(false);
                };
                let resume = self.engine.resume(peer);
                dialer
                    .prove(&key(), seen, &resume, &mut out)
                    .map_err(|e| e.to_string())?;
            }
            DialerStep::Established(mut opened) => {
                opened.resume.epoch = self.accept_epoch(opened.resume.epoch, true);
                if self.table.established(&opened, id).is_err() {
                    self.output.push(Output::Close(id));
                    return Ok(false);
                }
                self.open(id, opened.peer.rank, &opened.resume)?;
                return Ok(false);
            }
            DialerStep::Refused(refusal) => {
                self.output.push(Output::Bytes(id, out));
                self.output.push(Output::Close(id));
                let failed = self.table.failed(peer, dialer.attempt());
                return genuine(refusal).map(|()| failed);
            }
        }
        self.output.push(Output::Bytes(id, out));
        self.ends.insert(id, End::Dialing(dialer));
        Ok(false)
    }

    fn acceptor_step(
        &mut self,
        id: ConnectionId,
        mut acceptor: Acceptor,
        step: AcceptorStep,
        mut out: Vec<u8>,
    ) -> Result<(), Violation> {
        match step {
            AcceptorStep::More => {}
            AcceptorStep::Admit(mut proved) => match self.admit(&mut proved, id) {
                Ok(admission) => {
                    let peer = proved.peer.rank;
                    if let Some(old) = admission.closes {
                        self.ends.remove(&old);
                        self.unread.remove(&old);
                        self.engine.link_down(peer);
                        self.output.push(Output::Close(old));
                    }
                    if let Some(attempt) = admission.abandons {
                        self.close_attempt(attempt, peer);
                    }
                    let resume = self.engine.resume(peer);
                    let accepted = acceptor.accept(&key(), admission.renounced, &resume, &mut out);
                    accepted.map_err(|e| e.to_string())?;
                    self.output.push(Output::Bytes(id, out));
                    return self.open(id, peer, &proved.resume);
                }
                Err(refusal) => {
                    acceptor.refuse(&key(), refusal, &mut out);
                    self.output.push(Output::Bytes(id, out));
                    self.output.push(Output::Close(id));
                    return Ok(());
                }
            },
            AcceptorStep::Refused(refusal) => {
                self.output.push(Output::Bytes(id, out));
                self.output.push(Output::Close(id));
                return genuine(refusal);
            }
        }
        self.output.push(Output::Bytes(id, out));
        self.ends.insert(id, End::Accepting(acceptor));
        Ok(())
    }

    /// A resume is an ack: the image is taken before anything moves.
    fn admit(
        &mut self,
        proved: &mut Proved,
        id: ConnectionId,
    ) -> Result<Admission<ConnectionId>, HandshakeRefusal> {
        proved.resume.epoch = self.accept_epoch(proved.resume.epoch, true);
        self.table.admit(proved, id)
    }

    fn open(&mut self, id: ConnectionId, peer: Rank, resume: &Resume) -> Result<(), Violation> {
        let opened = self.engine.link_up(peer, resume);
        opened.map_err(|e| format!("a resume was refused: {e}"))?;
        self.learn_access(peer);
        self.copies();
        self.ends.insert(id, End::Live(peer, Reader::default()));
        Ok(())
    }

    fn read(&mut self, peer: Rank, reader: &mut Reader, mut bytes: &[u8]) -> Result<(), Violation> {
        while !bytes.is_empty() {
            let Some(body) = &mut reader.body else {
                let missing = (HEADER_LEN - reader.header.len()).min(bytes.len());
                reader.header.extend_from_slice(&bytes[..missing]);
                bytes = &bytes[missing..];
                if let Ok(header) = <[u8; HEADER_LEN]>::try_from(&reader.header[..]) {
                    reader.header.clear();
                    reader.body = self.header(peer, &header)?;
                }
                continue;
            };
            let part = (body.len - body.at).min(bytes.len());
            if let Some(into) = body.into {
                let from = body.at.min(into.len);
                let upto = (body.at + part).min(into.len);
                self.memory[into.addr + from..into.addr + upto]
                    .copy_from_slice(&bytes[..upto - from]);
            } else if body.buffer {
                self.engine.rx_buffer(peer)[body.at..body.at + part]
                    .copy_from_slice(&bytes[..part]);
            }
            body.at += part;
            bytes = &bytes[part..];
            if body.at == body.len {
                reader.body = None;
                self.engine
                    .rx_done(peer)
                    .map_err(|e| format!("a body was refused: {e}"))?;
                self.copies();
            }
        }
        Ok(())
    }

    fn header(&mut self, peer: Rank, bytes: &[u8; HEADER_LEN]) -> Result<Option<Body>, Violation> {
        let header = Header::decode(bytes).map_err(|e| format!("a header was refused: {e}"))?;
        self.frame(peer, header)
    }

    /// Takes the header of a frame: where its body goes.
    fn frame(&mut self, peer: Rank, mut header: Header) -> Result<Option<Body>, Violation> {
        let message = matches!(header.kind, FrameKind::Eager | FrameKind::Rts);
        header.epoch = self.accept_epoch(header.epoch, !message);
        let place = self.engine.rx_header(peer, &header);
        let place = place.map_err(|e| format!("a frame was refused: {e} ({header:?})"))?;
        self.headers.push((peer, header));
        self.copies();
        let len = header.body_len() as usize;
        Ok(match place {
            RxBody::None => None,
            RxBody::Into { into, .. } => Some(Body {
                into: Some(into),
                buffer: false,
                at: 0,
                len,
            }),
            RxBody::Buffer => Some(Body {
                into: None,
                buffer: true,
                at: 0,
                len,
            }),
            RxBody::Discard(_) => Some(Body {
                into: None,
                buffer: false,
                at: 0,
                len,
            }),
        })
    }

    /// The image of this epoch is committed: peers of other groups are told what it holds.
    pub fn commit(&mut self, epoch: Epoch) {
        self.engine.image_committed(epoch);
        self.release_received(epoch);
    }

    /// Takes at most `limit` bytes that are to be written to `peer`.
    pub fn write(&mut self, peer: Rank, limit: usize) -> Vec<u8> {
        let mut written = Vec::new();
        if !self.engine.tx_pending(peer) {
            return written;
        }
        let gather = self.engine.tx_gather(peer);
        for piece in gather.pieces() {
            let bytes = match piece {
                WritePiece::Bytes(bytes) => bytes,
                WritePiece::Memory(seg) => &self.memory[range(*seg)],
            };
            let part = bytes.len().min(limit - written.len());
            written.extend_from_slice(&bytes[..part]);
        }
        self.engine.tx_advance(peer, written.len());
        written
    }

    /// New memory with this content.
    pub fn segment(&mut self, content: &[u8]) -> Segment {
        let addr = self.memory.len();
        self.memory.extend_from_slice(content);
        Segment {
            addr,
            len: content.len(),
        }
    }

    /// The bytes of `segment`.
    pub fn bytes(&self, segment: Segment) -> &[u8] {
        &self.memory[range(segment)]
    }

    /// The program uses its memory again.
    pub fn overwrite(&mut self, segment: Segment) {
        self.memory[range(segment)].fill(0xee);
    }

    /// Sends `content`; `None`: complete, and the memory is already used for something else.
    pub fn send(
        &mut self,
        to: Rank,
        envelope: Envelope,
        content: &[u8],
        mode: MessageMode,
    ) -> Option<(ReqId, Segment)> {
        let segment = self.segment(content);
        let bytes = self.engine.copies(content.len()).then_some(content);
        let sent = self.engine.send(to, envelope, segment, bytes, mode);
        self.copies();
        match sent {
            Ok(Sent::Pending(id)) => Some((id, segment)),
            Ok(Sent::Done) | Err(_) => {
                self.overwrite(segment);
                None
            }
        }
    }

    /// Posts a receive into fresh memory.
    ///
    /// # Errors
    /// As [`Engine::recv`].
    pub fn receive(&mut self, pattern: Pattern, len: usize) -> Result<(ReqId, Segment), Violation> {
        let segment = self.segment(&vec![0xaa; len]);
        let id = self
            .engine
            .recv(pattern, segment)
            .map_err(|e| e.to_string())?;
        self.copies();
        Ok((id, segment))
    }

    /// Receives a message that a matched probe took.
    ///
    /// # Errors
    /// As [`Engine::mrecv`].
    pub fn receive_matched(
        &mut self,
        message: MsgId,
        len: usize,
    ) -> Result<(ReqId, Segment), Violation> {
        let segment = self.segment(&vec![0xaa; len]);
        let id = self
            .engine
            .mrecv(message, segment)
            .map_err(|e| e.to_string())?;
        self.copies();
        Ok((id, segment))
    }

    /// Tries to complete a blocking send by a copy of its body; true if the memory is free again.
    pub fn detach(&mut self, id: ReqId, segment: Segment) -> bool {
        match self.engine.detach(id) {
            Detach::Done => {}
            Detach::Wait => return false,
            Detach::Copy { from, into } => {
                into.copy_from_slice(&self.memory[range(from)]);
            }
        }
        self.overwrite(segment);
        true
    }

    fn copies(&mut self) {
        // A part of a body that is copied while its receiver takes it.
        if let Some(log) = self.engine.next_early_copy(EARLY_COPY) {
            log.into.copy_from_slice(&self.memory[range(log.from)]);
        }
        while let Some(log) = self.engine.next_log_copy() {
            log.into.copy_from_slice(&self.memory[range(log.from)]);
        }
        while let Some(copy) = self.engine.next_copy() {
            let to = range(copy.to);
            match copy.from {
                BodySource::Bytes(bytes) => self.memory[to].copy_from_slice(bytes),
                BodySource::Memory(from) => {
                    self.memory.copy_within(range(from), to.start);
                }
            }
        }
        self.log_whole();
    }
}

/// Where a segment is in the memory of a node.
fn range(segment: Segment) -> std::ops::Range<usize> {
    segment.addr..segment.addr + segment.len
}

/// Refusals that two ranks of one job may give each other.
fn genuine(refusal: HandshakeRefusal) -> Result<(), Violation> {
    match refusal {
        HandshakeRefusal::Yield
        | HandshakeRefusal::Superseded
        | HandshakeRefusal::PeerIsNewer { .. }
        | HandshakeRefusal::PeerIsOlder { .. } => Ok(()),
        other => Err(format!("a genuine peer was refused: {other}")),
    }
}
