//! Reductions against scalar arithmetic written out for each type.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;

use super::{Builtin, Op};
use crate::datatype::{Datatype, Form, Named};
use crate::error::{ErrorClass, Result};

/// Applies a predefined operation to unaligned copies of two arrays.
fn reduce<T: Copy>(builtin: Builtin, named: Named, left: &[T], right: &[T]) -> Result<Vec<T>> {
    let bytes = size_of_val(left);
    let (mut a, mut b) = (vec![0u8; bytes + 1], vec![0u8; bytes + 1]);
    let datatype = Datatype::named(named);
    let mut out = right.to_vec();
    // SAFETY: the copies have room for the arrays one byte off, and plain numbers have no invalid
    // values.
    unsafe {
        let (a, b) = (a.as_mut_ptr().add(1), b.as_mut_ptr().add(1));
        std::ptr::copy_nonoverlapping(left.as_ptr().cast(), a, bytes);
        std::ptr::copy_nonoverlapping(right.as_ptr().cast(), b, bytes);
        Op::builtin(builtin).apply(a, b, left.len() as i64, &datatype)?;
        std::ptr::copy_nonoverlapping(b, out.as_mut_ptr().cast::<u8>(), bytes);
    }
    Ok(out)
}

/// Checks one operation on one type with a function on two values.
fn check<T: Copy + PartialEq + std::fmt::Debug>(
    builtin: Builtin,
    named: Named,
    pairs: &[(T, T)],
    wanted: impl Fn(T, T) -> T,
) {
    let (left, right): (Vec<T>, Vec<T>) = pairs.iter().copied().unzip();
    let got = reduce(builtin, named, &left, &right).unwrap();
    let wanted: Vec<T> = pairs.iter().map(|(a, b)| wanted(*a, *b)).collect();
    assert_eq!(got, wanted, "{builtin:?} {named:?}");
}

macro_rules! integer_tests {
    ($($name:ident $t:ty: $($named:ident)*;)*) => { proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 40 }))]
        $(
            #[test]
            fn $name(pairs in prop::collection::vec(any::<($t, $t)>(), 0..70)) {
                $({
                    let (n, p) = (Named::$named, &pairs);
                    check(Builtin::Sum, n, p, <$t>::wrapping_add);
                    check(Builtin::Prod, n, p, <$t>::wrapping_mul);
                    check(Builtin::Min, n, p, std::cmp::min);
                    check(Builtin::Max, n, p, std::cmp::max);
                    check(Builtin::Band, n, p, |a, b| a & b);
                    check(Builtin::Bor, n, p, |a, b| a | b);
                    check(Builtin::Bxor, n, p, |a, b| a ^ b);
                    if Builtin::Land.allows(n.class()) {
                        check(Builtin::Land, n, p, |a, b| (a != 0 && b != 0) as $t);
                        check(Builtin::Lor, n, p, |a, b| (a != 0 || b != 0) as $t);
                        check(Builtin::Lxor, n, p, |a, b| ((a != 0) != (b != 0)) as $t);
                    }
                })*
            }
        )*
    } };
}

integer_tests! {
    int_8 i8: SignedChar Int8 Integer1;
    uint_8 u8: UnsignedChar Uint8;
    int_16 i16: Short Int16 Integer2;
    uint_16 u16: UnsignedShort Uint16;
    int_32 i32: Int Int32 Integer Integer4;
    uint_32 u32: Unsigned Uint32;
    int_64 i64: Long LongLong Int64 Integer8 Aint Count Offset;
    uint_64 u64: UnsignedLong UnsignedLongLong Uint64;
    int_128 i128: Integer16;
}

proptest! {
    #[test]
    fn floats(pairs in prop::collection::vec((-1e9f32..1e9, -1e9f32..1e9), 0..70)) {
        for n in [Named::Float, Named::Real, Named::Real4] {
            check(Builtin::Sum, n, &pairs, |a, b| a + b);
            check(Builtin::Prod, n, &pairs, |a, b| a * b);
            check(Builtin::Min, n, &pairs, f32::min);
            check(Builtin::Max, n, &pairs, f32::max);
        }
    }

    #[test]
    fn doubles(pairs in prop::collection::vec((-1e9f64..1e9, -1e9f64..1e9), 0..70)) {
        for n in [Named::Double, Named::DoublePrecision, Named::Real8] {
            check(Builtin::Sum, n, &pairs, |a, b| a + b);
            check(Builtin::Prod, n, &pairs, |a, b| a * b);
            check(Builtin::Min, n, &pairs, f64::min);
            check(Builtin::Max, n, &pairs, f64::max);
        }
    }

    #[test]
    fn complex(pairs in prop::collection::vec(any::<([i16; 2], [i16; 2])>(), 0..20)) {
        let wide = |v: [i16; 2]| v.map(f64::from);
        let pairs: Vec<_> = pairs.into_iter().map(|(a, b)| (wide(a), wide(b))).collect();
        for n in [Named::CDoubleComplex, Named::DoubleComplex, Named::Complex16] {
            check(Builtin::Sum, n, &pairs, |a, b| [a[0] + b[0], a[1] + b[1]]);
            check(Builtin::Prod, n, &pairs, |a, b| {
                [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
            });
        }
    }

    #[test]
    fn located_values(pairs in prop::collection::vec(any::<((i8, u8), (i8, u8))>(), 0..70)) {
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[repr(C)]
        struct DoubleInt { value: f64, index: i32, padding: i32 }
        let of = |(v, i): (i8, u8)| DoubleInt {
            value: f64::from(v / 16), index: i32::from(i), padding: 0,
        };
        let pairs: Vec<_> = pairs.into_iter().map(|(a, b)| (of(a), of(b))).collect();
        let pick = |left: bool, a: DoubleInt, b: DoubleInt| {
            let equal = a.value == b.value;
            if equal { if a.index < b.index { a } else { b } } else if left { a } else { b }
        };
        check(Builtin::Minloc, Named::DoubleInt, &pairs, |a, b| pick(a.value < b.value, a, b));
        check(Builtin::Maxloc, Named::DoubleInt, &pairs, |a, b| pick(a.value > b.value, a, b));
    }
}

#[test]
fn logical_values_become_zero_and_one() {
    let (left, right) = ([0u8, 1, 0, 2], [0u8, 0, 3, 1]);
    let run = |b| reduce(b, Named::CBool, &left, &right).unwrap();
    assert_eq!(run(Builtin::Land), [0, 0, 0, 1]);
    assert_eq!(run(Builtin::Lor), [0, 1, 1, 1]);
    assert_eq!(run(Builtin::Lxor), [0, 1, 1, 0]);
    let wide = reduce(Builtin::Lor, Named::Logical, &[0i32, 256], &[0, 0]);
    assert_eq!(wide, Ok(vec![0, 1]));
}

#[test]
fn not_everything_goes_with_everything() {
    for (builtin, named) in [
        (Builtin::Sum, Named::Character),
        (Builtin::Max, Named::CDoubleComplex),
        (Builtin::Sum, Named::Byte),
        (Builtin::Band, Named::Double),
        (Builtin::Land, Named::Double),
        (Builtin::Land, Named::Integer),
        (Builtin::Sum, Named::Logical),
        (Builtin::Minloc, Named::Double),
        (Builtin::Sum, Named::DoubleInt),
        (Builtin::Sum, Named::Packed),
    ] {
        let refused = Op::builtin(builtin).check(&Datatype::named(named));
        assert_eq!(
            refused.map_err(|e| e.class),
            Err(ErrorClass::Op),
            "{builtin:?} {named:?}"
        );
    }
    let derived = Datatype::contiguous(Form::Int, 1, &Datatype::named(Named::Int)).unwrap();
    let refused = Op::builtin(Builtin::Sum).check(&derived);
    assert_eq!(refused.map_err(|e| e.class), Err(ErrorClass::Op));
}

proptest! {
    // Sums and products of binary16 are exact in binary64, so rounding them once is the right
    // result.
    #[test]
    fn halves(pairs in prop::collection::vec(any::<(u16, u16)>(), 0..70)) {
        let bits = |f: fn(f64, f64) -> f64| move |a: u16, b: u16| {
            let wide = f(half::f16::from_bits(a).to_f64(), half::f16::from_bits(b).to_f64());
            // `from_f64` drops the low half of the fraction; rounding to 32 bits first is harmless.
            half::f16::from_f32(wide as f32).to_bits()
        };
        let number = |b: &u16| !half::f16::from_bits(*b).is_nan();
        let sums: Vec<_> = pairs
            .into_iter()
            .filter(|(a, b)| number(a) && number(b))
            .filter(|(a, b)| number(&bits(|x, y| x + y)(*a, *b)) && number(&bits(|x, y| x * y)(*a, *b)))
            .collect();
        check(Builtin::Sum, Named::Real2, &sums, bits(|x, y| x + y));
        check(Builtin::Prod, Named::Real2, &sums, bits(|x, y| x * y));
    }
}

// Programs such as OSU's benchmarks reduce characters, and MPICH, Open MPI and Intel MPI let them.
#[test]
fn characters_of_c_are_integers() {
    let (left, right) = ([1 as std::ffi::c_char, 100, 5], [2, 27, 5]);
    let run = |builtin| reduce(builtin, Named::Char, &left, &right);
    assert_eq!(run(Builtin::Sum), Ok(vec![3, 127, 10]));
    assert_eq!(run(Builtin::Max), Ok(vec![2, 100, 5]));
    assert_eq!(run(Builtin::Bxor), Ok(vec![3, 127, 0]));
    assert_eq!(run(Builtin::Land), Ok(vec![1, 1, 1]));
}

#[test]
fn addresses_counts_and_offsets_have_truth_values() {
    for named in [Named::Aint, Named::Count, Named::Offset] {
        let both = reduce(Builtin::Land, named, &[0i64, 7], &[1 << 40, -1]);
        assert_eq!(both, Ok(vec![0, 1]), "{named:?}");
    }
}

#[test]
fn every_pair_the_standard_allows_has_a_loop() {
    let mut allowed = 0;
    for builtin in Builtin::ALL {
        for named in Named::ALL {
            let checked = Op::builtin(builtin).check(&Datatype::named(*named));
            assert_eq!(
                checked.is_ok(),
                builtin.allows(named.class()),
                "{builtin:?} {named:?}"
            );
            allowed += usize::from(checked.is_ok());
        }
    }
    assert!(allowed > 400, "{allowed}");
}

#[test]
fn replace_takes_the_left_and_no_op_the_right_operand() {
    assert_eq!(
        reduce(Builtin::Replace, Named::Int, &[1, 2], &[3, 4]),
        Ok(vec![1, 2])
    );
    assert_eq!(
        reduce(Builtin::NoOp, Named::Int, &[1, 2], &[3, 4]),
        Ok(vec![3, 4])
    );
}

#[test]
fn user_functions_get_what_they_are_due() {
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    let minus = Op::user(
        Rc::new(move |input, inout: *mut u8, n, datatype| {
            count.set(n);
            assert_eq!(datatype.as_named(), Some(Named::Int));
            let (input, inout) = (input.cast::<i32>(), inout.cast::<i32>());
            for i in 0..n as usize {
                // SAFETY: the test passes `n` ints.
                unsafe { *inout.add(i) = *input.add(i) - *inout.add(i) };
            }
        }),
        false,
    );
    assert!(!minus.is_commutative() && Op::builtin(Builtin::Sum).is_commutative());
    let (left, mut right) = ([10i32, 20], [1i32, 2]);
    // SAFETY: both arrays hold two ints.
    let done = unsafe {
        let inout = right.as_mut_ptr().cast();
        minus.apply(left.as_ptr().cast(), inout, 2, &Datatype::named(Named::Int))
    };
    assert_eq!((done, right, seen.get()), (Ok(()), [9, 18], 2));
}

#[test]
fn pairs_without_a_name_are_compared_too() {
    let (float, long) = (Datatype::named(Named::Float), Datatype::named(Named::Long));
    let pair = Datatype::value_index(&float, &long).unwrap();
    let at = |v: f32, i: i64| {
        let mut bytes = [0u8; 16];
        bytes[..4].copy_from_slice(&v.to_ne_bytes());
        bytes[8..].copy_from_slice(&i.to_ne_bytes());
        bytes
    };
    let (left, mut right) = (at(2.0, 5), at(2.0, 1 << 40));
    let op = Op::builtin(Builtin::Maxloc);
    // SAFETY: both arrays hold one pair.
    unsafe { op.apply(left.as_ptr(), right.as_mut_ptr(), 1, &pair) }.unwrap();
    assert_eq!(right, at(2.0, 5));
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[test]
fn long_doubles() {
    use super::long_double::LongDouble;
    let of = |v: f64| LongDouble::from_f64(v).bytes();
    let run = |b, n, a: &[[u8; 16]], c: &[[u8; 16]]| reduce(b, n, a, c).unwrap();
    let (a, b) = ([of(1.5), of(-2.0)], [of(2.25), of(7.0)]);
    let n = Named::LongDouble;
    assert_eq!(run(Builtin::Sum, n, &a, &b), [of(3.75), of(5.0)]);
    assert_eq!(run(Builtin::Prod, n, &a, &b), [of(3.375), of(-14.0)]);
    assert_eq!(run(Builtin::Min, n, &a, &b), [of(1.5), of(-2.0)]);
    assert_eq!(run(Builtin::Max, n, &a, &b), [of(2.25), of(7.0)]);
    let n = Named::CLongDoubleComplex;
    let join = |v: [[u8; 16]; 2]| vec![[v[0], v[1]]];
    let product = reduce(Builtin::Prod, n, &join(a), &join(b)).unwrap();
    assert_eq!(product, join([of(1.5 * 2.25 + 14.0), of(1.5 * 7.0 - 4.5)]));
}

/// Zeros of both signs, numbers and NaNs of binary64: an operand for each pair of them.
#[test]
fn the_smaller_and_the_larger_do_not_depend_on_the_order_of_operands() {
    let values: [f64; 8] = [
        0.0,
        -0.0,
        1.5,
        -1.5,
        f64::INFINITY,
        f64::NAN,
        -f64::NAN,
        f64::from_bits(f64::NAN.to_bits() | 1),
    ];
    let (a, b): (Vec<f64>, Vec<f64>) = values.iter().flat_map(|&a| values.map(|b| (a, b))).unzip();
    for builtin in [Builtin::Min, Builtin::Max] {
        let bits = |left: &[f64], right: &[f64]| -> Vec<u64> {
            let got = reduce(builtin, Named::Double, left, right).unwrap();
            got.iter().map(|x| x.to_bits()).collect()
        };
        assert_eq!(bits(&a, &b), bits(&b, &a), "{builtin:?}");
        let zero = bits(&[0.0], &[-0.0])[0];
        let wanted = if builtin == Builtin::Max {
            0.0f64
        } else {
            -0.0
        };
        assert_eq!(zero, wanted.to_bits());
    }
}

#[test]
fn only_what_has_no_rounding_and_no_order_is_exact() {
    let exact = |builtin, named| Op::builtin(builtin).is_exact(&Datatype::named(named));
    for builtin in [Builtin::Sum, Builtin::Prod] {
        assert!(exact(builtin, Named::Int) && !exact(builtin, Named::Double));
    }
    assert!(exact(Builtin::Max, Named::Double) && exact(Builtin::Bxor, Named::Int));
    assert!(!exact(Builtin::Maxloc, Named::DoubleInt) && !exact(Builtin::Replace, Named::Int));
    let users = Op::user(Rc::new(|_, _, _, _| ()), true);
    assert!(!users.is_exact(&Datatype::named(Named::Int)));
}
