//! Operations that move data.

use super::super::tuning::{
    AllgatherAlgorithm, AlltoallAlgorithm, BarrierAlgorithm, BcastAlgorithm, GatherAlgorithm,
    Tuning,
};
use super::super::{Blocks, gather, gatherv, scatter, scatterv};
use super::*;
use std::cell::Cell;
use std::rc::Rc;

/// Block sizes from nothing to several segments of a pipeline.
const LENGTHS: [usize; 5] = [0, 1, 7, 1000, 200_001];

fn lengths(size: usize) -> impl Iterator<Item = usize> {
    LENGTHS.into_iter().filter(move |&l| l * size < 1_100_000)
}

fn with(size: usize, seed: u64, tuning: Tuning) -> Run {
    Run {
        tuning,
        ..Run::new(size, seed)
    }
}

#[test]
fn barrier_lets_nobody_pass_early() {
    for size in SIZES {
        for algorithm in [BarrierAlgorithm::Dissemination, BarrierAlgorithm::Tree] {
            let tuning = Tuning {
                barrier: Some(algorithm),
                ..Tuning::default()
            };
            let entered = Rc::new(Cell::new(0));
            let results = with(size, size as u64, tuning).go(1, |ctx| {
                let entered = entered.clone();
                Box::pin(async move {
                    entered.set(entered.get() + 1);
                    barrier(&ctx[0]).await?;
                    assert_eq!(entered.get(), size);
                    Ok(())
                })
            });
            assert!(results.iter().all(Result::is_ok));
        }
    }
}

#[test]
fn bcast_reaches_all() {
    let algorithms = [
        BcastAlgorithm::Binomial,
        BcastAlgorithm::ScatterDoubling,
        BcastAlgorithm::ScatterRing,
        BcastAlgorithm::Chain,
    ];
    for size in SIZES {
        for len in lengths(size) {
            for algorithm in algorithms {
                let root = (len + 3) % size;
                let tuning = Tuning {
                    bcast: Some(algorithm),
                    ..Tuning::default()
                };
                let mut data = random(size, len, 1);
                let expected = data[root].clone();
                data = run(
                    with(size, len as u64, tuning),
                    &blank(size, 0),
                    &data,
                    |ctx, _, data| Box::pin(bcast(ctx, data, root)),
                );
                assert!(
                    data.iter().all(|d| *d == expected),
                    "{algorithm:?} n={size} {len}"
                );
            }
        }
    }
}

#[test]
fn gather_and_scatter() {
    for size in SIZES {
        for len in lengths(size) {
            for (algorithm, in_place) in [
                (GatherAlgorithm::Binomial, false),
                (GatherAlgorithm::Binomial, true),
                (GatherAlgorithm::Linear, false),
                (GatherAlgorithm::Linear, true),
            ] {
                let root = (len + 5) % size;
                let tuning = Tuning {
                    gather: Some(algorithm),
                    scatter: Some(algorithm),
                    ..Tuning::default()
                };
                let conditions = with(size, len as u64 + 7, tuning);
                let blocks = random(size, len, 2);
                let whole = concat(&blocks);
                let mut roots = blank(size, 0);
                roots[root] = vec![0xEE; size * len];
                if in_place {
                    roots[root][root * len..][..len].copy_from_slice(&blocks[root]);
                }
                let got = run(conditions, &blocks, &roots, |ctx, send, recv| {
                    let send = (!(in_place && ctx.rank() == root)).then_some(send);
                    Box::pin(gather(*ctx, send, recv, root).finish())
                });
                assert_eq!(got[root], whole, "gather {algorithm:?} n={size} {len}");

                roots[root].clone_from(&whole);
                let got = run(conditions, &roots, &blank(size, len), |ctx, send, recv| {
                    let recv = (!(in_place && ctx.rank() == root)).then_some(recv);
                    Box::pin(scatter(*ctx, send, recv, root).finish())
                });
                for (rank, block) in got.iter().enumerate() {
                    if !(in_place && rank == root) {
                        assert_eq!(*block, blocks[rank], "scatter {algorithm:?} n={size} {len}");
                    }
                }
            }
        }
    }
}

/// Blocks of different lengths, some empty, lying apart and in a different order.
fn uneven(size: usize) -> (Vec<usize>, Vec<usize>, usize) {
    let lengths: Vec<usize> = (0..size).map(|i| (i * 37 + 5) % 11 * 13).collect();
    let mut at = vec![0; size];
    let mut end = 0;
    for i in (0..size).rev() {
        at[i] = end + 3;
        end = at[i] + lengths[i];
    }
    (lengths, at, end)
}

fn table(whole: Mem, lengths: &[usize], at: &[usize]) -> Vec<Mem> {
    if whole.is_empty() {
        return Vec::new();
    }
    lengths
        .iter()
        .zip(at)
        .map(|(&l, &a)| whole.part(a, l))
        .collect()
}

#[test]
fn v_forms_of_gather_and_scatter() {
    for size in SIZES {
        let (lengths, at, end) = uneven(size);
        let root = size / 2;
        let blocks: Buffers = (0..size)
            .map(|i| random(1, lengths[i], i as u64).remove(0))
            .collect();
        let mut roots = blank(size, 0);
        roots[root] = vec![0xEE; end];
        let mut whole = roots[root].clone();
        for i in 0..size {
            whole[at[i]..at[i] + lengths[i]].copy_from_slice(&blocks[i]);
        }
        let got = run(Run::new(size, 3), &blocks, &roots, |ctx, send, recv| {
            let recv = table(recv, &lengths, &at);
            Box::pin(async move {
                gatherv(*ctx, Some(send), Blocks::Table(&recv), root)
                    .finish()
                    .await
            })
        });
        assert_eq!(got[root], whole);
        roots[root].clone_from(&whole);
        let empty: Buffers = lengths.iter().map(|&l| vec![0xEE; l]).collect();
        let got = run(Run::new(size, 4), &roots, &empty, |ctx, send, recv| {
            let send = table(send, &lengths, &at);
            Box::pin(async move {
                scatterv(*ctx, Blocks::Table(&send), Some(recv), root)
                    .finish()
                    .await
            })
        });
        assert_eq!(got, blocks);
    }
}

const ALLGATHERS: [AllgatherAlgorithm; 3] = [
    AllgatherAlgorithm::Doubling,
    AllgatherAlgorithm::Bruck,
    AllgatherAlgorithm::Ring,
];

#[test]
fn allgather_equal_blocks() {
    for size in SIZES {
        for len in lengths(size * 4) {
            for algorithm in ALLGATHERS {
                for in_place in [false, true] {
                    let tuning = Tuning {
                        allgather: Some(algorithm),
                        ..Tuning::default()
                    };
                    let blocks = random(size, len, 2);
                    let mut recvs = blank(size, size * len);
                    for (rank, recv) in recvs.iter_mut().enumerate() {
                        recv[rank * len..][..len].copy_from_slice(&blocks[rank]);
                    }
                    let conditions = with(size, len as u64, tuning);
                    let got = run(conditions, &blocks, &recvs, |ctx, send, recv| {
                        let recv = Blocks::Uniform {
                            all: recv,
                            each: len,
                        };
                        Box::pin(allgather(ctx, (!in_place).then_some(send), recv))
                    });
                    let whole = concat(&blocks);
                    assert!(
                        got.iter().all(|g| *g == whole),
                        "{algorithm:?} n={size} {len}"
                    );
                }
            }
        }
    }
}

#[test]
fn allgather_uneven_blocks() {
    for size in SIZES {
        for algorithm in ALLGATHERS {
            let tuning = Tuning {
                allgather: Some(algorithm),
                ..Tuning::default()
            };
            let (lengths, at, end) = uneven(size);
            let blocks: Buffers = (0..size)
                .map(|i| random(1, lengths[i], i as u64).remove(0))
                .collect();
            let mut whole = vec![0xEE; end];
            for i in 0..size {
                whole[at[i]..at[i] + lengths[i]].copy_from_slice(&blocks[i]);
            }
            let got = run(
                with(size, 9, tuning),
                &blocks,
                &blank(size, end),
                |ctx, send, recv| {
                    let recv = table(recv, &lengths, &at);
                    Box::pin(async move { allgather(ctx, Some(send), Blocks::Table(&recv)).await })
                },
            );
            assert!(got.iter().all(|g| *g == whole), "{algorithm:?} n={size}");
        }
    }
}

#[test]
fn alltoall_equal_blocks() {
    for size in SIZES {
        for len in [0, 1, 9, 3000] {
            for algorithm in [
                AlltoallAlgorithm::Bruck,
                AlltoallAlgorithm::Pairwise,
                AlltoallAlgorithm::Windowed,
            ] {
                for in_place in [false, true] {
                    let tuning = Tuning {
                        alltoall: Some(algorithm),
                        ..Tuning::default()
                    };
                    let sends = random(size, size * len, 5);
                    let recvs = if in_place {
                        sends.clone()
                    } else {
                        blank(size, size * len)
                    };
                    let got = run(with(size, 1, tuning), &sends, &recvs, |ctx, send, recv| {
                        let blocks = |all| Blocks::Uniform { all, each: len };
                        let send = (!in_place).then(|| blocks(send));
                        Box::pin(alltoall(ctx, send, blocks(recv)))
                    });
                    for (rank, got) in got.iter().enumerate() {
                        let expected: Vec<u8> = sends
                            .iter()
                            .flat_map(|s| s[rank * len..][..len].to_vec())
                            .collect();
                        assert_eq!(*got, expected, "{algorithm:?} n={size} {len}");
                    }
                }
            }
        }
    }
}

#[test]
fn alltoall_uneven_blocks() {
    // From i to j go (3 i + 5 j) % 4 * 10 bytes; in place the amounts must be symmetric.
    for size in SIZES {
        for (algorithm, in_place) in [
            (AlltoallAlgorithm::Pairwise, false),
            (AlltoallAlgorithm::Windowed, false),
            (AlltoallAlgorithm::Windowed, true),
        ] {
            let tuning = Tuning {
                alltoall: Some(algorithm),
                ..Tuning::default()
            };
            let amount = |i: usize, j: usize| match in_place {
                true => (i + j) % 4 * 10,
                false => (3 * i + 5 * j) % 4 * 10,
            };
            let cut = |whole: Mem, amounts: Vec<usize>| {
                let mut at = 0;
                let mut blocks = Vec::new();
                for amount in amounts {
                    blocks.push(whole.part(at, amount));
                    at += amount;
                }
                blocks
            };
            let out = |i: usize| (0..size).map(|j| amount(i, j)).collect::<Vec<_>>();
            let into = |j: usize| (0..size).map(|i| amount(i, j)).collect::<Vec<_>>();
            let sends: Buffers = (0..size)
                .map(|i| random(1, out(i).iter().sum(), i as u64).remove(0))
                .collect();
            let recvs: Buffers = match in_place {
                true => sends.clone(),
                false => (0..size)
                    .map(|j| vec![0xEE; into(j).iter().sum()])
                    .collect(),
            };
            let got = run(with(size, 2, tuning), &sends, &recvs, |ctx, send, recv| {
                let send = cut(send, out(ctx.rank()));
                let recv = cut(recv, into(ctx.rank()));
                Box::pin(async move {
                    let send = (!in_place).then_some(Blocks::Table(&send));
                    alltoall(ctx, send, Blocks::Table(&recv)).await
                })
            });
            for (j, got) in got.iter().enumerate() {
                let mut expected = Vec::new();
                for (i, sent) in sends.iter().enumerate() {
                    let at: usize = (0..j).map(|k| amount(i, k)).sum();
                    expected.extend_from_slice(&sent[at..at + amount(i, j)]);
                }
                assert_eq!(*got, expected, "{algorithm:?} n={size} in_place={in_place}");
            }
        }
    }
}
