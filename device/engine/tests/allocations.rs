//! In steady state the engine allocates nothing: small messages, posted and unexpected, medium
//! ones that are detached, and large ones.
#![forbid(unsafe_code)]

use std::alloc::System;

use rejoin_channel_table::ids::Rank;
use rejoin_channel_table::resume::Resume;
use rejoin_engine::{
    Config, Detach, Engine, Envelope, HEADER_LEN, Header, MessageMode, Pattern, ReqId, RxBody,
    Segment, Sent, WritePiece,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

struct Pair {
    engines: [Engine; 2],
    stream: Vec<u8>,
}

impl Pair {
    /// Sends `len` bytes from rank 0 to rank 1; the bytes themselves do not matter here.
    fn send(&mut self, body: &[u8], tag: i32) -> Option<ReqId> {
        let env = Envelope {
            context: 1,
            source: 0,
            tag,
        };
        let seg = Segment {
            addr: 0,
            len: body.len(),
        };
        let bytes = self.engines[0].copies(body.len()).then_some(body);
        match self.engines[0].send(Rank(1), env, seg, bytes, MessageMode::Blocking) {
            Ok(Sent::Done) => None,
            Ok(Sent::Pending(id)) => Some(id),
            Err(error) => panic!("{error}"),
        }
    }

    fn recv(&mut self, len: usize, tag: Option<i32>) -> ReqId {
        let pattern = Pattern {
            context: 1,
            source: None,
            tag,
            from: Some(Rank(0)),
        };
        let id = self.engines[1].recv(pattern, Segment { addr: 0, len });
        while self.engines[1].next_copy().is_some() {}
        id.expect("a receive")
    }

    /// Moves the frames of both, until neither has any left.
    fn exchange(&mut self) {
        while self.transfer(0) | self.transfer(1) {}
    }

    fn transfer(&mut self, from: usize) -> bool {
        let (sender, receiver) = (Rank(from as u32), Rank(1 - from as u32));
        while self.engines[from].next_ready().is_some() {}
        self.stream.clear();
        while self.engines[from].tx_pending(receiver) {
            let gather = self.engines[from].tx_gather(receiver);
            for piece in gather.pieces() {
                match piece {
                    WritePiece::Bytes(bytes) => self.stream.extend_from_slice(bytes),
                    WritePiece::Memory(seg) => self.stream.resize(self.stream.len() + seg.len, 0),
                }
            }
            let bytes = gather.bytes();
            self.engines[from].tx_advance(receiver, bytes);
        }
        let engine = &mut self.engines[1 - from];
        let mut rest = &self.stream[..];
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
            let header = Header::decode(header).expect("a header");
            let (body, after) = after.split_at(header.body_len() as usize);
            rest = after;
            match engine.rx_header(sender, &header).expect("a frame") {
                RxBody::None => continue,
                RxBody::Buffer => engine.rx_buffer(sender).copy_from_slice(body),
                RxBody::Into { .. } | RxBody::Discard(_) => (),
            }
            engine.rx_done(sender).expect("a body");
            while engine.next_copy().is_some() {}
        }
        !self.stream.is_empty()
    }

    /// One message of a length, its receive before or after it.
    fn message(&mut self, body: &[u8], tag: i32, posted: bool, wild: bool) {
        let tags = (!wild).then_some(tag);
        let early = posted.then(|| self.recv(body.len(), tags));
        let sent = self.send(body, tag);
        self.exchange();
        let received = early.unwrap_or_else(|| self.recv(body.len(), tags));
        if let Some(id) = sent {
            if let Detach::Copy { into, .. } = self.engines[0].detach(id) {
                into.fill(0);
            }
            self.exchange();
            assert!(self.engines[0].poll(id).is_some());
        }
        assert!(self.engines[1].poll(received).is_some());
    }
}

#[test]
fn steady_state_allocates_nothing() {
    let engine = |rank| {
        let mut engine = Engine::new(Config::default(), Rank(rank), 2);
        let up = engine.link_up(Rank(1 - rank), &Resume::default());
        up.expect("a first link");
        engine
    };
    let mut pair = Pair {
        engines: [engine(0), engine(1)],
        stream: Vec::new(),
    };
    let body = vec![0; 600_000];
    let round = |pair: &mut Pair, tag: i32| {
        for len in [0, 8, 5000, 60_000, 600_000] {
            for (posted, wild) in [(true, false), (true, true), (false, false), (false, true)] {
                pair.message(&body[..len], tag, posted, wild);
            }
        }
    };
    let warming_up = Region::new(ALLOCATOR);
    for tag in 0..500 {
        round(&mut pair, tag);
    }
    assert!(warming_up.change().allocations > 0);
    let region = Region::new(ALLOCATOR);
    // New tags, too: the matching table is swept, it does not grow.
    for tag in 500..1500 {
        round(&mut pair, tag);
    }
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0));
}
