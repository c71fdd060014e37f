//! Buffered copy: the sender copies a body into memory of the link, and the receiver copies it out.
//!
//! The body of one message is behind its cell, in the small ring, which the first-level caches
//! hold, or in the ring of bytes. A body longer than [`MAX_BODY`], or without a cell, goes through
//! the ring of bytes as frames. Both keep one order: a cell holds the position in the ring of bytes
//! after which it comes.

use rejoin_ring::{OutOfBounds, doorbell};

use super::short::MAX_BODY;
use super::{ShmEndpoint, breach, word};
use crate::transport::{Fault, MakeHeader, Piece, closed};

pub(super) mod small_ring;
pub(super) mod streaming_store;

/// Bytes that are copied before they are published to the other side, which copies them out
/// meanwhile.
const STEP: usize = 16 << 10;

/// The ring into which a body is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyRing {
    /// The small one.
    Small,
    /// The one of bytes.
    Bytes,
}

/// The way through a list of pieces.
struct Cursor<'a> {
    pieces: &'a [Piece],
    /// Bytes of the first that are done with.
    done: usize,
}

impl Cursor<'_> {
    /// The next bytes that lie side by side, at most `most`.
    #[inline]
    fn next(&mut self, most: usize) -> (*mut u8, usize) {
        while let Some(first) = self.pieces.first() {
            let left = first.iov_len - self.done;
            if left == 0 {
                self.pieces = &self.pieces[1..];
                self.done = 0;
                continue;
            }
            let at = first.iov_base.cast::<u8>().wrapping_add(self.done);
            let len = left.min(most);
            self.done += len;
            return (at, len);
        }
        (std::ptr::null_mut(), 0)
    }
}

fn total(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.iov_len).sum()
}

impl ShmEndpoint {
    /// Sends a message whose body is copied into a ring, with the header that `pack` makes once
    /// there is room.
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
                BodyRing::Small => self.small_ring.put(body),
                BodyRing::Bytes => self.put_bytes(body),
            }
        }
        self.moved += body.len() as u64;
        self.show(&header, after);
        true
    }

    /// The ring that has room for a body of so many bytes. As [`ShmEndpoint::has_cell`] where the
    /// peer says what cannot be.
    #[inline]
    fn ring_with_room(&mut self, len: usize) -> Option<BodyRing> {
        let found = self.find_room(len);
        self.ended |= found.is_err();
        found.unwrap_or(None)
    }

    fn find_room(&mut self, len: usize) -> Result<Option<BodyRing>, OutOfBounds> {
        // SAFETY: the memory is mapped for as long as the link is there.
        if unsafe { self.small_ring.has_room(len)? } {
            return Ok(Some(BodyRing::Small));
        }
        let room = len <= MAX_BODY && self.writer.room(word!(self.out.head), len)? == len;
        Ok(room.then_some(BodyRing::Bytes))
    }

    /// Copies a body into the ring of bytes.
    #[inline]
    fn put_bytes(&mut self, body: &[u8]) {
        let mut rest = body;
        while !rest.is_empty() {
            let range = self.writer.next(rest.len());
            let (now, later) = rest.split_at(range.len());
            // SAFETY: the range is room in the ring, which the peer does not read before the
            // message is published.
            unsafe {
                let to = self.out.first.as_ptr().add(range.start);
                self.store.copy(to, now.as_ptr(), now.len());
            }
            rest = later;
        }
    }

    /// The same of a body in a ring.
    ///
    /// # Safety
    /// As [`ShmEndpoint::take_next`].
    #[inline(never)]
    pub(super) unsafe fn take_buffered(&mut self, len: usize, into: Piece) {
        self.moved += len as u64;
        // SAFETY: the memory is mapped for as long as the link is there; the rest is the caller's
        // promise.
        let taken = unsafe {
            if self.cells.is_in_small_ring() {
                self.small_ring.take(into, len)
            } else {
                self.take_bytes(into, len)
            }
        };
        // A body that no ring can hold comes from a malicious peer.
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
            // SAFETY: the range was published with its message and is not written before it is
            // released; the caller promises the rest.
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

    /// Copies the pieces into the ring of bytes, as far as there is room; returns the number of
    /// bytes.
    ///
    /// # Safety
    /// Each piece is readable memory.
    ///
    /// # Errors
    /// The link is broken.
    #[inline]
    pub(super) unsafe fn write_bytes(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        if self.ended {
            // Bytes that the other side published before its end are read first.
            return if self.next_cell().is_none() && self.reader.is_empty(word!(self.peers_tail)) {
                Err(closed())
            } else {
                Ok(0)
            };
        }
        let asked = total(pieces);
        let mut left = asked;
        let mut from = Cursor { pieces, done: 0 };
        while left > 0 {
            let room = self.writer.room(word!(self.out.head), left.min(STEP));
            let room = room.map_err(breach)?;
            if room == 0 {
                break;
            }
            let mut step = room;
            while step > 0 {
                let (mut at, mut len) = from.next(step);
                step -= len;
                while len > 0 {
                    let range = self.writer.next(len);
                    // SAFETY: the range is room in the ring, which the peer does not read before it
                    // is published; the caller promises readable memory.
                    unsafe {
                        let to = self.out.first.as_ptr().add(range.start);
                        self.store.copy(to, at, range.len());
                    }
                    at = at.wrapping_add(range.len());
                    len -= range.len();
                }
            }
            self.writer.publish(word!(self.own_tail));
            self.ring(doorbell::DATA);
            left -= room;
        }
        self.moved += (asked - left) as u64;
        Ok(asked - left)
    }

    /// Copies bytes out of the ring into the pieces, as far as there are some before the next cell;
    /// returns their number.
    ///
    /// # Safety
    /// Each piece is writable memory that nothing else uses.
    ///
    /// # Errors
    /// The link is broken, or the peer has closed it.
    #[inline]
    pub(super) unsafe fn read_bytes(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        let asked = total(pieces);
        let mut left = asked;
        let mut to = Cursor { pieces, done: 0 };
        while left > 0 {
            let wanted = left.min(STEP);
            let ready = self.reader.ready(word!(self.peers_tail), wanted);
            let mut ready = ready.map_err(breach)?;
            // Read after the bytes, so that a cell published before them is seen.
            let cell = self.next_cell();
            if let Some(after) = cell {
                ready = ready.min(self.reader.until(after).map_err(breach)?);
            }
            if ready == 0 {
                let Some(after) = cell else {
                    break;
                };
                // Bytes before a cell were published before it.
                let before = self.reader.until(after).map_err(breach)?;
                let tail = word!(self.peers_tail);
                if before > 0 && self.reader.ready(tail, 1).map_err(breach)? == 0 {
                    let (theirs, ours) = (after.into(), self.reader.position().into());
                    return Err(breach(OutOfBounds { theirs, ours }));
                }
                self.moved += (asked - left) as u64;
                return Ok(asked - left);
            }
            let crowded = self.reader.is_crowded();
            let mut step = ready;
            while step > 0 {
                let (mut at, mut len) = to.next(step);
                step -= len;
                while len > 0 {
                    let range = self.reader.next(len);
                    // SAFETY: the range was published and is not written before it is released; the
                    // caller promises writable memory.
                    unsafe {
                        let from = self.come.first.as_ptr().add(range.start);
                        std::ptr::copy_nonoverlapping(from, at, range.len());
                    }
                    at = at.wrapping_add(range.len());
                    len -= range.len();
                }
            }
            self.reader.release(word!(self.come.head));
            if crowded {
                self.ring(doorbell::ROOM);
            } else {
                self.freed(ready);
            }
            left -= ready;
            if ready < wanted {
                break;
            }
        }
        if left == asked && self.ended && asked > 0 {
            return Err(closed());
        }
        self.moved += (asked - left) as u64;
        Ok(asked - left)
    }

    /// So many bytes were released. After each quarter of the ring, the reader rings the doorbell
    /// of a writer that may have found the ring full. The reader does not always know whether the
    /// ring was full. If it takes less and then computes, a sleeping writer waits for its own
    /// check, once a second. A doorbell at the end of each message would cost each message a fence.
    #[inline]
    fn freed(&mut self, len: usize) {
        self.released += len;
        if self.released >= self.memory.capacity() / 4 {
            self.released = 0;
            self.ring(doorbell::ROOM);
        }
    }
}
