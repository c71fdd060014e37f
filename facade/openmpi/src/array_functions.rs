//! Functions with arrays that no rule covers: of special values, or of a length that the
//! communicator or the datatype says.

use std::ffi::{c_int, c_void};

use crate::bound_library::functions;
use crate::export_macros::{export, result_code};
use crate::generated::conversions::*;
use crate::handle_places::{CopiedHandles, handle_out, handles_out};
use crate::program_types::ProgramHandle;

/// `MPI_COMBINER_SUBARRAY` and `MPI_COMBINER_DARRAY` of the standard ABI.
const SUBARRAY: c_int = 111;
const DARRAY: c_int = 112;

/// The program's array, each element of it translated.
unsafe fn translated(count: c_int, first: *const c_int, with: fn(c_int) -> c_int) -> Vec<c_int> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the program's array has so many elements.
    (0..count).map(|i| with(unsafe { *first.add(i) })).collect()
}

export! { MPI_Group_translate_ranks PMPI_Group_translate_ranks (
    group1: ProgramHandle, n: c_int, ranks1: *const c_int, group2: ProgramHandle, ranks2: *mut c_int
) -> c_int {
    let from = translated(n, ranks1, rank_in);
    let code = (functions().group_translate_ranks)(group1.abi(), n, from.as_ptr(), group2.abi(), ranks2);
    if code == 0 {
        for i in 0..from.len() {
            *ranks2.add(i) = rank_out(*ranks2.add(i));
        }
    }
    result_code(code)
} }

export! { MPI_Type_create_darray PMPI_Type_create_darray (
    size: c_int, rank: c_int, ndims: c_int, gsizes: *const c_int, distribs: *const c_int,
    dargs: *const c_int, psizes: *const c_int, order: c_int, oldtype: ProgramHandle,
    newtype: *mut ProgramHandle
) -> c_int {
    let distribs = translated(ndims, distribs, distribution_in);
    let dargs = translated(ndims, dargs, darg_in);
    let code = (functions().type_create_darray)(
        size, rank_in(rank), ndims, gsizes, distribs.as_ptr(), dargs.as_ptr(), psizes,
        order_in(order), oldtype.abi(), newtype.cast(),
    );
    handle_out(newtype);
    result_code(code)
} }

/// Translates what a constructor of this kind was given.
fn constants_out(combiner: c_int, integers: &mut [c_int]) {
    if combiner == DARRAY && integers.len() > 3 {
        // size, rank, dimensions, then arrays of as many: lengths, distributions, their arguments.
        let n = usize::try_from(integers[2]).unwrap_or(0);
        let mut change = |from: usize, with: fn(c_int) -> c_int| {
            for integer in integers.iter_mut().skip(from).take(n) {
                *integer = with(*integer);
            }
        };
        change(3 + n, distribution_out);
        change(3 + 2 * n, darg_out);
    }
    if let (SUBARRAY | DARRAY, Some(order)) = (combiner, integers.last_mut()) {
        *order = order_out(*order);
    }
}

export! { MPI_Type_get_contents PMPI_Type_get_contents (
    datatype: ProgramHandle, max_integers: c_int, max_addresses: c_int, max_datatypes: c_int,
    integers: *mut c_int, addresses: *mut isize, datatypes: *mut ProgramHandle
) -> c_int {
    let datatype = datatype.abi();
    let code = (functions().type_get_contents)(
        datatype, max_integers, max_addresses, max_datatypes, integers, addresses, datatypes.cast(),
    );
    let (mut counts, mut combiner) = ([0; 3], 0);
    let [n_integers, n_addresses, n_datatypes] = &mut counts;
    if code == 0
        && (functions().type_get_envelope)(datatype, n_integers, n_addresses, n_datatypes, &mut combiner) == 0
    {
        let n = usize::try_from(counts[0]).unwrap_or(0);
        if n > 0 {
            constants_out(combiner, std::slice::from_raw_parts_mut(integers, n));
        }
        handles_out(counts[2], datatypes);
    }
    result_code(code)
} }

/// The datatypes that the processes of a communicator send or get. The library reads them before a
/// call returns, also if it completes later.
unsafe fn types_of(comm: ProgramHandle, types: *const ProgramHandle) -> CopiedHandles {
    let (mut size, mut inter) = (0, 0);
    // SAFETY: places for the answers; the program's array is as long as MPI says.
    unsafe {
        // An error leaves the size 0: the call itself reports it.
        (functions().comm_test_inter)(comm.abi(), &mut inter);
        let ask = match inter {
            0 => functions().comm_size,
            _ => functions().comm_remote_size,
        };
        ask(comm.abi(), &mut size);
        CopiedHandles::new(size, types)
    }
}

export! { MPI_Alltoallw PMPI_Alltoallw (
    sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int,
    sendtypes: *const ProgramHandle, recvbuf: *mut c_void, recvcounts: *const c_int,
    rdispls: *const c_int, recvtypes: *const ProgramHandle, comm: ProgramHandle
) -> c_int {
    // MPI_IN_PLACE has no datatypes to send.
    let in_place = sendbuf.addr() == 1;
    let sent = types_of(comm, if in_place { std::ptr::null() } else { sendtypes });
    let got = types_of(comm, recvtypes);
    result_code((functions().alltoallw)(
        sendbuf, sendcounts, sdispls, sent.as_ptr(), recvbuf, recvcounts, rdispls, got.as_ptr(), comm.abi(),
    ))
} }

export! { MPI_Ialltoallw PMPI_Ialltoallw (
    sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int,
    sendtypes: *const ProgramHandle, recvbuf: *mut c_void, recvcounts: *const c_int,
    rdispls: *const c_int, recvtypes: *const ProgramHandle, comm: ProgramHandle,
    request: *mut ProgramHandle
) -> c_int {
    let in_place = sendbuf.addr() == 1;
    let sent = types_of(comm, if in_place { std::ptr::null() } else { sendtypes });
    let got = types_of(comm, recvtypes);
    let code = (functions().ialltoallw)(
        sendbuf, sendcounts, sdispls, sent.as_ptr(), recvbuf, recvcounts, rdispls, got.as_ptr(),
        comm.abi(), request.cast(),
    );
    handle_out(request);
    result_code(code)
} }

/// `MPI_Alltoallw_init`, also under its name in Open MPI 4.1.
macro_rules! alltoallw_init {
    ($name:ident $profiling:ident) => {
        export! { $name $profiling (
            sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int,
            sendtypes: *const ProgramHandle, recvbuf: *mut c_void, recvcounts: *const c_int,
            rdispls: *const c_int, recvtypes: *const ProgramHandle, comm: ProgramHandle,
            info: ProgramHandle, request: *mut ProgramHandle
        ) -> c_int {
            let in_place = sendbuf.addr() == 1;
            let sent = types_of(comm, if in_place { std::ptr::null() } else { sendtypes });
            let got = types_of(comm, recvtypes);
            let code = (functions().alltoallw_init)(
                sendbuf, sendcounts, sdispls, sent.as_ptr(), recvbuf, recvcounts, rdispls,
                got.as_ptr(), comm.abi(), info.abi(), request.cast(),
            );
            handle_out(request);
            result_code(code)
        } }
    };
}

alltoallw_init! { MPI_Alltoallw_init PMPI_Alltoallw_init }
alltoallw_init! { MPIX_Alltoallw_init PMPIX_Alltoallw_init }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_a_distributed_array_are_translated() {
        // Two dimensions, blocked and cyclic, the default argument and 4, in Fortran's order.
        let mut integers = [6, 1, 2, 16, 17, 17, 18, 19, 4, 3, 2, 0xf];
        constants_out(DARRAY, &mut integers);
        assert_eq!(integers, [6, 1, 2, 16, 17, 0, 1, -1, 4, 3, 2, 1]);
        let mut integers = [1, 9, 3, 0, 0xc];
        constants_out(SUBARRAY, &mut integers);
        assert_eq!(integers, [1, 9, 3, 0, 0]);
        let mut integers = [3, 0xc];
        constants_out(103, &mut integers);
        assert_eq!(integers, [3, 0xc]);
    }
}
