//! Reusable temporary memory, so that collectives in the steady state never allocate.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use crate::coll::memory::Mem;
use crate::error::{Error, ErrorClass, Result};

/// Alignment of every buffer: a cache line, enough for any predefined type.
const ALIGN: usize = 64;
/// Smallest buffer (bytes, as a power of two).
const MIN_CLASS: u32 = 10;
/// Buffers above this (as a power of two) go back to the allocator at once.
const MAX_CLASS: u32 = 23;
/// Bytes kept for reuse at most.
const KEEP: usize = 16 << 20;

const CLASSES: usize = (MAX_CLASS - MIN_CLASS + 1) as usize;

/// A pool of buffers in power-of-two sizes. One for each process is enough.
#[derive(Default)]
pub struct Scratch {
    free: [RefCell<Vec<NonNull<u8>>>; CLASSES],
    kept: Cell<usize>,
    lent: Cell<usize>,
}

/// A buffer lent by [`Scratch::take`].
#[derive(Debug)]
pub(in crate::coll) struct Loan {
    ptr: NonNull<u8>,
    layout: Layout,
}

impl Loan {
    /// The first `len` bytes asked for.
    pub(in crate::coll) fn mem(&self, len: usize) -> Mem {
        assert!(len <= self.layout.size());
        // SAFETY: the buffer has at least `len` bytes and lives as long as the loan is out.
        unsafe { Mem::new(self.ptr.as_ptr(), len) }
    }
}

fn class(len: usize) -> u32 {
    len.next_power_of_two().trailing_zeros().max(MIN_CLASS)
}

impl Scratch {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of buffers that are lent out: 0 when no collective is in flight.
    pub fn lent(&self) -> usize {
        self.lent.get()
    }

    /// Lends a buffer of at least `len` bytes, not initialised.
    pub(in crate::coll) fn take(&self, len: usize) -> Result<Loan> {
        let no_memory = || {
            Error::new(
                ErrorClass::NoMem,
                format!("no memory for a collective's temporary buffer of {len} bytes"),
            )
        };
        if len > isize::MAX as usize / 2 {
            return Err(no_memory());
        }
        let class = class(len);
        // Big ones are not rounded up: they are not reused either.
        let size = if class > MAX_CLASS { len } else { 1 << class };
        let layout = Layout::from_size_align(size, ALIGN).map_err(|_| no_memory())?;
        let reused = self
            .slot(class)
            .and_then(|free| free.borrow_mut().pop())
            .inspect(|_| self.kept.set(self.kept.get() - size));
        let ptr = match reused {
            Some(ptr) => ptr,
            // SAFETY: the layout's size is not zero.
            None => NonNull::new(unsafe { alloc(layout) }).ok_or_else(no_memory)?,
        };
        self.lent.set(self.lent.get() + 1);
        Ok(Loan { ptr, layout })
    }

    /// Takes a buffer back.
    pub(in crate::coll) fn give_back(&self, loan: Loan) {
        self.lent.set(self.lent.get() - 1);
        let size = loan.layout.size();
        match self.slot(class(size)) {
            Some(free) if self.kept.get() + size <= KEEP => {
                self.kept.set(self.kept.get() + size);
                free.borrow_mut().push(loan.ptr);
            }
            // SAFETY: allocated in `take` with this layout, and no other code has it.
            _ => unsafe { dealloc(loan.ptr.as_ptr(), loan.layout) },
        }
    }

    fn slot(&self, class: u32) -> Option<&RefCell<Vec<NonNull<u8>>>> {
        self.free.get((class - MIN_CLASS) as usize)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for (i, free) in self.free.iter().enumerate() {
            for ptr in free.borrow_mut().drain(..) {
                let size = 1usize << (MIN_CLASS + i as u32);
                // SAFETY: buffers of a class were allocated with this size and alignment.
                unsafe { dealloc(ptr.as_ptr(), Layout::from_size_align_unchecked(size, ALIGN)) }
            }
        }
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch")
            .field("kept", &self.kept.get())
            .field("lent", &self.lent.get())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_are_used_again() {
        let pool = Scratch::new();
        let a = pool.take(100).unwrap();
        let first = a.ptr;
        a.mem(100).copy_from(Mem::EMPTY);
        assert_eq!(pool.lent(), 1);
        pool.give_back(a);
        assert_eq!(pool.lent(), 0);
        let b = pool.take(1000).unwrap();
        assert_eq!(b.ptr, first);
        assert_eq!(b.ptr.as_ptr() as usize % ALIGN, 0);
        pool.give_back(b);
    }

    #[test]
    fn big_buffers_are_exact_and_not_kept() {
        let pool = Scratch::new();
        let len = (9 << 20) + 1;
        let big = pool.take(len).unwrap();
        assert_eq!(big.layout.size(), len);
        pool.give_back(big);
        assert_eq!(pool.kept.get(), 0);
        assert!(pool.take(usize::MAX).is_err());
    }

    #[test]
    fn a_bounded_amount_is_kept() {
        let pool = Scratch::new();
        let loans: Vec<_> = (0..5).map(|_| pool.take(8 << 20).unwrap()).collect();
        for loan in loans {
            pool.give_back(loan);
        }
        assert!(pool.kept.get() <= KEEP);
    }
}
