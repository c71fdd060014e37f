//! Groups, info objects and attributes through the functions that the program calls.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

use rejoin_mpi::{ErrorClass, Group, Mpi as Core};

use crate::callback::Callback;
use crate::constants::*;
use crate::functions::abi::version::abi_get_info;
use crate::functions::communicators::attr::*;
use crate::functions::communicators::group::*;
use crate::functions::datatypes::objects::{type_dup, type_free};
use crate::functions::info::*;
use crate::state::AbiState;
use crate::types::*;

/// The library in a job of one process.
fn mpi() -> AbiState {
    let mpi = AbiState::new();
    let core = Core::init().unwrap();
    mpi.comms.define(MPI_COMM_WORLD, core.world().clone());
    let empty = Group::new(Vec::new(), core.rank());
    mpi.groups.define(MPI_GROUP_EMPTY, Rc::new(empty));
    mpi.infos.define(MPI_INFO_ENV, core.env_info().clone());
    mpi.datatypes.define_predefined();
    assert!(mpi.core.set(core).is_ok());
    mpi
}

fn class<T>(result: rejoin_mpi::Result<T>) -> Option<ErrorClass> {
    result.err().map(|e| e.class)
}

/// A function as the program passes it, or a constant of the ABI.
fn callback<F: Copy>(value: *const c_void) -> Callback<F> {
    // SAFETY: a callback is a pointer and nothing else.
    unsafe { std::mem::transmute_copy(&value) }
}

fn constant<F: Copy>(value: usize) -> Callback<F> {
    callback(std::ptr::without_provenance(value))
}

/// World ranks of a group.
fn members(mpi: &AbiState, group: MPI_Group) -> Vec<u32> {
    mpi.groups.get(group).unwrap().iter().collect()
}

#[test]
fn groups_are_made_from_groups() {
    let mpi = mpi();
    let me = mpi.core().unwrap().rank();
    let world = mpi.groups.insert(Rc::new(Group::world(8, me)));
    let (mut a, mut b, mut c) = (MPI_GROUP_NULL, MPI_GROUP_NULL, MPI_GROUP_NULL);
    let mut ranges = [[0, 7, 2], [1, 1, 1]];
    let mut result = 0;
    // SAFETY: all pointers are those of live variables.
    unsafe {
        group_range_incl(&mpi, world, 2, ranges.as_mut_ptr(), &raw mut a).unwrap();
        assert_eq!(members(&mpi, a), [0, 2, 4, 6, 1]);
        group_range_excl(&mpi, world, 2, ranges.as_mut_ptr(), &raw mut b).unwrap();
        assert_eq!(members(&mpi, b), [3, 5, 7]);
        group_union(&mpi, b, a, &raw mut c).unwrap();
        assert_eq!(members(&mpi, c), [3, 5, 7, 0, 2, 4, 6, 1]);
        group_compare(&mpi, world, c, &raw mut result).unwrap();
        assert_eq!(result, MPI_SIMILAR);
        group_rank(&mpi, b, &raw mut result).unwrap();
        assert_eq!(result, MPI_UNDEFINED);
        let (from, mut to) = ([3, MPI_PROC_NULL, 4], [9; 3]);
        group_translate_ranks(&mpi, a, 3, from.as_ptr(), world, to.as_mut_ptr()).unwrap();
        assert_eq!(to, [6, MPI_PROC_NULL, 1]);
        let bad = group_translate_ranks(&mpi, a, 1, [5].as_ptr(), world, to.as_mut_ptr());
        assert_eq!(class(bad), Some(ErrorClass::Rank));
        let bad = group_incl(&mpi, a, -1, from.as_ptr(), &raw mut c);
        assert_eq!(class(bad), Some(ErrorClass::Arg));
    }
}

#[test]
fn an_empty_group_is_the_predefined_one() {
    let mpi = mpi();
    let me = mpi.core().unwrap().rank();
    let world = mpi.groups.insert(Rc::new(Group::world(4, me)));
    let mut group = MPI_GROUP_NULL;
    // SAFETY: all pointers are those of live variables; an empty list may be null.
    unsafe {
        group_difference(&mpi, world, world, &raw mut group).unwrap();
        assert_eq!(group, MPI_GROUP_EMPTY);
        group_incl(&mpi, world, 0, std::ptr::null(), &raw mut group).unwrap();
        assert_eq!(group, MPI_GROUP_EMPTY);
        group_free(&mpi, &raw mut group).unwrap();
        assert_eq!(group, MPI_GROUP_NULL);
        assert_eq!(
            class(group_free(&mpi, &raw mut group)),
            Some(ErrorClass::Group)
        );
        let mut handle = world;
        group_free(&mpi, &raw mut handle).unwrap();
        let mut size = 0;
        let gone = group_size(&mpi, world, &raw mut size);
        assert_eq!(class(gone), Some(ErrorClass::Group));
        group_size(&mpi, MPI_GROUP_EMPTY, &raw mut size).unwrap();
        assert_eq!(size, 0);
    }
}

/// The value of a key with a buffer of `room` bytes, and the length that came back.
fn value(mpi: &AbiState, info: MPI_Info, key: &CStr, room: c_int) -> Option<(String, c_int)> {
    let mut buffer = [b'#'; 64];
    let (mut len, mut flag) = (room, 0);
    let at = buffer.as_mut_ptr().cast::<c_char>();
    // SAFETY: the buffer has more than `room` bytes.
    unsafe { info_get_string(mpi, info, key.as_ptr(), &raw mut len, at, &raw mut flag) }.unwrap();
    let end = buffer.iter().position(|&b| b == 0).unwrap_or(0);
    let text = String::from_utf8(buffer[..end].to_vec()).unwrap();
    (flag != 0).then_some((text, len))
}

#[test]
fn info_strings_come_back_as_they_were() {
    let mpi = AbiState::new();
    let mut info = MPI_INFO_NULL;
    // SAFETY: all pointers are those of live variables and strings.
    unsafe {
        info_create(&mpi, &raw mut info).unwrap();
        let set = |k: &CStr, v: &CStr| info_set(&mpi, info, k.as_ptr(), v.as_ptr());
        set(c"key", c" blanks stay ").unwrap();
        set(c"empty", c"").unwrap();
        assert_eq!(class(set(c"", c"x")), Some(ErrorClass::InfoKey));
        assert_eq!(class(set(c"x", c"\xff")), Some(ErrorClass::InfoValue));
        let long = CString::new("x".repeat(MPI_MAX_INFO_VAL as usize)).unwrap();
        assert_eq!(class(set(c"x", &long)), Some(ErrorClass::InfoValue));
        assert_eq!(
            value(&mpi, info, c"key", 64),
            Some((" blanks stay ".into(), 14))
        );
        assert_eq!(value(&mpi, info, c"key", 4), Some((" bl".into(), 14)));
        assert_eq!(value(&mpi, info, c"key", 0), Some((String::new(), 14)));
        assert_eq!(value(&mpi, info, c"empty", 64), Some((String::new(), 1)));
        assert_eq!(value(&mpi, info, c"none", 64), None);
        let (mut buffer, mut flag) = ([b'#'; 8], 9);
        let at = buffer.as_mut_ptr().cast::<c_char>();
        info_get(&mpi, info, c"key".as_ptr(), 3, at, &raw mut flag).unwrap();
        assert_eq!((&buffer[..5], flag), (&b" bl\0#"[..], 1));
        let missing = info_delete(&mpi, info, c"none".as_ptr());
        assert_eq!(class(missing), Some(ErrorClass::InfoNokey));
        info_free(&mpi, &raw mut info).unwrap();
        assert_eq!(info, MPI_INFO_NULL);
        assert_eq!(
            class(info_free(&mpi, &raw mut info)),
            Some(ErrorClass::Info)
        );
    }
}

#[test]
fn the_environment_is_there_before_and_after_init() {
    let mut words = [c"prog".to_owned(), c"-n".to_owned(), c"3".to_owned()].map(CString::into_raw);
    for mpi in [AbiState::new(), mpi()] {
        let mut info = MPI_INFO_NULL;
        // SAFETY: all pointers are those of live variables and strings.
        unsafe {
            info_create_env(&mpi, 3, words.as_mut_ptr(), &raw mut info).unwrap();
            assert_eq!(value(&mpi, info, c"command", 64), Some(("prog".into(), 5)));
            assert_eq!(value(&mpi, info, c"argv", 64), Some(("-n 3".into(), 5)));
            info_create_env(&mpi, 0, null_mut(), &raw mut info).unwrap();
            assert_ne!(value(&mpi, info, c"command", 0), Some(("prog".into(), 5)));
            assert_ne!(value(&mpi, info, c"command", 0), None);
            abi_get_info(&mpi, &raw mut info).unwrap();
        }
        for key in [c"mpi_aint_size", c"mpi_count_size", c"mpi_offset_size"] {
            assert_eq!(value(&mpi, info, key, 64), Some(("8".into(), 2)));
        }
        let started = mpi.core.get().is_some();
        let mut env = MPI_INFO_ENV;
        assert_eq!(mpi.infos.contains(env), started);
        // SAFETY: all pointers are those of live variables and strings.
        unsafe {
            let set = info_set(&mpi, env, c"a".as_ptr(), c"b".as_ptr());
            assert_eq!(class(set), Some(ErrorClass::Info));
            assert_eq!(class(info_free(&mpi, &raw mut env)), Some(ErrorClass::Info));
        }
    }
    for word in words {
        // SAFETY: it was a string of this function's.
        drop(unsafe { CString::from_raw(word) });
    }
}

/// The int of a predefined attribute.
fn predefined(mpi: &AbiState, keyval: c_int) -> Option<c_int> {
    let (mut at, mut flag) = (null_mut::<c_int>(), 0);
    // SAFETY: both are live; a found predefined attribute is the address of an int.
    unsafe {
        comm_get_attr(
            mpi,
            MPI_COMM_WORLD,
            keyval,
            (&raw mut at).cast(),
            &raw mut flag,
        )
        .unwrap();
        (flag != 0).then(|| at.read())
    }
}

#[test]
fn predefined_attributes_are_addresses_of_ints() {
    let mpi = mpi();
    assert_eq!(predefined(&mpi, MPI_TAG_UB), Some(c_int::MAX));
    assert_eq!(predefined(&mpi, MPI_UNIVERSE_SIZE), Some(1));
    assert_eq!(predefined(&mpi, MPI_IO), Some(MPI_ANY_SOURCE));
    assert_eq!(predefined(&mpi, MPI_LASTUSEDCODE), Some(MPI_ERR_LASTCODE));
    let added = mpi.errors.codes.add_class().unwrap();
    assert_eq!(predefined(&mpi, MPI_LASTUSEDCODE), Some(added));
    let change = comm_set_attr(&mpi, MPI_COMM_WORLD, MPI_TAG_UB, null_mut());
    assert_eq!(class(change), Some(ErrorClass::Keyval));
    let change = comm_delete_attr(&mpi, MPI_COMM_WORLD, MPI_IO);
    assert_eq!(class(change), Some(ErrorClass::Keyval));
}

/// Counts in the state; the copy is the value plus one.
unsafe extern "C" fn on_copy(
    _: MPI_Datatype,
    _: c_int,
    state: *mut c_void,
    value: *mut c_void,
    out: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the test gives two ints as state, the library places for results.
    unsafe {
        *state.cast::<c_int>() += 1;
        out.cast::<*mut c_void>().write(value.wrapping_byte_add(1));
        flag.write(1);
    }
    MPI_SUCCESS
}

/// Counts in the state, and fails for the value 13.
unsafe extern "C" fn on_delete(
    _: MPI_Datatype,
    _: c_int,
    value: *mut c_void,
    state: *mut c_void,
) -> c_int {
    // SAFETY: the test gives two ints as state.
    unsafe { *state.cast::<c_int>().add(1) += 1 };
    if value.addr() == 13 { 77 } else { MPI_SUCCESS }
}

fn of_type(mpi: &AbiState, datatype: MPI_Datatype, keyval: c_int) -> Option<usize> {
    let (mut at, mut flag) = (null_mut::<c_void>(), 0);
    // SAFETY: both are live.
    let got = unsafe { type_get_attr(mpi, datatype, keyval, (&raw mut at).cast(), &raw mut flag) };
    got.unwrap();
    (flag != 0).then(|| at.addr())
}

#[test]
fn a_types_attributes_are_copied_and_deleted() {
    let mpi = mpi();
    let (mut calls, mut keyval, mut dup) = ([0; 2], 0, 0);
    let (mut a, mut b) = (MPI_DATATYPE_NULL, MPI_DATATYPE_NULL);
    let state = (&raw mut calls).cast();
    let value = std::ptr::without_provenance_mut;
    // SAFETY: all pointers are those of live variables, the functions have their types.
    unsafe {
        let copy = callback(on_copy as *const c_void);
        let delete = callback(on_delete as *const c_void);
        type_create_keyval(&mpi, copy, delete, &raw mut keyval, state).unwrap();
        let (same, none) = (constant(MPI_TYPE_DUP_FN), constant(MPI_TYPE_NULL_DELETE_FN));
        type_create_keyval(&mpi, same, none, &raw mut dup, null_mut()).unwrap();
        type_dup(&mpi, MPI_INT, &raw mut a).unwrap();
        type_set_attr(&mpi, a, keyval, value(12)).unwrap();
        type_set_attr(&mpi, a, dup, value(5)).unwrap();
        type_dup(&mpi, a, &raw mut b).unwrap();
        assert_eq!(of_type(&mpi, b, keyval), Some(13));
        assert_eq!(of_type(&mpi, b, dup), Some(5));
        assert_eq!((state.cast::<[c_int; 2]>()).read(), [1, 0]);
        let failed = type_free(&mpi, &raw mut b).unwrap_err();
        assert_eq!(
            (failed.code, of_type(&mpi, b, keyval)),
            (Some(77), Some(13))
        );
        // A freed keyval still serves the attributes that are there, but no new ones.
        let mut copy_of_id = keyval;
        type_free_keyval(&mpi, &raw mut copy_of_id).unwrap();
        assert_eq!(copy_of_id, MPI_KEYVAL_INVALID);
        assert_eq!(of_type(&mpi, a, keyval), Some(12));
        type_delete_attr(&mpi, a, keyval).unwrap();
        assert_eq!((state.cast::<[c_int; 2]>()).read(), [1, 2]);
        assert_eq!(of_type(&mpi, a, keyval), None);
        let refused = type_set_attr(&mpi, a, keyval, value(1));
        assert_eq!(class(refused), Some(ErrorClass::Keyval));
        let other = comm_set_attr(&mpi, MPI_COMM_WORLD, dup, value(1));
        assert_eq!(class(other), Some(ErrorClass::Keyval));
    }
}

#[test]
fn what_is_no_callback_is_refused() {
    let mpi = mpi();
    let mut keyval = 0;
    // SAFETY: values below the lowest function are not called.
    unsafe {
        let bad = comm_create_keyval(&mpi, constant(2), constant(0), &raw mut keyval, null_mut());
        assert_eq!(class(bad), Some(ErrorClass::Arg));
        let bad = comm_create_keyval(&mpi, constant(1), constant(1), &raw mut keyval, null_mut());
        assert_eq!(class(bad), Some(ErrorClass::Arg));
        win_create_keyval(&mpi, constant(1), constant(0), &raw mut keyval, null_mut()).unwrap();
        let mut copy = keyval;
        assert_eq!(
            class(comm_free_keyval(&mpi, &raw mut copy)),
            Some(ErrorClass::Keyval)
        );
        win_free_keyval(&mpi, &raw mut keyval).unwrap();
    }
}
