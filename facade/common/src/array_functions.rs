//! Functions with arrays that no rule covers: of special values, or of a length that the
//! communicator or the datatype says.

use std::ffi::{c_int, c_void};

use crate::abi_types::AbiHandle;
use crate::bound_library::functions;
use crate::export_macros::result_code;
use crate::facade_traits::{Facade, ProgramHandle, is_in_place};
use crate::handle_places::{CopiedHandles, OutHandle, give_handles};
use crate::long_text::buffer_in;

/// `MPI_COMBINER_SUBARRAY` and `MPI_COMBINER_DARRAY` of the standard ABI.
const SUBARRAY: c_int = 111;
const DARRAY: c_int = 112;

/// The program's array, each element of it translated.
unsafe fn translated(count: c_int, first: *const c_int, with: fn(c_int) -> c_int) -> Vec<c_int> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the program's array has so many elements.
    (0..count).map(|i| with(unsafe { *first.add(i) })).collect()
}

/// `MPI_Group_translate_ranks`.
///
/// # Safety
/// The arrays have `n` elements.
pub unsafe fn group_translate_ranks<F: Facade>(
    group1: F::Group,
    n: c_int,
    ranks1: *const c_int,
    group2: F::Group,
    ranks2: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let from = translated(n, ranks1, F::rank_in);
        let ask = functions().group_translate_ranks;
        let code = ask(group1.abi(), n, from.as_ptr(), group2.abi(), ranks2);
        if code == 0 {
            for i in 0..from.len() {
                *ranks2.add(i) = F::rank_out(*ranks2.add(i));
            }
        }
        result_code::<F>(code)
    }
}

/// Both forms of `MPI_Type_create_darray`.
macro_rules! darrays {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>($count:ty);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arrays have `ndims` elements; the place is valid.
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $name<F: Facade>(
            size: c_int, rank: c_int, ndims: c_int, gsizes: *const $count, distribs: *const c_int,
            dargs: *const c_int, psizes: *const c_int, order: c_int, oldtype: F::Datatype,
            newtype: *mut F::Datatype,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                let distribs = translated(ndims, distribs, F::distribution_in);
                let dargs = translated(ndims, dargs, F::darg_in);
                let mut made = OutHandle::new(newtype);
                let code = (functions().$name)(
                    size, F::rank_in(rank), ndims, gsizes, distribs.as_ptr(), dargs.as_ptr(), psizes,
                    F::order_in(order), oldtype.abi(), made.place(),
                );
                made.give();
                result_code::<F>(code)
            }
        }
    )*};
}

darrays! {
    /// `MPI_Type_create_darray`.
    pub unsafe fn type_create_darray<F: Facade>(c_int);
    /// `MPI_Type_create_darray_c`.
    pub unsafe fn type_create_darray_c<F: Facade>(i64);
}

/// Translates what a constructor of this kind was given.
fn constants_out<F: Facade>(combiner: c_int, integers: &mut [c_int]) {
    if combiner == DARRAY && integers.len() > 3 {
        // size, rank, dimensions, then arrays of as many: lengths, distributions, their arguments.
        let n = usize::try_from(integers[2]).unwrap_or(0);
        let mut change = |from: usize, with: fn(c_int) -> c_int| {
            for integer in integers.iter_mut().skip(from).take(n) {
                *integer = with(*integer);
            }
        };
        change(3 + n, F::distribution_out);
        change(3 + 2 * n, F::darg_out);
    }
    if let (SUBARRAY | DARRAY, Some(order)) = (combiner, integers.last_mut()) {
        *order = F::order_out(*order);
    }
}

/// `MPI_Type_get_contents`.
///
/// # Safety
/// The arrays are as long as the program says.
pub unsafe fn type_get_contents<F: Facade>(
    datatype: F::Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    integers: *mut c_int,
    addresses: *mut isize,
    datatypes: *mut F::Datatype,
) -> c_int {
    let datatype = datatype.abi();
    let room = usize::try_from(max_datatypes).unwrap_or(0);
    let mut places = Vec::new();
    let written: *mut AbiHandle = if is_in_place::<F::Datatype>() || datatypes.is_null() {
        datatypes.cast()
    } else {
        places.resize(room, AbiHandle(0));
        places.as_mut_ptr()
    };
    // SAFETY: the caller's promise.
    unsafe {
        let code = (functions().type_get_contents)(
            datatype,
            max_integers,
            max_addresses,
            max_datatypes,
            integers,
            addresses,
            written,
        );
        let (mut counts, mut combiner) = ([0; 3], 0);
        let [n_integers, n_addresses, n_datatypes] = &mut counts;
        let ask = functions().type_get_envelope;
        if code == 0
            && ask(
                datatype,
                n_integers,
                n_addresses,
                n_datatypes,
                &mut combiner,
            ) == 0
        {
            let n = usize::try_from(counts[0]).unwrap_or(0);
            if n > 0 {
                constants_out::<F>(combiner, std::slice::from_raw_parts_mut(integers, n));
            }
            give_handles(counts[2], written, datatypes);
        }
        result_code::<F>(code)
    }
}

/// How many processes a collective of a communicator talks to. An error leaves 0: the call itself
/// reports it.
pub fn peers(comm: AbiHandle) -> c_int {
    let (mut size, mut inter) = (0, 0);
    // SAFETY: places for the answers.
    unsafe {
        (functions().comm_test_inter)(comm, &mut inter);
        let ask = match inter {
            0 => functions().comm_size,
            _ => functions().comm_remote_size,
        };
        ask(comm, &mut size);
    }
    size
}

/// The datatypes that the processes of a communicator send or get. The library reads them before a
/// call returns, also if it completes later.
unsafe fn types_of<F: Facade>(comm: F::Comm, types: *const F::Datatype) -> CopiedHandles {
    // SAFETY: the program's array is as long as MPI says.
    unsafe { CopiedHandles::new(peers(comm.abi()), types) }
}

/// What a process sends: `MPI_IN_PLACE` has no datatypes.
unsafe fn sent_types<F: Facade>(
    comm: F::Comm,
    sendbuf: *const c_void,
    types: *const F::Datatype,
) -> CopiedHandles {
    let in_place = sendbuf.addr() == F::IN_PLACE;
    // SAFETY: the caller's promise.
    unsafe { types_of::<F>(comm, if in_place { std::ptr::null() } else { types }) }
}

/// All forms of `MPI_Alltoallw`: what follows the communicator, as the program gives it and as the
/// library gets it, and the place for the request.
macro_rules! alltoallws {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>(
        $count:ty, $displacement:ty $(, info $info:ident)? $(, request $request:ident)?
    );)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arrays are as long as MPI says; the place is valid.
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $name<F: Facade>(
            sendbuf: *const c_void, sendcounts: *const $count, sdispls: *const $displacement,
            sendtypes: *const F::Datatype, recvbuf: *mut c_void, recvcounts: *const $count,
            rdispls: *const $displacement, recvtypes: *const F::Datatype, comm: F::Comm,
            $($info: F::Info,)? $($request: *mut F::Request,)?
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                let sent = sent_types::<F>(comm, sendbuf, sendtypes);
                let got = types_of::<F>(comm, recvtypes);
                $(let mut $request = OutHandle::new($request);)?
                let code = (functions().$name)(
                    buffer_in::<F>(sendbuf), sendcounts, sdispls, sent.as_ptr(), recvbuf,
                    recvcounts, rdispls, got.as_ptr(), comm.abi(),
                    $($info.abi(),)? $($request.place(),)?
                );
                $($request.give();)?
                result_code::<F>(code)
            }
        }
    )*};
}

alltoallws! {
    /// `MPI_Alltoallw`.
    pub unsafe fn alltoallw<F: Facade>(c_int, c_int);
    /// `MPI_Alltoallw_c`.
    pub unsafe fn alltoallw_c<F: Facade>(i64, isize);
    /// `MPI_Ialltoallw`.
    pub unsafe fn ialltoallw<F: Facade>(c_int, c_int, request request);
    /// `MPI_Ialltoallw_c`.
    pub unsafe fn ialltoallw_c<F: Facade>(i64, isize, request request);
    /// `MPI_Alltoallw_init`.
    pub unsafe fn alltoallw_init<F: Facade>(c_int, c_int, info info, request request);
    /// `MPI_Alltoallw_init_c`.
    pub unsafe fn alltoallw_init_c<F: Facade>(i64, isize, info info, request request);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_facade::Sample;

    #[test]
    fn constants_of_a_distributed_array_are_translated() {
        // Two dimensions, blocked and cyclic, the default argument and 4, in Fortran's order.
        let mut integers = [6, 1, 2, 16, 17, 17, 18, 19, 4, 3, 2, 0xf];
        constants_out::<Sample>(DARRAY, &mut integers);
        assert_eq!(
            integers,
            [6, 1, 2, 16, 17, 1017, 1018, 1019, 1004, 3, 2, 1015]
        );
        let mut integers = [1, 9, 3, 0, 0xc];
        constants_out::<Sample>(SUBARRAY, &mut integers);
        assert_eq!(integers, [1, 9, 3, 0, 1012]);
        let mut integers = [3, 0xc];
        constants_out::<Sample>(103, &mut integers);
        assert_eq!(integers, [3, 0xc]);
    }
}
