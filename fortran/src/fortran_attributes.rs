//! Attributes (MPI-5.0 §7.7, §19.3.7). In Fortran a value is an integer. What Fortran sets, C reads
//! as a pointer to that integer; what C sets, Fortran reads as the pointer's own value.
//!
//! So each value that Fortran sets has a place of its own, whose address the library keeps. The
//! list of these places says which language has set a value.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use crate::fortran_export::{fortran, give};
use crate::fortran_handles::{CHandle, COMM, NumberedKind, TYPE, WIN};
use crate::generated::c_functions::*;
use crate::logicals::{give_logical, of_c, of_fortran};

/// Addresses of the values that Fortran has set.
static PLACES: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// A place with this value.
fn place_of(value: isize) -> *mut c_void {
    let place = Box::into_raw(Box::new(value));
    if let Ok(mut places) = PLACES.lock() {
        places.insert(place.expose_provenance());
    }
    place.cast()
}

fn is_place(kept: *mut c_void) -> bool {
    PLACES
        .lock()
        .is_ok_and(|places| places.contains(&kept.addr()))
}

/// The value that Fortran sees of what the library keeps.
fn value_of(kept: *mut c_void) -> isize {
    match is_place(kept) {
        // SAFETY: the place stays until the attribute goes.
        true => unsafe { *kept.cast::<isize>() },
        false => kept.addr() as isize,
    }
}

/// The attribute is gone: so is its place, if Fortran has set it.
fn forget(kept: *mut c_void) {
    let was_place = PLACES
        .lock()
        .is_ok_and(|mut places| places.remove(&kept.addr()));
    if was_place {
        // SAFETY: `place_of` has made it, and nobody else frees it.
        drop(unsafe { Box::from_raw(kept.cast::<isize>()) });
    }
}

type Copy<T> = unsafe extern "C" fn(
    *const c_int,
    *const c_int,
    *const T,
    *const T,
    *mut T,
    *mut c_int,
    *mut c_int,
);
type Delete<T> = unsafe extern "C" fn(*const c_int, *const c_int, *const T, *const T, *mut c_int);

/// An integer that attributes of Fortran may have.
trait Value: std::marker::Copy + 'static {
    fn of(wide: isize) -> Self;
    fn wide(self) -> isize;
}

impl Value for isize {
    fn of(wide: isize) -> Self {
        wide
    }
    fn wide(self) -> isize {
        self
    }
}

impl Value for c_int {
    fn of(wide: isize) -> Self {
        wide as c_int
    }
    fn wide(self) -> isize {
        self as isize
    }
}

/// The callbacks of a key. It stays: attributes may outlive the key.
struct Key<T> {
    kind: &'static NumberedKind,
    copy: Copy<T>,
    delete: Delete<T>,
    state: T,
}

unsafe extern "C" fn copy<T: Value>(
    object: CHandle,
    keyval: c_int,
    key: *mut c_void,
    kept: *mut c_void,
    copied: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the library gives the state that `create` gave it, and places for answers.
    unsafe {
        let key = &*key.cast::<Key<T>>();
        let (number, value) = (key.kind.number(object), T::of(value_of(kept)));
        let (mut new, mut wanted, mut code) = (value, of_fortran(false), 0);
        (key.copy)(
            &number,
            &keyval,
            &key.state,
            &value,
            &mut new,
            &mut wanted,
            &mut code,
        );
        *flag = of_c(wanted);
        if code == 0 && *flag != 0 {
            let is_same = !is_place(kept) && new.wide() == value_of(kept);
            let new = if is_same { kept } else { place_of(new.wide()) };
            *copied.cast::<*mut c_void>() = new;
        }
        code
    }
}

unsafe extern "C" fn delete<T: Value>(
    object: CHandle,
    keyval: c_int,
    kept: *mut c_void,
    key: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let key = &*key.cast::<Key<T>>();
        let (number, value) = (key.kind.number(object), T::of(value_of(kept)));
        let mut code = 0;
        (key.delete)(&number, &keyval, &value, &key.state, &mut code);
        if code == 0 {
            forget(kept);
        }
        code
    }
}

type Create = unsafe extern "C" fn(*const c_void, *const c_void, *mut c_int, *mut c_void) -> c_int;

/// Makes a key, with the library's function for its kind of objects.
///
/// # Safety
/// The place is valid.
unsafe fn create<T: Value>(make: Create, key: Key<T>, keyval: *mut c_int) -> c_int {
    let key = Box::into_raw(Box::new(key));
    // SAFETY: the callbacks have the types that the library expects.
    unsafe {
        let callbacks = (copy::<T> as *const c_void, delete::<T> as *const c_void);
        let code = make(callbacks.0, callbacks.1, keyval, key.cast());
        if code != 0 {
            drop(Box::from_raw(key));
        }
        code
    }
}

/// What the value of an attribute is in C, if MPI sets it.
enum Predefined {
    /// A pointer to an `int`.
    Int,
    /// A pointer to an `MPI_Aint`.
    Aint,
    /// The pointer itself, or an attribute of the program.
    Pointer,
}

/// How the library keeps the attribute of a key (MPI-5.0 §9.1.2, §12.2.7).
fn predefined(keyval: c_int) -> Predefined {
    match keyval {
        501..=507 | 602 | 604 | 605 => Predefined::Int,
        603 => Predefined::Aint,
        _ => Predefined::Pointer,
    }
}

type Get = unsafe extern "C" fn(CHandle, c_int, *mut c_void, *mut c_int) -> c_int;

/// Gets an attribute.
///
/// # Safety
/// The places are valid.
unsafe fn get<T: Value>(
    call: Get,
    object: CHandle,
    keyval: c_int,
    value: *mut T,
    flag: *mut c_int,
) -> c_int {
    let mut kept = std::ptr::null_mut::<c_void>();
    // SAFETY: the caller's promise; predefined attributes are what they are said to be.
    unsafe {
        let code = call(object, keyval, (&raw mut kept).cast(), flag);
        if code == 0 {
            if *flag != 0 {
                *value = T::of(match predefined(keyval) {
                    Predefined::Int => *kept.cast::<c_int>() as isize,
                    Predefined::Aint => *kept.cast::<isize>(),
                    Predefined::Pointer => value_of(kept),
                });
            }
            give_logical(flag);
        }
        code
    }
}

type Set = unsafe extern "C" fn(CHandle, c_int, *mut c_void) -> c_int;

/// Sets an attribute.
///
/// # Safety
/// The function is one of the library's.
unsafe fn set<T: Value>(call: Set, object: CHandle, keyval: c_int, value: T) -> c_int {
    let place = place_of(value.wide());
    // SAFETY: the caller's promise.
    let code = unsafe { call(object, keyval, place) };
    if code != 0 {
        forget(place);
    }
    code
}

/// The functions of one kind of objects; those of MPI-1 have other names and smaller integers.
macro_rules! attributes {
    ($kind:ident $value:ty:
        [$($create:ident)*] [$($pcreate:ident)*] $mpi_create:ident $pmpi_create:ident;
        [$($set:ident)*] [$($pset:ident)*] $mpi_set:ident $pmpi_set:ident;
        [$($get:ident)*] [$($pget:ident)*] $mpi_get:ident $pmpi_get:ident;) => {
        fortran! { [$($create)*] [$($pcreate)*] $mpi_create $pmpi_create |call| (
            copy: Copy<$value>, delete: Delete<$value>, keyval: *mut c_int, state: *const $value,
            ierror: *mut c_int
        ) {
            let key = Key { kind: &$kind, copy, delete, state: *state };
            give(ierror, create(call, key, keyval));
        } }
        fortran! { [$($set)*] [$($pset)*] $mpi_set $pmpi_set |call| (
            object: *const c_int, keyval: *const c_int, value: *const $value, ierror: *mut c_int
        ) {
            give(ierror, set(call, $kind.handle(*object), *keyval, *value));
        } }
        fortran! { [$($get)*] [$($pget)*] $mpi_get $pmpi_get |call| (
            object: *const c_int, keyval: *const c_int, value: *mut $value, flag: *mut c_int,
            ierror: *mut c_int
        ) {
            give(ierror, get(call, $kind.handle(*object), *keyval, value, flag));
        } }
    };
}

attributes! { COMM isize:
    [mpi_comm_create_keyval_ mpi_comm_create_keyval_f08_]
    [pmpi_comm_create_keyval_ pmpi_comm_create_keyval_f08_]
    MPI_Comm_create_keyval PMPI_Comm_create_keyval;
    [mpi_comm_set_attr_ mpi_comm_set_attr_f08_] [pmpi_comm_set_attr_ pmpi_comm_set_attr_f08_]
    MPI_Comm_set_attr PMPI_Comm_set_attr;
    [mpi_comm_get_attr_ mpi_comm_get_attr_f08_] [pmpi_comm_get_attr_ pmpi_comm_get_attr_f08_]
    MPI_Comm_get_attr PMPI_Comm_get_attr;
}
attributes! { TYPE isize:
    [mpi_type_create_keyval_ mpi_type_create_keyval_f08_]
    [pmpi_type_create_keyval_ pmpi_type_create_keyval_f08_]
    MPI_Type_create_keyval PMPI_Type_create_keyval;
    [mpi_type_set_attr_ mpi_type_set_attr_f08_] [pmpi_type_set_attr_ pmpi_type_set_attr_f08_]
    MPI_Type_set_attr PMPI_Type_set_attr;
    [mpi_type_get_attr_ mpi_type_get_attr_f08_] [pmpi_type_get_attr_ pmpi_type_get_attr_f08_]
    MPI_Type_get_attr PMPI_Type_get_attr;
}
attributes! { WIN isize:
    [mpi_win_create_keyval_ mpi_win_create_keyval_f08_]
    [pmpi_win_create_keyval_ pmpi_win_create_keyval_f08_]
    MPI_Win_create_keyval PMPI_Win_create_keyval;
    [mpi_win_set_attr_ mpi_win_set_attr_f08_] [pmpi_win_set_attr_ pmpi_win_set_attr_f08_]
    MPI_Win_set_attr PMPI_Win_set_attr;
    [mpi_win_get_attr_ mpi_win_get_attr_f08_] [pmpi_win_get_attr_ pmpi_win_get_attr_f08_]
    MPI_Win_get_attr PMPI_Win_get_attr;
}
attributes! { COMM c_int:
    [mpi_keyval_create_] [pmpi_keyval_create_] MPI_Comm_create_keyval PMPI_Comm_create_keyval;
    [mpi_attr_put_] [pmpi_attr_put_] MPI_Comm_set_attr PMPI_Comm_set_attr;
    [mpi_attr_get_] [pmpi_attr_get_] MPI_Comm_get_attr PMPI_Comm_get_attr;
}

/// The callbacks that programs name: copy nothing, copy the value, delete nothing.
macro_rules! named_callbacks {
    ($($value:ident $null_copy:ident $dup:ident $null_delete:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $null_copy(
            _: *const c_int, _: *const c_int, _: *const $value, _: *const $value, _: *mut $value,
            flag: *mut c_int, ierror: *mut c_int,
        ) {
            // SAFETY: whoever calls gives places for the answers.
            unsafe { (*flag, *ierror) = (of_fortran(false), 0) };
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $dup(
            _: *const c_int, _: *const c_int, _: *const $value, value: *const $value,
            copied: *mut $value, flag: *mut c_int, ierror: *mut c_int,
        ) {
            // SAFETY: as above.
            unsafe { (*copied, *flag, *ierror) = (*value, of_fortran(true), 0) };
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $null_delete(
            _: *const c_int, _: *const c_int, _: *const $value, _: *const $value,
            ierror: *mut c_int,
        ) {
            // SAFETY: as above.
            unsafe { *ierror = 0 };
        }
    )*};
}

named_callbacks! {
    c_int mpi_null_copy_fn_ mpi_dup_fn_ mpi_null_delete_fn_;
    isize mpi_comm_null_copy_fn_ mpi_comm_dup_fn_ mpi_comm_null_delete_fn_;
    isize mpi_type_null_copy_fn_ mpi_type_dup_fn_ mpi_type_null_delete_fn_;
    isize mpi_win_null_copy_fn_ mpi_win_dup_fn_ mpi_win_null_delete_fn_;
}
