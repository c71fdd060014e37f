use super::*;
use crate::ids::{Generation, JobId};
use crate::resume::Resume;

const LOW: Rank = Rank(0);
const HIGH: Rank = Rank(1);

fn identity(rank: Rank, incarnation: u32) -> Identity {
    Identity {
        job: JobId(1),
        rank,
        generation: Generation(0),
        incarnation: Incarnation(incarnation),
    }
}

fn table(rank: Rank) -> Table<u8> {
    Table::new(
        identity(rank, 0),
        AddressBook::new(vec![Default::default(); 3]),
    )
}

fn proved(from: Rank, to: Rank, attempt: u32, seen: u32) -> Proved {
    Proved {
        me: identity(to, 0),
        peer: identity(from, 0),
        attempt: Attempt(attempt),
        seen: Attempt(seen),
        resume: Resume::default(),
    }
}

fn opened(from: Rank, to: Rank, attempt: Attempt, renounced: u32) -> Established {
    Established {
        me: identity(from, 0),
        peer: identity(to, 0),
        attempt,
        renounced: Attempt(renounced),
        resume: Resume::default(),
    }
}

#[test]
fn a_dial_becomes_a_link_and_its_stale_name_finds_nothing() {
    let mut t = table(LOW);
    let (attempt, _) = t.dial(HIGH).unwrap();
    assert_eq!(t.dial(HIGH), Err(TableError::AlreadyDialing(HIGH)));
    let early = t.established(&opened(LOW, HIGH, attempt, 0), 7);
    assert!(
        matches!(early, Err(TableError::Superseded { .. })),
        "not proved yet"
    );
    assert_eq!(t.prove(HIGH, attempt), Ok(Attempt(0)));
    t.established(&opened(LOW, HIGH, attempt, 0), 7).unwrap();
    assert_eq!(t.dial(HIGH), Err(TableError::AlreadyLive(HIGH)));
    assert_eq!(t.live(HIGH), Some(7));
    assert!(t.lost(HIGH, 7) && !t.lost(HIGH, 7));
    assert_eq!(t.live(HIGH), None);
    let (second, _) = t.dial(HIGH).unwrap();
    t.prove(HIGH, second).unwrap();
    t.established(&opened(LOW, HIGH, second, 0), 8).unwrap();
    assert!(
        !t.lost(HIGH, 7),
        "an old link's end does not end the new one"
    );
    assert_eq!(t.live(HIGH), Some(8));
}

#[test]
fn nobody_dials_itself_or_a_stranger() {
    let mut t = table(LOW);
    assert_eq!(t.dial(LOW), Err(TableError::Oneself));
    assert_eq!(
        t.dial(Rank(3)),
        Err(TableError::NotInJob {
            rank: Rank(3),
            size: 3
        })
    );
    assert_eq!(
        t.admit(&proved(Rank(3), LOW, 1, 0), 1),
        Err(HandshakeRefusal::Superseded)
    );
    assert_eq!(
        t.admit(&proved(LOW, LOW, 1, 0), 1),
        Err(HandshakeRefusal::Superseded)
    );
}

#[test]
fn the_larger_ranks_attempt_survives() {
    let mut high = table(HIGH);
    let (mine, _) = high.dial(LOW).unwrap();
    high.prove(LOW, mine).unwrap();
    assert_eq!(
        high.admit(&proved(LOW, HIGH, 1, 0), 1),
        Err(HandshakeRefusal::Yield)
    );

    let mut low = table(LOW);
    let (mine, _) = low.dial(HIGH).unwrap();
    low.prove(HIGH, mine).unwrap();
    let admission = low.admit(&proved(HIGH, LOW, 1, 0), 1).unwrap();
    assert_eq!(
        (admission.abandons, admission.renounced),
        (Some(mine), mine)
    );
    assert!(low.established(&opened(LOW, HIGH, mine, 0), 2).is_err());
}

#[test]
fn an_unanswered_dial_of_the_larger_rank_is_no_rival() {
    let mut high = table(HIGH);
    let (mine, _) = high.dial(LOW).unwrap();
    let admission = high.admit(&proved(LOW, HIGH, 1, 0), 1).unwrap();
    assert_eq!(
        (admission.abandons, admission.renounced),
        (Some(mine), Attempt(0))
    );
    assert!(high.prove(LOW, mine).is_err());
    assert!(
        !high.failed(LOW, mine),
        "the failure of an abandoned attempt changes nothing"
    );
    assert!(high.live(LOW).is_some());
}

#[test]
fn a_larger_rank_does_not_insist_on_an_attempt_that_the_peer_saw_end() {
    let mut high = table(HIGH);
    let (mine, _) = high.dial(LOW).unwrap();
    high.prove(LOW, mine).unwrap();
    assert!(high.admit(&proved(LOW, HIGH, 1, mine.0), 1).is_ok());
}

#[test]
fn a_newer_attempt_replaces_a_live_link_and_an_older_one_does_not() {
    let mut t = table(HIGH);
    t.admit(&proved(LOW, HIGH, 2, 0), 10).unwrap();
    assert_eq!(
        t.admit(&proved(LOW, HIGH, 2, 0), 11),
        Err(HandshakeRefusal::Superseded)
    );
    assert_eq!(
        t.admit(&proved(LOW, HIGH, 1, 0), 11),
        Err(HandshakeRefusal::Superseded)
    );
    let second = t.admit(&proved(LOW, HIGH, 3, 0), 12).unwrap();
    assert_eq!(second.closes, Some(10));
    assert_eq!((t.lost(LOW, 10), t.live(LOW)), (false, Some(12)));
}

#[test]
fn a_renounced_proof_that_comes_late_is_refused() {
    let mut t = table(HIGH);
    let (mine, _) = t.dial(LOW).unwrap();
    t.prove(LOW, mine).unwrap();
    t.established(&opened(HIGH, LOW, mine, 4), 7).unwrap();
    assert_eq!(
        t.admit(&proved(LOW, HIGH, 4, 0), 8),
        Err(HandshakeRefusal::Superseded)
    );
    assert_eq!(t.live(LOW), Some(7));
    assert!(t.admit(&proved(LOW, HIGH, 5, 0), 8).is_ok());
}

#[test]
fn news_of_an_incarnation_null_the_channel_and_end_old_handshakes() {
    let mut t = table(LOW);
    t.admit(&proved(HIGH, LOW, 9, 0), 1).unwrap();
    let card = BusinessCard::default;
    assert_eq!(t.update(HIGH, Incarnation(1), card()), Ok(Some(1)));
    assert_eq!(t.live(HIGH), None);
    assert_eq!(
        t.admit(&proved(HIGH, LOW, 10, 0), 2),
        Err(HandshakeRefusal::Superseded)
    );
    assert!(matches!(
        t.update(HIGH, Incarnation(0), card()),
        Err(BookError::Older { .. })
    ));
    let (attempt, incarnation) = t.dial(HIGH).unwrap();
    assert_eq!(incarnation, Incarnation(1));
    t.prove(HIGH, attempt).unwrap();
    assert!(
        t.established(&opened(LOW, HIGH, attempt, 0), 3).is_err(),
        "older incarnation"
    );
    let again = Proved {
        peer: identity(HIGH, 1),
        ..proved(HIGH, LOW, 1, attempt.0)
    };
    assert!(
        t.admit(&again, 4).is_ok(),
        "attempts are counted per pair of incarnations"
    );
}

#[test]
fn rejoining_nulls_everything_and_never_reuses_an_attempt() {
    let mut t = table(LOW);
    t.admit(&proved(HIGH, LOW, 1, 0), 5).unwrap();
    let (before, _) = t.dial(Rank(2)).unwrap();
    let book = t.book().clone();
    let me = Identity {
        generation: Generation(1),
        ..identity(LOW, 1)
    };
    assert_eq!(t.rejoin(me, book), [5]);
    assert_eq!(
        (t.state(HIGH), t.state(Rank(2))),
        (LinkState::Null, LinkState::Null)
    );
    assert!(t.prove(Rank(2), before).is_err());
    let (after, _) = t.dial(Rank(2)).unwrap();
    assert!(after > before);
    assert_eq!(
        t.admit(&proved(HIGH, LOW, 2, 0), 6),
        Err(HandshakeRefusal::Superseded)
    );
}

/// Each part of both identities counts by itself: no other check makes up for one that is missing.
#[test]
fn a_handshake_under_any_other_identity_opens_nothing() {
    let right = (identity(LOW, 0), identity(HIGH, 0));
    type Change = fn(&mut Identity);
    let changes: [(&str, Change); 3] = [
        ("job", |id| id.job = JobId(2)),
        ("generation", |id| id.generation = Generation(1)),
        ("incarnation", |id| id.incarnation = Incarnation(1)),
    ];
    for (field, change) in changes {
        for of_the_peer in [false, true] {
            let (mut me, mut peer) = right;
            change(if of_the_peer { &mut peer } else { &mut me });
            let case = format!("{field}, of the peer: {of_the_peer}");

            let mut t = table(LOW);
            let foreign = Proved {
                me,
                peer,
                ..proved(HIGH, LOW, 1, 0)
            };
            assert_eq!(
                t.admit(&foreign, 1),
                Err(HandshakeRefusal::Superseded),
                "{case}"
            );

            let (attempt, _) = t.dial(HIGH).unwrap();
            t.prove(HIGH, attempt).unwrap();
            let foreign = Established {
                me,
                peer,
                ..opened(LOW, HIGH, attempt, 0)
            };
            assert!(t.established(&foreign, 2).is_err(), "{case}");
            assert_eq!(t.live(HIGH), None, "{case}");
        }
    }
}
