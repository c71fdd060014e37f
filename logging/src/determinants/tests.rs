use super::determinant_record::RECORD_WORDS;
use super::log_layout::CUT;
use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Memory that outlives a log: each clone is the same memory.
#[derive(Clone, Debug)]
struct Shared(Rc<RefCell<Vec<u64>>>);

impl Shared {
    fn of_records(records: usize) -> Self {
        let words = HEADER_WORDS + records * RECORD_WORDS;
        Self(Rc::new(RefCell::new(vec![0; words])))
    }
}

impl LogMemory for Shared {
    fn load(&self, word: usize) -> u64 {
        self.0.borrow()[word]
    }

    fn store(&mut self, word: usize, value: u64) {
        self.0.borrow_mut()[word] = value;
    }

    fn words(&self) -> usize {
        self.0.borrow().len()
    }
}

/// The process's part of a log, as an image keeps it.
fn image(log: &DeterminantLog<Shared>) -> DeterminantLog<Shared> {
    DeterminantLog {
        memory: Shared::of_records(0),
        replay: log.replay.clone(),
        ..*log
    }
}

fn log(records: usize) -> (Shared, DeterminantLog<Shared>) {
    let memory = Shared::of_records(records);
    let log = DeterminantLog::new(memory.clone()).unwrap();
    (memory, log)
}

use DeterminantKind::{Any, Iprobe, Probe, Test};

#[test]
fn answers_come_again_and_then_the_present_decides() {
    let (memory, mut log) = log(8);
    let restored = image(&log);
    assert_eq!(log.answer(Test, None), Ok(None));
    assert_eq!(log.answer(Any, Some([3, 0, 0])), Ok(Some([3, 0, 0])));
    assert_eq!(log.answer(Test, None), Ok(None));
    drop(log);

    let mut log = restored;
    log.replay_from(memory).unwrap();
    assert!(log.is_replaying());
    // What the present says does not count.
    assert_eq!(log.recorded(Test), Ok(Recorded::No));
    assert_eq!(log.answer(Test, Some([1, 0, 0])), Ok(None));
    assert_eq!(log.recorded(Any), Ok(Recorded::Yes([3, 0, 0])));
    assert_eq!(log.answer(Any, None), Ok(Some([3, 0, 0])));
    assert_eq!(log.answer(Test, Some([1, 0, 0])), Ok(None));
    assert!(!log.is_replaying());
    assert_eq!(log.recorded(Test), Ok(Recorded::Live));
    assert_eq!(log.answer(Test, Some([1, 0, 0])), Ok(Some([1, 0, 0])));
    assert_eq!((log.answers(), log.position()), (4, 2));
}

#[test]
fn an_answer_of_another_kind_is_refused() {
    let (memory, mut log) = log(2);
    let mut restored = image(&log);
    log.answer(Any, Some([1, 0, 0])).unwrap();
    restored.replay_from(memory).unwrap();
    let error = DeterminantError::OtherKind {
        number: 0,
        asked: Probe,
        recorded: Any,
    };
    assert_eq!(restored.recorded(Probe), Err(error.clone()));
    assert_eq!(restored.answer(Probe, None), Err(error));
    assert_eq!(restored.answer(Any, None), Ok(Some([1, 0, 0])));
}

#[test]
fn a_process_may_die_between_a_record_and_its_counter() {
    let (mut memory, mut log) = log(4);
    let mut restored = image(&log);
    log.answer(Iprobe, Some([7, 8, 0])).unwrap();
    log.sent(Some(5)).unwrap();
    memory.store(ANSWERS, 0);
    memory.store(SENDS, 0);
    restored.replay_from(memory.clone()).unwrap();
    assert_eq!(restored.answer(Iprobe, None), Ok(Some([7, 8, 0])));
    assert_eq!(restored.send_turn(), SendTurn::Task(5));
    restored.sent(Some(5)).unwrap();
    assert_eq!((memory.load(ANSWERS), memory.load(SENDS)), (1, 1));
    assert!(!restored.is_replaying());
}

#[test]
fn matches_are_found_by_receive() {
    let (memory, mut log) = log(4);
    let mut restored = image(&log);
    log.matched(2, 5, -1).unwrap();
    log.matched(0, 3, i32::MAX).unwrap();
    restored.replay_from(memory).unwrap();
    assert_eq!(restored.match_of(0), Some((3, i32::MAX)));
    assert_eq!(restored.match_of(1), None);
    assert_eq!(restored.match_of(2), Some((5, -1)));
    restored.matched(0, 3, i32::MAX).unwrap();
    // Receive 1 had no message: its first one counts.
    restored.matched(1, 9, 9).unwrap();
    assert!(restored.is_replaying());
    let diverged = restored.matched(2, 4, -1).unwrap_err();
    assert!(matches!(
        diverged,
        DeterminantError::Diverged { number: 2, .. }
    ));
    assert_eq!(restored.position(), 3);
}

#[test]
fn cancellations_are_found_by_operation() {
    let (memory, mut log) = log(4);
    let mut restored = image(&log);
    log.cancelled(4, true).unwrap();
    log.cancelled(2, false).unwrap();
    restored.replay_from(memory).unwrap();
    let of = |n| restored.cancel_of(n);
    assert_eq!((of(2), of(3), of(4)), (Some(false), None, Some(true)));
    restored.cancelled(4, true).unwrap();
    restored.cancelled(2, true).unwrap_err();
    restored.cancelled(3, true).unwrap();
    assert!(!restored.is_replaying());
}

#[test]
fn sends_are_issued_in_their_order() {
    let (memory, mut log) = log(4);
    let mut restored = image(&log);
    for task in [None, Some(1), None, Some(0), None] {
        assert_eq!(log.send_turn(), SendTurn::Anyone);
        log.sent(task).unwrap();
    }
    restored.replay_from(memory).unwrap();
    assert_eq!(restored.send_turn(), SendTurn::Program);
    restored.sent(Some(1)).unwrap_err();
    restored.sent(None).unwrap();
    assert_eq!(restored.send_turn(), SendTurn::Task(1));
    restored.sent(None).unwrap_err();
    restored.sent(Some(0)).unwrap_err();
    restored.sent(Some(1)).unwrap();
    restored.sent(None).unwrap();
    restored.sent(Some(0)).unwrap();
    // The last one has no record after it, and was the program's all the same.
    assert_eq!(restored.send_turn(), SendTurn::Program);
    restored.sent(None).unwrap();
    assert_eq!(restored.send_turn(), SendTurn::Anyone);
    assert_eq!((restored.sends(), restored.is_replaying()), (5, false));
}

/// The process dies within an attempt to send, or the attempt fails and a task sends first.
#[test]
fn a_send_that_was_only_tried_is_repeated_by_the_program_or_not_counted() {
    let (memory, mut log) = log(4);
    let (tried, failed) = (image(&log), image(&log));
    log.set_tasks();
    assert!(log.count_live_send() && log.count_live_send());
    let left = Shared(Rc::new(RefCell::new(memory.0.borrow().clone())));
    log.withdraw_live_send();
    log.sent(Some(0)).unwrap();
    drop(log);

    let mut log = tried;
    log.replay_from(left).unwrap();
    for _ in 0..2 {
        assert!(!log.count_live_send(), "whose turn it is must be asked");
        log.sent(Some(0)).unwrap_err();
        log.sent(None).unwrap();
    }
    assert!(log.count_live_send());

    let mut log = failed;
    log.replay_from(memory).unwrap();
    log.sent(None).unwrap();
    assert_eq!(log.send_turn(), SendTurn::Task(0));
}

#[test]
fn a_full_ring_takes_records_again_after_a_release() {
    let (memory, mut log) = log(3);
    for i in 0..3 {
        log.answer(Any, Some([i, 0, 0])).unwrap();
    }
    assert!(log.is_full() && log.is_half_full());
    let full = Err(DeterminantError::Full { records: 3 });
    assert_eq!(log.answer(Any, Some([3, 0, 0])), full);
    assert_eq!(log.sent(Some(1)), full.clone().map(drop));
    assert_eq!(log.matched(0, 1, 1), full.map(drop));
    assert_eq!((log.answers(), log.sends(), log.position()), (3, 0, 3));
    // A no needs no record.
    assert_eq!(log.answer(Any, None), Ok(None));
    let mut restored = image(&log);
    log.release(2).unwrap();
    assert_eq!(log.room(), 2);
    log.answer(Any, Some([4, 0, 0])).unwrap();
    log.answer(Any, Some([5, 0, 0])).unwrap();
    assert!(log.is_full());
    assert!(log.release(6).is_err());
    restored.replay_from(memory).unwrap();
    assert_eq!(restored.answer(Any, None), Ok(Some([4, 0, 0])));
    assert_eq!(restored.answer(Any, None), Ok(Some([5, 0, 0])));
}

#[test]
fn an_image_whose_records_are_gone_is_refused() {
    let (memory, mut log) = log(3);
    let mut restored = image(&log);
    log.answer(Any, Some([0; 3])).unwrap();
    log.release(1).unwrap();
    let gone = DeterminantError::OutOfRange {
        first: 1,
        end: 1,
        position: 0,
    };
    assert_eq!(restored.replay_from(memory.clone()), Err(gone));
    // An image later than the memory.
    let (_, mut later) = self::log(3);
    later.answer(Any, Some([0; 3])).unwrap();
    later.answer(Any, Some([0; 3])).unwrap();
    assert!(later.replay_from(memory).is_err());
}

#[test]
fn an_image_of_a_replay_continues_that_replay() {
    let (memory, mut log) = log(4);
    let mut restored = image(&log);
    log.answer(Any, Some([1; 3])).unwrap();
    log.answer(Any, Some([2; 3])).unwrap();
    restored.replay_from(memory.clone()).unwrap();
    restored.answer(Any, None).unwrap();
    let mut again = image(&restored);
    restored.answer(Any, None).unwrap();
    restored.answer(Any, Some([3; 3])).unwrap();
    again.replay_from(memory.clone()).unwrap();
    assert_eq!((memory.load(ANSWERS), again.position()), (3, 3));
    assert_eq!(again.answer(Any, None), Ok(Some([2; 3])));
    assert_eq!(again.answer(Any, None), Ok(Some([3; 3])));
    assert_eq!(again.recorded(Any), Ok(Recorded::Live));
    let gone = again.replay_from(Shared::of_records(3));
    assert!(matches!(gone, Err(DeterminantError::Resized { .. })));
}

#[test]
fn forged_memory_is_refused() {
    let with = |word: usize, value: u64| {
        let (mut memory, mut log) = log(4);
        log.answer(Any, Some([1; 3])).unwrap();
        let mut restored = image(&log);
        log.answer(Any, Some([2; 3])).unwrap();
        log.sent(Some(1)).unwrap();
        memory.store(word, value);
        restored.replay_from(memory)
    };
    assert_eq!(with(5, 99), Ok(()));
    let found = 7;
    assert_eq!(with(0, found), Err(DeterminantError::Magic { found }));
    for (word, value) in [
        (END, 0),
        (END, 6),
        (END, u64::MAX),
        (FIRST, 2),
        (FIRST, u64::MAX),
        (ANSWERS, 0),
        (CUT, 9),
        (SENDS, u64::MAX),
        // Beyond both counters: record 2 is a send, record 1 an answer.
        (HEADER_WORDS + RECORD_WORDS, (Any as u64) << 56 | 9),
        (
            HEADER_WORDS + 2 * RECORD_WORDS,
            (DeterminantKind::TaskSend as u64) << 56 | 9,
        ),
        (HEADER_WORDS + RECORD_WORDS, (Any as u64) << 56),
        (HEADER_WORDS + RECORD_WORDS, 13 << 56),
        (HEADER_WORDS + RECORD_WORDS, 0),
    ] {
        let refused = with(word, value).is_err();
        let beyond = word == SENDS;
        assert_eq!(refused, !beyond, "word {word} = {value:#x}");
    }
    let (_, mut other) = log(4);
    let resized = other.replay_from(Shared::of_records(5));
    assert!(matches!(resized, Err(DeterminantError::Resized { .. })));
    let small = DeterminantLog::new(vec![0; HEADER_WORDS + 3]).unwrap_err();
    assert_eq!(
        small,
        DeterminantError::TooSmall {
            words: HEADER_WORDS + 3
        }
    );
}

#[test]
fn a_record_that_occurs_twice_is_refused() {
    let (mut memory, mut log) = log(4);
    let mut restored = image(&log);
    log.matched(3, 1, 1).unwrap();
    log.matched(4, 1, 1).unwrap();
    memory.store(
        HEADER_WORDS + RECORD_WORDS,
        (DeterminantKind::Match as u64) << 56 | 3,
    );
    let repeated = restored.replay_from(memory).unwrap_err();
    assert!(matches!(
        repeated,
        DeterminantError::Repeated { number: 3, .. }
    ));
    assert!(!restored.is_replaying());
}

#[test]
fn messages_are_packed() {
    for message in [(0, 0), (-1, i32::MIN), (i32::MAX, -2)] {
        assert_eq!(unpack_message(pack_message(message.0, message.1)), message);
    }
}

/// One step of a process. Its results are compared between the first run and the replay.
#[derive(Clone, Debug)]
enum Step {
    Answer(u8, Option<u64>),
    Match(i32),
    Cancel(bool),
    Send(Option<u64>),
    /// No task can send until one starts.
    TasksOver,
    /// An image is taken here, and committed so many steps later.
    Image(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (4..=10u8, proptest::option::of(0..9u64)).prop_map(|(k, v)| Step::Answer(k, v)),
        1 => (0..9i32).prop_map(Step::Match),
        1 => any::<bool>().prop_map(Step::Cancel),
        2 => proptest::option::of(0..3u64).prop_map(Step::Send),
        1 => Just(Step::TasksOver),
        1 => (0..6usize).prop_map(Step::Image),
    ];
    proptest::collection::vec(step, 1..120)
}

/// A process that runs steps, as an image keeps it.
struct Process {
    log: DeterminantLog<Shared>,
    at: usize,
    matches: u64,
    cancels: u64,
}

impl Process {
    fn image(&self) -> Self {
        Self {
            log: image(&self.log),
            ..*self
        }
    }

    /// Runs a step. In a replay the present says the opposite of the first run.
    fn run(&mut self, step: &Step, opposite: bool) -> Result<Option<u64>> {
        self.at += 1;
        match *step {
            Step::Answer(kind, value) => {
                let record = DeterminantRecord::decode([u64::from(kind) << 56, 0, 0, 0]);
                let kind = record.unwrap().kind;
                let live = match (opposite, value) {
                    (false, value) => value,
                    (true, Some(_)) => None,
                    (true, None) => Some(77),
                };
                let answer = self.log.answer(kind, live.map(|v| [v, 0, 0]))?;
                Ok(answer.map(|values| values[0]))
            }
            Step::Match(source) => {
                let number = self.matches;
                self.matches += 1;
                let source = self.log.match_of(number).map_or(source, |found| found.0);
                self.log.matched(number, source, 0)?;
                Ok(Some(source as u64))
            }
            Step::Cancel(cancelled) => {
                let number = self.cancels;
                self.cancels += 1;
                let cancelled = self.log.cancel_of(number).unwrap_or(cancelled);
                self.log.cancelled(number, cancelled)?;
                Ok(Some(cancelled.into()))
            }
            Step::Send(task) => {
                let task = match self.log.send_turn() {
                    SendTurn::Anyone => task,
                    SendTurn::Program => None,
                    SendTurn::Task(task) => Some(task),
                };
                self.log.sent(task)?;
                Ok(task)
            }
            Step::TasksOver => {
                self.log.tasks_over();
                Ok(None)
            }
            Step::Image(_) => Ok(None),
        }
    }
}

proptest! {
    #[test]
    fn a_replay_repeats_all_answers(
        steps in steps(),
        records in 20..60usize,
        deaths in proptest::collection::vec(0..140usize, 0..4),
    ) {
        let memory = Shared::of_records(records);
        let log = DeterminantLog::new(memory.clone()).unwrap();
        let mut process = Process { log, at: 0, matches: 0, cancels: 0 };
        let (mut committed, mut pending) = (process.image(), None);
        let mut told: Vec<Option<u64>> = Vec::new();
        let mut deaths = deaths.into_iter();
        let mut death = deaths.next();
        while process.at < steps.len() {
            if death.is_some_and(|at| at <= process.at) {
                death = deaths.next();
                pending = None;
                process = committed.image();
                process.log.replay_from(memory.clone()).unwrap();
                continue;
            }
            let at = process.at;
            let before = process.image();
            let step = &steps[at];
            match process.run(step, at < told.len()) {
                Ok(answer) if at < told.len() => prop_assert_eq!(answer, told[at]),
                Ok(answer) => told.push(answer),
                // Full: nothing has changed. An image makes room.
                Err(error) => {
                    prop_assert!(matches!(error, DeterminantError::Full { .. }), "{}", error);
                    let log = std::mem::replace(&mut process, before).log;
                    process.log.memory = log.memory;
                    let position = process.log.position();
                    process.log.release(position).unwrap();
                    committed = process.image();
                    pending = None;
                    continue;
                }
            }
            if let (Step::Image(delay), None) = (step, &pending) {
                pending = Some((process.at + delay, process.image()));
            }
            if let Some((_, image)) = pending.take_if(|(due, _)| *due <= process.at) {
                process.log.release(image.log.position()).unwrap();
                committed = image;
            }
        }
        prop_assert_eq!(told.len(), steps.len());
    }

    #[test]
    fn no_memory_makes_a_replay_panic(
        words in proptest::collection::vec(prop_oneof![any::<u64>(), 0..12u64], 40),
        is_log: bool,
    ) {
        let (_, mut log) = log(8);
        let memory = Shared(Rc::new(RefCell::new(words)));
        if is_log {
            memory.clone().store(0, MAGIC);
        }
        if log.replay_from(memory).is_ok() {
            for _ in 0..20 {
                let _ = log.answer(Test, None);
                let _ = log.sent(None);
            }
        }
    }
}
