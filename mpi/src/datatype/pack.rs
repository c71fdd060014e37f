//! Packing and unpacking (MPI-5.0 §5.2), and copies between two typed buffers.
//!
//! A buffer's address may be null with absolute displacements (`MPI_BOTTOM`, MPI-5.0 §5.1.12), and
//! one type may reach several objects. So blocks are reached through exposed addresses, not by
//! offsets within one allocation.

use std::mem::MaybeUninit;

use super::Datatype;
use super::movers::{Each, Mover, Pack, Unpack};
use super::walk::walk_elements;

/// Bytes of the buffer on the stack through which data goes between two scattered layouts.
const BOUNCE: usize = 16 * 1024;

impl Datatype {
    /// The end of the range of at most `len` bytes from `from` on.
    fn clip(&self, count: i64, from: i64, len: usize) -> (i64, i64) {
        let all = self.size().saturating_mul(count.max(0));
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        let from = from.clamp(0, all);
        (from, from.saturating_add(len).min(all))
    }

    /// Walks a clipped range of the packed stream.
    ///
    /// # Safety
    /// Every block of the range is valid for the mover.
    unsafe fn walk(&self, count: i64, base: usize, range: (i64, i64), mover: &mut impl Mover) {
        let extent = self.extent();
        // SAFETY: the range was clipped to the stream; the caller vouches for the blocks.
        unsafe { walk_elements(&self.body.layout, count, extent, base, range, mover) }
    }

    /// Copies bytes `[from, from + len)` of the packed stream of `count` elements at `buffer` to
    /// `to`; fewer if the stream ends before. Returns the number of bytes copied.
    ///
    /// # Safety
    /// The elements of the range are readable at `buffer`, and `to` is writable for `len` bytes
    /// that do not overlap them.
    pub unsafe fn pack(
        &self,
        count: i64,
        buffer: *const u8,
        from: i64,
        to: *mut u8,
        len: usize,
    ) -> usize {
        let range = self.clip(count, from, len);
        let mut mover = Pack { to };
        // SAFETY: the caller vouches for both buffers.
        unsafe { self.walk(count, buffer.expose_provenance(), range, &mut mover) };
        (range.1 - range.0) as usize
    }

    /// Copies `len` bytes at `data` to bytes `[from, from + len)` of the packed stream of `count`
    /// elements at `buffer`; fewer if the stream ends before. Returns the number of bytes copied.
    ///
    /// # Safety
    /// The elements of the range are writable at `buffer`, and `data` is readable for `len` bytes
    /// that do not overlap them.
    pub unsafe fn unpack(
        &self,
        count: i64,
        buffer: *mut u8,
        from: i64,
        data: *const u8,
        len: usize,
    ) -> usize {
        let range = self.clip(count, from, len);
        let mut mover = Unpack { from: data };
        // SAFETY: the caller vouches for both buffers.
        unsafe { self.walk(count, buffer.expose_provenance(), range, &mut mover) };
        (range.1 - range.0) as usize
    }

    /// Calls `visit(address, length)` for each block of bytes `[from, from + len)` of the packed
    /// stream of `count` elements at `buffer`, in order. Touches no memory; the address must have
    /// been exposed to be used.
    pub fn for_each_block(
        &self,
        count: i64,
        buffer: usize,
        from: i64,
        len: usize,
        visit: impl FnMut(usize, usize),
    ) {
        let range = self.clip(count, from, len);
        // SAFETY: the mover does not touch the blocks.
        unsafe { self.walk(count, buffer, range, &mut Each(visit)) }
    }
}

/// Copies the packed stream of one typed buffer into another without packing it as a whole; the
/// shorter stream decides. Returns the number of bytes copied.
///
/// # Safety
/// The elements are readable at `from` and writable at `to`, and they do not overlap.
pub unsafe fn transfer(
    (from, from_count, from_type): (*const u8, i64, &Datatype),
    (to, to_count, to_type): (*mut u8, i64, &Datatype),
) -> i64 {
    let room = |count: i64, t: &Datatype| t.size().saturating_mul(count.max(0));
    let all = room(from_count, from_type).min(room(to_count, to_type));
    let len = all as usize;
    if all == 0 {
        return 0;
    }
    // SAFETY: the caller vouches for the elements; a contiguous stream is used as it lies.
    unsafe {
        if let Some(offset) = from_type.contiguous_offset(from_count) {
            let data = from.wrapping_offset(offset as isize);
            to_type.unpack(to_count, to, 0, exposed(from, data), len);
        } else if let Some(offset) = to_type.contiguous_offset(to_count) {
            let data = to.wrapping_offset(offset as isize);
            let data = exposed(to, data).cast_mut();
            from_type.pack(from_count, from, 0, data, len);
        } else {
            let mut bounce = [MaybeUninit::<u8>::uninit(); BOUNCE];
            let bounce = bounce.as_mut_ptr().cast::<u8>();
            let mut done = 0;
            while done < all {
                let piece = BOUNCE.min((all - done) as usize);
                from_type.pack(from_count, from, done, bounce, piece);
                to_type.unpack(to_count, to, done, bounce, piece);
                done += piece as i64;
            }
        }
    }
    all
}

/// The address in a form that may be used: absolute displacements have a null base, whose
/// provenance covers nothing.
fn exposed(base: *const u8, address: *const u8) -> *const u8 {
    if base.is_null() {
        std::ptr::with_exposed_provenance(address.addr())
    } else {
        address
    }
}
