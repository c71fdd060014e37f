//! Messages that the receiver logs, and from which it comes back.

use rejoin_channel_table::ids::{Epoch, Incarnation, Rank};
use rejoin_logging::receive_log::LoggedReceive;

use crate::groups::group_tests::{log, log_early, two_groups};
use crate::harness::{Node, World};
use crate::tests::content;
use crate::{MessageMode, ReceivedBody};

const FIRST: usize = 0;
const SECOND: usize = 1;
const PEER: Rank = Rank(0);

/// Two ranks, of which the second one logs what it receives. It has an image without messages,
/// which is committed.
fn with_log() -> World {
    let mut world = two_groups();
    world.nodes[SECOND].engine.begin_receive_log();
    commit(&mut world, 1);
    world
}

fn commit(world: &mut World, epoch: u32) {
    world.nodes[SECOND].engine.set_epoch(Epoch(epoch));
    world.nodes[SECOND].engine.image_committed(Epoch(epoch));
    world.settle();
}

/// Moves all bytes; then the second rank logs what has come, and says so.
fn settle(world: &mut World) -> Vec<LoggedReceive> {
    world.settle();
    log(world);
    let Node { engine, memory } = &mut world.nodes[SECOND];
    let mut all = Vec::new();
    engine.log_received(|received| {
        assert_eq!((received.peer, received.interval), (PEER, 0));
        let body = match received.body {
            ReceivedBody::Memory(seg) => memory[seg.addr..seg.addr + seg.len].to_vec(),
            ReceivedBody::Bytes(bytes) => bytes.to_vec(),
        };
        all.push(LoggedReceive {
            head: received.head(Incarnation(0)),
            body,
            end: 0,
        });
        true
    });
    engine.flush_all_acks();
    world.settle();
    all
}

/// Messages that the first rank retains.
fn retained(world: &World) -> u64 {
    let counts = world.nodes[FIRST].engine.peer_counts(Rank(1));
    counts.expect("a peer").retained
}

/// The second rank comes back from this image, and takes what it has logged since.
fn comes_back(world: &mut World, image: &Node, logged: &[LoggedReceive]) {
    world.cut(FIRST, SECOND);
    world.nodes[SECOND] = image.clone();
    let engine = &mut world.nodes[SECOND].engine;
    engine.link_down(PEER);
    for message in logged {
        assert!(engine.restore_received(message), "{message:?}");
        engine.received_logged(PEER, message.head.ssn, message.body.len());
    }
    world.copies(SECOND);
    world.nodes[SECOND].engine.returned();
    world.nodes[FIRST].engine.peer_returned(Rank(1));
    let resumes = world.shake(FIRST, SECOND);
    world.link(FIRST, SECOND, &resumes);
}

fn receives(world: &mut World, tag: i32, body: &[u8]) {
    let pattern = World::pattern(Some(FIRST), Some(tag));
    let (id, seg) = world.recv(SECOND, pattern, body.len());
    settle(world);
    assert!(world.nodes[SECOND].engine.poll(id).is_some(), "tag {tag}");
    assert_eq!(world.bytes(SECOND, seg), body, "tag {tag}");
}

#[test]
fn a_sender_need_not_retain_what_the_receiver_logs() {
    let mut world = with_log();
    let image = world.nodes[SECOND].clone();
    let mut logged = Vec::new();
    // Short, medium, and by rendezvous; before and after their receives.
    let lengths = [0, 8, 5_000, 20_000, 8, 20_000, 5_000];
    for (number, len) in lengths.into_iter().enumerate() {
        let body = content(number, len);
        let early = number % 2 == 0;
        if early {
            world.recv(SECOND, World::pattern(Some(FIRST), None), len);
        }
        world.send(FIRST, SECOND, number as i32, &body, MessageMode::Standard);
        logged.extend(settle(&mut world));
        if !early {
            world.recv(SECOND, World::pattern(Some(FIRST), None), len);
            logged.extend(settle(&mut world));
        }
    }
    let ssns: Vec<_> = logged.iter().map(|message| message.head.ssn.0).collect();
    assert_eq!(ssns, [0, 1, 2, 3, 4, 5, 6]);
    world.nodes[SECOND].engine.flush_all_acks();
    // The window counts what was logged since the last ack.
    world.send(FIRST, SECOND, 7, &content(7, 5_000), MessageMode::Standard);
    logged.extend(settle(&mut world));
    assert!(retained(&world) <= 1, "{}", retained(&world));
    world.nodes[FIRST].memory.fill(0xdd);
    for _ in 0..2 {
        comes_back(&mut world, &image, &logged);
        for (number, len) in lengths.into_iter().chain([5_000]).enumerate() {
            receives(&mut world, number as i32, &content(number, len));
        }
    }
    let counts = world.nodes[SECOND]
        .engine
        .peer_counts(PEER)
        .expect("a peer");
    assert_eq!(counts.received, 8, "none came twice");
    world.send(FIRST, SECOND, 8, &content(8, 9), MessageMode::Standard);
    receives(&mut world, 8, &content(8, 9));
}

/// Sends a message of this length from memory, and moves all bytes; `logs`: the receiver has room
/// for it. Returns whether the sender was to copy its body.
fn copies_body(world: &mut World, len: usize, logs: bool) -> bool {
    world.recv(SECOND, World::pattern(Some(FIRST), None), len);
    let sent = world.send(FIRST, SECOND, 1, &content(1, len), MessageMode::Standard);
    let id = sent.expect("it waits for its receiver");
    world.write(FIRST, SECOND, usize::MAX);
    let early = log_early(world, usize::MAX) > 0;
    let (mut due, mut done) = (false, false);
    // As a device does: what has come is logged before anything is written.
    for _ in 0..10 {
        world.read(SECOND, FIRST, usize::MAX);
        world.nodes[SECOND].engine.log_received(|_| logs);
        world.nodes[SECOND].engine.flush_all_acks();
        world.write(SECOND, FIRST, usize::MAX);
        world.read(FIRST, SECOND, usize::MAX);
        due |= log(world) > 0;
        done |= world.nodes[FIRST].engine.poll(id).is_some();
        world.write(FIRST, SECOND, usize::MAX);
    }
    assert!(done);
    early || due
}

/// By rendezvous, and eagerly.
#[test]
fn a_sender_copies_no_body_for_a_receiver_that_logs_it() {
    for len in [20_000, 5_000] {
        let mut world = with_log();
        let copies = |world: &mut World, logs| copies_body(world, len, logs);
        assert!(copies(&mut world, true), "it does not know that yet");
        for _ in 0..3 {
            assert!(!copies(&mut world, true), "{len}");
            assert_eq!(retained(&world), 0, "{len}");
        }
        // There is no room any more: what is behind the gap counts no more, either.
        for logs in [false, true, true] {
            assert!(copies(&mut world, logs), "{len}");
        }
        assert_eq!(retained(&world), 3);
        commit(&mut world, 2);
        world.nodes[SECOND].engine.flush_all_acks();
        world.settle();
        assert_eq!(retained(&world), 0);
        copies(&mut world, true);
        assert!(!copies(&mut world, true), "{len}");
    }
}

/// The log had no room, and has some when the receiver comes back and gets the body again.
#[test]
fn what_is_logged_after_a_return_is_retained_no_more() {
    let mut world = with_log();
    let image = world.nodes[SECOND].clone();
    assert!(copies_body(&mut world, 20_000, false));
    assert_eq!(retained(&world), 1);
    comes_back(&mut world, &image, &[]);
    world.recv(SECOND, World::pattern(Some(FIRST), None), 20_000);
    for _ in 0..10 {
        world.write(FIRST, SECOND, usize::MAX);
        world.read(SECOND, FIRST, usize::MAX);
        world.nodes[SECOND].engine.log_received(|_| true);
        world.write(SECOND, FIRST, usize::MAX);
        world.read(FIRST, SECOND, usize::MAX);
    }
    assert_eq!(retained(&world), 0, "the Finish frame says so");
}

#[test]
fn a_receive_that_the_image_has_posted_gets_its_message_from_the_log() {
    let mut world = with_log();
    let (id, seg) = world.recv(SECOND, World::pattern(Some(FIRST), Some(3)), 600);
    commit(&mut world, 2);
    let image = world.nodes[SECOND].clone();
    world.send(FIRST, SECOND, 3, &content(3, 500), MessageMode::Synchronous);
    let logged = settle(&mut world);
    assert_eq!((logged.len(), logged[0].head.synchronous), (1, true));
    comes_back(&mut world, &image, &logged);
    world.settle();
    let done = world.nodes[SECOND].engine.poll(id).expect("it is complete");
    assert_eq!(done.len, 500);
    assert_eq!(world.bytes(SECOND, seg)[..500], content(3, 500));
}

#[test]
fn a_synchronous_send_ends_when_the_restored_message_is_matched() {
    let mut world = with_log();
    let image = world.nodes[SECOND].clone();
    let body = content(1, 50);
    let sent = world.send(FIRST, SECOND, 1, &body, MessageMode::Synchronous);
    let id = sent.expect("it waits");
    let logged = settle(&mut world);
    assert!(logged[0].head.synchronous);
    comes_back(&mut world, &image, &logged);
    world.settle();
    assert!(!world.nodes[FIRST].engine.is_complete(id));
    receives(&mut world, 1, &body);
    assert!(world.nodes[FIRST].engine.is_complete(id));
}

#[test]
fn a_message_that_was_too_long_is_not_logged_and_stays_with_its_sender() {
    let mut world = with_log();
    let image = world.nodes[SECOND].clone();
    for (number, len) in [(0, 900), (1, 20_000), (2, 5_000)] {
        world.recv(SECOND, World::pattern(Some(FIRST), None), 899);
        world.send(
            FIRST,
            SECOND,
            number,
            &content(0, len),
            MessageMode::Standard,
        );
        assert_eq!(settle(&mut world), []);
    }
    receives_again(&mut world, &image, &[900, 20_000, 5_000]);
}

/// All messages are still with their sender.
fn receives_again(world: &mut World, image: &Node, lengths: &[usize]) {
    world.send(FIRST, SECOND, 9, &content(9, 9), MessageMode::Standard);
    let last = settle(world);
    assert_eq!(retained(world), lengths.len() as u64 + 1);
    world.cut(FIRST, SECOND);
    world.nodes[SECOND] = image.clone();
    let engine = &mut world.nodes[SECOND].engine;
    let taken = engine.restore_received(&last[0]);
    assert!(!taken, "earlier ones are not there");
    comes_back(world, image, &[]);
    for (number, len) in lengths.iter().enumerate() {
        receives(world, number as i32, &content(0, *len));
    }
    receives(world, 9, &content(9, 9));
}

/// The image has the envelopes of three messages, of which one is matched.
#[test]
fn the_log_has_the_bodies_of_messages_whose_envelopes_are_in_the_image() {
    let mut world = with_log();
    let bodies = [20_000, 20_001, 5_000].map(|len| content(len, len));
    for (tag, body) in bodies.iter().enumerate() {
        world.send(FIRST, SECOND, tag as i32, body, MessageMode::Standard);
    }
    // All envelopes arrive, and of the last body a part.
    world.write(FIRST, SECOND, usize::MAX);
    world.read(SECOND, FIRST, 3 * 64 + 100);
    let (matched, seg) = world.recv(SECOND, World::pattern(Some(FIRST), Some(1)), 20_001);
    world.nodes[SECOND].engine.set_epoch(Epoch(2));
    world.nodes[SECOND].engine.image_committed(Epoch(2));
    let image = world.nodes[SECOND].clone();
    let mut logged = settle(&mut world);
    let (_, first) = world.recv(SECOND, World::pattern(Some(FIRST), Some(0)), 20_000);
    logged.extend(settle(&mut world));
    assert_eq!(world.bytes(SECOND, first), bodies[0]);
    assert_eq!((logged.len(), retained(&world)), (3, 0));
    logged.sort_by_key(|message| message.head.ssn);
    world.nodes[FIRST].memory.fill(0xdd);
    for _ in 0..2 {
        comes_back(&mut world, &image, &logged);
        settle(&mut world);
        assert!(world.nodes[SECOND].engine.poll(matched).is_some());
        assert_eq!(world.bytes(SECOND, seg), bodies[1]);
        receives(&mut world, 0, &bodies[0]);
        receives(&mut world, 2, &bodies[2]);
    }
    // The windows fit together.
    for _ in 0..9 {
        world.send(FIRST, SECOND, 3, &bodies[2], MessageMode::Standard);
        receives(&mut world, 3, &bodies[2]);
    }
    assert!(retained(&world) <= 1);
}
