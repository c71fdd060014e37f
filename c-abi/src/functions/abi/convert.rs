//! Handles as integers for Fortran (MPI-5.0 §19.3.4, §20.3).
//!
//! Kinds without a table so far have predefined handles only.

use std::ffi::c_int;

use crate::constants::MPI_REQUEST_NULL;
use crate::functions::point_to_point::request;
use crate::handles::HandleTable;
use crate::state::AbiState;
use crate::types::*;
use crate::{library_state, lock, state};

macro_rules! conversions {
    ($access:ident: $($handle:ident $to:ident $from:ident $table:expr;)*) => {$(
        /// The integer of a handle; 0 when the handle is invalid.
        pub fn $to(handle: $handle) -> c_int {
            $access(|mpi| {
                let table: fn(&AbiState) -> &HandleTable<$handle, _> = $table;
                table(mpi).to_int(handle)
            })
        }

        /// The handle of an integer; the null handle when it stands for none.
        pub fn $from(value: c_int) -> $handle {
            $access(|mpi| {
                let table: fn(&AbiState) -> &HandleTable<$handle, _> = $table;
                table(mpi).from_int(value)
            })
        }
    )*};
}

macro_rules! predefined_only {
    ($($handle:ident $to:ident $from:ident;)*) => {$(
        /// The integer of a handle; 0 when the handle is invalid.
        pub fn $to(handle: $handle) -> c_int {
            HandleTable::<$handle, ()>::new().to_int(handle)
        }

        /// The handle of an integer; the null handle when it stands for none.
        pub fn $from(value: c_int) -> $handle {
            HandleTable::<$handle, ()>::new().from_int(value)
        }
    )*};
}

// Threads may use these objects at any level.
conversions! { with_lock:
    MPI_Errhandler errhandler_toint errhandler_fromint |mpi| &mpi.errors.handlers;
    MPI_Info info_toint info_fromint |mpi| &mpi.infos;
    MPI_Session session_toint session_fromint |mpi| &mpi.sessions;
}

conversions! { as_calls:
    MPI_Comm comm_toint comm_fromint |mpi| &mpi.comms;
    MPI_File file_toint file_fromint |mpi| &mpi.files;
    MPI_Group group_toint group_fromint |mpi| &mpi.groups;
    MPI_Message message_toint message_fromint |mpi| &mpi.messages;
    MPI_Op op_toint op_fromint |mpi| &mpi.ops;
    MPI_Datatype type_toint type_fromint |mpi| &mpi.datatypes.handles;
}

predefined_only! {
    MPI_Win win_toint win_fromint;
}

/// Marks the integer of a request; 8 bits of generation and 22 of slot follow.
const REQUEST_MARK: u32 = 1 << 30;
const SLOT_BITS: u32 = 22;

/// The integer of a handle; 0 when the handle is invalid.
pub fn request_toint(request: MPI_Request) -> c_int {
    as_calls(|mpi| match request::id_of(request) {
        Ok(None) => request.0 as c_int,
        Ok(Some(id)) if mpi.core.get().is_some_and(|c| c.request_exists(id)) => {
            if id.to_raw() as u32 >> SLOT_BITS != 0 {
                return 0;
            }
            request_int(request) as c_int
        }
        _ => 0,
    })
}

/// The handle of an integer; the null handle when it stands for none.
pub fn request_fromint(value: c_int) -> MPI_Request {
    let value = value as u32;
    let slot = value & ((1 << SLOT_BITS) - 1);
    as_calls(|mpi| {
        let found = mpi.core.get().and_then(|c| c.request_in_slot(slot));
        match found.map(request::handle_of) {
            Some(handle) if request_int(handle) == value => handle,
            _ => MPI_REQUEST_NULL,
        }
    })
}

/// The integer of a live request's handle.
fn request_int(handle: MPI_Request) -> u32 {
    let (slot, generation) = (handle.0 as u32, (handle.0 >> 32) as u32);
    REQUEST_MARK | (generation & 0xff) << SLOT_BITS | slot
}

/// With the lock only where calls on such objects take it: another lock would protect nothing.
#[inline(always)]
fn as_calls<R>(look: impl FnOnce(&AbiState) -> R) -> R {
    if !library_state::is_running_unlocked() {
        return with_lock(look);
    }
    // SAFETY: below `MPI_THREAD_MULTIPLE` the program promises one thread at a time.
    look(unsafe { state::mpi() })
}

/// These functions report no errors and may be called at any time, so they do not pass the entry.
fn with_lock<R>(look: impl FnOnce(&AbiState) -> R) -> R {
    lock::acquire();
    // SAFETY: the lock is held.
    let result = look(unsafe { state::mpi() });
    lock::release();
    result
}
