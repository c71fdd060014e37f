//! Shared by several benches: two engines without any transport between them. Bytes are copied as a
//! device would copy them.
#![forbid(unsafe_code)]
#![allow(
    clippy::missing_panics_doc,
    reason = "whatever fails here fails the bench"
)]

use rejoin_channel_table::ids::Rank;
use rejoin_channel_table::resume::Resume;
use rejoin_engine::{
    BodySource, Config, Engine, Envelope, HEADER_LEN, Header, MessageMode, Pattern, ReqId, RxBody,
    Segment, Sent, WritePiece,
};

/// Bytes of each message.
pub const LEN: usize = 8;

/// Two engines, and a stream from one to the other.
pub struct Pair {
    engines: [Engine; 2],
    memory: [Vec<u8>; 2],
    staging: Vec<u8>,
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl Pair {
    /// Two engines with a link and nothing sent.
    #[must_use]
    pub fn new() -> Pair {
        let engine = |rank| {
            let mut engine = Engine::new(Config::default(), Rank(rank), 2);
            let up = engine.link_up(Rank(1 - rank), &Resume::default());
            up.expect("a first link");
            engine
        };
        Pair {
            engines: [engine(0), engine(1)],
            memory: [vec![1; 4096], vec![2; 4096]],
            staging: Vec::with_capacity(1 << 20),
        }
    }

    /// A message with this tag to the other.
    pub fn send(&mut self, from: usize, tag: i32) {
        let seg = Segment { addr: 0, len: LEN };
        let env = Envelope {
            context: 1,
            source: from as i32,
            tag,
        };
        let bytes = Some(&self.memory[from][..LEN]);
        let to = Rank(1 - from as u32);
        let sent = self.engines[from].send(to, env, seg, bytes, MessageMode::Standard);
        assert_eq!(sent, Ok(Sent::Done));
    }

    /// A receive of a message with this tag, or of any.
    pub fn recv(&mut self, at: usize, tag: Option<i32>) -> ReqId {
        let pattern = Pattern {
            context: 1,
            source: tag.map(|_| 1 - at as i32),
            tag,
            from: tag.map(|_| Rank(1 - at as u32)),
        };
        let seg = Segment { addr: 64, len: LEN };
        let id = self.engines[at].recv(pattern, seg).expect("a receive");
        while let Some(copy) = self.engines[at].next_copy() {
            if let BodySource::Bytes(bytes) = copy.from {
                self.memory[at][copy.to.addr..copy.to.addr + copy.to.len].copy_from_slice(bytes);
            }
        }
        id
    }

    /// Everything that `from` has to write reaches the other.
    pub fn transfer(&mut self, from: usize) {
        let sender = Rank(from as u32);
        self.gather(from);
        let engine = &mut self.engines[1 - from];
        let mut rest = &self.staging[..];
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
            let header = Header::decode(header).expect("a header");
            let (body, after) = after.split_at(header.body_len() as usize);
            rest = after;
            match engine.rx_header(sender, &header).expect("a frame") {
                RxBody::None => continue,
                RxBody::Into { into, .. } => {
                    let to = &mut self.memory[1 - from][into.addr..into.addr + into.len];
                    to.copy_from_slice(body);
                }
                RxBody::Buffer => engine.rx_buffer(sender).copy_from_slice(body),
                RxBody::Discard(_) => (),
            }
            engine.rx_done(sender).expect("a body");
        }
        while engine.next_ready().is_some() {}
    }

    /// The bytes that this side must write.
    pub fn written(&mut self, from: usize) -> Vec<u8> {
        self.gather(from);
        std::mem::take(&mut self.staging)
    }

    fn gather(&mut self, from: usize) {
        let receiver = Rank(1 - from as u32);
        while self.engines[from].next_ready().is_some() {}
        self.staging.clear();
        while self.engines[from].tx_pending(receiver) {
            let gather = self.engines[from].tx_gather(receiver);
            for piece in gather.pieces() {
                if let WritePiece::Bytes(bytes) = piece {
                    self.staging.extend_from_slice(bytes);
                }
            }
            let bytes = gather.bytes();
            self.engines[from].tx_advance(receiver, bytes);
        }
    }

    /// The end of a receive whose message has arrived.
    pub fn end(&mut self, at: usize, id: ReqId) {
        let done = self.engines[at].poll(id).expect("it has arrived");
        assert_eq!(done.len, LEN as u64);
    }
}
