use proptest::prelude::*;
use rejoin_channel_table::ids::{Incarnation, Rank, Ssn};

use super::*;

fn head(ssn: u64) -> MessageHead {
    MessageHead {
        sender: Rank(7),
        incarnation: Incarnation(u32::MAX),
        ssn: Ssn(ssn),
        context: 0xdead_beef,
        source: -2,
        tag: i32::MIN,
        synchronous: ssn % 2 == 1,
        interval: u64::MAX,
    }
}

fn log(ring: usize) -> ReceiveLog<Vec<u64>> {
    ReceiveLog::new(vec![u64::MAX; HEADER_WORDS + ring], 7).expect("room for a message")
}

#[test]
fn a_restored_process_reads_what_was_logged_since_its_image() {
    let mut log = log(64);
    assert!(log.append(&head(1), b"before"));
    let mut image = log.clone();
    assert!(log.append(&head(2), b""));
    assert!(log.append(&head(3), &[9; 17]));
    let found = image.reopen(log.memory().clone()).expect("its memory");
    let ssns: Vec<_> = found.iter().map(|message| message.head).collect();
    assert_eq!(ssns, [head(2), head(3)]);
    assert_eq!((&*found[0].body, &*found[1].body), (&[][..], &[9; 17][..]));
    assert!(image.append(&head(4), b"live"));
    assert_eq!(image.position(), log.position() + 7);
}

#[test]
fn a_message_without_room_leaves_the_log_as_it_is() {
    let mut log = log(16);
    assert!(log.append(&head(1), &[1; 16]));
    assert!(!log.append(&head(2), &[2; 17]), "nine words are left");
    let before = log.clone();
    assert!(!log.append(&head(2), &[2; 24 + 1]));
    assert_eq!(log, before);
    assert_eq!(log.held(), 64);
    assert!(log.append(&head(3), &[3; 16]));
    log.release(8).expect("the first message");
    assert!(log.append(&head(4), &[4; 16]), "the ring wraps around");
}

#[test]
fn memory_that_is_not_the_logs_is_refused() {
    let small = ReceiveLog::new(vec![0; HEADER_WORDS + HEAD_WORDS - 1], 7);
    assert_eq!(small, Err(ReceiveLogError::TooSmall { words: 13 }));
    let mut log = log(32);
    assert!(log.append(&head(1), b"kept"));
    let refused = |change: &dyn Fn(&mut Vec<u64>)| {
        let mut memory = log.memory().clone();
        change(&mut memory);
        let mut reopened = log.clone();
        let error = reopened.reopen(memory).expect_err("it was changed");
        assert_eq!(reopened, log);
        error
    };
    let error = refused(&|memory| memory[0] = 5);
    assert_eq!(error, ReceiveLogError::Magic { found: 5 });
    assert!(matches!(
        refused(&|memory| memory.push(0)),
        ReceiveLogError::Resized { .. }
    ));
    assert!(matches!(
        refused(&|memory| memory[FIRST] = 40),
        ReceiveLogError::OutOfRange { .. }
    ));
    assert!(matches!(
        refused(&|memory| memory[END] = 60),
        ReceiveLogError::OutOfRange { .. }
    ));
    let mut image = self::log(32);
    for length in [8 * 20, u64::MAX] {
        let mut memory = log.memory().clone();
        memory[HEADER_WORDS + 4] = length;
        let error = image.reopen(memory).expect_err("no such body");
        assert_eq!(error, ReceiveLogError::Damaged { at: 0 });
    }
    assert!(matches!(
        log.release(8),
        Err(ReceiveLogError::OutOfRange { .. })
    ));
}

#[test]
fn a_rank_continues_on_another_host_from_a_copy() {
    let mut log = log(64);
    let mut copy = CopiedReceives::default();
    let mut copied = 0;
    let mut image = None;
    for number in 0..30 {
        if number % 4 == 3 {
            log.release(log.position()).expect("its own position");
            image = Some(log.clone());
        }
        assert!(log.append(&head(number), &[number as u8; 20]));
        let end = log.position() - number % 2;
        let part = ReceivedPart::read(log.memory(), copied, end, 7).expect("a log");
        copied = part.end();
        copy.add(&part).expect("the next part");
        if part.words.len() < 7 {
            continue;
        }
        let part = ReceivedPart::read(log.memory(), copied, log.position(), 100).expect("a log");
        copied = part.end();
        copy.add(&part).expect("the next part");
        let mut memory = vec![0; HEADER_WORDS + 64];
        for part in copy.parts(5) {
            part.write(&mut memory).expect("room");
        }
        let mut restored = image.clone().unwrap_or_else(|| self::log(64));
        let mut here = restored.clone();
        let expected = here.reopen(log.memory().clone()).expect("its memory");
        assert_eq!(restored.reopen(memory).expect("the copy"), expected);
        let ends = [&restored, &here].map(|log| (log.position(), log.held()));
        assert_eq!(ends[0], ends[1]);
    }
    // An image that is newer than the copy needs nothing of it.
    let mut memory = vec![0; HEADER_WORDS + 64];
    ReceivedPart::default().write(&mut memory).expect("room");
    let mut newer = log.clone();
    assert_eq!(newer.reopen(memory), Ok(Vec::new()));
    assert_eq!(newer.held(), 0);
    assert!(newer.append(&head(30), b"live"));
}

#[test]
fn a_copy_that_ends_within_a_message_has_those_before_it() {
    let mut log = log(64);
    let image = log.clone();
    for number in 0..3 {
        assert!(log.append(&head(number), &[number as u8; 40]));
    }
    for most in 0..=33 {
        let part = ReceivedPart::read(log.memory(), 0, log.position(), most).expect("a log");
        let mut memory = vec![0; HEADER_WORDS + 64];
        part.write(&mut memory).expect("room");
        let end = ReceivedPart::end_at_message(&mut memory).expect("a log");
        assert_eq!(end, most as u64 / 11 * 11);
        let mut restored = image.clone();
        let found = restored.reopen(memory).expect("whole messages");
        assert_eq!(found.len(), most / 11, "{most} words");
        assert_eq!(restored.position(), end);
    }
}

#[test]
fn a_copy_of_another_process_s_log_says_nothing() {
    let mut former = ReceiveLog::new(vec![0; HEADER_WORDS + 64], 6).expect("room");
    assert!(former.append(&head(1), &[1; 40]));
    let mut copy = CopiedReceives::default();
    let read = |log: &ReceiveLog<Vec<u64>>, from| {
        ReceivedPart::read(log.memory(), from, log.position(), 99).expect("a log")
    };
    copy.add(&read(&former, 0)).expect("the begin");
    let mut memory = vec![0; HEADER_WORDS + 64];
    copy.parts(99)
        .for_each(|part| part.write(&mut memory).expect("room"));
    let mut log = log(64);
    assert!(log.append(&head(2), b""));
    let mut image = log.clone();
    assert_eq!(image.reopen(memory), Ok(Vec::new()));
    assert_eq!((image.position(), image.held()), (6, 0));
    copy.add(&read(&log, 0)).expect("all of it");
    assert_eq!(copy.end(), 6);
}

#[test]
fn a_part_of_another_process_s_log_does_not_follow() {
    let part = |life, from, words: &[u64]| ReceivedPart {
        life,
        first: 0,
        from,
        words: words.to_vec(),
    };
    let mut copy = CopiedReceives::default();
    copy.add(&part(6, 0, &[1, 2])).expect("the begin");
    let before = copy.clone();
    for from in [1, 2] {
        let error = copy.add(&part(7, from, &[9]));
        assert!(matches!(error, Err(ReceiveLogError::OutOfRange { .. })));
        assert_eq!(copy, before);
    }
    copy.add(&part(7, 0, &[8, 9])).expect("all there is");
    copy.add(&part(7, 2, &[10])).expect("it follows");
    assert!(copy.parts(9).eq([part(7, 0, &[8, 9, 10])]));
}

#[test]
fn a_log_that_has_less_than_was_read_before_is_read_from_its_first_word() {
    let mut log = log(64);
    assert!(log.append(&head(1), &[1; 8]));
    let part = ReceivedPart::read(log.memory(), 30, log.position(), 99).expect("a log");
    assert_eq!((part.from, part.end()), (0, log.position()));
}

#[test]
fn a_copy_refuses_a_part_that_does_not_follow() {
    let part = |first, from, words: &[u64]| ReceivedPart {
        life: 7,
        first,
        from,
        words: words.to_vec(),
    };
    let mut copy = CopiedReceives::default();
    copy.add(&part(0, 0, &[1, 2])).expect("the begin");
    let before = copy.clone();
    let error = copy.add(&part(0, 3, &[4]));
    assert!(matches!(error, Err(ReceiveLogError::OutOfRange { .. })));
    assert_eq!(copy, before);
    copy.add(&part(1, 2, &[3])).expect("it follows");
    assert!(copy.parts(9).eq([part(1, 1, &[2, 3])]));
    copy.add(&part(7, 7, &[8])).expect("all there is");
    assert!(copy.parts(9).eq([part(7, 7, &[8])]));
    let memory = log(16);
    let error = ReceivedPart::read(memory.memory(), 0, 1, 9);
    assert!(matches!(error, Err(ReceiveLogError::OutOfRange { .. })));
}

/// One step of a process and its images.
#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    Image,
    Commit,
    Restore,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..60).prop_map(Step::Append),
        1 => Just(Step::Image),
        1 => Just(Step::Commit),
        1 => Just(Step::Restore),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    /// A process that returns to its committed image finds all messages that it has logged since
    /// that image, and no other ones, however often it returns and the ring wraps around.
    #[test]
    fn nothing_since_the_committed_image_is_lost(steps in steps()) {
        let mut log = log(96);
        // What is expected of a restore: the messages since the image.
        let mut committed = (log.clone(), Vec::new());
        let mut taken: Option<(ReceiveLog<Vec<u64>>, Vec<LoggedReceive>)> = None;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Append(length) => {
                    let message = LoggedReceive {
                        head: head(number as u64),
                        body: vec![number as u8; length],
                        end: log.position() + (HEAD_WORDS + length.div_ceil(8)) as u64,
                    };
                    if log.append(&message.head, &message.body) {
                        committed.1.push(message.clone());
                        taken.iter_mut().for_each(|taken| taken.1.push(message.clone()));
                    }
                }
                Step::Image => taken = Some((log.clone(), Vec::new())),
                Step::Commit => {
                    if let Some(image) = taken.take() {
                        log.release(image.0.position()).expect("its own position");
                        committed = image;
                    }
                }
                Step::Restore => {
                    let mut restored = committed.0.clone();
                    let found = restored.reopen(log.memory().clone()).expect("its memory");
                    prop_assert_eq!(&found, &committed.1);
                    prop_assert_eq!(restored.position(), log.position());
                    log = restored;
                    taken = None;
                }
            }
        }
    }
}

proptest! {
    /// Whatever is in the memory, nothing panics, and nothing is read that the ring has not.
    #[test]
    fn damaged_memory_is_refused_or_read(
        header in (0u64..80, 0u64..80, 0u64..2, 6u64..8),
        ring in prop::collection::vec(prop_oneof![0u64..200, any::<u64>()], 40),
    ) {
        let (end, first, copied, life) = header;
        let mut memory = vec![0; HEADER_WORDS];
        (memory[0], memory[END], memory[FIRST]) = (MAGIC, end, first);
        (memory[COPIED], memory[LIFE]) = (copied, life);
        memory.extend(&ring);
        let mut restored = log(40);
        if let Ok(found) = restored.reopen(memory.clone()) {
            let bytes: usize = found.iter().map(|message| message.body.len()).sum();
            prop_assert!(bytes <= 8 * 40);
        }
        let part = ReceivedPart::read(&memory, first, end, 50);
        prop_assert!(part.is_err() || part.is_ok_and(|part| part.words.len() <= 40));
        let _ = ReceivedPart::end_at_message(&mut memory);
    }
}
