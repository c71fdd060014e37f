//! Handles as integers for Fortran (MPI-5.0 §19.3.4, §20.3).
//!
//! Kinds without a table so far have predefined handles only.

use std::ffi::c_int;

use crate::handles::Table;
use crate::state::Mpi;
use crate::types::*;
use crate::{lock, state};

macro_rules! conversions {
    ($($handle:ident $to:ident $from:ident $table:expr;)*) => {$(
        /// The integer of a handle; 0 when the handle is invalid.
        pub fn $to(handle: $handle) -> c_int {
            with(|mpi| {
                let table: fn(&Mpi) -> &Table<$handle, _> = $table;
                table(mpi).to_int(handle)
            })
        }

        /// The handle of an integer; the null handle when it stands for none.
        pub fn $from(value: c_int) -> $handle {
            with(|mpi| {
                let table: fn(&Mpi) -> &Table<$handle, _> = $table;
                table(mpi).from_int(value)
            })
        }
    )*};
}

macro_rules! predefined_only {
    ($($handle:ident $to:ident $from:ident;)*) => {$(
        /// The integer of a handle; 0 when the handle is invalid.
        pub fn $to(handle: $handle) -> c_int {
            Table::<$handle, ()>::new().to_int(handle)
        }

        /// The handle of an integer; the null handle when it stands for none.
        pub fn $from(value: c_int) -> $handle {
            Table::<$handle, ()>::new().from_int(value)
        }
    )*};
}

conversions! {
    MPI_Errhandler errhandler_toint errhandler_fromint |mpi| &mpi.errors.handlers;
    MPI_Comm comm_toint comm_fromint |mpi| &mpi.comms;
    MPI_Group group_toint group_fromint |mpi| &mpi.groups;
    MPI_Info info_toint info_fromint |mpi| &mpi.infos;
    MPI_Message message_toint message_fromint |mpi| &mpi.messages;
    MPI_Op op_toint op_fromint |mpi| &mpi.ops;
    MPI_Datatype type_toint type_fromint |mpi| &mpi.datatypes.handles;
}

predefined_only! {
    MPI_File file_toint file_fromint;
    MPI_Request request_toint request_fromint;
    MPI_Session session_toint session_fromint;
    MPI_Win win_toint win_fromint;
}

/// These functions report no errors and may be called at any time, so they do not pass the entry.
fn with<R>(look: impl FnOnce(&Mpi) -> R) -> R {
    lock::acquire();
    // SAFETY: the lock is held.
    let result = look(unsafe { state::mpi() });
    lock::release();
    result
}
