use std::sync::atomic::Ordering;

use super::short_way::{Pace, Room};
use super::wild::pair;
use super::*;

fn piece(bytes: &[u8]) -> Piece {
    Piece {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

fn write(link: &mut ShmLink, parts: &[&[u8]]) -> Result<usize, Box<Fault>> {
    let pieces: Vec<Piece> = parts.iter().map(|part| piece(part)).collect();
    // SAFETY: the parts are readable.
    unsafe { link.write(&pieces) }
}

fn read(link: &mut ShmLink, lengths: &[usize]) -> Result<Vec<u8>, Box<Fault>> {
    let mut parts: Vec<Vec<u8>> = lengths.iter().map(|len| vec![0; *len]).collect();
    let pieces: Vec<Piece> = parts
        .iter_mut()
        .map(|part| Piece {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        })
        .collect();
    // SAFETY: the parts are writable, and nothing else uses them.
    let count = unsafe { link.read(&pieces) }?;
    let mut all = parts.concat();
    all.truncate(count);
    Ok(all)
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 7 + seed) % 251) as u8).collect()
}

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
    assert!(sent > 4 * memory::LEAST, "it has wrapped around");
    assert!(read(&mut a, &[10]).is_ok_and(|got| got.is_empty()));
    assert_eq!(a.path().expect("known").moved, 2 * sent as u64);
}

#[test]
fn what_does_not_fit_is_left_and_fits_later() {
    let (mut a, mut b) = pair();
    let body = bytes(memory::LEAST + 1000, 3);
    assert_eq!(write(&mut a, &[&body]).ok(), Some(memory::LEAST));
    assert_eq!(write(&mut a, &[&body[memory::LEAST..]]).ok(), Some(0));
    let mut got = read(&mut b, &[memory::LEAST / 2]).expect("there");
    assert_eq!(write(&mut a, &[&body[memory::LEAST..]]).ok(), Some(1000));
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
    b.heard();
    assert!(!b.is_idle());
    // A write that fails would have the link dropped with what is still to be read.
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
fn a_cut_ends_both_sides() {
    let (mut a, mut b) = pair();
    a.cut();
    for link in [&mut a, &mut b] {
        link.heard();
        assert!(read(link, &[1]).is_err());
    }
}

#[test]
fn a_side_that_sleeps_is_woken_once() {
    let (mut a, mut b) = pair();
    assert!(!b.arm(false).expect("good"));
    write(&mut a, &[b"one"]).expect("taken");
    write(&mut a, &[b"two"]).expect("taken");
    assert_eq!(a.wakes(), 1);
    let mut byte = [0u8; 8];
    let socket = b.socket.as_raw_fd();
    // SAFETY: pointer and length describe the bytes.
    let count = unsafe { libc::recv(socket, byte.as_mut_ptr().cast(), 8, libc::MSG_DONTWAIT) };
    assert_eq!(count, 1);
    // What is there already keeps it awake.
    assert!(b.arm(false).expect("good"));
    b.disarm();
    write(&mut a, &[b"three"]).expect("taken");
    assert_eq!(a.wakes(), 1);
}

#[test]
fn a_writer_that_waits_for_room_is_woken() {
    let (mut a, mut b) = pair();
    let body = bytes(memory::LEAST, 0);
    write(&mut a, &[&body]).expect("taken");
    assert!(!a.arm(true).expect("good"));
    read(&mut b, &[100]).expect("there");
    assert_eq!(b.wakes(), 1);
    assert!(a.arm(true).expect("good"), "there is room");
}

#[test]
fn a_writer_that_waits_for_room_hears_of_bodies_that_stood_apart() {
    let (mut a, mut b) = pair();
    let body = bytes(8 << 10, 0);
    let mut count = 0;
    while let Some(room) = a.room(body.len()) {
        assert_eq!(room, Room::Long);
        a.free_brief().expect("free");
        a.publish_apart((body.len() as u64) << 2, &body, room);
        count += 1;
    }
    assert_eq!(count, memory::LEAST / body.len());
    assert!(!a.arm(true).expect("good"), "no room yet");
    let mut room = vec![0; body.len()];
    for taken in 1..=count {
        let brief = b.next_brief().expect("there");
        assert!(brief.is_apart() && brief.claimed() == body.len());
        let into = Piece {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        };
        // SAFETY: the room is the test's alone.
        unsafe { b.release_apart(&brief, into) };
        assert_eq!(room, body);
        // It sleeps until there is room that is worth to be woken for, and no longer.
        assert_eq!(b.wakes(), u64::from(taken >= 2), "after {taken}");
    }
    assert!(b.next_brief().is_none() && b.is_idle());
}

/// Sends a brief message with a body, if there is room; where that went, unless
/// into the message.
fn send_brief(link: &mut ShmLink, body: &[u8]) -> Option<Option<Room>> {
    let room = match body.len() {
        0..=32 => None,
        len => Some(link.room(len)?),
    };
    let rest = link.free_brief()?;
    for (word, bytes) in rest[3..].iter_mut().zip(body.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(padded);
    }
    let first = (body.len() as u64) << 2;
    match room {
        Some(room) => link.publish_apart(first, body, room),
        None => link.publish_brief(first),
    }
    Some(room)
}

/// The body of the brief message that comes next, cut to `most` bytes.
fn take_brief(link: &mut ShmLink, most: usize) -> Vec<u8> {
    let brief = link.next_brief().expect("there");
    let mut body = vec![0; brief.claimed().min(most)];
    if brief.is_apart() {
        let into = Piece {
            iov_base: body.as_mut_ptr().cast(),
            iov_len: body.len(),
        };
        // SAFETY: the bytes are the test's alone.
        unsafe { link.release_apart(&brief, into) };
    } else {
        for (to, word) in body.chunks_mut(8).zip(brief.body()) {
            to.copy_from_slice(&word.to_le_bytes()[..to.len()]);
        }
        link.release_brief();
    }
    body
}

#[test]
fn bodies_of_every_length_go_where_there_is_room_and_come_out_in_order() {
    let (mut a, mut b) = pair();
    let lengths = [
        0, 8, 32, 33, 95, 96, 97, 500, 1000, 2047, 2048, 2049, 8192, 16383,
    ];
    let mut on_their_way = std::collections::VecDeque::new();
    let mut seen = [0; 4];
    for round in 0..3000 {
        let body = bytes(lengths[round * 5 % lengths.len()], round);
        // Now and then bytes lie between the messages, in the same ring as long bodies.
        if round % 11 == 0 && on_their_way.is_empty() {
            write(&mut a, &[&body]).expect("taken");
            assert_eq!(read(&mut b, &[20_000]).ok(), Some(body.clone()));
        }
        match send_brief(&mut a, &body) {
            Some(room) => {
                seen[room.map_or(3, |room| room as usize)] += 1;
                on_their_way.push_back(body);
            }
            None => assert!(!on_their_way.is_empty(), "an empty link has room"),
        }
        // The backlog grows to what there is room for, and shrinks again.
        let left = if round % 100 < 60 {
            usize::MAX
        } else {
            round % 5
        };
        while on_their_way.len() > left {
            let sent = on_their_way.pop_front().expect("some");
            let most = if round % 3 == 0 { 40 } else { usize::MAX };
            let got = take_brief(&mut b, most);
            assert_eq!(got, sent[..sent.len().min(most)], "round {round}");
        }
    }
    assert!(seen.into_iter().all(|count| count > 100), "{seen:?}");
}

#[test]
fn what_has_no_room_among_short_bodies_goes_among_long_ones() {
    let (mut a, mut b) = pair();
    let body = bytes(memory::SHORTS / 4, 1);
    let went: Vec<_> = (0..6).map_while(|_| send_brief(&mut a, &body)).collect();
    assert_eq!(went[..4], [Some(Room::Short); 4]);
    assert_eq!(went[4..], [Some(Room::Long); 2]);
    assert_eq!(take_brief(&mut b, usize::MAX), body);
    assert_eq!(send_brief(&mut a, &body), Some(Some(Room::Short)));
    for _ in 0..6 {
        assert_eq!(take_brief(&mut b, usize::MAX), body);
    }
    assert!(b.next_brief().is_none() && b.is_idle());
}

#[test]
fn a_body_that_the_short_ring_cannot_hold_ends_the_link_and_nothing_else() {
    let (mut a, mut b) = pair();
    let body = bytes(memory::SHORTS / 4 + 1, 1);
    assert_eq!(send_brief(&mut a, &body), Some(Some(Room::Long)));
    // The cell says that it is in the short ring.
    let cell = a.memory.cells(a.own);
    // SAFETY: a word of the first cell, whose ring both sides have mapped.
    unsafe { cell.add(4).as_ref() }.store(1, Ordering::Relaxed);
    let mut room = vec![7; body.len() + 1];
    let brief = b.next_brief().expect("there");
    let into = Piece {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: body.len(),
    };
    // SAFETY: the room is the test's alone.
    unsafe { b.release_apart(&brief, into) };
    assert_eq!(room, vec![7; body.len() + 1]);
    assert!(read(&mut b, &[100]).is_err());
}

#[test]
fn a_sender_that_is_ahead_waits_only_for_a_reader_that_goes_on() {
    for shares_cores in [true, false] {
        let (mut a, mut b) = pair();
        a.pace = Pace::new(shares_cores);
        for _ in 0..memory::CELLS {
            assert!(!a.looks_full());
            assert_eq!(send_brief(&mut a, b"short"), Some(None));
        }
        assert!(a.looks_full() && !a.await_cell(), "nobody reads");
        assert!(!a.await_cell(), "nor now");
        assert_eq!(take_brief(&mut b, 5), b"short");
        assert!(a.reader_goes_on(), "it has moved");
        assert!(!a.reader_goes_on(), "which is seen once");
        assert!(a.await_cell());
        assert_eq!(send_brief(&mut a, b"short"), Some(None));

        // Bytes are progress as cells are.
        for _ in 0..memory::CELLS {
            assert_eq!(take_brief(&mut b, 5), b"short");
        }
        assert!(a.reader_goes_on() && !a.reader_goes_on());
        assert_eq!(write(&mut a, &[b"bytes"]).expect("room"), 5);
        assert!(!a.reader_goes_on());
        assert_eq!(read(&mut b, &[5]).expect("bytes"), b"bytes");
        assert!(a.reader_goes_on());
    }
}

#[test]
fn bytes_before_a_brief_message_count_as_moved() {
    let (mut a, mut b) = pair();
    write(&mut a, &[b"bytes"]).expect("taken");
    assert_eq!(send_brief(&mut a, b"short"), Some(None));
    // They end before it, so this read does too.
    assert_eq!(read(&mut b, &[100]).expect("there"), b"bytes");
    assert_eq!(read(&mut b, &[100]).expect("there"), b"");
    assert_eq!(b.path().expect("known").moved, 5);
    assert_eq!(take_brief(&mut b, 5), b"short");
    let moved = [&a, &b].map(|link| link.path().expect("known").moved);
    assert_eq!(moved[0], moved[1]);
}

#[test]
fn positions_of_a_wild_peer_break_the_link_and_nothing_else() {
    for (mine, theirs) in [
        (true, 1 << 40),
        (true, memory::LEAST as u64 + 1),
        (false, 5 * memory::LEAST as u64),
    ] {
        let (mut a, b) = pair();
        let word = if mine { b.own_tail } else { b.come.head };
        word!(word).store(theirs, Ordering::Release);
        let fault = if mine {
            read(&mut a, &[100]).expect_err("out of bounds")
        } else {
            write(&mut a, &[&bytes(2 * memory::LEAST, 1)]).expect_err("out of bounds")
        };
        assert!(matches!(*fault, Fault::Link(_)));
    }
}

#[test]
fn a_wild_peer_that_gives_back_more_than_there_is_ends_the_short_way() {
    // Cells, short bodies, long bodies; looked at once none looks free.
    for (place, len, fits) in [
        (Place::CellHead as fn(Direction) -> Place, 8, memory::CELLS),
        (Place::ShortHead, memory::SHORTS / 4, 4),
        (Place::Head, 16_000, memory::LEAST / 16_000),
    ] {
        let (mut a, b) = pair();
        let body = bytes(len, 1);
        for _ in 0..fits {
            assert!(send_brief(&mut a, &body).is_some());
        }
        word!(b.memory.word(place(a.own))).store(1 << 40, Ordering::Release);
        assert_eq!(send_brief(&mut a, &body), None);
        assert!(!a.is_idle(), "the next look finds the end");
        assert!(!a.await_cell());
        assert!(read(&mut a, &[100]).is_err());
        assert!(write(&mut a, &[b"x"]).is_err());
    }
}

#[test]
fn the_rings_of_a_crowded_host_are_smaller() {
    assert_eq!(capacity(1), 256 << 10);
    assert_eq!(capacity(32), 256 << 10);
    assert_eq!(capacity(64), 128 << 10);
    assert_eq!(capacity(1000), 64 << 10);
    assert_eq!(capacity(0), 256 << 10);
}

#[test]
fn memory_is_read_only_where_the_secret_is_the_peers() {
    let (mut a, mut b) = pair();
    assert_eq!((a.reach().0, b.reach()), (true, (true, Some(true))));
    let body = bytes(100_000, 5);
    let from = body.as_ptr().expose_provenance() as u64;
    let mut into = vec![0u8; body.len()];
    let mut pull = |link: &mut ShmLink, from| {
        let part = Part {
            from,
            to: into.as_mut_ptr(),
            len: into.len(),
        };
        // SAFETY: it is writable and used by nobody else.
        let failed = unsafe { link.pull(&[part], true, &mut || {}) };
        (failed == 0, into.clone())
    };
    assert_eq!(pull(&mut a, from), (true, body));
    // Nothing is at the address that is read.
    assert!(!pull(&mut a, 8).0);
    assert!(!a.reach().0, "once is enough");
    // Another process has the number now, for all that can be seen.
    b.shown.secret().fetch_xor(1, Ordering::Relaxed);
    a.shown.secret().fetch_xor(1, Ordering::Relaxed);
    assert!(!pull(&mut b, from).0);
}

#[test]
fn nothing_is_read_of_what_was_withdrawn() {
    let (shared, parts) = Shared::new(3);
    for count in [1, 3] {
        let (mut a, b) = pair();
        // SAFETY: the places are the test's alone.
        let failed = |a: &mut ShmLink| unsafe { a.pull(&parts[..count], true, &mut || {}) };
        assert_eq!(failed(&mut a), 0);
        b.withdraw();
        assert_eq!(failed(&mut a), (1 << count) - 1);
        assert!(!a.reach().0, "the rest is to be sent");
    }
    assert!(shared.into == shared.body);
}

#[test]
fn what_is_withdrawn_while_it_is_read_does_not_count() {
    let (mut a, b) = pair();
    // Both sides are one process here: what is read goes where the secret is.
    let nothing = [0u8; size_of::<u64>()];
    let part = Part {
        from: nothing.as_ptr().expose_provenance() as u64,
        to: b.shown.secret().as_ptr().cast(),
        len: nothing.len(),
    };
    // SAFETY: it is writable, and nobody else writes there.
    assert_eq!(unsafe { a.pull(&[part], true, &mut || {}) }, 1);
    assert_eq!(b.shown.secret().load(Ordering::Relaxed), 0);
}

/// Many parts of a body on the desk of one side, to be carried by both.
struct Shared {
    body: Vec<u8>,
    into: Vec<u8>,
}

impl Shared {
    fn new(parts: usize) -> (Self, Vec<Part>) {
        let mut shared = Self {
            body: bytes(parts * 5000, parts),
            into: vec![0; parts * 5000],
        };
        let from = shared.body.as_ptr().expose_provenance() as u64;
        let to = shared.into.as_mut_ptr();
        let part = |at: usize| Part {
            from: from + at as u64,
            to: to.wrapping_add(at),
            len: 5000,
        };
        let parts = (0..parts).map(|number| part(number * 5000)).collect();
        (shared, parts)
    }
}

#[test]
fn parts_that_lie_on_a_desk_are_carried_by_either_side() {
    let (mut a, mut b) = pair();
    let peer = a.peer.expect("within reach");
    for count in [1, 2, 16, 7] {
        for by_helper in [true, false] {
            let (shared, parts) = Shared::new(count);
            a.desks.lay_out(&parts);
            if by_helper {
                assert_eq!(b.help(), shared.body.len());
                assert!(shared.into == shared.body);
            }
            // SAFETY: the places are the test's alone.
            assert_eq!(unsafe { a.desks.finish(peer, &parts, &mut || {}) }, 0);
            assert!(shared.into == shared.body);
            assert_eq!(b.help(), 0, "nothing is left");
        }
    }
}

#[test]
fn a_part_that_the_helper_cannot_write_is_read() {
    let (mut a, mut b) = pair();
    // The helper takes whatever lies there, and nothing of this has been asked for yet.
    let desk = word!(a.memory.word(Place::Desk(Direction::FromDialer)));
    desk.store(1 << 8 | 1, Ordering::Release);
    let pieces = a.memory.word(Place::Pieces(Direction::FromDialer));
    for (number, value) in [8, 16, 100].into_iter().enumerate() {
        // SAFETY: a word of the mapping.
        let word = unsafe { pieces.add(number) };
        word!(word).store(value, Ordering::Relaxed);
    }
    assert_eq!(b.help(), 0);
    let done = word!(a.memory.word(Place::Done(Direction::FromDialer)));
    assert_eq!(done.load(Ordering::Acquire), 1 << 32 | 1 << 16);
    // It does not try again, and the owner does all by itself.
    let (shared, parts) = Shared::new(3);
    // SAFETY: the places are the test's alone.
    assert_eq!(unsafe { a.pull(&parts, true, &mut || {}) }, 0);
    assert!(shared.into == shared.body);
    desk.store(2 << 8 | 1, Ordering::Release);
    assert_eq!(b.help(), 0);
    assert_eq!(desk.load(Ordering::Acquire), 2 << 8 | 1);
}

#[test]
fn without_the_peers_help_parts_are_read_one_by_one() {
    let (mut a, b) = pair();
    let (shared, parts) = Shared::new(5);
    // SAFETY: the places are the test's alone.
    assert_eq!(unsafe { a.pull(&parts, false, &mut || {}) }, 0);
    assert!(shared.into == shared.body);
    assert!(!b.desks.is_asked());
    let (shared, mut parts) = Shared::new(4);
    parts[2].from = 8;
    // SAFETY: as above.
    let failed = unsafe { a.pull(&parts, true, &mut || {}) };
    assert_eq!(failed, 1 << 2, "one is no memory");
    assert!(shared.into[..10_000] == shared.body[..10_000]);
}
