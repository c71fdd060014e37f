//! How functions of Fortran are exported, and what those do that are not there.

use std::ffi::c_int;

use crate::abi_types::AbiHandle;
use crate::bound_library::functions;
use crate::export_macros::absent;
use crate::facade_traits::Facade;

/// Exports a function of Fortran under all names that compilers give it. None of them calls
/// another one, which a profiling tool may have taken over.
#[macro_export]
macro_rules! fortran {
    ([$($name:ident)*] $parameters:tt $result:tt $body:block) => {
        #[allow(unused_unsafe, non_snake_case, clippy::too_many_arguments)]
        const _: () = {
            $crate::fortran! { @inner inner $parameters $result $body }
            $($crate::fortran! { @name $name $parameters $result })*
        };
    };
    (@inner $name:ident ($($parameter:ident: $type:ty),*) ($($result:ty)?) $body:block) => {
        #[inline]
        unsafe fn $name($($parameter: $type),*) $(-> $result)? {
            // SAFETY: the program keeps MPI's rules for the arguments.
            unsafe { $body }
        }
    };
    (@name $name:ident ($($parameter:ident: $type:ty),*) ($($result:ty)?)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($parameter: $type),*) $(-> $result)? {
            // SAFETY: as above.
            unsafe { inner($($parameter),*) }
        }
    };
}

/// Exports a function of Fortran of the façade `$own` that is not there.
#[macro_export]
macro_rules! lacking {
    ($own:ident $names:tt $of_c:ident) => {
        $crate::fortran! { $names () () {
            $crate::fortran_entries::lacks::<$own>(concat!(stringify!($of_c), " (Fortran)"))
        } }
    };
}

/// Ends the job, with the function's name: where the program's error code is, nobody knows here.
#[cold]
#[inline(never)]
pub fn lacks<F: Facade>(name: &str) {
    let code = absent::<F>(name);
    // SAFETY: the handle is valid.
    unsafe {
        (functions().abort)(AbiHandle::WORLD, code);
    }
}

/// Exports callbacks for attributes that programs name: copy nothing, copy the value, delete
/// nothing.
#[macro_export]
macro_rules! named_callbacks {
    ($($value:ident [$($null_copy:ident)*] [$($dup:ident)*] [$($null_delete:ident)*];)*) => {$(
        $crate::fortran! { [$($null_copy)*] (
            _comm: *const c_int, _key: *const c_int, _state: *const $value, _value: *const $value,
            _copied: *mut $value, flag: *mut c_int, ierror: *mut c_int
        ) () {
            (*flag, *ierror) = (0, 0);
        } }
        $crate::fortran! { [$($dup)*] (
            _comm: *const c_int, _key: *const c_int, _state: *const $value, value: *const $value,
            copied: *mut $value, flag: *mut c_int, ierror: *mut c_int
        ) () {
            (*copied, *flag, *ierror) = (*value, 1, 0);
        } }
        $crate::fortran! { [$($null_delete)*] (
            _comm: *const c_int, _key: *const c_int, _value: *const $value, _state: *const $value,
            ierror: *mut c_int
        ) () {
            *ierror = 0;
        } }
    )*};
}

/// Gives the program the error code, if it wants one.
///
/// # Safety
/// The pointer is null or valid.
pub unsafe fn give(ierror: *mut c_int, code: c_int) {
    // SAFETY: the caller's promise.
    if let Some(ierror) = unsafe { ierror.as_mut() } {
        *ierror = code;
    }
}
