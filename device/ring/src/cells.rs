//! Cells: messages of one cache line that also announces them.
//!
//! Bytes of a stream take three cache lines from one processor to the other: the position, and two
//! lines for a header and a short body. A cell takes one line. Its first word says both that the
//! cell is present and what it holds. The value that means "present" alternates with each turn
//! around the cells, so a reader need not clear a cell.
//!
//! Cells and bytes keep one order. A cell holds the position in the bytes after which it comes. A
//! reader that has seen bytes reads the cell again before it takes them, because a cell before
//! these bytes was published before them
//! ([`BlockReader::until`](crate::blocks::BlockReader::until)).

use std::sync::atomic::Ordering;

use crate::{OutOfBounds, Word};

/// Words of a cell: one cache line. What belongs to it may lie behind it.
pub const WORDS: usize = 8;
/// Bits of the first word that say whether the cell is there; the others are the writer's.
const STAMP: u64 = 0x3;

/// One of two, by the turn around so many cells, a power of two.
#[inline(always)]
fn stamp(position: u64, count: u64) -> u64 {
    1 + u64::from(position & count != 0)
}

/// The side that writes cells.
#[derive(Clone, Debug)]
pub struct CellWriter {
    count: u64,
    tail: u64,
    head: u64,
}

impl CellWriter {
    /// At the beginning of so many cells of zeros, a power of two.
    #[must_use]
    pub fn new(count: usize) -> Self {
        debug_assert!(count.is_power_of_two());
        Self {
            count: count as u64,
            tail: 0,
            head: 0,
        }
    }

    /// Whether all cells were in use when the reader's word was last read.
    #[inline(always)]
    #[must_use]
    pub fn seems_full(&self) -> bool {
        self.tail.wrapping_sub(self.head) == self.count
    }

    /// The index of the next cell, unless all are in use. Reads the reader's word only when no cell
    /// is known to be free.
    ///
    /// # Errors
    /// [`OutOfBounds`]: the cells are of no use any more.
    #[inline(always)]
    pub fn free(&mut self, head: &impl Word) -> Result<Option<usize>, OutOfBounds> {
        if self.seems_full() {
            let theirs = head.load(Ordering::Acquire);
            if theirs.wrapping_sub(self.head) > self.count {
                let ours = self.tail;
                return Err(OutOfBounds { theirs, ours });
            }
            self.head = theirs;
            if self.seems_full() {
                return Ok(None);
            }
        }
        Ok(Some(self.index()))
    }

    /// The index of the cell that is written next.
    #[inline(always)]
    #[must_use]
    pub fn index(&self) -> usize {
        (self.tail & (self.count - 1)) as usize
    }

    /// Shows the reader the cell that was free, whose other words are filled; the low two bits of
    /// `word` are not the caller's.
    #[inline(always)]
    pub fn publish(&mut self, first: &impl Word, word: u64) {
        let word = word & !STAMP | stamp(self.tail, self.count);
        first.store(word, Ordering::Release);
        self.tail = self.tail.wrapping_add(1);
    }
}

/// The side that reads cells.
#[derive(Clone, Debug)]
pub struct CellReader {
    count: u64,
    head: u64,
}

impl CellReader {
    /// At the beginning of so many cells of zeros, a power of two.
    #[must_use]
    pub fn new(count: usize) -> Self {
        debug_assert!(count.is_power_of_two());
        Self {
            count: count as u64,
            head: 0,
        }
    }

    /// The index of the cell that comes next.
    #[inline(always)]
    #[must_use]
    pub fn index(&self) -> usize {
        (self.head & (self.count - 1)) as usize
    }

    /// The first word of the cell that comes next, when it is there: then its other words are.
    #[inline(always)]
    #[must_use]
    pub fn look(&self, first: &impl Word) -> Option<u64> {
        let word = first.load(Ordering::Acquire);
        (word & STAMP == stamp(self.head, self.count)).then_some(word)
    }

    /// Gives the cell back, whose words were taken out.
    #[inline(always)]
    pub fn release(&mut self, head: &impl Word) {
        self.head = self.head.wrapping_add(1);
        head.store(self.head, Ordering::Release);
    }
}
