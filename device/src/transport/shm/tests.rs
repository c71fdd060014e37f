use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use super::link_memory::{BlockTable, SharedWord, word};
use super::malicious_peer::pair;
use super::short::Pace;
use super::*;
use crate::transport::conformance::{self, bytes, conforms, read, send as try_send, write};

conforms!(pair);

#[test]
fn pieces_of_any_length_come_out_in_order_and_wrap_around() {
    let (mut a, mut b) = pair();
    let mut sent = 0;
    for round in 0..200 {
        let body = bytes(1 + round * 37 % 5000, round);
        let (first, second) = body.split_at(body.len() / 3);
        assert_eq!(write(&mut a, &[first, &[], second]).ok(), Some(body.len()));
        assert_eq!(
            read(&mut b, &[body.len() / 2, 0, 40_000]).ok(),
            Some(body.clone())
        );
        assert_eq!(write(&mut b, &[&body]).ok(), Some(body.len()));
        assert_eq!(read(&mut a, &[40_000]).ok(), Some(body.clone()));
        sent += body.len();
    }
    assert!(sent > 4 * link_memory::LEAST, "it has wrapped around");
    assert!(read(&mut a, &[10]).is_ok_and(|got| got.is_empty()));
    assert_eq!(a.path().expect("known").moved, 2 * sent as u64);
}

#[test]
fn what_does_not_fit_is_left_and_fits_later() {
    let (mut a, mut b) = pair();
    let body = bytes(link_memory::LEAST + 1000, 3);
    assert_eq!(write(&mut a, &[&body]).ok(), Some(link_memory::LEAST));
    assert_eq!(write(&mut a, &[&body[link_memory::LEAST..]]).ok(), Some(0));
    let mut got = read(&mut b, &[link_memory::LEAST / 2]).expect("there");
    assert_eq!(
        write(&mut a, &[&body[link_memory::LEAST..]]).ok(),
        Some(1000)
    );
    loop {
        let more = read(&mut b, &[50_000]).expect("good");
        if more.is_empty() {
            break;
        }
        got.extend(more);
    }
    assert!(got == body);
}

#[test]
fn all_that_was_published_is_read_before_the_end() {
    let (a, mut b) = pair();
    let mut a = a;
    write(&mut a, &[b"last words"]).expect("taken");
    drop(a);
    b.note_event();
    assert!(!b.is_idle());
    // A failed write would drop the link with its unread bytes.
    assert_eq!(write(&mut b, &[b"x"]).ok(), Some(0));
    assert_eq!(read(&mut b, &[100]).expect("there"), b"last words");
    assert!(matches!(
        *read(&mut b, &[100]).expect_err("over"),
        Fault::Link(_)
    ));
    assert!(matches!(
        *write(&mut b, &[b"x"]).expect_err("over"),
        Fault::Link(_)
    ));
}

#[test]
fn the_first_message_to_a_closed_end_reports_the_lost_link() {
    for len in [8, MAX_SHORT + 1] {
        let (mut a, b) = pair();
        assert!(send(&mut a, &bytes(len, 1)), "the peer is awake");
        drop(b);
        let SendOutcome::LinkLost(fault) = try_send(&mut a, &bytes(len, 2)) else {
            panic!("the end of the link was not noticed");
        };
        assert!(matches!(*fault, Fault::Link(_)));
        assert!(!send(&mut a, &bytes(len, 3)), "the link is over");
    }
    let (mut a, b) = pair();
    drop(b);
    assert_eq!(write(&mut a, &[b"bytes"]).ok(), Some(5));
    assert!(write(&mut a, &[b"more"]).is_err());
}

#[test]
fn a_cut_ends_both_sides() {
    let (mut a, mut b) = pair();
    a.cut();
    for link in [&mut a, &mut b] {
        link.note_event();
        assert!(read(link, &[1]).is_err());
    }
}

#[test]
fn the_doorbell_wakes_a_side_that_sleeps_once() {
    let (mut a, mut b) = pair();
    assert!(!b.arm_doorbell(false).expect("good"));
    write(&mut a, &[b"one"]).expect("taken");
    write(&mut a, &[b"two"]).expect("taken");
    assert_eq!(a.doorbells_rung(), 1);
    let mut byte = [0u8; 8];
    let socket = b.descriptor().as_raw_fd();
    // SAFETY: pointer and length describe the bytes.
    let count = unsafe { libc::recv(socket, byte.as_mut_ptr().cast(), 8, libc::MSG_DONTWAIT) };
    assert_eq!(count, 1);
    // Bytes that have arrived already keep it awake.
    assert!(b.arm_doorbell(false).expect("good"));
    b.disarm_doorbell();
    write(&mut a, &[b"three"]).expect("taken");
    assert_eq!(a.doorbells_rung(), 1);
}

#[test]
fn the_doorbell_wakes_a_writer_that_waits_for_room() {
    let (mut a, mut b) = pair();
    let body = bytes(link_memory::LEAST, 0);
    write(&mut a, &[&body]).expect("taken");
    assert!(!a.arm_doorbell(true).expect("good"));
    read(&mut b, &[100]).expect("there");
    assert!(!a.arm_doorbell(true).expect("good"), "no block is free yet");
    read(&mut b, &[link_memory::LEAST / 2]).expect("there");
    assert_eq!(b.doorbells_rung(), 1);
    assert!(a.arm_doorbell(true).expect("good"), "there is room");
}

#[test]
fn a_writer_that_waits_for_room_hears_of_bodies_that_stood_apart() {
    let (mut a, mut b) = pair();
    let body = bytes(8 << 10, 0);
    let mut count = 0;
    while send(&mut a, &body) {
        count += 1;
    }
    assert_eq!(count, link_memory::LEAST / body.len());
    assert!(!a.arm_doorbell(true).expect("good"), "no room yet");
    let mut room = vec![0; body.len()];
    for taken in 1..=count {
        room.copy_from_slice(&take(&mut b, usize::MAX));
        assert_eq!(room, body);
        // It sleeps until there is room that is worth a doorbell, and no longer.
        assert_eq!(b.doorbells_rung(), u64::from(taken >= 4), "after {taken}");
    }
    assert!(b.try_recv().is_none() && b.is_idle());
}

/// Sends a message with a body beside the bytes, if there is room.
fn send(link: &mut ShmEndpoint, body: &[u8]) -> bool {
    matches!(try_send(link, body), SendOutcome::Sent)
}

/// The body of the message that comes next, cut to `most` bytes.
fn take(link: &mut ShmEndpoint, most: usize) -> Vec<u8> {
    conformance::take(link, most).expect("there")
}

/// Whether the body of the message that comes next is in the small ring.
fn is_in_small_ring(link: &ShmEndpoint) -> bool {
    link.cells.is_in_small_ring()
}

#[test]
fn bodies_of_every_length_go_where_there_is_room_and_come_out_in_order() {
    let (mut a, mut b) = pair();
    let lengths = [
        0, 8, 32, 33, 95, 96, 97, 500, 1000, 2047, 2048, 2049, 8192, 16383,
    ];
    let mut on_their_way = std::collections::VecDeque::new();
    let mut seen = [0; 3];
    for round in 0..3000 {
        let body = bytes(lengths[round * 5 % lengths.len()], round);
        // Now and then bytes lie between the messages, in the same ring as long bodies.
        if round % 11 == 0 && on_their_way.is_empty() {
            write(&mut a, &[&body]).expect("taken");
            assert_eq!(read(&mut b, &[20_000]).ok(), Some(body.clone()));
        }
        if send(&mut a, &body) {
            on_their_way.push_back(body);
        } else {
            assert!(!on_their_way.is_empty(), "an empty link has room");
        }
        // The backlog grows until there is no room, and shrinks again.
        let left = if round % 100 < 60 {
            usize::MAX
        } else {
            round % 5
        };
        while on_their_way.len() > left {
            let sent = on_their_way.pop_front().expect("some");
            let most = if round % 3 == 0 { 40 } else { usize::MAX };
            let ring = 1 + usize::from(is_in_small_ring(&b));
            seen[if sent.len() > MAX_SHORT { ring } else { 0 }] += 1;
            let got = take(&mut b, most);
            assert_eq!(got, sent[..sent.len().min(most)], "round {round}");
        }
    }
    assert!(seen.into_iter().all(|count| count > 100), "{seen:?}");
}

#[test]
fn what_has_no_room_among_short_bodies_goes_among_long_ones() {
    let (mut a, mut b) = pair();
    let body = bytes(link_memory::SMALL_RING / 4, 1);
    for _ in 0..6 {
        assert!(send(&mut a, &body));
    }
    let mut small = vec![is_in_small_ring(&b)];
    assert_eq!(take(&mut b, usize::MAX), body);
    assert!(send(&mut a, &body));
    for _ in 0..6 {
        small.push(is_in_small_ring(&b));
        assert_eq!(take(&mut b, usize::MAX), body);
    }
    assert_eq!(small, [true, true, true, true, false, false, true]);
    assert!(b.try_recv().is_none() && b.is_idle());
}

#[test]
fn a_body_that_the_short_ring_cannot_hold_ends_the_link_and_nothing_else() {
    let (mut a, mut b) = pair();
    let body = bytes(link_memory::SMALL_RING / 4 + 1, 1);
    assert!(send(&mut a, &body));
    // The cell says that it is in the short ring.
    let cell = a.memory.cells(a.own);
    // SAFETY: a word of the first cell, whose ring both sides have mapped.
    unsafe { cell.add(4).as_ref() }.store(1, Ordering::Relaxed);
    let mut room = vec![7; body.len() + 1];
    let header = b.try_recv().expect("there");
    let into = Piece {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: body.len(),
    };
    // SAFETY: the room is the test's alone.
    unsafe { b.take(&header, into) };
    assert_eq!(room, vec![7; body.len() + 1]);
    assert!(read(&mut b, &[100]).is_err());
}

#[test]
fn a_sender_that_is_ahead_waits_only_for_a_reader_that_makes_progress() {
    for shares_cores in [true, false] {
        let (mut a, mut b) = pair();
        a.pace = Pace::new(shares_cores);
        for _ in 0..link_memory::CELLS {
            assert!(send(&mut a, b"short"));
        }
        assert!(!a.await_free_cell(), "nobody reads");
        assert!(!a.await_free_cell(), "nor now");
        assert_eq!(take(&mut b, 5), b"short");
        assert!(a.await_reader_progress(), "it has moved");
        assert!(!a.await_reader_progress(), "which is seen once");
        assert!(a.await_free_cell());
        assert!(send(&mut a, b"short"));

        // Bytes are progress as cells are.
        for _ in 0..link_memory::CELLS {
            assert_eq!(take(&mut b, 5), b"short");
        }
        assert!(a.await_reader_progress() && !a.await_reader_progress());
        assert_eq!(write(&mut a, &[b"bytes"]).expect("room"), 5);
        assert!(!a.await_reader_progress());
        assert_eq!(read(&mut b, &[5]).expect("bytes"), b"bytes");
        assert!(a.await_reader_progress());
    }
}

#[test]
fn bytes_before_a_short_message_count_as_moved() {
    let (mut a, mut b) = pair();
    write(&mut a, &[b"bytes"]).expect("taken");
    assert!(send(&mut a, b"short"));
    // They end before it, so this read does too.
    assert_eq!(read(&mut b, &[100]).expect("there"), b"bytes");
    assert_eq!(read(&mut b, &[100]).expect("there"), b"");
    assert_eq!(b.path().expect("known").moved, 5);
    assert_eq!(take(&mut b, 5), b"short");
    let moved = [&a, &b].map(|link| link.path().expect("known").moved);
    assert_eq!(moved[0], moved[1]);
}

#[test]
fn positions_of_a_malicious_peer_break_the_link_and_nothing_else() {
    let most = 2 * link_memory::LEAST as u64;
    for (place, value) in [
        (SharedWord::Tail as fn(Direction) -> SharedWord, 1 << 40),
        (SharedWord::Tail, most + 1),
        (SharedWord::Returned, most / link_memory::BLOCK as u64 + 1),
    ] {
        let (mut a, b) = pair();
        word!(b.memory.word(place(b.own))).store(value, Ordering::Release);
        let fault = if matches!(place(b.own), SharedWord::Tail(_)) {
            read(&mut a, &[100]).expect_err("out of bounds")
        } else {
            write(&mut a, &[&bytes(2 * link_memory::LEAST, 1)]).expect_err("out of bounds")
        };
        assert!(matches!(*fault, Fault::Link(_)));
    }
}

#[test]
fn blocks_that_are_not_the_peers_break_the_link_and_nothing_else() {
    for number in [
        0,
        2 * (link_memory::LEAST / link_memory::BLOCK) as u64,
        u64::MAX,
    ] {
        for bodies in [false, true] {
            let (mut a, mut b) = pair();
            let body = bytes(5000, 1);
            if bodies {
                assert!(send(&mut b, &body));
            } else {
                write(&mut b, &[&body]).expect("taken");
            }
            let table = b.memory.table(BlockTable::Stream(b.own));
            word!(table)[0].store(number, Ordering::Relaxed);
            if bodies {
                take(&mut a, usize::MAX);
            }
            assert!(read(&mut a, &[5000]).is_err(), "{number}");
        }
    }
}

#[test]
fn a_malicious_peer_that_gives_back_more_than_there_is_ends_the_link() {
    // Cells, short bodies, long bodies; looked at once none looks free.
    for (place, len, fits) in [
        (
            SharedWord::CellHead as fn(Direction) -> SharedWord,
            8,
            link_memory::CELLS,
        ),
        (SharedWord::SmallRingHead, link_memory::SMALL_RING / 4, 4),
        (
            |own: Direction| SharedWord::Returned(own.opposite()),
            16_000,
            link_memory::LEAST / 16_000,
        ),
    ] {
        let (mut a, b) = pair();
        let body = bytes(len, 1);
        for _ in 0..fits {
            assert!(send(&mut a, &body));
        }
        word!(b.memory.word(place(a.own))).store(1 << 40, Ordering::Release);
        assert!(!send(&mut a, &body));
        assert!(!a.is_idle(), "the next look finds the end");
        assert!(!a.await_free_cell());
        assert!(read(&mut a, &[100]).is_err());
        assert!(write(&mut a, &[b"x"]).is_err());
    }
}

#[test]
fn a_link_of_a_crowded_host_has_fewer_blocks() {
    assert_eq!(capacity(1), 1 << 20);
    assert_eq!(capacity(8), 1 << 20);
    assert_eq!(capacity(32), 256 << 10);
    assert_eq!(capacity(64), 128 << 10);
    assert_eq!(capacity(1000), 64 << 10);
    assert_eq!(capacity(0), 1 << 20);
}

#[test]
fn memory_is_read_only_where_the_secret_is_the_peers() {
    let (mut a, mut b) = pair();
    assert_eq!(
        (a.remote_access().0, b.remote_access()),
        (true, (true, Some(true)))
    );
    let body = bytes(100_000, 5);
    let from = body.as_ptr().expose_provenance() as u64;
    let mut into = vec![0u8; body.len()];
    let mut get = |link: &mut ShmEndpoint, from| {
        let part = GetPart {
            from,
            to: into.as_mut_ptr(),
            len: into.len(),
        };
        // SAFETY: it is writable and not used by other code.
        let failed = unsafe { link.get(&[part], true, &mut || {}) };
        (failed == 0, into.clone())
    };
    assert_eq!(get(&mut a, from), (true, body));
    // Nothing is at the address that is read.
    assert!(!get(&mut a, 8).0);
    assert!(!a.remote_access().0, "once is enough");
    // Another process has the number now, for all that can be seen.
    b.secret.secret().fetch_xor(1, Ordering::Relaxed);
    a.secret.secret().fetch_xor(1, Ordering::Relaxed);
    assert!(!get(&mut b, from).0);
}

#[test]
fn nothing_is_read_of_what_was_withdrawn() {
    let (shared, parts) = Shared::new(3);
    for count in [1, 3] {
        let (mut a, b) = pair();
        // SAFETY: the places are the test's alone.
        let failed = |a: &mut ShmEndpoint| unsafe { a.get(&parts[..count], true, &mut || {}) };
        assert_eq!(failed(&mut a), 0);
        b.withdraw();
        assert_eq!(failed(&mut a), (1 << count) - 1);
        assert!(!a.remote_access().0, "the rest is to be sent");
    }
    assert!(shared.into == shared.body);
}

#[test]
fn what_is_withdrawn_while_it_is_read_does_not_count() {
    let (mut a, b) = pair();
    // Both sides are one process here: the read overwrites the secret.
    let nothing = [0u8; size_of::<u64>()];
    let part = GetPart {
        from: nothing.as_ptr().expose_provenance() as u64,
        to: b.secret.secret().as_ptr().cast(),
        len: nothing.len(),
    };
    // SAFETY: it is writable, and no other code writes there.
    assert_eq!(unsafe { a.get(&[part], true, &mut || {}) }, 1);
    assert_eq!(b.secret.secret().load(Ordering::Relaxed), 0);
}

/// Many parts of a body on the batch of one side, to be carried by both.
struct Shared {
    body: Vec<u8>,
    into: Vec<u8>,
}

impl Shared {
    fn new(parts: usize) -> (Self, Vec<GetPart>) {
        let mut shared = Self {
            body: bytes(parts * 5000, parts),
            into: vec![0; parts * 5000],
        };
        let from = shared.body.as_ptr().expose_provenance() as u64;
        let to = shared.into.as_mut_ptr();
        let part = |at: usize| GetPart {
            from: from + at as u64,
            to: to.wrapping_add(at),
            len: 5000,
        };
        let parts = (0..parts).map(|number| part(number * 5000)).collect();
        (shared, parts)
    }
}

#[test]
fn chunks_of_a_copy_descriptor_are_copied_by_either_side() {
    let (mut a, mut b) = pair();
    let peer = a.peer.expect("within reach");
    for count in [1, 2, 16, 7] {
        for by_peer in [true, false] {
            let (shared, parts) = Shared::new(count);
            a.cooperative.describe(&parts);
            if by_peer {
                assert_eq!(b.serve_get(), shared.body.len());
                assert!(shared.into == shared.body);
            }
            // SAFETY: the places are the test's alone.
            assert_eq!(unsafe { a.cooperative.finish(peer, &parts, &mut || {}) }, 0);
            assert!(shared.into == shared.body);
            assert_eq!(b.serve_get(), 0, "nothing is left");
        }
    }
}

#[test]
fn a_part_that_the_peer_cannot_write_is_read() {
    let (mut a, mut b) = pair();
    // The peer takes any published chunk, though this side has described none.
    let batch = word!(a.memory.word(SharedWord::CopyBatch(Direction::FromDialer)));
    batch.store(1 << 8 | 1, Ordering::Release);
    let pieces = a.memory.word(SharedWord::Chunks(Direction::FromDialer));
    for (number, value) in [8, 16, 100].into_iter().enumerate() {
        // SAFETY: a word of the mapping.
        let word = unsafe { pieces.add(number) };
        word!(word).store(value, Ordering::Relaxed);
    }
    assert_eq!(b.serve_get(), 0);
    let done = word!(a.memory.word(SharedWord::Done(Direction::FromDialer)));
    assert_eq!(done.load(Ordering::Acquire), 1 << 32 | 1 << 16);
    // It does not try again, and the owner does all by itself.
    let (shared, parts) = Shared::new(3);
    // SAFETY: the places are the test's alone.
    assert_eq!(unsafe { a.get(&parts, true, &mut || {}) }, 0);
    assert!(shared.into == shared.body);
    batch.store(2 << 8 | 1, Ordering::Release);
    assert_eq!(b.serve_get(), 0);
    assert_eq!(batch.load(Ordering::Acquire), 2 << 8 | 1);
}

#[test]
fn without_the_peers_help_parts_are_read_one_by_one() {
    let (mut a, b) = pair();
    let (shared, parts) = Shared::new(5);
    // SAFETY: the places are the test's alone.
    assert_eq!(unsafe { a.get(&parts, false, &mut || {}) }, 0);
    assert!(shared.into == shared.body);
    assert!(!b.cooperative.has_chunks());
    let (shared, mut parts) = Shared::new(4);
    parts[2].from = 8;
    // SAFETY: as above.
    let failed = unsafe { a.get(&parts, true, &mut || {}) };
    assert_eq!(failed, 1 << 2, "one is no memory");
    assert!(shared.into[..10_000] == shared.body[..10_000]);
}
