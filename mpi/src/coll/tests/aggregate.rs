//! An all-to-all over hosts through their leaders: the results, the number of messages between
//! hosts, the errors.

use super::super::testnet::crossed;
use super::super::tuning::{ALLTOALL_LEADERS, ALLTOALL_LEADERS_ROOM, Tuning};
use super::super::{Blocks, Locality};
use super::*;
use crate::adi::LocalCost;

fn on(layout: Layout, size: usize, seed: u64) -> Run {
    Run {
        layout,
        ..Run::new(size, seed)
    }
}

/// All ranks exchange blocks of `len` bytes, which must arrive; how many messages crossed between
/// hosts.
fn transpose(conditions: Run, len: usize, in_place: bool) -> usize {
    let (size, before) = (conditions.size, crossed());
    let sends = random(size, size * len, conditions.seed);
    let recvs = match in_place {
        true => sends.clone(),
        false => blank(size, size * len),
    };
    let got = run(conditions, &sends, &recvs, |ctx, send, recv| {
        let blocks = |all| Blocks::Uniform { all, each: len };
        let send = (!in_place).then(|| blocks(send));
        Box::pin(alltoall(ctx, send, blocks(recv)))
    });
    for (rank, got) in got.iter().enumerate() {
        let expected: Vec<u8> = sends
            .iter()
            .flat_map(|s| s[rank * len..][..len].to_vec())
            .collect();
        assert!(*got == expected, "{len} in_place={in_place} {conditions:?}");
    }
    crossed() - before
}

#[test]
fn blocks_reach_all_ranks_of_hosts_of_any_number_and_order() {
    let mut rng = Rng(7);
    for size in SIZES {
        for number in 0..12 {
            let (seed, hosts) = (rng.next(), 1 + rng.below(size.min(12)));
            let layout = match number {
                0 => Layout::Rows(2),
                1 => Layout::Rows(5),
                2 => Layout::Dealt(2),
                3 => Layout::Dealt(3),
                _ => Layout::Mixed(seed, hosts),
            };
            let most = 2 * ALLTOALL_LEADERS / size;
            for len in [1, 1 + rng.below(30), 1 + rng.below(most)] {
                for in_place in [false, true] {
                    transpose(on(layout, size, seed), len, in_place);
                }
            }
        }
    }
}

#[test]
fn a_pair_of_hosts_is_crossed_once_each_way() {
    let crossings = |layout, size, len, in_place| transpose(on(layout, size, 3), len, in_place);
    for in_place in [false, true] {
        for layout in [Layout::Dealt(3), Layout::Rows(4)] {
            let longest = ALLTOALL_LEADERS / 4;
            assert_eq!(crossings(layout, 12, 8, in_place), 6, "{layout:?}");
            assert_eq!(crossings(layout, 12, longest, in_place), 6, "{layout:?}");
            // Long blocks go straight to where they belong.
            let long = crossings(layout, 12, longest + 1, in_place);
            assert_eq!(long, 12 * 8, "{layout:?}");
        }
        // Short ones of many hosts go in log2 n steps, also where a host has fewer ranks.
        for size in [18, 17] {
            assert_eq!(crossings(Layout::Rows(2), size, 1, in_place), 9 * 4);
        }
        // As many hosts, where that is too long.
        assert_eq!(crossings(Layout::Rows(2), 18, 100, in_place), 9 * 8);
    }
    assert_eq!(crossings(Layout::One, 8, 8, false), 0);
    assert_eq!(crossings(Layout::Apart, 5, 8, false), 5 * 4);
}

#[test]
fn what_a_leader_takes_has_a_limit() {
    let tuning = Tuning::default();
    let hosts = |ranks: u32| Locality::new((0..ranks).map(|rank| rank / 16), LocalCost::Copy);
    let longest = |ranks: u32| {
        let hosts = hosts(ranks);
        let fits = |&block: &usize| tuning.by_leaders(&hosts, block);
        (1..=ALLTOALL_LEADERS).take_while(fits).last().unwrap_or(0)
    };
    assert_eq!(longest(32), ALLTOALL_LEADERS / 16);
    assert_eq!(longest(1024), ALLTOALL_LEADERS_ROOM / 16 / 1024);
    assert_eq!(longest(1 << 17), 0);
    assert!(!tuning.by_leaders(&hosts(32), usize::MAX));
}

#[test]
fn an_error_on_the_way_to_a_leader_names_the_callers_ranks() {
    let mut data: Buffers = [8, 8, 8, 4].iter().map(|&l| vec![1; 4 * l]).collect();
    let regions: Vec<Mem> = data.iter_mut().map(mem).collect();
    // The ranks of the other host wait forever, which is no deadlock where a run may fail.
    let conditions = Run {
        fuse: Some(usize::MAX),
        ..on(Layout::Rows(2), 4, 1)
    };
    let results = conditions.go(1, |ctx| {
        let region = regions[ctx[0].rank()];
        let blocks = Blocks::Uniform {
            all: region,
            each: region.len() / 4,
        };
        Box::pin(alltoall(&ctx[0], None, blocks))
    });
    let error = results[2].as_ref().expect_err("lengths differ").to_string();
    let says = "rank 3 sent 16 bytes where rank 2 expected 32";
    assert!(error.contains(says), "{error}");
}

#[test]
fn a_message_that_fails_anywhere_is_reported() {
    // The messages of rank 0, a leader: two receives and a send within its host, then a send and a
    // receive with the other leader. Two sends within its host follow.
    for (fuse, in_place) in (0..7).flat_map(|f| [(f, false), (f, true)]) {
        let conditions = Run {
            fuse: Some(fuse),
            ..on(Layout::Dealt(2), 6, fuse as u64)
        };
        let (mut sends, mut recvs) = (blank(6, 60), blank(6, 60));
        let from: Vec<Mem> = sends.iter_mut().map(mem).collect();
        let into: Vec<Mem> = recvs.iter_mut().map(mem).collect();
        let results = conditions.go(1, |ctx| {
            let rank = ctx[0].rank();
            let blocks = |all| Blocks::Uniform { all, each: 10 };
            let send = (!in_place).then(|| blocks(from[rank]));
            Box::pin(alltoall(&ctx[0], send, blocks(into[rank])))
        });
        match (&results[0], fuse) {
            (Err(error), 0..6) => assert!(error.message.contains("fuse"), "{error}"),
            (result, _) => assert!(result.is_ok() && fuse == 6, "{fuse} {result:?}"),
        }
    }
}
