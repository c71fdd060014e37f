//! Two streams of bytes, one for each direction, through blocks that change their owner.
//!
//! A processor writes a line of memory slowly while another core's cache holds the line. In a ring
//! of its own, a writer always writes such lines: the reader has just read them. So here both
//! directions share one pool of blocks. Who has read a block owns it, and writes it next. Such a
//! writer has the lines in its own cache.
//!
//! A stream's position counts its bytes. A table of the stream says which block holds which of
//! them. In a stream that nobody answers, blocks would gather at the reader. So a side that has
//! more than its share gives blocks back, through a table for that.
//!
//! The blocks of a link get memory as its traffic asks for it, as many in one half as in the other.
//! A word of both sides says how many each half has (`made`). It only grows. A side that knows less
//! than that keeps less, so it gives back earlier.
//!
//! | type | what it owns |
//! |---|---|
//! | [`BlockPool`] | the blocks of one side that hold nothing |
//! | [`BlockWriter`] | the position of the stream that this side writes |
//! | [`BlockReader`] | the position of the stream that this side reads |
//!
//! A wait for a block always ends: the missing blocks are with the other side beyond its share, on
//! their way back, or unread by one of the two. This holds as long as `made` no more than doubles
//! before the other side is shown bytes.
//!
//! The other side's words are not trusted: an impossible position, and a block that cannot be the
//! other's, is [`OutOfBounds`], and no range ever leaves the memory.

mod block_pool;
mod reader;
mod writer;

pub use block_pool::{BlockPool, DirectionWords, Returns};
pub use reader::BlockReader;
pub use writer::{BlockWriter, Place};

use crate::OutOfBounds;

/// The number and size of the blocks of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLayout {
    /// Blocks of both sides together: a power of two, at least 4.
    pub count: usize,
    /// Bytes of one block: a power of two.
    pub size: usize,
}

impl BlockLayout {
    /// Bytes of all blocks.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.count * self.size
    }

    #[inline(always)]
    fn shift(self) -> u32 {
        self.size.trailing_zeros()
    }

    /// Which block of its stream a position is in.
    #[inline(always)]
    fn turn(self, position: u64) -> u64 {
        position >> self.shift()
    }

    /// Where the block of that turn is in a table.
    #[inline(always)]
    fn entry(self, turn: u64) -> usize {
        (turn & (self.count as u64 - 1)) as usize
    }

    /// Where a position is within its block.
    #[inline(always)]
    fn within(self, position: u64) -> usize {
        (position & (self.size as u64 - 1)) as usize
    }

    /// Bytes from a position to the end of its block.
    #[inline(always)]
    fn step(self, position: u64) -> usize {
        self.size - self.within(position)
    }

    /// The same of a block that has been begun.
    #[inline(always)]
    fn rest(self, position: u64) -> usize {
        self.step(position) & (self.size - 1)
    }
}

#[cold]
fn out_of_bounds(theirs: u64, ours: u64) -> OutOfBounds {
    OutOfBounds { theirs, ours }
}

#[cfg(test)]
mod tests;
