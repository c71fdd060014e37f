//! Handles and statuses, as the program has them and as the library has them.

use std::ffi::c_int;

/// A handle of the program: the address of a predefined object, or a handle of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ProgramHandle(pub usize);

/// A handle of the standard ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct AbiHandle(pub usize);

/// `MPI_Status` of Open MPI, whose last two words are one number. In Fortran it is six integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ProgramStatus {
    pub source: c_int,
    pub tag: c_int,
    pub error: c_int,
    pub cancelled: c_int,
    pub bytes: [c_int; 2],
}

/// `MPI_Status` of the standard ABI. Rejoin uses the first three of its private words: the bytes of
/// the message in two, and whether it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AbiStatus {
    pub source: c_int,
    pub tag: c_int,
    pub error: c_int,
    pub bytes: [c_int; 2],
    pub cancelled: c_int,
    pub unused: [c_int; 2],
}
