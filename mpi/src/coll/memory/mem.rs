//! Byte regions of user or scratch memory, as the algorithms pass them around.

use crate::error::{Error, ErrorClass, Result, counted};

/// A region of memory: an address and a length in bytes. `Copy`, without a lifetime, because the
/// futures of nonblocking collectives outlive the call that made them (MPI-5.0 §6.12: the user's
/// buffers stay valid until the request completes).
///
/// The promise of validity is made once, at [`Mem::new`]; everything after that stays in bounds.
#[derive(Clone, Copy, Debug)]
pub struct Mem {
    ptr: *mut u8,
    len: usize,
}

impl Mem {
    /// No memory at all.
    pub const EMPTY: Mem = Mem {
        ptr: std::ptr::null_mut(),
        len: 0,
    };

    /// The region of `len` bytes at `ptr`.
    ///
    /// # Safety
    /// Until every collective with this region is complete, the region is valid for reads, and for
    /// writes if the collective writes to it. No other code writes to it, or reads it if it is
    /// written.
    pub const unsafe fn new(ptr: *mut u8, len: usize) -> Self {
        Self { ptr, len }
    }

    /// First byte.
    pub const fn ptr(self) -> *mut u8 {
        self.ptr
    }

    /// Length in bytes.
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The part of `len` bytes from `offset`.
    ///
    /// # Panics
    /// When it reaches beyond the end (a mistake in an algorithm, never a user's).
    #[inline(always)]
    pub fn part(self, offset: usize, len: usize) -> Mem {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "part {offset}+{len} of a region of {} bytes",
            self.len
        );
        Mem {
            ptr: self.ptr.wrapping_add(offset),
            len,
        }
    }

    /// The first `len` bytes.
    #[inline]
    pub fn head(self, len: usize) -> Mem {
        self.part(0, len)
    }

    /// The bytes between two offsets.
    #[inline]
    pub fn range(self, start: usize, end: usize) -> Mem {
        self.part(start, end - start)
    }

    /// Copies all of `from` to the start of this region; they may be the same region or overlap.
    ///
    /// # Panics
    /// When `from` is longer.
    #[inline]
    pub fn copy_from(self, from: Mem) {
        assert!(
            from.len <= self.len,
            "copy of {} bytes into {}",
            from.len,
            self.len
        );
        if from.len != 0 && from.ptr != self.ptr {
            // SAFETY: both regions are valid by the promise made at `Mem::new`, the length fits in
            // both.
            unsafe { std::ptr::copy(from.ptr, self.ptr, from.len) }
        }
    }
}

impl Mem {
    /// Copies `bytes` to the start of this region.
    ///
    /// # Panics
    /// When there are more.
    pub fn fill(self, bytes: &[u8]) {
        let to = self.head(bytes.len());
        if !to.is_empty() {
            // SAFETY: the region is valid by the promise made at `Mem::new` and no other code
            // refers to it.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.ptr, to.len) }
        }
    }

    /// Writes zeros.
    pub fn clear(self) {
        if !self.is_empty() {
            // SAFETY: the region is valid by the promise made at `Mem::new` and no other code
            // refers to it.
            unsafe { self.ptr.write_bytes(0, self.len) }
        }
    }

    /// Exchanges the contents of this region and of another of the same length.
    ///
    /// # Panics
    /// When the lengths differ or the regions overlap.
    pub fn swap(self, other: Mem) {
        let apart = self.ptr.addr().abs_diff(other.ptr.addr()) >= self.len;
        assert!(self.len == other.len && apart, "regions to swap");
        if !self.is_empty() {
            // SAFETY: both are valid by the promise made at `Mem::new`, of this length, and do not
            // overlap.
            unsafe { std::ptr::swap_nonoverlapping(self.ptr, other.ptr, self.len) }
        }
    }

    /// A copy of the region, all of which has been written.
    pub fn to_vec(self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        // SAFETY: the region is valid by the promise made at `Mem::new`; no other code writes to it
        // during the copy.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }.to_vec()
    }
}

/// One region for each rank: the blocks of a gather, scatter, allgather or alltoall.
#[derive(Clone, Copy, Debug)]
pub enum Blocks<'a> {
    /// Equal blocks, one after the other.
    Uniform {
        /// All of them.
        all: Mem,
        /// Bytes in each.
        each: usize,
    },
    /// Any regions (the v and w forms).
    Table(&'a [Mem]),
}

impl Blocks<'_> {
    /// The block of rank `i`.
    ///
    /// # Panics
    /// When there is none.
    #[inline(always)]
    pub fn get(&self, i: usize) -> Mem {
        match *self {
            Blocks::Uniform { all, each } => {
                let start = i * each;
                // A rank times the length of a block is far from the end of the address space.
                assert!(start + each <= all.len, "block {i} of {each} bytes");
                Mem {
                    ptr: all.ptr.wrapping_add(start),
                    len: each,
                }
            }
            Blocks::Table(table) => table[i],
        }
    }

    /// Bytes of the block of rank `i`.
    #[inline(always)]
    pub fn len(&self, i: usize) -> usize {
        match *self {
            Blocks::Uniform { each, .. } => each,
            Blocks::Table(table) => table[i].len(),
        }
    }

    /// Bytes in all blocks of the ranks `start..start + n`, counted round the end of `size` ranks.
    pub fn total(&self, start: usize, n: usize, size: usize) -> usize {
        match *self {
            Blocks::Uniform { each, .. } => n * each,
            Blocks::Table(table) => (start..start + n).map(|i| table[i % size].len()).sum(),
        }
    }

    /// The longest block of `size` ranks, in bytes.
    pub fn longest(&self, size: usize) -> usize {
        match *self {
            Blocks::Uniform { each, .. } => each,
            Blocks::Table(table) => table[..size].iter().map(|m| m.len()).max().unwrap_or(0),
        }
    }
}

/// How a vector of elements is divided among ranks: boundaries in elements.
#[derive(Clone, Copy, Debug)]
pub enum Split<'a> {
    /// Every rank has the same number of elements (`MPI_Reduce_scatter_block`).
    Uniform(usize),
    /// `size + 1` offsets, ascending (`MPI_Reduce_scatter`).
    Offsets(&'a [usize]),
    /// Parts as even as whole elements allow: `elements` divided among `parts`.
    Even {
        /// Elements of the whole vector.
        elements: usize,
        /// Number of parts.
        parts: usize,
    },
}

impl Split<'_> {
    /// Where part `i` starts, in elements; `i` may be one past the last part.
    #[inline]
    pub fn start(&self, i: usize) -> usize {
        match *self {
            Split::Uniform(n) => i * n,
            Split::Offsets(offsets) => offsets[i],
            Split::Even { elements, parts } => {
                let (each, rest) = (elements / parts, elements % parts);
                i * each + i.min(rest)
            }
        }
    }

    /// Elements of part `i`.
    #[inline]
    pub fn count(&self, i: usize) -> usize {
        self.start(i + 1) - self.start(i)
    }

    /// Parts `from..to` of `vector`, whose elements have `element` bytes.
    #[inline]
    pub fn parts(&self, vector: Mem, element: usize, from: usize, to: usize) -> Mem {
        vector.range(self.start(from) * element, self.start(to) * element)
    }

    /// Part `i` of `vector`.
    #[inline]
    pub fn part(&self, vector: Mem, element: usize, i: usize) -> Mem {
        self.parts(vector, element, i, i + 1)
    }

    /// The longest of `parts` parts, in elements.
    pub fn longest(&self, parts: usize) -> usize {
        (0..parts).map(|i| self.count(i)).max().unwrap_or(0)
    }
}

/// Both sides of a block that stays on its rank must have the same length.
#[inline(always)]
pub(in crate::coll) fn check_equal(a: usize, b: usize) -> Result<()> {
    if a == b {
        return Ok(());
    }
    Err(unequal(a, b))
}

/// Room for `len` bytes such that the next buffer is aligned.
pub(in crate::coll) const fn stride(len: usize) -> usize {
    len.next_multiple_of(64)
}

#[cold]
fn unequal(a: usize, b: usize) -> Error {
    let (given, expected) = (counted(a, "byte"), counted(b, "byte"));
    let text = format!(
        "collective: a buffer has {given} where {expected} would match; the counts or datatypes differ"
    );
    Error::new(ErrorClass::Truncate, text)
}
