//! The cells of a link: messages of one cache line, in one order with the bytes.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rejoin_engine::{BRIEF_REST, Brief};
use rejoin_ring::{OutOfBounds, cells, cells::WORDS};

use super::memory::{CELLS, Direction, Memory, Place};

/// The cells of one direction.
struct Half {
    first: NonNull<AtomicU64>,
    head: NonNull<AtomicU64>,
}

impl Half {
    fn new(memory: &Memory, direction: Direction) -> Self {
        Self {
            first: memory.cells(direction),
            head: memory.word(Place::CellHead(direction)),
        }
    }

    /// The words of a cell.
    #[inline]
    fn cell(&self, index: usize) -> NonNull<AtomicU64> {
        // SAFETY: the index is below the number of cells, all of which lie in the mapping.
        unsafe { self.first.add(index * WORDS) }
    }
}

/// What a link needs to write and read cells; its pointers are good for as long as its memory is mapped.
pub(super) struct Cells {
    writer: cells::Writer,
    out: Half,
    reader: cells::Reader,
    come: Half,
}

/// Bits of a brief message's first word that are not the transport's.
const CARRIED: u64 = 0xffff_ff00;

impl Cells {
    /// Of the side that writes this direction.
    pub(super) fn new(memory: &Memory, out: Direction) -> Self {
        Self {
            writer: cells::Writer::new(CELLS),
            out: Half::new(memory, out),
            reader: cells::Reader::new(CELLS),
            come: Half::new(memory, out.opposite()),
        }
    }

    /// The words behind the first of a cell to be filled, unless all are in use. Nothing is written until
    /// [`Cells::publish`].
    ///
    /// # Safety
    /// The memory is mapped for as long as the words are used.
    #[inline]
    pub(super) unsafe fn free(&mut self) -> Result<Option<&mut [u64; BRIEF_REST]>, OutOfBounds> {
        // SAFETY: the caller's promise.
        let Some(index) = self.writer.free(unsafe { self.out.head.as_ref() })? else {
            return Ok(None);
        };
        // SAFETY: these words of a free cell are this side's until it is published; they are plain numbers.
        Ok(Some(unsafe { self.out.cell(index).add(1).cast().as_mut() }))
    }

    /// Shows the cell that was filled, with its first word, behind so many bytes.
    ///
    /// # Safety
    /// The memory is mapped, and [`Cells::free`] has given the cell.
    #[inline]
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
    #[inline]
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
    #[inline]
    pub(super) unsafe fn release(&mut self) {
        // SAFETY: the caller's promise.
        self.reader.release(unsafe { self.come.head.as_ref() });
    }
}
