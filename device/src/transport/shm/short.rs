//! Short messages and buffered copies of a link: a header in a cell, and the body with it or in a ring.
//!
//! A body of up to [`MAX_SHORT`] bytes lies in the cell. A longer one is copied into a ring: into the small one, which
//! the first caches hold, or else into the ring of bytes, in order with the other bytes there.

use std::sync::atomic::Ordering;

use rejoin_engine::ShortHeader;
use rejoin_ring::{OutOfBounds, bell};

use super::cells::MAX_SHORT;
use super::line::MAX_BODY;
use super::{ShmEndpoint, memory, word};
use crate::transport::{MakeHeader, Piece};

/// Looks at a reader that stands still, on a core of its own: about ten microseconds.
const LOOKS: u32 = 400;
/// Times that a send finds the reader going on before it takes the slow path all the same.
const MOVES: u32 = 1024;
/// Bytes that a cell counts for.
const CELL: u64 = 64;
// A body fits any ring, and the staging buffer.
const _: () = assert!(MAX_BODY < memory::LEAST && MAX_BODY < crate::receive::STAGING / 2);

/// How the reader of a link goes on, as its sender sees it.
pub(super) struct Pace {
    /// Looks at a reader that stands still: where ranks share cores one, after it had this side's.
    looks: u32,
    yields: bool,
    /// This side has waited for the reader in vain.
    in_vain: bool,
    /// What the reader had taken at the last look.
    taken: u64,
}

impl Pace {
    /// Of a sender that shares its core with the reader, or does not.
    pub(super) fn new(shares_cores: bool) -> Self {
        Self {
            looks: if shares_cores { 1 } else { LOOKS },
            yields: shares_cores,
            in_vain: false,
            taken: 0,
        }
    }

    fn rest(&self) {
        if self.yields {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// The ring into which a body is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyRing {
    /// The small one.
    Small,
    /// The one of bytes.
    Bytes,
}

impl ShmEndpoint {
    /// Sends a message whose body lies in its cell, with the header that `pack` makes once there is room.
    #[inline(always)]
    pub(super) fn send_in_cell(&mut self, body: &[u8], pack: impl MakeHeader) -> bool {
        if !self.has_cell() {
            return false;
        }
        let Some(header) = pack.make() else {
            return false;
        };
        // SAFETY: the memory is mapped for as long as the link is there, and there is a free cell.
        unsafe { self.cells.fill(body) };
        self.show(&header, self.writer.position());
        true
    }

    /// The same with a body that is copied into a ring.
    #[inline(never)]
    pub(super) fn send_buffered(&mut self, body: &[u8], pack: impl MakeHeader) -> bool {
        let Some(ring) = self.ring_with_room(body.len()) else {
            return false;
        };
        if !self.has_cell() {
            return false;
        }
        let Some(header) = pack.make() else {
            return false;
        };
        let after = self.writer.position();
        // SAFETY: the memory is mapped for as long as the link is there; cell and ring have room.
        unsafe {
            self.cells.note_ring(ring == BodyRing::Small);
            match ring {
                BodyRing::Small => self.shorts.put(body),
                BodyRing::Bytes => self.put_bytes(body),
            }
        }
        self.moved += body.len() as u64;
        self.show(&header, after);
        true
    }

    /// Whether there is a free cell. Where the peer says what cannot be, the link is over: the next write or read
    /// says so.
    #[inline(always)]
    fn has_cell(&mut self) -> bool {
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

    /// Waits for a free cell while the reader goes on; true if there is one, or was at the last look.
    #[inline(always)]
    pub(super) fn await_cell(&mut self) -> bool {
        !self.cells.looks_full() || self.await_free_cell()
    }

    /// The same where none was free at the last look.
    #[cold]
    #[inline(never)]
    pub(super) fn await_free_cell(&mut self) -> bool {
        for _ in 0..MOVES {
            if self.has_cell() {
                return true;
            }
            if self.ended || !self.reader_goes_on() {
                return false;
            }
        }
        false
    }

    /// Waits until the reader takes something, if that is soon: false where it stands still, which is then not waited
    /// for again before it has moved. It computes, and the sender has its window.
    pub(super) fn reader_goes_on(&mut self) -> bool {
        let looks = if self.pace.in_vain {
            0
        } else {
            self.pace.looks
        };
        for look in 0..=looks {
            let bytes = word!(self.out.head).load(Ordering::Relaxed);
            let taken = self.cells.taken().wrapping_add(bytes);
            if taken != self.pace.taken {
                self.pace.taken = taken;
                self.pace.in_vain = false;
                return true;
            }
            if look < looks {
                self.pace.rest();
            }
        }
        self.pace.in_vain = true;
        false
    }

    /// The ring that has room for a body of so many bytes. As [`ShmEndpoint::has_cell`] where the peer says what
    /// cannot be.
    #[inline]
    fn ring_with_room(&mut self, len: usize) -> Option<BodyRing> {
        let found = self.find_room(len);
        self.ended |= found.is_err();
        found.unwrap_or(None)
    }

    fn find_room(&mut self, len: usize) -> Result<Option<BodyRing>, OutOfBounds> {
        // SAFETY: the memory is mapped for as long as the link is there.
        if unsafe { self.shorts.has_room(len)? } {
            return Ok(Some(BodyRing::Small));
        }
        let room = len <= MAX_BODY && self.writer.room(word!(self.out.head), len)? == len;
        Ok(room.then_some(BodyRing::Bytes))
    }

    #[inline(always)]
    fn show(&mut self, header: &ShortHeader, after: u32) {
        // SAFETY: the memory is mapped for as long as the link is there, and the caller has filled a free cell.
        unsafe { self.cells.publish(header, after) };
        self.ring(bell::DATA);
        self.moved += CELL;
    }

    /// Copies a body into the ring of bytes.
    #[inline]
    fn put_bytes(&mut self, body: &[u8]) {
        let mut rest = body;
        while !rest.is_empty() {
            let range = self.writer.next(rest.len());
            let (now, later) = rest.split_at(range.len());
            // SAFETY: the range is room in the ring, which nobody reads before the message is published.
            unsafe {
                let to = self.out.first.as_ptr().add(range.start);
                self.store.copy(to, now.as_ptr(), now.len());
            }
            rest = later;
        }
    }

    /// The header of the message that comes next, if one does.
    #[inline(always)]
    pub(super) fn next_header(&self) -> Option<ShortHeader> {
        // SAFETY: the memory is mapped for as long as the link is there.
        unsafe { self.cells.read(self.reader.position()) }
    }

    /// Copies the first bytes of the body of the message that comes next to where they go, and gives its place back.
    ///
    /// # Safety
    /// `into` is writable memory of at most as many bytes as the body has, that nothing else uses.
    #[inline(always)]
    pub(super) unsafe fn take_next(&mut self, header: &ShortHeader, into: Piece) {
        if usize::from(header.len) <= MAX_SHORT {
            // SAFETY: the memory is mapped for as long as the link is there; the rest is the caller's promise.
            unsafe { self.cells.take(into) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.take_buffered(header.len.into(), into) };
        }
        // SAFETY: the memory is mapped for as long as the link is there.
        unsafe { self.cells.release() };
        self.moved += CELL;
    }

    /// The same of a body in a ring.
    ///
    /// # Safety
    /// As [`ShmEndpoint::take_next`].
    #[inline(never)]
    unsafe fn take_buffered(&mut self, len: usize, into: Piece) {
        self.moved += len as u64;
        // SAFETY: the memory is mapped for as long as the link is there; the rest is the caller's promise.
        let taken = unsafe {
            if self.cells.is_in_small_ring() {
                self.shorts.take(into, len)
            } else {
                self.take_bytes(into, len)
            }
        };
        // What no ring holds is from a peer that does not keep the rules.
        self.ended |= !taken;
    }

    /// Copies the first bytes of a body of `len` bytes out of the ring of bytes.
    ///
    /// # Safety
    /// As [`ShmEndpoint::take_next`].
    #[inline]
    unsafe fn take_bytes(&mut self, into: Piece, len: usize) -> bool {
        if self.reader.shown(len).is_err() {
            return false;
        }
        let (mut done, mut left) = (0, len);
        while left > 0 {
            let range = self.reader.next(left);
            let wanted = range.len().min(into.iov_len - done);
            // SAFETY: the range was published with its message and is not written before it is released; the
            // caller promises the rest.
            unsafe {
                let from = self.come.first.as_ptr().add(range.start);
                let to = into.iov_base.cast::<u8>().add(done);
                std::ptr::copy_nonoverlapping(from, to, wanted);
            }
            done += wanted;
            left -= range.len();
        }
        self.reader.release(word!(self.come.head));
        self.freed(len);
        true
    }
}
