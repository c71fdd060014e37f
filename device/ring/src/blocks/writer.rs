//! The stream that this side writes.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::{BlockPool, Returns, out_of_bounds};
use crate::{OutOfBounds, Word};

/// Where the next bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes of the memory of all blocks.
    pub range: Range<usize>,
    /// This side has read the block before: its lines may be in this core's cache.
    pub was_read: bool,
}

/// The position of the stream that this side writes.
#[derive(Clone, Debug, Default)]
pub struct BlockWriter {
    tail: u64,
    /// The last known position of the other side.
    head: u64,
    /// Where the block begins that is written.
    begin: usize,
    was_read: bool,
}

impl BlockWriter {
    /// How many of `wanted` bytes there is room for; collects blocks that the other side has given
    /// back, and looks how many each half has by now (`made`), only when the others leave less.
    ///
    /// # Errors
    /// [`OutOfBounds`]: the link is of no use any more.
    #[inline]
    pub fn room(
        &self,
        pool: &mut BlockPool,
        wanted: usize,
        from: Returns<'_, impl Word>,
        made: &impl Word,
    ) -> Result<usize, OutOfBounds> {
        let rest = pool.blocks().rest(self.tail);
        if rest + pool.room() < wanted {
            pool.collect(from)?;
            if rest + pool.room() < wanted {
                pool.grow(made.load(Ordering::Acquire));
            }
        }
        Ok((rest + pool.room()).min(wanted))
    }

    /// Where the next bytes go, at most `len` and as far as they lie side by side: none without
    /// room. The caller fills the range before it publishes. `table` has an entry for each block of
    /// the link.
    #[inline]
    pub fn next(&mut self, pool: &mut BlockPool, table: &[impl Word], len: usize) -> Place {
        let blocks = pool.blocks();
        let mut rest = blocks.rest(self.tail);
        if rest == 0
            && let Some(block) = pool.take()
        {
            let entry = &table[blocks.entry(blocks.turn(self.tail))];
            entry.store(block.number.into(), Ordering::Relaxed);
            self.begin = (block.number as usize) << blocks.shift();
            self.was_read = block.was_read;
            rest = blocks.size;
        }
        let start = self.begin + blocks.within(self.tail);
        let len = len.min(rest);
        self.tail = self.tail.wrapping_add(len as u64);
        Place {
            range: start..start + len,
            was_read: self.was_read,
        }
    }

    /// Bytes until the next ones are of another block.
    #[inline(always)]
    #[must_use]
    pub fn step(&self, pool: &BlockPool) -> usize {
        pool.blocks().step(self.tail)
    }

    /// Bytes written so far, the low half of the number.
    #[inline(always)]
    #[must_use]
    pub fn position(&self) -> u32 {
        self.tail as u32
    }

    /// Shows the reader all that was filled.
    #[inline]
    pub fn publish(&self, tail: &impl Word) {
        tail.store(self.tail, Ordering::Release);
    }

    /// Blocks that the other side has not read to their end, as far as is known.
    #[inline]
    pub(super) fn unread(&self, pool: &BlockPool) -> u64 {
        let blocks = pool.blocks();
        let end = self.tail.wrapping_add(blocks.size as u64 - 1);
        blocks
            .turn(end)
            .wrapping_sub(blocks.turn(self.head))
            .min(blocks.count as u64)
    }

    /// Reads the position of the other side.
    ///
    /// # Errors
    /// [`OutOfBounds`]: the link is of no use any more.
    pub(super) fn look(&mut self, head: &impl Word) -> Result<(), OutOfBounds> {
        let theirs = head.load(Ordering::Acquire);
        if theirs.wrapping_sub(self.head) > self.tail.wrapping_sub(self.head) {
            return Err(out_of_bounds(theirs, self.tail));
        }
        self.head = theirs;
        Ok(())
    }
}
