//! Handles and statuses of the standard ABI, as the library has them.

use std::ffi::c_int;

/// A handle of the standard ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct AbiHandle(pub usize);

impl AbiHandle {
    /// `MPI_COMM_NULL`.
    pub const COMM_NULL: Self = Self(0x100);
    /// `MPI_COMM_WORLD`.
    pub const WORLD: Self = Self(0x101);
}

/// `MPI_Status` of the standard ABI. Rejoin uses the first three of its private words: the bytes of
/// the message in two, and whether it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AbiStatus {
    /// Rank of the sender.
    pub source: c_int,
    /// Tag of the message.
    pub tag: c_int,
    /// Error code.
    pub error: c_int,
    /// Bytes of the message: the lower half, and the upper one.
    pub bytes: [c_int; 2],
    /// 1 if the operation was cancelled.
    pub cancelled: c_int,
    /// Words without a meaning.
    pub unused: [c_int; 2],
}
