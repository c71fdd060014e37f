//! Datatypes against a naive expansion of their type maps, and the rules one by one.

mod rules;

mod reference;

use std::rc::Rc;

use proptest::prelude::*;

use super::{Datatype, Form, Named, transfer};
use reference::{Recipe, TypeMap, recipes};

/// Most bytes of a random case: larger ones only cost time.
const LIMIT: i64 = 40_000;

/// Memory around a buffer's address, filled with a pattern.
struct Memory {
    bytes: Vec<u8>,
    low: i64,
}

impl Memory {
    fn for_stream(stream: &[i64], fill: impl Fn(usize) -> u8) -> Self {
        let low = stream.iter().copied().min().unwrap_or(0);
        let high = stream.iter().copied().max().unwrap_or(-1) + 1;
        Self {
            bytes: (0..(high - low).max(0) as usize).map(fill).collect(),
            low,
        }
    }

    fn base(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_offset(-self.low as isize)
    }

    fn at(&mut self, address: i64) -> &mut u8 {
        &mut self.bytes[(address - self.low) as usize]
    }
}

fn pattern(i: usize) -> u8 {
    (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]
}

fn pack_range(t: &Datatype, count: i64, memory: &mut Memory, from: usize, to: usize) -> Vec<u8> {
    let mut out = vec![0xee; to - from];
    // SAFETY: the memory covers every byte of the stream.
    let n = unsafe {
        t.pack(
            count,
            memory.base(),
            from as i64,
            out.as_mut_ptr(),
            to - from,
        )
    };
    assert_eq!(n, to - from);
    out
}

/// A case small enough to be worth running.
fn small(map: &TypeMap, count: i64) -> Option<Vec<i64>> {
    let (low, high) = map.true_bounds().unwrap_or((0, 0));
    let span = (high - low) + map.extent().abs() * count;
    (map.size() * count <= LIMIT && span <= 50 * LIMIT).then(|| map.stream(count))
}

fn check_numbers(t: &Datatype, map: &TypeMap) {
    let (lb, ub) = map.bounds();
    assert_eq!((t.size(), t.lb(), t.ub()), (map.size(), lb, ub));
    assert_eq!(t.extent(), map.extent());
    let (low, high) = map.true_bounds().unwrap_or((0, 0));
    assert_eq!((t.true_lb(), t.true_extent()), (low, high - low));
    assert_eq!(t.elements(), map.entries.len() as i64);
}

fn check_packing(t: &Datatype, count: i64, stream: &[i64], cuts: &[prop::sample::Index]) {
    let mut memory = Memory::for_stream(stream, pattern);
    let expected: Vec<u8> = stream.iter().map(|a| *memory.at(*a)).collect();
    let n = expected.len();
    assert_eq!(pack_range(t, count, &mut memory, 0, n), expected);
    if let Some(offset) = t.contiguous_offset(count) {
        let inside = stream.iter().enumerate();
        assert!(inside.clone().all(|(i, a)| *a == offset + i as i64));
    }
    let (low, span) = t.span(count).unwrap();
    assert_eq!(span, memory.bytes.len() as i64);
    assert!(span == 0 || low == memory.low);

    // In segments, at any byte.
    let mut cuts: Vec<_> = cuts.iter().map(|c| c.index(n + 1)).collect();
    cuts.extend([0, n]);
    cuts.sort_unstable();
    for w in cuts.windows(2) {
        let piece = pack_range(t, count, &mut memory, w[0], w[1]);
        assert_eq!(piece, expected[w[0]..w[1]]);
    }

    // And back: in stream order, so that the last of overlapping bytes wins.
    let fresh: Vec<u8> = (0..n).map(|i| pattern(i + 77_777)).collect();
    let mut wanted = Memory::for_stream(stream, |_| 0x55);
    for (a, b) in stream.iter().zip(&fresh) {
        *wanted.at(*a) = *b;
    }
    let mut whole = Memory::for_stream(stream, |_| 0x55);
    let mut pieces = Memory::for_stream(stream, |_| 0x55);
    // SAFETY: both memories cover every byte of the stream.
    unsafe {
        assert_eq!(t.unpack(count, whole.base(), 0, fresh.as_ptr(), n), n);
        for w in cuts.windows(2) {
            let piece = &fresh[w[0]..w[1]];
            t.unpack(
                count,
                pieces.base(),
                w[0] as i64,
                piece.as_ptr(),
                piece.len(),
            );
        }
    }
    assert_eq!(whole.bytes, wanted.bytes);
    assert_eq!(pieces.bytes, wanted.bytes);
}

fn check_elements(t: &Datatype, map: &TypeMap, count: i64) {
    let mut ends = vec![0];
    for _ in 0..count {
        for (_, n) in &map.entries {
            ends.push(ends.last().unwrap() + n.scalar().unwrap().size() as i64);
        }
    }
    for bytes in 0..=map.size() * count {
        let whole = ends.binary_search(&bytes).ok().map(|i| i as i64);
        assert_eq!(t.elements_in(bytes), whole, "{bytes} bytes");
        if let Some(n) = whole {
            assert_eq!(t.bytes_of_elements(n), Some(bytes));
        }
        let fits = bytes == 0 || bytes % map.size() == 0;
        assert_eq!(t.count_in(bytes), fits.then(|| bytes / map.size().max(1)));
    }
}

fn check_all(recipe: &Recipe, count: i64, cuts: &[prop::sample::Index]) {
    let map = recipe.expand();
    let Some(stream) = small(&map, count) else {
        return;
    };
    for form in [Form::Int, Form::Large] {
        let t = recipe.build(form).unwrap();
        check_numbers(&t, &map);
        check_packing(&t, count, &stream, cuts);
    }
    if map.size() * count < 1000 {
        check_elements(&recipe.build(Form::Int).unwrap(), &map, count);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 1500 }))]

    #[test]
    fn packing_follows_the_type_map(
        recipe in recipes(),
        count in 0i64..4,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        check_all(&recipe, count, &cuts);
    }

    #[test]
    fn external32_comes_back(recipe in recipes(), count in 0i64..3) {
        let map = recipe.expand();
        if let Some(stream) = small(&map, count) {
            external_round_trip(&recipe.build(Form::Int).unwrap(), count, &stream);
        }
    }
}

/// Checks that each byte of a type without overlaps survives `external32`; long doubles only as
/// far as they are valid numbers, so those types are skipped.
fn external_round_trip(t: &Rc<Datatype>, count: i64, stream: &[i64]) {
    let mut unique = stream.to_vec();
    unique.sort_unstable();
    unique.dedup();
    if unique.len() != stream.len() || t.alignment() == 16 {
        return;
    }
    let mut memory = Memory::for_stream(stream, pattern);
    let mut back = Memory::for_stream(stream, pattern);
    let mut external = vec![0; t.external_size(count).unwrap() as usize];
    // SAFETY: both memories cover the stream.
    unsafe {
        let n = t
            .pack_external(count, memory.base(), &mut external)
            .unwrap();
        assert_eq!(n, external.len());
        for a in stream {
            *back.at(*a) = 0;
        }
        t.unpack_external(count, back.base(), &external).unwrap();
    }
    assert_eq!(memory.bytes, back.bytes);
}

#[test]
fn absolute_addresses_reach_several_objects() {
    let (a, b) = ([1i32, 2, 3], [4.5f64]);
    let places = [
        a.as_ptr().expose_provenance() as i64 + 4,
        b.as_ptr().expose_provenance() as i64,
    ];
    let types = [Datatype::named(Named::Int), Datatype::named(Named::Double)];
    let t = Datatype::structure(Form::Int, &[2, 1], &places, &types).unwrap();
    let mut out = [0u8; 16];
    // SAFETY: the displacements are addresses of live objects.
    let n = unsafe { t.pack(1, std::ptr::null(), 0, out.as_mut_ptr(), 16) };
    assert_eq!(n, 16);
    assert_eq!(out[..4], 2i32.to_ne_bytes());
    assert_eq!(out[8..], 4.5f64.to_ne_bytes());
}

#[test]
fn transfer_joins_two_scattered_layouts() {
    let n = if cfg!(miri) { 3_000 } else { 20_000 };
    let int = Datatype::named(Named::Int);
    let from_type = Datatype::vector(Form::Int, n, 1, 2, &int).unwrap();
    let to_type = Datatype::vector(Form::Int, n / 2, 2, 3, &int).unwrap();
    let from: Vec<i32> = (0..2 * n as i32).collect();
    let mut to = vec![-1i32; 3 * n as usize / 2];
    let (a, b) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
    // SAFETY: both vectors cover their layouts.
    let moved = unsafe { transfer((a, 1, &from_type), (b, 1, &to_type)) };
    assert_eq!(moved, 4 * n);
    for (i, v) in to.iter().enumerate() {
        let (block, place) = (i / 3, i % 3);
        let wanted = if place == 2 {
            -1
        } else {
            2 * (2 * block + place) as i32
        };
        assert_eq!(*v, wanted);
    }
}
