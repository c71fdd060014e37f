use super::*;
use crate::book::AddressBook;
use crate::ids::{JobId, JobKey, Ssn};
use proptest::prelude::*;

fn key() -> JobKey {
    JobKey::new([42; 32])
}

fn identity(rank: u32, generation: u32, incarnation: u32) -> Identity {
    Identity {
        job: JobId(77),
        rank: Rank(rank),
        generation: Generation(generation),
        incarnation: Incarnation(incarnation),
    }
}

fn book(incarnations: &[u32]) -> AddressBook {
    AddressBook::new(
        incarnations
            .iter()
            .map(|&i| (Incarnation(i), Default::default()))
            .collect(),
    )
}

fn resume(next: u64) -> Resume {
    Resume {
        next_envelope: Ssn(next),
        taken: 4 * next,
        credit: 3 * next,
        unmatched_sync: (0..next).map(Ssn).collect(),
        ..Resume::default()
    }
}

/// How both sides ended, and the bytes that each sent.
struct Run {
    dialer: Option<DialerStep>,
    acceptor: Option<AcceptorStep>,
    bytes: usize,
}

/// One handshake; `piece` bytes are delivered at a time, after `tamper` saw them with their
/// position in the whole conversation.
struct Setup<'a> {
    dialer: Identity,
    yours: u32,
    acceptor: Identity,
    book: AddressBook,
    keys: (JobKey, JobKey),
    piece: usize,
    tamper: &'a dyn Fn(usize, u8) -> u8,
    answer: Result<Attempt, HandshakeRefusal>,
}

impl Setup<'_> {
    fn agreeing() -> Self {
        Setup {
            dialer: identity(0, 1, 2),
            yours: 3,
            acceptor: identity(1, 1, 3),
            book: book(&[2, 3]),
            keys: (key(), key()),
            piece: usize::MAX,
            tamper: &|_, byte| byte,
            answer: Ok(Attempt(6)),
        }
    }

    fn run(&self) -> Run {
        let (mut to_acceptor, mut to_dialer) = (Vec::new(), Vec::new());
        let mut dialer = Dialer::new(
            self.dialer,
            Rank(1),
            Incarnation(self.yours),
            Attempt(5),
            [1; 32],
            &mut to_acceptor,
        );
        let mut acceptor = Acceptor::new(self.acceptor, [2; 32]);
        let mut run = Run {
            dialer: None,
            acceptor: None,
            bytes: 0,
        };
        while !(to_acceptor.is_empty() && to_dialer.is_empty()) {
            let piece = self.deliver(&mut to_acceptor, &mut run.bytes);
            if !piece.is_empty() && run.acceptor.is_none() {
                self.feed_acceptor(&mut acceptor, &piece, &mut to_dialer, &mut run.acceptor);
            }
            let piece = self.deliver(&mut to_dialer, &mut run.bytes);
            if !piece.is_empty() && run.dialer.is_none() {
                self.feed_dialer(&mut dialer, &piece, &mut to_acceptor, &mut run.dialer);
            }
        }
        run
    }

    fn deliver(&self, from: &mut Vec<u8>, position: &mut usize) -> Vec<u8> {
        let count = from.len().min(self.piece);
        let mut piece: Vec<u8> = from.drain(..count).collect();
        for byte in &mut piece {
            *byte = (self.tamper)(*position, *byte);
            *position += 1;
        }
        piece
    }

    fn feed_acceptor(
        &self,
        acceptor: &mut Acceptor,
        piece: &[u8],
        out: &mut Vec<u8>,
        end: &mut Option<AcceptorStep>,
    ) {
        match acceptor.feed(&self.keys.1, &self.book, piece, out) {
            (taken, AcceptorStep::More) => assert_eq!(taken, piece.len()),
            (_, step) => {
                if matches!(step, AcceptorStep::Admit(_)) {
                    match self.answer {
                        Ok(renounced) => {
                            acceptor
                                .accept(&self.keys.1, renounced, &resume(20), out)
                                .unwrap();
                        }
                        Err(refusal) => acceptor.refuse(&self.keys.1, refusal, out),
                    }
                }
                *end = Some(step);
            }
        }
    }

    fn feed_dialer(
        &self,
        dialer: &mut Dialer,
        piece: &[u8],
        out: &mut Vec<u8>,
        end: &mut Option<DialerStep>,
    ) {
        match dialer.feed(&self.keys.0, piece, out) {
            (taken, DialerStep::More) => assert_eq!(taken, piece.len()),
            (_, DialerStep::Prove) => {
                dialer
                    .prove(&self.keys.0, Attempt(4), &resume(10), out)
                    .unwrap();
            }
            (_, step) => *end = Some(step),
        }
    }
}

#[test]
fn both_sides_learn_the_same_in_two_round_trips() {
    for piece in [usize::MAX, 1, 7] {
        let run = Setup {
            piece,
            ..Setup::agreeing()
        }
        .run();
        let Some(DialerStep::Established(opened)) = run.dialer else {
            panic!("{:?}", run.dialer)
        };
        let Some(AcceptorStep::Admit(proved)) = run.acceptor else {
            panic!("{:?}", run.acceptor)
        };
        assert_eq!(
            (opened.me, opened.peer),
            (identity(0, 1, 2), identity(1, 1, 3))
        );
        assert_eq!((proved.me, proved.peer), (opened.peer, opened.me));
        assert_eq!((opened.attempt, proved.attempt), (Attempt(5), Attempt(5)));
        assert_eq!((opened.renounced, proved.seen), (Attempt(6), Attempt(4)));
        assert_eq!(
            (opened.resume.clone(), proved.resume.clone()),
            (resume(20), resume(10))
        );
    }
}

#[test]
fn who_is_behind_learns_it_from_an_authenticated_peer() {
    let older = Setup {
        dialer: identity(0, 0, 2),
        ..Setup::agreeing()
    }
    .run();
    assert!(matches!(
        older.dialer,
        Some(DialerStep::Refused(HandshakeRefusal::PeerIsNewer { .. }))
    ));
    assert!(matches!(
        older.acceptor,
        Some(AcceptorStep::Refused(HandshakeRefusal::PeerIsOlder { .. }))
    ));
    let newer = Setup {
        dialer: identity(0, 2, 2),
        ..Setup::agreeing()
    }
    .run();
    assert!(matches!(
        newer.dialer,
        Some(DialerStep::Refused(HandshakeRefusal::PeerIsOlder { .. }))
    ));
    assert!(matches!(
        newer.acceptor,
        Some(AcceptorStep::Refused(HandshakeRefusal::PeerIsNewer { .. }))
    ));
}

#[test]
fn who_was_restored_and_who_was_replaced_is_told_apart() {
    // The dialer was restored and the acceptor does not know it yet.
    let restored = Setup {
        dialer: identity(0, 1, 9),
        ..Setup::agreeing()
    }
    .run();
    assert!(matches!(
        restored.dialer,
        Some(DialerStep::Refused(HandshakeRefusal::PeerIsOlder { .. }))
    ));
    let Some(AcceptorStep::Refused(HandshakeRefusal::PeerIsNewer { theirs, .. })) =
        restored.acceptor
    else {
        panic!("{:?}", restored.acceptor)
    };
    assert_eq!(theirs.mine, Incarnation(9));
    // An old incarnation of the dialer comes back.
    let zombie = Setup {
        dialer: identity(0, 1, 1),
        ..Setup::agreeing()
    }
    .run();
    let Some(DialerStep::Refused(HandshakeRefusal::PeerIsNewer { theirs, .. })) = zombie.dialer
    else {
        panic!("{:?}", zombie.dialer)
    };
    assert_eq!(
        theirs.yours,
        Incarnation(2),
        "it learns that it has been replaced"
    );
    // Each knows something that the other does not: both ask.
    let both = Setup {
        dialer: identity(0, 1, 9),
        yours: 1,
        ..Setup::agreeing()
    }
    .run();
    assert!(matches!(
        both.dialer,
        Some(DialerStep::Refused(HandshakeRefusal::PeerIsNewer { .. }))
    ));
    assert!(matches!(
        both.acceptor,
        Some(AcceptorStep::Refused(HandshakeRefusal::PeerIsNewer { .. }))
    ));
}

#[test]
fn strangers_are_refused() {
    let wrong_key = Setup {
        keys: (key(), JobKey::new([1; 32])),
        ..Setup::agreeing()
    }
    .run();
    assert_eq!(
        wrong_key.dialer,
        Some(DialerStep::Refused(HandshakeRefusal::BadProof))
    );
    assert_eq!(
        wrong_key.acceptor, None,
        "it waits for a proof until the device gives up"
    );
    let other_job = Identity {
        job: JobId(78),
        ..identity(0, 1, 2)
    };
    let run = Setup {
        dialer: other_job,
        ..Setup::agreeing()
    }
    .run();
    assert_eq!(
        run.dialer,
        Some(DialerStep::Refused(HandshakeRefusal::WrongJob))
    );
    assert_eq!(
        run.acceptor,
        Some(AcceptorStep::Refused(HandshakeRefusal::WrongJob))
    );
    let run = Setup {
        dialer: identity(7, 1, 2),
        ..Setup::agreeing()
    }
    .run();
    assert_eq!(
        run.dialer,
        Some(DialerStep::Refused(HandshakeRefusal::UnknownRank))
    );
    let run = Setup {
        acceptor: identity(2, 1, 3),
        ..Setup::agreeing()
    }
    .run();
    assert_eq!(
        run.dialer,
        Some(DialerStep::Refused(HandshakeRefusal::WrongRank))
    );
}

#[test]
fn another_version_is_named() {
    let tamper = |position: usize, byte: u8| if position == 4 { 9 } else { byte };
    let run = Setup {
        tamper: &tamper,
        ..Setup::agreeing()
    }
    .run();
    assert_eq!(
        run.acceptor,
        Some(AcceptorStep::Refused(HandshakeRefusal::WrongVersion {
            theirs: 9
        }))
    );
    assert_eq!(
        run.dialer,
        Some(DialerStep::Refused(HandshakeRefusal::Malformed))
    );
}

/// An honest dialer rejects when the views differ. A dialer that knows the key and still proves
/// itself must not be admitted.
#[test]
fn a_genuine_proof_under_another_view_is_refused() {
    let agreeing = (identity(0, 1, 2), Incarnation(3));
    let admits = |(dialer, yours): (Identity, Incarnation)| {
        let (mut hello, mut challenge) = (Vec::new(), Vec::new());
        let _ = Dialer::new(dialer, Rank(1), yours, Attempt(5), [1; 32], &mut hello);
        let mut acceptor = Acceptor::new(identity(1, 1, 3), [2; 32]);
        let book = book(&[2, 3]);
        acceptor.feed(&key(), &book, &hello, &mut challenge);
        let transcript = message::Transcript {
            hello: message::Hello {
                job: dialer.job,
                generation: dialer.generation,
                from: dialer.rank,
                from_incarnation: dialer.incarnation,
                to: Rank(1),
                to_incarnation: yours,
                attempt: Attempt(5),
                nonce: [1; 32],
            },
            challenge: message::Challenge {
                generation: Generation(1),
                mine: Incarnation(3),
                yours: Incarnation(2),
                nonce: [2; 32],
            },
        };
        let mut resume_bytes = Vec::new();
        resume(10).encode(&mut resume_bytes).unwrap();
        let proof = message::Proof::of(Attempt(4), &resume_bytes);
        let mut bytes = Vec::new();
        transcript.put_proof(
            &key(),
            message::Role::Proof,
            &proof,
            &resume_bytes,
            &mut bytes,
        );
        let (_, step) = acceptor.feed(&key(), &book, &bytes, &mut Vec::new());
        match step {
            AcceptorStep::Admit(_) => true,
            AcceptorStep::Refused(HandshakeRefusal::Malformed) => false,
            step => panic!("{step:?}"),
        }
    };
    assert!(admits(agreeing));
    for other in [
        (identity(0, 0, 2), Incarnation(3)),
        (identity(0, 2, 2), Incarnation(3)),
        (identity(0, 1, 1), Incarnation(3)),
        (identity(0, 1, 9), Incarnation(3)),
        (identity(0, 1, 2), Incarnation(2)),
        (identity(0, 1, 2), Incarnation(4)),
    ] {
        assert!(!admits(other), "{other:?}");
    }
}

#[test]
fn a_browser_is_dropped_at_its_first_bytes() {
    let mut acceptor = Acceptor::new(identity(1, 0, 0), [0; 32]);
    let mut out = Vec::new();
    let (_, step) = acceptor.feed(&key(), &book(&[0, 0]), b"GE", &mut out);
    assert_eq!(step, AcceptorStep::Refused(HandshakeRefusal::Malformed));
    assert!(out.is_empty());
}

#[test]
fn a_refusal_of_the_table_reaches_the_dialer() {
    for refusal in [HandshakeRefusal::Yield, HandshakeRefusal::Superseded] {
        let run = Setup {
            answer: Err(refusal),
            ..Setup::agreeing()
        }
        .run();
        assert_eq!(run.dialer, Some(DialerStep::Refused(refusal)));
    }
}

#[test]
fn bytes_after_the_acceptance_are_left_for_the_frames() {
    let mut to_acceptor = Vec::new();
    let (me, them) = (identity(0, 0, 0), identity(1, 0, 0));
    let mut dialer = Dialer::new(
        me,
        Rank(1),
        Incarnation(0),
        Attempt(1),
        [1; 32],
        &mut to_acceptor,
    );
    let mut acceptor = Acceptor::new(them, [2; 32]);
    let mut to_dialer = Vec::new();
    let book = book(&[0, 0]);
    acceptor.feed(
        &key(),
        &book,
        &std::mem::take(&mut to_acceptor),
        &mut to_dialer,
    );
    assert_eq!(dialer.waiting_for(), "the peer's challenge");
    dialer.feed(&key(), &std::mem::take(&mut to_dialer), &mut to_acceptor);
    dialer
        .prove(&key(), Attempt(0), &resume(1), &mut to_acceptor)
        .unwrap();
    assert_eq!(acceptor.claims(), Some((Rank(0), Attempt(1))));
    acceptor.feed(&key(), &book, &to_acceptor, &mut to_dialer);
    acceptor
        .accept(&key(), Attempt(0), &resume(2), &mut to_dialer)
        .unwrap();
    let handshake = to_dialer.len();
    to_dialer.extend_from_slice(b"frames");
    let (taken, step) = dialer.feed(&key(), &to_dialer, &mut Vec::new());
    assert!(matches!(step, DialerStep::Established(_)));
    assert_eq!(taken, handshake);
}

#[test]
fn every_byte_of_the_conversation_is_vouched_for() {
    let length = Setup::agreeing().run().bytes;
    for target in 0..length {
        let tamper = |position: usize, byte: u8| if position == target { byte ^ 1 } else { byte };
        let run = Setup {
            tamper: &tamper,
            ..Setup::agreeing()
        }
        .run();
        let opened = matches!(run.dialer, Some(DialerStep::Established(_)));
        assert!(
            !opened,
            "byte {target} of {length} was changed and the link opened"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_taken_without_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        as_message in any::<bool>(),
        kind in 0u8..8,
        piece in 1usize..100,
    ) {
        let mut input = Vec::new();
        if as_message {
            let length = [0, 64, 76, 72, 72, 36, 0, 0][kind as usize];
            input.extend_from_slice(b"RJNH\x01\x00");
            input.extend_from_slice(&[kind, 0, length, 0, 0, 0]);
        }
        input.extend_from_slice(&bytes);
        let mut out = Vec::new();
        let mut acceptor = Acceptor::new(identity(1, 0, 0), [0; 32]);
        let mut dialer =
            Dialer::new(identity(0, 0, 0), Rank(1), Incarnation(0), Attempt(1), [3; 32], &mut out);
        for part in input.chunks(piece) {
            let (taken, step) = acceptor.feed(&key(), &book(&[0, 0]), part, &mut out);
            prop_assert!(taken <= part.len());
            prop_assert!(!matches!(step, AcceptorStep::Admit(_)));
            let (taken, step) = dialer.feed(&key(), part, &mut out);
            prop_assert!(taken <= part.len());
            prop_assert!(!matches!(step, DialerStep::Prove | DialerStep::Established(_)));
        }
    }
}
