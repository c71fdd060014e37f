//! Packing and unpacking of a megabyte in several layouts, beside a plain copy.

use std::rc::Rc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rejoin_mpi::datatype::{Datatype, Form, Named};

/// Bytes of packed data.
const BYTES: usize = 1 << 20;

/// Datatypes of doubles with the size of `BYTES`, by name.
fn layouts() -> Vec<(&'static str, Rc<Datatype>)> {
    let double = Datatype::named(Named::Double);
    let count = (BYTES / 8) as i64;
    let row = Datatype::contiguous(Form::Int, count, &double);
    let column = Datatype::vector(Form::Int, count, 1, 2, &double);
    let blocks = Datatype::vector(Form::Int, count / 64, 64, 96, &double);
    let displacements: Vec<i64> = (0..count / 8).map(|i| i * 24 + i % 5).collect();
    let indexed = Datatype::indexed_block(Form::Int, 8, &displacements, &double);
    let made = [
        ("row", row),
        ("every second", column),
        ("blocks of 512 B", blocks),
    ];
    let made = made
        .into_iter()
        .chain([("indexed blocks of 64 B", indexed)]);
    made.map(|(name, t)| (name, t.expect("a datatype")))
        .collect()
}

fn datatypes(c: &mut Criterion) {
    let mut group = c.benchmark_group("datatypes");
    group.throughput(Throughput::Bytes(BYTES as u64));
    let mut packed = vec![1u8; BYTES];
    for (name, layout) in layouts() {
        assert_eq!(layout.size(), BYTES as i64, "{name}");
        let mut memory = vec![2u8; layout.ub() as usize];
        group.bench_function(format!("pack: {name}"), |b| {
            b.iter(|| {
                let (from, to) = (memory.as_ptr(), packed.as_mut_ptr());
                // SAFETY: both buffers are as long as the datatype and its packed form.
                unsafe { layout.pack(1, from, 0, to, BYTES) }
            });
        });
        group.bench_function(format!("unpack: {name}"), |b| {
            b.iter(|| {
                let (to, from) = (memory.as_mut_ptr(), packed.as_ptr());
                // SAFETY: both buffers are as long as the datatype and its packed form.
                unsafe { layout.unpack(1, to, 0, from, BYTES) }
            });
        });
    }
    let plain = vec![3u8; BYTES];
    group.bench_function("plain copy", |b| b.iter(|| packed.copy_from_slice(&plain)));
    group.finish();
}

criterion_group!(benches, datatypes);
criterion_main!(benches);
