//! The blocks that one side owns.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::{BlockLayout, out_of_bounds};
use crate::{OutOfBounds, Word};

/// A block that nobody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FreeBlock {
    pub(super) number: u32,
    /// This side has read it, so its lines may be in this core's cache.
    pub(super) was_read: bool,
}

/// The blocks that one side gives back.
#[derive(Debug)]
pub struct Returns<'a, W> {
    /// Their number so far.
    pub count: &'a W,
    /// Which ones: an entry for each block of the link.
    pub table: &'a [W],
}

/// How far one direction's reader is, and what its writer gives back.
#[derive(Debug)]
pub struct DirectionWords<'a, W> {
    /// The reader's position.
    pub head: &'a W,
    /// The blocks that the writer has given back.
    pub returned: Returns<'a, W>,
}

/// The blocks of one side that hold nothing, and those that were given back so far.
#[derive(Clone, Debug)]
pub struct BlockPool {
    blocks: BlockLayout,
    /// 0 for the side whose half are the even numbers, 1 for the other one.
    first: usize,
    /// Blocks of each half that have memory, as far as this side knows.
    made: usize,
    /// The last one was read last.
    free: VecDeque<FreeBlock>,
    /// For each block, whether it is free here.
    owned: Vec<bool>,
    /// Blocks given back by this side, and by the other as far as they were collected.
    given: u64,
    collected: u64,
}

impl BlockPool {
    /// One half of the blocks: the even numbers or the odd ones. The first `made` of each half
    /// have memory.
    #[must_use]
    pub fn new(blocks: BlockLayout, even: bool, made: usize) -> Self {
        debug_assert!(blocks.count.is_power_of_two() && blocks.count >= 4 && made >= 2);
        debug_assert!(blocks.size.is_power_of_two());
        let first = usize::from(!even);
        let mut pool = Self {
            blocks,
            first,
            made: 0,
            free: VecDeque::with_capacity(blocks.count),
            // The other side can't name those that have no memory yet.
            owned: (0..blocks.count)
                .map(|number| number % 2 == first)
                .collect(),
            given: 0,
            collected: 0,
        };
        pool.grow(made as u64);
        pool
    }

    /// Each half has so many blocks: this side's new ones are free.
    pub(super) fn grow(&mut self, made: u64) {
        let half = self.blocks.count / 2;
        let made = usize::try_from(made).unwrap_or(half).min(half);
        // The lowest is used first, so that a link of few messages touches few pages.
        for turn in self.made..made {
            self.free.push_front(FreeBlock {
                number: (2 * turn + self.first) as u32,
                was_read: false,
            });
        }
        self.made = self.made.max(made);
    }

    pub(super) fn blocks(&self) -> BlockLayout {
        self.blocks
    }

    /// Bytes of the blocks that hold nothing.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.free.len() << self.blocks.shift()
    }

    /// The block that this side has read last.
    #[inline]
    pub(super) fn take(&mut self) -> Option<FreeBlock> {
        let block = self.free.pop_back()?;
        self.owned[block.number as usize] = false;
        Some(block)
    }

    /// The number of a block that the other side has named, which it owned until now.
    ///
    /// # Errors
    /// It is none, or is this side's own.
    #[inline]
    pub(super) fn check(&self, named: u64) -> Result<u32, OutOfBounds> {
        let number = usize::try_from(named).unwrap_or(usize::MAX);
        match self.owned.get(number) {
            Some(false) => Ok(number as u32),
            _ => Err(out_of_bounds(named, self.blocks.count as u64)),
        }
    }

    /// This side has read the block, and owns it from now on.
    #[inline]
    pub(super) fn put(&mut self, number: u32) {
        // A malicious peer may have named it twice meanwhile.
        if !std::mem::replace(&mut self.owned[number as usize], true) {
            self.free.push_back(FreeBlock {
                number,
                was_read: true,
            });
        }
    }

    /// Collects the blocks that the other side has given back.
    ///
    /// # Errors
    /// [`OutOfBounds`]: the link is of no use any more.
    #[inline]
    pub(super) fn collect(&mut self, from: Returns<'_, impl Word>) -> Result<(), OutOfBounds> {
        let theirs = from.count.load(Ordering::Acquire);
        if theirs == self.collected {
            return Ok(());
        }
        self.collect_until(theirs, from.table)
    }

    #[cold]
    #[inline(never)]
    fn collect_until(&mut self, theirs: u64, table: &[impl Word]) -> Result<(), OutOfBounds> {
        if theirs.wrapping_sub(self.collected) > self.blocks.count as u64 {
            return Err(out_of_bounds(theirs, self.collected));
        }
        while self.collected != theirs {
            let entry = &table[self.blocks.entry(self.collected)];
            let number = self.check(entry.load(Ordering::Relaxed))?;
            self.owned[number as usize] = true;
            // Their lines are in the other's cache, if in any: those read here go first.
            self.free.push_front(FreeBlock {
                number,
                was_read: false,
            });
            self.collected = self.collected.wrapping_add(1);
        }
        Ok(())
    }

    /// How many blocks this side has beyond its share, when `unread` of those that it has written
    /// are not read yet: none, or so many that it is worth it to give them back.
    #[inline]
    pub(super) fn surplus(&self, unread: u64) -> usize {
        let count = 2 * self.made;
        let share = count / 2 + count / 8;
        let surplus = (self.free.len() + unread as usize).saturating_sub(share);
        if surplus >= (count / 16).max(1) {
            surplus
        } else {
            0
        }
    }

    /// Gives so many blocks back, those first that this side has not used for the longest time.
    /// False: there is none to give.
    ///
    /// One block stays. The other side may read all that this side has written before it sees the
    /// gift, and then read no more. This side's next write, in the block that stays, shows it.
    pub(super) fn give(&mut self, blocks: usize, back: Returns<'_, impl Word>) -> bool {
        let blocks = blocks.min(self.free.len().saturating_sub(1));
        if blocks == 0 {
            return false;
        }
        for block in self.free.drain(..blocks) {
            self.owned[block.number as usize] = false;
            let entry = &back.table[self.blocks.entry(self.given)];
            entry.store(block.number.into(), Ordering::Relaxed);
            self.given = self.given.wrapping_add(1);
        }
        back.count.store(self.given, Ordering::Release);
        true
    }
}
