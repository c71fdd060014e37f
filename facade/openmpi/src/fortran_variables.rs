//! Variables of Fortran whose addresses stand for something. Programs have common blocks of these
//! names, which are the ones that are meant.

use rejoin_facade::Sentinel;

/// Where Fortran's `MPI_STATUS_IGNORE` is, for C programs.
#[repr(transparent)]
struct StatusAddress(*const [u8; 24]);

// SAFETY: the address never changes.
unsafe impl Sync for StatusAddress {}

/// Exports such variables.
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
static MPI_F_STATUS_IGNORE: StatusAddress = StatusAddress(&raw const mpi_fortran_status_ignore_);
#[unsafe(no_mangle)]
static MPI_F_STATUSES_IGNORE: StatusAddress =
    StatusAddress(&raw const mpi_fortran_statuses_ignore_);
#[unsafe(no_mangle)]
static MPI_F08_STATUS_IGNORE: StatusAddress = StatusAddress(&raw const mpi_fortran_status_ignore_);
#[unsafe(no_mangle)]
static MPI_F08_STATUSES_IGNORE: StatusAddress =
    StatusAddress(&raw const mpi_fortran_statuses_ignore_);

/// Where the variable is, in the program or here.
pub fn sentinel(which: Sentinel) -> usize {
    match which {
        Sentinel::Bottom => (&raw const mpi_fortran_bottom_).addr(),
        Sentinel::InPlace => (&raw const mpi_fortran_in_place_).addr(),
        Sentinel::StatusIgnore => (&raw const mpi_fortran_status_ignore_).addr(),
        Sentinel::StatusesIgnore => (&raw const mpi_fortran_statuses_ignore_).addr(),
        Sentinel::Unweighted => (&raw const mpi_fortran_unweighted_).addr(),
        Sentinel::WeightsEmpty => (&raw const mpi_fortran_weights_empty_).addr(),
    }
}
