//! Single situations that are rare in the random scripts, and bounds.

use std::time::Duration;

use proptest::prelude::*;
use rejoin_channel_table::ids::{Epoch, Rank, Ssn};
use rejoin_channel_table::resume::Resume;

use crate::flow::{ENVELOPE_MEMORY, GRANT_MEMORY};
use crate::harness::World;
use crate::tests::{content, small};
use crate::{
    Config, Engine, Envelope, FrameKind, HEADER_LEN, Header, MessageMode, Pattern, ProtocolError,
    ReqId, RxBody, Segment,
};

pub(crate) const ANY: Pattern = Pattern {
    context: 1,
    source: None,
    tag: None,
    from: None,
};

/// Processor time of this thread so far, which does not depend on the load of the machine.
fn computed() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("such a file");
    let first = text.split_whitespace().next().expect("a number");
    Duration::from_nanos(first.parse().expect("nanoseconds"))
}

pub(crate) fn messages_at(world: &World, rank: usize) -> usize {
    world.nodes[rank].engine.core.messages.iter().count()
}

#[test]
fn a_flood_of_empty_messages_is_bounded() {
    let mut world = World::linked(Config::default(), 2);
    let window = Config::default().window as usize;
    let sends: Vec<Option<ReqId>> = (0..200_000)
        .map(|tag| world.send(0, 1, tag, &[], MessageMode::Standard))
        .collect();
    world.settle();
    assert_eq!(messages_at(&world, 1), window / HEADER_LEN);
    assert!(world.nodes[0].engine.core.requests.iter().count() > 100_000);
    for tag in 0..200_000 {
        world.settle();
        let (id, _) = world.recv(1, ANY, 0);
        let done = world.nodes[1].engine.poll(id).expect("it is there");
        assert_eq!(done.tag, tag);
    }
    world.finish();
    assert!(
        sends
            .iter()
            .flatten()
            .all(|id| world.nodes[0].engine.is_complete(*id))
    );
}

#[test]
fn unexpected_messages_cost_the_same_however_many_there_are() {
    let start = computed();
    let mut world = World::linked(Config::default(), 2);
    const MANY: i32 = 50_000;
    for tag in 0..MANY {
        world.send(0, 1, tag, b"", MessageMode::Standard);
    }
    world.settle();
    for tag in (0..MANY).rev() {
        let (source, wild) = (World::pattern(Some(0), Some(tag)), tag % 2 == 0);
        let pattern = if wild {
            World::pattern(None, Some(tag))
        } else {
            source
        };
        assert!(world.nodes[1].engine.probe(&pattern).is_some());
        let (id, _) = world.recv(1, pattern, 0);
        assert_eq!(
            world.nodes[1].engine.poll(id).map(|done| done.tag),
            Some(tag)
        );
    }
    // Posted ones too: the newest first.
    let posted: Vec<ReqId> = (0..MANY)
        .map(|tag| world.recv(1, World::pattern(None, Some(tag)), 0).0)
        .collect();
    for tag in (0..MANY).rev() {
        world.send(0, 1, tag, b"", MessageMode::Standard);
    }
    world.finish();
    assert!(
        posted
            .iter()
            .all(|id| world.nodes[1].engine.is_complete(*id))
    );
    // Were it quadratic, it would take minutes.
    assert!(computed() - start < Duration::from_secs(20));
}

#[test]
fn a_message_behind_a_full_window_is_found() {
    let mut world = World::linked(small(), 2);
    for number in 0..2000 {
        world.send(0, 1, 0, &content(number, 90), MessageMode::Standard);
    }
    let last = world.send(0, 1, 7, &content(9, 9000), MessageMode::Standard);
    world.settle();
    assert!(messages_at(&world, 1) <= (small().window as usize) / (90 + HEADER_LEN));
    let (id, seg) = world.recv(1, World::pattern(Some(0), Some(7)), 9000);
    world.settle();
    assert_eq!(
        world.nodes[1].engine.poll(id).map(|done| done.len),
        Some(9000)
    );
    assert_eq!(world.bytes(1, seg), content(9, 9000));
    assert!(
        world.nodes[0]
            .engine
            .is_complete(last.expect("it was large"))
    );
    for number in 0..2000 {
        let (id, seg) = world.recv(1, ANY, 90);
        world.settle();
        assert!(world.nodes[1].engine.poll(id).is_some(), "{number}");
        assert_eq!(world.bytes(1, seg), content(number, 90));
    }
    world.finish();
    let engine = &world.nodes[1].engine;
    let unused = engine
        .peer(Rank(0))
        .map(|channel| channel.rx.window.open_grants());
    assert_eq!(
        Some(engine.core.beyond),
        unused.map(|grants| grants * GRANT_MEMORY)
    );
}

#[test]
fn a_little_credit_is_told_to_a_peer_that_needs_it() {
    let mut world = World::linked(small(), 2);
    for number in 0..10 {
        world.send(0, 1, 0, &content(number, 1436), MessageMode::Standard);
    }
    world.settle();
    // 13 500 bytes of the window of 16 384 are held or untold: too much for one of the largest.
    for _ in 0..2 {
        world.recv(1, ANY, 1436);
    }
    world.send(0, 1, 7, &content(9, 1500), MessageMode::Standard);
    let (id, _) = world.recv(1, World::pattern(Some(0), Some(7)), 1500);
    world.settle();
    assert!(world.nodes[1].engine.is_complete(id));
}

#[test]
fn grants_stop_at_the_cap() {
    let mut world = World::linked(small(), 2);
    for _ in 0..20_000 {
        world.send(0, 1, 0, &[], MessageMode::Standard);
    }
    world.recv(1, World::pattern(Some(0), Some(7)), 0);
    world.settle();
    let most = small().window as usize / HEADER_LEN + (small().beyond / ENVELOPE_MEMORY) as usize;
    // Room for the possible cost of the last grant stays free.
    let got = messages_at(&world, 1);
    assert!((most - 1..=most).contains(&got), "{got} of {most}");
}

#[test]
fn head_to_head_floods_do_not_deadlock() {
    head_to_head(small());
    head_to_head(Config {
        eager_max: 8000,
        ..small()
    });
}

fn head_to_head(config: Config) {
    let mut world = World::linked(config, 2);
    let mut sends = Vec::new();
    for number in 0..300 {
        for (from, to) in [(0, 1), (1, 0)] {
            let len = [1500, 50, 6000, 0][number % 4];
            sends.push((
                from,
                world.send(from, to, 0, &content(number, len), MessageMode::Blocking),
            ));
        }
        world.write(0, 1, 777);
        world.read(1, 0, 555);
    }
    for number in 0..300 {
        for at in [0, 1] {
            let (id, seg) = world.recv(at, ANY, 6000);
            world.settle();
            let done = world.nodes[at].engine.poll(id).expect("it arrives");
            let expected = content(number, [1500, 50, 6000, 0][number % 4]);
            assert_eq!(&world.bytes(at, seg)[..done.len as usize], expected);
        }
    }
    world.finish();
    let ended = |(from, id): &(usize, Option<ReqId>)| {
        id.is_none_or(|id| world.nodes[*from].engine.is_complete(id))
    };
    assert!(sends.iter().all(ended));
}

#[test]
fn a_small_message_overtakes_large_bodies() {
    let mut world = World::linked(small(), 2);
    let (big, seg) = world.recv(1, World::pattern(Some(0), Some(1)), 1 << 20);
    world.send(0, 1, 1, &content(1, 1 << 20), MessageMode::Standard);
    let (little, _) = world.recv(1, World::pattern(Some(0), Some(2)), 8);
    while world.write(0, 1, 3000) > 0 {
        world.read(1, 0, 5000);
        world.write(1, 0, 5000);
        world.read(0, 1, 5000);
        if world.nodes[0]
            .engine
            .peer(Rank(1))
            .is_some_and(|c| c.tx.plan.chunks() > 0)
        {
            break;
        }
    }
    world.send(0, 1, 2, &content(2, 8), MessageMode::Standard);
    let mut bytes = 0;
    while !world.nodes[1].engine.is_complete(little) {
        bytes += world.write(0, 1, 1000);
        world.read(1, 0, 1000);
    }
    assert!(bytes <= small().chunk + 1000 + 3 * HEADER_LEN, "{bytes}");
    assert!(!world.nodes[1].engine.is_complete(big));
    world.finish();
    assert_eq!(world.bytes(1, seg), content(1, 1 << 20));
}

#[test]
fn a_body_longer_than_the_buffer_is_truncated() {
    for len in [60, 1000, 9000] {
        for posted in [true, false] {
            let mut world = World::linked(small(), 2);
            let early = posted.then(|| world.recv(1, ANY, 50));
            world.send(0, 1, 3, &content(4, len), MessageMode::Standard);
            world.settle();
            let (id, seg) = early.unwrap_or_else(|| world.recv(1, ANY, 50));
            world.finish();
            let done = world.nodes[1].engine.poll(id).expect("it arrives");
            assert_eq!((done.len, done.truncated), (50, Some(len as u64)));
            assert_eq!(world.bytes(1, seg), &content(4, len)[..50]);
        }
    }
}

#[test]
fn bursts_are_one_piece() {
    let mut world = World::linked(Config::default(), 2);
    while world.write(0, 1, 1 << 20) > 0 {}
    for number in 0..100 {
        world.send(0, 1, 0, &content(number, 8), MessageMode::Standard);
    }
    let gather = world.nodes[0].engine.tx_gather(Rank(1));
    assert_eq!(
        (gather.pieces().len(), gather.bytes()),
        (1, 100 * (HEADER_LEN + 8))
    );
}

#[test]
fn peers_become_ready_once() {
    let mut world = World::new(Config::default(), 3);
    world.send(0, 2, 0, b"a", MessageMode::Standard);
    world.send(0, 2, 0, b"b", MessageMode::Standard);
    let engine = &mut world.nodes[0].engine;
    assert_eq!(engine.next_ready(), Some(Rank(2)));
    assert_eq!(engine.next_ready(), None);
    assert!(engine.tx_waiting(Rank(2)) && !engine.tx_pending(Rank(2)));
    assert_eq!(engine.unfinished(), [Rank(2)]);
    assert!(engine.tx_gather(Rank(2)).pieces().is_empty());
    engine.link_up(Rank(2), &Resume::default()).unwrap();
    assert_eq!(engine.next_ready(), Some(Rank(2)));
    assert!(engine.tx_pending(Rank(2)));
}

#[test]
fn frames_carry_the_epoch_and_later_ones_wait() {
    let mut world = World::linked(Config::default(), 2);
    let (id, _) = world.recv(1, ANY, 1);
    world.nodes[0].engine.set_epoch(Epoch(2));
    world.send(0, 1, 0, b"x", MessageMode::Standard);
    let gather = world.nodes[0].engine.tx_gather(Rank(1));
    let mut bytes = Vec::new();
    for piece in gather.pieces() {
        match piece {
            crate::WritePiece::Bytes(part) => bytes.extend_from_slice(part),
            crate::WritePiece::Memory(_) => panic!("a small message is copied"),
        }
    }
    let at = bytes.len() - HEADER_LEN - 1;
    let header = Header::decode(bytes[at..at + HEADER_LEN].try_into().unwrap()).unwrap();
    assert_eq!((header.kind, header.epoch), (FrameKind::Eager, Epoch(2)));
    let receiver = &mut world.nodes[1].engine;
    let before = receiver.clone();
    let refused = receiver.rx_header(Rank(0), &header);
    assert_eq!(refused, Err(ProtocolError::LaterEpoch(Epoch(2))));
    assert!(*receiver == before);
    receiver.set_epoch(Epoch(2));
    assert!(matches!(
        receiver.rx_header(Rank(0), &header),
        Ok(RxBody::Into { .. })
    ));
    receiver.rx_done(Rank(0)).unwrap();
    assert!(receiver.is_complete(id));
}

/// What such a frame acknowledges is in the sender's image: the receiver takes its own first.
#[test]
fn a_frame_that_is_sent_again_carries_the_present_epoch() {
    let mut world = World::linked(Config::default(), 2);
    world.send(0, 1, 0, b"again", MessageMode::Standard);
    world.write(0, 1, 1000);
    world.cut(0, 1);
    for node in &mut world.nodes {
        node.engine.set_epoch(Epoch(2));
    }
    world.connect_all();
    world.write(0, 1, 1000);
    let bytes = world.whole(0, 1);
    let at = bytes.len() - HEADER_LEN - 5;
    let header = Header::decode(bytes[at..at + HEADER_LEN].try_into().unwrap()).unwrap();
    assert_eq!((header.kind, header.epoch), (FrameKind::Eager, Epoch(2)));
}

#[test]
fn a_resume_of_a_later_epoch_acknowledges_nothing_before_the_image() {
    let mut world = World::linked(Config::default(), 2);
    world.send(0, 1, 0, b"kept", MessageMode::Standard);
    world.write(0, 1, 1000);
    world.read(1, 0, 1000);
    world.cut(0, 1);
    world.nodes[1].engine.set_epoch(Epoch(3));
    let (_, said) = world.shake(0, 1);
    assert_eq!((said.epoch, said.next_envelope), (Epoch(3), Ssn(1)));
    assert_eq!(world.nodes[1].engine.resume(Rank(0)).epoch, Epoch(3));
    let sender = &mut world.nodes[0].engine;
    let before = sender.clone();
    let refused = sender.link_up(Rank(1), &said);
    assert_eq!(refused, Err(ProtocolError::LaterEpoch(Epoch(3))));
    assert!(*sender == before);
    sender.set_epoch(Epoch(3));
    sender.link_up(Rank(1), &said).unwrap();
    let stranger = Engine::new(Config::default(), Rank(0), 2);
    assert_eq!(stranger.resume(Rank(1)).epoch, Epoch(0));
}

#[test]
fn the_first_resume_carries_the_epoch() {
    let mut engine = Engine::new(Config::default(), Rank(0), 2);
    engine.set_epoch(Epoch(7));
    assert_eq!(engine.resume(Rank(1)).epoch, Epoch(7));
}

/// A header of the peer's about message 0.
fn control_frame(kind: FrameKind, length: u64, aux: u64) -> Header {
    Header {
        kind,
        flags: crate::Flags::NONE,
        epoch: Epoch(0),
        envelope: Envelope::default(),
        length,
        ssn: Ssn(0),
        ack: Ssn(0),
        credit: 0,
        aux,
    }
}

#[test]
fn a_message_that_is_cleared_cannot_be_removed() {
    let mut world = World::linked(small(), 2);
    let body = content(1, 9000);
    let send = world.send(0, 1, 0, &body, MessageMode::Standard).unwrap();
    world.write(0, 1, 1_000_000);
    let sender = &mut world.nodes[0].engine;
    sender.cancel(send);
    sender
        .rx_header(Rank(1), &control_frame(FrameKind::Cts, 0, 0))
        .unwrap();
    // A chunk of the program's memory is on its way.
    assert!(sender.tx_gather(Rank(1)).bytes() > HEADER_LEN);
    let reply = control_frame(FrameKind::CancelReply, 1, 1);
    let refused = sender.rx_header(Rank(1), &reply);
    assert!(matches!(refused, Err(ProtocolError::Pointless { .. })));
    assert!(!sender.is_complete(send));
    // Too late is an answer.
    let late = control_frame(FrameKind::CancelReply, 1, 0);
    sender.rx_header(Rank(1), &late).unwrap();
    assert!(!sender.is_complete(send));
}

#[test]
fn cancel_requests_take_a_bounded_memory() {
    let mut world = World::linked(small(), 2);
    let medium = content(1, 900);
    assert!(
        world
            .send(0, 1, 0, &medium, MessageMode::Standard)
            .is_some()
    );
    world.write(0, 1, 1_000_000);
    // The ack behind the handshake, the envelope, and a part of the body.
    world.read(1, 0, 2 * HEADER_LEN + 10);
    // The body is being read: another link would not have come so far.
    world.cut(0, 1);
    world.connect_all();
    let receiver = &mut world.nodes[1].engine;
    receiver
        .rx_header(Rank(0), &control_frame(FrameKind::CancelRequest, 1, 1))
        .unwrap();
    let again = receiver.rx_header(Rank(0), &control_frame(FrameKind::CancelRequest, 2, 1));
    assert!(matches!(again, Err(ProtocolError::Pointless { .. })));

    // One that never reads the answers.
    let mut world = World::linked(small(), 2);
    world.send(0, 1, 0, b"x", MessageMode::Standard);
    world.write(0, 1, 1000);
    world.read(1, 0, 1000);
    let receiver = &mut world.nodes[1].engine;
    let refused = (1..1_000_000)
        .map(|number| {
            receiver.rx_header(
                Rank(0),
                &control_frame(FrameKind::CancelRequest, number, number),
            )
        })
        .find(Result::is_err);
    assert!(matches!(
        refused,
        Some(Err(ProtocolError::Pointless { .. }))
    ));
}

fn header() -> impl Strategy<Value = Header> {
    let few = || prop_oneof![0u64..4, any::<u64>()];
    let bytes = (1u8..11, 0u8..8, few(), 0u64..3000, 0i32..2);
    (bytes, few(), few(), few()).prop_map(|((kind, flags, ssn, length, tag), ack, credit, aux)| {
        let plain = Header {
            kind: FrameKind::Ack,
            flags: crate::Flags::NONE,
            epoch: Epoch(0),
            envelope: Envelope {
                context: 1,
                source: 1,
                tag,
            },
            length,
            ssn: Ssn(ssn),
            ack: Ssn(ack & 3),
            credit: credit & 255,
            aux,
        };
        let mut bytes = plain.encode();
        bytes[2] = kind;
        bytes[3] = if kind < 3 { flags } else { 0 };
        Header::decode(&bytes).unwrap_or(plain)
    })
}

proptest! {
    /// A peer that says anything at all gets an error at worst, and no memory beyond its window.
    #[test]
    fn any_frames_are_survived(headers in proptest::collection::vec((header(), any::<bool>()), 1..100)) {
        let mut engine = Engine::new(small(), Rank(0), 2);
        engine.link_up(Rank(1), &Resume::default()).unwrap();
        let seg = Segment { addr: 0, len: 100 };
        for len in [10usize, 100, 1000, 9000] {
            let bytes = vec![0; len];
            let bytes = engine.copies(len).then_some(&bytes[..]);
            let env = Envelope { context: 1, source: 0, tag: 0 };
            let seg = Segment { addr: 0, len };
            engine.send(Rank(1), env, seg, bytes, MessageMode::Synchronous).unwrap();
            engine.recv(World::pattern(None, Some(0)), seg).unwrap();
        }
        for (header, write) in headers {
            if write {
                let bytes = engine.tx_gather(Rank(1)).bytes();
                engine.tx_advance(Rank(1), bytes.div_ceil(2));
            }
            match engine.rx_header(Rank(1), &header) {
                Ok(RxBody::None) => (),
                Ok(_) => {
                    engine.rx_buffer(Rank(1));
                    engine.rx_done(Rank(1)).unwrap();
                    while engine.next_copy().is_some() {}
                }
                Err(_) => {
                    engine.link_down(Rank(1));
                    let resume = Resume { next_envelope: header.ssn, credit: header.credit, ..Resume::default() };
                    let _ = engine.link_up(Rank(1), &resume);
                }
            }
            let _ = engine.recv(ANY, seg);
            while engine.next_copy().is_some() {}
        }
        prop_assert!(engine.resume(Rank(1)).check().is_ok());
    }
}

#[test]
fn many_large_messages_at_once_end_in_linear_time() {
    const MANY: usize = 20_000;
    let config = Config {
        eager_max: 0,
        ..small()
    };
    let start = computed();
    let mut world = World::linked(config, 2);
    let receives: Vec<ReqId> = (0..MANY).map(|_| world.recv(1, ANY, 100).0).collect();
    let sends: Vec<ReqId> = (0..MANY)
        .filter_map(|number| world.send(0, 1, 0, &content(number, 100), MessageMode::Standard))
        .collect();
    world.finish();
    assert_eq!(sends.len(), MANY);
    assert!(
        receives
            .iter()
            .all(|id| world.nodes[1].engine.is_complete(*id))
    );
    assert!(
        sends
            .iter()
            .all(|id| world.nodes[0].engine.is_complete(*id))
    );
    assert!(computed() - start < Duration::from_secs(20));
}
