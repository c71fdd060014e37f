//! What two processes share beside the bytes that go between them: the indices of a ring that one
//! writes and the other reads, [blocks] that change their owner, [cells], [chunks] of a body that
//! both copy, and the [doorbell] that wakes a sleeping side.
//!
//! This crate only has the order of steps. The bytes, and the memory that both processes map,
//! belong to the device. A word is any type that behaves like an atomic ([`Word`]), so the same
//! code runs in shared memory and under a model checker.
//!
//! Positions count all bytes that ever passed the ring and never go back. Each side keeps its own
//! position, and a copy of the other's that it refreshes when the copy is too small. The other
//! side's position is not trusted: an impossible one is [`OutOfBounds`], and no range ever leaves
//! the ring.
//!
//! ```
//! use std::sync::atomic::AtomicU64;
//! use rejoin_ring::{Reader, Writer};
//!
//! // Shared by both processes: the ring's bytes and a word for each side.
//! let mut memory = vec![0; 64];
//! let (head, tail) = (AtomicU64::new(0), AtomicU64::new(0));
//!
//! let mut writer = Writer::new(memory.len());
//! assert_eq!(writer.room(&head, 5)?, 5);
//! memory[writer.next(5)].copy_from_slice(b"hello");
//! writer.publish(&tail);
//!
//! let mut reader = Reader::new(memory.len());
//! assert_eq!(reader.ready(&tail, 100)?, 5);
//! assert_eq!(memory[reader.next(5)], *b"hello");
//! reader.release(&head);
//! # Ok::<(), rejoin_ring::OutOfBounds>(())
//! ```
#![forbid(unsafe_code)]

pub mod blocks;
pub mod cells;
pub mod chunks;
pub mod doorbell;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A word that both sides share.
pub trait Word {
    /// Reads it.
    fn load(&self, order: Ordering) -> u64;
    /// Writes it.
    fn store(&self, value: u64, order: Ordering);
    /// Writes it and returns its old value.
    fn swap(&self, value: u64, order: Ordering) -> u64;
    /// Writes `new` if it holds `old`, else returns its present value; acquires and releases.
    ///
    /// # Errors
    /// It holds something else, or seems to.
    fn exchange(&self, old: u64, new: u64) -> Result<(), u64>;
    /// A sequentially consistent fence.
    fn fence();
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    #[inline(always)]
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.swap(value, order)
    }

    #[inline(always)]
    fn exchange(&self, old: u64, new: u64) -> Result<(), u64> {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }

    #[inline(always)]
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// The other side's position is beyond what there can be, or the reader's went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer's position {theirs} in the ring cannot be, ours being {ours}")]
pub struct OutOfBounds {
    /// The value of the peer's word.
    pub theirs: u64,
    /// This side's position.
    pub ours: u64,
}

/// The side that writes.
#[derive(Clone, Debug)]
pub struct Writer {
    capacity: u64,
    tail: u64,
    head: u64,
}

impl Writer {
    /// At the beginning of an empty ring of so many bytes, a power of two.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Self {
            capacity: capacity as u64,
            tail: 0,
            head: 0,
        }
    }

    /// How many of `wanted` bytes there is room for. Reads the reader's word only when its last
    /// known position leaves less.
    ///
    /// # Errors
    /// [`OutOfBounds`]: the ring is of no use any more.
    #[inline]
    pub fn room(&mut self, head: &impl Word, wanted: usize) -> Result<usize, OutOfBounds> {
        if self.free() < wanted {
            let theirs = head.load(Ordering::Acquire);
            if theirs.wrapping_sub(self.head) > self.tail.wrapping_sub(self.head) {
                let ours = self.tail;
                return Err(OutOfBounds { theirs, ours });
            }
            self.head = theirs;
        }
        Ok(self.free().min(wanted))
    }

    #[inline]
    fn free(&self) -> usize {
        (self.capacity - self.tail.wrapping_sub(self.head)) as usize
    }

    /// Where the next bytes go, at most `len` and as far as they lie side by side. The caller has
    /// asked for room, and fills the range before it publishes.
    #[inline]
    pub fn next(&mut self, len: usize) -> Range<usize> {
        let range = side_by_side(self.tail, self.capacity, len.min(self.free()));
        self.tail = self.tail.wrapping_add(range.len() as u64);
        range
    }

    /// Bytes written so far, the low half of the number.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u32 {
        self.tail as u32
    }

    /// Shows the reader all that was filled.
    #[inline]
    pub fn publish(&self, tail: &impl Word) {
        tail.store(self.tail, Ordering::Release);
    }
}

/// The side that reads.
#[derive(Clone, Debug)]
pub struct Reader {
    capacity: u64,
    head: u64,
    tail: u64,
}

impl Reader {
    /// At the beginning of an empty ring of so many bytes, a power of two.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Self {
            capacity: capacity as u64,
            head: 0,
            tail: 0,
        }
    }

    /// How many of `wanted` bytes are there. Reads the writer's word only when its last known
    /// position leaves less. A word with an earlier position is ignored ([`Reader::shown`]).
    ///
    /// # Errors
    /// [`OutOfBounds`]: the ring is of no use any more.
    #[inline]
    pub fn ready(&mut self, tail: &impl Word, wanted: usize) -> Result<usize, OutOfBounds> {
        if self.used() < wanted {
            let theirs = tail.load(Ordering::Acquire);
            if theirs.wrapping_sub(self.tail).cast_signed() > 0 {
                if theirs.wrapping_sub(self.head) > self.capacity {
                    let ours = self.head;
                    return Err(OutOfBounds { theirs, ours });
                }
                self.tail = theirs;
            }
        }
        Ok(self.used().min(wanted))
    }

    /// Bytes read so far, the low half of the number.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u32 {
        self.head as u32
    }

    /// So many bytes are there as something else has shown, though the writer's word may not say so
    /// yet: it does when more are published.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the ring can't hold them.
    #[inline]
    pub fn shown(&mut self, len: usize) -> Result<(), OutOfBounds> {
        if len as u64 > self.capacity {
            let (theirs, ours) = (self.head.wrapping_add(len as u64), self.head);
            return Err(OutOfBounds { theirs, ours });
        }
        if self.used() < len {
            self.tail = self.head.wrapping_add(len as u64);
        }
        Ok(())
    }

    #[inline]
    fn used(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// Where the next bytes are, at most `len` and as far as they lie side by side. The caller
    /// takes them out before it releases them.
    #[inline]
    pub fn next(&mut self, len: usize) -> Range<usize> {
        let range = side_by_side(self.head, self.capacity, len.min(self.used()));
        self.head = self.head.wrapping_add(range.len() as u64);
        range
    }

    /// Gives the writer the room of all that was taken out.
    #[inline]
    pub fn release(&self, head: &impl Word) {
        head.store(self.head, Ordering::Release);
    }
}

#[inline]
fn side_by_side(position: u64, capacity: u64, len: usize) -> Range<usize> {
    let start = (position & (capacity - 1)) as usize;
    start..(start + len).min(capacity as usize)
}

#[cfg(test)]
mod tests;
