//! Neighbourhood collectives, in three forms each (MPI-5.0 §8.6 to §8.8).

use std::ffi::c_void;
use std::ops::Deref;

use rejoin_mpi::Result;
use rejoin_mpi::coll::{NeighborAllgatherv, NeighborAlltoallv, Neighborhood};
use rejoin_mpi::p2p::Typed;

use crate::counts::Counts;
use crate::functions::collectives::args::Args;
use crate::functions::collectives::forms::collectives;
use crate::state::AbiState;
use crate::types::*;

/// A buffer that is read.
type In = *const c_void;
/// A buffer that is written.
type Out = *mut c_void;

/// The readers of arguments of a collective, and the neighbours of this process.
struct Neighbors<'a> {
    args: Args<'a>,
    edges: Neighborhood,
}

impl<'a> Deref for Neighbors<'a> {
    type Target = Args<'a>;

    fn deref(&self) -> &Args<'a> {
        &self.args
    }
}

/// Each function with the name of a collective checks the arguments of that.
///
/// # Safety
/// The program keeps MPI's rules for the arguments: buffers hold the elements until the collective
/// is complete, arrays have an element for each neighbour.
#[allow(clippy::too_many_arguments, reason = "the standard's")]
impl<'a> Neighbors<'a> {
    fn new(mpi: &'a AbiState, comm: MPI_Comm) -> Result<Self> {
        let args = Args::new(mpi, comm)?;
        let edges = args.comm.neighborhood()?;
        Ok(Self { args, edges })
    }

    /// One buffer for each of `n` neighbours, one after the other.
    unsafe fn equal(
        &self,
        n: usize,
        address: In,
        count: MPI_Count,
        datatype: MPI_Datatype,
    ) -> Result<Vec<Typed>> {
        // Without neighbours, there need not be a buffer.
        if n == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: the program's promise.
        unsafe { self.one(address, count, datatype) }?.blocks(n)
    }

    /// The buffer that goes to all neighbours.
    unsafe fn for_all(
        &self,
        address: In,
        count: MPI_Count,
        datatype: MPI_Datatype,
    ) -> Result<Typed> {
        match self.edges.outdegree() {
            0 => Ok(Typed::nothing()),
            // SAFETY: the program's promise.
            _ => unsafe { self.one(address, count, datatype) },
        }
    }

    unsafe fn neighbor_allgather(
        &self,
        sendbuf: In,
        sendcount: MPI_Count,
        sendtype: MPI_Datatype,
        recvbuf: Out,
        recvcount: MPI_Count,
        recvtype: MPI_Datatype,
    ) -> Result<NeighborAllgatherv> {
        let edges = self.edges.clone();
        // SAFETY: the program's promise.
        unsafe {
            let send = self.for_all(sendbuf, sendcount, sendtype)?;
            let recv = self.equal(edges.indegree(), recvbuf, recvcount, recvtype)?;
            Ok(NeighborAllgatherv { edges, send, recv })
        }
    }

    unsafe fn neighbor_allgatherv(
        &self,
        sendbuf: In,
        sendcount: MPI_Count,
        sendtype: MPI_Datatype,
        recvbuf: Out,
        recvcounts: Counts,
        displs: Counts,
        recvtype: MPI_Datatype,
    ) -> Result<NeighborAllgatherv> {
        let edges = self.edges.clone();
        // SAFETY: the program's promise.
        unsafe {
            let send = self.for_all(sendbuf, sendcount, sendtype)?;
            let recv = self.each(edges.indegree(), recvbuf, recvcounts, displs, recvtype)?;
            Ok(NeighborAllgatherv { edges, send, recv })
        }
    }

    unsafe fn neighbor_alltoall(
        &self,
        sendbuf: In,
        sendcount: MPI_Count,
        sendtype: MPI_Datatype,
        recvbuf: Out,
        recvcount: MPI_Count,
        recvtype: MPI_Datatype,
    ) -> Result<NeighborAlltoallv> {
        let edges = self.edges.clone();
        // SAFETY: the program's promise.
        unsafe {
            let send = self.equal(edges.outdegree(), sendbuf, sendcount, sendtype)?;
            let recv = self.equal(edges.indegree(), recvbuf, recvcount, recvtype)?;
            Ok(NeighborAlltoallv { edges, send, recv })
        }
    }

    unsafe fn neighbor_alltoallv(
        &self,
        sendbuf: In,
        sendcounts: Counts,
        sdispls: Counts,
        sendtype: MPI_Datatype,
        recvbuf: Out,
        recvcounts: Counts,
        rdispls: Counts,
        recvtype: MPI_Datatype,
    ) -> Result<NeighborAlltoallv> {
        let edges = self.edges.clone();
        // SAFETY: the program's promise.
        unsafe {
            let send = self.each(edges.outdegree(), sendbuf, sendcounts, sdispls, sendtype)?;
            let recv = self.each(edges.indegree(), recvbuf, recvcounts, rdispls, recvtype)?;
            Ok(NeighborAlltoallv { edges, send, recv })
        }
    }

    unsafe fn neighbor_alltoallw(
        &self,
        sendbuf: In,
        sendcounts: Counts,
        sdispls: *const MPI_Aint,
        sendtypes: *const MPI_Datatype,
        recvbuf: Out,
        recvcounts: Counts,
        rdispls: *const MPI_Aint,
        recvtypes: *const MPI_Datatype,
    ) -> Result<NeighborAlltoallv> {
        let edges = self.edges.clone();
        let (sdispls, rdispls) = (sdispls.into(), rdispls.into());
        // SAFETY: the program's promise.
        unsafe {
            let send = self.each_of(edges.outdegree(), sendbuf, sendcounts, sdispls, sendtypes)?;
            let recv = self.each_of(edges.indegree(), recvbuf, recvcounts, rdispls, recvtypes)?;
            Ok(NeighborAlltoallv { edges, send, recv })
        }
    }
}

collectives! {
    Neighbors:
    neighbor_allgather ineighbor_allgather neighbor_allgather_init "`MPI_Neighbor_allgather` (§8.6.1)"
        (sendbuf: In, sendcount: MPI_Count, sendtype: MPI_Datatype, recvbuf: Out,
         recvcount: MPI_Count, recvtype: MPI_Datatype);
    neighbor_allgatherv ineighbor_allgatherv neighbor_allgatherv_init "`MPI_Neighbor_allgatherv` (§8.6.1)"
        (sendbuf: In, sendcount: MPI_Count, sendtype: MPI_Datatype, recvbuf: Out,
         recvcounts: Counts, displs: Counts, recvtype: MPI_Datatype);
    neighbor_alltoall ineighbor_alltoall neighbor_alltoall_init "`MPI_Neighbor_alltoall` (§8.6.2)"
        (sendbuf: In, sendcount: MPI_Count, sendtype: MPI_Datatype, recvbuf: Out,
         recvcount: MPI_Count, recvtype: MPI_Datatype);
    neighbor_alltoallv ineighbor_alltoallv neighbor_alltoallv_init "`MPI_Neighbor_alltoallv` (§8.6.2)"
        (sendbuf: In, sendcounts: Counts, sdispls: Counts, sendtype: MPI_Datatype, recvbuf: Out,
         recvcounts: Counts, rdispls: Counts, recvtype: MPI_Datatype);
    neighbor_alltoallw ineighbor_alltoallw neighbor_alltoallw_init "`MPI_Neighbor_alltoallw` (§8.6.2)"
        (sendbuf: In, sendcounts: Counts, sdispls: *const MPI_Aint, sendtypes: *const MPI_Datatype,
         recvbuf: Out, recvcounts: Counts, rdispls: *const MPI_Aint,
         recvtypes: *const MPI_Datatype);
}
