//! Accesses of one rank: each piece by itself, or reads of many small ones through a buffer (data
//! sieving).

use std::ops::Range;

use super::file_view::{FilePiece, FileView};
use super::hints::{FileHints, Switch};
use super::range_lock::{LockKind, RangeLock};
use super::storage::FileStorage;
use crate::coll::Locality;
use crate::error::Result;
use crate::p2p::data::room;

/// Bytes of the stream whose pieces are listed at a time.
const SEGMENT: usize = 1 << 20;

/// What is accessed, and how.
#[derive(Clone, Copy)]
pub(super) struct FileAccess<'a> {
    pub storage: &'a FileStorage,
    pub view: &'a FileView,
    pub hints: &'a FileHints,
    /// Which ranks share a host.
    pub locality: &'a Locality,
    /// Each access is seen as a whole or not at all (MPI-5.0 §14.6.1).
    pub is_atomic: bool,
}

impl<'a> FileAccess<'a> {
    /// Writes `len` bytes to the stream, from byte `from` of it on.
    ///
    /// # Safety
    /// `bytes` is valid for reads of `len` bytes.
    pub unsafe fn write(&self, from: i64, bytes: *const u8, len: usize) -> Result<()> {
        let _lock = self.lock(self.view.range(from, len as i64), LockKind::Exclusive)?;
        // Each piece by itself: what lies between them may change meanwhile.
        self.for_each_segment(from, len, |pieces, at| {
            let mut bytes = bytes.wrapping_add(at);
            for piece in pieces {
                // SAFETY: these bytes of the caller's are those of the piece.
                unsafe { self.storage.write(piece.offset, bytes, piece.len as usize) }?;
                bytes = bytes.wrapping_add(piece.len as usize);
            }
            Ok(true)
        })
    }

    /// Reads `len` bytes of the stream, from byte `from` of it on. Returns how many there are
    /// before the end of the file.
    ///
    /// # Safety
    /// `to` is valid for writes of `len` bytes.
    pub unsafe fn read(&self, from: i64, to: *mut u8, len: usize) -> Result<usize> {
        let _lock = self.lock(self.view.range(from, len as i64), LockKind::Shared)?;
        let mut done = 0;
        self.for_each_segment(from, len, |pieces, _| {
            for group in groups(pieces, self.hints.ind_rd_buffer_size) {
                let place = to.wrapping_add(done);
                let sieves = self.view.is_in_order() && pays(group, self.hints.ds_read);
                // SAFETY: the rest of what the caller vouches for has room for the group.
                let read = unsafe {
                    match sieves {
                        true => self.read_sieved(group, place)?,
                        false => self.read_each(group, place)?,
                    }
                };
                done += read;
                if read < total(group) {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(done)
    }

    /// Locks a range of the file if the mode or the file system wants that.
    pub fn lock(&self, range: Range<i64>, kind: LockKind) -> Result<Option<RangeLock<'a>>> {
        if range.is_empty() || !(self.is_atomic || self.storage.locks_always()) {
            return Ok(None);
        }
        self.storage.lock(range, kind).map(Some)
    }

    /// Calls `act` with the pieces of one segment after the other, and where the segment begins
    /// among the bytes of the access, as long as it says so.
    fn for_each_segment(
        &self,
        from: i64,
        len: usize,
        mut act: impl FnMut(&[FilePiece], usize) -> Result<bool>,
    ) -> Result<()> {
        let step = if self.view.is_dense() { len } else { SEGMENT };
        let (mut at, mut pieces) = (0, Vec::new());
        while at < len {
            let part = step.min(len - at);
            pieces.clear();
            let first = from + at as i64;
            self.view
                .for_each_piece(first, part as i64, |piece| pieces.push(piece));
            if !act(&pieces, at)? {
                break;
            }
            at += part;
        }
        Ok(())
    }

    /// # Safety
    /// `to` is valid for writes of the pieces' bytes.
    unsafe fn read_each(&self, pieces: &[FilePiece], to: *mut u8) -> Result<usize> {
        let mut done = 0;
        for piece in pieces {
            let len = piece.len as usize;
            // SAFETY: the place of the piece among the caller's bytes.
            let read = unsafe { self.storage.read(piece.offset, to.wrapping_add(done), len) }?;
            done += read;
            if read < len {
                break;
            }
        }
        Ok(done)
    }

    /// # Safety
    /// The condition of `read_each`.
    unsafe fn read_sieved(&self, pieces: &[FilePiece], to: *mut u8) -> Result<usize> {
        let span = span(pieces);
        let mut buffer = room(span.len as usize)?;
        // SAFETY: the buffer is this long.
        let read = unsafe {
            let buffer = buffer.as_mut_ptr();
            self.storage.read(span.offset, buffer, span.len as usize)
        }?;
        let mut done = 0;
        for piece in pieces {
            let at = (piece.offset - span.offset) as usize;
            let len = (piece.len as usize).min(read.saturating_sub(at));
            let from = &buffer[at.min(read)..][..len];
            // SAFETY: the place of the piece among the caller's bytes.
            unsafe {
                to.wrapping_add(done)
                    .copy_from_nonoverlapping(from.as_ptr(), len)
            };
            done += len;
            if len < piece.len as usize {
                break;
            }
        }
        Ok(done)
    }
}

/// The pieces in groups that span `most` bytes, or have one piece.
fn groups(pieces: &[FilePiece], most: u64) -> impl Iterator<Item = &[FilePiece]> {
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let first = rest.first()?.offset;
        let most = most as i64;
        let fits = |piece: &&FilePiece| piece.end() - first <= most;
        let count = rest.iter().take_while(fits).count().max(1);
        let (group, after) = rest.split_at(count);
        rest = after;
        Some(group)
    })
}

/// The range that the pieces span. They are in order.
pub(super) fn span(pieces: &[FilePiece]) -> FilePiece {
    let offset = pieces.first().map_or(0, |first| first.offset);
    let end = pieces.last().map_or(offset, |last| last.end());
    FilePiece {
        offset,
        len: end - offset,
    }
}

fn total(pieces: &[FilePiece]) -> usize {
    pieces.iter().map(|piece| piece.len as usize).sum()
}

/// Whether one read of all that the pieces span is worth the bytes between them.
pub(super) fn pays(pieces: &[FilePiece], switch: Switch) -> bool {
    match switch {
        Switch::Disable => false,
        Switch::Enable => pieces.len() > 1,
        Switch::Automatic => pieces.len() > 1 && total(pieces) as i64 >= span(pieces).len / 4,
    }
}
