//! Ranks that share hosts, in all orders: the results, and the bits of reductions, which hosts must
//! not change.

use super::super::testnet::crossed;
use super::super::tuning::{AllreduceAlgorithm, Exchange, ReduceAlgorithm, Tuning};
use super::super::{Blocks, Split, reduce, reduce_scatter, scan};
use super::*;
use crate::adi::LocalCost;
use std::cell::Cell;
use std::rc::Rc;

/// The ways that operands may travel, and the hosts that make the usual tuning.
const WAYS: [(Option<Exchange>, Layout); 8] = [
    (Some(Exchange::Linear), Layout::Apart),
    (Some(Exchange::LinearBlocks), Layout::Apart),
    (None, Layout::One),
    (None, Layout::Rows(1)),
    (None, Layout::Rows(3)),
    (None, Layout::Rows(4)),
    (None, Layout::Dealt(3)),
    (None, Layout::Mixed(5, 4)),
];

/// Numbers of elements: one message, one for each rank and some, and for few ranks long ones.
fn counts(size: usize) -> impl Iterator<Item = usize> {
    [1, 2, 37, 5_000, 70_001]
        .into_iter()
        .filter(move |&c| c < 100 || (c < 10_000 && size < 10) || [2, 4, 7].contains(&size))
}

fn conditions(size: usize, tuning: Tuning, (exchange, layout): (Option<Exchange>, Layout)) -> Run {
    Run {
        tuning: Tuning { exchange, ..tuning },
        layout,
        ..Run::new(size, 9)
    }
}

const STEPS: (Option<Exchange>, Layout) = (Some(Exchange::Stepwise), Layout::Apart);

#[test]
fn an_allreduce_has_the_same_bits_whatever_the_hosts() {
    for size in (1..=17).chain([32]) {
        for (count, op) in counts(size).flat_map(|c| [(c, TestOp::Float), (c, TestOp::Affine)]) {
            let values = op.operands(size, count, 11);
            for algorithm in [
                None,
                Some(AllreduceAlgorithm::Doubling),
                Some(AllreduceAlgorithm::Rabenseifner),
                Some(AllreduceAlgorithm::Ring),
            ] {
                let tuning = Tuning {
                    allreduce: algorithm,
                    ..Tuning::default()
                };
                let all = |way, in_place: bool| {
                    let recvs = match in_place {
                        true => values.clone(),
                        false => blank(size, values[0].len()),
                    };
                    run(
                        conditions(size, tuning, way),
                        &values,
                        &recvs,
                        |ctx, send, recv| {
                            let send = (!in_place).then_some(send);
                            Box::pin(async move { allreduce(ctx, &op, send, recv).await })
                        },
                    )
                };
                let expected = all(STEPS, false);
                for way in WAYS {
                    for in_place in [false, true] {
                        assert!(
                            all(way, in_place) == expected,
                            "{algorithm:?} {op:?} n={size} {count} {way:?} in_place={in_place}"
                        );
                    }
                }
            }
        }
    }
}

/// An operation that is commutative except for its bits: all ranks still have the same result.
#[test]
fn all_ranks_have_the_same_of_an_operation_that_prefers_an_operand() {
    for size in [2, 3, 4, 8] {
        for count in [3, 1000, 40_000] {
            let values = TestOp::First.operands(size, count, 13);
            for way in WAYS {
                for in_place in [false, true] {
                    let recvs = match in_place {
                        true => values.clone(),
                        false => blank(size, values[0].len()),
                    };
                    let all = run(
                        conditions(size, Tuning::default(), way),
                        &values,
                        &recvs,
                        |ctx, send, recv| {
                            let send = (!in_place).then_some(send);
                            let op = TestOp::First;
                            Box::pin(async move { allreduce(ctx, &op, send, recv).await })
                        },
                    );
                    assert!(
                        all.windows(2).all(|two| two[0] == two[1]),
                        "n={size} {count} {way:?} in_place={in_place}"
                    );
                }
            }
        }
    }
}

/// In place on all ranks, on none, or on every second one.
#[test]
fn a_reduce_scatter_has_the_same_bits_whatever_the_hosts() {
    for size in (1..=17).chain([32]) {
        for count in [1, 9, 300] {
            let op = TestOp::Float;
            let values = op.operands(size, count * size, 14);
            let part = count * op.element();
            let all = |way, in_place: [bool; 2]| {
                let recvs: Vec<_> = (0..size)
                    .map(|rank| match in_place[rank % 2] {
                        true => values[rank].clone(),
                        false => vec![0xEE; part],
                    })
                    .collect();
                let conditions = conditions(size, Tuning::default(), way);
                let mut got = run(conditions, &values, &recvs, |ctx, send, recv| {
                    let send = (!in_place[ctx.rank() % 2]).then_some(send);
                    let split = Split::Uniform(count);
                    Box::pin(
                        async move { reduce_scatter(*ctx, &op, send, recv, split).finish().await },
                    )
                });
                got.iter_mut().for_each(|result| result.truncate(part));
                got
            };
            let expected = all(STEPS, [false, false]);
            for way in WAYS {
                for in_place in [[false, false], [true, true], [false, true]] {
                    assert!(
                        all(way, in_place) == expected,
                        "n={size} {count} {way:?} in_place={in_place:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_reduce_has_the_same_bits_whatever_the_hosts() {
    for size in (1..=17).chain([32]) {
        for (count, op) in counts(size).flat_map(|c| [(c, TestOp::Float), (c, TestOp::Affine)]) {
            let values = op.operands(size, count, 12);
            let root = (count + 1) % size;
            for algorithm in [
                None,
                Some(ReduceAlgorithm::Binomial),
                Some(ReduceAlgorithm::Rabenseifner),
            ] {
                let tuning = Tuning {
                    reduce: algorithm,
                    ..Tuning::default()
                };
                let all = |way, in_place: bool| {
                    let mut recvs = blank(size, 0);
                    recvs[root] = match in_place {
                        true => values[root].clone(),
                        false => vec![0xEE; values[0].len()],
                    };
                    let conditions = conditions(size, tuning, way);
                    let got = run(conditions, &values, &recvs, |ctx, send, recv| {
                        let send = (!(in_place && ctx.rank() == root)).then_some(send);
                        Box::pin(async move { reduce(*ctx, &op, send, recv, root).finish().await })
                    });
                    got[root].clone()
                };
                let expected = all(STEPS, false);
                for way in WAYS {
                    for in_place in [false, true] {
                        assert!(
                            all(way, in_place) == expected,
                            "{algorithm:?} {op:?} n={size} {count} root={root} {way:?} in_place={in_place}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_scan_has_the_same_bits_whatever_the_hosts() {
    for size in (2..=9).chain([16]) {
        for (count, op) in counts(size).flat_map(|c| [(c, TestOp::Float), (c, TestOp::Affine)]) {
            let values = op.operands(size, count, 14);
            for exclusive in [false, true] {
                let all = |way| {
                    let conditions = conditions(size, Tuning::default(), way);
                    let recvs = blank(size, values[0].len());
                    run(conditions, &values, &recvs, |ctx, send, recv| {
                        let scan = async move {
                            scan(*ctx, &op, Some(send), recv, exclusive).finish().await
                        };
                        Box::pin(scan)
                    })
                };
                let expected = all(STEPS);
                for way in WAYS {
                    let same = all(way) == expected;
                    assert!(
                        same,
                        "{op:?} n={size} {count} {way:?} exclusive={exclusive}"
                    );
                }
            }
        }
    }
}

const LAYOUTS: [Layout; 7] = [
    Layout::One,
    Layout::Rows(2),
    Layout::Rows(5),
    Layout::Dealt(2),
    Layout::Dealt(3),
    Layout::Mixed(1, 3),
    Layout::Mixed(2, 5),
];

fn on(layout: Layout, size: usize) -> Run {
    conditions(size, Tuning::default(), (None, layout))
}

#[test]
fn a_barrier_over_hosts_lets_nobody_pass_early() {
    for (layout, size) in LAYOUTS.into_iter().flat_map(|l| SIZES.map(|n| (l, n))) {
        let entered = Rc::new(Cell::new(0));
        let results = on(layout, size).go(1, |ctx| {
            let entered = entered.clone();
            Box::pin(async move {
                entered.set(entered.get() + 1);
                barrier(&ctx[0]).await?;
                assert_eq!(entered.get(), size, "{layout:?}");
                Ok(())
            })
        });
        assert!(results.iter().all(Result::is_ok), "{layout:?} n={size}");
    }
}

#[test]
fn data_reaches_all_ranks_of_all_hosts() {
    for (layout, size) in LAYOUTS.into_iter().flat_map(|l| SIZES.map(|n| (l, n))) {
        for len in [1, 700, 30_000] {
            let blocks = random(size, len, 3);
            for root in [0, size / 2, size - 1] {
                let got = run(
                    on(layout, size),
                    &blank(size, 0),
                    &blocks,
                    |ctx, _, data| Box::pin(bcast(ctx, data, root)),
                );
                assert!(
                    got.iter().all(|g| *g == blocks[root]),
                    "{layout:?} n={size} {len} root={root}"
                );
            }
            if size * len > 200_000 {
                continue;
            }
            // Blocks of different lengths, and none of some ranks.
            let uneven: Buffers = (0..size)
                .map(|i| blocks[i][..len * (i % 3) / 2].to_vec())
                .collect();
            for blocks in [&blocks, &uneven] {
                let whole = concat(blocks);
                let starts: Vec<usize> = blocks
                    .iter()
                    .scan(0, |end, b| {
                        *end += b.len();
                        Some(*end - b.len())
                    })
                    .collect();
                let got = run(
                    on(layout, size),
                    blocks,
                    &blank(size, whole.len()),
                    |ctx, s, r| {
                        let table: Vec<Mem> = (0..size)
                            .map(|i| r.part(starts[i], blocks[i].len()))
                            .collect();
                        Box::pin(
                            async move { allgather(ctx, Some(s), Blocks::Table(&table)).await },
                        )
                    },
                );
                assert!(got.iter().all(|g| *g == whole), "{layout:?} n={size} {len}");
            }
        }
    }
}

#[test]
fn exact_operations_go_host_by_host_and_others_do_when_asked() {
    for (layout, size) in LAYOUTS.into_iter().flat_map(|l| SIZES.map(|n| (l, n))) {
        for (count, op) in [
            (1, TestOp::Sum),
            (3_000, TestOp::Odd),
            (300, TestOp::Float),
            (40, TestOp::Affine),
        ] {
            let tuning = Tuning {
                by_hosts: true,
                ..Tuning::default()
            };
            let cost = match size % 2 {
                0 => LocalCost::SystemCall,
                _ => LocalCost::Copy,
            };
            let conditions = Run {
                cost,
                ..conditions(size, tuning, (None, layout))
            };
            let values = op.operands(size, count, 4);
            let all = run(
                conditions,
                &values,
                &blank(size, values[0].len()),
                |ctx, s, r| Box::pin(async move { allreduce(ctx, &op, Some(s), r).await }),
            );
            assert!(
                all.iter().all(|g| *g == all[0]),
                "{op:?} {layout:?} n={size}"
            );
            let root = size / 2;
            let one = run(conditions, &values, &values, |ctx, s, r| {
                let send = (ctx.rank() != root).then_some(s);
                Box::pin(async move { reduce(*ctx, &op, send, r, root).finish().await })
            });
            if !matches!(op, TestOp::Float) {
                assert_eq!(all[0], op.all(&values), "{op:?} {layout:?} n={size}");
                assert_eq!(one[root], all[0], "{op:?} {layout:?} n={size}");
            }
        }
    }
}

/// How many messages cross between hosts, which is what the levels are for.
#[test]
fn hosts_are_crossed_once_each() {
    let layout = Layout::Dealt(2);
    let crossings = |body: for<'a> fn(&'a TestCtx<'a>, Mem) -> Fut<'a>| {
        let conditions = on(layout, 8);
        let (mut data, before) = (random(8, 64, 1), crossed());
        let into: Vec<Mem> = data.iter_mut().map(mem).collect();
        let results = conditions.go(1, |ctx| body(&ctx[0], into[ctx[0].rank()]));
        assert!(results.iter().all(Result::is_ok));
        crossed() - before
    };
    assert_eq!(crossings(|ctx, data| Box::pin(bcast(ctx, data, 3))), 1);
    assert_eq!(crossings(|ctx, _| Box::pin(barrier(ctx))), 2);
    assert_eq!(
        crossings(|ctx, data| Box::pin(allreduce(ctx, &TestOp::Sum, None, data))),
        2
    );
    assert_eq!(
        crossings(|ctx, data| Box::pin(reduce(*ctx, &TestOp::Sum, Some(data), data, 5).finish())),
        1
    );
}
