//! The dependencies of a rank, and the end of its log before one that is lost.

use std::collections::BTreeMap;

use rejoin_channel_table::ids::{Incarnation, Rank};

use super::determinant_record::DeterminantRecord;
use super::log_cut;
use super::log_layout::{END, FIRST, capacity, place};
use super::{Dependency, DeterminantError, IncarnationEnds, LogMemory};

impl Dependency {
    /// Ends a log that was opened again before the first dependency that was lost, of those from
    /// the record of this index on. Returns that dependency. Whoever uses the log ends then.
    ///
    /// # Errors
    /// The memory is too small for a log.
    pub fn cut(
        memory: &mut impl LogMemory,
        position: u64,
        ends: &IncarnationEnds,
    ) -> Result<Option<Dependency>, DeterminantError> {
        let capacity = capacity(memory)?;
        log_cut::complete(memory)?;
        let (first, end) = (memory.load(FIRST), memory.load(END));
        // Whoever opens the log refuses one whose counters are impossible.
        let from = first.max(position).max(end.saturating_sub(capacity));
        for index in from..end {
            let at = place(capacity, index);
            let words = std::array::from_fn(|word| memory.load(at + word));
            let Some(record) = DeterminantRecord::decode(words) else {
                continue;
            };
            let Some(lost) = Dependency::of(&record).filter(|on| !ends.has(on)) else {
                continue;
            };
            log_cut::begin(memory, index);
            log_cut::complete(memory)?;
            return Ok(Some(lost));
        }
        Ok(None)
    }
}

/// The dependencies of one rank: of each incarnation of another rank the last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dependencies(BTreeMap<(Rank, Incarnation), u64>);

impl Dependencies {
    /// Adds one.
    pub fn add(&mut self, on: Dependency) {
        let mark = self.0.entry((on.rank, on.incarnation)).or_default();
        *mark = on.mark.max(*mark);
    }

    /// Whether another one contains it.
    #[must_use]
    pub fn contains(&self, on: &Dependency) -> bool {
        let mark = self.0.get(&(on.rank, on.incarnation));
        mark.is_some_and(|mark| *mark >= on.mark)
    }

    /// A dependency that was lost, if the rank is an orphan.
    #[must_use]
    pub fn lost(&self, ends: &IncarnationEnds) -> Option<Dependency> {
        let mut all = self.0.iter().map(|(of, mark)| Dependency {
            rank: of.0,
            incarnation: of.1,
            mark: *mark,
        });
        all.find(|on| !ends.has(on))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DeterminantKind, DeterminantLog, LogPart, Recorded};
    use super::*;

    fn on(rank: u32, mark: u64) -> Dependency {
        Dependency {
            rank: Rank(rank),
            incarnation: Incarnation(0),
            mark,
        }
    }

    fn log() -> DeterminantLog<Vec<u64>> {
        DeterminantLog::new(vec![0; 16 + 4 * 8]).expect("a log")
    }

    fn answer(log: &mut DeterminantLog<Vec<u64>>, value: Option<u64>) {
        let values = value.map(|value| [value, 0, 0]);
        log.answer(DeterminantKind::Test, values).expect("room");
    }

    #[test]
    fn a_log_ends_before_the_dependency_that_was_lost() {
        let mut log = log();
        let image = log.clone();
        log.set_tasks();
        answer(&mut log, Some(1));
        log.sent(None).expect("a send");
        log.depends(on(1, 5)).expect("room");
        answer(&mut log, None);
        let before = log.mark();
        log.depends(on(1, 7)).expect("room");
        assert_eq!(log.mark(), before + 1);
        answer(&mut log, Some(2));
        log.sent(None).expect("a send");

        let mut ends = IncarnationEnds::default();
        ends.note(Rank(1), Incarnation(0), 6);
        let mut memory = log.memory().clone();
        assert_eq!(Dependency::cut(&mut memory, 0, &ends), Ok(Some(on(1, 7))));
        assert_eq!(Dependency::cut(&mut memory, 0, &ends), Ok(None));
        let mut restored = image;
        restored.replay_from(memory).expect("the log");
        assert_eq!(restored.mark(), before);
        assert_eq!(restored.take_dependencies(), [on(1, 5)]);
        answer(&mut restored, Some(9));
        answer(&mut restored, Some(9));
        let next = restored.recorded(DeterminantKind::Test);
        assert_eq!(next, Ok(Recorded::Live));
    }

    #[test]
    fn sends_count_up_to_the_last_one_beside_a_task() {
        let mut log = log();
        let image = log.clone();
        let program = |log: &mut DeterminantLog<Vec<u64>>, count| {
            (0..count).for_each(|_| assert!(log.count_live_send()));
        };
        program(&mut log, 3);
        assert_eq!(log.mark(), 0, "all are the program's");
        log.depends(on(1, 5)).expect("room");
        program(&mut log, 4);
        let told = log.mark();
        log.set_tasks();
        log.sent(Some(0)).expect("a send");
        log.tasks_over();
        let beside = log.mark();
        program(&mut log, 10);
        assert_eq!(log.mark(), beside, "no task can be meant");
        assert_eq!(beside, told + 1 + 8);

        // What came after the dependency does not count as kept.
        let mut ends = IncarnationEnds::default();
        ends.note(Rank(1), Incarnation(0), 4);
        let mut memory = log.memory().clone();
        assert_eq!(Dependency::cut(&mut memory, 0, &ends), Ok(Some(on(1, 5))));
        let mut restored = image.clone();
        restored.replay_from(memory).expect("the log");
        assert_eq!(restored.mark(), 0);

        let mut restored = image;
        restored.replay_from(log.memory().clone()).expect("the log");
        assert_eq!(restored.mark(), beside);
        for _ in 0..7 {
            assert!(!restored.count_live_send(), "a task's send is to come");
            restored.sent(None).expect("the program's");
        }
        restored.set_tasks();
        restored.sent(Some(0)).expect("the task's");
        restored.tasks_over();
        assert!(restored.count_live_send() && !restored.is_replaying());
        assert_eq!(restored.mark(), beside);
    }

    #[test]
    fn a_cut_that_was_begun_is_completed_by_whoever_reads_next() {
        let mut log = log();
        let image = log.clone();
        answer(&mut log, Some(1));
        log.depends(on(1, 5)).expect("room");
        (0..3).for_each(|value| answer(&mut log, Some(value)));
        let mut memory = log.memory().clone();
        log_cut::begin(&mut memory, 1);
        let part = LogPart::read(&memory, 0).expect("a part");
        assert_eq!((part.end(), part.answers, part.mark()), (1, 1, 2));
        let mut restored = image;
        restored.replay_from(memory.clone()).expect("the log");
        assert_eq!((restored.mark(), restored.position()), (2, 1));
        assert_eq!(LogPart::read(restored.memory(), 0), Ok(part));
        // Forged: no such record.
        log_cut::begin(&mut memory, 77);
        assert!(LogPart::read(&memory, 0).is_err() && log_cut::complete(&mut memory).is_err());
    }

    #[test]
    fn the_last_dependency_on_each_incarnation_counts() {
        let mut all = Dependencies::default();
        [on(1, 5), on(1, 4), on(2, 1)]
            .into_iter()
            .for_each(|on| all.add(on));
        assert!(all.contains(&on(1, 4)) && !all.contains(&on(1, 6)));
        let mut ends = IncarnationEnds::default();
        assert_eq!(all.lost(&ends), None);
        ends.note(Rank(1), Incarnation(0), 5);
        assert_eq!(all.lost(&ends), None);
        ends.note(Rank(1), Incarnation(1), 4);
        assert_eq!(all.lost(&ends), Some(on(1, 5)), "its repetition was lost");
    }

    #[test]
    fn a_record_tells_the_mark_from_which_on_it_is_there() {
        for has_tasks in [false, true] {
            let mut log = log();
            if has_tasks {
                log.set_tasks();
            }
            answer(&mut log, Some(1));
            answer(&mut log, None);
            log.sent(None).expect("a send");
            log.depends(on(3, 4)).expect("room");
            let record = on(3, 4).record(2, has_tasks.into());
            assert_eq!(Dependency::own_mark(&record, 1), log.mark());
        }
    }
}
