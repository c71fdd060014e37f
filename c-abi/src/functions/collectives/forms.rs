//! The three forms of every collective: blocking, nonblocking (MPI-5.0 §6.12), persistent (§6.13;
//! no hint of the info argument is known).

use std::ffi::{c_int, c_void};

use rejoin_mpi::Result;

use super::args::Args;
pub use super::fast_path::{
    allgather_fast_path, allreduce_fast_path, alltoall_fast_path, bcast_fast_path,
    exscan_fast_path, reduce_fast_path, scan_fast_path,
};
use crate::counts::Counts;
use crate::state::AbiState;
use crate::types::*;

/// A buffer that is read.
type In = *const c_void;
/// A buffer that is written.
type Out = *mut c_void;

/// The forms of collectives whose arguments a type checks, in a method of the blocking form's name.
macro_rules! collectives {
    ($args:ident: $($blocking:ident $nonblocking:ident $init:ident $name:literal
        ($($argument:ident: $kind:ty),*);)*) => {$(
        #[doc = concat!("The blocking form of ", $name, ".")]
        ///
        /// # Safety
        /// The program keeps MPI's rules for the arguments.
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "the standard's")]
        pub unsafe fn $blocking(mpi: &AbiState, $($argument: $kind,)* comm: MPI_Comm) -> Result<()> {
            let args = $args::new(mpi, comm)?;
            // SAFETY: the program's promise.
            let call = unsafe { args.$blocking($($argument),*) }?;
            args.run(&call)
        }

        #[doc = concat!("The nonblocking form of ", $name, ".")]
        ///
        /// # Safety
        /// The program keeps MPI's rules for the arguments; `request` is null or valid.
        #[allow(clippy::too_many_arguments, reason = "the standard's")]
        pub unsafe fn $nonblocking(
            mpi: &AbiState,
            $($argument: $kind,)*
            comm: MPI_Comm,
            request: *mut MPI_Request,
        ) -> Result<()> {
            let args = $args::new(mpi, comm)?;
            // SAFETY: the program's promise.
            let call = unsafe { args.$blocking($($argument),*) }?;
            // SAFETY: the caller's.
            unsafe { args.start(call, request) }
        }

        #[doc = concat!("The persistent form of ", $name, ".")]
        ///
        /// # Safety
        /// The program keeps MPI's rules for the arguments, whenever the call is started; `request`
        /// is null or valid.
        #[allow(clippy::too_many_arguments, reason = "the standard's")]
        pub unsafe fn $init(
            mpi: &AbiState,
            $($argument: $kind,)*
            comm: MPI_Comm,
            _info: MPI_Info,
            request: *mut MPI_Request,
        ) -> Result<()> {
            let args = $args::new(mpi, comm)?;
            // SAFETY: the program's promise.
            let call = unsafe { args.$blocking($($argument),*) }?;
            // SAFETY: the caller's.
            unsafe { args.init(call, request) }
        }
    )*};
}
pub(crate) use collectives;

collectives! {
    Args:
    barrier ibarrier barrier_init "`MPI_Barrier` (§6.3)"
        ();
    bcast ibcast bcast_init "`MPI_Bcast` (§6.4)"
        (buffer: Out, count: MPI_Count, datatype: MPI_Datatype, root: c_int);
    gather igather gather_init "`MPI_Gather` (§6.5)"
        (sendbuf: In, sendcount: MPI_Count, sendtype: MPI_Datatype, recvbuf: Out,
         recvcount: MPI_Count, recvtype: MPI_Datatype, root: c_int);
    gatherv igatherv gatherv_init "`MPI_Gatherv` (§6.5)"
        (sendbuf: In, sendcount: MPI_Count, sendtype: MPI_Datatype, recvbuf: Out,
         recvcounts: Counts, displs: Counts, recvtype: MPI_Datatype, root: c_int);
    scatter iscatter scatter_init "`MPI_Scatter` (§6.6)"
        (sendbuf: In, sendcount: MPI_Count, sendtype: MPI_Datatype, recvbuf: Out,
         recvcount: MPI_Count, recvtype: MPI_Datatype, root: c_int);
    scatterv iscatterv scatterv_init "`MPI_Scatterv` (§6.6)"
        (sendbuf: In, sendcounts: Counts, displs: Counts, sendtype: MPI_Datatype, recvbuf: Out,
         recvcount: MPI_Count, recvtype: MPI_Datatype, root: c_int);
    allgather iallgather allgather_init "`MPI_Allgather` (§6.7)"
        (sendbuf: In, sendcount: MPI_Count, sendtype: MPI_Datatype, recvbuf: Out,
         recvcount: MPI_Count, recvtype: MPI_Datatype);
    allgatherv iallgatherv allgatherv_init "`MPI_Allgatherv` (§6.7)"
        (sendbuf: In, sendcount: MPI_Count, sendtype: MPI_Datatype, recvbuf: Out,
         recvcounts: Counts, displs: Counts, recvtype: MPI_Datatype);
    alltoall ialltoall alltoall_init "`MPI_Alltoall` (§6.8)"
        (sendbuf: In, sendcount: MPI_Count, sendtype: MPI_Datatype, recvbuf: Out,
         recvcount: MPI_Count, recvtype: MPI_Datatype);
    alltoallv ialltoallv alltoallv_init "`MPI_Alltoallv` (§6.8)"
        (sendbuf: In, sendcounts: Counts, sdispls: Counts, sendtype: MPI_Datatype, recvbuf: Out,
         recvcounts: Counts, rdispls: Counts, recvtype: MPI_Datatype);
    alltoallw ialltoallw alltoallw_init "`MPI_Alltoallw` (§6.8)"
        (sendbuf: In, sendcounts: Counts, sdispls: Counts, sendtypes: *const MPI_Datatype,
         recvbuf: Out, recvcounts: Counts, rdispls: Counts, recvtypes: *const MPI_Datatype);
    reduce ireduce reduce_init "`MPI_Reduce` (§6.9.1)"
        (sendbuf: In, recvbuf: Out, count: MPI_Count, datatype: MPI_Datatype, op: MPI_Op,
         root: c_int);
    allreduce iallreduce allreduce_init "`MPI_Allreduce` (§6.9.6)"
        (sendbuf: In, recvbuf: Out, count: MPI_Count, datatype: MPI_Datatype, op: MPI_Op);
    reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init "`MPI_Reduce_scatter_block` (§6.10.1)"
        (sendbuf: In, recvbuf: Out, recvcount: MPI_Count, datatype: MPI_Datatype, op: MPI_Op);
    reduce_scatter ireduce_scatter reduce_scatter_init "`MPI_Reduce_scatter` (§6.10.2)"
        (sendbuf: In, recvbuf: Out, recvcounts: Counts, datatype: MPI_Datatype, op: MPI_Op);
    scan iscan scan_init "`MPI_Scan` (§6.11.1)"
        (sendbuf: In, recvbuf: Out, count: MPI_Count, datatype: MPI_Datatype, op: MPI_Op);
    exscan iexscan exscan_init "`MPI_Exscan` (§6.11.2)"
        (sendbuf: In, recvbuf: Out, count: MPI_Count, datatype: MPI_Datatype, op: MPI_Op);
}
