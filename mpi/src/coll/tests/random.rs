//! Random numbers of ranks, counts, roots and algorithms.

use super::super::tuning::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, Exchange,
    GatherAlgorithm, ReduceAlgorithm, ReduceScatterAlgorithm, ScanAlgorithm, Tuning,
};
use super::super::{Blocks, Split, gather, reduce, reduce_scatter, scan, scatter};
use super::*;
use crate::adi::LocalCost;
use proptest::prelude::*;
use proptest::sample::select;

fn choices() -> impl Strategy<Value = Tuning> {
    let moves = (
        select(vec![
            BcastAlgorithm::Binomial,
            BcastAlgorithm::ScatterDoubling,
            BcastAlgorithm::ScatterRing,
            BcastAlgorithm::Chain,
        ]),
        select(vec![GatherAlgorithm::Binomial, GatherAlgorithm::Linear]),
        select(vec![
            AllgatherAlgorithm::Doubling,
            AllgatherAlgorithm::Bruck,
            AllgatherAlgorithm::Ring,
        ]),
        select(vec![
            AlltoallAlgorithm::Bruck,
            AlltoallAlgorithm::Pairwise,
            AlltoallAlgorithm::Windowed,
        ]),
    );
    let reductions = (
        select(vec![
            ReduceAlgorithm::Binomial,
            ReduceAlgorithm::Rabenseifner,
        ]),
        select(vec![
            AllreduceAlgorithm::Doubling,
            AllreduceAlgorithm::Rabenseifner,
            AllreduceAlgorithm::Ring,
        ]),
        select(vec![
            ReduceScatterAlgorithm::Halving,
            ReduceScatterAlgorithm::Pairwise,
            ReduceScatterAlgorithm::Ordered,
        ]),
        select(vec![ScanAlgorithm::Doubling, ScanAlgorithm::Chain]),
    );
    let exchange = prop::option::of(select(vec![
        Exchange::Stepwise,
        Exchange::Linear,
        Exchange::LinearBlocks,
    ]));
    (exchange, moves, reductions).prop_map(|(exchange, m, r)| Tuning {
        exchange,
        by_hosts: false,
        barrier: None,
        bcast: Some(m.0),
        gather: Some(m.1),
        scatter: Some(m.1),
        allgather: Some(m.2),
        alltoall: Some(m.3),
        reduce: Some(r.0),
        allreduce: Some(r.1),
        reduce_scatter: Some(r.2),
        scan: Some(r.3),
    })
}

fn layouts() -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::Apart),
        Just(Layout::One),
        (1..6usize).prop_map(Layout::Rows),
        (1..6usize).prop_map(Layout::Dealt),
        (any::<u64>(), 1..6usize).prop_map(|(seed, hosts)| Layout::Mixed(seed, hosts)),
    ]
}

fn conditions() -> impl Strategy<Value = Run> {
    (
        1..40usize,
        any::<u64>(),
        prop::option::of(choices()),
        layouts(),
        select(vec![LocalCost::Copy, LocalCost::SystemCall]),
    )
        .prop_map(|(size, seed, tuning, layout, cost)| Run {
            size,
            seed,
            tuning: tuning.unwrap_or_default(),
            layout,
            cost,
            fuse: None,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn moves(run_as in conditions(), len in 0..3000usize, root in any::<prop::sample::Index>()) {
        let size = run_as.size;
        let root = root.index(size);
        let blocks = random(size, len, run_as.seed);
        let whole = concat(&blocks);

        let got = run(run_as, &blank(size, 0), &blocks, |ctx, _, data| Box::pin(bcast(ctx, data, root)));
        prop_assert!(got.iter().all(|g| *g == blocks[root]));

        let mut roots = blank(size, 0);
        roots[root] = vec![0; whole.len()];
        let got = run(run_as, &blocks, &roots, |ctx, s, r| Box::pin(gather(*ctx, Some(s), r, root).finish()));
        prop_assert_eq!(&got[root], &whole);
        let got = run(run_as, &got, &blank(size, len), |ctx, s, r| Box::pin(scatter(*ctx, s, Some(r), root).finish()));
        prop_assert_eq!(&got, &blocks);

        let uniform = |all| Blocks::Uniform { all, each: len };
        let got = run(run_as, &blocks, &blank(size, whole.len()), |ctx, s, r| Box::pin(allgather(ctx, Some(s), uniform(r))));
        prop_assert!(got.iter().all(|g| *g == whole));
    }

    #[test]
    fn transposes(run_as in conditions(), len in 0..300usize) {
        let size = run_as.size;
        let sends = random(size, size * len, run_as.seed);
        let uniform = |all| Blocks::Uniform { all, each: len };
        let once = run(run_as, &sends, &blank(size, size * len), |ctx, s, r| Box::pin(alltoall(ctx, Some(uniform(s)), uniform(r))));
        for (j, got) in once.iter().enumerate() {
            for (i, sent) in sends.iter().enumerate() {
                prop_assert_eq!(&got[i * len..(i + 1) * len], &sent[j * len..(j + 1) * len]);
            }
        }
        let twice = run(run_as, &blank(size, 0), &once, |ctx, _, r| Box::pin(alltoall(ctx, None, uniform(r))));
        prop_assert_eq!(twice, sends);
    }

    #[test]
    fn reductions(run_as in conditions(), count in 0..400usize, root in any::<prop::sample::Index>(), op in select(vec![TestOp::Sum, TestOp::Affine, TestOp::Odd])) {
        let size = run_as.size;
        let root = root.index(size);
        let values = op.operands(size, count, run_as.seed);
        let expected = op.all(&values);
        let len = expected.len();

        let got = run(run_as, &values, &blank(size, len), |ctx, s, r| Box::pin(async move { reduce(*ctx, &op, Some(s), r, root).finish().await }));
        prop_assert_eq!(&got[root], &expected);
        let got = run(run_as, &values, &blank(size, len), |ctx, s, r| Box::pin(async move { allreduce(ctx, &op, Some(s), r).await }));
        prop_assert!(got.iter().all(|g| *g == expected));
        let got = run(run_as, &values, &blank(size, len), |ctx, s, r| Box::pin(async move { scan(*ctx, &op, Some(s), r, false).finish().await }));
        for (rank, got) in got.iter().enumerate() {
            prop_assert_eq!(got, &op.all(&values[..=rank]));
        }

        let mut cuts: Vec<usize> = (1..size).map(|i| (i * 7919 + run_as.seed as usize % 100) % (count + 1)).collect();
        cuts.extend([0, count]);
        cuts.sort_unstable();
        let recvs: Buffers = cuts.windows(2).map(|w| vec![0; (w[1] - w[0]) * op.element()]).collect();
        let got = run(run_as, &values, &recvs, |ctx, s, r| {
            let cuts = cuts.clone();
            Box::pin(async move { reduce_scatter(*ctx, &op, Some(s), r, Split::Offsets(&cuts)).finish().await })
        });
        prop_assert_eq!(concat(&got), expected);
    }
}
