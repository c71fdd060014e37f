//! Typed buffers and their packed images.

use std::rc::Rc;

use crate::coll::call::{Ctx, P2p, RegionTable, Temp};
use crate::coll::memory::{Blocks, Mem};
use crate::datatype::Datatype;
use crate::error::{Error, ErrorClass, Result};
use crate::p2p::data::Data;

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

    /// The buffer, with the datatype borrowed.
    #[inline]
    pub fn data(&self) -> Data<'_> {
        Data {
            addr: self.addr,
            count: self.count,
            datatype: &self.datatype,
        }
    }

    /// Bytes of the packed elements.
    pub(super) fn bytes(&self) -> Result<usize> {
        self.data().bytes()
    }

    /// `n` buffers like this one, each after the other.
    #[inline]
    pub(super) fn times(&self, n: usize) -> Result<Data<'_>> {
        match (n as i64).checked_mul(self.count) {
            Some(count) => Ok(Data {
                count,
                ..self.data()
            }),
            None => Err(self.too_many(n)),
        }
    }

    #[cold]
    fn too_many(&self, n: usize) -> Error {
        Error::new(
            ErrorClass::Count,
            format!("{n} times {} elements do not fit in 64 bits", self.count),
        )
    }
}

/// The elements as they lie in memory, if that is how they are packed. `None` also for a count that
/// is wrong.
#[inline(always)]
pub(super) fn direct(data: &Data<'_>) -> Option<Mem> {
    let len = data.datatype.size().checked_mul(data.count)?;
    let len = usize::try_from(len).ok()?;
    let offset = data.datatype.contiguous_offset(data.count)?;
    let start = data.addr.wrapping_offset(offset as isize);
    // With MPI_BOTTOM the displacement is an absolute address, made known by MPI_Get_address.
    let start = if data.addr.is_null() {
        std::ptr::with_exposed_provenance_mut(start.addr())
    } else {
        start
    };
    // SAFETY: the promise made at `Typed::new`.
    Some(unsafe { Mem::new(start, len) })
}

fn pack(data: &Data<'_>, to: Mem) {
    // SAFETY: the elements are valid (`Typed::new`), and `to` is temporary memory.
    unsafe { data.pack_into(to.ptr(), to.len()) }
}

fn unpack(data: &Data<'_>, from: Mem) {
    // SAFETY: as for `pack`.
    unsafe {
        data.datatype
            .unpack(data.count, data.addr, 0, from.ptr(), from.len());
    }
}

/// How a collective uses a buffer.
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
    /// The packed elements; else they are used where they lie.
    temp: Option<Temp<'a>>,
    data: Data<'a>,
    access: Access,
}

impl<'a> Staged<'a> {
    #[inline]
    pub(super) fn new<P: P2p>(ctx: &Ctx<'a, P>, data: Data<'a>, access: Access) -> Result<Self> {
        let mut staged = Self {
            mem: Mem::EMPTY,
            temp: None,
            data,
            access,
        };
        match direct(&data) {
            Some(mem) => staged.mem = mem,
            None => staged.pack(ctx.temp(data.bytes()?)?),
        }
        Ok(staged)
    }

    #[inline(never)]
    fn pack(&mut self, temp: Temp<'a>) {
        self.mem = temp.mem();
        if self.access != Access::Write {
            pack(&self.data, self.mem);
        }
        self.temp = Some(temp);
    }

    #[inline]
    pub(super) fn mem(&self) -> Mem {
        self.mem
    }

    /// Brings the written data to the program's buffer.
    #[inline]
    pub(super) fn finish(self) {
        if self.temp.is_some() && self.access != Access::Read {
            unpack(&self.data, self.mem);
        }
    }
}

/// Several buffers as contiguous bytes each.
pub(super) struct StagedParts<'a> {
    table: RegionTable<'a>,
    _temp: Temp<'a>,
    parts: &'a [Typed],
    access: Access,
}

impl<'a> StagedParts<'a> {
    pub(super) fn new<P: P2p>(
        ctx: &Ctx<'a, P>,
        parts: &'a [Typed],
        access: Access,
    ) -> Result<Self> {
        let mut packed = 0usize;
        for part in parts {
            let len = part.bytes()?;
            if direct(&part.data()).is_none() {
                packed = packed.saturating_add(len);
            }
        }
        let temp = ctx.temp(packed)?;
        let rest = std::cell::Cell::new(temp.mem());
        // Their lengths were checked above.
        let place = |part: &Typed| match direct(&part.data()) {
            Some(mem) => mem,
            None => {
                let len = part.bytes().unwrap_or(0);
                let mem = rest.get().head(len);
                rest.set(rest.get().range(len, rest.get().len()));
                if access != Access::Write {
                    pack(&part.data(), mem);
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
            if direct(&part.data()).is_none() {
                unpack(&part.data(), self.blocks().get(i));
            }
        }
    }
}
