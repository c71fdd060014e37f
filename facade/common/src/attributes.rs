//! Attributes: callbacks with the program's handles, and values that are ranks or codes.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::abi_types::AbiHandle;
use crate::bound_library::functions;
use crate::callbacks::function;
use crate::export_macros::result_code;
use crate::facade_traits::{Facade, ProgramHandle};

type Copy<H> =
    unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
type Delete<H> = unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void) -> c_int;

/// The callbacks of a key, if it has any. It stays: attributes may outlive the key.
struct Key<H> {
    copy: Option<Copy<H>>,
    delete: Option<Delete<H>>,
    state: *mut c_void,
}

unsafe extern "C" fn copy<F: Facade, H: ProgramHandle>(
    object: AbiHandle,
    keyval: c_int,
    key: *mut c_void,
    value: *mut c_void,
    copied: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the library gives the state that `create` gave it, and what the program expects.
    unsafe {
        let key = &*key.cast::<Key<H>>();
        let (object, keyval) = (H::of_abi(object), F::keyval_out(keyval));
        key.copy.map_or(0, |copy| {
            F::error_in(copy(object, keyval, key.state, value, copied, flag))
        })
    }
}

unsafe extern "C" fn delete<F: Facade, H: ProgramHandle>(
    object: AbiHandle,
    keyval: c_int,
    value: *mut c_void,
    key: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let key = &*key.cast::<Key<H>>();
        let (object, keyval) = (H::of_abi(object), F::keyval_out(keyval));
        key.delete.map_or(0, |delete| {
            F::error_in(delete(object, keyval, value, key.state))
        })
    }
}

/// The library's constructor of keys for a kind of objects.
pub type MakeKey =
    unsafe extern "C" fn(*const c_void, *const c_void, *mut c_int, *mut c_void) -> c_int;

/// Makes a key, with the library's function for its kind of objects. No function stays none, which
/// copies or deletes nothing. The entries stand between the library and the program's functions;
/// `key` is what they get.
///
/// # Safety
/// The entries are of the library's types; there is a place for the key.
pub unsafe fn make_key<F: Facade, K>(
    make: MakeKey,
    entries: [Option<*const c_void>; 2],
    keyval: *mut c_int,
    key: K,
) -> c_int {
    let [copy, delete] = entries.map(|entry| entry.unwrap_or(std::ptr::null()));
    // SAFETY: the caller's promise.
    unsafe {
        let key = Box::into_raw(Box::new(key));
        let code = make(copy, delete, keyval, key.cast());
        if code != 0 {
            drop(Box::from_raw(key));
        }
        result_code::<F>(code)
    }
}

unsafe fn create<F: Facade, H: ProgramHandle>(
    make: MakeKey,
    (copy_fn, delete_fn): (*const c_void, *const c_void),
    keyval: *mut c_int,
    state: *mut c_void,
) -> c_int {
    // SAFETY: the program gives functions of these types and a place for the key.
    unsafe {
        let key = Key::<H> {
            copy: function(copy_fn),
            delete: function(delete_fn),
            state,
        };
        let entries = [
            key.copy.map(|_| copy::<F, H> as *const c_void),
            key.delete.map(|_| delete::<F, H> as *const c_void),
        ];
        make_key::<F, _>(make, entries, keyval, key)
    }
}

/// The constructors of keys differ in their objects only.
macro_rules! keys {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>($kind:ident $function:ident);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The functions are of their types, or null; the place is valid.
        pub unsafe fn $name<F: Facade>(
            copy: *const c_void, delete: *const c_void, keyval: *mut c_int, state: *mut c_void,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe { create::<F, F::$kind>(functions().$function, (copy, delete), keyval, state) }
        }
    )*};
}

keys! {
    /// `MPI_Comm_create_keyval`.
    pub unsafe fn comm_create_keyval<F: Facade>(Comm comm_create_keyval);
    /// `MPI_Keyval_create`.
    pub unsafe fn keyval_create<F: Facade>(Comm comm_create_keyval);
    /// `MPI_Type_create_keyval`.
    pub unsafe fn type_create_keyval<F: Facade>(Datatype type_create_keyval);
    /// `MPI_Win_create_keyval`.
    pub unsafe fn win_create_keyval<F: Facade>(Win win_create_keyval);
}

/// `MPI_IO`, `MPI_HOST`, `MPI_LASTUSEDCODE`, `MPI_WIN_CREATE_FLAVOR` and `MPI_WIN_MODEL` of the
/// standard ABI.
const IO: c_int = 502;
const HOST: c_int = 503;
const LAST_USED_CODE: c_int = 506;
const CREATE_FLAVOR: c_int = 604;
const MODEL: c_int = 605;

/// A value of a predefined attribute, translated: the program gets its address.
fn translated<F: Facade>(key: c_int, value: impl Fn() -> c_int) -> Option<*mut c_int> {
    static VALUES: [AtomicI32; 9] = [const { AtomicI32::new(0) }; 9];
    // Windows differ, so each of their values has a place of its own.
    let among =
        |value: c_int, first: c_int, count: c_int| (value - first).rem_euclid(count) as usize;
    let (place, value) = match key {
        HOST => (0, F::rank_out(value())),
        IO => (8, F::rank_out(value())),
        LAST_USED_CODE => (1, F::error_out(value())),
        CREATE_FLAVOR => (2 + among(value(), 311, 4), F::flavor_out(value())),
        MODEL => (6 + among(value(), 321, 2), F::model_out(value())),
        _ => return None,
    };
    VALUES[place].store(value, Ordering::Relaxed);
    Some(VALUES[place].as_ptr())
}

/// The library's question for an attribute of a kind of objects.
pub type AskAttribute = unsafe extern "C" fn(AbiHandle, c_int, *mut c_void, *mut c_int) -> c_int;

/// Gets an attribute with one of the library's functions.
///
/// # Safety
/// There are places for a pointer and a flag.
pub unsafe fn get_attribute<F: Facade>(
    ask: AskAttribute,
    object: AbiHandle,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    let key = F::keyval_in(keyval);
    // SAFETY: the caller's promise; these attributes are integers.
    unsafe {
        let code = ask(object, key, value, flag);
        if code == 0 && *flag != 0 {
            let value: *mut *const c_int = value.cast();
            if let Some(place) = translated::<F>(key, || **value) {
                *value = place;
            }
        }
        result_code::<F>(code)
    }
}

/// The questions for attributes differ in their objects only.
macro_rules! questions {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>($kind:ident $function:ident);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The places are valid.
        pub unsafe fn $name<F: Facade>(
            object: F::$kind, keyval: c_int, value: *mut c_void, flag: *mut c_int,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe { get_attribute::<F>(functions().$function, object.abi(), keyval, value, flag) }
        }
    )*};
}

questions! {
    /// `MPI_Comm_get_attr`.
    pub unsafe fn comm_get_attr<F: Facade>(Comm comm_get_attr);
    /// `MPI_Attr_get`.
    pub unsafe fn attr_get<F: Facade>(Comm comm_get_attr);
    /// `MPI_Win_get_attr`.
    pub unsafe fn win_get_attr<F: Facade>(Win win_get_attr);
}

/// Copies an attribute's value: the predefined callback `MPI_COMM_DUP_FN` and its like.
///
/// # Safety
/// Whoever calls gives a flag and a place for the copy.
pub unsafe extern "C" fn copy_value<H: ProgramHandle>(
    _: H,
    _: c_int,
    _: *mut c_void,
    value: *mut c_void,
    copied: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        copied.cast::<*mut c_void>().write(value);
        *flag = 1;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_facade::Sample;

    #[test]
    fn ranks_and_codes_in_attributes_are_translated() {
        let value = |key, value| {
            let place = translated::<Sample>(key, || value);
            // SAFETY: a place is valid for ever.
            place.map(|place| unsafe { *place })
        };
        assert_eq!(value(HOST, -3), Some(997));
        assert_eq!(value(LAST_USED_CODE, 16383), Some(17383));
        assert_eq!(value(MODEL, 321), Some(1321));
        assert_eq!(value(CREATE_FLAVOR, 314), Some(1314));
        assert_eq!(value(501, 7), None);
    }
}
