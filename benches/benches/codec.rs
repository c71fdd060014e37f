//! Encoding and decoding: headers of frames between ranks, and messages between ranks and managers.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rejoin_benches::Pair;
use rejoin_channel_table::{Epoch, Generation, ImageId};
use rejoin_engine::{HEADER_LEN, Header};
use rejoin_wire::ToManager;
use rejoin_wire::codec::{FrameReader, encode};

/// Most bytes of a message here.
const LIMIT: usize = 1 << 20;

fn headers(c: &mut Criterion) {
    let mut pair = Pair::new();
    pair.send(0, 7);
    let bytes = pair.written(0);
    let bytes: &[u8; HEADER_LEN] = bytes.first_chunk().expect("a header");
    let header = Header::decode(bytes).expect("a header");
    let mut group = c.benchmark_group("header");
    group.bench_function("encode", |b| b.iter(|| black_box(&header).encode()));
    group.bench_function("decode", |b| b.iter(|| Header::decode(black_box(bytes))));
    group.finish();
}

fn messages(c: &mut Criterion) {
    let mut group = c.benchmark_group("message");
    for length in [16, 4096] {
        let message = ToManager::NotImaged {
            generation: Generation(1),
            image: ImageId::Checkpoint(Epoch(2)),
            why: "x".repeat(length),
            outlives: false,
        };
        let mut out = Vec::new();
        group.bench_function(BenchmarkId::new("encode", length), |b| {
            b.iter(|| {
                out.clear();
                encode(black_box(&message), LIMIT, &mut out)
            });
        });
        let mut reader = FrameReader::new(LIMIT);
        group.bench_function(BenchmarkId::new("decode", length), |b| {
            b.iter(|| {
                reader.push(&out);
                reader.next::<ToManager>().expect("a message")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, headers, messages);
criterion_main!(benches);
