//! What a façade says about its binary interface.

use std::ffi::{c_int, c_void};

use crate::abi_types::{AbiHandle, AbiStatus};

/// A type of handles of programs.
pub trait ProgramHandle: Copy + 'static {
    /// The library's handle. Programs may leave anything in an argument that MPI ignores, so any
    /// value gives one; the library refuses those that stand for nothing.
    fn abi(self) -> AbiHandle;
    /// The program's handle of an object of the library.
    fn of_abi(handle: AbiHandle) -> Self;
    /// The handle of an integer of Fortran; for a wrong one, the null handle.
    fn of_fortran(number: c_int) -> Self;
    /// The integer of Fortran.
    fn fortran(self) -> c_int;
}

/// Whether handles are as large as the library's, which can use the program's own places then.
pub const fn is_in_place<H>() -> bool {
    size_of::<H>() == size_of::<AbiHandle>()
}

/// `MPI_Status` of programs. It is the same integers in C and in Fortran.
pub trait ProgramStatus: Copy + Default + 'static {
    /// The address that stands for no status (`MPI_STATUS_IGNORE`, `MPI_STATUSES_IGNORE`).
    const IGNORED: usize;
    /// What the program has, its integers as they are.
    fn contents(&self) -> AbiStatus;
    /// Sets all but the error.
    fn set_message(&mut self, message: &AbiStatus);
    /// Sets the error.
    fn set_error(&mut self, error: c_int);
}

/// Integers that differ: those of the program for the library (`_in`), and back (`_out`). The
/// implementation is generated.
pub trait Integers {
    /// An error code or class for the library.
    fn error_in(code: c_int) -> c_int;
    /// An error code or class for the program.
    fn error_out(code: c_int) -> c_int;
    /// A rank for the library.
    fn rank_in(rank: c_int) -> c_int;
    /// A rank for the program.
    fn rank_out(rank: c_int) -> c_int;
    /// A tag for the library.
    fn tag_in(tag: c_int) -> c_int;
    /// A tag for the program.
    fn tag_out(tag: c_int) -> c_int;
    /// A level of threads for the library.
    fn thread_in(level: c_int) -> c_int;
    /// A level of threads for the program.
    fn thread_out(level: c_int) -> c_int;
    /// A key of attributes for the library.
    fn keyval_in(key: c_int) -> c_int;
    /// A key of attributes for the program.
    fn keyval_out(key: c_int) -> c_int;
    /// A distribution of an array for the library.
    fn distribution_in(distribution: c_int) -> c_int;
    /// A distribution of an array for the program.
    fn distribution_out(distribution: c_int) -> c_int;
    /// An argument of a distribution for the library.
    fn darg_in(argument: c_int) -> c_int;
    /// An argument of a distribution for the program.
    fn darg_out(argument: c_int) -> c_int;
    /// An order of array elements for the library.
    fn order_in(order: c_int) -> c_int;
    /// An order of array elements for the program.
    fn order_out(order: c_int) -> c_int;
    /// How a window was made, for the program.
    fn flavor_out(flavor: c_int) -> c_int;
    /// The memory model of a window, for the program.
    fn model_out(model: c_int) -> c_int;
}

/// Variables of Fortran whose addresses stand for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sentinel {
    /// `MPI_BOTTOM`.
    Bottom,
    /// `MPI_IN_PLACE`.
    InPlace,
    /// `MPI_STATUS_IGNORE`.
    StatusIgnore,
    /// `MPI_STATUSES_IGNORE`.
    StatusesIgnore,
    /// `MPI_UNWEIGHTED`.
    Unweighted,
    /// `MPI_WEIGHTS_EMPTY`.
    WeightsEmpty,
}

/// A binary interface of another MPI.
pub trait Facade: Integers + 'static {
    /// The other MPI's name, for messages.
    const NAME: &'static str;
    /// The version of the standard that its headers name.
    const VERSION: (c_int, c_int);
    /// `MPI_IN_PLACE` of C.
    const IN_PLACE: usize;
    /// `MPI_BUFFER_AUTOMATIC`.
    const BUFFER_AUTOMATIC: usize;
    /// Communicators.
    type Comm: ProgramHandle;
    /// Datatypes.
    type Datatype: ProgramHandle;
    /// Error handlers.
    type Errhandler: ProgramHandle;
    /// Files.
    type File: ProgramHandle;
    /// Groups.
    type Group: ProgramHandle;
    /// Info objects.
    type Info: ProgramHandle;
    /// Matched messages.
    type Message: ProgramHandle;
    /// Operations.
    type Op: ProgramHandle;
    /// Requests.
    type Request: ProgramHandle;
    /// Sessions.
    type Session: ProgramHandle;
    /// Windows.
    type Win: ProgramHandle;
    /// Statuses.
    type Status: ProgramStatus;
    /// `MPI_UNWEIGHTED` and `MPI_WEIGHTS_EMPTY` of C.
    fn no_weights() -> [usize; 2];
    /// The key of C for one of Fortran.
    fn fortran_keyval(keyval: c_int) -> c_int {
        keyval
    }
    /// What an operation of C calls for this function of the program; null if nothing can.
    fn operation(given: *const c_void) -> *const c_void {
        given
    }
    /// Where a variable of Fortran is, in the program or in the façade.
    fn sentinel(which: Sentinel) -> usize;
}
