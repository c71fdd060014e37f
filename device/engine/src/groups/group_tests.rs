//! Single situations between recovery groups that the model of two ranks is too small for.

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};

use crate::harness::{Node, World};
use crate::omission::Omission;
use crate::tests::content;
use crate::{Config, FrameKind, HEADER_LEN, Header, LogCopy, MessageMode};
use std::panic::{AssertUnwindSafe, catch_unwind};

const FIRST: usize = 0;
const SECOND: usize = 1;

/// Two ranks, each a group of its own, with the smallest window.
pub(crate) fn two_groups() -> World {
    let config = Config {
        eager_copy: 100,
        eager_max: 6_000,
        window: 0,
        chunk: 0,
        beyond: 0,
    };
    let mut world = World::new(config.consistent(), 2);
    for node in &mut world.nodes {
        node.engine.set_groups(&[0, 1]);
    }
    world.connect_all();
    world
}

/// A rank comes back from this image, and the other one learns of it.
fn comes_back(world: &mut World, rank: usize, image: Node) {
    let other = 1 - rank;
    world.cut(rank, other);
    world.nodes[rank] = image;
    world.nodes[rank].engine.returned();
    world.nodes[other].engine.peer_returned(Rank(rank as u32));
    let resumes = world.shake(FIRST, SECOND);
    world.link(FIRST, SECOND, &resumes);
}

/// Copies what the logs need; returns how many bytes.
pub(crate) fn log(world: &mut World) -> usize {
    let mut copied = 0;
    for Node { engine, memory } in &mut world.nodes {
        while let Some(copy) = engine.next_log_copy() {
            copied += carry_out(copy, memory);
        }
    }
    copied
}

/// Copies at most so many bytes of a body that may be under way; returns how many.
pub(crate) fn log_early(world: &mut World, most: usize) -> usize {
    let Node { engine, memory } = &mut world.nodes[FIRST];
    let copy = engine.next_early_copy(most);
    copy.map_or(0, |copy| carry_out(copy, memory))
}

fn carry_out(copy: LogCopy<'_>, memory: &[u8]) -> usize {
    let from = copy.from.addr..copy.from.addr + copy.from.len;
    copy.into.copy_from_slice(&memory[from]);
    copy.into.len()
}

/// Runs a situation that a part of the engine makes good, and shows that it needs this part.
fn needs(part: Omission, situation: fn(&mut World)) {
    situation(&mut two_groups());
    let mut world = two_groups();
    for node in &mut world.nodes {
        node.engine.omit(part);
    }
    let without = AssertUnwindSafe(|| situation(&mut world));
    assert!(catch_unwind(without).is_err(), "good without {part:?}");
}

#[test]
fn a_receiver_of_the_past_gets_no_more_than_its_window_takes() {
    needs(Omission::PacedResend, |world| {
        let image = world.nodes[SECOND].clone();
        // Three of these fit into the window.
        for number in 0..4 {
            let body = content(number, 5_000);
            world.send(FIRST, SECOND, 0, &body, MessageMode::Standard);
            world.recv(SECOND, World::pattern(Some(FIRST), Some(0)), 5_000);
            world.settle();
            log(world);
        }
        // What they were sent from is the program's again.
        world.nodes[FIRST].memory.fill(0xdd);
        comes_back(world, SECOND, image);
        world.settle();
        for number in 0..4 {
            let pattern = World::pattern(Some(FIRST), Some(0));
            let (id, seg) = world.recv(SECOND, pattern, 5_000);
            world.settle();
            assert!(world.nodes[SECOND].engine.poll(id).is_some(), "{number}");
            assert_eq!(world.bytes(SECOND, seg), content(number, 5_000), "{number}");
        }
    });
}

#[test]
fn a_group_takes_its_image_alone() {
    needs(Omission::NoEpoch, |world| {
        let exchange = |world: &mut World, from: usize, to: usize| {
            let body = content(from, 8);
            world.send(from, to, 0, &body, MessageMode::Standard);
            let (id, seg) = world.recv(to, World::pattern(Some(from), Some(0)), 8);
            world.settle();
            assert!(world.nodes[to].engine.poll(id).is_some());
            assert_eq!(world.bytes(to, seg), body);
        };
        exchange(world, FIRST, SECOND);
        world.nodes[FIRST].engine.set_epoch(Epoch(1));
        exchange(world, FIRST, SECOND);
        exchange(world, SECOND, FIRST);
        // The same on another link.
        world.cut(FIRST, SECOND);
        let resumes = world.shake(FIRST, SECOND);
        world.link(FIRST, SECOND, &resumes);
        exchange(world, FIRST, SECOND);
    });
}

#[test]
fn an_ack_of_what_is_not_sent_yet_counts_when_it_is_sent() {
    let mut world = two_groups();
    let receive = |world: &mut World| {
        world.recv(SECOND, World::pattern(Some(FIRST), Some(0)), 8);
        world.settle();
        world.nodes[SECOND].engine.flush_all_acks();
        world.settle();
    };
    world.send(FIRST, SECOND, 0, &content(0, 8), MessageMode::Standard);
    receive(&mut world);
    let image = world.nodes[FIRST].clone();
    world.send(FIRST, SECOND, 0, &content(1, 8), MessageMode::Standard);
    receive(&mut world);
    // All that the first one has sent is in a committed image: nothing is retained.
    world.nodes[SECOND].engine.set_epoch(Epoch(1));
    world.nodes[SECOND].engine.image_committed(Epoch(1));
    world.settle();
    comes_back(&mut world, FIRST, image);
    // Its own first frame is still to be written when a message acknowledges both.
    world.send(SECOND, FIRST, 0, &content(2, 8), MessageMode::Standard);
    world.write(SECOND, FIRST, usize::MAX);
    world.read(FIRST, SECOND, usize::MAX);
    world.send(FIRST, SECOND, 0, &content(1, 8), MessageMode::Standard);
    world.settle();
    let counts = world.nodes[FIRST]
        .engine
        .peer_counts(Rank(1))
        .expect("a peer");
    assert_eq!((counts.sent, counts.unacknowledged), (2, 0));
    let received = world.nodes[SECOND]
        .engine
        .peer_counts(Rank(0))
        .expect("a peer");
    assert_eq!(
        received.received, 2,
        "the second message was not sent twice"
    );
}

#[test]
fn an_earlier_ack_takes_none_back_that_counts_when_more_is_sent() {
    let mut world = two_groups();
    let receive = |world: &mut World, number| {
        world.send(FIRST, SECOND, 0, &content(number, 8), MessageMode::Standard);
        world.recv(SECOND, World::pattern(Some(FIRST), Some(0)), 8);
        world.settle();
        world.nodes[SECOND].engine.flush_all_acks();
        world.settle();
    };
    receive(&mut world, 0);
    let image = world.nodes[FIRST].clone();
    receive(&mut world, 1);
    receive(&mut world, 2);
    comes_back(&mut world, FIRST, image);
    // All three are acknowledged, and then two of them.
    world.send(SECOND, FIRST, 0, &content(3, 8), MessageMode::Standard);
    world.write(SECOND, FIRST, usize::MAX);
    let bytes = world.whole(SECOND, FIRST);
    let header = Header::decode(bytes[..HEADER_LEN].try_into().expect("a header"));
    let header = header.expect("a frame");
    assert_eq!(header.ack, Ssn(3));
    world.read(FIRST, SECOND, usize::MAX);
    let earlier = Header {
        kind: FrameKind::Ack,
        ssn: Ssn(0),
        length: 0,
        ack: Ssn(2),
        aux: 0,
        ..header
    };
    world.put(SECOND, FIRST, &earlier.encode());
    world.read(FIRST, SECOND, usize::MAX);
    for number in [1, 2] {
        let body = content(number, 8);
        world.send(FIRST, SECOND, 0, &body, MessageMode::Standard);
    }
    let counts = world.nodes[FIRST].engine.peer_counts(Rank(1));
    let counts = counts.expect("a peer");
    assert_eq!((counts.sent, counts.unacknowledged), (3, 0));
}

#[test]
fn a_look_at_the_log_tells_since_when_its_messages_wait_for_a_commit() {
    let mut world = two_groups();
    let look = |world: &mut World, now| {
        let look = world.nodes[FIRST].engine.look_at_log(|| now);
        (look.usage.figures.retained_bytes > 0, look.waits_since)
    };
    let message = |world: &mut World, number| {
        world.send(FIRST, SECOND, 0, &content(number, 8), MessageMode::Standard);
        world.recv(SECOND, World::pattern(Some(FIRST), Some(0)), 8);
        world.settle();
    };
    assert_eq!(look(&mut world, 1), (false, None));
    message(&mut world, 0);
    assert_eq!(look(&mut world, 2), (true, Some(2)));
    world.nodes[SECOND].engine.set_epoch(Epoch(1));
    message(&mut world, 1);
    assert_eq!(look(&mut world, 3), (true, Some(2)), "nothing was released");
    world.nodes[SECOND].engine.image_committed(Epoch(1));
    world.settle();
    assert_eq!(
        look(&mut world, 4),
        (true, Some(4)),
        "the second one is left"
    );
    world.nodes[SECOND].engine.set_epoch(Epoch(2));
    world.nodes[SECOND].engine.image_committed(Epoch(2));
    world.settle();
    assert_eq!(look(&mut world, 5), (false, None));
}

#[test]
fn a_full_log_holds_messages_to_other_groups_until_it_has_room() {
    let mut world = two_groups();
    world.send(FIRST, SECOND, 0, &content(0, 8), MessageMode::Standard);
    world.settle();
    let retained = world.nodes[FIRST].engine.logged_bytes();
    assert!(retained >= 8);
    world.nodes[FIRST].engine.hold_sends(true);
    let held = world.send(FIRST, SECOND, 0, &content(1, 8), MessageMode::Standard);
    world.settle();
    let id = held.expect("it is not complete");
    assert!(!world.nodes[FIRST].engine.is_complete(id));
    assert_eq!(world.nodes[FIRST].engine.logged_bytes(), retained);
    world.nodes[FIRST].engine.hold_sends(false);
    world.settle();
    assert!(world.nodes[FIRST].engine.is_complete(id));
    let received = world.nodes[SECOND]
        .engine
        .peer_counts(Rank(0))
        .expect("a peer");
    assert_eq!(received.received, 2);
}

#[test]
fn a_body_is_logged_in_parts_while_its_receiver_takes_it() {
    let mut world = two_groups();
    let memory = vec![0; 1 << 16].leak();
    world.nodes[FIRST].engine.set_log_memory(memory, usize::MAX);
    let image = world.nodes[SECOND].clone();
    let body = content(1, 20_000);
    let sent = world.send(FIRST, SECOND, 0, &body, MessageMode::Standard);
    let id = sent.expect("it is not complete");
    assert_eq!(
        [7_000; 2].map(|most| log_early(&mut world, most)),
        [7_000; 2]
    );
    world.recv(SECOND, World::pattern(Some(FIRST), Some(0)), 20_000);
    world.settle();
    assert!(
        !world.nodes[FIRST].engine.is_complete(id),
        "a part is not logged"
    );
    log(&mut world);
    assert!(world.nodes[FIRST].engine.is_complete(id));
    assert_eq!(log_early(&mut world, usize::MAX), 0);
    sent_again(&mut world, image, &body);
}

#[test]
fn a_send_is_complete_when_its_body_is_written_and_logged() {
    let mut world = two_groups();
    let image = world.nodes[SECOND].clone();
    let body = content(2, 5_000);
    let sent = world.send(FIRST, SECOND, 0, &body, MessageMode::Standard);
    let id = sent.expect("it is not complete");
    assert_eq!(log_early(&mut world, 4_999), 4_999);
    world.write(FIRST, SECOND, usize::MAX);
    assert!(!world.nodes[FIRST].engine.is_complete(id));
    assert_eq!(log_early(&mut world, 4_999), 1);
    assert!(world.nodes[FIRST].engine.is_complete(id));
    world.nodes[FIRST].memory.fill(0xdd);
    let (_, seg) = world.recv(SECOND, World::pattern(Some(FIRST), Some(0)), 5_000);
    world.settle();
    assert_eq!(world.bytes(SECOND, seg), body);
    sent_again(&mut world, image, &body);
}

#[test]
fn a_send_is_not_complete_while_its_body_is_to_be_written() {
    let mut world = two_groups();
    let image = world.nodes[SECOND].clone();
    let body = content(3, 5_000);
    let sent = world.send(FIRST, SECOND, 0, &body, MessageMode::Standard);
    let id = sent.expect("it is not complete");
    assert_eq!(log_early(&mut world, 4_999), 4_999);
    assert_eq!(
        log_early(&mut world, 4_999),
        0,
        "the rest waits for the write"
    );
    assert!(!world.nodes[FIRST].engine.is_complete(id));
    let (_, seg) = world.recv(SECOND, World::pattern(Some(FIRST), Some(0)), 5_000);
    world.settle();
    world.nodes[SECOND].engine.flush_all_acks();
    world.settle();
    assert_eq!(log(&mut world), 1);
    assert!(world.nodes[FIRST].engine.is_complete(id));
    assert_eq!(world.bytes(SECOND, seg), body);
    sent_again(&mut world, image, &body);
}

/// The receiver comes back without the message, and gets the same one.
fn sent_again(world: &mut World, image: Node, body: &[u8]) {
    world.nodes[FIRST].memory.fill(0xdd);
    comes_back(world, SECOND, image);
    let pattern = World::pattern(Some(FIRST), Some(0));
    let (id, seg) = world.recv(SECOND, pattern, body.len());
    world.settle();
    assert!(world.nodes[SECOND].engine.poll(id).is_some());
    assert_eq!(world.bytes(SECOND, seg), body);
}
