//! The engine's part of a send and a receive of 8 bytes: time for a message through two engines.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rejoin_benches::Pair;

const TAG: i32 = 5;
const BURST: usize = 64;

/// One message in each direction.
fn ping_pong(pair: &mut Pair, posted: bool, tag: Option<i32>) {
    for from in [0, 1] {
        let early = posted.then(|| pair.recv(1 - from, tag));
        pair.send(from, TAG);
        pair.transfer(from);
        let id = early.unwrap_or_else(|| pair.recv(1 - from, tag));
        pair.end(1 - from, id);
    }
}

/// Many messages in one direction that share a transfer.
fn burst(pair: &mut Pair, posted: bool) {
    let receives = |pair: &mut Pair| -> Vec<_> {
        let each = (0..BURST).map(|_| pair.recv(1, Some(TAG)));
        each.collect()
    };
    let early = posted.then(|| receives(pair));
    (0..BURST).for_each(|_| pair.send(0, TAG));
    pair.transfer(0);
    let ids = early.unwrap_or_else(|| receives(pair));
    ids.into_iter().for_each(|id| pair.end(1, id));
    pair.transfer(1);
}

fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    group.throughput(Throughput::Elements(2));
    for (name, posted, tag) in [
        ("ping-pong, posted", true, Some(TAG)),
        ("ping-pong, posted with wildcards", true, None),
        ("ping-pong, unexpected", false, Some(TAG)),
    ] {
        let mut pair = Pair::new();
        group.bench_function(name, |b| b.iter(|| ping_pong(&mut pair, posted, tag)));
    }
    group.throughput(Throughput::Elements(BURST as u64));
    for (name, posted) in [("burst, posted", true), ("burst, unexpected", false)] {
        let mut pair = Pair::new();
        group.bench_function(name, |b| b.iter(|| burst(&mut pair, posted)));
    }
    group.finish();
}

criterion_group!(benches, engine);
criterion_main!(benches);
