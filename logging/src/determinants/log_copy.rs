//! Copies of a log, which outlive the host of its memory.
//!
//! The manager of a rank reads a [`LogPart`] out of the memory: what is new since the last one.
//! The keeper of the copy adds it to its [`CopiedLog`]. When the rank is to continue on another
//! host, the copy is written into memory there, and the rank's process replays from that as from
//! the memory of its former host. An image may be newer than the copy. It needs nothing of it then.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::determinant_record::{DeterminantKind, DeterminantRecord, RECORD_WORDS};
use super::log_cut;
use super::log_layout::{ANSWERS, COPIED, END, FIRST, MAGIC, SENDS, capacity, place};
use super::{DeterminantError, LogMemory};

/// Most reads of the counters until two of them agree.
const MOST_READS: u32 = 1000;

/// Words of a record.
pub type RecordWords = [u64; RECORD_WORDS];

/// A part of a log: records that follow each other, and the counters when they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogPart {
    /// Number of the first record that the log still held.
    pub first: u64,
    /// Number of the first record of this part.
    pub from: u64,
    /// Number of answers given.
    pub answers: u64,
    /// Number of sends whose order matters, because tasks of the program could send, too.
    pub sends: u64,
    /// The records.
    pub records: Vec<RecordWords>,
}

impl LogPart {
    /// What a log's memory has from the record of this number on, of those that it holds. Its owner
    /// may write meanwhile.
    ///
    /// # Errors
    /// The memory is no log.
    pub fn read(memory: &impl LogMemory, from: u64) -> Result<LogPart, DeterminantError> {
        let capacity = capacity(memory)?;
        let found = memory.load(0);
        if found != MAGIC {
            return Err(DeterminantError::Magic { found });
        }
        // A record is written before the counters that cover it. They are of one moment.
        let mut read = log_cut::counters(memory)?;
        for _ in 0..MOST_READS {
            let before = std::mem::replace(&mut read, log_cut::counters(memory)?);
            if before == read {
                break;
            }
        }
        let log_cut::LogCounters {
            end,
            mut answers,
            mut sends,
        } = read;
        let first = memory.load(FIRST);
        if end.checked_sub(first).is_none_or(|held| held > capacity) {
            let position = from;
            return Err(DeterminantError::OutOfRange {
                first,
                end,
                position,
            });
        }
        // A log that was begun anew has fewer than were read before.
        let from = if from > end { first } else { from.max(first) };
        let record = |index| {
            let at = place(capacity, index);
            std::array::from_fn(|word| memory.load(at + word))
        };
        let records: Vec<RecordWords> = (from..end).map(record).collect();
        // Those that came while this was read have all records before them.
        for record in records
            .iter()
            .copied()
            .filter_map(DeterminantRecord::decode)
        {
            let given = record.number.saturating_add(1);
            match record.kind {
                DeterminantKind::TaskSend => sends = sends.max(given),
                kind if kind.is_answer() => answers = answers.max(given),
                _ => {}
            }
        }
        Ok(LogPart {
            first,
            from,
            answers,
            sends,
            records,
        })
    }

    /// The mark of a log that has this part and what precedes it.
    #[must_use]
    pub fn mark(&self) -> u64 {
        let counted = self.answers.saturating_add(self.sends);
        self.end().saturating_add(counted)
    }

    /// Adds the part that follows this one: what was read at one moment came in several.
    ///
    /// # Errors
    /// The part does not follow this one, and is given back.
    pub fn extend(&mut self, next: LogPart) -> Result<(), LogPart> {
        if next.from != self.end() {
            return Err(next);
        }
        let (from, mut records) = (self.from, std::mem::take(&mut self.records));
        records.extend(&next.records);
        *self = LogPart {
            from,
            records,
            ..next
        };
        Ok(())
    }

    /// The number of the record after the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.from.saturating_add(self.records.len() as u64)
    }

    /// This part as parts of so many records at most, one at least.
    pub fn chunks(self, most: usize) -> impl Iterator<Item = LogPart> {
        let count = self.records.len().div_ceil(most.max(1)).max(1);
        (0..count).map(move |chunk| {
            let start = chunk * most;
            let end = (start + most).min(self.records.len());
            LogPart {
                from: self.from + start as u64,
                records: self.records[start..end].to_vec(),
                ..LogPart {
                    records: Vec::new(),
                    ..self
                }
            }
        })
    }

    /// Writes this part into empty memory, as a log for [`super::DeterminantLog::replay_from`].
    ///
    /// # Errors
    /// The memory is too small.
    pub fn write(&self, memory: &mut impl LogMemory) -> Result<(), DeterminantError> {
        let capacity = capacity(memory)?;
        if self.records.len() as u64 > capacity {
            return Err(DeterminantError::Full { records: capacity });
        }
        for (index, record) in (self.from..).zip(&self.records) {
            let at = place(capacity, index);
            for (word, value) in record.iter().enumerate() {
                memory.store(at + word, *value);
            }
        }
        memory.store(END, self.end());
        memory.store(FIRST, self.from);
        memory.store(ANSWERS, self.answers);
        memory.store(SENDS, self.sends);
        memory.store(COPIED, 1);
        memory.store(0, MAGIC);
        Ok(())
    }
}

/// A copy of a log, made of its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CopiedLog {
    first: u64,
    answers: u64,
    sends: u64,
    records: VecDeque<RecordWords>,
}

impl CopiedLog {
    /// Adds a part. It replaces what the copy had from there on.
    ///
    /// # Errors
    /// Records between the copy and the part are missing. The copy is as before then.
    pub fn add(&mut self, part: &LogPart) -> Result<(), DeterminantError> {
        let end = self.first + self.records.len() as u64;
        let is_next = part.from <= end && part.from >= self.first;
        // The log holds nothing before it.
        let is_all = part.from == part.first;
        if !is_next && !is_all {
            return Err(DeterminantError::OutOfRange {
                first: self.first,
                end,
                position: part.from,
            });
        }
        if is_next {
            self.records.truncate((part.from - self.first) as usize);
        } else {
            self.records.clear();
            self.first = part.from;
        }
        self.records.extend(&part.records);
        while self.first < part.first && self.records.pop_front().is_some() {
            self.first += 1;
        }
        (self.answers, self.sends) = (part.answers, part.sends);
        Ok(())
    }

    /// All that the copy has.
    #[must_use]
    pub fn whole(&self) -> LogPart {
        LogPart {
            first: self.first,
            from: self.first,
            answers: self.answers,
            sends: self.sends,
            records: self.records.iter().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DeterminantLog, Recorded};
    use super::*;

    type Memory = Vec<u64>;

    fn empty() -> Memory {
        vec![0; 16 + 4 * 8]
    }

    fn answer(log: &mut DeterminantLog<Memory>, value: u64) {
        let values = Some([value, 0, 0]);
        let given = log.answer(DeterminantKind::Test, values);
        assert_eq!(given.expect("room"), values);
    }

    #[test]
    fn a_log_continues_from_a_copy_of_its_parts() {
        let mut log = DeterminantLog::new(empty()).expect("a log");
        let (mut copy, mut read) = (CopiedLog::default(), 0);
        let image = log.clone();
        for round in 0..5 {
            answer(&mut log, round);
            log.answer(DeterminantKind::Test, None).expect("no");
            let part = LogPart::read(log.memory(), read).expect("a part");
            assert_eq!(part.records.len(), 1);
            read = part.end();
            copy.add(&part).expect("the next part");
        }
        let mut memory = empty();
        copy.whole().write(&mut memory).expect("room");
        let mut restored = image;
        restored.replay_from(memory).expect("the log");
        for round in 0..5 {
            let recorded = restored.recorded(DeterminantKind::Test).expect("a test");
            assert_eq!(recorded, Recorded::Yes([round, 0, 0]));
            answer(&mut restored, round);
            let no = restored.answer(DeterminantKind::Test, Some([9, 9, 9]));
            assert_eq!(no.expect("a test"), None);
        }
        assert!(!restored.is_replaying());
        answer(&mut restored, 7);
        assert_eq!(restored.position(), 6);
    }

    #[test]
    fn what_images_have_leaves_the_copy_with_the_next_part() {
        let mut log = DeterminantLog::new(empty()).expect("a log");
        let mut copy = CopiedLog::default();
        (0..3).for_each(|value| answer(&mut log, value));
        copy.add(&LogPart::read(log.memory(), 0).expect("a part"))
            .expect("the first part");
        log.release(2).expect("an image");
        answer(&mut log, 3);
        let part = LogPart::read(log.memory(), 3).expect("a part");
        copy.add(&part).expect("the next part");
        let whole = copy.whole();
        let mut chunks = CopiedLog::default();
        for chunk in whole.clone().chunks(1) {
            chunks.add(&chunk).expect("the next part");
        }
        assert_eq!(chunks, copy);
        assert_eq!(LogPart::default().chunks(3).count(), 1);
        assert_eq!((whole.first, whole.from, whole.end()), (2, 2, 4));
        // A part that came twice, one that lacks something, and a log that holds nothing earlier.
        copy.add(&part).expect("the same part");
        assert_eq!(copy.whole(), whole);
        let later = LogPart {
            from: 9,
            ..part.clone()
        };
        assert!(copy.add(&later).is_err());
        assert_eq!(copy.whole(), whole);
        let all = LogPart { first: 9, ..later };
        copy.add(&all).expect("all that there is");
        assert_eq!(copy.whole(), all);
    }

    #[test]
    fn a_log_that_has_less_than_was_read_before_is_read_from_its_first_record() {
        let mut log = DeterminantLog::new(empty()).expect("a log");
        (0..3).for_each(|value| answer(&mut log, value));
        let mut copy = CopiedLog::default();
        let read = LogPart::read(log.memory(), 0).expect("a part");
        copy.add(&read).expect("the first part");
        let mut log = DeterminantLog::new(empty()).expect("a log that was begun anew");
        answer(&mut log, 7);
        answer(&mut log, 8);
        let part = LogPart::read(log.memory(), read.end()).expect("a part");
        assert_eq!((part.first, part.from, part.end()), (0, 0, 2));
        copy.add(&part).expect("all that there is");
        assert_eq!(copy.whole(), part);
    }

    #[test]
    fn an_image_that_is_newer_than_the_copy_needs_nothing_of_it() {
        let mut log = DeterminantLog::new(empty()).expect("a log");
        let mut copy = CopiedLog::default();
        answer(&mut log, 1);
        copy.add(&LogPart::read(log.memory(), 0).expect("a part"))
            .expect("the first part");
        answer(&mut log, 2);
        answer(&mut log, 3);
        let mut memory = empty();
        copy.whole().write(&mut memory).expect("room");
        log.replay_from(memory).expect("an older copy");
        assert!(!log.is_replaying());
        assert_eq!((log.position(), log.answers(), log.room()), (3, 3, 8));
        answer(&mut log, 4);
        let part = LogPart::read(log.memory(), 3).expect("a part");
        assert_eq!((part.records.len(), part.answers), (1, 4));
        // That is so for a copy only.
        let mut short = empty();
        short[0] = MAGIC;
        assert!(log.replay_from(short).is_err());
    }

    #[test]
    fn memory_that_is_no_log_gives_no_part() {
        assert!(LogPart::read(&empty(), 0).is_err());
        assert!(LogPart::read(&vec![0; 4], 0).is_err());
        let mut forged = empty();
        (forged[0], forged[END]) = (MAGIC, u64::MAX);
        assert!(LogPart::read(&forged, 0).is_err());
    }
}
