use rejoin_channel_table::ids::Rank;

use super::{WaitCause, Waiting};
use crate::harness::World;
use crate::scenarios::ANY;
use crate::tests::{content, small};
use crate::{HEADER_LEN, MessageMode, ReqId};

fn told(world: &World, rank: usize, id: Option<ReqId>) -> Waiting {
    let waiting = world.nodes[rank].engine.describe(id.expect("a request"));
    waiting.expect("it is not complete")
}

fn words(world: &World, rank: usize, id: Option<ReqId>) -> String {
    told(world, rank, id).to_string()
}

#[test]
fn a_send_says_how_far_it_has_come() {
    let mut world = World::new(small(), 2);
    let medium = world.send(0, 1, 7, &content(1, 900), MessageMode::Standard);
    let long = world.send(0, 1, 8, &content(2, 9000), MessageMode::Standard);
    let sync = world.send(0, 1, 9, &content(3, 50), MessageMode::Synchronous);
    assert_eq!(
        words(&world, 0, medium),
        "send of 900 bytes to rank 1, tag 7, context 1: not sent: there is no link to it"
    );
    world.connect_all();
    world.write(0, 1, 2 * HEADER_LEN + 10);
    assert_eq!(told(&world, 0, medium).cause, WaitCause::Writing);
    assert_eq!(told(&world, 0, sync).cause, WaitCause::Writing);
    while world.write(0, 1, 1000) > 0 {}
    assert_eq!(
        words(&world, 0, medium),
        "send of 900 bytes to rank 1, tag 7, context 1: sent: it has not acknowledged the message"
    );
    assert_eq!(told(&world, 0, long).cause, WaitCause::ClearToSend);
    assert_eq!(
        words(&world, 0, sync),
        "synchronous send of 50 bytes to rank 1, tag 9, context 1: sent: no receive has taken the message"
    );
    world.settle();
    assert_eq!(world.nodes[0].engine.describe(medium.unwrap()), None);
    world.recv(1, World::pattern(Some(0), Some(8)), 9000);
    while world.write(1, 0, 1 << 20) + world.read(0, 1, 1 << 20) > 0 {}
    assert_eq!(
        told(&world, 0, long).cause,
        WaitCause::Sending { handed: 0 }
    );
    world.write(0, 1, HEADER_LEN + 5000);
    let handed = small().chunk as u64;
    assert_eq!(told(&world, 0, long).cause, WaitCause::Sending { handed });
    world.nodes[0].engine.cancel(sync.unwrap());
    while world.write(0, 1, 1 << 20) > 0 {}
    assert_eq!(told(&world, 0, sync).cause, WaitCause::CancelReply);
    world.cut(0, 1);
    assert_eq!(told(&world, 0, long).cause, WaitCause::Link);
    assert_eq!(told(&world, 0, long).linked, Some(false));
}

#[test]
fn a_full_window_is_told_and_counted() {
    let mut world = World::linked(small(), 2);
    let sends: Vec<_> = (0..400)
        .map(|number| world.send(0, 1, 0, &content(number, 90), MessageMode::Standard))
        .collect();
    world.settle();
    assert_eq!(
        words(&world, 0, sends[399]),
        "send of 90 bytes to rank 1, tag 0, context 1: not sent: it has too many messages that it \
         has not received"
    );
    let fit = (small().window as usize / (HEADER_LEN + 90)) as u64;
    let counts = world.nodes[0].engine.peer_counts(Rank(1)).unwrap();
    assert_eq!((counts.sent, counts.blocked), (fit, 400 - fit));
    assert_eq!(
        world.nodes[0].engine.waiting().count() as u64,
        counts.blocked
    );
    let (id, _) = world.recv(1, World::pattern(Some(0), Some(5)), 8);
    let counts = world.nodes[1].engine.peer_counts(Rank(0)).unwrap();
    assert_eq!((counts.received, counts.unexpected), (fit, fit));
    assert_eq!((counts.posted, counts.linked), (1, true));
    assert_eq!(
        counts.to_string(),
        "rank 0 (link up): 0 messages sent, 0 not acknowledged, 0 sends wait for the window; \
         106 messages received, 106 unexpected, 1 receives posted"
    );
    assert_eq!(told(&world, 1, Some(id)).cause, WaitCause::Message);
    assert_eq!(world.nodes[1].engine.peer_counts(Rank(1)), None);
}

#[test]
fn a_receive_says_whether_its_message_was_found() {
    let mut world = World::linked(small(), 2);
    let (any, _) = world.recv(1, ANY, 9000);
    assert_eq!(
        words(&world, 1, Some(any)),
        "receive of up to 9000 bytes from any rank, any tag, context 1: no matching message has come"
    );
    world.send(0, 1, 3, &content(1, 9000), MessageMode::Standard);
    while world.write(0, 1, 1 << 20) + world.read(1, 0, 1 << 20) > 0 {}
    while world.write(1, 0, 1 << 20) + world.read(0, 1, 1 << 20) > 0 {}
    assert_eq!(
        words(&world, 1, Some(any)),
        "receive of up to 9000 bytes from rank 0, tag 3, context 1: 0 of 9000 bytes have come"
    );
    while world.write(0, 1, 5000) > 0 {}
    world.read(1, 0, small().chunk + 2 * HEADER_LEN + 10);
    let received = small().chunk as u64;
    let cause = WaitCause::Receiving { received, of: 9000 };
    assert_eq!(told(&world, 1, Some(any)).cause, cause);
    world.cut(0, 1);
    assert_eq!(
        words(&world, 1, Some(any)),
        "receive of up to 9000 bytes from rank 0, tag 3, context 1: 0 of 9000 bytes have come \
         (there is no link to it now)"
    );
    world.connect_all();
    world.settle();
    assert_eq!(world.nodes[1].engine.describe(any), None);
    // Taken out of the unexpected ones while the body comes, without a pattern of its own.
    world.send(0, 1, 4, &content(2, 900), MessageMode::Standard);
    world.write(0, 1, 1 << 20);
    world.read(1, 0, HEADER_LEN + 100);
    let (id, _) = world.nodes[1].engine.mprobe(&ANY).unwrap();
    let seg = world.segment(1, &[0; 1000]);
    let taken = world.nodes[1].engine.mrecv(id, seg).unwrap();
    assert_eq!(
        words(&world, 1, Some(taken)),
        "receive of up to 1000 bytes from rank 0, tag 4, context 1: 0 of 900 bytes have come"
    );
}

#[test]
fn a_message_to_oneself_waits_for_a_receive() {
    let mut world = World::linked(small(), 1);
    let own = world.send(0, 0, 2, &content(1, 9000), MessageMode::Standard);
    let waiting = told(&world, 0, own);
    assert_eq!((waiting.cause, waiting.linked), (WaitCause::Match, None));
    world.recv(0, ANY, 9000);
    assert_eq!(world.nodes[0].engine.describe(own.unwrap()), None);
}
