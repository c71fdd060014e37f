//! Determinants: the nondeterministic answers of a rank, which outlive it and are repeated after
//! its restore.
//!
//! A [`DeterminantLog`] has two parts. Its *memory* ([`LogMemory`]) outlives the process. Its own
//! fields are in the image of the process, and so know how far the process was when the image was
//! taken. After a restore, all that the memory has beyond that place is repeated
//! ([`DeterminantLog::replay_from`]).
//!
//! Every call whose result depends on timing asks for an *answer*, and answers are numbered. Only
//! the answers that are not *no* have a record. One counter covers the others: an answer without a
//! record, whose number is below the counter, was *no*.
//!
//! The memory is one header and a ring of records of four words. Counters of the header:
//!
//! | word | meaning |
//! |---|---|
//! | 0 | magic number and version |
//! | 1 | number of records ever appended |
//! | 2 | number of the first record that the ring still holds |
//! | 3 | number of answers ever given |
//! | 4 | number of sends up to the last one that a task of the program could have issued |
//! | 5 | 1 if the memory was filled from a copy on another host ([`CopiedLog`]) |
//! | 6 | one more than the number of the record before which the log is being ended |
//! | 8–14 | what the log uses, for those who look on ([`LogUsage`]); no replay needs it |
//!
//! A record is written before the counter of records moves, and that before the counter of answers
//! or of sends. The process can die between any two of these stores.

mod dependencies;
mod dependency;
mod determinant_error;
mod determinant_record;
mod incarnation_ends;
mod log_copy;
mod log_cut;
mod log_layout;
mod log_memory;
mod log_usage;
mod recorded;
mod replay_table;
mod stable_marks;

pub use dependencies::Dependencies;
pub use dependency::Dependency;
pub use determinant_error::DeterminantError;
pub use determinant_record::{DeterminantKind, DeterminantRecord, pack_message, unpack_message};
pub use incarnation_ends::IncarnationEnds;
pub use log_copy::{CopiedLog, LogPart, RecordWords};
pub use log_memory::LogMemory;
pub use log_usage::{LogFigures, LogUsage};
pub use recorded::{Recorded, SendTurn};
pub use stable_marks::{StableMark, StableMarks};

use determinant_record::kind_byte;
use log_layout::{ANSWERS, COPIED, END, FIRST, HEADER_WORDS, MAGIC, SENDS, capacity, place};
use replay_table::ReplayTable;

use rejoin_channel_table::ids::Incarnation;

/// One of so many records is kept free for dependencies and the begins of incarnations.
const KEPT_PART: u64 = 128;

type Result<T, E = DeterminantError> = std::result::Result<T, E>;

/// The determinants of one rank. See the module.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeterminantLog<M> {
    memory: M,
    /// Records that the ring holds at most.
    capacity: u64,
    /// Records that this process has appended or read.
    position: u64,
    /// Number of the next answer.
    answers: u64,
    /// Number of the next send.
    sends: u64,
    /// Tasks of the program may send, too: then it matters whose send each is.
    has_tasks: bool,
    /// Number of sends up to the last one for which it did.
    ordered: u64,
    replay: ReplayTable,
}

impl<M: LogMemory> DeterminantLog<M> {
    /// An empty log. Overwrites the memory's header.
    ///
    /// # Errors
    /// The memory is too small for a record.
    pub fn new(mut memory: M) -> Result<Self> {
        let capacity = capacity(&memory)?;
        for word in 1..HEADER_WORDS {
            memory.store(word, 0);
        }
        memory.store(0, MAGIC);
        Ok(Self {
            memory,
            capacity,
            position: 0,
            answers: 0,
            sends: 0,
            has_tasks: false,
            ordered: 0,
            replay: ReplayTable::default(),
        })
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory, for one who ends the log.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The words of the memory, for tests.
    pub fn memory_words(&self) -> Vec<u64> {
        let words = 0..self.memory.words();
        words.map(|word| self.memory.load(word)).collect()
    }

    /// The process has been restored: `memory` is the log's memory, opened again. Everything in it
    /// beyond this process's position is to be repeated.
    ///
    /// # Errors
    /// The memory is no log, or not the one of this process. The log is as before then.
    pub fn replay_from(&mut self, mut memory: M) -> Result<()> {
        // Whether the rest is a log is looked at next.
        if memory.words() >= HEADER_WORDS {
            log_cut::complete(&mut memory)?;
        }
        self.complete_copy(&mut memory);
        let end = self.end_of(&memory)?;
        // At most as many records as the ring holds.
        let mut replay = self.replay.clone();
        for index in self.position..end {
            let at = place(self.capacity, index);
            let words = std::array::from_fn(|word| memory.load(at + word));
            let record = DeterminantRecord::decode(words).ok_or_else(|| {
                let kind = kind_byte(words[0]);
                DeterminantError::UnknownKind { index, kind }
            })?;
            replay.add(index, record)?;
        }
        let answers = (self.answers, memory.load(ANSWERS));
        replay.limit(answers, (self.sends, memory.load(SENDS)))?;
        (self.memory, self.replay, self.position) = (memory, replay, end);
        Ok(())
    }

    /// Memory that was filled from a copy may lack what the image of this process has.
    fn complete_copy(&self, memory: &mut M) {
        if memory.words() < HEADER_WORDS || memory.load(COPIED) != 1 {
            return;
        }
        let (answers, sends) = self.counted();
        memory.store(ANSWERS, memory.load(ANSWERS).max(answers));
        memory.store(SENDS, memory.load(SENDS).max(sends));
        if memory.load(END) < self.position {
            memory.store(END, self.position);
            memory.store(FIRST, self.position);
        }
        memory.store(COPIED, 0);
    }

    /// The end of the records of memory that was opened again.
    ///
    /// # Errors
    /// The memory is no log, or lacks records that this process needs.
    fn end_of(&self, memory: &M) -> Result<u64> {
        let found = capacity(memory)?;
        if found != self.capacity {
            let expected = self.capacity;
            return Err(DeterminantError::Resized { found, expected });
        }
        let found = memory.load(0);
        if found != MAGIC {
            return Err(DeterminantError::Magic { found });
        }
        let (first, end) = (memory.load(FIRST), memory.load(END));
        let position = self.position;
        let held = end.checked_sub(first);
        let holds = held.is_some_and(|held| held <= self.capacity);
        if !holds || !(first..=end).contains(&position) {
            return Err(DeterminantError::OutOfRange {
                first,
                end,
                position,
            });
        }
        Ok(end)
    }

    /// Whether anything is left to repeat.
    pub fn is_replaying(&self) -> bool {
        self.replay.is_replaying(self.answers, self.sends)
    }

    /// Tasks of the program send from now on, too.
    pub fn set_tasks(&mut self) {
        self.has_tasks = true;
        self.count_send(self.sends);
    }

    /// No task of the program is left that could send.
    pub fn tasks_over(&mut self) {
        self.has_tasks = false;
    }

    /// A number that grows with everything in the memory that a replay may need: all of it is there
    /// up to this number.
    #[inline]
    pub fn mark(&self) -> u64 {
        let (answers, sends) = self.counted();
        self.position + answers + sends
    }

    /// How many answers and sends the memory counts.
    #[inline]
    fn counted(&self) -> (u64, u64) {
        let (answers, sends) = self.replay.known();
        (answers.max(self.answers), sends.max(self.ordered))
    }

    /// What comes from now on depends on determinants of another rank. To be called before anything
    /// that comes with them is recorded.
    ///
    /// # Errors
    /// The log has no room.
    pub fn depends(&mut self, on: Dependency) -> Result<()> {
        let (answers, sends) = self.counted();
        self.keep(&on.record(answers, sends))
    }

    /// Appends a record for which room is kept.
    fn keep(&mut self, record: &DeterminantRecord) -> Result<()> {
        if self.free() == 0 {
            let records = self.capacity;
            return Err(DeterminantError::Full { records });
        }
        self.write(record);
        Ok(())
    }

    /// This incarnation of the rank continues the log, which others may know to be longer: what is
    /// not in it is lost.
    ///
    /// # Errors
    /// The log has no room, not even that which is kept for this.
    pub fn begin(&mut self, incarnation: Incarnation) -> Result<()> {
        let (answers, sends) = self.counted();
        let mark = self.mark();
        self.keep(&DeterminantRecord {
            kind: DeterminantKind::Begin,
            number: answers,
            values: [u64::from(incarnation.0), mark, sends],
        })
    }

    /// Takes the begins of incarnations that [`DeterminantLog::replay_from`] has found: each with
    /// the mark at which the one before it has ended.
    pub fn take_begins(&mut self) -> Vec<(Incarnation, u64)> {
        self.replay.take_begins()
    }

    /// Takes the dependencies that [`DeterminantLog::replay_from`] has found.
    pub fn take_dependencies(&mut self) -> Vec<Dependency> {
        self.replay.take_dependencies()
    }

    /// How far the log is, in records: kept with an image of the process, for
    /// [`DeterminantLog::release`]. What precedes it is in the image.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The image that was taken at `position` is committed: no restore needs the records before
    /// it, and their room is used again.
    ///
    /// # Errors
    /// No image of this process was taken there.
    pub fn release(&mut self, position: u64) -> Result<()> {
        let (first, end) = (self.memory.load(FIRST), self.memory.load(END));
        if position > end {
            return Err(DeterminantError::OutOfRange {
                first,
                end,
                position,
            });
        }
        self.memory.store(FIRST, first.max(position));
        Ok(())
    }

    /// Records that the ring holds at most.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How many more answers fit.
    pub fn room(&self) -> u64 {
        self.free().saturating_sub(self.capacity / KEPT_PART)
    }

    fn free(&self) -> u64 {
        let held = self.position.saturating_sub(self.memory.load(FIRST));
        self.capacity.saturating_sub(held)
    }

    /// Whether no more record fits until a release.
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Whether at most half of the ring is free, so that a checkpoint should be taken soon.
    pub fn is_half_full(&self) -> bool {
        self.room() <= self.capacity / 2
    }

    /// Number of answers that this process has been given.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Number of sends that this process has issued.
    pub fn sends(&self) -> u64 {
        self.sends
    }

    /// Appends a record.
    ///
    /// # Errors
    /// The ring is full.
    fn append(&mut self, record: &DeterminantRecord) -> Result<()> {
        // A dependency may have come since somebody has asked for room.
        if self.free() <= self.capacity / KEPT_PART / 2 {
            let records = self.capacity;
            return Err(DeterminantError::Full { records });
        }
        self.write(record);
        Ok(())
    }

    fn write(&mut self, record: &DeterminantRecord) {
        let at = place(self.capacity, self.position);
        for (word, value) in record.encode().into_iter().enumerate() {
            self.memory.store(at + word, value);
        }
        self.position += 1;
        self.memory.store(END, self.position);
    }

    /// What the log says about the next answer, which a call of `kind` asks for. Nothing changes,
    /// so a wait may ask again and again.
    ///
    /// # Errors
    /// The log has the answer of another kind.
    #[inline]
    pub fn recorded(&self, kind: DeterminantKind) -> Result<Recorded> {
        if !self.replay.replays_answer(self.answers) {
            return Ok(Recorded::Live);
        }
        match self.replay.answer(self.answers) {
            Some(record) if record.kind == kind => Ok(Recorded::Yes(record.values)),
            Some(record) => Err(DeterminantError::OtherKind {
                number: self.answers,
                asked: kind,
                recorded: record.kind,
            }),
            None => Ok(Recorded::No),
        }
    }

    /// Gives the next answer to a call of `kind`: the recorded one, or else `live`, which is then
    /// recorded. `None` is *no*.
    ///
    /// # Errors
    /// The log has the answer of another kind, or no room for this one. No answer is given then.
    pub fn answer(
        &mut self,
        kind: DeterminantKind,
        live: Option<[u64; 3]>,
    ) -> Result<Option<[u64; 3]>> {
        debug_assert!(kind.is_answer(), "{kind} has numbers of its own");
        let number = self.answers;
        let answer = match self.recorded(kind)? {
            Recorded::Yes(values) => {
                self.replay.pass_answer();
                Some(values)
            }
            Recorded::No => None,
            Recorded::Live => {
                if let Some(values) = live {
                    self.append(&DeterminantRecord {
                        kind,
                        number,
                        values,
                    })?;
                }
                live
            }
        };
        self.answers = number + 1;
        // The memory is ahead while answers are repeated.
        if !self.replay.replays_answer(self.answers) {
            self.memory.store(ANSWERS, self.answers);
        }
        Ok(answer)
    }

    /// The source and the tag of the message that the receive with a wildcard of this number was
    /// matched with, if the log knows it.
    pub fn match_of(&self, receive: u64) -> Option<(i32, i32)> {
        self.replay.match_of(receive)
    }

    /// Takes the matches that are to be repeated: receive, source and tag. Their taker repeats
    /// them, and reports only others ([`DeterminantLog::matched`]).
    pub fn take_matches(&mut self) -> impl Iterator<Item = (u64, i32, i32)> + use<M> {
        let matches = self.replay.take_matches();
        let flat = |(receive, (source, tag))| (receive, source, tag);
        matches.into_iter().map(flat)
    }

    /// The receive with a wildcard of this number is matched with a message: before anything
    /// depends on it.
    ///
    /// # Errors
    /// The log has another message for this receive, or no room.
    pub fn matched(&mut self, receive: u64, source: i32, tag: i32) -> Result<()> {
        let repeated = (source, tag);
        let kind = DeterminantKind::Match;
        match self.replay.pass_match(receive) {
            Some(recorded) if recorded == repeated => Ok(()),
            Some(recorded) => Err(diverged(kind, receive, recorded, repeated)),
            None => self.append(&DeterminantRecord {
                kind,
                number: receive,
                values: pack_message(source, tag),
            }),
        }
    }

    /// Whether the operation of this number was cancelled; `None`: that was not decided.
    pub fn cancel_of(&self, operation: u64) -> Option<bool> {
        self.replay.cancel_of(operation)
    }

    /// Takes the decision whether the operation of this number is cancelled.
    ///
    /// # Errors
    /// The log says otherwise, or has no room.
    pub fn cancelled(&mut self, operation: u64, cancelled: bool) -> Result<()> {
        let kind = DeterminantKind::Cancel;
        match self.replay.pass_cancel(operation) {
            Some(recorded) if recorded == cancelled => Ok(()),
            Some(recorded) => Err(diverged(kind, operation, recorded, cancelled)),
            None => self.append(&DeterminantRecord {
                kind,
                number: operation,
                values: [cancelled.into(), 0, 0],
            }),
        }
    }

    /// Who may issue the next send.
    #[inline]
    pub fn send_turn(&self) -> SendTurn {
        if !self.replay.replays_send(self.sends) {
            return SendTurn::Anyone;
        }
        match self.replay.task_of(self.sends) {
            Some(task) => SendTurn::Task(task),
            None => SendTurn::Program,
        }
    }

    /// Counts a send that the program issues itself, before the message can leave. False: sends are
    /// repeated, and [`DeterminantLog::sent`] must find whose turn it is. Nothing is counted then.
    #[inline]
    pub fn count_live_send(&mut self) -> bool {
        let is_live = !self.replay.replays_send(self.sends);
        if is_live {
            self.count_send(self.sends + 1);
        }
        is_live
    }

    /// The send that was counted last was not issued.
    #[inline]
    pub fn withdraw_live_send(&mut self) {
        self.count_send(self.sends - 1);
    }

    /// So many sends were issued. The memory counts them if it matters whose they are.
    #[inline]
    fn count_send(&mut self, sends: u64) {
        self.sends = sends;
        // The memory is ahead while sends are repeated.
        if self.has_tasks && !self.replay.replays_send(sends) {
            self.ordered = sends;
            self.memory.store(SENDS, sends);
        }
    }

    /// The next send is issued by a task, or by the program itself (`None`). To be called before
    /// the message can leave.
    ///
    /// # Errors
    /// The next send is another one's, or the log has no room. No send is counted then.
    pub fn sent(&mut self, task: Option<u64>) -> Result<()> {
        let number = self.sends;
        if task.is_some() && !self.has_tasks {
            self.set_tasks();
        }
        match (self.send_turn(), task) {
            (SendTurn::Anyone, Some(task)) => self.append(&DeterminantRecord {
                kind: DeterminantKind::TaskSend,
                number,
                values: [task, 0, 0],
            })?,
            (SendTurn::Task(recorded), Some(task)) if task == recorded => self.replay.pass_send(),
            (SendTurn::Anyone | SendTurn::Program, None) => {}
            (turn, task) => {
                let repeated = task.map_or(SendTurn::Program, SendTurn::Task);
                return Err(diverged(DeterminantKind::TaskSend, number, turn, repeated));
            }
        }
        self.count_send(number + 1);
        Ok(())
    }
}

#[cold]
fn diverged(
    kind: DeterminantKind,
    number: u64,
    recorded: impl std::fmt::Debug,
    repeated: impl std::fmt::Debug,
) -> DeterminantError {
    DeterminantError::Diverged {
        kind,
        number,
        recorded: format!("{recorded:?}"),
        repeated: format!("{repeated:?}"),
    }
}

#[cfg(test)]
mod tests;
