//! Functions of Fortran with arrays of datatypes whose length no argument says.

use std::ffi::{c_int, c_void};

use crate::abi_types::AbiHandle;
use crate::array_functions::*;
use crate::bound_library::functions;
use crate::facade_traits::{Facade, ProgramHandle};
use crate::fortran_arguments::{buffer_at, give_all, handles, nothing};
use crate::fortran_entries::give;
use crate::neighbour_functions::*;

/// A process gets from all peers, and sends to all.
fn both_ways(comm: AbiHandle) -> [c_int; 2] {
    [peers(comm); 2]
}

/// Exchanges with a datatype for each process: the type of displacements, how many processes get
/// and send, and what follows the communicator.
macro_rules! exchanges {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>(
        $of_c:ident $displacement:ty, $peers:expr $(, info $info:ident)? $(, request $request:ident)?
    );)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arrays are as long as MPI says; the places are valid.
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $name<F: Facade>(
            sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const $displacement,
            sendtypes: *const c_int, recvbuf: *mut c_void, recvcounts: *const c_int,
            rdispls: *const $displacement, recvtypes: *const c_int, comm: *const c_int,
            $($info: *const c_int,)? $($request: *mut c_int,)? ierror: *mut c_int,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                let comm = F::Comm::of_fortran(*comm);
                let sendbuf = buffer_at::<F>(sendbuf.cast_mut());
                let [sources, mut destinations]: [c_int; 2] = $peers(comm.abi());
                if sendbuf.addr() == F::IN_PLACE {
                    destinations = 0;
                }
                let sent: Vec<F::Datatype> = handles(destinations, sendtypes);
                let got: Vec<F::Datatype> = handles(sources, recvtypes);
                let place = buffer_at::<F>(recvbuf);
                $(let mut $request = (nothing::<F::Request>(), $request);)?
                let code = $of_c::<F>(
                    sendbuf, sendcounts, sdispls, sent.as_ptr(), place, recvcounts, rdispls,
                    got.as_ptr(), comm, $(F::Info::of_fortran(*$info),)? $(&raw mut $request.0,)?
                );
                $(if code == 0 {
                    *$request.1 = $request.0.fortran();
                })?
                give(ierror, code);
            }
        }
    )*};
}

exchanges! {
    /// `MPI_ALLTOALLW`.
    pub unsafe fn fortran_alltoallw<F: Facade>(alltoallw c_int, both_ways);
    /// `MPI_IALLTOALLW`.
    pub unsafe fn fortran_ialltoallw<F: Facade>(
        ialltoallw c_int, both_ways, request request
    );
    /// `MPI_ALLTOALLW_INIT`.
    pub unsafe fn fortran_alltoallw_init<F: Facade>(
        alltoallw_init c_int, both_ways, info info, request request
    );
    /// `MPI_NEIGHBOR_ALLTOALLW`.
    pub unsafe fn fortran_neighbor_alltoallw<F: Facade>(neighbor_alltoallw isize, neighbours);
    /// `MPI_INEIGHBOR_ALLTOALLW`.
    pub unsafe fn fortran_ineighbor_alltoallw<F: Facade>(
        ineighbor_alltoallw isize, neighbours, request request
    );
    /// `MPI_NEIGHBOR_ALLTOALLW_INIT`.
    pub unsafe fn fortran_neighbor_alltoallw_init<F: Facade>(
        neighbor_alltoallw_init isize, neighbours, info info, request request
    );
}

/// `MPI_TYPE_GET_CONTENTS`.
///
/// # Safety
/// The arrays are as long as the program says.
#[allow(clippy::too_many_arguments)]
pub unsafe fn fortran_type_get_contents<F: Facade>(
    datatype: *const c_int,
    max_integers: *const c_int,
    max_addresses: *const c_int,
    max_datatypes: *const c_int,
    integers: *mut c_int,
    addresses: *mut isize,
    datatypes: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the caller's promise; places for the answers.
    unsafe {
        let datatype = F::Datatype::of_fortran(*datatype);
        let room = usize::try_from(*max_datatypes).unwrap_or(0);
        let mut made = vec![nothing::<F::Datatype>(); room];
        let code = type_get_contents::<F>(
            datatype,
            *max_integers,
            *max_addresses,
            *max_datatypes,
            integers,
            addresses,
            made.as_mut_ptr(),
        );
        let mut counts = [0; 4];
        let [n_integers, n_addresses, n_datatypes, combiner] = &mut counts;
        let ask = functions().type_get_envelope;
        if code == 0
            && ask(
                datatype.abi(),
                n_integers,
                n_addresses,
                n_datatypes,
                combiner,
            ) == 0
        {
            made.truncate(usize::try_from(*n_datatypes).unwrap_or(0));
            give_all(&made, datatypes);
        }
        give(ierror, code);
    }
}
