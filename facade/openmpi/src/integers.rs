//! The integers of handles in Fortran, which C programs ask for, too. Those of predefined objects
//! are Open MPI's; those of others are the library's, which are larger.

use std::ffi::c_int;

use crate::bound_library::functions;
use crate::export_macros::export;
use crate::generated::predefined::*;
use crate::predefined_objects::ObjectAddress;
use crate::program_types::{ProgramHandle, ProgramStatus};

/// The library's integers begin here.
const FIRST_OWN: c_int = 1 << 30;
/// Integers of a status in Fortran.
const STATUS_INTEGERS: usize = size_of::<ProgramStatus>() / size_of::<c_int>();

/// The integer of a predefined object; `None` for another handle.
fn predefined(handle: ProgramHandle) -> Option<c_int> {
    let object = handle.abi().program().predefined();
    object.map(|object| object.1 as c_int)
}

/// The handle of a number; for a wrong one, the null handle.
fn object(list: &[ObjectAddress], null: ObjectAddress, number: c_int) -> ProgramHandle {
    let found = usize::try_from(number)
        .ok()
        .and_then(|number| list.get(number));
    found.copied().unwrap_or(null).handle()
}

/// Both functions of one kind of handles.
macro_rules! numbers {
    ($kind:ident $c2f:ident $profiling_c2f:ident $f2c:ident $profiling_f2c:ident
        $toint:ident $fromint:ident $list:ident $null:ident) => {
        export! { $c2f $profiling_c2f (handle: ProgramHandle) -> c_int {
            predefined(handle).unwrap_or_else(|| (functions().$toint)(handle.abi()))
        } }
        export! { $f2c $profiling_f2c (number: c_int) -> ProgramHandle {
            if number >= FIRST_OWN {
                (functions().$fromint)(number).program()
            } else {
                object(&$list, ObjectAddress::of(&$null), number)
            }
        } }
    };
}

numbers! { Comm MPI_Comm_c2f PMPI_Comm_c2f MPI_Comm_f2c PMPI_Comm_f2c
comm_toint comm_fromint FORTRAN_COMM ompi_mpi_comm_null }
numbers! { Errhandler MPI_Errhandler_c2f PMPI_Errhandler_c2f MPI_Errhandler_f2c PMPI_Errhandler_f2c
errhandler_toint errhandler_fromint FORTRAN_ERRHANDLER ompi_mpi_errhandler_null }
numbers! { File MPI_File_c2f PMPI_File_c2f MPI_File_f2c PMPI_File_f2c
file_toint file_fromint FORTRAN_FILE ompi_mpi_file_null }
numbers! { Group MPI_Group_c2f PMPI_Group_c2f MPI_Group_f2c PMPI_Group_f2c
group_toint group_fromint FORTRAN_GROUP ompi_mpi_group_null }
numbers! { Info MPI_Info_c2f PMPI_Info_c2f MPI_Info_f2c PMPI_Info_f2c
info_toint info_fromint FORTRAN_INFO ompi_mpi_info_null }
numbers! { Message MPI_Message_c2f PMPI_Message_c2f MPI_Message_f2c PMPI_Message_f2c
message_toint message_fromint FORTRAN_MESSAGE ompi_message_null }
numbers! { Op MPI_Op_c2f PMPI_Op_c2f MPI_Op_f2c PMPI_Op_f2c
op_toint op_fromint FORTRAN_OP ompi_mpi_op_null }
numbers! { Request MPI_Request_c2f PMPI_Request_c2f MPI_Request_f2c PMPI_Request_f2c
request_toint request_fromint FORTRAN_REQUEST ompi_request_null }
numbers! { Session MPI_Session_c2f PMPI_Session_c2f MPI_Session_f2c PMPI_Session_f2c
session_toint session_fromint FORTRAN_SESSION ompi_mpi_instance_null }
numbers! { Type MPI_Type_c2f PMPI_Type_c2f MPI_Type_f2c PMPI_Type_f2c
type_toint type_fromint FORTRAN_DATATYPE ompi_mpi_datatype_null }
numbers! { Win MPI_Win_c2f PMPI_Win_c2f MPI_Win_f2c PMPI_Win_f2c
win_toint win_fromint FORTRAN_WIN ompi_mpi_win_null }

/// A status is the same integers in C, in Fortran, and in the module `mpi_f08`.
macro_rules! status_copies {
    ($($name:ident $profiling:ident)*) => {$(
        export! { $name $profiling (from: *const c_int, to: *mut c_int) -> c_int {
            to.copy_from_nonoverlapping(from, STATUS_INTEGERS);
            0
        } }
    )*};
}

status_copies! {
    MPI_Status_c2f PMPI_Status_c2f
    MPI_Status_f2c PMPI_Status_f2c
    MPI_Status_c2f08 PMPI_Status_c2f08
    MPI_Status_f082c PMPI_Status_f082c
    MPI_Status_f2f08 PMPI_Status_f2f08
    MPI_Status_f082f PMPI_Status_f082f
}

/// Where Fortran's `MPI_STATUS_IGNORE` is, for C programs.
#[repr(transparent)]
struct Sentinel(*const [u8; 24]);

// SAFETY: the address never changes.
unsafe impl Sync for Sentinel {}

/// Places whose addresses stand for something in Fortran; programs have common blocks of these
/// names.
macro_rules! sentinels {
    ($($name:ident $bytes:literal)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static $name: [u8; $bytes] = [0; $bytes];
    )*};
}

sentinels! {
    mpi_fortran_bottom_ 4
    mpi_fortran_in_place_ 4
    mpi_fortran_argv_null_ 1
    mpi_fortran_argvs_null_ 1
    mpi_fortran_errcodes_ignore_ 4
    mpi_fortran_status_ignore_ 24
    mpi_fortran_statuses_ignore_ 24
    mpi_fortran_unweighted_ 4
    mpi_fortran_weights_empty_ 4
}

#[unsafe(no_mangle)]
static MPI_F_STATUS_IGNORE: Sentinel = Sentinel(&raw const mpi_fortran_status_ignore_);
#[unsafe(no_mangle)]
static MPI_F_STATUSES_IGNORE: Sentinel = Sentinel(&raw const mpi_fortran_statuses_ignore_);
#[unsafe(no_mangle)]
static MPI_F08_STATUS_IGNORE: Sentinel = Sentinel(&raw const mpi_fortran_status_ignore_);
#[unsafe(no_mangle)]
static MPI_F08_STATUSES_IGNORE: Sentinel = Sentinel(&raw const mpi_fortran_statuses_ignore_);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predefined_objects_have_open_mpis_integers_both_ways() {
        for (list, null) in [
            (
                &FORTRAN_DATATYPE[..],
                ObjectAddress::of(&ompi_mpi_datatype_null),
            ),
            (&FORTRAN_COMM[..], ObjectAddress::of(&ompi_mpi_comm_null)),
            (&FORTRAN_OP[..], ObjectAddress::of(&ompi_mpi_op_null)),
            (
                &FORTRAN_ERRHANDLER[..],
                ObjectAddress::of(&ompi_mpi_errhandler_null),
            ),
        ] {
            for number in 0..list.len() as c_int {
                let handle = object(list, null, number);
                // Datatypes that the standard lacks stand for none.
                let expected = if handle.abi() == null.handle().abi() {
                    predefined(null.handle())
                } else {
                    Some(number)
                };
                assert_eq!(predefined(handle), expected, "{number}");
            }
            for wrong in [-1, list.len() as c_int, FIRST_OWN - 1] {
                assert_eq!(object(list, null, wrong), null.handle());
            }
        }
        assert_eq!(predefined(ProgramHandle(0x4100_0001_0000_0007)), None);
        assert_eq!(FORTRAN_DATATYPE.len(), 74);
    }
}
