//! The cells of a link: short messages of one cache line each, in one order with the bytes.
//!
//! A body that is slightly too long for the line continues in the line behind it. Neighbouring
//! lines travel from one core to the other together. Another place would be fetched only after the
//! first line.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rejoin_engine::ShortHeader;
use rejoin_ring::{OutOfBounds, cells};

use super::super::link_memory::{CELL_WORDS, CELLS, Direction, LinkMemory};
use super::super::ring_side::RingSide;
use super::cell_line as line;
use crate::transport::Piece;

impl RingSide<AtomicU64> {
    /// The words of a cell.
    #[inline]
    fn cell(&self, index: usize) -> NonNull<AtomicU64> {
        // SAFETY: the index is below the number of cells, all of which lie in the mapping.
        unsafe { self.first.add(index * CELL_WORDS) }
    }
}

/// The state with which a link writes and reads cells. Its pointers are valid while its memory is
/// mapped.
pub(in crate::transport::shm) struct Cells {
    writer: cells::CellWriter,
    out: RingSide<AtomicU64>,
    reader: cells::CellReader,
    come: RingSide<AtomicU64>,
}

/// Longest body that has room in and behind a cell, in bytes.
pub(in crate::transport::shm) const MAX_SHORT: usize = 8 * (CELL_WORDS - line::BODY);
/// Bytes of a body that lie in the line of its header.
const IN_LINE: usize = 8 * (cells::WORDS - line::BODY);

impl Cells {
    /// Of the side that writes this direction.
    pub(in crate::transport::shm) fn new(memory: &LinkMemory, out: Direction) -> Self {
        Self {
            writer: cells::CellWriter::new(CELLS),
            out: RingSide::cells(memory, out),
            reader: cells::CellReader::new(CELLS),
            come: RingSide::cells(memory, out.opposite()),
        }
    }

    /// Whether there is a cell to be filled. Nothing is shown until [`Cells::publish`].
    ///
    /// # Errors
    /// The peer's word cannot be.
    ///
    /// # Safety
    /// The memory is mapped.
    #[inline(always)]
    pub(in crate::transport::shm) unsafe fn has_room(&mut self) -> Result<bool, OutOfBounds> {
        // SAFETY: the caller's promise.
        let free = self.writer.free(unsafe { self.out.head.as_ref() })?;
        Ok(free.is_some())
    }

    /// The reader's word: how many it has given back.
    #[inline]
    pub(in crate::transport::shm) fn taken(&self) -> u64 {
        // SAFETY: the word is mapped for as long as the link is there.
        unsafe { self.out.head.as_ref() }.load(Ordering::Relaxed)
    }

    /// Whether all cells were in use at the last look.
    #[inline(always)]
    pub(in crate::transport::shm) fn seems_full(&self) -> bool {
        self.writer.seems_full()
    }

    /// Fills the body of a free cell, with at most [`MAX_SHORT`] bytes.
    ///
    /// # Safety
    /// The memory is mapped, and [`Cells::has_room`] was true.
    #[inline(always)]
    pub(in crate::transport::shm) unsafe fn fill(&mut self, body: &[u8]) {
        let cell = self.out.cell(self.writer.index());
        // SAFETY: these words, and the line behind them, are this side's until the cell is
        // published.
        unsafe {
            let to = cell.add(line::BODY).as_ptr();
            if let Ok(word) = body.try_into() {
                to.cast::<u64>().write(u64::from_le_bytes(word).to_le());
            } else {
                let len = body.len().min(MAX_SHORT);
                std::ptr::copy_nonoverlapping(body.as_ptr(), to.cast(), len);
            }
        }
    }

    /// Notes in a free cell in which ring its body is.
    ///
    /// # Safety
    /// The conditions are those of [`Cells::fill`].
    #[inline(always)]
    pub(in crate::transport::shm) unsafe fn note_small_ring(&mut self, small: bool) {
        let cell = self.out.cell(self.writer.index());
        // SAFETY: as there.
        unsafe { cell.add(line::BODY).cast::<u64>().write(small.into()) };
    }

    /// Shows the cell whose body is there, with its header, behind so many bytes.
    ///
    /// # Safety
    /// The conditions are those of [`Cells::fill`].
    #[inline(always)]
    pub(in crate::transport::shm) unsafe fn publish(&mut self, header: &ShortHeader, after: u32) {
        let cell = self.out.cell(self.writer.index());
        let (first, rest) = line::pack(header);
        // SAFETY: the caller's promise: these words are this side's until the first one is
        // published.
        unsafe {
            cell.add(1).cast::<[u64; line::HEADER_REST]>().write(rest);
            self.writer
                .publish(cell.as_ref(), line::behind(first, after));
        }
    }

    /// After how many bytes the next cell comes, if there is one.
    ///
    /// # Safety
    /// The memory is mapped.
    #[inline]
    pub(in crate::transport::shm) unsafe fn next(&self) -> Option<u32> {
        let cell = self.come.cell(self.reader.index());
        // SAFETY: the caller's promise.
        let word = self.reader.look(unsafe { cell.as_ref() })?;
        Some(line::position(word))
    }

    /// The header of the next cell, if it is there and comes after so many bytes: a copy, which the
    /// peer can't change any more.
    ///
    /// # Safety
    /// The memory is mapped.
    #[inline(always)]
    pub(in crate::transport::shm) unsafe fn read(&self, after: u32) -> Option<ShortHeader> {
        let cell = self.come.cell(self.reader.index());
        // SAFETY: the caller's promise.
        let first = self.reader.look(unsafe { cell.as_ref() })?;
        if line::position(first) != after {
            return None;
        }
        let rest = std::array::from_fn(|at| self.word(1 + at));
        Some(line::unpack(first, rest))
    }

    /// Copies the first bytes of the body of the cell that was read, as many as `into` has room
    /// for.
    ///
    /// # Safety
    /// The memory is mapped; `into` is writable memory that nothing else uses.
    #[inline(always)]
    pub(in crate::transport::shm) unsafe fn take(&self, into: Piece) {
        let to = into.iov_base.cast::<u8>();
        // SAFETY: the lines are not written before the cell is released; the caller promises the
        // rest.
        unsafe {
            match into.iov_len {
                8 => to
                    .cast::<u64>()
                    .write_unaligned(self.word(line::BODY).to_le()),
                len if len <= IN_LINE => self.take_words(to, len),
                len => {
                    let cell = self.come.cell(self.reader.index());
                    let from = cell.add(line::BODY).as_ptr().cast::<u8>();
                    std::ptr::copy_nonoverlapping(from, to, len.min(MAX_SHORT));
                }
            }
        }
    }

    /// Copies the first `len` bytes of a body that lies in the line of its cell.
    ///
    /// # Safety
    /// The conditions are those of [`Cells::take`], for `len` bytes at `to`.
    #[inline(never)]
    unsafe fn take_words(&self, to: *mut u8, len: usize) {
        for (number, at) in (0..len).step_by(8).enumerate() {
            let bytes = self.word(line::BODY + number).to_le_bytes();
            // SAFETY: the caller's promise.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(at), (len - at).min(8));
            }
        }
    }

    /// Whether the body of the cell that was read is in the small ring.
    #[inline]
    pub(in crate::transport::shm) fn is_in_small_ring(&self) -> bool {
        self.word(line::BODY) != 0
    }

    /// A word of the cell that comes next.
    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        let cell = self.come.cell(self.reader.index());
        // SAFETY: a word of the cell, which is mapped for as long as the link is there.
        unsafe { cell.add(at).as_ref() }.load(Ordering::Relaxed)
    }

    /// Gives back the cell that was read.
    ///
    /// # Safety
    /// The memory is mapped.
    #[inline(always)]
    pub(in crate::transport::shm) unsafe fn release(&mut self) {
        // SAFETY: the caller's promise.
        self.reader.release(unsafe { self.come.head.as_ref() });
    }
}
