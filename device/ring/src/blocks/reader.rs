//! The stream that this side reads.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::{BlockLayout, BlockPool, BlockWriter, Returns, out_of_bounds};
use crate::{OutOfBounds, Word};

/// The position of the stream that this side reads.
#[derive(Clone, Debug)]
pub struct BlockReader {
    blocks: BlockLayout,
    head: u64,
    tail: u64,
    /// The block that is read.
    number: u32,
}

impl BlockReader {
    /// At the beginning of an empty stream.
    #[must_use]
    pub fn new(blocks: BlockLayout) -> Self {
        Self {
            blocks,
            head: 0,
            tail: 0,
            number: 0,
        }
    }

    /// How many of `wanted` bytes are there; looks at the writer's word only when its last known
    /// position leaves less. A word that says less than is known says nothing new
    /// ([`BlockReader::shown`]).
    ///
    /// # Errors
    /// [`OutOfBounds`]: the link is of no use any more.
    #[inline]
    pub fn ready(&mut self, tail: &impl Word, wanted: usize) -> Result<usize, OutOfBounds> {
        if self.known() < wanted {
            let theirs = tail.load(Ordering::Acquire);
            if theirs.wrapping_sub(self.tail).cast_signed() > 0 {
                if theirs.wrapping_sub(self.head) > self.blocks.bytes() as u64 {
                    return Err(out_of_bounds(theirs, self.head));
                }
                self.tail = theirs;
            }
        }
        Ok(self.known().min(wanted))
    }

    /// Bytes until the next ones are of another block.
    #[inline(always)]
    #[must_use]
    pub fn step(&self) -> usize {
        self.blocks.step(self.head)
    }

    /// Bytes read so far, the low half of the number.
    #[inline(always)]
    #[must_use]
    pub fn position(&self) -> u32 {
        self.head as u32
    }

    /// How many bytes precede this position of the writer.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it is none that the blocks can hold.
    #[inline]
    pub fn until(&self, position: u32) -> Result<usize, OutOfBounds> {
        let ahead = position.wrapping_sub(self.position()) as usize;
        if ahead > self.blocks.bytes() {
            return Err(out_of_bounds(position.into(), self.head));
        }
        Ok(ahead)
    }

    /// Whether the writer has published nothing beyond the bytes already read. May lag; fails
    /// never.
    #[inline]
    #[must_use]
    pub fn is_empty(&self, tail: &impl Word) -> bool {
        let ahead = tail.load(Ordering::Relaxed).wrapping_sub(self.head);
        ahead.cast_signed() <= 0
    }

    /// So many bytes are there as something else has shown, though the writer's word may not say so
    /// yet: it does when more are published.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the blocks can't hold them.
    #[inline]
    pub fn shown(&mut self, len: usize) -> Result<(), OutOfBounds> {
        if len > self.blocks.bytes() {
            let theirs = self.head.wrapping_add(len as u64);
            return Err(out_of_bounds(theirs, self.head));
        }
        if self.known() < len {
            self.tail = self.head.wrapping_add(len as u64);
        }
        Ok(())
    }

    #[inline]
    fn known(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
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
        let within = self.blocks.within(self.head);
        let len = len.min(self.known()).min(self.blocks.size - within);
        if within == 0 && len > 0 {
            let entry = &table[self.blocks.entry(self.blocks.turn(self.head))];
            self.number = pool.check(entry.load(Ordering::Relaxed))?;
        }
        let start = ((self.number as usize) << self.blocks.shift()) + within;
        self.head = self.head.wrapping_add(len as u64);
        if len > 0 && self.blocks.within(self.head) == 0 {
            pool.put(self.number);
        }
        Ok(start..start + len)
    }

    /// Shows the writer how far this side has read, and gives back the blocks that this side has
    /// beyond its share. True: it gave some, so the other side has room again. The last three are
    /// the other side's position in the stream of `writer`, and what either side gives back: the
    /// other one, and this one.
    ///
    /// # Errors
    /// [`OutOfBounds`]: the link is of no use any more.
    #[inline]
    pub fn release<W: Word>(
        &self,
        head: &W,
        (pool, writer): (&mut BlockPool, &mut BlockWriter),
        (peers_head, from, back): (&W, Returns<'_, W>, Returns<'_, W>),
    ) -> Result<bool, OutOfBounds> {
        head.store(self.head, Ordering::Release);
        // What is on its way back counts as this side's.
        pool.collect(from)?;
        if pool.surplus(writer.unread(pool)) == 0 {
            return Ok(false);
        }
        writer.look(peers_head)?;
        let surplus = pool.surplus(writer.unread(pool));
        Ok(pool.give(surplus, back))
    }
}
