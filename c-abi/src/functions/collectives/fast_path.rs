//! Fast path of collectives with simple, valid arguments, tried before their blocking forms. It
//! reads objects without taking a reference, and buffers are contiguous bytes. `None`: nothing was
//! done.

use std::ffi::{c_int, c_void};

use rejoin_mpi::p2p::Data;

use super::args::is_in_place;
use crate::enter::try_fast_path;
use crate::entry_call::EntryPoint;
use crate::errors::ErrorOwner;
use crate::functions::point_to_point::send::simple_args;
use crate::types::*;

/// `MPI_Bcast`.
///
/// # Safety
/// The conditions of the collective's blocking form.
#[inline(always)]
pub unsafe fn bcast_fast_path(
    call: &'static EntryPoint,
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    if is_in_place(buffer) {
        return None;
    }
    try_fast_path(call, ErrorOwner::of(comm), |mpi| {
        // SAFETY: the datatype is last used before the call waits, and a call that waits holds its
        // own reference to the communicator. So a function of the program, which runs only during a
        // wait, frees nothing that is still used.
        let (core, data, comm) = unsafe { simple_args(mpi, buffer, count, datatype, comm) }?;
        // SAFETY: the caller's.
        unsafe { core.try_bcast(&data, root, comm) }
    })
}

macro_rules! exchanges {
    ($($name:ident $try:ident $words:literal;)*) => {$(
        #[doc = concat!($words, ".")]
        ///
        /// # Safety
        /// The conditions of the collective's blocking form.
        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "the standard's")]
        pub unsafe fn $name(
            call: &'static EntryPoint,
            sendbuf: *const c_void,
            sendcount: MPI_Count,
            sendtype: MPI_Datatype,
            recvbuf: *mut c_void,
            recvcount: MPI_Count,
            recvtype: MPI_Datatype,
            comm: MPI_Comm,
        ) -> Option<c_int> {
            if is_in_place(sendbuf) || is_in_place(recvbuf) {
                return None;
            }
            try_fast_path(call, ErrorOwner::of(comm), |mpi| {
                // SAFETY: as for the broadcast.
                let (core, recv, comm) = unsafe { simple_args(mpi, recvbuf, recvcount, recvtype, comm) }?;
                // SAFETY: as above.
                let sendtype = unsafe { mpi.datatypes.glance(sendtype) }?;
                let send = Data::new(sendbuf.cast_mut().cast(), sendcount, sendtype);
                // SAFETY: the caller's.
                unsafe { core.$try(&send, &recv, comm) }
            })
        }
    )*};
}

exchanges! {
    allgather_fast_path try_allgather "`MPI_Allgather`";
    alltoall_fast_path try_alltoall "`MPI_Alltoall`";
}

macro_rules! reductions {
    ($($name:ident $words:literal ($($root:ident: $type:ty)?)
        |$core:ident, $op:ident, $from:ident, $into:ident, $comm:ident| $try:expr;)*) => {$(
        #[doc = concat!($words, ".")]
        ///
        /// # Safety
        /// The conditions of the collective's blocking form.
        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "the standard's")]
        pub unsafe fn $name(
            call: &'static EntryPoint,
            sendbuf: *const c_void,
            recvbuf: *mut c_void,
            count: MPI_Count,
            datatype: MPI_Datatype,
            op: MPI_Op,
            $($root: $type,)?
            comm: MPI_Comm,
        ) -> Option<c_int> {
            if is_in_place(sendbuf) || is_in_place(recvbuf) {
                return None;
            }
            try_fast_path(call, ErrorOwner::of(comm), |mpi| {
                let sendbuf = sendbuf.cast_mut();
                // SAFETY: a call that waits holds references of its own.
                let ($core, $from, $comm) = unsafe { simple_args(mpi, sendbuf, count, datatype, comm) }?;
                // SAFETY: as above.
                let $op = unsafe { mpi.ops.glance(op) }?;
                let $into = recvbuf.cast();
                // SAFETY: the caller's.
                unsafe { $try }
            })
        }
    )*};
}

reductions! {
    allreduce_fast_path "`MPI_Allreduce`" ()
        |core, op, from, into, comm| core.try_allreduce(op, &from, into, comm);
    reduce_fast_path "`MPI_Reduce`" (root: c_int)
        |core, op, from, into, comm| core.try_reduce(op, &from, into, root, comm);
    scan_fast_path "`MPI_Scan`" ()
        |core, op, from, into, comm| core.try_scan(op, &from, into, false, comm);
    exscan_fast_path "`MPI_Exscan`" ()
        |core, op, from, into, comm| core.try_scan(op, &from, into, true, comm);
}
