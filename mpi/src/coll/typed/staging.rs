//! The program's buffers as contiguous bytes: where they are, or packed.

use std::future::Future;

use crate::coll::call::{Ctx, Initiated, P2p, RegionTable, Temp};
use crate::coll::memory::{Blocks, Mem};
use crate::error::Result;
use crate::p2p::{Data, Typed};

/// The elements where they are in memory, if they are contiguous. `None` also for a wrong count.
#[inline(always)]
pub(super) fn contiguous(data: &Data<'_>) -> Option<Mem> {
    let (start, len) = data.as_bytes()?;
    // SAFETY: the promise made at `Typed::new`.
    Some(unsafe { Mem::new(start, len) })
}

fn pack(data: &Data<'_>, to: Mem) {
    // SAFETY: the elements are valid (`Typed::new`), and `to` is temporary memory.
    unsafe { data.pack_into(to.ptr(), to.len()) }
}

fn unpack(data: &Data<'_>, from: Mem) {
    // SAFETY: as for `pack`.
    unsafe { data.unpack_from(from.ptr(), from.len()) }
}

/// How a collective uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// Reads some of it, or leaves some of it as it was.
    Both,
}

impl Access {
    /// To a buffer for results; `keeps` says that the collective reads it too, or keeps some of it.
    pub(super) fn to_write(keeps: bool) -> Self {
        match keeps {
            true => Access::Both,
            false => Access::Write,
        }
    }
}

/// A send buffer, if there is one, and a receive buffer where they are in memory. `None`: elements
/// of one of them are not contiguous.
#[inline(always)]
pub(super) fn both_contiguous(
    send: &Option<Typed>,
    recv: Option<Mem>,
) -> Option<(Option<Mem>, Mem)> {
    let from = match send {
        Some(send) => Some(contiguous(&send.data())?),
        None => None,
    };
    Some((from, recv?))
}

/// Runs a collective on the packed elements of its buffers: packs what it reads, and unpacks what
/// it has written.
pub(super) async fn staged<'a, P: P2p, F: Future<Output = Result<()>>>(
    ctx: Ctx<'a, P>,
    send: Option<Data<'a>>,
    recv: Option<(Data<'a>, Access)>,
    collective: impl FnOnce(Option<Mem>, Option<Mem>) -> Initiated<F>,
) -> Result<()> {
    let stage = |(data, access)| Staged::new(&ctx, data, access);
    let from = send.map(|data| stage((data, Access::Read))).transpose()?;
    let into = recv.map(stage).transpose()?;
    let mem = |staged: &Option<Staged<'_>>| staged.as_ref().map(Staged::mem);
    collective(mem(&from), mem(&into)).finish().await?;
    if let Some(into) = into {
        into.finish();
    }
    Ok(())
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
        match contiguous(&data) {
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
            if contiguous(&part.data()).is_none() {
                packed = packed.saturating_add(len);
            }
        }
        let temp = ctx.temp(packed)?;
        let rest = std::cell::Cell::new(temp.mem());
        // Their lengths were checked above.
        let place = |part: &Typed| match contiguous(&part.data()) {
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
            if contiguous(&part.data()).is_none() {
                unpack(&part.data(), self.blocks().get(i));
            }
        }
    }
}
