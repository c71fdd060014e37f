//! How many frames and writes it takes: messages beyond the window, acks, bursts.

use rejoin_channel_table::ids::Rank;

use crate::flow::{ENVELOPE_MEMORY, GRANT_MEMORY};
use crate::harness::World;
use crate::scenarios::{ANY, messages_at};
use crate::tests::{content, small};
use crate::{Config, FailedProbes, FrameKind, HEADER_LEN, MessageMode, ReqId};

/// Sends `count` messages with the number as tag, and finds the last of them behind the others.
fn crowd(
    config: Config,
    count: usize,
    len: usize,
    mode: MessageMode,
) -> (World, Vec<Option<ReqId>>) {
    let mut world = World::linked(config, 2);
    let sends = (0..count)
        .map(|number| world.send(0, 1, number as i32, &content(number, len), mode))
        .collect();
    world.settle();
    let within = config.window as usize / (HEADER_LEN + len);
    assert_eq!(messages_at(&world, 1), within, "the window is full");
    let last = World::pattern(Some(0), Some(count as i32 - 1));
    let (id, seg) = world.recv(1, last, len);
    world.settle();
    assert!(world.nodes[1].engine.poll(id).is_some());
    assert_eq!(world.bytes(1, seg), content(count - 1, len));
    (world, sends)
}

#[test]
fn small_messages_beyond_the_window_bring_their_bodies() {
    const COUNT: usize = 1000;
    for (len, mode) in [
        (0, MessageMode::Standard),
        (4, MessageMode::Blocking),
        (100, MessageMode::Standard),
        (192, MessageMode::Synchronous),
    ] {
        let (mut world, sends) = crowd(small(), COUNT, len, mode);
        // The newest first: each of those beyond the window is received while others wait.
        for number in (0..COUNT - 1).rev() {
            let pattern = World::pattern(Some(0), Some(number as i32));
            let (id, seg) = world.recv(1, pattern, len);
            assert!(world.nodes[1].engine.poll(id).is_some(), "{number} waits");
            assert_eq!(world.bytes(1, seg), content(number, len));
        }
        world.finish();
        let ended = |id: &Option<ReqId>| id.is_none_or(|id| world.nodes[0].engine.is_complete(id));
        assert!(sends.iter().all(ended));
        for kind in [FrameKind::Rts, FrameKind::Data] {
            assert_eq!(world.read_by(1, kind), 0, "{kind:?} at {len} bytes");
        }
    }
}

#[test]
fn messages_with_longer_bodies_ask_beyond_the_window() {
    let (mut world, _) = crowd(small(), 300, 193, MessageMode::Standard);
    assert_eq!(world.read_by(1, FrameKind::Data), 1);
    for number in 0..299 {
        let (id, seg) = world.recv(1, ANY, 193);
        world.settle();
        assert!(world.nodes[1].engine.poll(id).is_some());
        assert_eq!(world.bytes(1, seg), content(number, 193));
    }
    world.finish();
}

#[test]
fn bodies_beyond_the_window_count_against_the_cap() {
    let mut world = World::linked(small(), 2);
    for number in 0..20_000 {
        world.send(0, 1, 0, &content(number, 192), MessageMode::Standard);
    }
    let (id, _) = world.recv(1, World::pattern(Some(0), Some(7)), 0);
    world.settle();
    let within = small().window as usize / (HEADER_LEN + 192);
    let most = within + (small().beyond / GRANT_MEMORY) as usize;
    assert_eq!(messages_at(&world, 1), most);
    assert!(world.nodes[1].engine.core.beyond <= small().beyond);
    world.nodes[1].engine.cancel(id);
    for number in 0..20_000 {
        let (id, seg) = world.recv(1, ANY, 192);
        world.settle();
        assert!(world.nodes[1].engine.poll(id).is_some(), "{number}");
        assert_eq!(world.bytes(1, seg), content(number, 192));
    }
    world.finish();
    let channel = world.nodes[1].engine.peer(Rank(0)).unwrap();
    let open = channel.rx.window.open_grants() * GRANT_MEMORY;
    assert_eq!(world.nodes[1].engine.core.beyond, open);
}

#[test]
fn what_a_grant_may_cost_covers_what_it_takes() {
    let message = size_of::<crate::requests::UnexpectedMessage>() + 2 * size_of::<u64>();
    assert!(message <= ENVELOPE_MEMORY as usize);
    // The buffer of the longest body, in its size class.
    assert!(message + 256 <= GRANT_MEMORY as usize);
}

#[test]
fn a_cut_inside_a_body_beyond_the_window_is_made_good() {
    for posted in [false, true] {
        let mut world = World::linked(small(), 2);
        let count = small().window as usize / (HEADER_LEN + 90) + 3;
        for number in 0..count {
            world.send(0, 1, 0, &content(number, 90), MessageMode::Standard);
        }
        world.settle();
        let (early, seg) = world.recv(1, World::pattern(Some(0), Some(7)), 150);
        world.send(0, 1, 7, &content(77, 150), MessageMode::Standard);
        if !posted {
            world.nodes[1].engine.cancel(early);
            assert!(world.nodes[1].engine.poll(early).is_some());
            let probe = World::pattern(Some(0), Some(7));
            let mut sought = FailedProbes::default();
            sought.add(&probe);
            world.nodes[1].engine.grant_if_starved(&sought);
        } else {
            world.nodes[1]
                .engine
                .grant_if_starved(&FailedProbes::default());
        }
        while world.write(1, 0, 1 << 20) + world.read(0, 1, 1 << 20) > 0 {}
        while world.write(0, 1, 1 << 20) > 0 {}
        // Three messages of 90 bytes, and the last of 150 but for its end.
        let behind = 3 * (HEADER_LEN + 90) + HEADER_LEN + 140;
        assert_eq!(world.read(1, 0, behind), behind);
        world.cut(0, 1);
        world.connect_all();
        world.settle();
        let (id, seg) = if posted {
            (early, seg)
        } else {
            world.recv(1, World::pattern(Some(0), Some(7)), 150)
        };
        assert!(world.nodes[1].engine.poll(id).is_some());
        assert_eq!(world.bytes(1, seg), content(77, 150));
        for number in 0..count {
            let (id, seg) = world.recv(1, ANY, 90);
            world.settle();
            assert!(world.nodes[1].engine.poll(id).is_some());
            assert_eq!(world.bytes(1, seg), content(number, 90));
        }
        world.finish();
        let channel = world.nodes[1].engine.peer(Rank(0)).unwrap();
        let open = channel.rx.window.open_grants() * GRANT_MEMORY;
        assert_eq!(world.nodes[1].engine.core.beyond, open);
    }
}

#[test]
fn short_bodies_that_were_asked_for_share_writes() {
    const COUNT: usize = 800;
    let config = Config {
        eager_max: 0,
        ..small()
    };
    let mut world = World::linked(config, 2);
    world.settle();
    let before = world.writes;
    let receives: Vec<ReqId> = (0..COUNT).map(|_| world.recv(1, ANY, 100).0).collect();
    // The window takes fewer envelopes than that.
    for number in 0..COUNT {
        world.send(0, 1, 0, &content(number, 100), MessageMode::Standard);
    }
    world.finish();
    let ended = |id: &ReqId| world.nodes[1].engine.is_complete(*id);
    assert!(receives.iter().all(ended));
    for (at, kind) in [
        (1, FrameKind::Rts),
        (0, FrameKind::Cts),
        (1, FrameKind::Data),
        (0, FrameKind::Finish),
    ] {
        assert_eq!(world.read_by(at, kind), COUNT, "{kind:?}");
    }
    let writes = world.writes - before;
    assert!(writes < COUNT / 3, "{writes} writes for {COUNT} messages");
}

/// A stream of medium messages, each read and answered before the next is sent.
fn stream(world: &mut World, count: usize, len: usize) -> Vec<ReqId> {
    let receives: Vec<ReqId> = (0..count).map(|_| world.recv(1, ANY, len).0).collect();
    let send = |number| {
        let id = world.send(0, 1, 0, &content(number, len), MessageMode::Standard);
        while world.write(0, 1, 1 << 20) + world.read(1, 0, 1 << 20) > 0 {}
        // The sender is busy and reads the answers later.
        while world.write(1, 0, 1 << 20) > 0 {}
        id.expect("it is sent out of the program's memory")
    };
    let sends = (0..count).map(send).collect();
    let ended = |id: &ReqId| world.nodes[1].engine.is_complete(*id);
    assert!(receives.iter().all(ended));
    sends
}

#[test]
fn a_stream_of_medium_messages_takes_few_acks() {
    for len in [9 << 10, 16 << 10, 60 << 10] {
        let mut world = World::linked(Config::default(), 2);
        world.settle();
        let before = world.read_by(0, FrameKind::Ack);
        let sends = stream(&mut world, 64, len);
        // Waitall.
        for id in &sends {
            world.nodes[0].engine.poll(*id);
        }
        world.settle();
        for id in sends {
            assert!(world.nodes[0].engine.poll(id).is_some());
        }
        let quarters = 64 * len / (Config::default().window as usize / 4);
        let acks = world.read_by(0, FrameKind::Ack) - before;
        assert!(acks <= 4 + quarters + 1, "{acks} acks of {len} bytes");
        world.finish();
    }
}

#[test]
fn who_waits_for_an_ack_gets_it_though_the_receiver_does_nothing_more() {
    for polls in [1, 2] {
        let mut world = World::linked(Config::default(), 2);
        let sends = stream(&mut world, 9, 16 << 10);
        let last = *sends.last().unwrap();
        while world.read(0, 1, 1 << 20) > 0 {}
        assert!(!world.nodes[0].engine.is_complete(last));
        let before = world.read_by(1, FrameKind::Ack);
        for _ in 0..polls {
            assert!(world.nodes[0].engine.poll(last).is_none());
        }
        while world.write(0, 1, 1 << 20) + world.read(1, 0, 1 << 20) > 0 {}
        while world.write(1, 0, 1 << 20) + world.read(0, 1, 1 << 20) > 0 {}
        assert!(world.nodes[0].engine.poll(last).is_some());
        assert_eq!(world.read_by(1, FrameKind::Ack), before + 1, "asked once");
    }
}

#[test]
fn a_lost_request_for_an_ack_is_repeated() {
    let mut world = World::linked(Config::default(), 2);
    let sends = stream(&mut world, 9, 16 << 10);
    world.cut(0, 1);
    world.connect_all();
    // The resume acknowledged them; later messages are a stream again.
    for id in sends {
        assert!(world.nodes[0].engine.poll(id).is_some());
    }
    let (receives, seg): (Vec<ReqId>, Vec<_>) =
        (0..6).map(|_| world.recv(1, ANY, 16 << 10)).unzip();
    let sends: Vec<ReqId> = (0..6)
        .filter_map(|number| world.send(0, 1, 0, &content(number, 16 << 10), MessageMode::Standard))
        .collect();
    assert!(world.nodes[0].engine.poll(sends[5]).is_none());
    while world.write(0, 1, 1 << 20) > 0 {}
    // The last body is cut: it comes again as data, behind a new request.
    world.read(1, 0, HEADER_LEN + 6 * (HEADER_LEN + (16 << 10)) - 5);
    world.cut(0, 1);
    world.connect_all();
    assert!(world.nodes[0].engine.poll(sends[5]).is_none());
    while world.write(0, 1, 1 << 20) + world.read(1, 0, 1 << 20) > 0 {}
    while world.write(1, 0, 1 << 20) + world.read(0, 1, 1 << 20) > 0 {}
    assert!(world.nodes[0].engine.poll(sends[5]).is_some());
    assert!(world.nodes[1].engine.poll(receives[5]).is_some());
    assert_eq!(world.bytes(1, seg[5]), content(5, 16 << 10));
    world.finish();
}

#[test]
fn each_of_several_ranks_that_are_probed_for_is_granted_more() {
    for named in [2, 6] {
        let mut world = World::linked(small(), 7);
        for from in 1..7 {
            for number in 0..2 * small().window as usize / HEADER_LEN {
                world.send(from, 0, 0, &content(number, 0), MessageMode::Standard);
            }
            world.send(from, 0, 7, &content(7, 0), MessageMode::Standard);
        }
        let last = |from| World::pattern(Some(from), Some(7));
        for _ in 0..200 {
            world.settle();
            let mut sought = FailedProbes::default();
            (1..=named).for_each(|from| sought.add(&last(from)));
            world.nodes[0].engine.grant_if_starved(&sought);
        }
        for from in 1..7 {
            let found = world.nodes[0].engine.probe(&last(from)).is_some();
            assert_eq!(found, from <= named, "{named} named, rank {from}");
        }
    }
}
