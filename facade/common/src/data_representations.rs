//! `MPI_Register_datarep`: the conversions of the program get its handles.

use std::ffi::{c_char, c_int, c_void};

use crate::abi_types::AbiHandle;
use crate::bound_library::functions;
use crate::callbacks::function;
use crate::export_macros::result_code;
use crate::facade_traits::{Facade, ProgramHandle};

type Conversion<H, C> =
    unsafe extern "C" fn(*mut c_void, H, C, *mut c_void, i64, *mut c_void) -> c_int;
type Extent<H> = unsafe extern "C" fn(H, *mut isize, *mut c_void) -> c_int;

/// The program's functions. They stay: a representation is never taken back.
struct Representation<H, C> {
    read: Option<Conversion<H, C>>,
    write: Option<Conversion<H, C>>,
    extent: Option<Extent<H>>,
    state: *mut c_void,
}

unsafe extern "C" fn convert<F: Facade, C: Copy, const READ: bool>(
    buffer: *mut c_void,
    datatype: AbiHandle,
    count: C,
    file_buffer: *mut c_void,
    position: i64,
    state: *mut c_void,
) -> c_int {
    // SAFETY: the library gives the state that it got, and what the program expects.
    unsafe {
        let own = &*state.cast::<Representation<F::Datatype, C>>();
        let datatype = F::Datatype::of_abi(datatype);
        let call = if READ { own.read } else { own.write };
        call.map_or(0, |call| {
            F::error_in(call(
                buffer,
                datatype,
                count,
                file_buffer,
                position,
                own.state,
            ))
        })
    }
}

unsafe extern "C" fn extent<F: Facade, C>(
    datatype: AbiHandle,
    place: *mut isize,
    state: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let own = &*state.cast::<Representation<F::Datatype, C>>();
        let datatype = F::Datatype::of_abi(datatype);
        let extent = own.extent;
        extent.map_or(0, |call| F::error_in(call(datatype, place, own.state)))
    }
}

/// Both forms: the type of counts.
macro_rules! representations {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>($count:ty);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The functions are of their types, or null; the text ends with 0.
        pub unsafe fn $name<F: Facade>(
            name: *const c_char, read: *const c_void, write: *const c_void,
            extent_fn: *const c_void, state: *mut c_void,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                let own = Representation::<F::Datatype, $count> {
                    read: function(read),
                    write: function(write),
                    extent: function(extent_fn),
                    state,
                };
                // No function stays none.
                let none = std::ptr::null();
                let read = own.read.map_or(none, |_| convert::<F, $count, true> as *const c_void);
                let write = own.write.map_or(none, |_| convert::<F, $count, false> as *const c_void);
                let asked = own.extent.map_or(none, |_| extent::<F, $count> as *const c_void);
                let own = Box::into_raw(Box::new(own));
                let code = (functions().$name)(name, read, write, asked, own.cast());
                if code != 0 {
                    drop(Box::from_raw(own));
                }
                result_code::<F>(code)
            }
        }
    )*};
}

representations! {
    /// `MPI_Register_datarep`.
    pub unsafe fn register_datarep<F: Facade>(c_int);
    /// `MPI_Register_datarep_c`.
    pub unsafe fn register_datarep_c<F: Facade>(i64);
}
