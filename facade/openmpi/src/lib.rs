//! `libmpi.so.40`: programs that were compiled against Open MPI 4.1 or 5.0 run on Rejoin unchanged.
//!
//! Functions of Fortran are in the same library: `libmpi_mpifh.so.40` is a link to it.
//!
//! Every function translates its arguments, calls the standard ABI, and translates the results.
//! They are generated from the standard's tables and from `abi/`, which holds what Open MPI has
//! otherwise (`cargo xtask codegen`), or are those that façades share (`rejoin_facade`).
//!
//! Open MPI's handles are pointers. Those of predefined objects point to data with known names,
//! whose first word here is the handle of the standard ABI. All others are Rejoin's own handles,
//! which are no addresses.

use std::ffi::{c_int, c_void};

use rejoin_facade::abi_types::AbiStatus;
use rejoin_facade::{Facade, ProgramStatus, Sentinel, handle_kinds};

use object_handles::ObjectHandle;

#[cfg(test)]
mod conversion_tests;
mod cxx_binding;
mod cxx_operations;
mod fortran_2008;
mod fortran_variables;
mod generated;
mod known_objects;
mod named_callbacks;
mod object_handles;
mod predefined_objects;

rejoin_facade::bind_at_load!();

/// Open MPI's binary interface.
pub struct OpenMpi;

impl Facade for OpenMpi {
    const NAME: &'static str = "Open MPI";
    // That of the headers of 4.1 and 5.0.
    const VERSION: (c_int, c_int) = (3, 1);
    const IN_PLACE: usize = 1;
    // It has none: the standard's is no address of a program either.
    const BUFFER_AUTOMATIC: usize = 2;
    type Comm = ObjectHandle<{ handle_kinds::COMM }>;
    type Datatype = ObjectHandle<{ handle_kinds::DATATYPE }>;
    type Errhandler = ObjectHandle<{ handle_kinds::ERRHANDLER }>;
    type File = ObjectHandle<{ handle_kinds::FILE }>;
    type Group = ObjectHandle<{ handle_kinds::GROUP }>;
    type Info = ObjectHandle<{ handle_kinds::INFO }>;
    type Message = ObjectHandle<{ handle_kinds::MESSAGE }>;
    type Op = ObjectHandle<{ handle_kinds::OP }>;
    type Request = ObjectHandle<{ handle_kinds::REQUEST }>;
    type Session = ObjectHandle<{ handle_kinds::SESSION }>;
    type Win = ObjectHandle<{ handle_kinds::WIN }>;
    type Status = OpenMpiStatus;

    fn no_weights() -> [usize; 2] {
        [2, 3]
    }

    fn operation(given: *const c_void) -> *const c_void {
        cxx_operations::own_operation(given)
    }

    fn sentinel(which: Sentinel) -> usize {
        fortran_variables::sentinel(which)
    }
}

/// `MPI_Status` of Open MPI, whose last two words are one number. In Fortran it is six integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct OpenMpiStatus {
    source: c_int,
    tag: c_int,
    error: c_int,
    cancelled: c_int,
    bytes: [c_int; 2],
}

impl ProgramStatus for OpenMpiStatus {
    const IGNORED: usize = 0;

    #[inline(always)]
    fn contents(&self) -> AbiStatus {
        AbiStatus {
            source: self.source,
            tag: self.tag,
            error: self.error,
            bytes: self.bytes,
            cancelled: self.cancelled,
            unused: [0; 2],
        }
    }

    #[inline(always)]
    fn set_message(&mut self, message: &AbiStatus) {
        (self.source, self.tag) = (message.source, message.tag);
        (self.cancelled, self.bytes) = (message.cancelled, message.bytes);
    }

    #[inline(always)]
    fn set_error(&mut self, error: c_int) {
        self.error = error;
    }
}

rejoin_facade::export! { MPIX_Query_cuda_support PMPIX_Query_cuda_support () -> c_int { 0 } }

rejoin_facade::export! { MPIX_Query_rocm_support PMPIX_Query_rocm_support () -> c_int { 0 } }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_open_mpis_layout() {
        assert_eq!(size_of::<OpenMpiStatus>(), 24);
        assert_eq!(std::mem::offset_of!(OpenMpiStatus, bytes), 16);
    }
}
