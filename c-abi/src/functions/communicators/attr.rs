//! Attributes of communicators and datatypes, and keyvals of these and windows (MPI-5.0 §7.7).
//!
//! Values are the program's pointers; they are kept as numbers.

use std::ffi::{c_int, c_void};

use rejoin_mpi::attr::{Callbacks, ObjectKind};
use rejoin_mpi::{Error, ErrorClass, Mpi as Core, Result};

use crate::callback::{Callback, outside};
use crate::constants::*;
use crate::handles::Handle;
use crate::state::AbiState;
use crate::support::{arg_error, load, store};
use crate::types::*;

/// How a copy callback is called: all kinds of objects alike, the handle being one word.
type CopyFunction =
    unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// How a delete callback is called.
type DeleteFunction = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

/// The action at a copy.
enum Copy {
    /// `MPI_X_NULL_COPY_FN`.
    Drop,
    /// `MPI_X_DUP_FN`.
    Same,
    /// A function of the program.
    Call(CopyFunction),
}

struct Functions {
    copy: Copy,
    delete: Option<DeleteFunction>,
    extra_state: *mut c_void,
}

impl Callbacks for Functions {
    fn copy(&self, object: usize, keyval: i32, value: usize) -> Result<Option<usize>, i32> {
        let f = match self.copy {
            Copy::Drop => return Ok(None),
            Copy::Same => return Ok(Some(value)),
            Copy::Call(f) => f,
        };
        let mut out = std::ptr::null_mut::<c_void>();
        let mut flag = 0;
        let value = std::ptr::with_exposed_provenance_mut(value);
        // SAFETY: the program's function, with its state and places for its results.
        let code = outside(|| unsafe {
            f(
                object,
                keyval,
                self.extra_state,
                value,
                (&raw mut out).cast(),
                &raw mut flag,
            )
        });
        match code {
            MPI_SUCCESS => Ok((flag != 0).then(|| out.expose_provenance())),
            code => Err(code),
        }
    }

    fn delete(&self, object: usize, keyval: i32, value: usize) -> Result<(), i32> {
        let Some(f) = self.delete else {
            return Ok(());
        };
        let value = std::ptr::with_exposed_provenance_mut(value);
        // SAFETY: the program's function, with its state.
        match outside(|| unsafe { f(object, keyval, value, self.extra_state) }) {
            MPI_SUCCESS => Ok(()),
            code => Err(code),
        }
    }
}

/// # Safety
/// The functions are null, constants of the ABI, or have their types.
unsafe fn create<C: std::marker::Copy, D: std::marker::Copy>(
    mpi: &AbiState,
    kind: ObjectKind,
    (copy, delete): (Callback<C>, Callback<D>),
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    if keyval.is_null() {
        return Err(arg_error("the pointer for the keyval is null"));
    }
    const {
        assert!(size_of::<C>() == size_of::<CopyFunction>());
        assert!(size_of::<D>() == size_of::<DeleteFunction>());
    }
    // SAFETY: the types differ in the first parameter only, a handle of one word.
    let call = unsafe { copy.get().map(|f| std::mem::transmute_copy(&f)) };
    // The constants have the same values for all kinds of objects.
    let copy = match (call, copy.address()) {
        (Some(f), _) => Copy::Call(f),
        (None, MPI_COMM_NULL_COPY_FN) => Copy::Drop,
        (None, MPI_COMM_DUP_FN) => Copy::Same,
        (None, other) => return Err(arg_error(format!("{other:#x} is not a copy function"))),
    };
    let address = delete.address();
    // SAFETY: as above.
    let delete = unsafe { delete.get().map(|f| std::mem::transmute_copy(&f)) };
    if delete.is_none() && address != MPI_COMM_NULL_DELETE_FN {
        let text = format!("{address:#x} is not a delete function");
        return Err(arg_error(text));
    }
    let functions = Functions {
        copy,
        delete,
        extra_state,
    };
    let id = mpi.core()?.keyvals().create(kind, Box::new(functions));
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { store(keyval, "the keyval", id) }
}

/// # Safety
/// `keyval` is null or valid.
unsafe fn free(mpi: &AbiState, kind: ObjectKind, keyval: *mut c_int) -> Result<()> {
    // SAFETY: the caller's.
    let id = unsafe { load(keyval, "the keyval") }?;
    mpi.core()?.keyvals().free(kind, id)?;
    // SAFETY: as above.
    unsafe { store(keyval, "the keyval", MPI_KEYVAL_INVALID) }
}

/// Stores what a get found.
///
/// # Safety
/// `value` is null or the address of a pointer, `flag` is null or valid.
unsafe fn give(found: Option<usize>, value: *mut c_void, flag: *mut c_int) -> Result<()> {
    // SAFETY: the caller's.
    unsafe {
        store(flag, "the flag", c_int::from(found.is_some()))?;
        match found {
            Some(found) => {
                let found = std::ptr::with_exposed_provenance_mut::<c_void>(found);
                store(value.cast(), "the attribute", found)
            }
            None => Ok(()),
        }
    }
}

/// The predefined attributes (MPI-5.0 §9.1.2): the address of an int. The outer `None` is for other
/// keyvals, the inner for an attribute without a value. Every communicator has them, as libraries
/// ask their duplicates of `MPI_COMM_WORLD` for them.
fn predefined(mpi: &AbiState, core: &Core, keyval: c_int) -> Option<Option<usize>> {
    let value = match keyval {
        MPI_TAG_UB => rejoin_mpi::status::TAG_UB,
        MPI_HOST => MPI_PROC_NULL,
        MPI_IO => MPI_ANY_SOURCE,
        // Hosts' clocks differ, and a restored rank may be on another host than before.
        MPI_WTIME_IS_GLOBAL => 0,
        MPI_UNIVERSE_SIZE => core.size() as c_int,
        MPI_LASTUSEDCODE => mpi.errors.codes.last_used(),
        MPI_APPNUM => match core.appnum() {
            Some(n) => n as c_int,
            None => return Some(None),
        },
        _ => return None,
    };
    Some(Some(place_of(keyval, value)))
}

/// Where the program finds the int of a predefined attribute: one place for each.
fn place_of(keyval: c_int, value: c_int) -> usize {
    use std::sync::atomic::{AtomicI32, Ordering};
    const COUNT: usize = (MPI_UNIVERSE_SIZE - MPI_TAG_UB) as usize + 1;
    static PLACES: [AtomicI32; COUNT] = [const { AtomicI32::new(0) }; COUNT];
    let place = &PLACES[(keyval - MPI_TAG_UB) as usize % COUNT];
    place.store(value, Ordering::Relaxed);
    place.as_ptr().expose_provenance()
}

fn is_predefined(keyval: c_int) -> bool {
    (MPI_TAG_UB..=MPI_UNIVERSE_SIZE).contains(&keyval)
}

fn check_changeable(keyval: c_int) -> Result<()> {
    if is_predefined(keyval) {
        let text = "a predefined attribute cannot be changed";
        return Err(Error::new(ErrorClass::Keyval, text));
    }
    Ok(())
}

/// `MPI_Comm_create_keyval`.
///
/// # Safety
/// The functions are null, constants of the ABI, or have their types; `comm_keyval` is null or
/// valid.
pub unsafe fn comm_create_keyval(
    mpi: &AbiState,
    comm_copy_attr_fn: Callback<MPI_Comm_copy_attr_function>,
    comm_delete_attr_fn: Callback<MPI_Comm_delete_attr_function>,
    comm_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    let functions = (comm_copy_attr_fn, comm_delete_attr_fn);
    // SAFETY: the caller's.
    unsafe { create(mpi, ObjectKind::Comm, functions, comm_keyval, extra_state) }
}

/// `MPI_Comm_free_keyval`.
///
/// # Safety
/// `comm_keyval` is null or valid.
pub unsafe fn comm_free_keyval(mpi: &AbiState, comm_keyval: *mut c_int) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { free(mpi, ObjectKind::Comm, comm_keyval) }
}

/// `MPI_Comm_set_attr`.
pub fn comm_set_attr(
    mpi: &AbiState,
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
) -> Result<()> {
    let found = mpi.comms.get(comm)?;
    check_changeable(comm_keyval)?;
    let keyval = mpi.core()?.keyvals().get(ObjectKind::Comm, comm_keyval)?;
    found
        .attributes()
        .set(comm.raw(), &keyval, attribute_val.expose_provenance())
}

/// `MPI_Comm_get_attr`.
///
/// # Safety
/// `attribute_val` is null or the address of a pointer, `flag` is null or valid.
pub unsafe fn comm_get_attr(
    mpi: &AbiState,
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    let found = mpi.comms.get(comm)?;
    let core = mpi.core()?;
    let value = match predefined(mpi, core, comm_keyval) {
        Some(value) => value,
        None => {
            core.keyvals().find(ObjectKind::Comm, comm_keyval)?;
            found.attributes().get(comm_keyval)
        }
    };
    // SAFETY: the caller's.
    unsafe { give(value, attribute_val, flag) }
}

/// `MPI_Comm_delete_attr`.
pub fn comm_delete_attr(mpi: &AbiState, comm: MPI_Comm, comm_keyval: c_int) -> Result<()> {
    let found = mpi.comms.get(comm)?;
    check_changeable(comm_keyval)?;
    let keyval = mpi.core()?.keyvals().find(ObjectKind::Comm, comm_keyval)?;
    found.attributes().delete(comm.raw(), &keyval)
}

/// `MPI_Keyval_create`, deprecated.
///
/// # Safety
/// The conditions of [`comm_create_keyval`].
pub unsafe fn keyval_create(
    mpi: &AbiState,
    copy_fn: Callback<MPI_Copy_function>,
    delete_fn: Callback<MPI_Delete_function>,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    let functions = (copy_fn, delete_fn);
    // SAFETY: the caller's.
    unsafe { create(mpi, ObjectKind::Comm, functions, keyval, extra_state) }
}

/// `MPI_Keyval_free`, deprecated.
///
/// # Safety
/// `keyval` is null or valid.
pub unsafe fn keyval_free(mpi: &AbiState, keyval: *mut c_int) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { free(mpi, ObjectKind::Comm, keyval) }
}

/// `MPI_Attr_put`, deprecated.
pub fn attr_put(
    mpi: &AbiState,
    comm: MPI_Comm,
    keyval: c_int,
    attribute_val: *mut c_void,
) -> Result<()> {
    comm_set_attr(mpi, comm, keyval, attribute_val)
}

/// `MPI_Attr_get`, deprecated.
///
/// # Safety
/// The conditions of [`comm_get_attr`].
pub unsafe fn attr_get(
    mpi: &AbiState,
    comm: MPI_Comm,
    keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { comm_get_attr(mpi, comm, keyval, attribute_val, flag) }
}

/// `MPI_Attr_delete`, deprecated.
pub fn attr_delete(mpi: &AbiState, comm: MPI_Comm, keyval: c_int) -> Result<()> {
    comm_delete_attr(mpi, comm, keyval)
}

/// `MPI_Type_create_keyval`.
///
/// # Safety
/// The conditions of [`comm_create_keyval`].
pub unsafe fn type_create_keyval(
    mpi: &AbiState,
    type_copy_attr_fn: Callback<MPI_Type_copy_attr_function>,
    type_delete_attr_fn: Callback<MPI_Type_delete_attr_function>,
    type_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    let functions = (type_copy_attr_fn, type_delete_attr_fn);
    // SAFETY: the caller's.
    unsafe { create(mpi, ObjectKind::Type, functions, type_keyval, extra_state) }
}

/// `MPI_Type_free_keyval`.
///
/// # Safety
/// `type_keyval` is null or valid.
pub unsafe fn type_free_keyval(mpi: &AbiState, type_keyval: *mut c_int) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { free(mpi, ObjectKind::Type, type_keyval) }
}

/// `MPI_Type_set_attr`.
pub fn type_set_attr(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
) -> Result<()> {
    let found = mpi.datatypes.get(datatype)?;
    let keyval = mpi.core()?.keyvals().get(ObjectKind::Type, type_keyval)?;
    let value = attribute_val.expose_provenance();
    found.attributes().set(datatype.raw(), &keyval, value)
}

/// `MPI_Type_get_attr`.
///
/// # Safety
/// The conditions of [`comm_get_attr`].
pub unsafe fn type_get_attr(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    let found = mpi.datatypes.get(datatype)?;
    mpi.core()?.keyvals().find(ObjectKind::Type, type_keyval)?;
    let value = found.attributes().get(type_keyval);
    // SAFETY: the caller's.
    unsafe { give(value, attribute_val, flag) }
}

/// `MPI_Type_delete_attr`.
pub fn type_delete_attr(mpi: &AbiState, datatype: MPI_Datatype, type_keyval: c_int) -> Result<()> {
    let found = mpi.datatypes.get(datatype)?;
    let keyval = mpi.core()?.keyvals().find(ObjectKind::Type, type_keyval)?;
    found.attributes().delete(datatype.raw(), &keyval)
}

/// `MPI_Win_create_keyval`.
///
/// # Safety
/// The conditions of [`comm_create_keyval`].
pub unsafe fn win_create_keyval(
    mpi: &AbiState,
    win_copy_attr_fn: Callback<MPI_Win_copy_attr_function>,
    win_delete_attr_fn: Callback<MPI_Win_delete_attr_function>,
    win_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    let functions = (win_copy_attr_fn, win_delete_attr_fn);
    // SAFETY: the caller's.
    unsafe { create(mpi, ObjectKind::Win, functions, win_keyval, extra_state) }
}

/// `MPI_Win_free_keyval`.
///
/// # Safety
/// `win_keyval` is null or valid.
pub unsafe fn win_free_keyval(mpi: &AbiState, win_keyval: *mut c_int) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { free(mpi, ObjectKind::Win, win_keyval) }
}
