//! Bodies that are read out of their senders' memory.

use rejoin_channel_table::ids::Rank;

use crate::harness::World;
use crate::{Config, FrameKind, GetLengths, Gets, MIN_GET, MessageMode, RemoteGet, ReqId};

/// Two ranks, linked; no segment of rank 0 begins at address 0.
fn world() -> World {
    let mut world = World::linked(Config::default(), 2);
    world.segment(0, &[0; 8]);
    reach(&mut world, true);
    world
}

fn reach(world: &mut World, can: bool) {
    let lengths = can.then_some(Gets::all_from(MIN_GET));
    let sender = &mut world.nodes[0].engine;
    sender.set_remote_access(Rank(1), false, lengths);
    world.nodes[1].engine.set_remote_access(Rank(0), can, None);
}

/// The next body that rank 1 must read.
fn next(world: &mut World) -> Option<RemoteGet> {
    world.nodes[1].engine.next_get()
}

fn carry_out(world: &mut World, get: &RemoteGet) {
    let from = usize::try_from(get.from).unwrap();
    let bytes = world.nodes[0].memory[from..from + get.to.len].to_vec();
    world.nodes[1].memory[get.to.addr..get.to.addr + get.to.len].copy_from_slice(&bytes);
    world.nodes[1].engine.get_done(get, true);
}

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 253) as u8).collect()
}

fn send(world: &mut World, content: &[u8], mode: MessageMode) -> ReqId {
    world.send(0, 1, 3, content, mode).expect("not small")
}

#[test]
fn a_body_that_is_read_is_not_sent() {
    for (posted, mode) in [
        (true, MessageMode::Standard),
        (false, MessageMode::Synchronous),
    ] {
        let mut world = world();
        let content = body(MIN_GET);
        let pattern = World::pattern(Some(0), Some(3));
        let early = posted.then(|| world.recv(1, pattern, MIN_GET));
        let sent = send(&mut world, &content, mode);
        world.settle();
        assert!(!world.nodes[0].engine.is_complete(sent));
        let (received, seg) = early.unwrap_or_else(|| world.recv(1, pattern, MIN_GET));
        let get = next(&mut world).expect("a body to be read");
        assert_eq!(get.to, seg);
        carry_out(&mut world, &get);
        assert_eq!(next(&mut world), None);
        assert!(world.nodes[1].engine.poll(received).is_some());
        assert!(world.bytes(1, seg) == content);
        world.finish();
        assert!(world.nodes[0].engine.poll(sent).is_some());
        let read = [FrameKind::Cts, FrameKind::Finish].map(|kind| world.read_by(0, kind));
        assert_eq!((read, world.read_by(1, FrameKind::Data)), ([0, 1], 0));
    }
}

#[test]
fn shorter_ones_are_sent_and_shorter_buffers_filled() {
    let mut world = world();
    let pattern = World::pattern(Some(0), Some(3));
    let (received, _) = world.recv(1, pattern, MIN_GET);
    send(&mut world, &body(MIN_GET - 1), MessageMode::Standard);
    world.settle();
    assert_eq!(next(&mut world), None);
    assert!(world.nodes[1].engine.poll(received).is_some());

    let (received, seg) = world.recv(1, pattern, 100);
    send(&mut world, &body(MIN_GET), MessageMode::Standard);
    world.settle();
    let get = next(&mut world).expect("a body to be read");
    assert_eq!(get.to.len, 100);
    carry_out(&mut world, &get);
    let got = world.nodes[1].engine.poll(received).expect("complete");
    assert_eq!((got.len, got.truncated), (100, Some(MIN_GET as u64)));
    assert!(world.bytes(1, seg) == body(100));
    world.finish();
}

#[test]
fn bodies_behind_others_are_read_from_another_length_on() {
    let mut world = world();
    let lengths = Gets {
        single: GetLengths::of_classes(0b1110),
        stream: GetLengths::of_classes(0b0001),
    };
    let sender = &mut world.nodes[0].engine;
    sender.set_remote_access(Rank(1), false, Some(lengths));
    let content = body(MIN_GET);
    let pattern = World::pattern(Some(0), Some(3));
    for _ in 0..2 {
        // The receiver has answered to nothing when the second one is sent.
        let [first, second] = [(); 2].map(|()| send(&mut world, &content, MessageMode::Standard));
        world.settle();
        let received = [(); 2].map(|()| world.recv(1, pattern, MIN_GET));
        let get = next(&mut world).expect("a body to be read");
        assert_eq!(get.to, received[1].1);
        carry_out(&mut world, &get);
        assert_eq!(next(&mut world), None);
        world.settle();
        for (request, seg) in received {
            assert!(world.nodes[1].engine.poll(request).is_some());
            assert!(world.bytes(1, seg) == content);
        }
        for request in [first, second] {
            assert!(world.nodes[0].engine.poll(request).is_some());
        }
    }
    // A blocking send may end before its receive, so its body is not offered.
    send(&mut world, &content, MessageMode::Standard);
    send(&mut world, &content, MessageMode::Blocking);
    world.settle();
    for _ in 0..2 {
        world.recv(1, pattern, MIN_GET);
        assert_eq!(next(&mut world), None);
    }
    world.finish();
}

#[test]
fn a_body_that_cannot_be_read_is_sent_and_all_later_ones() {
    let mut world = world();
    let content = body(MIN_GET + 5);
    let pattern = World::pattern(Some(0), Some(3));
    for round in 0..2 {
        let (received, seg) = world.recv(1, pattern, content.len());
        let sent = send(&mut world, &content, MessageMode::Standard);
        world.settle();
        let get = next(&mut world);
        assert_eq!(get.is_some(), round == 0);
        if let Some(get) = get {
            world.nodes[1].engine.get_done(&get, false);
        }
        world.settle();
        assert!(world.nodes[1].engine.poll(received).is_some());
        assert!(world.bytes(1, seg) == content);
        world.finish();
        assert!(world.nodes[0].engine.poll(sent).is_some());
    }
    assert_eq!(world.read_by(0, FrameKind::Cts), 2);
}

#[test]
fn bodies_that_wait_behind_one_that_cannot_be_read_are_sent() {
    let mut world = world();
    let contents = [1, 2, 3].map(|more| body(MIN_GET + more));
    let pattern = World::pattern(Some(0), Some(3));
    let posted = contents
        .each_ref()
        .map(|content| world.recv(1, pattern, content.len()));
    for content in &contents {
        send(&mut world, content, MessageMode::Standard);
    }
    world.settle();
    let first = next(&mut world).expect("a body to be read");
    world.nodes[1].engine.get_done(&first, false);
    assert_eq!(next(&mut world), None);
    world.settle();
    for ((received, seg), content) in posted.into_iter().zip(&contents) {
        assert!(world.nodes[1].engine.poll(received).is_some());
        assert!(world.bytes(1, seg) == *content);
    }
    world.finish();
}

#[test]
fn what_was_to_be_read_over_a_lost_link_is_not_read_over_the_next() {
    let mut world = world();
    let content = body(MIN_GET);
    let pattern = World::pattern(Some(0), Some(3));
    let (_, seg) = world.recv(1, pattern, MIN_GET);
    let sent = send(&mut world, &content, MessageMode::Standard);
    world.settle();
    world.cut(0, 1);
    world.connect_all();
    reach(&mut world, true);
    assert_eq!(next(&mut world), None);
    world.finish();
    assert!(world.nodes[0].engine.poll(sent).is_some());
    assert!(world.bytes(1, seg) == content);
}

#[test]
fn a_body_may_be_read_before_its_sender_knows_of_the_new_link() {
    let mut world = world();
    let content = body(MIN_GET);
    let pattern = World::pattern(Some(0), Some(3));
    let sent = send(&mut world, &content, MessageMode::Standard);
    world.cut(0, 1);
    world.connect_all();
    world.nodes[1].engine.set_remote_access(Rank(0), true, None);
    world.settle();
    let (_, seg) = world.recv(1, pattern, MIN_GET);
    let get = next(&mut world).expect("a body to be read");
    carry_out(&mut world, &get);
    world.finish();
    assert!(world.nodes[0].engine.poll(sent).is_some());
    assert!(world.bytes(1, seg) == content);
}

#[test]
fn a_lost_link_leaves_nothing_open() {
    // Before the body is read; and after, before its sender knows.
    for read in [false, true] {
        let mut world = world();
        let content = body(MIN_GET);
        let pattern = World::pattern(Some(0), Some(3));
        let (received, seg) = world.recv(1, pattern, MIN_GET);
        let sent = send(&mut world, &content, MessageMode::Standard);
        world.settle();
        if read {
            let get = next(&mut world).expect("a body to be read");
            carry_out(&mut world, &get);
        }
        world.cut(0, 1);
        assert_eq!(next(&mut world), None);
        world.finish();
        assert!(world.nodes[1].engine.poll(received).is_some());
        assert!(world.nodes[0].engine.poll(sent).is_some());
        assert!(world.bytes(1, seg) == content);
        assert_eq!(world.read_by(1, FrameKind::Data), usize::from(!read));
    }
}

#[test]
fn nobody_reads_over_a_new_link_before_it_is_known_who_can() {
    let mut world = world();
    world.cut(0, 1);
    world.connect_all();
    let content = body(MIN_GET);
    let (received, seg) = world.recv(1, World::pattern(Some(0), Some(3)), MIN_GET);
    let sent = send(&mut world, &content, MessageMode::Standard);
    world.settle();
    assert_eq!(next(&mut world), None);
    assert!(world.nodes[1].engine.poll(received).is_some());
    assert!(world.bytes(1, seg) == content);
    world.finish();
    assert!(world.nodes[0].engine.poll(sent).is_some());
}
