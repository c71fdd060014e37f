//! How functions are exported, and what those do that are not there.

use std::ffi::c_int;

use crate::abi_types::AbiHandle;
use crate::bound_library::functions;
use crate::facade_traits::Facade;

/// `MPI_ERR_UNSUPPORTED_OPERATION` and `MPI_T_ERR_NOT_SUPPORTED` of the standard ABI.
const UNSUPPORTED: c_int = 55;
const UNSUPPORTED_TOOL: c_int = 1004;

/// Exports a function under its name and its profiling name.
#[macro_export]
macro_rules! export {
    ($name:ident $profiling:ident ($($parameter:ident: $type:ty),*) -> $result:ty $body:block) => {
        #[allow(unused_unsafe, non_snake_case, clippy::too_many_arguments)]
        const _: () = {
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($parameter: $type),*) -> $result {
                // SAFETY: the program keeps MPI's rules for the arguments.
                unsafe { $body }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $profiling($($parameter: $type),*) -> $result {
                // SAFETY: as above.
                unsafe { $body }
            }
        };
    };
}

/// Exports a function of the façade `$own` that is not there.
#[macro_export]
macro_rules! missing {
    (tool $own:ident $name:ident $profiling:ident) => {
        $crate::export! { $name $profiling () -> std::ffi::c_int {
            $crate::export_macros::absent_tool::<$own>()
        } }
    };
    ($own:ident $name:ident $profiling:ident) => {
        $crate::export! { $name $profiling () -> std::ffi::c_int {
            $crate::export_macros::absent::<$own>(stringify!($name))
        } }
    };
}

/// The code that the program gets.
#[inline(always)]
pub fn result_code<F: Facade>(code: c_int) -> c_int {
    match code {
        0 => 0,
        code => class::<F>(code),
    }
}

#[cold]
#[inline(never)]
fn class<F: Facade>(code: c_int) -> c_int {
    F::error_out(code)
}

/// Says which function is not there, and brings the error to its handler.
#[cold]
#[inline(never)]
pub fn absent<F: Facade>(name: &str) -> c_int {
    let mpi = F::NAME;
    eprintln!("{name}: Rejoin does not have this function for programs of {mpi}");
    raise::<F>(UNSUPPORTED)
}

/// Brings an error of the standard ABI to the handler of `MPI_COMM_WORLD`.
#[cold]
#[inline(never)]
pub fn raise<F: Facade>(code: c_int) -> c_int {
    let (mut initialized, mut finalized) = (0, 0);
    // SAFETY: the places are valid; the communicator exists meanwhile.
    unsafe {
        (functions().initialized)(&mut initialized);
        (functions().finalized)(&mut finalized);
        if initialized != 0 && finalized == 0 {
            (functions().comm_call_errhandler)(AbiHandle::WORLD, code);
        }
    }
    class::<F>(code)
}

/// Brings an error of the program's codes to the handler of `MPI_COMM_WORLD`.
pub fn raise_program_code<F: Facade>(code: c_int) -> c_int {
    raise::<F>(F::error_in(code))
}

/// A function of the tools' interface: no handler is called.
#[cold]
#[inline(never)]
pub fn absent_tool<F: Facade>() -> c_int {
    class::<F>(UNSUPPORTED_TOOL)
}
