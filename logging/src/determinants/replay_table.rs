//! The determinants that a restored process has still to repeat.

use std::collections::{BTreeMap, VecDeque};

use rejoin_channel_table::ids::Incarnation;

use super::{Dependency, DeterminantError, DeterminantKind, DeterminantRecord};

/// Records read from a log after a restore. Each leaves the table when the process repeats it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ReplayTable {
    /// In the order of their numbers.
    answers: VecDeque<DeterminantRecord>,
    /// Number of the send, and number of the task; in the order of the sends.
    sends: VecDeque<(u64, u64)>,
    /// Source and tag, by number of the receive.
    matches: BTreeMap<u64, (i32, i32)>,
    /// By number of the operation.
    cancels: BTreeMap<u64, bool>,
    /// On other ranks; nothing repeats them.
    dependencies: Vec<Dependency>,
    /// Incarnations that have continued the log, and the marks at which they did.
    begins: Vec<(Incarnation, u64)>,
    /// All answers before this number were given; those without a record were *no*.
    answers_given: u64,
    /// All sends before this number were issued; those without a record were the program's.
    sends_issued: u64,
}

impl ReplayTable {
    /// Adds a record, which follows all before it.
    ///
    /// # Errors
    /// The numbers of a sequence do not grow, or a match or a cancellation occurs twice.
    pub(super) fn add(
        &mut self,
        index: u64,
        record: DeterminantRecord,
    ) -> Result<(), DeterminantError> {
        let DeterminantRecord {
            kind,
            number,
            values,
        } = record;
        let is_new = match kind {
            DeterminantKind::Match => {
                let message = super::unpack_message(values);
                self.matches.insert(number, message).is_none()
            }
            DeterminantKind::Dependency => {
                self.dependencies.extend(Dependency::of(&record));
                true
            }
            DeterminantKind::Begin => {
                self.begins.push((Incarnation(values[0] as u32), values[1]));
                true
            }
            DeterminantKind::Cancel => self.cancels.insert(number, values[0] != 0).is_none(),
            DeterminantKind::TaskSend => {
                let follows = self.sends.back().is_none_or(|last| last.0 < number);
                self.sends.push_back((number, values[0]));
                follows
            }
            _ => {
                let follows = self.answers.back().is_none_or(|last| last.number < number);
                self.answers.push_back(record);
                follows
            }
        };
        match is_new {
            true => Ok(()),
            false => Err(DeterminantError::Repeated {
                index,
                kind,
                number,
            }),
        }
    }

    /// Notes how many answers were given and how many sends were issued. `answers` and `sends` are
    /// the process's next numbers.
    ///
    /// # Errors
    /// A record has a number that the process has passed, or that was not given yet.
    pub(super) fn limit(
        &mut self,
        (answers, answers_given): (u64, u64),
        (sends, sends_issued): (u64, u64),
    ) -> Result<(), DeterminantError> {
        // A process that dies between a record and its counter leaves one more record.
        let check = |first: Option<u64>, last: Option<u64>, next: u64, given: u64| match first
            .is_none_or(|n| n >= next)
            && last.is_none_or(|n| n <= given)
        {
            true => Ok(()),
            false => Err(DeterminantError::Contradiction { next, given }),
        };
        let number = |record: &DeterminantRecord| record.number;
        let (first, last) = (self.answers.front(), self.answers.back());
        check(first.map(number), last.map(number), answers, answers_given)?;
        // Later sends than those that count are the program's. No answer is.
        check(None, Some(answers), answers, answers_given)?;
        let (first, last) = (self.sends.front(), self.sends.back());
        check(first.map(|s| s.0), last.map(|s| s.0), sends, sends_issued)?;
        self.answers_given = answers_given;
        self.sends_issued = sends_issued;
        Ok(())
    }

    /// Takes all dependencies.
    pub(super) fn take_dependencies(&mut self) -> Vec<Dependency> {
        std::mem::take(&mut self.dependencies)
    }

    /// Takes all begins of incarnations.
    pub(super) fn take_begins(&mut self) -> Vec<(Incarnation, u64)> {
        std::mem::take(&mut self.begins)
    }

    /// Takes all matches.
    pub(super) fn take_matches(&mut self) -> BTreeMap<u64, (i32, i32)> {
        std::mem::take(&mut self.matches)
    }

    /// How many answers and sends were known when the records were read.
    pub(super) fn known(&self) -> (u64, u64) {
        (self.answers_given, self.sends_issued)
    }

    /// Whether anything is left to repeat, for a process with these next numbers.
    pub(super) fn is_replaying(&self, answers: u64, sends: u64) -> bool {
        self.replays_answer(answers)
            || self.replays_send(sends)
            || !self.matches.is_empty()
            || !self.cancels.is_empty()
    }

    /// Whether the answer of this number was given before.
    pub(super) fn replays_answer(&self, number: u64) -> bool {
        !self.answers.is_empty() || number < self.answers_given
    }

    /// Whether it is known who issued the send of this number.
    pub(super) fn replays_send(&self, number: u64) -> bool {
        !self.sends.is_empty() || number < self.sends_issued
    }

    /// The record of an answer.
    pub(super) fn answer(&self, number: u64) -> Option<&DeterminantRecord> {
        self.answers
            .front()
            .filter(|record| record.number == number)
    }

    /// Drops the record that [`ReplayTable::answer`] has found.
    pub(super) fn pass_answer(&mut self) {
        self.answers.pop_front();
    }

    /// The task that issued a send.
    pub(super) fn task_of(&self, send: u64) -> Option<u64> {
        let front = self.sends.front().filter(|front| front.0 == send);
        front.map(|front| front.1)
    }

    /// Drops the record that [`ReplayTable::task_of`] has found.
    pub(super) fn pass_send(&mut self) {
        self.sends.pop_front();
    }

    /// The message of a receive with a wildcard.
    pub(super) fn match_of(&self, receive: u64) -> Option<(i32, i32)> {
        self.matches.get(&receive).copied()
    }

    /// Takes the message of a receive with a wildcard.
    pub(super) fn pass_match(&mut self, receive: u64) -> Option<(i32, i32)> {
        self.matches.remove(&receive)
    }

    /// Whether an operation was cancelled, if that was decided.
    pub(super) fn cancel_of(&self, operation: u64) -> Option<bool> {
        self.cancels.get(&operation).copied()
    }

    /// Takes whether an operation was cancelled.
    pub(super) fn pass_cancel(&mut self, operation: u64) -> Option<bool> {
        self.cancels.remove(&operation)
    }
}
