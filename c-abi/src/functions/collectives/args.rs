//! The arguments of collectives, checked and turned into calls.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use rejoin_mpi::datatype::{Datatype, Named};
use rejoin_mpi::op::{Builtin, Op};
use rejoin_mpi::p2p::Typed;
use rejoin_mpi::status::{ROOT_BESIDE, ROOT_HERE};
use rejoin_mpi::{Communicator, Error, ErrorClass, Result, check};

use crate::constants::MPI_IN_PLACE;
use crate::counts::Counts;
use crate::state::AbiState;
use crate::support::arg_error;
use crate::types::*;

/// An address as the program gave it.
type Address = *const c_void;

fn buffer_error(text: &'static str) -> Error {
    Error::new(ErrorClass::Buffer, text)
}

pub(crate) fn is_in_place(address: Address) -> bool {
    address.addr() == MPI_IN_PLACE.addr()
}

/// Refuses a send buffer that is the receive buffer too: MPI_IN_PLACE is the way to say so (MPI-5.0
/// §6.2.3).
pub(crate) fn distinct(send: Address, recv: Address, count: i64) -> Result<()> {
    // MPI_BOTTOM is null: its datatypes hold the addresses.
    if count > 0 && send == recv && !send.is_null() {
        return Err(one_for_both());
    }
    Ok(())
}

#[cold]
fn one_for_both() -> Error {
    buffer_error("the send buffer is the receive buffer: MPI_IN_PLACE says that one buffer is both")
}

/// Refuses a buffer to send that begins where a buffer to receive does, as [`distinct`] does: with
/// counts for each rank, the one's displacements may lead elsewhere than the other's.
pub(crate) fn distinct_blocks<'a>(
    pairs: impl IntoIterator<Item = (&'a Typed, &'a Typed)>,
) -> Result<()> {
    for (send, recv) in pairs {
        if send.data().overlaps(&recv.data()) {
            return Err(one_for_both());
        }
    }
    Ok(())
}

/// One buffer.
///
/// # Safety
/// The elements are valid until the collective is complete.
#[inline(always)]
unsafe fn typed(address: Address, count: i64, datatype: Rc<Datatype>) -> Result<Typed> {
    check::count(count)?;
    // Without elements the address does not matter.
    if is_in_place(address) && count > 0 {
        return Err(buffer_error("MPI_IN_PLACE is not allowed here"));
    }
    // Derived types may hold absolute addresses (MPI_BOTTOM).
    if address.is_null() && count > 0 && datatype.is_predefined() && datatype.size() > 0 {
        return Err(buffer_error("the buffer is null"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { Typed::new(address.cast_mut().cast(), count, datatype) })
}

/// The root of a collective (MPI-5.0 §6.2.3).
pub(crate) struct Rooted {
    /// As the library's calls take it.
    pub(crate) root: usize,
    /// The buffers of the root are significant here.
    pub(crate) is_root: bool,
    /// The buffers of all whom the root exchanges data with are significant here.
    pub(crate) takes_part: bool,
}

/// A collective's communicator, and the readers of its other arguments.
pub(crate) struct Args<'a> {
    pub(crate) mpi: &'a AbiState,
    pub(crate) comm: Rc<Communicator>,
}

impl<'a> Args<'a> {
    #[inline(always)]
    pub(crate) fn new(mpi: &'a AbiState, comm: MPI_Comm) -> Result<Self> {
        let comm = mpi.comms.get(comm)?;
        Ok(Self { mpi, comm })
    }

    /// The root, and which buffers are significant here.
    pub(crate) fn root(&self, root: c_int) -> Result<Rooted> {
        let root = check::any_root(root, &self.comm)?;
        let (is_root, takes_part) = match (self.comm.is_inter(), root) {
            (true, ROOT_BESIDE) => (false, false),
            (true, ROOT_HERE) => (true, false),
            (true, _) => (false, true),
            (false, root) => (root == self.comm.rank(), true),
        };
        Ok(Rooted {
            root,
            is_root,
            takes_part,
        })
    }

    /// Number of ranks that blocks are for: of the other group of an intercommunicator.
    pub(crate) fn peers(&self) -> usize {
        self.comm.peers().size()
    }

    #[inline(always)]
    pub(crate) unsafe fn one(
        &self,
        address: Address,
        count: i64,
        datatype: MPI_Datatype,
    ) -> Result<Typed> {
        let datatype = self.mpi.datatypes.committed(datatype)?;
        // SAFETY: the caller's promise.
        unsafe { typed(address, count, datatype) }
    }

    /// A buffer, or `MPI_IN_PLACE` where it is `allowed`, which it never is on intercommunicators.
    #[inline(always)]
    pub(crate) unsafe fn or_in_place(
        &self,
        (address, count, datatype): (Address, i64, MPI_Datatype),
        allowed: bool,
    ) -> Result<Option<Typed>> {
        if allowed && is_in_place(address) && !self.comm.is_inter() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { self.one(address, count, datatype) }.map(Some)
    }

    /// Refuses a send buffer that is the receive buffer, or this rank's block of it; MPI_IN_PLACE
    /// is the way to express that. Different types may describe disjoint memory at one address.
    pub(crate) fn apart(
        &self,
        (send, sendtype): (Address, MPI_Datatype),
        (recv, recvcount, recvtype): (Address, i64, MPI_Datatype),
    ) -> Result<()> {
        if sendtype != recvtype || recvcount <= 0 || send.is_null() {
            return Ok(());
        }
        let datatype = self.mpi.datatypes.committed(recvtype)?;
        if datatype.size() == 0 {
            return Ok(());
        }
        let block = recvcount.wrapping_mul(datatype.extent()) as isize;
        // The blocks of an intercommunicator are those of others.
        let rank = if self.comm.is_inter() {
            0
        } else {
            self.comm.rank()
        };
        if check::is_own_block(send.cast(), recv.cast(), block, rank) {
            return Err(one_for_both());
        }
        Ok(())
    }

    /// `n` buffers, displacements in extents of the datatype.
    pub(crate) unsafe fn each(
        &self,
        n: usize,
        address: Address,
        counts: Counts,
        displacements: Counts,
        datatype: MPI_Datatype,
    ) -> Result<Vec<Typed>> {
        let datatype = self.mpi.datatypes.committed(datatype)?;
        let extent = datatype.extent();
        // SAFETY: the caller's promise.
        unsafe {
            self.blocks(n, address, counts, displacements, |_| {
                Ok((datatype.clone(), extent))
            })
        }
    }

    /// `n` buffers, each with its own datatype, displacements in bytes.
    pub(crate) unsafe fn each_of(
        &self,
        n: usize,
        address: Address,
        counts: Counts,
        displacements: Counts,
        datatypes: *const MPI_Datatype,
    ) -> Result<Vec<Typed>> {
        // SAFETY: the arrays have `n` elements.
        unsafe {
            self.blocks(n, address, counts, displacements, |i| {
                if datatypes.is_null() {
                    return Err(arg_error("the array of datatypes is null"));
                }
                let datatype = self.mpi.datatypes.committed(datatypes.add(i).read())?;
                Ok((datatype, 1))
            })
        }
    }

    /// The blocks. Of one without elements neither displacement nor datatype matters.
    unsafe fn blocks(
        &self,
        n: usize,
        address: Address,
        counts: Counts,
        displacements: Counts,
        datatype: impl Fn(usize) -> Result<(Rc<Datatype>, i64)>,
    ) -> Result<Vec<Typed>> {
        if counts.is_null() && n > 0 {
            return Err(arg_error("the array of counts is null"));
        }
        let mut blocks = Vec::with_capacity(n);
        for i in 0..n {
            // SAFETY: the array has `n` elements.
            let count = unsafe { counts.get(i) };
            if count == 0 {
                let none = datatype(i).map(|(datatype, _)| datatype);
                let none = none.unwrap_or_else(|_| Datatype::named(Named::Byte));
                // SAFETY: there are no elements.
                blocks.push(unsafe { Typed::new(std::ptr::null_mut(), 0, none) });
                continue;
            }
            if displacements.is_null() {
                return Err(arg_error("the array of displacements is null"));
            }
            let (datatype, unit) = datatype(i)?;
            // SAFETY: as above.
            let at = unsafe { displacements.get(i) };
            if is_in_place(address) {
                return Err(buffer_error("MPI_IN_PLACE is not allowed here"));
            }
            let bytes = at.wrapping_mul(unit) as isize;
            let start = if address.is_null() {
                std::ptr::with_exposed_provenance(bytes as usize)
            } else {
                address.wrapping_byte_offset(bytes)
            };
            // SAFETY: the caller's promise.
            blocks.push(unsafe { typed(start, count, datatype)? });
        }
        Ok(blocks)
    }

    /// The operation, which must be for reductions and take elements of the datatype.
    pub(crate) fn op(&self, op: MPI_Op, datatype: MPI_Datatype) -> Result<Rc<Op>> {
        let op = self.mpi.ops.get(op)?;
        if matches!(op.as_builtin(), Some(Builtin::Replace | Builtin::NoOp)) {
            let text = "MPI_REPLACE and MPI_NO_OP are for one-sided communication";
            return Err(Error::new(ErrorClass::Op, text));
        }
        op.check(&*self.mpi.datatypes.committed(datatype)?)?;
        Ok(op)
    }
}
