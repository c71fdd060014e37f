//! How long a match takes with many others waiting: posted receives, and unexpected messages.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rejoin_benches::Pair;

/// The tag of the message that is matched; those that wait have others.
const TAG: i32 = 0;

fn matching(c: &mut Criterion) {
    let mut group = c.benchmark_group("matching");
    for waiting in [0, 16, 256, 4096] {
        let id = BenchmarkId::new("behind posted receives", waiting);
        let mut pair = Pair::new();
        for tag in 1..=waiting {
            pair.recv(1, Some(tag));
        }
        group.bench_function(id, |b| {
            b.iter(|| {
                let id = pair.recv(1, Some(TAG));
                pair.send(0, TAG);
                pair.transfer(0);
                pair.end(1, id);
                pair.transfer(1);
            });
        });
        let id = BenchmarkId::new("behind unexpected messages", waiting);
        let mut pair = Pair::new();
        for tag in 1..=waiting {
            pair.send(0, tag);
            pair.transfer(0);
            pair.transfer(1);
        }
        group.bench_function(id, |b| {
            b.iter(|| {
                pair.send(0, TAG);
                pair.transfer(0);
                let id = pair.recv(1, Some(TAG));
                pair.end(1, id);
                pair.transfer(1);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, matching);
criterion_main!(benches);
