//! The rules of single constructors: layouts of C structs, errors, contents, large sizes.

use std::rc::Rc;

use crate::datatype::{Combiner, Datatype, Form, Named, StorageOrder, TypeClass};
use crate::error::ErrorClass;

fn int() -> Rc<Datatype> {
    Datatype::named(Named::Int)
}

fn class<T>(result: crate::Result<T>) -> Option<ErrorClass> {
    result.err().map(|e| e.class)
}

#[test]
fn pairs_are_laid_out_as_c_structs() {
    for (named, size, extent) in [
        (Named::FloatInt, 8, 8),
        (Named::DoubleInt, 12, 16),
        (Named::LongInt, 12, 16),
        (Named::TwoInt, 8, 8),
        (Named::ShortInt, 6, 8),
        (Named::LongDoubleInt, 20, 32),
        (Named::TwoReal, 8, 8),
        (Named::TwoDoublePrecision, 16, 16),
    ] {
        let t = Datatype::named(named);
        assert_eq!((t.size(), t.extent()), (size, extent), "{named:?}");
        assert_eq!(t.elements(), 2);
        assert!(t.is_committed() && t.is_predefined());
        assert_eq!(t.name(), named.name());
    }
    assert!(!Datatype::named(Named::ShortInt).is_contiguous(1));
    assert!(Datatype::named(Named::DoubleInt).is_contiguous(1));
    assert!(!Datatype::named(Named::DoubleInt).is_contiguous(2));
}

#[test]
fn sizes_go_beyond_31_bits() {
    let t = Datatype::contiguous(Form::Large, 3 << 31, &int()).unwrap();
    assert_eq!(t.size(), 12 << 31);
    let t = Datatype::vector(Form::Large, 1 << 10, 1 << 10, 1 << 11, &t).unwrap();
    assert_eq!(class(t.bytes(2)), None);
    assert_eq!(class(t.bytes(1 << 40)), Some(ErrorClass::Count));
    let huge = Datatype::contiguous(Form::Large, i64::MAX, &int());
    assert_eq!(class(huge), Some(ErrorClass::Count));
    let far = Datatype::hvector(Form::Large, 4, 1, i64::MAX / 2, &int());
    assert_eq!(class(far), Some(ErrorClass::Arg));
    // The displacement of the last block fits, that of its end does not.
    let edge = Datatype::hindexed(Form::Large, &[1], &[i64::MAX - 3], &int());
    assert_eq!(class(edge), Some(ErrorClass::Arg));
    // The padding of the upper bound does not fit.
    let both = [Datatype::named(Named::Byte), Datatype::named(Named::Double)];
    let pad = Datatype::structure(Form::Large, &[1, 1], &[i64::MAX - 1, i64::MAX - 16], &both);
    assert!(pad.is_ok());
    let pad = Datatype::structure(Form::Large, &[1, 1], &[i64::MAX - 1, 1], &both);
    assert_eq!(class(pad), Some(ErrorClass::Arg));
}

#[test]
fn bad_arguments_have_the_standard_class() {
    let (i, f) = (int(), Form::Int);
    let count = Some(ErrorClass::Count);
    let arg = Some(ErrorClass::Arg);
    assert_eq!(class(Datatype::contiguous(f, -1, &i)), count);
    assert_eq!(class(Datatype::vector(f, -1, 1, 1, &i)), count);
    assert_eq!(class(Datatype::vector(f, 1, -1, 1, &i)), arg);
    assert_eq!(class(Datatype::hvector(f, 1, -1, 1, &i)), arg);
    assert_eq!(class(Datatype::indexed(f, &[1, -1], &[0, 1], &i)), arg);
    assert_eq!(class(Datatype::indexed(f, &[1, 1], &[0], &i)), arg);
    assert_eq!(class(Datatype::indexed_block(f, -2, &[0], &i)), arg);
    assert_eq!(class(Datatype::structure(f, &[1], &[0], &[])), arg);
    let sub = |sizes: &[i64], parts: &[i64], starts: &[i64]| {
        class(Datatype::subarray(
            f,
            sizes,
            parts,
            starts,
            StorageOrder::C,
            &i,
        ))
    };
    assert_eq!(sub(&[4], &[2], &[2]), None);
    assert_eq!(sub(&[4], &[2], &[3]), arg);
    assert_eq!(sub(&[4], &[5], &[0]), arg);
    assert_eq!(sub(&[4], &[0], &[0]), arg);
    assert_eq!(sub(&[4], &[1], &[-1]), arg);
    assert_eq!(sub(&[0], &[0], &[0]), arg);
    assert_eq!(sub(&[], &[], &[]), arg);
    assert_eq!(class(StorageOrder::from_abi(7)), arg);
    assert_eq!(class(i.bytes(-1)), count);
}

#[test]
fn uncommitted_types_are_refused() {
    let t = Datatype::contiguous(Form::Int, 2, &int()).unwrap();
    assert_eq!(class(t.check_committed()), Some(ErrorClass::Type));
    assert!(!Datatype::dup(&t).is_committed());
    t.commit();
    assert_eq!(class(t.check_committed()), None);
    assert!(Datatype::dup(&t).is_committed());
}

#[test]
fn contents_give_back_what_was_given() {
    let i = int();
    let t = Datatype::vector(Form::Int, 2, 3, 4, &i).unwrap();
    assert_eq!(t.combiner(), Combiner::Vector);
    assert_eq!(t.contents().integers, [2, 3, 4]);
    assert!(Rc::ptr_eq(&t.contents().datatypes[0], &i));
    let t = Datatype::vector(Form::Large, 2, 3, 4, &i).unwrap();
    assert!(t.contents().integers.is_empty());
    assert_eq!(t.contents().large_counts, [2, 3, 4]);
    let t = Datatype::hvector(Form::Int, 2, 3, 40, &i).unwrap();
    assert_eq!(t.contents().integers, [2, 3]);
    assert_eq!(t.contents().addresses, [40]);
    let types = [i.clone(), Datatype::named(Named::Double)];
    let t = Datatype::structure(Form::Int, &[1, 2], &[0, 8], &types).unwrap();
    assert_eq!(t.contents().integers, [2, 1, 2]);
    assert_eq!(t.contents().addresses, [0, 8]);
    let t = Datatype::structure(Form::Large, &[1, 2], &[0, 8], &types).unwrap();
    assert_eq!(t.contents().large_counts, [2, 1, 2, 0, 8]);
    let t = Datatype::subarray(Form::Int, &[5], &[2], &[1], StorageOrder::C, &i).unwrap();
    assert_eq!(t.contents().integers, [1, 5, 2, 1, 12]);
    let t = Datatype::subarray(Form::Large, &[5], &[2], &[1], StorageOrder::Fortran, &i).unwrap();
    assert_eq!(t.contents().integers, [1, 15]);
    assert_eq!(t.contents().large_counts, [5, 2, 1]);
    let t = Datatype::resized(Form::Int, &i, -4, 12).unwrap();
    assert_eq!(t.contents().addresses, [-4, 12]);
    assert_eq!((t.lb(), t.ub()), (-4, 8));
}

/// The elements of a global array that the type of one process selects.
fn owned(t: &Datatype) -> Vec<i64> {
    let mut all = Vec::new();
    t.for_each_block(1, 0, 0, t.size() as usize, |at, len| {
        all.extend((at as i64 / 4)..((at + len) as i64 / 4));
    });
    all
}

#[test]
fn distributed_arrays_cover_the_array_once() {
    let (block, cyclic, none, default) = (17, 18, 16, 19);
    for order in [StorageOrder::C, StorageOrder::Fortran] {
        for (distributions, arguments) in [
            ([block, block, none], [default, default, default]),
            ([cyclic, cyclic, none], [default, 2, default]),
            ([cyclic, block, none], [3, 7, default]),
            ([block, cyclic, none], [8, 4, default]),
        ] {
            let mut all = Vec::new();
            for rank in 0..6 {
                let t = Datatype::darray(
                    Form::Int,
                    6,
                    rank,
                    &[11, 13, 3],
                    &distributions,
                    &arguments,
                    &[2, 3, 1],
                    order,
                    &int(),
                )
                .unwrap();
                assert_eq!((t.lb(), t.extent()), (0, 11 * 13 * 3 * 4));
                let mine = owned(&t);
                assert!(mine.is_sorted());
                all.extend(mine);
            }
            all.sort_unstable();
            assert_eq!(all, (0..11 * 13 * 3).collect::<Vec<_>>());
        }
    }
}

#[test]
fn distributed_arrays_give_each_process_its_part() {
    let darray = |rank, distribution, argument| {
        let t = Datatype::darray(
            Form::Int,
            3,
            rank,
            &[11],
            &[distribution],
            &[argument],
            &[3],
            StorageOrder::C,
            &int(),
        );
        t.map(|t| owned(&t))
    };
    assert_eq!(darray(1, 17, 19).unwrap(), [4, 5, 6, 7]);
    assert_eq!(darray(2, 17, 5).unwrap(), [10]);
    assert_eq!(darray(0, 18, 19).unwrap(), [0, 3, 6, 9]);
    assert_eq!(darray(1, 18, 2).unwrap(), [2, 3, 8, 9]);
    assert_eq!(darray(2, 18, 2).unwrap(), [4, 5, 10]);
    let arg = Some(ErrorClass::Arg);
    assert_eq!(class(darray(0, 17, 3)), arg);
    assert_eq!(class(darray(3, 17, 19)), arg);
    assert_eq!(class(darray(0, 16, 19)), arg);
    assert_eq!(class(darray(0, 18, 0)), arg);
    assert_eq!(class(darray(0, 5, 1)), arg);
}

#[test]
fn types_are_found_by_size_precision_and_parts() {
    let undefined = -32766;
    assert_eq!(
        Datatype::match_size(TypeClass::Real, 8).unwrap(),
        Named::Real8
    );
    assert!(Datatype::match_size(TypeClass::Integer, 3).is_err());
    assert_eq!(Datatype::f90_real(6, 30).unwrap().size(), 4);
    assert_eq!(Datatype::f90_real(15, undefined).unwrap().size(), 8);
    assert_eq!(Datatype::f90_complex(undefined, 308).unwrap().size(), 32);
    assert_eq!(Datatype::f90_integer(9).unwrap().size(), 4);
    assert!(Datatype::f90_real(undefined, undefined).is_err());
    assert!(Datatype::f90_integer(39).is_err());
    let (f, i) = (Datatype::named(Named::Float), int());
    let pair = Datatype::value_index(&f, &i).unwrap();
    assert_eq!(pair.as_named(), Some(Named::FloatInt));
    let long = Datatype::named(Named::Long);
    let pair = Datatype::value_index(&f, &long).unwrap();
    assert_eq!(pair.combiner(), Combiner::ValueIndex);
    assert_eq!((pair.size(), pair.extent()), (12, 16));
    assert!(Datatype::value_index(&i, &f).is_none());
}

#[test]
fn deep_chains_are_bounded_and_freed_without_recursion() {
    let mut t = int();
    for _ in 0..200_000 {
        t = Datatype::dup(&t);
    }
    drop(t);
    let mut t = Datatype::vector(Form::Int, 2, 1, 3, &int()).unwrap();
    let refused = (0..100_000).find_map(|_| {
        let parts = [int(), t.clone()];
        match Datatype::structure(Form::Large, &[1, 1], &[0, 8], &parts) {
            Ok(next) => t = next,
            Err(e) => return Some(e.class),
        }
        None
    });
    assert_eq!(refused, Some(ErrorClass::Arg));
    let bytes = t.size() as usize;
    let mut seen = 0;
    t.for_each_block(1, 0, 0, bytes, |_, len| seen += len);
    assert_eq!(seen, bytes);
}
