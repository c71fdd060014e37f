//! The cells of a link: messages of one cache line, in one order with the bytes.
//!
//! A body that is somewhat too long for the line goes on behind it: neighbours come from one core to the other
//! together, where a place elsewhere would be fetched only when the line is there.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rejoin_engine::{BRIEF_BODY, BRIEF_REST, Brief};
use rejoin_ring::{OutOfBounds, cells};

use super::half::Half;
use super::memory::{CELL_WORDS, CELLS, Direction, Memory};
use crate::transport::Piece;

impl Half<AtomicU64> {
    /// The words of a cell.
    #[inline]
    fn cell(&self, index: usize) -> NonNull<AtomicU64> {
        // SAFETY: the index is below the number of cells, all of which lie in the mapping.
        unsafe { self.first.add(index * CELL_WORDS) }
    }
}

/// What a link needs to write and read cells; its pointers are good for as long as its memory is mapped.
pub(super) struct Cells {
    writer: cells::Writer,
    out: Half<AtomicU64>,
    reader: cells::Reader,
    come: Half<AtomicU64>,
}

/// Bits of a brief message's first word that are not the transport's.
const CARRIED: u64 = 0xffff_fffc;
/// The word of a cell where its body begins.
const BODY: usize = 1 + BRIEF_REST - BRIEF_BODY / 8;
/// Longest body that has room in and behind a cell, in bytes.
pub(super) const LONGEST: usize = 8 * (CELL_WORDS - BODY);

/// Whether so long a body lies in a cell and behind it.
#[inline(always)]
pub(super) fn holds(len: usize) -> bool {
    len <= LONGEST
}

/// Whether a body that does not is in the short ring.
#[inline(always)]
pub(super) fn is_short(brief: &Brief) -> bool {
    brief.rest[BODY - 1] != 0
}

impl Cells {
    /// Of the side that writes this direction.
    pub(super) fn new(memory: &Memory, out: Direction) -> Self {
        Self {
            writer: cells::Writer::new(CELLS),
            out: Half::cells(memory, out),
            reader: cells::Reader::new(CELLS),
            come: Half::cells(memory, out.opposite()),
        }
    }

    /// The words behind the first of a cell to be filled, unless all are in use. Nothing is written until
    /// [`Cells::publish`].
    ///
    /// # Safety
    /// The memory is mapped for as long as the words are used.
    #[inline(always)]
    pub(super) unsafe fn free(&mut self) -> Result<Option<&mut [u64; BRIEF_REST]>, OutOfBounds> {
        // SAFETY: the caller's promise.
        let Some(index) = self.writer.free(unsafe { self.out.head.as_ref() })? else {
            return Ok(None);
        };
        // SAFETY: these words of a free cell are this side's until it is published; they are plain numbers.
        Ok(Some(unsafe { self.out.cell(index).add(1).cast().as_mut() }))
    }

    /// The reader's word: how many it has given back.
    #[inline]
    pub(super) fn taken(&self) -> u64 {
        // SAFETY: the word is mapped for as long as the link is there.
        unsafe { self.out.head.as_ref() }.load(Ordering::Relaxed)
    }

    /// Whether all cells were in use at the last look.
    #[inline(always)]
    pub(super) fn looks_full(&self) -> bool {
        self.writer.looks_full()
    }

    /// Fills the body of a free cell, which has room for it.
    ///
    /// # Safety
    /// The memory is mapped, and [`Cells::free`] has given the cell.
    #[inline(always)]
    pub(super) unsafe fn fill(&mut self, body: &[u8]) {
        let cell = self.out.cell(self.writer.index());
        let len = body.len().min(LONGEST);
        // SAFETY: these words, and the line behind them, are this side's until the cell is published.
        unsafe {
            let to = cell.add(BODY).as_ptr().cast();
            std::ptr::copy_nonoverlapping(body.as_ptr(), to, len);
        }
    }

    /// Notes in a free cell in which ring its body is.
    ///
    /// # Safety
    /// As [`Cells::fill`].
    #[inline(always)]
    pub(super) unsafe fn note(&mut self, short: bool) {
        let cell = self.out.cell(self.writer.index());
        // SAFETY: as there.
        unsafe { cell.add(BODY).cast::<u64>().write(short.into()) };
    }

    /// Copies the first bytes of the body of the cell that was read, as many as it has room for.
    ///
    /// # Safety
    /// The memory is mapped; `into` is writable memory that nothing else uses.
    #[inline(always)]
    pub(super) unsafe fn take(&self, into: Piece) {
        let cell = self.come.cell(self.reader.index());
        let (to, len) = (into.iov_base.cast(), into.iov_len.min(LONGEST));
        // SAFETY: the lines are not written before the cell is released; the caller promises the rest.
        unsafe { std::ptr::copy_nonoverlapping(cell.add(BODY).as_ptr().cast::<u8>(), to, len) };
    }

    /// Shows the cell that was filled, with its first word, behind so many bytes.
    ///
    /// # Safety
    /// The memory is mapped, and [`Cells::free`] has given the cell.
    #[inline(always)]
    pub(super) unsafe fn publish(&mut self, first: u64, after: u32) {
        let cell = self.out.cell(self.writer.index());
        let word = first & CARRIED | u64::from(after) << 32;
        // SAFETY: the caller's promise.
        self.writer.publish(unsafe { cell.as_ref() }, word);
    }

    /// After how many bytes the next cell comes, if there is one.
    ///
    /// # Safety
    /// The memory is mapped.
    #[inline]
    pub(super) unsafe fn next(&self) -> Option<u32> {
        let cell = self.come.cell(self.reader.index());
        // SAFETY: the caller's promise.
        let word = self.reader.look(unsafe { cell.as_ref() })?;
        Some((word >> 32) as u32)
    }

    /// The next cell, if it is there and comes after so many bytes.
    ///
    /// # Safety
    /// The memory is mapped.
    #[inline(always)]
    pub(super) unsafe fn read(&self, after: u32) -> Option<Brief> {
        let cell = self.come.cell(self.reader.index());
        // SAFETY: the caller's promise.
        let first = self.reader.look(unsafe { cell.as_ref() })?;
        if (first >> 32) as u32 != after {
            return None;
        }
        // A copy: whatever the peer does to the cell, what is looked at stays what it is.
        let mut rest = [0; BRIEF_REST];
        for (at, word) in rest.iter_mut().enumerate() {
            // SAFETY: a word of the cell.
            *word = unsafe { cell.add(1 + at).as_ref() }.load(Ordering::Relaxed);
        }
        Some(Brief { first, rest })
    }

    /// Gives back the cell that was read.
    ///
    /// # Safety
    /// The memory is mapped.
    #[inline(always)]
    pub(super) unsafe fn release(&mut self) {
        // SAFETY: the caller's promise.
        self.reader.release(unsafe { self.come.head.as_ref() });
    }
}
