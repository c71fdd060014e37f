use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use super::*;

fn pair() -> (ShmLink, ShmLink) {
    let (a, b) = UnixStream::pair().expect("a pair");
    for end in [&a, &b] {
        end.set_nonblocking(true).expect("non-blocking");
    }
    let (memory, fd) = Memory::make(memory::LEAST).expect("made");
    let theirs = Memory::open(fd).expect("mapped");
    let shown = [Side::Dialer.show(&memory), Side::Acceptor.show(&theirs)];
    let [ours, other] = shown;
    (
        ShmLink::new(a.into(), (memory, ours), Side::Dialer, (true, false)),
        ShmLink::new(b.into(), (theirs, other), Side::Acceptor, (true, false)),
    )
}

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
    while a.has_room_apart(body.len()).expect("good") {
        let rest = a.free_brief().expect("good").expect("free");
        rest[3] = body.len() as u64;
        a.publish_brief(255 << 8, &body);
        count += 1;
    }
    assert_eq!(count, memory::LEAST / body.len());
    assert!(!a.arm(true).expect("good"), "no room yet");
    let mut room = vec![0; body.len()];
    for taken in 1..=count {
        let brief = b.next_brief().expect("there");
        assert!(brief.is_apart() && brief.claimed() == body.len() && can_be(&brief));
        let into = Piece {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        };
        // SAFETY: the room is the test's alone.
        unsafe { b.release_apart(into, body.len()) };
        assert_eq!(room, body);
        // It sleeps until there is room that is worth to be woken for, and no longer.
        assert_eq!(b.wakes(), u64::from(taken >= 2), "after {taken}");
    }
    assert!(b.next_brief().is_none() && b.is_idle());
}

#[test]
fn positions_of_a_wild_peer_break_the_link_and_nothing_else() {
    for (mine, theirs) in [
        (true, 1 << 40),
        (true, memory::LEAST as u64 + 1),
        (false, 5 * memory::LEAST as u64),
    ] {
        let (mut a, b) = pair();
        let word = if mine { b.out.tail } else { b.come.head };
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
    *b.shown.secret_mut() ^= 1;
    *a.shown.secret_mut() ^= 1;
    assert!(!pull(&mut b, from).0);
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
