//! Functions of MPI-1 that MPI-3.0 removed, whose addresses in Fortran are integers.

use std::ffi::{c_int, c_void};

use crate::abi_types::AbiHandle;
use crate::bound_library::functions;
use crate::export_macros::{raise, result_code};
use crate::facade_traits::{Facade, ProgramHandle};
use crate::fortran_entries::give;
use crate::handle_places::CopiedHandles;

/// `MPI_ERR_ARG` of the standard ABI.
const ARGUMENT: c_int = 13;

/// Gives the program an address, if an integer can hold it.
unsafe fn give_address<F: Facade>(code: c_int, address: isize, place: *mut c_int) -> c_int {
    match (code, c_int::try_from(address)) {
        (0, Ok(address)) => {
            // SAFETY: the program gives a place.
            unsafe { *place = address };
            0
        }
        (0, Err(_)) => raise::<F>(ARGUMENT),
        (code, _) => result_code::<F>(code),
    }
}

/// `MPI_ADDRESS`.
///
/// # Safety
/// The places are valid.
pub unsafe fn fortran_address<F: Facade>(
    location: *mut c_void,
    address: *mut c_int,
    ierror: *mut c_int,
) {
    let mut wide = 0;
    // SAFETY: the caller's promise.
    unsafe {
        let code = (functions().get_address)(location, &mut wide);
        give(ierror, give_address::<F>(code, wide, address));
    }
}

/// Numbers of a datatype: what the library gives first and second.
macro_rules! extents {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>($number:expr);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The places are valid.
        pub unsafe fn $name<F: Facade>(
            datatype: *const c_int, number: *mut c_int, ierror: *mut c_int,
        ) {
            let (mut lower, mut extent) = (0, 0);
            // SAFETY: the caller's promise.
            unsafe {
                let datatype = F::Datatype::of_fortran(*datatype).abi();
                let code = (functions().type_get_extent)(datatype, &mut lower, &mut extent);
                let of: fn(isize, isize) -> isize = $number;
                give(ierror, give_address::<F>(code, of(lower, extent), number));
            }
        }
    )*};
}

extents! {
    /// `MPI_TYPE_EXTENT`.
    pub unsafe fn fortran_type_extent<F: Facade>(|_, extent| extent);
    /// `MPI_TYPE_LB`.
    pub unsafe fn fortran_type_lb<F: Facade>(|lower, _| lower);
    /// `MPI_TYPE_UB`.
    pub unsafe fn fortran_type_ub<F: Facade>(|lower, extent| lower + extent);
}

unsafe fn give_datatype<F: Facade>(code: c_int, made: AbiHandle, place: *mut c_int) -> c_int {
    if code == 0 {
        // SAFETY: the program gives a place.
        unsafe { *place = F::Datatype::of_abi(made).fortran() }
    }
    result_code::<F>(code)
}

/// `MPI_TYPE_HVECTOR`.
///
/// # Safety
/// The places are valid.
pub unsafe fn fortran_type_hvector<F: Facade>(
    count: *const c_int,
    blocklength: *const c_int,
    stride: *const c_int,
    oldtype: *const c_int,
    newtype: *mut c_int,
    ierror: *mut c_int,
) {
    let mut made = AbiHandle(0);
    // SAFETY: the caller's promise.
    unsafe {
        let oldtype = F::Datatype::of_fortran(*oldtype).abi();
        let make = functions().type_create_hvector;
        let code = make(*count, *blocklength, *stride as isize, oldtype, &mut made);
        give(ierror, give_datatype::<F>(code, made, newtype));
    }
}

/// The program's displacements, as the library has them.
unsafe fn wide(count: c_int, displacements: *const c_int) -> Vec<isize> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the program's array has so many elements.
    (0..count)
        .map(|i| unsafe { *displacements.add(i) as isize })
        .collect()
}

/// `MPI_TYPE_HINDEXED`.
///
/// # Safety
/// The places are valid, the arrays as long as the program says.
pub unsafe fn fortran_type_hindexed<F: Facade>(
    count: *const c_int,
    blocklengths: *mut c_int,
    displacements: *const c_int,
    oldtype: *const c_int,
    newtype: *mut c_int,
    ierror: *mut c_int,
) {
    let mut made = AbiHandle(0);
    // SAFETY: the caller's promise.
    unsafe {
        let displacements = wide(*count, displacements);
        let oldtype = F::Datatype::of_fortran(*oldtype).abi();
        let make = functions().type_create_hindexed;
        let code = make(
            *count,
            blocklengths,
            displacements.as_ptr(),
            oldtype,
            &mut made,
        );
        give(ierror, give_datatype::<F>(code, made, newtype));
    }
}

/// `MPI_TYPE_STRUCT`.
///
/// # Safety
/// The places are valid, the arrays as long as the program says.
pub unsafe fn fortran_type_struct<F: Facade>(
    count: *const c_int,
    blocklengths: *mut c_int,
    displacements: *const c_int,
    types: *const c_int,
    newtype: *mut c_int,
    ierror: *mut c_int,
) {
    let mut made = AbiHandle(0);
    // SAFETY: the caller's promise.
    unsafe {
        let displacements = wide(*count, displacements);
        let types = crate::fortran_arguments::handles::<F::Datatype>(*count, types);
        let types = CopiedHandles::new(*count, types.as_ptr());
        let make = functions().type_create_struct;
        let displacements = displacements.as_ptr();
        let code = make(
            *count,
            blocklengths,
            displacements,
            types.as_ptr(),
            &mut made,
        );
        give(ierror, give_datatype::<F>(code, made, newtype));
    }
}
