use proptest::prelude::*;

use super::*;
use crate::ShortHeader;
use crate::harness::World;
use crate::{Config, Flags, MessageMode, Sent};

#[derive(Clone, Debug)]
enum Step {
    /// Bytes, tag, whether it is synchronous, how much of its frame is written at once.
    Send(usize, usize, i32, bool, usize),
    /// Receiver, whether from a given sender, tag, room.
    Recv(usize, bool, Option<i32>, usize),
    Write(usize, usize),
    Read(usize),
    Acks(usize),
    Epoch(usize),
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0usize..2;
    let tag = 0i32..2;
    prop_oneof![
        6 => (who.clone(), 0usize..200, tag.clone(), prop::bool::weighted(0.1), 0usize..400)
            .prop_map(|(who, len, tag, sync, part)| Step::Send(who, len, tag, sync, part)),
        6 => (who.clone(), any::<bool>(), prop::option::of(tag), 0usize..200)
            .prop_map(|(who, named, tag, room)| Step::Recv(who, named, tag, room)),
        2 => (who.clone(), 1usize..500).prop_map(|(who, limit)| Step::Write(who, limit)),
        6 => who.clone().prop_map(Step::Read),
        1 => who.clone().prop_map(Step::Acks),
        1 => who.prop_map(Step::Epoch),
        1 => Just(Step::Cut),
    ]
}

/// Two ranks whose small messages take the fast path where they can, beside two that never do.
struct Pair {
    short: World,
    long: World,
    quick: [usize; 2],
}

impl Pair {
    fn new(config: Config) -> Pair {
        let world = || {
            let mut world = World::linked(config, 2);
            world.settle();
            world
        };
        Pair {
            short: world(),
            long: world(),
            quick: [0; 2],
        }
    }

    fn send(&mut self, from: usize, len: usize, tag: i32, sync: bool, part: usize) {
        let content: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
        let mode = if sync {
            MessageMode::Synchronous
        } else {
            MessageMode::Standard
        };
        let to = 1 - from;
        let env = Envelope {
            context: 1,
            source: from as i32,
            tag,
        };
        let engine = &mut self.short.nodes[from].engine;
        let alone = if sync || !engine.copies(len) {
            None
        } else {
            engine.send_eager(Rank(to as u32), &env, &content)
        };
        let Some(alone) = alone else {
            self.short.send(from, to, tag, &content, mode);
            self.long.send(from, to, tag, &content, mode);
            return;
        };
        self.quick[0] += 1;
        let mut frame = alone.pieces.concat();
        let place = alone.place;
        frame.truncate(part);
        if part < HEADER_LEN + len {
            engine.send_rest(Rank(to as u32), &place, part);
        }
        self.short.segment(from, &vec![0xee; len]);
        self.short.put(from, to, &frame);
        let sent = self.long.send(from, to, tag, &content, mode);
        assert!(sent.is_none(), "{:?}", Sent::Done);
        self.long.write(from, to, part);
    }

    fn read(&mut self, to: usize) {
        let from = 1 - to;
        self.long.read(to, from, usize::MAX);
        loop {
            let frame = self.short.whole(from, to);
            let node = &mut self.short.nodes[to];
            if let Some((len, met)) = as_short(&mut node.engine, Rank(from as u32), &frame) {
                let body = &frame[HEADER_LEN..HEADER_LEN + len];
                let into = met.into.addr..met.into.addr + met.into.len;
                node.memory[into].copy_from_slice(&body[..met.into.len]);
                self.short.skip(from, to, HEADER_LEN + len);
                self.quick[1] += 1;
            } else if let Some(met) = node.engine.rx_eager(Rank(from as u32), &frame) {
                let body = &frame[HEADER_LEN..HEADER_LEN + met.len];
                let into = met.into.addr..met.into.addr + met.into.len;
                node.memory[into].copy_from_slice(&body[..met.into.len]);
                self.short.skip(from, to, HEADER_LEN + met.len);
                self.quick[1] += 1;
            } else if self.short.read(to, from, self.short.next_part(from, to)) == 0 {
                break;
            }
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Send(from, len, tag, sync, part) => self.send(from, len, tag, sync, part),
            Step::Recv(at, named, tag, room) => {
                let pattern = World::pattern(named.then_some(1 - at), tag);
                self.both(|world| {
                    world.recv(at, pattern, room);
                });
            }
            Step::Write(from, limit) => self.both(|world| {
                world.write(from, 1 - from, limit);
            }),
            Step::Read(to) => self.read(to),
            Step::Acks(at) => self.both(|world| world.nodes[at].engine.flush_all_acks()),
            Step::Epoch(at) => self.both(|world| {
                // Both enter before anything of the later epoch is read.
                let later = Epoch(world.nodes[at].engine.epoch().0 + 1);
                world
                    .nodes
                    .iter_mut()
                    .for_each(|node| node.engine.set_epoch(later));
            }),
            Step::Cut => self.both(|world| {
                world.cut(0, 1);
                world.connect_all();
            }),
        }
    }

    fn both(&mut self, mut act: impl FnMut(&mut World)) {
        act(&mut self.short);
        act(&mut self.long);
    }

    fn check(&mut self) {
        for at in 0..2 {
            let [a, b] = [&mut self.short, &mut self.long].map(|world| &mut world.nodes[at]);
            // The fast path leaves the list of ready peers out.
            while a.engine.next_ready().is_some() {}
            while b.engine.next_ready().is_some() {}
            assert!(a.memory == b.memory, "the memory of rank {at} differs");
            assert_eq!(a.engine, b.engine);
        }
    }
}

/// Takes a frame as the short message that it could have been.
fn as_short(engine: &mut Engine, from: Rank, frame: &[u8]) -> Option<(usize, Matched)> {
    let (head, rest) = frame.split_first_chunk::<HEADER_LEN>()?;
    let header = Header::decode(head).ok()?;
    let plain = header.kind == FrameKind::Eager && header.flags == crate::Flags::NONE;
    let body = rest.get(..header.length as usize).filter(|_| plain)?;
    let short = ShortHeader::of(&header);
    assert_eq!(engine.widen(from, &short), Some(header));
    assert_eq!(usize::from(short.len), body.len());
    Some((body.len(), engine.rx_short(from, &short)?))
}

fn config() -> Config {
    Config {
        eager_copy: 128,
        eager_max: 150,
        window: 4000,
        ..Config::default()
    }
}

proptest! {
    #[test]
    fn the_fast_path_leads_where_the_slow_one_does(steps in prop::collection::vec(step(), 1..80)) {
        let mut pair = Pair::new(config());
        for step in &steps {
            pair.take(step);
            pair.check();
        }
    }
}

#[test]
fn a_ping_pong_takes_the_fast_path_only() {
    let mut pair = Pair::new(config());
    for round in 0..1000 {
        for to in 0..2 {
            pair.take(&Step::Recv(to, true, Some(1), 8));
            pair.take(&Step::Send(1 - to, 8, 1, false, usize::MAX));
            pair.take(&Step::Read(to));
            pair.check();
        }
        assert_eq!(pair.quick, [2 * round + 2; 2]);
    }
}

#[test]
fn forged_frames_are_left_to_the_slow_path() {
    let mut pair = Pair::new(config());
    pair.take(&Step::Recv(1, true, Some(1), 8));
    let env = Envelope {
        context: 1,
        source: 0,
        tag: 1,
    };
    let engine = &mut pair.short.nodes[0].engine;
    let good = engine
        .send_eager(Rank(1), &env, b"12345678")
        .expect("idle")
        .pieces
        .concat();
    let engine = &mut pair.short.nodes[1].engine;
    let before = engine.clone();
    for at in [0, 1, 2, 3, 4, 22, 24, 31, 32, 40, 48] {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        assert_eq!(engine.rx_eager(Rank(0), &bad), None, "byte {at}");
        assert_eq!(*engine, before, "byte {at}");
    }
    assert_eq!(engine.rx_eager(Rank(0), &good[..71]), None);
    assert_eq!(engine.rx_eager(Rank(7), &good), None);
    assert!(engine.rx_eager(Rank(0), &good).is_some());
    assert_eq!(engine.rx_eager(Rank(0), &good), None);
}

/// A receive that need not be posted leaves the same state as a posted one.
#[test]
fn a_receive_that_is_not_posted_leaves_the_channel_as_a_posted_one_does() {
    let mut pair = Pair::new(config());
    let pattern = World::pattern(Some(0), Some(1));
    let one = Rank(1);
    for round in 0..200 {
        let len = [0, 1, 8, 31, 32, 33, 100][round % 7];
        pair.take(&Step::Send(0, len, 1, false, usize::MAX));
        pair.long.recv(1, pattern, 128);
        pair.long.read(1, 0, usize::MAX);
        let frame = pair.short.whole(0, 1);
        let header = Header::decode(frame.first_chunk().unwrap()).unwrap();
        let header = ShortHeader::of(&header);
        let engine = &mut pair.short.nodes[1].engine;
        let seg = crate::Segment { addr: 0, len: 128 };
        let other = World::pattern(Some(0), Some(2));
        assert!(engine.is_next_match(&pattern));
        assert_eq!(engine.rx_short_into(Rank(0), &header, &other, seg), None);
        let short = crate::Segment {
            addr: 0,
            len: len.saturating_sub(1),
        };
        assert!(
            len == 0
                || engine
                    .rx_short_into(Rank(0), &header, &pattern, short)
                    .is_none()
        );
        let (done, met) = engine
            .rx_short_into(Rank(0), &header, &pattern, seg)
            .unwrap();
        assert_eq!(
            (done.len, done.source, done.tag, met.len),
            (len as u64, 0, 1, len)
        );
        assert_eq!(engine.rx_short_into(Rank(0), &header, &pattern, seg), None);
        pair.short.skip(0, 1, frame.len());
        // Answers carry acks and credit back.
        if round % 3 == 0 {
            pair.take(&Step::Recv(0, true, Some(3), 8));
            pair.take(&Step::Send(1, 8, 3, false, usize::MAX));
            pair.take(&Step::Read(0));
        }
        for at in 0..2 {
            let [a, b] = [&pair.short, &pair.long].map(|world| &world.nodes[at].engine.channels);
            assert_eq!(a, b, "round {round}, rank {at}");
        }
    }
    assert!(
        !pair.short.nodes[one.index()]
            .engine
            .is_next_match(&World::pattern(Some(0), None))
    );
    pair.take(&Step::Recv(1, false, Some(9), 8));
    assert!(
        !pair.short.nodes[one.index()].engine.is_next_match(&pattern),
        "a receive from anyone is posted"
    );
}

#[test]
fn a_length_that_no_body_can_have_is_left_to_the_slow_path() {
    let mut world = World::linked(Config::default(), 2);
    world.settle();
    let engine = &mut world.nodes[1].engine;
    for length in [u64::MAX, u64::MAX - ENVELOPE_COST + 1, 1 << 32] {
        let header = Header {
            kind: FrameKind::Eager,
            flags: Flags::NONE,
            epoch: engine.epoch(),
            envelope: Envelope {
                context: 1,
                source: 0,
                tag: 0,
            },
            length,
            ssn: Ssn(1),
            ack: Ssn(0),
            credit: 0,
            aux: 0,
        };
        assert_eq!(engine.rx_eager(Rank(0), &header.encode()), None);
    }
}

#[test]
fn a_message_of_a_later_epoch_is_left_where_it_is() {
    let mut world = World::linked(config(), 2);
    world.settle();
    let (zero, one) = (Rank(0), Rank(1));
    world.recv(1, World::pattern(Some(0), Some(1)), 8);
    let env = Envelope {
        context: 1,
        source: 0,
        tag: 1,
    };
    world.nodes[0].engine.set_epoch(Epoch(1));
    let sent = world.nodes[0].engine.send_short(one, &env, b"12345678");
    let header = sent.expect("the link is idle");
    let engine = &mut world.nodes[1].engine;
    let before = engine.clone();
    assert_eq!(engine.rx_short(zero, &header), None);
    assert_eq!(*engine, before, "something of it was taken");
    engine.set_epoch(Epoch(1));
    assert!(engine.rx_short(zero, &header).is_some());
}
