//! Copies of a receive log, which outlive the host of its memory.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::logged_message::LoggedReceive;
use super::receive_layout::{COPIED, END, FIRST, HEADER_WORDS, LIFE, MAGIC, capacity, place};
use super::receive_log_error::ReceiveLogError;
use crate::determinants::LogMemory;

/// A part of a receive log: words of its messages that follow each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReceivedPart {
    /// Which process has begun the log.
    pub life: u64,
    /// How many words the log did not hold any more.
    pub first: u64,
    /// Number of the first word of this part.
    pub from: u64,
    /// The words.
    pub words: Vec<u64>,
}

impl ReceivedPart {
    /// At most `most` words of a log's memory, from this one on and below `end`, of those that it
    /// holds. Its owner may append meanwhile.
    ///
    /// # Errors
    /// The memory is no log.
    pub fn read(
        memory: &impl LogMemory,
        from: u64,
        end: u64,
        most: usize,
    ) -> Result<Self, ReceiveLogError> {
        let ring = capacity(memory)?;
        let found = memory.load(0);
        if found != MAGIC {
            return Err(ReceiveLogError::Magic { found });
        }
        let (first, written) = (memory.load(FIRST), memory.load(END));
        let held = written.checked_sub(first);
        if held.is_none_or(|held| held > ring) || end > written {
            let position = end;
            return Err(ReceiveLogError::OutOfRange {
                first,
                end: written,
                position,
            });
        }
        // A log that was begun anew has fewer than were read before.
        let from = if from > written {
            first
        } else {
            from.max(first)
        };
        let end = end.max(from).min(from.saturating_add(most as u64));
        let words = (from..end).map(|number| memory.load(place(ring, number)));
        Ok(Self {
            life: memory.load(LIFE),
            first,
            from,
            words: words.collect(),
        })
    }

    /// The number of the word after the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.from.saturating_add(self.words.len() as u64)
    }

    /// Writes this part into memory, which has the parts before it: together they are a log for
    /// [`super::ReceiveLog::reopen`].
    ///
    /// # Errors
    /// The memory is too small. Nothing was written.
    pub fn write(&self, memory: &mut impl LogMemory) -> Result<(), ReceiveLogError> {
        let ring = capacity(memory)?;
        if self.words.len() as u64 > ring {
            return Err(ReceiveLogError::TooSmall {
                words: HEADER_WORDS + ring as usize,
            });
        }
        for (number, word) in (self.from..).zip(&self.words) {
            memory.store(place(ring, number), *word);
        }
        memory.store(END, self.end());
        memory.store(FIRST, self.first);
        memory.store(LIFE, self.life);
        memory.store(COPIED, 1);
        memory.store(0, MAGIC);
        Ok(())
    }

    /// Ends a log that was made of parts at its last whole message: the last part may end within
    /// one. Returns that end.
    ///
    /// # Errors
    /// The memory is no log.
    pub fn end_at_message(memory: &mut impl LogMemory) -> Result<u64, ReceiveLogError> {
        let ring = capacity(memory)?;
        let (first, end) = (memory.load(FIRST), memory.load(END));
        if end.checked_sub(first).is_none_or(|held| held > ring) {
            return Err(ReceiveLogError::OutOfRange {
                first,
                end,
                position: first,
            });
        }
        let mut at = first;
        let load = |number| memory.load(place(ring, number));
        while let Some(words) = LoggedReceive::length(load, at..end) {
            at += words;
        }
        memory.store(END, at);
        Ok(at)
    }
}

/// A copy of a receive log, made of its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CopiedReceives {
    life: u64,
    first: u64,
    words: VecDeque<u64>,
}

impl CopiedReceives {
    /// Adds a part. It replaces what the copy had from there on, or all if another process of the
    /// rank has begun the log.
    ///
    /// # Errors
    /// Words between the copy and the part are missing. The copy is as before then.
    pub fn add(&mut self, part: &ReceivedPart) -> Result<(), ReceiveLogError> {
        let end = self.end();
        let is_next = self.life == part.life && (self.first..=end).contains(&part.from);
        // The log holds nothing before it.
        if !is_next && part.from != part.first {
            return Err(ReceiveLogError::OutOfRange {
                first: self.first,
                end,
                position: part.from,
            });
        }
        if is_next {
            self.words.truncate((part.from - self.first) as usize);
        } else {
            self.words.clear();
            self.first = part.from;
        }
        self.life = part.life;
        self.words.extend(&part.words);
        let needless = part.first.saturating_sub(self.first);
        let needless = needless.min(self.words.len() as u64);
        self.words.drain(..needless as usize);
        self.first += needless;
        // Much was held at a time, and is not any more.
        if self.words.capacity() > 4 * self.words.len().max(1024) {
            self.words.shrink_to(2 * self.words.len());
        }
        Ok(())
    }

    /// The number of the word after the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first + self.words.len() as u64
    }

    /// All that the copy has, in parts of so many words at most, one at least.
    pub fn parts(&self, most: usize) -> impl Iterator<Item = ReceivedPart> {
        let count = self.words.len().div_ceil(most.max(1)).max(1);
        (0..count).map(move |part| {
            let start = part * most;
            let end = (start + most).min(self.words.len());
            ReceivedPart {
                life: self.life,
                first: self.first,
                from: self.first + start as u64,
                words: self.words.range(start..end).copied().collect(),
            }
        })
    }
}
