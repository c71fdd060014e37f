//! Attributes: callbacks with the program's handles, and values that are ranks or codes.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::bound_library::functions;
use crate::export_macros::{export, result_code};
use crate::generated::conversions::{error_in, error_out, keyval_in, keyval_out, rank_out};
use crate::program_types::{AbiHandle, ProgramHandle};

type Copy = unsafe extern "C" fn(
    ProgramHandle,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_int,
) -> c_int;
type Delete = unsafe extern "C" fn(ProgramHandle, c_int, *mut c_void, *mut c_void) -> c_int;

/// The callbacks of a key, if it has any. It stays: attributes may outlive the key.
struct Key {
    copy: Option<Copy>,
    delete: Option<Delete>,
    state: *mut c_void,
}

unsafe extern "C" fn copy(
    object: AbiHandle,
    keyval: c_int,
    key: *mut c_void,
    value: *mut c_void,
    copied: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the library gives the state that `create` gave it, and what the program expects.
    unsafe {
        let key = &*key.cast::<Key>();
        let (object, keyval) = (object.program(), keyval_out(keyval));
        key.copy.map_or(0, |copy| {
            error_in(copy(object, keyval, key.state, value, copied, flag))
        })
    }
}

unsafe extern "C" fn delete(
    object: AbiHandle,
    keyval: c_int,
    value: *mut c_void,
    key: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let key = &*key.cast::<Key>();
        let (object, keyval) = (object.program(), keyval_out(keyval));
        key.delete.map_or(0, |delete| {
            error_in(delete(object, keyval, value, key.state))
        })
    }
}

/// Makes a key, with the library's function for its kind of objects. No function stays none, which
/// copies or deletes nothing.
unsafe fn create(
    make: unsafe extern "C" fn(*const c_void, *const c_void, *mut c_int, *mut c_void) -> c_int,
    (copy_fn, delete_fn): (Option<Copy>, Option<Delete>),
    keyval: *mut c_int,
    state: *mut c_void,
) -> c_int {
    // SAFETY: the program gives a place for the key.
    unsafe {
        let key = Box::into_raw(Box::new(Key {
            copy: copy_fn,
            delete: delete_fn,
            state,
        }));
        let none = std::ptr::null();
        let code = make(
            copy_fn.map_or(none, |_| copy as *const c_void),
            delete_fn.map_or(none, |_| delete as *const c_void),
            keyval,
            key.cast(),
        );
        if code != 0 {
            drop(Box::from_raw(key));
        }
        result_code(code)
    }
}

/// The constructors of keys differ in their objects only.
macro_rules! keys {
    ($($name:ident $profiling:ident $function:ident;)*) => {$(
        export! { $name $profiling (
            copy: Option<Copy>, delete: Option<Delete>, keyval: *mut c_int, state: *mut c_void
        ) -> c_int {
            create(functions().$function, (copy, delete), keyval, state)
        } }
    )*};
}

keys! {
    MPI_Comm_create_keyval PMPI_Comm_create_keyval comm_create_keyval;
    MPI_Keyval_create PMPI_Keyval_create comm_create_keyval;
    MPI_Type_create_keyval PMPI_Type_create_keyval type_create_keyval;
    MPI_Win_create_keyval PMPI_Win_create_keyval win_create_keyval;
}

/// The callbacks that Open MPI's header names: copy nothing, copy the value, delete nothing.
macro_rules! predefined_callbacks {
    ($($null_copy:ident $dup:ident $null_delete:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        unsafe extern "C" fn $null_copy(
            _: ProgramHandle, _: c_int, _: *mut c_void, _: *mut c_void, _: *mut c_void, flag: *mut c_int,
        ) -> c_int {
            // SAFETY: whoever calls gives a flag.
            unsafe { *flag = 0 };
            0
        }
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        unsafe extern "C" fn $dup(
            _: ProgramHandle, _: c_int, _: *mut c_void, value: *mut c_void, copied: *mut *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: whoever calls gives a flag and a place for the copy.
            unsafe { (*copied, *flag) = (value, 1) };
            0
        }
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        extern "C" fn $null_delete(_: ProgramHandle, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
            0
        }
    )*};
}

predefined_callbacks! {
    OMPI_C_MPI_NULL_COPY_FN OMPI_C_MPI_DUP_FN OMPI_C_MPI_NULL_DELETE_FN;
    OMPI_C_MPI_COMM_NULL_COPY_FN OMPI_C_MPI_COMM_DUP_FN OMPI_C_MPI_COMM_NULL_DELETE_FN;
    OMPI_C_MPI_TYPE_NULL_COPY_FN OMPI_C_MPI_TYPE_DUP_FN OMPI_C_MPI_TYPE_NULL_DELETE_FN;
    OMPI_C_MPI_WIN_NULL_COPY_FN OMPI_C_MPI_WIN_DUP_FN OMPI_C_MPI_WIN_NULL_DELETE_FN;
}

/// Open MPI's `MPI_HOST` and `MPI_LASTUSEDCODE`.
const HOST: c_int = 1;
const LAST_USED_CODE: c_int = 5;

/// A value of a predefined attribute, translated: the program gets its address.
fn translated(keyval: c_int, value: c_int) -> Option<&'static AtomicI32> {
    static RANK: AtomicI32 = AtomicI32::new(0);
    static CODE: AtomicI32 = AtomicI32::new(0);
    let (place, value) = match keyval {
        HOST => (&RANK, rank_out(value)),
        LAST_USED_CODE => (&CODE, error_out(value)),
        _ => return None,
    };
    place.store(value, Ordering::Relaxed);
    Some(place)
}

unsafe fn get(comm: ProgramHandle, keyval: c_int, value: *mut c_void, flag: *mut c_int) -> c_int {
    // SAFETY: the program gives places for a pointer and a flag; these attributes are integers.
    unsafe {
        let code = (functions().comm_get_attr)(comm.abi(), keyval_in(keyval), value, flag);
        if code == 0 && *flag != 0 && [HOST, LAST_USED_CODE].contains(&keyval) {
            let value: *mut *const c_int = value.cast();
            if let Some(place) = translated(keyval, **value) {
                *value = place.as_ptr();
            }
        }
        result_code(code)
    }
}

export! { MPI_Comm_get_attr PMPI_Comm_get_attr (
    comm: ProgramHandle, keyval: c_int, value: *mut c_void, flag: *mut c_int
) -> c_int {
    get(comm, keyval, value, flag)
} }

export! { MPI_Attr_get PMPI_Attr_get (
    comm: ProgramHandle, keyval: c_int, value: *mut c_void, flag: *mut c_int
) -> c_int {
    get(comm, keyval, value, flag)
} }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_codes_in_attributes_are_translated() {
        let value = |keyval, value| translated(keyval, value).map(|v| v.load(Ordering::Relaxed));
        assert_eq!(value(HOST, -3), Some(-2));
        assert_eq!(value(HOST, 4), Some(4));
        assert_eq!(value(LAST_USED_CODE, 16383), Some(92));
        assert_eq!(value(0, 7), None);
    }
}
