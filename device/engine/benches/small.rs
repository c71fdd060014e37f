//! Nanoseconds per small message through two engines, without any transport: what the engine adds
//! to a send and a receive of 8 bytes. Bytes are copied as a device would copy them.
//!
//! `cargo bench -p rejoin-engine [-- MESSAGES]`; each line is the best of several runs.
#![forbid(unsafe_code)]

use std::time::Instant;

use rejoin_channel_table::ids::Rank;
use rejoin_channel_table::resume::Resume;
use rejoin_engine::{
    Config, Engine, Envelope, HEADER_LEN, Header, Mode, Pattern, Piece, ReqId, RxBody, Segment,
    Sent, Source,
};

const LEN: usize = 8;

/// Two engines, and a stream from one to the other.
struct Pair {
    messages: usize,
    engines: [Engine; 2],
    memory: [Vec<u8>; 2],
    staging: Vec<u8>,
}

impl Pair {
    fn new(messages: usize) -> Pair {
        let engine = |rank| {
            let mut engine = Engine::new(Config::default(), Rank(rank), 2);
            let up = engine.link_up(Rank(1 - rank), &Resume::default());
            up.expect("a first link");
            engine
        };
        Pair {
            messages,
            engines: [engine(0), engine(1)],
            memory: [vec![1; 4096], vec![2; 4096]],
            staging: Vec::with_capacity(1 << 20),
        }
    }

    fn send(&mut self, from: usize) {
        let seg = Segment { addr: 0, len: LEN };
        let env = Envelope {
            context: 1,
            source: from as i32,
            tag: 5,
        };
        let bytes = Some(&self.memory[from][..LEN]);
        let to = Rank(1 - from as u32);
        let sent = self.engines[from].send(to, env, seg, bytes, Mode::Standard);
        assert_eq!(sent, Ok(Sent::Done));
    }

    fn recv(&mut self, at: usize, wild: bool) -> ReqId {
        let pattern = Pattern {
            context: 1,
            source: (!wild).then_some(1 - at as i32),
            tag: (!wild).then_some(5),
            from: (!wild).then_some(Rank(1 - at as u32)),
        };
        let seg = Segment { addr: 64, len: LEN };
        let id = self.engines[at].recv(pattern, seg).expect("a receive");
        while let Some(copy) = self.engines[at].next_copy() {
            if let Source::Bytes(bytes) = copy.from {
                self.memory[at][copy.to.addr..copy.to.addr + copy.to.len].copy_from_slice(bytes);
            }
        }
        id
    }

    /// Everything that `from` has to write reaches the other.
    fn transfer(&mut self, from: usize) {
        let (sender, receiver) = (Rank(from as u32), Rank(1 - from as u32));
        while self.engines[from].next_ready().is_some() {}
        self.staging.clear();
        while self.engines[from].tx_pending(receiver) {
            let gather = self.engines[from].tx_gather(receiver);
            for piece in gather.pieces() {
                if let Piece::Bytes(bytes) = piece {
                    self.staging.extend_from_slice(bytes);
                }
            }
            let bytes = gather.bytes();
            self.engines[from].tx_advance(receiver, bytes);
        }
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

    fn end(&mut self, at: usize, id: ReqId) {
        let done = self.engines[at].poll(id).expect("it has arrived");
        assert_eq!(done.len, LEN as u64);
    }
}

fn ping_pong(pair: &mut Pair, posted: bool, wild: bool) {
    for number in 0..pair.messages {
        let from = number & 1;
        let early = posted.then(|| pair.recv(1 - from, wild));
        pair.send(from);
        pair.transfer(from);
        let id = early.unwrap_or_else(|| pair.recv(1 - from, wild));
        pair.end(1 - from, id);
    }
}

fn bursts(pair: &mut Pair, posted: bool) {
    const BURST: usize = 64;
    let mut ids = Vec::with_capacity(BURST);
    for _ in 0..pair.messages / BURST {
        ids.clear();
        if posted {
            ids.extend((0..BURST).map(|_| pair.recv(1, false)));
        }
        (0..BURST).for_each(|_| pair.send(0));
        pair.transfer(0);
        if !posted {
            ids.extend((0..BURST).map(|_| pair.recv(1, false)));
        }
        ids.iter().for_each(|id| pair.end(1, *id));
        pair.transfer(1);
    }
}

/// Nanoseconds that this thread has run, which a busy machine does not change; where the system
/// does not say, the time since `start`.
fn on_cpu(start: Instant) -> f64 {
    let file = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = file.and_then(|text| text.split(' ').next()?.parse().ok());
    spent.unwrap_or(start.elapsed().as_nanos() as f64)
}

fn best(name: &str, mut run: impl FnMut(&mut Pair)) {
    let given = std::env::args().find_map(|arg| arg.parse().ok());
    let messages = given.unwrap_or(1_000_000);
    let mut pair = Pair::new(messages);
    let start = Instant::now();
    let once = |_| {
        let before = on_cpu(start);
        run(&mut pair);
        (on_cpu(start) - before) / messages as f64
    };
    let least = (0..5).map(once).fold(f64::INFINITY, f64::min);
    println!("{name:32} {least:7.1} ns per message");
}

fn main() {
    best("ping-pong, posted", |p| ping_pong(p, true, false));
    best("ping-pong, posted with wildcards", |p| {
        ping_pong(p, true, true)
    });
    best("ping-pong, unexpected", |p| ping_pong(p, false, false));
    best("bursts of 64, posted", |p| bursts(p, true));
    best("bursts of 64, unexpected", |p| bursts(p, false));
}
