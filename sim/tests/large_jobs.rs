//! Jobs of 103 hosts that lose one for good, whose ranks move, and to which hosts are added. There
//! are two ways to come back: all ranks together, or the ranks of a recovery group. They have 1,000
//! ranks, or 10,000 in groups of one, and `REJOIN_LARGE_RANKS=10000` gives all of them so many.
//! `REJOIN_LARGE_SEEDS=10..20` runs other seeds, and `REJOIN_LARGE_SEEDS=17..18` repeats one.
//!
//! Central plans for sender-log and receiver-log alike. With the latter, who comes back has the
//! messages from its own log, and senders do not retain them until a checkpoint.

use rejoin_managers_protocol::checkpoint::Interval;
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_sim::job::logged_ring::LoggedRing;
use rejoin_sim::job::ring_program::Ring;
use rejoin_sim::job::{Fate, JobWorld, MILLI, Shape, Tally};
use rejoin_sim::rng::Rng;
use rejoin_sim::seed_range::seed_range;
use std::ops::Range;

const HOSTS: usize = 100;
const SPARES: usize = 3;

/// Which ranks come back together.
#[derive(Clone, Copy)]
enum Together {
    All,
    /// So many that follow one another. They have what their senders retain.
    Group(u32),
    /// The same, with logs at the receivers.
    GroupWithLogs(u32),
}

/// Ranks of each host but the spare ones, in a job of so many ranks unless the variable says more.
fn per_host(ranks: u32) -> u32 {
    let asked = std::env::var("REJOIN_LARGE_RANKS");
    asked.map_or(ranks, |ranks| ranks.parse().expect("a number of ranks")) / HOSTS as u32
}

fn shape(per_host: u32, group: Option<u32>) -> Shape {
    Shape {
        hosts: HOSTS + SPARES,
        spares: SPARES,
        per_host,
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

/// How the job ends, and how many messages came from logs.
fn run(seed: u64, per_host: u32, together: Together) -> Result<(Tally, u64), String> {
    let mut rng = Rng::new(seed ^ 0x1a56e);
    let group = match together {
        Together::All => None,
        Together::Group(size) | Together::GroupWithLogs(size) => Some(size),
    };
    let shape = shape(per_host, group);
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
    let ring = |size| LoggedRing::new(shape.ranks(), size, rounds, round);
    let ring = match together {
        Together::All => {
            let ring = Ring::new(shape.ranks(), rounds, round);
            return Ok((JobWorld::new(rng, shape, ring, &fate).run()?, 0));
        }
        Together::Group(size) => ring(size),
        Together::GroupWithLogs(size) => ring(size).with_receive_logs(),
    };
    let mut world = JobWorld::new(rng, shape, ring, &fate);
    let tally = world.run()?;
    Ok((tally, world.work().from_logs))
}

/// Runs these seeds, or those of the variable. Returns how many, what they have done, and how many
/// messages came from logs.
fn runs(fixed: Range<u64>, per_host: u32, together: Together) -> (u64, Tally, u64) {
    let (mut count, mut all, mut from_logs) = (0, Tally::default(), 0);
    let mut well = 0;
    for seed in seed_range("REJOIN_LARGE_SEEDS", fixed) {
        let (tally, logged) = run(seed, per_host, together).unwrap_or_else(|wrong| {
            panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_LARGE_SEEDS={seed}..{}",
                seed + 1
            )
        });
        println!("seed {seed}: {tally:?}");
        well += u64::from(tally.verdict == Some(Verdict::Success));
        count += 1;
        all += &tally;
        from_logs += logged;
    }
    assert!(well == count || !is_fixed(), "{all:?}");
    (count, all, from_logs)
}

fn is_fixed() -> bool {
    std::env::var("REJOIN_LARGE_SEEDS").is_err()
}

fn check(per_host: u32, together: Together) {
    let (count, all, _) = runs(0..3, per_host, together);
    if is_fixed() {
        let lost = all.moves > 1 && all.moves + all.region_starts == count;
        assert!(lost && all.live_moves > 0 && all.added > 0, "{all:?}");
        let are_groups = !matches!(together, Together::All);
        assert!(!are_groups || all.group_returns > 0, "{all:?}");
    }
}

#[test]
fn all_ranks_roll_back_without_a_lost_host() {
    check(per_host(1000), Together::All);
}

#[test]
fn a_few_ranks_come_back_while_all_others_stand() {
    check(per_host(1000), Together::Group(5));
}

#[test]
fn the_ranks_of_a_host_come_back_while_all_others_stand() {
    let per_host = per_host(1000);
    check(per_host, Together::Group(per_host));
}

/// One host is lost, and each of its ranks comes back, while thousands of others stand.
fn check_alone(together: Together) -> u64 {
    let per_host = per_host(10_000);
    let (count, all, from_logs) = runs(2..3, per_host, together);
    if is_fixed() {
        assert_eq!((all.moves, all.region_starts), (count, 0), "{all:?}");
        assert!(all.returned >= u64::from(per_host), "{all:?}");
    }
    from_logs
}

#[test]
fn of_ten_thousand_ranks_each_comes_back_alone() {
    assert_eq!(check_alone(Together::Group(1)), 0);
}

#[test]
fn of_ten_thousand_ranks_each_comes_back_alone_from_its_log() {
    let from_logs = check_alone(Together::GroupWithLogs(1));
    assert!(from_logs > 100 || !is_fixed(), "{from_logs}");
}
