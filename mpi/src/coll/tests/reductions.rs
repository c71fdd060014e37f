//! Operations that reduce.

use super::super::tuning::{
    AllreduceAlgorithm, Exchange, ReduceAlgorithm, ReduceScatterAlgorithm, ScanAlgorithm, Tuning,
};
use super::super::{Split, reduce, reduce_scatter, scan};
use super::*;

const OPS: [TestOp; 3] = [TestOp::Sum, TestOp::Affine, TestOp::Odd];

/// Element counts: all numbers of ranks with the small ones, a few with vectors that are long
/// enough for messages in several pieces.
fn counts(size: usize) -> impl Iterator<Item = usize> {
    [0, 1, 5, 300, 20_001]
        .into_iter()
        .filter(move |&c| c < 300 || (size < 9 && c < 1000) || [2, 3, 5].contains(&size))
}

fn with(size: usize, seed: u64, tuning: Tuning) -> Run {
    Run {
        tuning,
        ..Run::new(size, seed)
    }
}

#[test]
fn reduce_to_any_root() {
    for size in SIZES {
        for count in counts(size) {
            for (algorithm, op) in [ReduceAlgorithm::Binomial, ReduceAlgorithm::Rabenseifner]
                .into_iter()
                .flat_map(|a| OPS.map(|op| (a, op)))
            {
                let root = (count + 2) % size;
                let tuning = Tuning {
                    reduce: Some(algorithm),
                    ..Tuning::default()
                };
                let values = op.operands(size, count, 1);
                let expected = op.all(&values);
                for in_place in [false, true] {
                    let mut recvs = blank(size, 0);
                    recvs[root] = match in_place {
                        true => values[root].clone(),
                        false => vec![0xEE; expected.len()],
                    };
                    let conditions = with(size, count as u64, tuning);
                    let got = run(conditions, &values, &recvs, |ctx, send, recv| {
                        let send = (!(in_place && ctx.rank() == root)).then_some(send);
                        Box::pin(async move { reduce(*ctx, &op, send, recv, root).finish().await })
                    });
                    assert_eq!(got[root], expected, "{algorithm:?} {op:?} n={size} {count}");
                }
            }
        }
    }
}

const ALLREDUCES: [AllreduceAlgorithm; 3] = [
    AllreduceAlgorithm::Doubling,
    AllreduceAlgorithm::Rabenseifner,
    AllreduceAlgorithm::Ring,
];

fn run_allreduce(conditions: Run, op: TestOp, values: &Buffers, in_place: bool) -> Buffers {
    let recvs = match in_place {
        true => values.clone(),
        false => blank(values.len(), values[0].len()),
    };
    run(conditions, values, &recvs, |ctx, send, recv| {
        let send = (!in_place).then_some(send);
        Box::pin(async move { allreduce(ctx, &op, send, recv).await })
    })
}

#[test]
fn allreduce_everywhere() {
    for size in SIZES {
        for count in counts(size) {
            for algorithm in ALLREDUCES {
                for op in OPS {
                    let tuning = Tuning {
                        allreduce: Some(algorithm),
                        ..Tuning::default()
                    };
                    let values = op.operands(size, count, 3);
                    let expected = op.all(&values);
                    for in_place in [false, true] {
                        let got = run_allreduce(with(size, 4, tuning), op, &values, in_place);
                        assert!(
                            got.iter().all(|g| *g == expected),
                            "{algorithm:?} {op:?} n={size} {count}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn floats_have_the_same_bits_on_all_ranks_and_in_all_runs() {
    for size in SIZES {
        for count in [1, 100, 5000] {
            for algorithm in ALLREDUCES {
                let tuning = Tuning {
                    allreduce: Some(algorithm),
                    ..Tuning::default()
                };
                let values = TestOp::Float.operands(size, count, 8);
                let first = run_allreduce(with(size, 1, tuning), TestOp::Float, &values, false);
                assert!(
                    first.iter().all(|f| *f == first[0]),
                    "ranks differ: {algorithm:?} n={size} {count}"
                );
                let again = run_allreduce(with(size, 77, tuning), TestOp::Float, &values, false);
                assert_eq!(first, again, "timing shows: {algorithm:?} n={size} {count}");
            }
        }
    }
}

#[test]
fn reduce_scatter_block_and_v() {
    for size in SIZES {
        for count in [0, 1, 40].into_iter().chain((size < 8).then_some(3000)) {
            for (algorithm, op) in [
                ReduceScatterAlgorithm::Halving,
                ReduceScatterAlgorithm::Pairwise,
                ReduceScatterAlgorithm::Ordered,
            ]
            .into_iter()
            .flat_map(|a| OPS.map(|op| (a, op)))
            {
                for in_place in [false, true] {
                    let even = vec![count; size];
                    check_reduce_scatter(algorithm, op, &even, true, in_place);
                    let uneven: Vec<_> = (0..size).map(|i| (i * 5 + 2) % 4 * count).collect();
                    check_reduce_scatter(algorithm, op, &uneven, false, in_place);
                }
            }
        }
    }
}

fn check_reduce_scatter(
    algorithm: ReduceScatterAlgorithm,
    op: TestOp,
    counts: &[usize],
    uniform: bool,
    in_place: bool,
) {
    let size = counts.len();
    let total: usize = counts.iter().sum();
    if total * op.element() > 300_000 {
        return;
    }
    let tuning = Tuning {
        reduce_scatter: Some(algorithm),
        ..Tuning::default()
    };
    let mut offsets = vec![0];
    for count in counts {
        offsets.push(offsets[offsets.len() - 1] + count);
    }
    let values = op.operands(size, total, 6);
    let expected = op.all(&values);
    let recvs = match in_place {
        true => values.clone(),
        false => counts
            .iter()
            .map(|c| vec![0xEE; c * op.element()])
            .collect(),
    };
    let each = counts[0];
    let got = run(with(size, 6, tuning), &values, &recvs, |ctx, send, recv| {
        let offsets = offsets.clone();
        let send = (!in_place).then_some(send);
        Box::pin(async move {
            let split = match uniform {
                true => Split::Uniform(each),
                false => Split::Offsets(&offsets),
            };
            reduce_scatter(*ctx, &op, send, recv, split).finish().await
        })
    });
    for rank in 0..size {
        let bytes = offsets[rank] * op.element()..offsets[rank + 1] * op.element();
        assert_eq!(
            got[rank][..bytes.len()],
            expected[bytes],
            "{algorithm:?} {op:?} n={size} {counts:?} in_place={in_place}"
        );
    }
}

#[test]
fn scan_and_exscan() {
    for size in SIZES {
        for count in counts(size) {
            let ways = [
                (ScanAlgorithm::Doubling, Exchange::Stepwise),
                (ScanAlgorithm::Doubling, Exchange::Linear),
                (ScanAlgorithm::Chain, Exchange::Stepwise),
            ];
            for (way, op) in ways.into_iter().flat_map(|w| OPS.map(|op| (w, op))) {
                let tuning = Tuning {
                    scan: Some(way.0),
                    exchange: Some(way.1),
                    ..Tuning::default()
                };
                let values = op.operands(size, count, 1);
                for (exclusive, in_place) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    let recvs = match in_place {
                        true => values.clone(),
                        false => blank(size, count * op.element()),
                    };
                    let got = run(with(size, 5, tuning), &values, &recvs, |ctx, send, recv| {
                        let send = (!in_place).then_some(send);
                        Box::pin(
                            async move { scan(*ctx, &op, send, recv, exclusive).finish().await },
                        )
                    });
                    for rank in 0..size {
                        let expected = match (exclusive, rank) {
                            (true, 0) => recvs[0].clone(),
                            (true, _) => op.all(&values[..rank]),
                            (false, _) => op.all(&values[..=rank]),
                        };
                        assert_eq!(
                            got[rank], expected,
                            "{way:?} {op:?} n={size} {count} exclusive={exclusive}"
                        );
                    }
                }
            }
        }
    }
}
