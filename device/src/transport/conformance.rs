//! The contract of [`Endpoint`] as tests that every transport passes, with two ends of a new link.
//! A transport calls [`conforms!`] in its tests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rejoin_engine::ShortHeader;

use super::{Endpoint, Fault, GetPart, Mechanism, Piece, SendOutcome};

/// An end that goes to another thread.
struct Moved<E>(E);

// SAFETY: the whole end goes there, and one thread at a time uses it. What its pointers lead to is
// made for two processes.
unsafe impl<E> Send for Moved<E> {}

impl<E> Moved<E> {
    fn arrive(self) -> E {
        self.0
    }
}

/// How long a test waits for what must happen.
const LIMIT: Duration = Duration::from_secs(20);

/// The tests of a transport whose links `$pair` makes.
macro_rules! conforms {
    ($pair:expr) => {
        #[test]
        fn bytes_keep_their_order_under_back_pressure() {
            $crate::transport::conformance::bytes_keep_their_order($pair);
        }

        #[test]
        fn messages_keep_their_place_among_bytes() {
            $crate::transport::conformance::messages_keep_their_place($pair);
        }

        #[test]
        fn an_end_at_any_point_loses_nothing_before_it() {
            $crate::transport::conformance::an_end_loses_nothing($pair);
        }

        #[test]
        fn a_cut_at_any_point_leaves_a_prefix_and_ends() {
            $crate::transport::conformance::a_cut_leaves_a_prefix($pair);
        }

        #[test]
        fn no_wake_up_of_a_reader_is_lost() {
            $crate::transport::conformance::a_reader_gets_its_events($pair);
        }

        #[test]
        fn no_wake_up_of_a_writer_is_lost() {
            $crate::transport::conformance::a_writer_gets_its_events($pair);
        }

        #[test]
        fn a_get_copies_all_parts_or_names_those_that_failed() {
            $crate::transport::conformance::a_get_copies_all_parts($pair);
        }
    };
}
pub(crate) use conforms;

/// A generator of numbers from a fixed seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % most.max(1)
    }

    /// Lengths of pieces: some are empty, some long, and the last is not empty.
    fn lengths(&mut self) -> Vec<usize> {
        let count = self.below(4);
        let most = [1, 100, 5_000, 60_000][self.below(4)];
        let last = 1 + self.below(most);
        let others = (0..count).map(|_| self.below(most));
        others
            .collect::<Vec<_>>()
            .into_iter()
            .chain([last])
            .collect()
    }
}

/// Bytes of a stream from a position on.
pub(super) fn bytes(len: usize, from: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at * 7 % 251) as u8).collect()
}

fn piece(bytes: &[u8]) -> Piece {
    Piece {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

pub(super) fn write(link: &mut impl Endpoint, parts: &[&[u8]]) -> Result<usize, Box<Fault>> {
    let pieces: Vec<Piece> = parts.iter().map(|part| piece(part)).collect();
    // SAFETY: the parts are readable.
    unsafe { link.try_write(&pieces) }
}

pub(super) fn read(link: &mut impl Endpoint, lengths: &[usize]) -> Result<Vec<u8>, Box<Fault>> {
    let mut parts: Vec<Vec<u8>> = lengths.iter().map(|len| vec![0; *len]).collect();
    let pieces: Vec<Piece> = parts
        .iter_mut()
        .map(|part| Piece {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        })
        .collect();
    // SAFETY: the parts are writable, and nothing else uses them.
    let count = unsafe { link.try_read(&pieces) }?;
    let mut all = parts.concat();
    all.truncate(count);
    Ok(all)
}

/// The outcome of a message with a body beside the bytes.
pub(super) fn send(link: &mut impl Endpoint, body: &[u8]) -> SendOutcome {
    let header = ShortHeader {
        len: body.len() as u16,
        ..ShortHeader::default()
    };
    match link.capabilities().mechanism(body.len()) {
        Mechanism::Short => link.try_short(body, || Some(header)),
        Mechanism::BufferedCopy => link.try_bcopy(body, || Some(header)),
        Mechanism::Stream => SendOutcome::WouldBlock,
    }
}

/// The body of the message that comes next, cut to `most` bytes; `None` if none does.
pub(super) fn take(link: &mut impl Endpoint, most: usize) -> Option<Vec<u8>> {
    let header = link.try_recv()?;
    let mut body = vec![0; usize::from(header.len).min(most)];
    let into = Piece {
        iov_base: body.as_mut_ptr().cast(),
        iov_len: body.len(),
    };
    // SAFETY: the bytes are the test's alone.
    unsafe { link.take(&header, into) };
    Some(body)
}

/// Waits for an event of the descriptor, and takes note of it.
fn await_event(link: &mut impl Endpoint, flags: PollFlags) {
    let limit = PollTimeout::try_from(LIMIT).expect("in range");
    let seen = poll(&mut [PollFd::new(link.descriptor(), flags)], limit);
    assert_eq!(seen, Ok(1), "no event within {LIMIT:?}");
    link.note_event();
}

/// Reads so many bytes of the stream from a position on, which have been written.
fn read_all(link: &mut impl Endpoint, mut len: usize, mut from: usize) {
    while len > 0 {
        let got = read(link, &[len.min(50_000)]).expect("a good link");
        if got.is_empty() {
            // An endpoint with a doorbell has the bytes at once.
            assert!(!link.capabilities().doorbell, "{len} bytes are missing");
            await_event(link, PollFlags::POLLIN);
        }
        assert!(got == bytes(got.len(), from), "bytes from {from} on");
        (len, from) = (len - got.len(), from + got.len());
    }
}

pub(super) fn bytes_keep_their_order<E: Endpoint>(pair: fn() -> (E, E)) {
    for seed in 1..5 {
        let (mut dice, (mut a, mut b)) = (Dice(seed), pair());
        let (mut sent, mut got) = ([0; 2], [0; 2]);
        let mut filled = 0;
        for _ in 0..600 {
            let (way, lengths) = (dice.below(2), dice.lengths());
            let (from, to) = if way == 0 {
                (&mut a, &mut b)
            } else {
                (&mut b, &mut a)
            };
            if dice.below(5) < 3 {
                let all = bytes(lengths.iter().sum(), sent[way]);
                let mut rest = &all[..];
                let cut = |len: &usize| {
                    let (part, after) = rest.split_at(*len);
                    rest = after;
                    part
                };
                let parts: Vec<&[u8]> = lengths.iter().map(cut).collect();
                let taken = write(from, &parts).expect("a good link");
                assert!(taken <= all.len());
                filled += usize::from(taken < all.len());
                sent[way] += taken;
            } else {
                let some = read(to, &lengths).expect("a good link");
                assert!(some == bytes(some.len(), got[way]), "seed {seed}");
                got[way] += some.len();
            }
        }
        // One fills the link; what is left is what was written.
        while write(&mut a, &[&bytes(40_000, sent[0])]).is_ok_and(|taken| {
            sent[0] += taken;
            taken > 0
        }) {}
        read_all(&mut b, sent[0] - got[0], got[0]);
        read_all(&mut a, sent[1] - got[1], got[1]);
        assert!(read(&mut b, &[10]).is_ok_and(|more| more.is_empty()));
        assert!(filled > 0 || !a.capabilities().doorbell, "no back pressure");
    }
}

pub(super) fn messages_keep_their_place<E: Endpoint>(pair: fn() -> (E, E)) {
    let (mut dice, (mut a, mut b)) = (Dice(7), pair());
    let capabilities = a.capabilities();
    let Some(most) = capabilities.max_bcopy.max(capabilities.max_short) else {
        let no_header = || -> Option<ShortHeader> { panic!("there is no way for a message") };
        let sent = [a.try_short(b"", no_header), a.try_bcopy(b"body", no_header)];
        assert!(
            sent.iter()
                .all(|one| matches!(one, SendOutcome::WouldBlock))
        );
        assert!(b.try_recv().is_none());
        return;
    };
    let short = capabilities.max_short.unwrap_or(most);
    // Messages, and between them counts of bytes.
    let mut under_way: VecDeque<Result<Vec<u8>, usize>> = VecDeque::new();
    let (mut sent, mut got, mut refused) = (0, 0, 0);
    for round in 0..5_000 {
        let len = [dice.below(9), dice.below(short + 1), dice.below(most + 1)][round % 3];
        match dice.below(4) {
            0 => {
                let taken = write(&mut a, &[&bytes(len, sent)]).expect("a good link");
                sent += taken;
                under_way.push_back(Err(taken));
            }
            1 => match send(&mut a, &bytes(len, round)) {
                SendOutcome::Sent => under_way.push_back(Ok(bytes(len, round))),
                SendOutcome::WouldBlock => refused += 1,
                other => panic!("{other:?}"),
            },
            // It falls behind at first.
            _ if round % 700 < 300 => {}
            _ => match under_way.pop_front() {
                Some(Ok(body)) => {
                    let most = [usize::MAX, dice.below(50)][usize::from(dice.below(4) == 0)];
                    let part = &body[..body.len().min(most)];
                    assert_eq!(take(&mut b, most).as_deref(), Some(part), "round {round}");
                }
                Some(Err(mut len)) => {
                    while len > 0 {
                        assert!(b.try_recv().is_none(), "bytes come before the message");
                        let some = read(&mut b, &[len]).expect("a good link");
                        assert!(!some.is_empty() && some == bytes(some.len(), got));
                        (len, got) = (len - some.len(), got + some.len());
                    }
                }
                None => assert!(b.try_recv().is_none()),
            },
        }
    }
    assert!(refused > 0, "no back pressure");
}

/// Reads to the end of the link. Returns the number of bytes; panics after too long.
fn read_to_the_end(link: &mut impl Endpoint) -> usize {
    let mut got = 0;
    loop {
        match read(link, &[3_000, 0, 70_000]) {
            Ok(some) if some.is_empty() => await_event(link, PollFlags::POLLIN),
            Ok(some) => {
                assert!(some == bytes(some.len(), got));
                got += some.len();
            }
            Err(fault) => {
                assert!(matches!(*fault, Fault::Link(_)), "{fault:?}");
                return got;
            }
        }
    }
}

pub(super) fn an_end_loses_nothing<E: Endpoint>(pair: fn() -> (E, E)) {
    for writes in 0..12 {
        let ((mut a, mut b), mut sent) = (pair(), 0);
        for number in 0..writes {
            let len = 1 << (2 * number % 17);
            sent += write(&mut a, &[&bytes(len, sent)]).expect("a good link");
        }
        drop(a);
        assert_eq!(read_to_the_end(&mut b), sent, "after {writes} writes");
        assert!(read(&mut b, &[10]).is_err(), "it stays lost");
    }
}

pub(super) fn a_cut_leaves_a_prefix<E: Endpoint>(pair: fn() -> (E, E)) {
    for step in 0..24 {
        let ((mut a, mut b), mut sent) = (pair(), 0);
        for number in 0..step / 2 {
            let len = 1 << (2 * number % 17);
            sent += write(&mut a, &[&bytes(len, sent)]).expect("a good link");
        }
        if step % 2 == 0 { &mut a } else { &mut b }.cut();
        assert!(read_to_the_end(&mut b) <= sent, "step {step}");
        assert_eq!(read_to_the_end(&mut a), 0, "step {step}");
        for link in [&mut a, &mut b] {
            // A write may still be taken; not for ever.
            let mut writes = (0..100).map(|_| write(link, &[b"more"]));
            assert!(writes.any(|done| done.is_err()), "step {step}");
        }
    }
}

pub(super) fn a_reader_gets_its_events<E: Endpoint + 'static>(pair: fn() -> (E, E)) {
    const ROUNDS: usize = 3_000;
    let (a, mut b) = pair();
    let (a, read_so_far) = (Moved(a), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&read_so_far);
    let writer = std::thread::spawn(move || {
        let (mut dice, mut a) = (Dice(11), a.arrive());
        for round in 0..ROUNDS {
            // The next byte would wake a reader that has missed one.
            let begun = Instant::now();
            while seen.load(Ordering::Acquire) < round {
                assert!(begun.elapsed() < LIMIT, "byte {round} is not read");
                std::thread::yield_now();
            }
            (0..dice.below(2_000)).for_each(|_| std::hint::spin_loop());
            let taken = write(&mut a, &[&bytes(1, round)]).expect("a good link");
            assert_eq!(taken, 1, "there is room");
        }
        Moved(a)
    });
    let mut got = 0;
    while got < ROUNDS {
        let some = read(&mut b, &[1]).expect("a good link");
        got += some.len();
        read_so_far.store(got, Ordering::Release);
        if some.is_empty() {
            if !b.arm_doorbell(false).expect("a good link") {
                await_event(&mut b, PollFlags::POLLIN);
            }
            b.disarm_doorbell();
        }
    }
    writer.join().expect("the writer");
}

pub(super) fn a_writer_gets_its_events<E: Endpoint + 'static>(pair: fn() -> (E, E)) {
    const ALL: usize = 20 << 20;
    let (mut a, b) = pair();
    let b = Moved(b);
    let reader = std::thread::spawn(move || {
        let (mut dice, mut got, mut b) = (Dice(13), 0, b.arrive());
        while got < ALL {
            let some = read(&mut b, &dice.lengths()).expect("a good link");
            assert!(some == bytes(some.len(), got));
            got += some.len();
            if some.is_empty() {
                std::thread::yield_now();
            }
        }
        Moved(b)
    });
    let mut sent = 0;
    while sent < ALL {
        let taken = write(&mut a, &[&bytes(100_000.min(ALL - sent), sent)]).expect("a good link");
        sent += taken;
        if taken == 0 {
            if !a.arm_doorbell(true).expect("a good link") {
                await_event(&mut a, PollFlags::POLLIN | PollFlags::POLLOUT);
            }
            a.disarm_doorbell();
        }
    }
    reader.join().expect("the reader");
}

pub(super) fn a_get_copies_all_parts<E: Endpoint>(pair: fn() -> (E, E)) {
    let (mut a, _b) = pair();
    // Both ends are in this process, so the peer's memory is the test's.
    let from = bytes(300_000, 5);
    let mut to = vec![0; from.len()];
    let mut parts = [GetPart::EMPTY; 3];
    for (number, part) in parts.iter_mut().enumerate() {
        let at = number * 100_000;
        *part = GetPart {
            from: from[at..].as_ptr().expose_provenance() as u64,
            to: to[at..].as_mut_ptr(),
            len: 100_000,
        };
    }
    // SAFETY: the places are parts of `to`, apart from each other.
    let failed = unsafe { a.get(&parts, false, &mut || {}) };
    if a.remote_access().0 {
        assert_eq!(failed, 0);
        assert!(to == from);
        // Nothing is at this address.
        parts[1].from = 8;
        // SAFETY: as above.
        let failed = unsafe { a.get(&parts, false, &mut || {}) };
        assert_eq!(failed & 0b010, 0b010);
    } else {
        assert_eq!(failed & 0b111, 0b111, "no part is said to be there");
    }
}
