//! The receive log of a rank: messages of other recovery groups, with their bodies, in memory that
//! outlives the process. A returned rank takes them from there, so their senders need not retain
//! them.
//!
//! A [`ReceiveLog`] has two parts, like a log of determinants. Its *memory* ([`LogMemory`])
//! outlives the process. Its own fields are in the image of the process, and so know how far the
//! log was when the image was taken. After a restore, all messages beyond that place are read
//! ([`ReceiveLog::reopen`]).
//!
//! The memory is a header of eight words and a ring of messages. Words of the header:
//!
//! | word | meaning |
//! |---|---|
//! | 0 | magic number and version |
//! | 1 | words of messages ever appended |
//! | 2 | how many of them the ring does not hold any more |
//! | 3 | 1 if the memory was filled from a copy on another host ([`CopiedReceives`]) |
//! | 4 | which process has begun the log; a copy of an earlier log of the rank says nothing |
//!
//! A message is six words, and then its body, in little-endian words of which the last one is
//! filled up with zeros:
//!
//! | word | meaning |
//! |---|---|
//! | 0 | sender, and above it the sender's incarnation |
//! | 1 | SSN |
//! | 2 | context id, and above it the source in the communicator |
//! | 3 | tag, and above it 1 if the send is synchronous |
//! | 4 | length of the body in bytes |
//! | 5 | mark of the sender's log on which the message depends; 0: on nothing that can be lost |
//!
//! A message is written before the counter of words moves: the process can die between two stores.

mod logged_message;
mod receive_layout;
mod receive_log_error;
mod received_copy;

pub use logged_message::{LoggedReceive, MessageHead};
pub use receive_log_error::ReceiveLogError;
pub use received_copy::{CopiedReceives, ReceivedPart};

use crate::determinants::LogMemory;
use receive_layout::{
    COPIED, END, FIRST, HEAD_WORDS, HEADER_WORDS, LIFE, MAGIC, body_words, capacity, place,
};

type Result<T, E = ReceiveLogError> = std::result::Result<T, E>;

/// The messages that one rank has received of other groups. See the module.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReceiveLog<M> {
    memory: M,
    /// Words of messages that this process has appended or read.
    position: u64,
    /// Words of messages that are needed no more.
    first: u64,
    /// Which process has begun the log.
    life: u64,
}

impl<M: LogMemory> ReceiveLog<M> {
    /// An empty log. Overwrites the memory's header. No other process of the rank that begins a log
    /// has this number.
    ///
    /// # Errors
    /// The memory is too small for a message.
    pub fn new(mut memory: M, life: u64) -> Result<Self> {
        capacity(&memory)?;
        for word in 1..HEADER_WORDS {
            memory.store(word, 0);
        }
        memory.store(LIFE, life);
        memory.store(0, MAGIC);
        Ok(Self {
            memory,
            position: 0,
            first: 0,
            life,
        })
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Words that were appended so far: an image that is taken now has all these messages.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of messages in the ring.
    pub fn held(&self) -> u64 {
        8 * (self.position - self.first)
    }

    /// Whether messages that were appended since this [`ReceiveLog::position`] take more than half
    /// of the ring.
    pub fn is_half_full_since(&self, position: u64) -> bool {
        let ring = (self.memory.words() - HEADER_WORDS) as u64;
        self.position - position.max(self.first) > ring / 2
    }

    /// Appends a message; `false`: there is no room for it, and nothing was written.
    pub fn append(&mut self, head: &MessageHead, body: &[u8]) -> bool {
        let ring = (self.memory.words() - HEADER_WORDS) as u64;
        let words = HEAD_WORDS as u64 + body_words(body.len() as u64);
        if words > ring - (self.position - self.first) {
            return false;
        }
        let head = head.encode(body.len() as u64).map(u64::to_le_bytes);
        let (whole, rest) = body.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let last = if rest.is_empty() { &[][..] } else { &[last] };
        let mut number = self.position;
        for part in [&head, whole, last] {
            self.store_all(ring, number, part);
            number += part.len() as u64;
        }
        self.position = number;
        self.memory.store(END, self.position);
        true
    }

    /// Writes words into the ring, whose end they may pass.
    fn store_all(&mut self, ring: u64, number: u64, words: &[[u8; 8]]) {
        let at = place(ring, number);
        let until_end = HEADER_WORDS + ring as usize - at;
        let (before, after) = words.split_at(words.len().min(until_end));
        self.memory.store_all(at, before);
        self.memory.store_all(HEADER_WORDS, after);
    }

    /// An image that was taken at this [`ReceiveLog::position`] is committed: earlier messages are
    /// needed no more.
    ///
    /// # Errors
    /// The log was never there, or has released more already. Nothing was released.
    pub fn release(&mut self, position: u64) -> Result<()> {
        if !(self.first..=self.position).contains(&position) {
            return Err(ReceiveLogError::OutOfRange {
                first: self.first,
                end: self.position,
                position,
            });
        }
        self.first = position;
        self.memory.store(FIRST, position);
        Ok(())
    }

    /// The process has been restored: `memory` is the log's memory, opened again. Returns the
    /// messages that were logged since the image, each sender's in order; one may be there twice.
    ///
    /// # Errors
    /// The memory is no log, or not the one of this process. The log is as before then.
    pub fn reopen(&mut self, mut memory: M) -> Result<Vec<LoggedReceive>> {
        let found = memory.load(0);
        let ring = capacity(&memory)?;
        if found != MAGIC {
            return Err(ReceiveLogError::Magic { found });
        }
        if memory.words() != self.memory.words() {
            return Err(ReceiveLogError::Resized {
                found: memory.words(),
                expected: self.memory.words(),
            });
        }
        let is_other = memory.load(LIFE) != self.life;
        if memory.load(COPIED) == 1 && (is_other || memory.load(END) < self.position) {
            // The image has all that the copy has, if that is of this log. The process may die
            // between two of these, and the next one does it again.
            memory.store(FIRST, self.position);
            memory.store(END, self.position);
            memory.store(LIFE, self.life);
        }
        let (first, end, position) = (memory.load(FIRST), memory.load(END), self.position);
        let held = end.checked_sub(first);
        if held.is_none_or(|held| held > ring) || !(first..=end).contains(&position) {
            return Err(ReceiveLogError::OutOfRange {
                first,
                end,
                position,
            });
        }
        memory.store(COPIED, 0);
        let mut messages = Vec::new();
        let mut at = position;
        while at < end {
            let message = LoggedReceive::read(|number| memory.load(place(ring, number)), at..end);
            let message = message.ok_or(ReceiveLogError::Damaged { at })?;
            at = message.end;
            messages.push(message);
        }
        // A long message may have been whole after later ones.
        messages.sort_by_key(|message| (message.head.sender, message.head.ssn));
        (self.memory, self.position, self.first) = (memory, end, first);
        Ok(messages)
    }
}

#[cfg(test)]
mod tests;
