//! Variables of MPICH's library whose addresses or values stand for something, and callbacks that
//! programs name.
//!
//! In Fortran they are in common blocks, several in one. A program of Fortran has these blocks
//! itself, which are the ones that are meant.

use std::ffi::{c_int, c_void};

use rejoin_facade::Sentinel;
use rejoin_facade::attributes::copy_value;
use rejoin_facade::handle_kinds::COMM;

use crate::mpich_status::MpichStatus;
use crate::number_handles::NumberHandle;

/// Integers of a status.
const STATUS: usize = size_of::<MpichStatus>() / size_of::<c_int>();

/// Common block `MPIPRIV1`.
#[repr(C)]
pub struct Private1 {
    bottom: c_int,
    in_place: c_int,
    status_ignore: [c_int; STATUS],
}

/// Common block `MPIPRIV2`.
#[repr(C)]
pub struct Private2 {
    statuses_ignore: [c_int; STATUS],
    errcodes_ignore: c_int,
}

#[unsafe(no_mangle)]
static mpipriv1_: Private1 = Private1 {
    bottom: 0,
    in_place: 0,
    status_ignore: [0; STATUS],
};
#[unsafe(no_mangle)]
static mpipriv2_: Private2 = Private2 {
    statuses_ignore: [0; STATUS],
    errcodes_ignore: 0,
};
/// `MPI_ARGVS_NULL` and `MPI_ARGV_NULL`, which is blank.
#[unsafe(no_mangle)]
static mpiprivc_: [u8; 2] = [0, b' '];
/// `MPI_UNWEIGHTED`.
#[unsafe(no_mangle)]
static mpifcmb5_: c_int = 0;
/// `MPI_WEIGHTS_EMPTY`.
#[unsafe(no_mangle)]
static mpifcmb9_: c_int = 0;

/// A variable of C that holds an address.
#[repr(transparent)]
struct Address(*const c_int);

// SAFETY: the address never changes.
unsafe impl Sync for Address {}

/// A place whose address stands for something.
const fn first(place: &'static c_int) -> Address {
    Address(place)
}

static NO_WEIGHTS: [c_int; 2] = [0; 2];
#[unsafe(no_mangle)]
static MPI_UNWEIGHTED: Address = first(&NO_WEIGHTS[0]);
#[unsafe(no_mangle)]
static MPI_WEIGHTS_EMPTY: Address = first(&NO_WEIGHTS[1]);
#[unsafe(no_mangle)]
static MPI_F_STATUS_IGNORE: Address = Address((&raw const mpipriv1_.status_ignore).cast());
#[unsafe(no_mangle)]
static MPI_F_STATUSES_IGNORE: Address = Address((&raw const mpipriv2_.statuses_ignore).cast());
/// `MPI_T_PVAR_ALL_HANDLES`: any address that is not null.
#[unsafe(no_mangle)]
static MPI_T_PVAR_ALL_HANDLES: Address = first(&NO_WEIGHTS[0]);

// What the module `mpi_f08` and C programs share.
#[unsafe(no_mangle)]
static MPIR_F08_MPI_STATUS_IGNORE_OBJ: [c_int; STATUS] = [0; STATUS];
#[unsafe(no_mangle)]
static MPIR_F08_MPI_STATUSES_IGNORE_OBJ: [c_int; STATUS] = [0; STATUS];
#[unsafe(no_mangle)]
static MPIR_F08_MPI_IN_PLACE: c_int = 0;
#[unsafe(no_mangle)]
static MPIR_F08_MPI_BOTTOM: c_int = 0;
#[unsafe(no_mangle)]
static MPI_F08_STATUS_IGNORE: Address = Address((&raw const MPIR_F08_MPI_STATUS_IGNORE_OBJ).cast());
#[unsafe(no_mangle)]
static MPI_F08_STATUSES_IGNORE: Address =
    Address((&raw const MPIR_F08_MPI_STATUSES_IGNORE_OBJ).cast());

/// `MPI_UNWEIGHTED` and `MPI_WEIGHTS_EMPTY` of C.
pub fn no_weights() -> [usize; 2] {
    [MPI_UNWEIGHTED.0.addr(), MPI_WEIGHTS_EMPTY.0.addr()]
}

/// Where a variable of Fortran is, in the program or here.
pub fn sentinel(which: Sentinel) -> usize {
    match which {
        Sentinel::Bottom => (&raw const mpipriv1_.bottom).addr(),
        Sentinel::InPlace => (&raw const mpipriv1_.in_place).addr(),
        Sentinel::StatusIgnore => (&raw const mpipriv1_.status_ignore).addr(),
        Sentinel::StatusesIgnore => (&raw const mpipriv2_.statuses_ignore).addr(),
        Sentinel::Unweighted => (&raw const mpifcmb5_).addr(),
        Sentinel::WeightsEmpty => (&raw const mpifcmb9_).addr(),
    }
}

/// `MPI_DUP_FN` of C, for all kinds of objects.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
unsafe extern "C" fn MPIR_Dup_fn(
    object: NumberHandle<COMM>,
    key: c_int,
    state: *mut c_void,
    value: *mut c_void,
    copied: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: whoever calls gives a flag and a place for the copy.
    unsafe { copy_value(object, key, state, value, copied, flag) }
}

rejoin_facade::named_callbacks! {
    c_int
        [mpi_null_copy_fn_ mpi_null_copy_fn mpi_null_copy_fn__ MPI_NULL_COPY_FN]
        [mpi_dup_fn_ mpi_dup_fn mpi_dup_fn__ MPI_DUP_FN]
        [mpi_null_delete_fn_ mpi_null_delete_fn mpi_null_delete_fn__ MPI_NULL_DELETE_FN];
    isize
        [mpi_comm_null_copy_fn_ mpi_comm_null_copy_fn mpi_comm_null_copy_fn__ MPI_COMM_NULL_COPY_FN]
        [mpi_comm_dup_fn_ mpi_comm_dup_fn mpi_comm_dup_fn__ MPI_COMM_DUP_FN]
        [mpi_comm_null_delete_fn_ mpi_comm_null_delete_fn mpi_comm_null_delete_fn__
            MPI_COMM_NULL_DELETE_FN];
    isize
        [mpi_type_null_copy_fn_ mpi_type_null_copy_fn mpi_type_null_copy_fn__ MPI_TYPE_NULL_COPY_FN]
        [mpi_type_dup_fn_ mpi_type_dup_fn mpi_type_dup_fn__ MPI_TYPE_DUP_FN]
        [mpi_type_null_delete_fn_ mpi_type_null_delete_fn mpi_type_null_delete_fn__
            MPI_TYPE_NULL_DELETE_FN];
    isize
        [mpi_win_null_copy_fn_ mpi_win_null_copy_fn mpi_win_null_copy_fn__ MPI_WIN_NULL_COPY_FN]
        [mpi_win_dup_fn_ mpi_win_dup_fn mpi_win_dup_fn__ MPI_WIN_DUP_FN]
        [mpi_win_null_delete_fn_ mpi_win_null_delete_fn mpi_win_null_delete_fn__
            MPI_WIN_NULL_DELETE_FN];
}

rejoin_facade::fortran! {
    [mpi_conversion_fn_null_ mpi_conversion_fn_null mpi_conversion_fn_null__ MPI_CONVERSION_FN_NULL]
    () () {}
}
