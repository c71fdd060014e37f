//! What hosts may not change: the bits of a reduction.

use super::super::select::{Allreduce, Choice, Near, Reduce};
use super::super::{allreduce, reduce};
use super::*;

/// The ways that operands may travel, and the hosts that make the usual choice.
const WAYS: [(Option<Near>, Layout); 8] = [
    (Some(Near::Flat), Layout::Apart),
    (Some(Near::Direct), Layout::Apart),
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

fn conditions(size: usize, choice: Choice, (near, layout): (Option<Near>, Layout)) -> Run {
    Run {
        choice: Choice { near, ..choice },
        layout,
        ..Run::new(size, 9)
    }
}

const STEPS: (Option<Near>, Layout) = (Some(Near::Steps), Layout::Apart);

#[test]
fn an_allreduce_has_the_same_bits_whatever_the_hosts() {
    for size in (1..=17).chain([32]) {
        for (count, op) in counts(size).flat_map(|c| [(c, TestOp::Float), (c, TestOp::Affine)]) {
            let values = op.operands(size, count, 11);
            for algorithm in [
                None,
                Some(Allreduce::Doubling),
                Some(Allreduce::Rabenseifner),
                Some(Allreduce::Ring),
            ] {
                let choice = Choice {
                    allreduce: algorithm,
                    ..Choice::default()
                };
                let all = |way, in_place: bool| {
                    let recvs = match in_place {
                        true => values.clone(),
                        false => blank(size, values[0].len()),
                    };
                    run(
                        conditions(size, choice, way),
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

#[test]
fn a_reduce_has_the_same_bits_whatever_the_hosts() {
    for size in (1..=17).chain([32]) {
        for (count, op) in counts(size).flat_map(|c| [(c, TestOp::Float), (c, TestOp::Affine)]) {
            let values = op.operands(size, count, 12);
            let root = (count + 1) % size;
            for algorithm in [None, Some(Reduce::Binomial), Some(Reduce::Rabenseifner)] {
                let choice = Choice {
                    reduce: algorithm,
                    ..Choice::default()
                };
                let all = |way, in_place: bool| {
                    let mut recvs = blank(size, 0);
                    recvs[root] = match in_place {
                        true => values[root].clone(),
                        false => vec![0xEE; values[0].len()],
                    };
                    let conditions = conditions(size, choice, way);
                    let got = run(conditions, &values, &recvs, |ctx, send, recv| {
                        let send = (!(in_place && ctx.rank() == root)).then_some(send);
                        Box::pin(async move { reduce(ctx, &op, send, recv, root).await })
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
