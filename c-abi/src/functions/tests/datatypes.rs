//! Datatypes, packing and reductions through the functions that the program calls.

use std::ffi::c_int;

use rejoin_mpi::ErrorClass;

use crate::callback::{Callback, OpFunction};
use crate::constants::*;
use crate::functions::collectives::op::{
    define_predefined, op_commutative, op_create, op_free, reduce_local,
};
use crate::functions::datatypes::create::*;
use crate::functions::datatypes::objects::*;
use crate::functions::datatypes::pack::{pack_external_size, pack_size};
use crate::functions::datatypes::query::*;
use crate::functions::point_to_point::status::{
    get_count, get_elements, set_bytes, status_set_elements,
};
use crate::state::AbiState;
use crate::types::*;

fn mpi() -> AbiState {
    let mpi = AbiState::new();
    mpi.datatypes.define_predefined();
    define_predefined(&mpi.ops);
    mpi
}

fn class<T>(result: rejoin_mpi::Result<T>) -> Option<ErrorClass> {
    result.err().map(|e| e.class)
}

#[test]
fn every_predefined_handle_stands_for_its_type() {
    let mpi = mpi();
    let mut seen = 0;
    for (raw, name) in HANDLE_NAMES {
        let handle = MPI_Datatype(*raw);
        if (0x201..0x400).contains(raw) {
            let datatype = mpi.datatypes.get(handle).unwrap();
            assert_eq!(datatype.name(), *name);
            assert_eq!(mpi.datatypes.new_handle(&datatype), handle);
            seen += 1;
        }
    }
    assert_eq!(seen, 70);
    assert_eq!(
        class(mpi.datatypes.get(MPI_DATATYPE_NULL)),
        Some(ErrorClass::Type)
    );
    for (raw, name) in HANDLE_NAMES {
        if (0x21..0x40).contains(raw) {
            let op = mpi.ops.get(MPI_Op(*raw)).unwrap();
            assert_eq!(op.as_builtin().unwrap().name(), *name);
        }
    }
}

#[test]
fn a_type_lives_from_its_constructor_to_free() {
    let mpi = mpi();
    let mut handle = MPI_DATATYPE_NULL;
    let (mut size, mut lb, mut extent) = (0i32, 0i64, 0i64);
    // SAFETY: all pointers are those of live variables.
    unsafe {
        type_vector(&mpi, 3, 2, 4, MPI_INT, &raw mut handle).unwrap();
        type_size(&mpi, handle, (&raw mut size).into()).unwrap();
        let out = (&raw mut lb).into();
        type_get_extent(&mpi, handle, out, (&raw mut extent).into()).unwrap();
        assert_eq!((size, lb, extent), (24, 0, 40));
        assert_eq!(
            class(mpi.datatypes.committed(handle)),
            Some(ErrorClass::Type)
        );
        type_commit(&mpi, &raw mut handle).unwrap();
        let mut copy = MPI_DATATYPE_NULL;
        type_dup(&mpi, handle, &raw mut copy).unwrap();
        assert_ne!(copy, handle);
        let mut freed = handle;
        type_free(&mpi, &raw mut freed).unwrap();
        assert_eq!(freed, MPI_DATATYPE_NULL);
        assert_eq!(class(mpi.datatypes.get(handle)), Some(ErrorClass::Type));
        assert!(mpi.datatypes.committed(copy).is_ok());
        let mut int = MPI_INT;
        assert_eq!(class(type_free(&mpi, &raw mut int)), Some(ErrorClass::Type));
        // 2^32 ints do not fit the int of the plain form.
        type_contiguous_c(&mpi, 1 << 32, MPI_INT, &raw mut handle).unwrap();
        type_size(&mpi, handle, (&raw mut size).into()).unwrap();
        assert_eq!(size, MPI_UNDEFINED);
    }
}

#[test]
fn contents_come_back_in_their_own_form() {
    let mpi = mpi();
    let (mut plain, mut large) = (MPI_DATATYPE_NULL, MPI_DATATYPE_NULL);
    let (lengths, places) = ([1 as c_int, 2], [0 as c_int, 4]);
    let (wide, far) = ([1i64, 2], [0i64, 4]);
    let (mut ints, mut addresses, mut types, mut combiner) = (0, 0, 0, 0);
    let mut values = [0; 5];
    let mut parts = [MPI_DATATYPE_NULL];
    let null = std::ptr::null_mut();
    // SAFETY: all pointers are those of live variables, the arrays are long enough.
    unsafe {
        let (l, p) = (lengths.as_ptr().into(), places.as_ptr().into());
        type_indexed(&mpi, 2, l, p, MPI_INT, &raw mut plain).unwrap();
        let (l, p) = (wide.as_ptr().into(), far.as_ptr().into());
        type_indexed(&mpi, 2, l, p, plain, &raw mut large).unwrap();
        let (i, a, t) = (&raw mut ints, &raw mut addresses, &raw mut types);
        type_get_envelope(&mpi, plain, i, a, t, &raw mut combiner).unwrap();
        assert_eq!(
            (ints, addresses, types, combiner),
            (5, 0, 1, MPI_COMBINER_INDEXED)
        );
        let refused = type_get_envelope(&mpi, large, i, a, t, &raw mut combiner);
        assert_eq!(class(refused), Some(ErrorClass::Arg));
        let (v, d) = (values.as_mut_ptr(), parts.as_mut_ptr());
        let short = type_get_contents(&mpi, plain, 4, 0, 1, v, null, d);
        assert_eq!(class(short), Some(ErrorClass::Arg));
        type_get_contents(&mpi, plain, 5, 0, 1, v, null, d).unwrap();
        assert_eq!((values, parts), ([2, 1, 2, 0, 4], [MPI_INT]));
        let mut counts = [0i64; 5];
        let (c, none) = (counts.as_mut_ptr(), std::ptr::null_mut());
        type_get_contents_c(&mpi, large, 0, 0, 5, 1, none, null, c, d).unwrap();
        assert_eq!(counts, [2, 1, 2, 0, 4]);
        assert_ne!(parts[0], plain);
        type_free(&mpi, d).unwrap();
        let named = type_get_contents(&mpi, MPI_INT, 5, 5, 1, v, null, d);
        assert_eq!(class(named), Some(ErrorClass::Arg));
        let negative = type_indexed(&mpi, -1, l, p, MPI_INT, &raw mut plain);
        assert_eq!(class(negative), Some(ErrorClass::Count));
    }
}

#[test]
fn the_same_precision_gives_the_same_handle() {
    let mpi = mpi();
    let mut handles = [MPI_DATATYPE_NULL; 4];
    let [a, b, c, d] = &mut handles;
    // SAFETY: all pointers are those of live variables.
    unsafe {
        type_create_f90_real(&mpi, 15, 300, a).unwrap();
        type_create_f90_real(&mpi, 15, 300, b).unwrap();
        type_create_f90_real(&mpi, 15, 301, c).unwrap();
        type_get_value_index(&mpi, MPI_FLOAT, MPI_INT, d).unwrap();
    }
    assert_eq!(handles[0], handles[1]);
    assert_ne!(handles[0], handles[2]);
    assert_eq!(handles[3], MPI_FLOAT_INT);
    // SAFETY: as above.
    let freed = unsafe { type_free(&mpi, &raw mut handles[0]) };
    assert_eq!(class(freed), Some(ErrorClass::Type));
}

#[test]
fn statuses_tell_counts_and_elements() {
    let mpi = mpi();
    let mut status = MPI_Status::default();
    let (mut whole, mut parts) = (0i32, 0i32);
    // SAFETY: all pointers are those of live variables.
    unsafe {
        let s = &raw mut status;
        status_set_elements(&mpi, s, MPI_DOUBLE_INT, 3).unwrap();
        get_count(&mpi, s, MPI_DOUBLE_INT, (&raw mut whole).into()).unwrap();
        get_elements(&mpi, s, MPI_DOUBLE_INT, (&raw mut parts).into()).unwrap();
        assert_eq!((whole, parts), (MPI_UNDEFINED, 3));
        set_bytes(&mut *s, 24);
        get_count(&mpi, s, MPI_DOUBLE_INT, (&raw mut whole).into()).unwrap();
        get_elements(&mpi, s, MPI_DOUBLE_INT, (&raw mut parts).into()).unwrap();
        assert_eq!((whole, parts), (2, 4));
        let null = get_count(&mpi, std::ptr::null(), MPI_INT, (&raw mut whole).into());
        assert_eq!(class(null), Some(ErrorClass::Arg));
    }
}

#[test]
fn packed_sizes_and_representations() {
    let mpi = mpi();
    let mut size = 0i64;
    // SAFETY: all pointers are those of live variables.
    unsafe {
        let out = (&raw mut size).into();
        let long = c"external32".as_ptr();
        pack_external_size(&mpi, long, 3, MPI_LONG, out).unwrap();
        assert_eq!(size, 12);
        let bad = pack_external_size(&mpi, c"native".as_ptr(), 3, MPI_LONG, out);
        assert_eq!(class(bad), Some(ErrorClass::Arg));
        let comm = pack_size(&mpi, 3, MPI_LONG, MPI_COMM_NULL, out);
        assert_eq!(class(comm), Some(ErrorClass::Comm));
    }
}

#[test]
fn reductions_check_what_they_get() {
    let mpi = mpi();
    let (left, mut right) = ([1.5f64, 2.0], [1.0f64, 4.0]);
    let (a, b) = (left.as_ptr().cast(), right.as_mut_ptr().cast());
    let (mut op, mut commutes) = (MPI_SUM, 0);
    // SAFETY: both arrays hold two doubles.
    unsafe {
        reduce_local(&mpi, a, b, 2, MPI_DOUBLE, MPI_SUM).unwrap();
        assert_eq!(right, [2.5, 6.0]);
        let refused = reduce_local(&mpi, a, b, 2, MPI_DOUBLE, MPI_BAND);
        assert_eq!(class(refused), Some(ErrorClass::Op));
        let refused = reduce_local(&mpi, a, b, -2, MPI_DOUBLE, MPI_SUM);
        assert_eq!(class(refused), Some(ErrorClass::Count));
        let refused = reduce_local(&mpi, std::ptr::null(), b, 2, MPI_DOUBLE, MPI_SUM);
        assert_eq!(class(refused), Some(ErrorClass::Buffer));
        assert_eq!(class(op_free(&mpi, &raw mut op)), Some(ErrorClass::Op));
        op_commutative(&mpi, MPI_MAX, &raw mut commutes).unwrap();
        assert_eq!(commutes, 1);
        // A null pointer is no function.
        let null = std::mem::zeroed::<Callback<MPI_User_function>>();
        let refused = op_create(&mpi, OpFunction::Int(null), 1, &raw mut op);
        assert_eq!(class(refused), Some(ErrorClass::Arg));
    }
}
