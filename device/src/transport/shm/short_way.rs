//! The short way of a link: brief messages in cells, whose bodies stand in them, behind them, in the ring for short
//! bodies or in the ring; and how long a sender waits for room on it.

use std::sync::atomic::Ordering;

use rejoin_engine::{BRIEF_MOST, BRIEF_REST, Brief};
use rejoin_ring::{OutOfBounds, bell};

use super::{ShmLink, cells, memory, word};
use crate::transport::Piece;

/// Looks at a reader that stands still, on a core of its own: about ten microseconds.
const LOOKS: u32 = 400;
/// Times that a send at once (a blocking one, or a short nonblocking one) finds the reader going on before it leaves the
/// short way all the same.
pub(crate) const MOVES: u32 = 1024;

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

/// Bytes of a cell.
const CELL: u64 = 64;
// The body of a brief message fits any ring, and the staging buffer.
const _: () = assert!(BRIEF_MOST < memory::LEAST && BRIEF_MOST < crate::receive::STAGING / 2);

/// Where a body goes that is too long for the line of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It goes on behind its cell.
    Behind,
    /// In the ring for short bodies.
    Short,
    /// In the ring.
    Long,
}

impl ShmLink {
    /// The words of a brief message to be filled behind the first, if there is room for one. Where the peer says what
    /// cannot be, the link is over: the next write or read says so.
    #[inline(always)]
    pub(crate) fn free_brief(&mut self) -> Option<&mut [u64; BRIEF_REST]> {
        if self.ended {
            return None;
        }
        // SAFETY: the memory is mapped for as long as the link is there.
        match unsafe { self.cells.free() } {
            Ok(cell) => cell,
            Err(_) => {
                self.ended = true;
                None
            }
        }
    }

    /// Whether all cells for brief messages were in use at the last look: then [`ShmLink::await_cell`] comes
    /// before a send goes the long way.
    #[inline(always)]
    pub(crate) fn looks_full(&self) -> bool {
        self.cells.looks_full()
    }

    /// Waits for a free cell while the reader goes on; true if there is one.
    #[cold]
    #[inline(never)]
    pub(crate) fn await_cell(&mut self) -> bool {
        for _ in 0..MOVES {
            if self.free_brief().is_some() {
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
    pub(crate) fn reader_goes_on(&mut self) -> bool {
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

    /// Where a body of so many bytes has room apart from its message, if it has. As [`ShmLink::free_brief`] where the
    /// peer says what cannot be.
    #[inline]
    pub(crate) fn room(&mut self, len: usize) -> Option<Room> {
        if cells::holds(len) {
            return Some(Room::Behind);
        }
        match self.room_in_rings(len) {
            Ok(room) => room,
            Err(_) => {
                self.ended = true;
                None
            }
        }
    }

    #[inline]
    fn room_in_rings(&mut self, len: usize) -> Result<Option<Room>, OutOfBounds> {
        // SAFETY: the memory is mapped for as long as the link is there.
        if unsafe { self.shorts.has_room(len) }? {
            return Ok(Some(Room::Short));
        }
        let is_room = len <= BRIEF_MOST && self.writer.room(word!(self.out.head), len)? == len;
        Ok(is_room.then_some(Room::Long))
    }

    /// Shows the brief message to the peer, behind everything before it.
    #[inline(always)]
    pub(crate) fn publish_brief(&mut self, first: u64) {
        self.show(first, self.writer.position());
    }

    /// The same with a body that stands apart, for which there is such room.
    #[inline]
    pub(crate) fn publish_apart(&mut self, first: u64, body: &[u8], room: Room) {
        let after = self.writer.position();
        // SAFETY: the memory is mapped for as long as the link is there.
        unsafe {
            match room {
                Room::Behind => self.cells.fill(body),
                Room::Short => {
                    self.cells.note(true);
                    self.shorts.put(body);
                }
                Room::Long => {
                    self.cells.note(false);
                    self.put_apart(body);
                }
            }
        }
        self.moved += body.len() as u64;
        self.show(first, after);
    }

    #[inline(always)]
    fn show(&mut self, first: u64, after: u32) {
        // SAFETY: the memory is mapped for as long as the link is there.
        unsafe { self.cells.publish(first, after) };
        self.ring(bell::DATA);
        self.moved += CELL;
    }

    /// Copies a body into the ring.
    #[inline]
    fn put_apart(&mut self, body: &[u8]) {
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

    /// The brief message that comes next, if one does.
    #[inline(always)]
    pub(crate) fn next_brief(&self) -> Option<Brief> {
        // SAFETY: the memory is mapped for as long as the link is there.
        unsafe { self.cells.read(self.reader.position()) }
    }

    /// Lets go of it.
    #[inline(always)]
    pub(crate) fn release_brief(&mut self) {
        // SAFETY: the memory is mapped for as long as the link is there.
        unsafe { self.cells.release() };
        self.moved += CELL;
    }

    /// Lets go of it, and copies the first bytes of its body, which stands apart, to where they go.
    ///
    /// # Safety
    /// `into` is writable memory of at most as many bytes as the body has, that nothing else uses.
    #[inline]
    pub(crate) unsafe fn release_apart(&mut self, brief: &Brief, into: Piece) {
        let len = brief.claimed();
        self.moved += len as u64;
        // SAFETY: the memory is mapped for as long as the link is there; the rest is the caller's promise.
        let taken = unsafe {
            if cells::holds(len) {
                self.cells.take(into);
                true
            } else if cells::is_short(brief) {
                self.shorts.take(into, len)
            } else {
                self.take_apart(into, len)
            }
        };
        if !taken {
            // What no ring holds is from a peer that does not keep the rules.
            self.ended = true;
        }
        self.release_brief();
    }

    /// Copies the first bytes of a body of `len` bytes out of the ring.
    ///
    /// # Safety
    /// As [`ShmLink::release_apart`].
    #[inline]
    unsafe fn take_apart(&mut self, into: Piece, len: usize) -> bool {
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
