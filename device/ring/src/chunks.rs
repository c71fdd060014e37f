//! Chunks of one body that both sides copy. The owner describes a batch of chunks, and both sides
//! take chunks from it until none is left.
//!
//! The owner describes one batch at a time and copies chunks itself. So the copy ends even if the
//! other side has no time. A chunk belongs to the side that has taken it. The owner describes the
//! next batch only when it knows the result of every chunk that the other side has taken. So the
//! other side never copies a chunk of an earlier batch. At the end, one side waits for the other at
//! most as long as one chunk takes.
//!
//! Neither side trusts the other's data further than this: an index is always one of [`MOST`].

use std::sync::atomic::Ordering;

use crate::Word;

/// Most pieces of a batch.
pub const MOST: usize = 16;

/// Low bits of the batch's word: how many pieces are left. The others are the batch's number.
const LEFT: u64 = 0xff;
const NUMBER: u32 = 8;
/// Bits of the helper's word: pieces that are done, pieces that it could not do, and the batch's
/// number.
const ALL: u64 = (1 << MOST) - 1;
const FAILED: u32 = 16;
const BATCH: u32 = 32;
const SAME: u64 = (1 << BATCH) - 1;

/// Takes the next piece of whatever lies there: its index, and the batch's number.
#[inline]
fn take(batch: &impl Word) -> Option<(usize, u64)> {
    let mut seen = batch.load(Ordering::Acquire);
    while seen & LEFT != 0 {
        match batch.exchange(seen, seen - 1) {
            Ok(()) => {
                let index = (seen & LEFT) as usize - 1;
                return Some((index % MOST, seen >> NUMBER & SAME));
            }
            Err(now) => seen = now,
        }
    }
    None
}

/// The side that lays out pieces.
#[derive(Clone, Debug, Default)]
pub struct ChunkOwner {
    batch: u64,
    /// Pieces of the batch that the helper has or may have taken.
    others: u64,
}

/// The state of the chunks that the other side has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helped {
    /// It is still at work.
    Waiting,
    /// All were done but those of these bits.
    Over {
        /// Indices of pieces that the helper could not do.
        failed: u64,
    },
}

impl ChunkOwner {
    /// Lays out so many pieces, at most [`MOST`], all of which are described. The batch before is
    /// over.
    #[inline]
    pub fn lay_out(&mut self, batch: &impl Word, pieces: usize) {
        debug_assert!((1..=MOST).contains(&pieces) && self.others == 0);
        self.batch = self.batch.wrapping_add(1) & SAME;
        self.others = ALL >> (MOST - pieces);
        batch.store(self.batch << NUMBER | pieces as u64, Ordering::Release);
    }

    /// Takes a piece: its index.
    #[inline]
    pub fn take(&mut self, batch: &impl Word) -> Option<usize> {
        let (index, _) = take(batch)?;
        self.others &= !(1 << index);
        Some(index)
    }

    /// The state of the other side's chunks, when none is left to be taken.
    #[inline]
    pub fn helped(&mut self, done: &impl Word) -> Helped {
        let mut failed = 0;
        if self.others != 0 {
            let word = done.load(Ordering::Acquire);
            failed = word >> FAILED & self.others;
            let over = (word | failed) & self.others == self.others;
            if word >> BATCH != self.batch || !over {
                return Helped::Waiting;
            }
        }
        self.others = 0;
        Helped::Over { failed }
    }

    /// The helper is gone: the pieces that it had taken.
    pub fn abandoned(&mut self) -> u64 {
        std::mem::take(&mut self.others)
    }
}

/// The side that helps.
#[derive(Clone, Debug, Default)]
pub struct Helper {
    word: u64,
}

impl Helper {
    /// Whether anything lies there. May lag.
    #[inline]
    pub fn is_asked(&self, batch: &impl Word) -> bool {
        batch.load(Ordering::Relaxed) & LEFT != 0
    }

    /// Takes a piece and returns its index. The caller reads its description after this; it is
    /// valid until the piece is [`over`](Helper::over).
    #[inline]
    pub fn take(&mut self, batch: &impl Word) -> Option<usize> {
        let (index, batch) = take(batch)?;
        if self.word >> BATCH != batch {
            self.word = batch << BATCH;
        }
        Some(index)
    }

    /// Tells the owner that the piece is done, or cannot be.
    #[inline]
    pub fn over(&mut self, done: &impl Word, index: usize, whole: bool) {
        let bit = 1 << (index % MOST);
        self.word |= if whole { bit } else { bit << FAILED };
        done.store(self.word, Ordering::Release);
    }
}
