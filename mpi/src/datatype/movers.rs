//! The innermost loops of the pack engine, which handle the blocks of a walk.

use std::ptr;

/// Something that consumes the blocks of a walk in the order of the packed stream.
///
/// Addresses are plain numbers: displacements may be absolute (`MPI_BOTTOM`) and cross objects.
pub(super) trait Mover {
    /// `len` bytes at `at`.
    ///
    /// # Safety
    /// The bytes are valid for the mover's access, and the stream has room for them.
    unsafe fn run(&mut self, at: usize, len: usize);

    /// `count` blocks of `len` bytes, `stride` bytes apart.
    ///
    /// # Safety
    /// The conditions of `run`, for every block.
    unsafe fn strided(&mut self, at: usize, count: usize, len: usize, stride: isize) {
        for i in 0..count {
            // SAFETY: the caller vouches for every block.
            unsafe { self.run(at.wrapping_add_signed(stride.wrapping_mul(i as isize)), len) }
        }
    }

    /// Blocks of `len` bytes at `base` plus each displacement.
    ///
    /// # Safety
    /// The conditions of `run`, for every block.
    unsafe fn scattered(&mut self, base: usize, displacements: &[i64], len: usize) {
        for d in displacements {
            // SAFETY: the caller vouches for every block.
            unsafe { self.run(base.wrapping_add_signed(*d as isize), len) }
        }
    }
}

/// Copies one block; implementations differ in what is known of its length.
trait CopyBlock {
    /// Copies `len` bytes.
    ///
    /// # Safety
    /// Both are valid for `len` bytes and do not overlap.
    unsafe fn copy(from: *const u8, to: *mut u8, len: usize);
}

/// Blocks of `N` bytes: a few instructions.
struct Fixed<const N: usize>;

/// Blocks of any length: a call of `memcpy`.
struct Any;

impl<const N: usize> CopyBlock for Fixed<N> {
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, _len: usize) {
        // SAFETY: the caller vouches for both; unaligned accesses.
        unsafe {
            to.cast::<[u8; N]>()
                .write_unaligned(from.cast::<[u8; N]>().read_unaligned())
        }
    }
}

impl CopyBlock for Any {
    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller vouches for both.
        unsafe { ptr::copy_nonoverlapping(from, to, len) }
    }
}

/// Evaluates an expression with `$c` as the best way to copy blocks of this length.
macro_rules! by_length {
    ($len:expr, $c:ident => $body:expr) => {
        match $len {
            1 => by_length!(@ Fixed<1>, $c, $body),
            2 => by_length!(@ Fixed<2>, $c, $body),
            4 => by_length!(@ Fixed<4>, $c, $body),
            8 => by_length!(@ Fixed<8>, $c, $body),
            12 => by_length!(@ Fixed<12>, $c, $body),
            16 => by_length!(@ Fixed<16>, $c, $body),
            24 => by_length!(@ Fixed<24>, $c, $body),
            32 => by_length!(@ Fixed<32>, $c, $body),
            64 => by_length!(@ Fixed<64>, $c, $body),
            _ => by_length!(@ Any, $c, $body),
        }
    };
    (@ $way:ty, $c:ident, $body:expr) => {{
        type $c = $way;
        $body
    }};
}

/// Copies user memory into a packed stream.
pub(super) struct Pack {
    /// Where the next byte of the stream goes.
    pub to: *mut u8,
}

impl Pack {
    /// Copies the next block of the stream.
    ///
    /// # Safety
    /// The block is readable, and the stream has room for it.
    #[inline(always)]
    unsafe fn next<C: CopyBlock>(&mut self, at: usize, len: usize) {
        // SAFETY: the caller vouches for both.
        unsafe {
            C::copy(ptr::with_exposed_provenance(at), self.to, len);
            self.to = self.to.add(len);
        }
    }
}

/// Copies a packed stream into user memory.
pub(super) struct Unpack {
    /// The next byte of the stream.
    pub from: *const u8,
}

impl Unpack {
    /// Copies the next block of the stream.
    ///
    /// # Safety
    /// The block is writable, and the stream holds it.
    #[inline(always)]
    unsafe fn next<C: CopyBlock>(&mut self, at: usize, len: usize) {
        // SAFETY: the caller vouches for both.
        unsafe {
            C::copy(self.from, ptr::with_exposed_provenance_mut(at), len);
            self.from = self.from.add(len);
        }
    }
}

macro_rules! copying_mover {
    ($mover:ty) => {
        impl Mover for $mover {
            #[inline]
            unsafe fn run(&mut self, at: usize, len: usize) {
                // SAFETY: the walk's caller vouches for the block and the stream.
                unsafe {
                    match len {
                        4 => self.next::<Fixed<4>>(at, len),
                        8 => self.next::<Fixed<8>>(at, len),
                        16 => self.next::<Fixed<16>>(at, len),
                        _ => self.next::<Any>(at, len),
                    }
                }
            }

            unsafe fn strided(&mut self, at: usize, count: usize, len: usize, stride: isize) {
                by_length!(len, C => {
                    let mut at = at;
                    for _ in 0..count {
                        // SAFETY: the walk's caller vouches for every block and the stream.
                        unsafe { self.next::<C>(at, len) }
                        at = at.wrapping_add_signed(stride);
                    }
                })
            }

            unsafe fn scattered(&mut self, base: usize, displacements: &[i64], len: usize) {
                by_length!(len, C => {
                    for d in displacements {
                        let at = base.wrapping_add_signed(*d as isize);
                        // SAFETY: the walk's caller vouches for every block and the stream.
                        unsafe { self.next::<C>(at, len) }
                    }
                })
            }
        }
    };
}

copying_mover!(Pack);
copying_mover!(Unpack);

/// Hands each block to a closure `(address, length)` and touches no memory.
pub(super) struct Each<F: FnMut(usize, usize)>(pub F);

impl<F: FnMut(usize, usize)> Mover for Each<F> {
    unsafe fn run(&mut self, at: usize, len: usize) {
        (self.0)(at, len);
    }
}
