//! Short bodies outside of their cells, in a small ring of their own for each direction.
//!
//! The ring is so small that its lines stay in the first-level cache of both cores. Lines of a long
//! stream come from further away each time. With cores that share no cache, 1 KiB takes two thirds
//! of the time. A body for which it has no room goes into the stream of bytes, in order with the
//! others there.

use rejoin_ring::{OutOfBounds, Reader, Writer};

use super::super::link_memory::{Direction, LinkMemory, SMALL_RING};
use super::super::ring_side::RingSide;
use crate::transport::Piece;

/// Longest body that goes here.
const MOST: usize = SMALL_RING / 4;
/// Each begins on a cache line of its own.
const LINE: usize = 64;

/// The short rings of a link; its pointers are good for as long as its memory is mapped.
pub(in crate::transport::shm) struct SmallRing {
    writer: Writer,
    out: RingSide<u8>,
    reader: Reader,
    come: RingSide<u8>,
}

/// Bytes that a body takes, and those left out before it so that it lies side by side.
#[inline(always)]
fn span(position: u32, len: usize) -> (usize, usize) {
    let wanted = len.next_multiple_of(LINE);
    let left = SMALL_RING - (position as usize & (SMALL_RING - 1));
    (wanted, if left < wanted { left } else { 0 })
}

impl SmallRing {
    /// Of the side that writes this direction.
    pub(in crate::transport::shm) fn new(memory: &LinkMemory, out: Direction) -> Self {
        Self {
            writer: Writer::new(SMALL_RING),
            out: RingSide::small_ring(memory, out),
            reader: Reader::new(SMALL_RING),
            come: RingSide::small_ring(memory, out.opposite()),
        }
    }

    /// Whether a body of so many bytes may go here, and has room.
    ///
    /// # Errors
    /// The peer's position can't be.
    ///
    /// # Safety
    /// The memory is mapped.
    #[inline]
    pub(in crate::transport::shm) unsafe fn has_room(
        &mut self,
        len: usize,
    ) -> Result<bool, OutOfBounds> {
        if len > MOST {
            return Ok(false);
        }
        let (wanted, skipped) = span(self.writer.position(), len);
        // SAFETY: the caller's promise.
        let head = unsafe { self.out.head.as_ref() };
        Ok(self.writer.room(head, skipped + wanted)? == skipped + wanted)
    }

    /// Copies a body in that has room.
    ///
    /// # Safety
    /// The memory is mapped.
    #[inline]
    pub(in crate::transport::shm) unsafe fn put(&mut self, body: &[u8]) {
        let (wanted, skipped) = span(self.writer.position(), body.len());
        self.writer.next(skipped);
        let range = self.writer.next(wanted);
        let len = body.len().min(range.len());
        // SAFETY: the range is room in the ring, which the peer does not read before the message is
        // published.
        unsafe {
            let to = self.out.first.as_ptr().add(range.start);
            std::ptr::copy_nonoverlapping(body.as_ptr(), to, len);
        }
    }

    /// Copies the first bytes of the next body out and releases the body, which is published and
    /// has `len` bytes. False: no body of that length can be here.
    ///
    /// # Safety
    /// The memory is mapped; `into` is writable memory that nothing else uses.
    #[inline]
    pub(in crate::transport::shm) unsafe fn take(&mut self, into: Piece, len: usize) -> bool {
        let (wanted, skipped) = span(self.reader.position(), len);
        if len > MOST || self.reader.shown(skipped + wanted).is_err() {
            return false;
        }
        self.reader.next(skipped);
        let range = self.reader.next(wanted);
        let len = into.iov_len.min(range.len());
        // SAFETY: the range is not written before it is released; the caller promises the rest.
        unsafe {
            let from = self.come.first.as_ptr().add(range.start);
            std::ptr::copy_nonoverlapping(from, into.iov_base.cast::<u8>(), len);
            self.reader.release(self.come.head.as_ref());
        }
        true
    }
}
