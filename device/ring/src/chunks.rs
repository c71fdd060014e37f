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

/// Most chunks of a batch.
pub const MOST: usize = 16;

/// Low bits of the batch's word: how many chunks are left. The others are the batch's number.
const LEFT: u64 = 0xff;
const NUMBER: u32 = 8;
/// Bits of the other side's word: chunks that are done, chunks that it could not do, and the
/// batch's number.
const ALL: u64 = (1 << MOST) - 1;
const FAILED: u32 = 16;
const BATCH: u32 = 32;
const SAME: u64 = (1 << BATCH) - 1;

/// Takes the next chunk of the present batch: its index, and the number of the batch.
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

/// The side that describes chunks.
#[derive(Clone, Debug, Default)]
pub struct ChunkOwner {
    batch: u64,
    /// Chunks of the batch that the other side has or may have taken.
    with_peer: u64,
}

/// The state of the chunks that the other side has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerChunks {
    /// It still copies some.
    Waiting,
    /// All were copied, except those of these bits.
    Over {
        /// Bits of chunks that the other side could not copy.
        failed: u64,
    },
}

impl ChunkOwner {
    /// Publishes a batch of so many chunks, at most [`MOST`], all of which are described. The batch
    /// before is over.
    #[inline]
    pub fn describe(&mut self, batch: &impl Word, chunks: usize) {
        debug_assert!((1..=MOST).contains(&chunks) && self.with_peer == 0);
        self.batch = self.batch.wrapping_add(1) & SAME;
        self.with_peer = ALL >> (MOST - chunks);
        batch.store(self.batch << NUMBER | chunks as u64, Ordering::Release);
    }

    /// Takes a chunk: its index.
    #[inline]
    pub fn take(&mut self, batch: &impl Word) -> Option<usize> {
        let (index, _) = take(batch)?;
        self.with_peer &= !(1 << index);
        Some(index)
    }

    /// The state of the other side's chunks, when none is left to be taken.
    #[inline]
    pub fn peer_chunks(&mut self, done: &impl Word) -> PeerChunks {
        let mut failed = 0;
        if self.with_peer != 0 {
            let word = done.load(Ordering::Acquire);
            failed = word >> FAILED & self.with_peer;
            let over = (word | failed) & self.with_peer == self.with_peer;
            if word >> BATCH != self.batch || !over {
                return PeerChunks::Waiting;
            }
        }
        self.with_peer = 0;
        PeerChunks::Over { failed }
    }

    /// The other side is gone: the chunks that it had taken.
    pub fn abandoned(&mut self) -> u64 {
        std::mem::take(&mut self.with_peer)
    }
}

/// The other side, which copies chunks of the owner.
#[derive(Clone, Debug, Default)]
pub struct ChunkPeer {
    word: u64,
}

impl ChunkPeer {
    /// Whether the owner has published chunks that nobody has taken. May lag.
    #[inline]
    pub fn has_chunks(&self, batch: &impl Word) -> bool {
        batch.load(Ordering::Relaxed) & LEFT != 0
    }

    /// Takes a chunk and returns its index. The caller reads its description after this; it is
    /// valid until [`ChunkPeer::finish`].
    #[inline]
    pub fn take(&mut self, batch: &impl Word) -> Option<usize> {
        let (index, batch) = take(batch)?;
        if self.word >> BATCH != batch {
            self.word = batch << BATCH;
        }
        Some(index)
    }

    /// Reports to the owner that the chunk is copied as a `whole`, or cannot be copied.
    #[inline]
    pub fn finish(&mut self, done: &impl Word, index: usize, whole: bool) {
        let bit = 1 << (index % MOST);
        self.word |= if whole { bit } else { bit << FAILED };
        done.store(self.word, Ordering::Release);
    }
}
