//! The arguments of collectives, checked and turned into calls.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use rejoin_mpi::datatype::{Datatype, Named};
use rejoin_mpi::op::{Builtin, Op};
use rejoin_mpi::p2p::Typed;
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

/// A collective's communicator, and the readers of its other arguments.
pub(crate) struct Args<'a> {
    pub(crate) mpi: &'a AbiState,
    pub(crate) comm: Rc<Communicator>,
}

impl<'a> Args<'a> {
    #[inline(always)]
    pub(crate) fn new(mpi: &'a AbiState, comm: MPI_Comm) -> Result<Self> {
        let comm = mpi.comms.get(comm)?;
        check::intra(&comm)?;
        Ok(Self { mpi, comm })
    }

    pub(crate) fn root(&self, root: c_int) -> Result<(usize, bool)> {
        let root = check::root(root, &self.comm)?;
        Ok((root, root == self.comm.rank()))
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

    /// A buffer, or `MPI_IN_PLACE` where it is `allowed`.
    #[inline(always)]
    pub(crate) unsafe fn or_in_place(
        &self,
        (address, count, datatype): (Address, i64, MPI_Datatype),
        allowed: bool,
    ) -> Result<Option<Typed>> {
        if allowed && is_in_place(address) {
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
        if check::is_own_block(send.cast(), recv.cast(), block, self.comm.rank()) {
            return Err(one_for_both());
        }
        Ok(())
    }

    /// One buffer for each rank, displacements in extents of the datatype.
    pub(crate) unsafe fn each(
        &self,
        address: Address,
        counts: Counts,
        displacements: Counts,
        datatype: MPI_Datatype,
    ) -> Result<Vec<Typed>> {
        let datatype = self.mpi.datatypes.committed(datatype)?;
        let extent = datatype.extent();
        // SAFETY: the caller's promise.
        unsafe {
            self.blocks(address, counts, displacements, |_| {
                Ok((datatype.clone(), extent))
            })
        }
    }

    /// One buffer for each rank with its own datatype, displacements in bytes.
    pub(crate) unsafe fn each_of(
        &self,
        address: Address,
        counts: Counts,
        displacements: Counts,
        datatypes: *const MPI_Datatype,
    ) -> Result<Vec<Typed>> {
        // SAFETY: the arrays have an element for each rank.
        unsafe {
            self.blocks(address, counts, displacements, |i| {
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
        address: Address,
        counts: Counts,
        displacements: Counts,
        datatype: impl Fn(usize) -> Result<(Rc<Datatype>, i64)>,
    ) -> Result<Vec<Typed>> {
        if counts.is_null() {
            return Err(arg_error("the array of counts is null"));
        }
        let mut blocks = Vec::with_capacity(self.comm.size());
        for i in 0..self.comm.size() {
            // SAFETY: the array has an element for each rank.
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
