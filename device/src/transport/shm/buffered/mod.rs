//! Buffered copy: the sender copies a body into memory of the link, and the receiver copies it out.
//!
//! The body of one message is behind its cell: in the small ring, which the first-level caches
//! hold, or in the stream of bytes. A body longer than [`MAX_BODY`], or without a cell, goes
//! through the stream as frames. Both keep one order: a cell holds the position in the stream after
//! which it comes.

use rejoin_ring::{OutOfBounds, doorbell};

use super::short::MAX_BODY;
use super::{ShmEndpoint, breach};
use crate::transport::{Fault, MakeHeader, Piece, SendOutcome, closed};

pub(super) mod block_stream;
pub(super) mod cache_distance;
pub(super) mod small_ring;
pub(super) mod streaming_store;

/// Where a body behind its cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyPlace {
    /// In the small ring.
    SmallRing,
    /// In the stream of bytes.
    Stream,
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
    /// Sends a message whose body is copied into memory of the link, with the header that `pack`
    /// makes once there is room.
    #[inline(never)]
    pub(super) fn send_buffered(&mut self, body: &[u8], pack: impl MakeHeader) -> SendOutcome {
        let Some(place) = self.place_with_room(body.len()) else {
            return SendOutcome::WouldBlock;
        };
        if !self.has_cell() {
            return SendOutcome::WouldBlock;
        }
        let Some(header) = pack.make() else {
            return SendOutcome::WouldBlock;
        };
        let after = self.stream.written();
        // SAFETY: the memory is mapped for as long as the link is there; cell and place have room.
        unsafe {
            self.cells.note_small_ring(place == BodyPlace::SmallRing);
            match place {
                BodyPlace::SmallRing => self.small_ring.put(body),
                BodyPlace::Stream => self.stream.put(body.as_ptr(), body.len()),
            }
        }
        self.moved += body.len() as u64;
        self.show(&header, after)
    }

    /// Where there is room for a body of so many bytes. As [`ShmEndpoint::has_cell`] where the peer
    /// says what cannot be.
    #[inline]
    fn place_with_room(&mut self, len: usize) -> Option<BodyPlace> {
        let found = self.find_room(len);
        self.ended |= found.is_err();
        found.unwrap_or(None)
    }

    fn find_room(&mut self, len: usize) -> Result<Option<BodyPlace>, OutOfBounds> {
        // SAFETY: the memory is mapped for as long as the link is there.
        if unsafe { self.small_ring.has_room(len)? } {
            return Ok(Some(BodyPlace::SmallRing));
        }
        let room = len <= MAX_BODY && self.stream.room(len)? == len;
        Ok(room.then_some(BodyPlace::Stream))
    }

    /// Copies the first bytes of a body that is behind its cell.
    ///
    /// # Safety
    /// The conditions are those of [`ShmEndpoint::take_next`].
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

    /// Copies the first bytes of a body of `len` bytes out of the stream; false: it cannot be
    /// there.
    ///
    /// # Safety
    /// The conditions are those of [`ShmEndpoint::take_next`].
    #[inline]
    unsafe fn take_bytes(&mut self, into: Piece, len: usize) -> bool {
        // SAFETY: the caller's promise.
        self.stream.shown(len).is_ok()
            && unsafe { self.stream.take(len, into.iov_base.cast(), into.iov_len) }.is_ok()
            && self.release().is_ok()
    }

    /// Shows the peer how far this side has read, and rings its doorbell where it has room again.
    #[inline]
    fn release(&mut self) -> Result<(), OutOfBounds> {
        if self.stream.release()? {
            self.ring(doorbell::ROOM);
        }
        Ok(())
    }

    /// Copies the pieces into the stream, as far as there is room; returns the number of
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
            return if self.next_cell().is_none() && self.stream.is_empty() {
                Err(closed())
            } else {
                Ok(0)
            };
        }
        let asked = total(pieces);
        let mut left = asked;
        let mut from = Cursor { pieces, done: 0 };
        let mut steps = 0;
        while left > 0 {
            // The other side copies each block out while this one copies the next in.
            let step = left.min(self.stream.step_out());
            let room = self.stream.room(step).map_err(breach)?;
            if room == 0 {
                break;
            }
            let mut step = room;
            while step > 0 {
                let (at, len) = from.next(step);
                step -= len;
                // SAFETY: the caller promises readable memory.
                unsafe { self.stream.put(at, len) };
            }
            self.stream.publish();
            if left == asked {
                self.ring(doorbell::DATA);
            }
            left -= room;
            steps += 1;
        }
        // A reader that has taken all so far may sleep again.
        if steps > 1 {
            self.ring(doorbell::DATA);
        }
        self.moved += (asked - left) as u64;
        Ok(asked - left)
    }

    /// Copies bytes out of the stream into the pieces, as far as there are some before the next
    /// cell; returns their number.
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
            let wanted = left.min(self.stream.step_in());
            let mut ready = self.stream.ready(wanted).map_err(breach)?;
            // Read after the bytes, so that a cell published before them is seen.
            let cell = self.next_cell();
            if let Some(after) = cell {
                ready = ready.min(self.stream.until(after).map_err(breach)?);
            }
            if ready == 0 {
                let Some(after) = cell else {
                    break;
                };
                // Bytes before a cell were published before it.
                let before = self.stream.until(after).map_err(breach)?;
                if before > 0 && self.stream.ready(1).map_err(breach)? == 0 {
                    let (theirs, ours) = (after.into(), self.stream.read().into());
                    return Err(breach(OutOfBounds { theirs, ours }));
                }
                self.moved += (asked - left) as u64;
                return Ok(asked - left);
            }
            let mut step = ready;
            while step > 0 {
                let (at, len) = to.next(step);
                step -= len;
                // SAFETY: the caller promises writable memory.
                unsafe { self.stream.take(len, at, len) }.map_err(breach)?;
            }
            self.release().map_err(breach)?;
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
}
