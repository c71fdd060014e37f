//! Grids, and the parts that all topologies share (MPI-5.0 §8.5).

use std::ffi::c_int;

use rejoin_mpi::topology::{Cart, Topology, dims_create as create_dims};
use rejoin_mpi::{Error, ErrorClass, Result};

use crate::constants::*;
use crate::functions::communicators::create::{give, prepare};
use crate::state::AbiState;
use crate::support::{arg_error, slice, store};
use crate::types::*;

/// A length that the program passed.
pub(crate) fn length(n: c_int, what: &str) -> Result<usize> {
    usize::try_from(n).map_err(|_| arg_error(format!("{what} {n} is negative")))
}

/// Copies `values` into the program's array, which must have the room.
///
/// # Safety
/// `target` is null or has room for `room` elements.
pub(crate) unsafe fn fill(
    target: *mut c_int,
    room: c_int,
    what: &'static str,
    values: impl ExactSizeIterator<Item = c_int>,
) -> Result<()> {
    let (n, have) = (values.len(), length(room, "the array's length")?);
    if n > have {
        return Err(arg_error(format!("{n} {what} do not fit in {have} places")));
    }
    for (i, value) in values.enumerate() {
        // SAFETY: `i` is below the room that the caller promises.
        unsafe { store(target.wrapping_add(i), what, value) }?;
    }
    Ok(())
}

/// # Safety
/// The arrays are null or have `ndims` elements.
unsafe fn grid(ndims: c_int, dims: *const c_int, periods: *const c_int) -> Result<Cart> {
    let Ok(n) = usize::try_from(ndims) else {
        let text = format!("the number of dimensions {ndims} is negative");
        return Err(Error::new(ErrorClass::Dims, text));
    };
    // SAFETY: the caller's.
    let (dims, periods) = unsafe {
        (
            slice(dims, n, "the dimensions")?,
            slice(periods, n, "the periods")?,
        )
    };
    let periods: Vec<bool> = periods.iter().map(|p| *p != 0).collect();
    Cart::new(dims, &periods)
}

/// `MPI_Topo_test` (MPI-5.0 §8.5.5).
///
/// # Safety
/// `status` is null or valid.
pub unsafe fn topo_test(mpi: &AbiState, comm: MPI_Comm, status: *mut c_int) -> Result<()> {
    let kind = mpi
        .comms
        .with(comm, |c| match c.topology().map(|found| &**found) {
            Some(Topology::Cart(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::DistGraph(_)) => MPI_DIST_GRAPH,
            None => MPI_UNDEFINED,
        })?;
    // SAFETY: the program passed it for the result.
    unsafe { store(status, "the kind of topology", kind) }
}

/// `MPI_Dims_create` (MPI-5.0 §8.5.2).
///
/// # Safety
/// `dims` is null or has `ndims` elements.
pub unsafe fn dims_create(
    _mpi: &AbiState,
    nnodes: c_int,
    ndims: c_int,
    dims: *mut c_int,
) -> Result<()> {
    let n = length(ndims, "the number of dimensions")?;
    // SAFETY: the caller's.
    let mut list = unsafe { slice(dims.cast_const(), n, "the dimensions") }?.to_vec();
    create_dims(nnodes, &mut list)?;
    // SAFETY: the caller's.
    unsafe { fill(dims, ndims, "dimensions", list.into_iter()) }
}

/// `MPI_Cart_create` (MPI-5.0 §8.5.1).
///
/// # Safety
/// The arrays are null or have `ndims` elements; `comm_cart` is null or valid.
pub unsafe fn cart_create(
    mpi: &AbiState,
    comm_old: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    comm_cart: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(comm_cart) }?;
    let old = mpi.comms.get(comm_old)?;
    // SAFETY: the caller's.
    let cart = unsafe { grid(ndims, dims, periods) }?;
    let made = mpi.core()?.cart_create(&old, cart, reorder != 0)?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, comm_cart, made, comm_old) }
}

/// `MPI_Cart_map` (MPI-5.0 §8.5.8).
///
/// # Safety
/// The arrays are null or have `ndims` elements; `newrank` is null or valid.
pub unsafe fn cart_map(
    mpi: &AbiState,
    comm: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    newrank: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's.
    let cart = unsafe { grid(ndims, dims, periods) }?;
    let rank = mpi.core()?.cart_map(&*mpi.comms.get(comm)?, &cart)?;
    // SAFETY: the caller's.
    unsafe { put_rank(newrank, rank) }
}

/// Stores the rank of this process in a topology, if it is in it.
///
/// # Safety
/// `newrank` is null or valid.
pub(crate) unsafe fn put_rank(newrank: *mut c_int, rank: Option<usize>) -> Result<()> {
    let rank = rank.map_or(MPI_UNDEFINED, |rank| rank as c_int);
    // SAFETY: the program passed it for the result.
    unsafe { store(newrank, "the new rank", rank) }
}

/// `MPI_Cartdim_get` (MPI-5.0 §8.5.5).
///
/// # Safety
/// `ndims` is null or valid.
pub unsafe fn cartdim_get(mpi: &AbiState, comm: MPI_Comm, ndims: *mut c_int) -> Result<()> {
    let n = mpi.comms.get(comm)?.with_cart(|c| c.dims().len())?;
    // SAFETY: the program passed it for the result.
    unsafe { store(ndims, "the number of dimensions", n as c_int) }
}

/// `MPI_Cart_get` (MPI-5.0 §8.5.5).
///
/// # Safety
/// The arrays are null or have `maxdims` elements.
pub unsafe fn cart_get(
    mpi: &AbiState,
    comm: MPI_Comm,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    let cart = comm.with_cart(Cart::clone)?;
    let here = cart.coords(comm.rank() as c_int)?;
    let rings = cart.periods().iter().map(|p| c_int::from(*p));
    // SAFETY: the caller's.
    unsafe {
        fill(dims, maxdims, "dimensions", cart.dims().iter().copied())?;
        fill(periods, maxdims, "periods", rings)?;
        fill(coords, maxdims, "coordinates", here.into_iter())
    }
}

/// `MPI_Cart_coords` (MPI-5.0 §8.5.5).
///
/// # Safety
/// `coords` is null or has `maxdims` elements.
pub unsafe fn cart_coords(
    mpi: &AbiState,
    comm: MPI_Comm,
    rank: c_int,
    maxdims: c_int,
    coords: *mut c_int,
) -> Result<()> {
    let found = mpi.comms.get(comm)?.with_cart(|c| c.coords(rank))??;
    // SAFETY: the caller's.
    unsafe { fill(coords, maxdims, "coordinates", found.into_iter()) }
}

/// `MPI_Cart_rank` (MPI-5.0 §8.5.5).
///
/// # Safety
/// `coords` is null or has as many elements as the grid has dimensions; `rank` is null or valid.
pub unsafe fn cart_rank(
    mpi: &AbiState,
    comm: MPI_Comm,
    coords: *const c_int,
    rank: *mut c_int,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    let n = comm.with_cart(|c| c.dims().len())?;
    // SAFETY: the caller's.
    let coords = unsafe { slice(coords, n, "the coordinates") }?;
    let found = comm.with_cart(|c| c.rank(coords))??;
    // SAFETY: the program passed it for the result.
    unsafe { store(rank, "the rank", found) }
}

/// `MPI_Cart_shift` (MPI-5.0 §8.5.6).
///
/// # Safety
/// The pointers are null or valid.
pub unsafe fn cart_shift(
    mpi: &AbiState,
    comm: MPI_Comm,
    direction: c_int,
    disp: c_int,
    rank_source: *mut c_int,
    rank_dest: *mut c_int,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    let me = comm.rank() as c_int;
    let (source, dest) = comm.with_cart(|c| c.shift(me, direction, disp))??;
    // SAFETY: the program passed both for results.
    unsafe {
        store(rank_source, "the source", source)?;
        store(rank_dest, "the destination", dest)
    }
}

/// `MPI_Cart_sub` (MPI-5.0 §8.5.7).
///
/// # Safety
/// `remain_dims` is null or has as many elements as the grid has dimensions; `newcomm` is null or
/// valid.
pub unsafe fn cart_sub(
    mpi: &AbiState,
    comm: MPI_Comm,
    remain_dims: *const c_int,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(newcomm) }?;
    let old = mpi.comms.get(comm)?;
    let n = old.with_cart(|c| c.dims().len())?;
    // SAFETY: the caller's.
    let remain = unsafe { slice(remain_dims, n, "the dimensions that remain") }?;
    let remain: Vec<bool> = remain.iter().map(|r| *r != 0).collect();
    let made = mpi.core()?.cart_sub(&old, &remain)?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, newcomm, made, comm) }
}
