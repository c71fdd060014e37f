//! Partitioned communication (MPI-5.0 §4).

use std::ffi::{c_int, c_void};

use rejoin_mpi::p2p::Typed;
use rejoin_mpi::partitioned::{self, Sides};
use rejoin_mpi::request::RequestId;
use rejoin_mpi::{Result, check};

use crate::functions::communicators::create;
use crate::functions::point_to_point::request::{self, give};
use crate::state::AbiState;
use crate::support::{arg_error, store};
use crate::types::*;

/// What the program says of its side: `partitions` of `count` elements each.
///
/// # Safety
/// The elements are valid whenever the request is started, until it is complete.
unsafe fn side(
    mpi: &AbiState,
    (address, partitions, count): (*mut c_void, c_int, MPI_Count),
    datatype: MPI_Datatype,
    (peer, tag): (c_int, c_int),
) -> Result<Sides> {
    check::count(count)?;
    let datatype = mpi.datatypes.for_peer(datatype, peer)?;
    let all = count.checked_mul(i64::from(partitions.max(0)));
    let all = all.ok_or_else(|| {
        arg_error(format!(
            "{partitions} partitions of {count} elements do not fit in 64 bits"
        ))
    })?;
    Ok(Sides {
        // SAFETY: the caller's.
        elements: unsafe { Typed::new(address.cast(), all, datatype) },
        partitions,
        peer,
        tag,
    })
}

/// `MPI_Psend_init` (MPI-5.0 §4.2.1). Its hints have no effect.
///
/// # Safety
/// The elements are readable whenever the request is started, until it is complete, each partition
/// from its `MPI_Pready` on. `request` is null or valid.
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn psend_init(
    mpi: &AbiState,
    buf: *const c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    request::check_out(request)?;
    let comm = mpi.comms.get(comm)?;
    create::hints(mpi, info)?;
    // SAFETY: the caller's.
    let side = unsafe {
        side(
            mpi,
            (buf.cast_mut(), partitions, count),
            datatype,
            (dest, tag),
        )
    }?;
    let id = partitioned::psend_init(mpi.core()?, side, &comm)?;
    // SAFETY: checked above.
    unsafe { give(request, id) }
}

/// `MPI_Precv_init` (MPI-5.0 §4.2.1). Its hints have no effect.
///
/// # Safety
/// The elements are writable whenever the request is started, until it is complete. `request` is
/// null or valid.
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn precv_init(
    mpi: &AbiState,
    buf: *mut c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    request::check_out(request)?;
    let comm = mpi.comms.get(comm)?;
    create::hints(mpi, info)?;
    // SAFETY: the caller's.
    let side = unsafe { side(mpi, (buf, partitions, count), datatype, (source, tag)) }?;
    let id = partitioned::precv_init(mpi.core()?, side, &comm)?;
    // SAFETY: checked above.
    unsafe { give(request, id) }
}

/// Sends an error to the handler of the request's communicator.
fn owned<T>(mpi: &AbiState, id: RequestId, result: Result<T>) -> Result<T> {
    result.inspect_err(|_| {
        if let Some(comm) = mpi.core.get().and_then(|core| core.request_comm(id)) {
            mpi.errors.set_owner(MPI_Comm(comm.handle()));
        }
    })
}

/// `MPI_Pready` (MPI-5.0 §4.2.2).
pub fn pready(mpi: &AbiState, partition: c_int, request: MPI_Request) -> Result<()> {
    pready_range(mpi, partition, partition, request)
}

/// `MPI_Pready_range` (MPI-5.0 §4.2.2): both ends belong to it.
pub fn pready_range(
    mpi: &AbiState,
    partition_low: c_int,
    partition_high: c_int,
    request: MPI_Request,
) -> Result<()> {
    let id = request::real(request)?;
    let marked = partitioned::pready(mpi.core()?, id, partition_low..=partition_high);
    owned(mpi, id, marked)
}

/// `MPI_Pready_list` (MPI-5.0 §4.2.2).
///
/// # Safety
/// `array_of_partitions` has `length` elements.
pub unsafe fn pready_list(
    mpi: &AbiState,
    length: c_int,
    array_of_partitions: *const c_int,
    request: MPI_Request,
) -> Result<()> {
    check::count(i64::from(length))?;
    let id = request::real(request)?;
    if length == 0 {
        return owned(
            mpi,
            id,
            partitioned::pready(mpi.core()?, id, std::iter::empty()),
        );
    }
    if array_of_partitions.is_null() {
        return Err(arg_error("the pointer for the partitions is null"));
    }
    // SAFETY: the caller's.
    let list = unsafe { std::slice::from_raw_parts(array_of_partitions, length as usize) };
    let marked = partitioned::pready(mpi.core()?, id, list.iter().copied());
    owned(mpi, id, marked)
}

/// `MPI_Parrived` (MPI-5.0 §4.2.2).
///
/// # Safety
/// `flag` is null or valid.
pub unsafe fn parrived(
    mpi: &AbiState,
    request: MPI_Request,
    partition: c_int,
    flag: *mut c_int,
) -> Result<()> {
    if flag.is_null() {
        return Err(arg_error("the pointer for the flag is null"));
    }
    let arrived = match request::id_of(request)? {
        Some(id) => owned(mpi, id, partitioned::parrived(mpi.core()?, id, partition))?,
        None => true,
    };
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { store(flag, "the flag", c_int::from(arrived)) }
}
