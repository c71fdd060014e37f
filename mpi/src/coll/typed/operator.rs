//! Operations on packed elements of any datatype.

use std::rc::Rc;

use crate::coll::memory::Scratch;
use crate::coll::reduction::Reducer;
use crate::datatype::Datatype;
use crate::error::Result;
use crate::op::Op;

/// Bytes of elements in their true layout that are handed to an operation at a time.
const BATCH: i64 = 64 << 10;
/// The alignment of temporary buffers.
const ALIGN: i64 = 64;

/// An operation on packed elements. If the datatype has gaps (`MPI_DOUBLE_INT`, a struct of the
/// user), the elements are unpacked for the operation as in the program's memory, and packed again
/// after it.
#[derive(Clone, Copy)]
pub(in crate::coll) struct Operator<'a> {
    op: &'a Op,
    datatype: &'a Rc<Datatype>,
    scratch: &'a Scratch,
}

impl<'a> Operator<'a> {
    pub(in crate::coll) fn new(
        op: &'a Op,
        datatype: &'a Rc<Datatype>,
        scratch: &'a Scratch,
    ) -> Self {
        Self {
            op,
            datatype,
            scratch,
        }
    }

    /// The number of elements of a batch, the bytes of its buffer, and the offset in it of the
    /// address for the operation. The offset keeps the alignment, and can be outside of the buffer
    /// (a lower bound above 0).
    fn layout(&self, count: i64) -> Result<(i64, usize, isize)> {
        let extent = self.datatype.extent().abs().max(1);
        let batch = (BATCH / extent).clamp(1, count);
        let (low, len) = self.datatype.span(batch)?;
        let skip = low.rem_euclid(ALIGN);
        Ok((batch, (skip + len) as usize, (skip - low) as isize))
    }

    /// # Safety
    /// The conditions of [`Reducer::apply`].
    unsafe fn apply_laid_out(&self, input: *const u8, inout: *mut u8, count: i64) -> Result<()> {
        let (batch, len, base) = self.layout(count)?;
        let (left, right) = (self.scratch.take(len)?, self.scratch.take(len)?);
        let a = left.mem(len).ptr().wrapping_offset(base);
        let b = right.mem(len).ptr().wrapping_offset(base);
        let mut result = Ok(());
        let mut done = 0;
        while done < count && result.is_ok() {
            let n = batch.min(count - done);
            let bytes = (n * self.datatype.size()) as usize;
            let at = (done * self.datatype.size()) as usize;
            // SAFETY: the buffers hold the span of a batch; the packed elements are the caller's.
            unsafe {
                let inout = inout.add(at);
                self.datatype.unpack(n, a, 0, input.add(at), bytes);
                self.datatype.unpack(n, b, 0, inout, bytes);
                result = self.op.apply(a, b, n, self.datatype);
                self.datatype.pack(n, b, 0, inout, bytes);
            }
            done += n;
        }
        self.scratch.give_back(left);
        self.scratch.give_back(right);
        result
    }
}

impl Reducer for Operator<'_> {
    fn element(&self) -> usize {
        self.datatype.size() as usize
    }

    fn commutative(&self) -> bool {
        self.op.is_commutative()
    }

    /// A user's may take the first of two equal ones, and work on elements of any size.
    fn symmetric(&self) -> bool {
        self.op.is_commutative() && self.op.as_builtin().is_some()
    }

    fn exact(&self) -> bool {
        self.op.is_exact(self.datatype)
    }

    unsafe fn apply(&self, input: *const u8, inout: *mut u8, count: usize) -> Result<()> {
        let count = count as i64;
        match self.datatype.contiguous_offset(count) {
            // SAFETY: packed elements are the true layout here, `offset` bytes after the address.
            Some(offset) => unsafe {
                let (a, b) = (
                    input.wrapping_offset(-(offset as isize)),
                    inout.wrapping_offset(-(offset as isize)),
                );
                self.op.apply(a, b, count, self.datatype)
            },
            // SAFETY: the caller's promise.
            None => unsafe { self.apply_laid_out(input, inout, count) },
        }
    }
}
