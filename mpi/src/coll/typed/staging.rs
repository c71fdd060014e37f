//! Typed buffers and their packed images.

use std::rc::Rc;

use super::super::ctx::{Ctx, Table, Temp};
use super::super::mem::{Blocks, Mem};
use super::super::p2p::P2p;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorClass, Result};

/// A buffer of the program: address, number of elements, datatype.
#[derive(Clone, Debug)]
pub struct Typed {
    addr: *mut u8,
    count: i64,
    datatype: Rc<Datatype>,
}

impl Typed {
    /// `count` elements at `addr`. A count below zero is refused when the buffer is used.
    ///
    /// # Safety
    /// As for [`Mem::new`]: the elements stay valid until the collective that gets them is
    /// complete.
    pub unsafe fn new(addr: *mut u8, count: i64, datatype: Rc<Datatype>) -> Self {
        Self {
            addr,
            count,
            datatype,
        }
    }

    /// The datatype.
    pub fn datatype(&self) -> &Rc<Datatype> {
        &self.datatype
    }

    /// Bytes of the packed elements.
    pub(super) fn bytes(&self) -> Result<usize> {
        Ok(self.datatype.bytes(self.count)? as usize)
    }

    /// `n` buffers like this one, each after the other.
    pub(in crate::coll) fn times(&self, n: usize) -> Result<Typed> {
        let count = i64::try_from(n)
            .ok()
            .and_then(|n| self.count.checked_mul(n));
        let count = count.ok_or_else(|| {
            Error::new(
                ErrorClass::Count,
                format!("{n} times {} elements do not fit in 64 bits", self.count),
            )
        })?;
        Ok(Typed {
            count,
            ..self.clone()
        })
    }

    /// The elements as they lie, if that is how they are packed.
    pub(in crate::coll) fn direct(&self) -> Result<Option<Mem>> {
        let len = self.bytes()?;
        let Some(offset) = self.datatype.contiguous_offset(self.count) else {
            return Ok(None);
        };
        let start = self.addr.wrapping_offset(offset as isize);
        // With MPI_BOTTOM the displacement is an absolute address, made known by MPI_Get_address.
        let start = if self.addr.is_null() {
            std::ptr::with_exposed_provenance_mut(start.addr())
        } else {
            start
        };
        // SAFETY: the promise made at `Typed::new`.
        Ok(Some(unsafe { Mem::new(start, len) }))
    }

    fn pack(&self, to: Mem) {
        // SAFETY: the elements are valid (`Typed::new`), and `to` is temporary memory.
        unsafe {
            self.datatype
                .pack(self.count, self.addr, 0, to.ptr(), to.len());
        }
    }

    fn unpack(&self, from: Mem) {
        // SAFETY: as for `pack`.
        unsafe {
            self.datatype
                .unpack(self.count, self.addr, 0, from.ptr(), from.len());
        }
    }
}

/// What a collective does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// Reads some of it, or leaves some of it as it was.
    Both,
}

/// A buffer as contiguous bytes.
pub(super) struct Staged<'a> {
    mem: Mem,
    temp: Option<Temp<'a>>,
    data: &'a Typed,
    access: Access,
}

impl<'a> Staged<'a> {
    pub(super) fn new<P: P2p>(ctx: &'a Ctx<P>, data: &'a Typed, access: Access) -> Result<Self> {
        let (mem, temp) = match data.direct()? {
            Some(mem) => (mem, None),
            None => {
                let temp = ctx.temp(data.bytes()?)?;
                if access != Access::Write {
                    data.pack(temp.mem());
                }
                (temp.mem(), Some(temp))
            }
        };
        Ok(Self {
            mem,
            temp,
            data,
            access,
        })
    }

    pub(super) fn mem(&self) -> Mem {
        self.mem
    }

    /// Brings what was written to the program's buffer.
    pub(super) fn finish(self) {
        if self.temp.is_some() && self.access != Access::Read {
            self.data.unpack(self.mem);
        }
    }
}

/// Several buffers as contiguous bytes each.
pub(super) struct StagedParts<'a> {
    table: Table<'a>,
    _temp: Temp<'a>,
    parts: &'a [Typed],
    access: Access,
}

impl<'a> StagedParts<'a> {
    pub(super) fn new<P: P2p>(ctx: &'a Ctx<P>, parts: &'a [Typed], access: Access) -> Result<Self> {
        let mut packed = 0usize;
        for part in parts {
            if part.direct()?.is_none() {
                packed = packed.saturating_add(part.bytes()?);
            }
        }
        let temp = ctx.temp(packed)?;
        let rest = std::cell::Cell::new(temp.mem());
        // Both were checked above: they succeed again.
        let place = |part: &Typed| match part.direct() {
            Ok(Some(mem)) => mem,
            _ => {
                let len = part.bytes().unwrap_or(0);
                let mem = rest.get().head(len);
                rest.set(rest.get().range(len, rest.get().len()));
                if access != Access::Write {
                    part.pack(mem);
                }
                mem
            }
        };
        let table = ctx.table(parts.len(), |i| place(&parts[i]))?;
        Ok(Self {
            table,
            _temp: temp,
            parts,
            access,
        })
    }

    pub(super) fn blocks(&self) -> Blocks<'_> {
        self.table.blocks()
    }

    pub(super) fn finish(self) {
        if self.access == Access::Read {
            return;
        }
        for (i, part) in self.parts.iter().enumerate() {
            if !matches!(part.direct(), Ok(Some(_))) {
                part.unpack(self.blocks().get(i));
            }
        }
    }
}
