//! Engines joined by byte streams that can be cut anywhere, with made-up user memory.

use std::collections::VecDeque;

use rejoin_channel_table::ids::Rank;
use rejoin_channel_table::resume::Resume;

use crate::{
    BodySource, Config, Detach, Engine, Envelope, FrameKind, HEADER_LEN, Header, MessageMode,
    Pattern, ReqId, RxBody, Segment, Sent, WritePiece,
};

/// A rank: its engine, and its memory, in which a segment's address is an index.
#[derive(Clone)]
pub(crate) struct Node {
    pub engine: Engine,
    pub memory: Vec<u8>,
}

/// A body that is being read: where it goes and how far it is.
#[derive(Clone)]
struct Body {
    place: RxBody,
    at: usize,
    len: usize,
}

/// One direction of a link.
#[derive(Clone, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    header: Vec<u8>,
    body: Option<Body>,
}

pub(crate) struct World {
    pub nodes: Vec<Node>,
    /// Kinds of the frames read, each with its receiver.
    pub frames: Vec<(usize, FrameKind)>,
    /// Vectored writes that took any bytes.
    pub writes: usize,
    pipes: Vec<Vec<Pipe>>,
}

impl World {
    pub(crate) fn new(config: Config, size: u32) -> World {
        let node = |rank| Node {
            engine: Engine::new(config, Rank(rank), size),
            memory: Vec::new(),
        };
        World {
            nodes: (0..size).map(node).collect(),
            frames: Vec::new(),
            writes: 0,
            pipes: vec![vec![Pipe::default(); size as usize]; size as usize],
        }
    }

    /// All ranks, every pair linked.
    pub(crate) fn linked(config: Config, size: u32) -> World {
        let mut world = World::new(config, size);
        world.connect_all();
        world
    }

    /// New memory of a rank.
    pub(crate) fn segment(&mut self, rank: usize, content: &[u8]) -> Segment {
        let memory = &mut self.nodes[rank].memory;
        let addr = memory.len();
        memory.extend_from_slice(content);
        Segment {
            addr,
            len: content.len(),
        }
    }

    pub(crate) fn bytes(&self, rank: usize, seg: Segment) -> &[u8] {
        &self.nodes[rank].memory[seg.addr..seg.addr + seg.len]
    }

    pub(crate) fn send(
        &mut self,
        from: usize,
        to: usize,
        tag: i32,
        content: &[u8],
        mode: MessageMode,
    ) -> Option<ReqId> {
        let seg = self.segment(from, content);
        let env = Envelope {
            context: 1,
            source: from as i32,
            tag,
        };
        let engine = &mut self.nodes[from].engine;
        let bytes = engine.copies(content.len()).then_some(content);
        let sent = engine.send(Rank(to as u32), env, seg, bytes, mode).unwrap();
        self.copies(from);
        match sent {
            Sent::Done => {
                // The memory is the program's again.
                let memory = &mut self.nodes[from].memory;
                memory[seg.addr..seg.addr + seg.len].fill(0xee);
                None
            }
            Sent::Pending(id) => Some(id),
        }
    }

    pub(crate) fn pattern(source: Option<usize>, tag: Option<i32>) -> Pattern {
        Pattern {
            context: 1,
            source: source.map(|s| s as i32),
            tag,
            from: source.map(|s| Rank(s as u32)),
        }
    }

    pub(crate) fn recv(&mut self, at: usize, pattern: Pattern, len: usize) -> (ReqId, Segment) {
        let seg = self.segment(at, &vec![0xaa; len]);
        let id = self.nodes[at].engine.recv(pattern, seg).unwrap();
        self.copies(at);
        (id, seg)
    }

    pub(crate) fn copies(&mut self, rank: usize) {
        let Node { engine, memory } = &mut self.nodes[rank];
        while let Some(copy) = engine.next_copy() {
            let to = copy.to.addr..copy.to.addr + copy.to.len;
            match copy.from {
                BodySource::Bytes(bytes) => memory[to].copy_from_slice(bytes),
                BodySource::Memory(from) => {
                    assert_eq!(from.len, copy.to.len);
                    memory.copy_within(from.addr..from.addr + from.len, to.start);
                }
            }
        }
    }

    /// Tries to complete a send by a copy; true when it is complete.
    pub(crate) fn detach(&mut self, rank: usize, id: ReqId) -> bool {
        let Node { engine, memory } = &mut self.nodes[rank];
        match engine.detach(id) {
            Detach::Done => true,
            Detach::Wait => false,
            Detach::Copy { from, into } => {
                into.copy_from_slice(&memory[from.addr..from.addr + from.len]);
                memory[from.addr..from.addr + from.len].fill(0xdd);
                true
            }
        }
    }

    /// Writes at most `limit` bytes from `from` to `to`; returns how many.
    pub(crate) fn write(&mut self, from: usize, to: usize, limit: usize) -> usize {
        let Node { engine, memory } = &mut self.nodes[from];
        let pipe = &mut self.pipes[from][to];
        let gather = engine.tx_gather(Rank(to as u32));
        let mut written = 0;
        for piece in gather.pieces() {
            let bytes = match piece {
                WritePiece::Bytes(bytes) => bytes,
                WritePiece::Memory(seg) => &memory[seg.addr..seg.addr + seg.len],
            };
            let part = &bytes[..bytes.len().min(limit - written)];
            pipe.bytes.extend(part);
            written += part.len();
        }
        assert!(written <= gather.bytes());
        self.writes += usize::from(written > 0);
        engine.tx_advance(Rank(to as u32), written);
        written
    }

    /// Reads at most `limit` bytes that came from `from`; returns how many.
    pub(crate) fn read(&mut self, to: usize, from: usize, limit: usize) -> usize {
        let peer = Rank(from as u32);
        let mut read = 0;
        loop {
            let Node { engine, memory } = &mut self.nodes[to];
            let pipe = &mut self.pipes[from][to];
            let left = (limit - read).min(pipe.bytes.len());
            if left == 0 {
                return read;
            }
            let Some(body) = &mut pipe.body else {
                let part = left.min(HEADER_LEN - pipe.header.len());
                pipe.header.extend(pipe.bytes.drain(..part));
                read += part;
                if pipe.header.len() == HEADER_LEN {
                    let bytes: [u8; HEADER_LEN] = pipe.header[..].try_into().unwrap();
                    pipe.header.clear();
                    let header = Header::decode(&bytes).unwrap();
                    self.frames.push((to, header.kind));
                    let len = header.body_len() as usize;
                    let place = engine.rx_header(peer, &header).unwrap();
                    if place != RxBody::None {
                        pipe.body = Some(Body { place, at: 0, len });
                    }
                    self.copies(to);
                }
                continue;
            };
            let part = left.min(body.len - body.at);
            read += part;
            for byte in pipe.bytes.drain(..part) {
                match body.place {
                    RxBody::Into { into, .. } if body.at < into.len => {
                        memory[into.addr + body.at] = byte;
                    }
                    RxBody::Buffer => engine.rx_buffer(peer)[body.at] = byte,
                    _ => (),
                }
                body.at += 1;
            }
            if body.at == body.len {
                pipe.body = None;
                engine.rx_done(peer).unwrap();
                self.copies(to);
            }
        }
    }

    /// Bytes that were written without `write`.
    pub(crate) fn put(&mut self, from: usize, to: usize, bytes: &[u8]) {
        self.pipes[from][to].bytes.extend(bytes);
    }

    /// Arrived bytes at the beginning of a frame; empty in the middle of one.
    pub(crate) fn whole(&self, from: usize, to: usize) -> Vec<u8> {
        let pipe = &self.pipes[from][to];
        if pipe.header.is_empty() && pipe.body.is_none() {
            pipe.bytes.iter().copied().collect()
        } else {
            Vec::new()
        }
    }

    /// Bytes that were read without `read`.
    pub(crate) fn skip(&mut self, from: usize, to: usize, count: usize) {
        self.pipes[from][to].bytes.drain(..count);
        self.frames.push((to, FrameKind::Eager));
    }

    /// Bytes that are missing of the present header or body.
    pub(crate) fn next_part(&self, from: usize, to: usize) -> usize {
        let pipe = &self.pipes[from][to];
        match &pipe.body {
            Some(body) => body.len - body.at,
            None => HEADER_LEN - pipe.header.len(),
        }
    }

    pub(crate) fn cut(&mut self, a: usize, b: usize) {
        for (from, to) in [(a, b), (b, a)] {
            self.pipes[from][to] = Pipe::default();
            self.nodes[from].engine.link_down(Rank(to as u32));
        }
    }

    /// The resumes of both in a handshake now.
    pub(crate) fn shake(&self, a: usize, b: usize) -> (Resume, Resume) {
        let say = |x: usize, y: usize| {
            let resume = self.nodes[x].engine.resume(Rank(y as u32));
            let mut bytes = Vec::new();
            resume.encode(&mut bytes).unwrap();
            Resume::decode(&bytes).unwrap()
        };
        (say(a, b), say(b, a))
    }

    pub(crate) fn link(&mut self, a: usize, b: usize, (of_a, of_b): &(Resume, Resume)) {
        let up = |node: &mut Node, peer, resume| node.engine.link_up(Rank(peer as u32), resume);
        up(&mut self.nodes[a], b, of_b).unwrap();
        up(&mut self.nodes[b], a, of_a).unwrap();
    }

    pub(crate) fn connect_all(&mut self) {
        for a in 0..self.nodes.len() {
            for b in 0..a {
                if !self.nodes[a].engine.is_up(Rank(b as u32)) {
                    let said = self.shake(a, b);
                    self.link(a, b, &said);
                }
            }
        }
    }

    /// Frames of a kind that a rank has read.
    pub(crate) fn read_by(&self, rank: usize, kind: FrameKind) -> usize {
        let wanted = self.frames.iter().filter(|f| **f == (rank, kind));
        wanted.count()
    }

    /// Moves bytes until nothing moves any more.
    pub(crate) fn settle(&mut self) {
        loop {
            let mut moved = 0;
            for a in 0..self.nodes.len() {
                for b in 0..self.nodes.len() {
                    if a != b {
                        moved += self.write(a, b, 100_000) + self.read(b, a, 100_000);
                    }
                }
            }
            if moved == 0 {
                let grant = |node: &mut Node| {
                    node.engine
                        .grant_if_starved(&crate::FailedProbes::default())
                };
                if self
                    .nodes
                    .iter_mut()
                    .filter_map(|n| grant(n).then_some(()))
                    .count()
                    == 0
                {
                    return;
                }
            }
        }
    }

    /// Moves bytes, with all acks, until every engine is quiet.
    pub(crate) fn finish(&mut self) {
        self.connect_all();
        self.settle();
        self.nodes
            .iter_mut()
            .for_each(|node| node.engine.flush_all_acks());
        self.settle();
        for node in &self.nodes {
            let unfinished = node.engine.unfinished();
            assert!(node.engine.quiescent(), "unfinished: {unfinished:?}");
        }
    }
}
