//! `libmpi.so.12`: programs that were compiled against MPICH, Intel MPI or MVAPICH run on Rejoin
//! unchanged.
//!
//! Functions of Fortran are in the same library: `libmpifort.so.12` and Debian's names
//! (`libmpich.so.12`, `libmpichfort.so.12`) are links to it.
//!
//! Every function translates its arguments, calls the standard ABI, and translates the results.
//! They are generated from the standard's tables and from `abi/`, which holds what MPICH has
//! otherwise (`cargo xtask codegen`), or are those that façades share (`rejoin_facade`).
//!
//! MPICH's handles are integers, in C and in Fortran. Those of predefined objects are in `abi/`.
//! All others are the library's integers for Fortran, with one more bit (`number_handles`).

use std::ffi::c_int;

use rejoin_facade::bound_library::functions;
use rejoin_facade::{Facade, ProgramHandle as _, Sentinel, handle_kinds};

use mpich_status::MpichStatus;
use number_handles::{FilePointer, NumberHandle};

mod generated;
mod mpich_status;
mod mpich_variables;
mod number_handles;
#[cfg(test)]
mod value_tests;

rejoin_facade::bind_at_load!();

/// MPICH's binary interface.
pub struct Mpich;

/// The bits of a key that say what it is, and those of a predefined one.
const KEY_KIND: c_int = 0x7c00_0000;
const PREDEFINED_KEY: c_int = 0x6400_0000;

impl Facade for Mpich {
    const NAME: &'static str = "MPICH";
    // That of the headers of MPICH 4.0 and of Intel MPI 2021.
    const VERSION: (c_int, c_int) = (4, 0);
    const IN_PLACE: usize = usize::MAX;
    const BUFFER_AUTOMATIC: usize = usize::MAX - 1;
    type Comm = NumberHandle<{ handle_kinds::COMM }>;
    type Datatype = NumberHandle<{ handle_kinds::DATATYPE }>;
    type Errhandler = NumberHandle<{ handle_kinds::ERRHANDLER }>;
    type File = FilePointer;
    type Group = NumberHandle<{ handle_kinds::GROUP }>;
    type Info = NumberHandle<{ handle_kinds::INFO }>;
    type Message = NumberHandle<{ handle_kinds::MESSAGE }>;
    type Op = NumberHandle<{ handle_kinds::OP }>;
    type Request = NumberHandle<{ handle_kinds::REQUEST }>;
    type Session = NumberHandle<{ handle_kinds::SESSION }>;
    type Win = NumberHandle<{ handle_kinds::WIN }>;
    type Status = MpichStatus;

    fn no_weights() -> [usize; 2] {
        mpich_variables::no_weights()
    }

    // Predefined keys of Fortran are one more, because their values are integers, not addresses.
    fn fortran_keyval(keyval: c_int) -> c_int {
        match keyval & KEY_KIND == PREDEFINED_KEY {
            true => (keyval - 1) | 1,
            false => keyval,
        }
    }

    fn sentinel(which: Sentinel) -> usize {
        mpich_variables::sentinel(which)
    }
}

/// Which devices the library can send from the memory of: none.
macro_rules! no_devices {
    ($($name:ident $profiling:ident)*) => {$(
        rejoin_facade::export! { $name $profiling () -> c_int { 0 } }
    )*};
}

no_devices! {
    MPIX_Query_cuda_support PMPIX_Query_cuda_support
    MPIX_Query_hip_support PMPIX_Query_hip_support
    MPIX_Query_ze_support PMPIX_Query_ze_support
}

rejoin_facade::export! { MPIX_GPU_query_support PMPIX_GPU_query_support (
    _kind: c_int, is_supported: *mut c_int
) -> c_int {
    *is_supported = 0;
    0
} }

// MPICH's library for its former C++ binding names them, also for programs that do not use it.
rejoin_facade::missing! { Mpich MPII_Op_set_cxx PMPII_Op_set_cxx }
rejoin_facade::missing! { Mpich MPII_Keyval_set_proxy PMPII_Keyval_set_proxy }
rejoin_facade::missing! { Mpich MPII_Errhandler_set_cxx PMPII_Errhandler_set_cxx }

rejoin_facade::export! { MPIX_Request_is_complete PMPIX_Request_is_complete (
    request: <Mpich as Facade>::Request
) -> c_int {
    let mut flag = 0;
    // An error leaves the flag 0.
    (functions().request_get_status)(request.abi(), &mut flag, std::ptr::null_mut());
    flag
} }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_keys_of_fortran_are_those_of_c() {
        for (fortran, c) in [
            (0x6440_0002, 0x6440_0001),
            (0x6600_000a, 0x6600_0009),
            (0x6440_0001, 0x6440_0001),
            (1024, 1024),
            (0x2400_0000, 0x2400_0000),
        ] {
            assert_eq!(Mpich::fortran_keyval(fortran), c);
        }
    }
}
