//! Addresses that stand for something in Fortran (MPI-5.0 §2.5.4): common blocks, which programs
//! and this library share.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};

use crate::fortran_handles::CStatus;

/// A common block of a program: its address alone counts.
#[repr(transparent)]
pub struct CommonBlock<const BYTES: usize>(UnsafeCell<[u8; BYTES]>);

// SAFETY: nobody reads or writes it.
unsafe impl<const BYTES: usize> Sync for CommonBlock<BYTES> {}

/// Compilers align common blocks for their largest vectors, and the linker warns if a library does
/// it less. The size must stay that of the program's. So each has a section of its own, which is
/// aligned.
macro_rules! sentinels {
    ($($name:ident $bytes:literal)*) => {$(
        std::arch::global_asm!(
            concat!(".pushsection .data.", stringify!($name), ",\"aw\",@progbits"),
            ".p2align 6",
            ".popsection",
        );
        #[unsafe(no_mangle)]
        #[unsafe(link_section = concat!(".data.", stringify!($name)))]
        #[allow(non_upper_case_globals)]
        static $name: CommonBlock<$bytes> = CommonBlock(UnsafeCell::new([0; $bytes]));
    )*};
}

sentinels! {
    mpifort_bottom_ 4
    mpifort_in_place_ 4
    mpifort_buffer_automatic_ 4
    mpifort_argv_null_ 1
    mpifort_argvs_null_ 1
    mpifort_errcodes_ignore_ 4
    mpifort_status_ignore_ 32
    mpifort_statuses_ignore_ 32
    mpifort_unweighted_ 4
    mpifort_weights_empty_ 4
}

/// The values of the standard ABI in C (MPI-5.0 §20.2).
const IN_PLACE: usize = 1;
const BUFFER_AUTOMATIC: usize = 2;
const UNWEIGHTED: usize = 10;
const WEIGHTS_EMPTY: usize = 11;

fn is_at<T, const BYTES: usize>(given: *const T, place: &'static CommonBlock<BYTES>) -> bool {
    std::ptr::addr_eq(given, place)
}

/// A buffer, or what its address stands for.
#[inline(always)]
pub fn buffer_at(given: *mut c_void) -> *mut c_void {
    if is_at(given, &mpifort_bottom_) {
        return std::ptr::null_mut();
    }
    if is_at(given, &mpifort_in_place_) {
        return std::ptr::without_provenance_mut(IN_PLACE);
    }
    match is_at(given, &mpifort_buffer_automatic_) {
        true => std::ptr::without_provenance_mut(BUFFER_AUTOMATIC),
        false => given,
    }
}

/// Whether a buffer of C is `MPI_IN_PLACE`.
pub fn is_in_place(buffer: *const c_void) -> bool {
    buffer.addr() == IN_PLACE
}

/// Gives the program the address of its `MPI_BUFFER_AUTOMATIC` in place of C's (MPI-5.0 §3.6).
///
/// # Safety
/// The place holds the address of a buffer.
pub unsafe fn give_buffer(place: *mut c_void) {
    let place = place.cast::<*const c_void>();
    // SAFETY: the caller's promise.
    unsafe {
        if (*place).addr() == BUFFER_AUTOMATIC {
            *place = (&raw const mpifort_buffer_automatic_).cast();
        }
    }
}

/// A status or several; null if they are ignored. Either constant stands for both: programs mix
/// them up, and one block is too small for several statuses.
#[inline(always)]
pub fn status_at(given: *mut CStatus) -> *mut CStatus {
    match is_no_status(given) {
        true => std::ptr::null_mut(),
        false => given,
    }
}

/// Whether this is no status, but stands for one that is ignored.
pub fn is_no_status(given: *const CStatus) -> bool {
    is_at(given, &mpifort_status_ignore_) || is_at(given, &mpifort_statuses_ignore_)
}

/// Weights, or what their address stands for.
pub fn weights_at(given: *mut c_int) -> *mut c_int {
    if is_at(given, &mpifort_unweighted_) {
        return std::ptr::without_provenance_mut(UNWEIGHTED);
    }
    match is_at(given, &mpifort_weights_empty_) {
        true => std::ptr::without_provenance_mut(WEIGHTS_EMPTY),
        false => given,
    }
}

/// Error codes of processes; null if they are ignored.
pub fn codes_at(given: *mut c_int) -> *mut c_int {
    match is_at(given, &mpifort_errcodes_ignore_) {
        true => std::ptr::null_mut(),
        false => given,
    }
}

/// Whether this stands for no arguments of one program, or of several.
pub fn is_no_arguments<T>(given: *const T) -> bool {
    is_at(given, &mpifort_argv_null_) || is_at(given, &mpifort_argvs_null_)
}
