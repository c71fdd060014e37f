//! The stream that this side reads.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::{BlockLayout, BlockPool, BlockWriter, DirectionWords, out_of_bounds};
use crate::{OutOfBounds, Reader, Word};

/// The position of the stream that this side reads.
#[derive(Clone, Debug)]
pub struct BlockReader {
    blocks: BlockLayout,
    /// Of a ring as long as all blocks. Its index divided by a block's size is the index of the
    /// stream's table.
    ring: Reader,
    /// The block that is read.
    number: u32,
}

impl BlockReader {
    /// At the beginning of an empty stream.
    #[must_use]
    pub fn new(blocks: BlockLayout) -> Self {
        Self {
            blocks,
            ring: Reader::new(blocks.bytes()),
            number: 0,
        }
    }

    /// As [`Reader::ready`].
    ///
    /// # Errors
    /// [`OutOfBounds`]: the link is of no use any more.
    #[inline]
    pub fn ready(&mut self, tail: &impl Word, wanted: usize) -> Result<usize, OutOfBounds> {
        self.ring.ready(tail, wanted)
    }

    /// As [`Reader::shown`].
    ///
    /// # Errors
    /// [`OutOfBounds`] when the blocks can't hold so many bytes.
    #[inline]
    pub fn shown(&mut self, len: usize) -> Result<(), OutOfBounds> {
        self.ring.shown(len)
    }

    /// Bytes until the next ones are of another block.
    #[inline(always)]
    #[must_use]
    pub fn step(&self) -> usize {
        self.blocks.step(self.ring.head)
    }

    /// Bytes read so far, the low half of the number.
    #[inline(always)]
    #[must_use]
    pub fn position(&self) -> u32 {
        self.ring.position()
    }

    /// How many bytes precede this position of the writer.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it is none that the blocks can hold.
    #[inline]
    pub fn until(&self, position: u32) -> Result<usize, OutOfBounds> {
        let ahead = position.wrapping_sub(self.position()) as usize;
        if ahead > self.blocks.bytes() {
            return Err(out_of_bounds(position.into(), self.ring.head));
        }
        Ok(ahead)
    }

    /// Whether the writer has published nothing beyond the bytes already read. May lag; fails
    /// never.
    #[inline]
    #[must_use]
    pub fn is_empty(&self, tail: &impl Word) -> bool {
        let ahead = tail.load(Ordering::Relaxed).wrapping_sub(self.ring.head);
        ahead.cast_signed() <= 0
    }

    /// Where the next bytes are, at most `len` and as far as they lie side by side. The caller
    /// takes them out before it releases them, and writes nothing before that. `table` has an entry
    /// for each block of the link.
    ///
    /// # Errors
    /// [`OutOfBounds`]: the link is of no use any more.
    #[inline]
    pub fn next(
        &mut self,
        pool: &mut BlockPool,
        table: &[impl Word],
        len: usize,
    ) -> Result<Range<usize>, OutOfBounds> {
        let range = self.ring.next(len.min(self.step()));
        let (index, len) = (range.start as u64, range.len());
        let within = self.blocks.within(index);
        if within == 0 && len > 0 {
            let entry = &table[self.blocks.turn(index) as usize];
            self.number = pool.check(entry.load(Ordering::Relaxed))?;
        }
        if len > 0 && within + len == self.blocks.size {
            pool.put(self.number);
        }
        let start = ((self.number as usize) << self.blocks.shift()) + within;
        Ok(start..start + len)
    }

    /// Shows the writer how far this side has read, and gives back the blocks that this side has
    /// beyond its share. True: it gave some, so the other side has room again. `writer` writes the
    /// direction `out`. `made`: the blocks that each half has by now.
    ///
    /// # Errors
    /// [`OutOfBounds`]: the link is of no use any more.
    #[inline]
    pub fn release<W: Word>(
        &self,
        pool: &mut BlockPool,
        writer: &mut BlockWriter,
        come: DirectionWords<'_, W>,
        out: DirectionWords<'_, W>,
        made: &W,
    ) -> Result<bool, OutOfBounds> {
        self.ring.release(come.head);
        // What is on its way back counts as this side's.
        pool.collect(come.returned)?;
        if pool.surplus(writer.unread(pool)) == 0 {
            return Ok(false);
        }
        pool.grow(made.load(Ordering::Acquire));
        writer.look(out.head)?;
        let surplus = pool.surplus(writer.unread(pool));
        Ok(pool.give(surplus, out.returned))
    }
}
