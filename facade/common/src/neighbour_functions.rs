//! `MPI_Neighbor_alltoallw` and its forms: the topology says how long the arrays of datatypes are.

use std::ffi::{c_int, c_void};

use crate::abi_types::AbiHandle;
use crate::bound_library::functions;
use crate::export_macros::result_code;
use crate::facade_traits::{Facade, ProgramHandle};
use crate::handle_places::{CopiedHandles, OutHandle};

/// Topologies of the standard ABI.
const CART: c_int = 211;
const GRAPH: c_int = 212;
const DIST_GRAPH: c_int = 213;

/// How many neighbours a process gets from, and sends to. An error leaves 0: the call itself
/// reports it.
pub fn neighbours(comm: AbiHandle) -> [c_int; 2] {
    let (mut kind, mut rank, mut count, mut weighted) = (0, 0, 0, 0);
    let mut both = [0; 2];
    let [sources, destinations] = &mut both;
    let f = functions();
    // SAFETY: places for the answers.
    unsafe {
        (f.topo_test)(comm, &mut kind);
        match kind {
            CART => (f.cartdim_get)(comm, &mut count),
            GRAPH => {
                (f.comm_rank)(comm, &mut rank);
                (f.graph_neighbors_count)(comm, rank, &mut count)
            }
            DIST_GRAPH => {
                (f.dist_graph_neighbors_count)(comm, sources, destinations, &mut weighted);
                return both;
            }
            _ => return both,
        };
    }
    match kind {
        CART => [2 * count; 2],
        _ => [count; 2],
    }
}

/// All forms: what follows the communicator, and the place for the request.
macro_rules! neighbour_alltoallws {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>(
        $count:ty $(, info $info:ident)? $(, request $request:ident)?
    );)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arrays are as long as MPI says; the place is valid.
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $name<F: Facade>(
            sendbuf: *const c_void, sendcounts: *const $count, sdispls: *const isize,
            sendtypes: *const F::Datatype, recvbuf: *mut c_void, recvcounts: *const $count,
            rdispls: *const isize, recvtypes: *const F::Datatype, comm: F::Comm,
            $($info: F::Info,)? $($request: *mut F::Request,)?
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                let [sources, destinations] = neighbours(comm.abi());
                let sent = CopiedHandles::new(destinations, sendtypes);
                let got = CopiedHandles::new(sources, recvtypes);
                $(let mut $request = OutHandle::new($request);)?
                let code = (functions().$name)(
                    sendbuf, sendcounts, sdispls, sent.as_ptr(), recvbuf, recvcounts, rdispls,
                    got.as_ptr(), comm.abi(), $($info.abi(),)? $($request.place(),)?
                );
                $($request.give();)?
                result_code::<F>(code)
            }
        }
    )*};
}

neighbour_alltoallws! {
    /// `MPI_Neighbor_alltoallw`.
    pub unsafe fn neighbor_alltoallw<F: Facade>(c_int);
    /// `MPI_Neighbor_alltoallw_c`.
    pub unsafe fn neighbor_alltoallw_c<F: Facade>(i64);
    /// `MPI_Ineighbor_alltoallw`.
    pub unsafe fn ineighbor_alltoallw<F: Facade>(c_int, request request);
    /// `MPI_Ineighbor_alltoallw_c`.
    pub unsafe fn ineighbor_alltoallw_c<F: Facade>(i64, request request);
    /// `MPI_Neighbor_alltoallw_init`.
    pub unsafe fn neighbor_alltoallw_init<F: Facade>(c_int, info info, request request);
    /// `MPI_Neighbor_alltoallw_init_c`.
    pub unsafe fn neighbor_alltoallw_init_c<F: Facade>(i64, info info, request request);
}
