//! Jobs of 103 hosts that lose one for good, whose ranks move, and to which hosts are added. There
//! are two ways to come back: all ranks together, or the ranks of a recovery group. Central plans
//! for sender-log and receiver-log alike. They have 1,000 ranks, and `REJOIN_LARGE_RANKS=10000`
//! gives them more. `REJOIN_LARGE_SEEDS=10..20` runs other seeds, and `REJOIN_LARGE_SEEDS=17..18`
//! repeats one.

use rejoin_managers_protocol::checkpoint::Interval;
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_sim::job::logged_ring::LoggedRing;
use rejoin_sim::job::ring_program::Ring;
use rejoin_sim::job::{Fate, JobWorld, MILLI, Shape, Tally};
use rejoin_sim::rng::Rng;
use rejoin_sim::seed_range::seed_range;

const HOSTS: usize = 100;
const SPARES: usize = 3;

/// Ranks of each host but the spare ones.
fn per_host() -> u32 {
    let ranks = std::env::var("REJOIN_LARGE_RANKS");
    let ranks: u32 = ranks.map_or(1000, |ranks| ranks.parse().expect("a number of ranks"));
    ranks / HOSTS as u32
}

/// `group`: so many ranks are a recovery group; `None`: all ranks come back together.
fn shape(group: Option<u32>) -> Shape {
    Shape {
        hosts: HOSTS + SPARES,
        spares: SPARES,
        per_host: per_host(),
        interval: Interval::Every(400),
        files: Some(Interval::Auto),
        leases: Some(Terms::new(1000, 1500)),
        // No host has the cards of all ranks.
        lookups: true,
        failover: true,
        takes_in: true,
        copies: None,
        group,
    }
}

fn run(seed: u64, group: Option<u32>) -> Result<Tally, String> {
    let mut rng = Rng::new(seed ^ 0x1a56e);
    let shape = shape(group);
    let (rounds, round) = (50, 100 * MILLI);
    let fate = Fate {
        // By then a checkpoint outlives a host.
        from: 3000 * MILLI,
        until: 4000 * MILLI,
        kills: rng.between(1, 3) as u32,
        locals: 1,
        moves: rng.between(2, 4) as u32,
        added: 1,
        cuts: rng.below(2) as u32,
        centrals: rng.below(2) as u32,
        ..Fate::default()
    };
    match group {
        Some(size) => {
            let ring = LoggedRing::new(shape.ranks(), size, rounds, round);
            JobWorld::new(rng, shape, ring, &fate).run()
        }
        None => {
            let ring = Ring::new(shape.ranks(), rounds, round);
            JobWorld::new(rng, shape, ring, &fate).run()
        }
    }
}

fn check(group: Option<u32>) {
    let mut all = Tally::default();
    let (mut count, mut well) = (0, 0);
    for seed in seed_range("REJOIN_LARGE_SEEDS", 0..3) {
        let tally = run(seed, group).unwrap_or_else(|wrong| {
            panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_LARGE_SEEDS={seed}..{}",
                seed + 1
            )
        });
        println!("seed {seed}: {tally:?}");
        well += u64::from(tally.verdict == Some(Verdict::Success));
        count += 1;
        all += &tally;
    }
    if std::env::var("REJOIN_LARGE_SEEDS").is_err() {
        assert_eq!(well, count, "{all:?}");
        // A launch ends only if the lost host had the one image of a rank that has moved since.
        let lost = all.moves > 1 && all.moves + all.relaunches == count;
        assert!(lost && all.live_moves > 0 && all.added > 0, "{all:?}");
        assert!(group.is_none() || all.group_returns > 0, "{all:?}");
    }
}

#[test]
fn all_ranks_roll_back_without_a_lost_host() {
    check(None);
}

#[test]
fn a_few_ranks_come_back_while_all_others_stand() {
    check(Some(5));
}

#[test]
fn the_ranks_of_a_host_come_back_while_all_others_stand() {
    check(Some(per_host()));
}
