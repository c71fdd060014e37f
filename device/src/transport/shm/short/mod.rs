//! Short messages: a header and its body in one cell, which announces itself.
//!
//! The cell of a longer message tells where its body is ([`super::buffered`]).

use rejoin_engine::ShortHeader;
use rejoin_ring::doorbell;

use super::{ShmEndpoint, link_memory};
use crate::transport::{MakeHeader, Piece, SendOutcome, closed};

mod cell_line;
pub(super) mod link_cells;
mod pace;

pub(crate) use cell_line::MAX_BODY;
pub(super) use link_cells::MAX_SHORT;
pub(super) use pace::Pace;

/// How often a send may wait for a reader that makes progress before it takes the slow path.
const MAX_WAITS: u32 = 1024;
/// Bytes that a cell counts for.
const CELL: u64 = 64;
// A writer is sure of one whole block.
const _: () = assert!(MAX_BODY <= link_memory::BLOCK);

impl ShmEndpoint {
    /// Sends a message whose body lies in its cell, with the header that `pack` makes once there is
    /// room.
    #[inline(always)]
    pub(super) fn send_in_cell(&mut self, body: &[u8], pack: impl MakeHeader) -> SendOutcome {
        if !self.has_cell() {
            return SendOutcome::WouldBlock;
        }
        let Some(header) = pack.make() else {
            return SendOutcome::WouldBlock;
        };
        // SAFETY: the memory is mapped for as long as the link is there, and there is a free cell.
        unsafe { self.cells.fill(body) };
        self.show(&header, self.stream.written())
    }

    /// Whether there is a free cell. An impossible position of the peer ends the link: the next
    /// write or read reports that.
    #[inline(always)]
    pub(super) fn has_cell(&mut self) -> bool {
        if self.ended {
            return false;
        }
        // SAFETY: the memory is mapped for as long as the link is there.
        match unsafe { self.cells.has_room() } {
            Ok(room) => room,
            Err(_) => {
                self.ended = true;
                false
            }
        }
    }

    /// Waits for a free cell while the reader makes progress; true if there is one, or was at the
    /// last check.
    #[inline(always)]
    pub(super) fn await_cell(&mut self) -> bool {
        !self.cells.seems_full() || self.await_free_cell()
    }

    /// Waits for a free cell where none was free at the last check; true if there is one now.
    #[cold]
    #[inline(never)]
    pub(super) fn await_free_cell(&mut self) -> bool {
        for _ in 0..MAX_WAITS {
            if self.has_cell() {
                return true;
            }
            if self.ended || !self.await_reader_progress() {
                return false;
            }
        }
        false
    }

    /// Waits until the reader takes a message, if that is soon. False if it takes none: the reader
    /// computes, and the sender does not wait for it again before it has moved. The sender still
    /// has its window.
    pub(super) fn await_reader_progress(&mut self) -> bool {
        let polls = if self.pace.wait_failed {
            0
        } else {
            self.pace.polls
        };
        for poll in 0..=polls {
            let taken = self.cells.taken().wrapping_add(self.stream.taken());
            if taken != self.pace.taken {
                self.pace.taken = taken;
                self.pace.wait_failed = false;
                return true;
            }
            if poll < polls {
                self.pace.rest();
            }
        }
        self.pace.wait_failed = true;
        false
    }

    /// Shows the peer a cell that is filled, and wakes the peer if it sleeps.
    #[inline(always)]
    pub(super) fn show(&mut self, header: &ShortHeader, after: u32) -> SendOutcome {
        // SAFETY: the memory is mapped for as long as the link is there, and the caller has filled
        // a free cell.
        unsafe { self.cells.publish(header, after) };
        self.moved += CELL;
        if self.doorbells.must_ring(doorbell::DATA) {
            return self.ring_for_cell();
        }
        SendOutcome::Sent
    }

    /// Wakes the peer for a cell; a peer that has closed the link does not read it.
    #[cold]
    fn ring_for_cell(&mut self) -> SendOutcome {
        if self.doorbells.ring() {
            return SendOutcome::Sent;
        }
        self.ended = true;
        SendOutcome::LinkLost(closed())
    }

    /// The header of the message that comes next, if one does.
    #[inline(always)]
    pub(super) fn next_header(&self) -> Option<ShortHeader> {
        // SAFETY: the memory is mapped for as long as the link is there.
        unsafe { self.cells.read(self.stream.read()) }
    }

    /// Copies the first bytes of the body of the message that comes next to where they go, and
    /// gives its place back.
    ///
    /// # Safety
    /// `into` is writable memory of at most as many bytes as the body has, that nothing else uses.
    #[inline(always)]
    pub(super) unsafe fn take_next(&mut self, header: &ShortHeader, into: Piece) {
        if usize::from(header.len) <= MAX_SHORT {
            // SAFETY: the memory is mapped for as long as the link is there; the rest is the
            // caller's promise.
            unsafe { self.cells.take(into) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.take_buffered(header.len.into(), into) };
        }
        // SAFETY: the memory is mapped for as long as the link is there.
        unsafe { self.cells.release() };
        self.moved += CELL;
    }
}
