//! Jobs whose ranks move to other hosts while they run, a fixed set of seeds.
//! `REJOIN_MOVE_SEEDS=1000..5000` runs others, and `REJOIN_MOVE_SEEDS=17..18` one that failed.

use rejoin_managers_protocol::checkpoint::{CopyInterval, Interval};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_sim::job::engines::Engines;
use rejoin_sim::job::ring_program::Ring;
use rejoin_sim::job::{Fate, JobWorld, MILLI, Shape, Tally};
use rejoin_sim::rng::Rng;
use rejoin_sim::seed_range::seed_range;

/// Seeds that every test run takes.
const FIXED: std::ops::Range<u64> = 0..400;

/// A job with spare hosts and with files of images, in one folder or in one of each host.
fn shape(rng: &mut Rng, leases: bool) -> Shape {
    let spares = rng.below(3) as usize;
    let copies = rng.chance(50).then(|| {
        let size = rng.between(1, 2) as usize;
        (size, CopyInterval::EachTime)
    });
    Shape {
        hosts: rng.between(2, 6) as usize + spares,
        spares,
        per_host: rng.between(1, 6) as u32,
        interval: Interval::Every(rng.between(2, 60)),
        files: rng.chance(50).then_some(Interval::Auto),
        leases: (leases || rng.chance(50)).then(|| Terms::new(1000, 3000)),
        lookups: rng.chance(30),
        failover: true,
        takes_in: true,
        copies,
        group: None,
    }
}

/// In half of the seeds ranks only move. Nothing rolls back then.
fn fate(rng: &mut Rng, seed: u64, until: u64) -> Fate {
    let mut fate = Fate {
        from: if rng.chance(30) { 0 } else { 10 * MILLI },
        until,
        moves: rng.between(2, 16) as u32,
        asks: rng.below(3) as u32,
        healths: rng.below(4) as u32,
        added: rng.below(3) as u32,
        ..Fate::default()
    };
    if seed % 2 == 1 {
        fate.kills = rng.below(6) as u32;
        fate.cuts = rng.below(3) as u32;
        fate.centrals = rng.below(4) as u32;
        fate.parts = rng.below(3) as u32;
        fate.files = rng.below(3) as u32;
        fate.refusals = rng.below(3) as u32;
        fate.images = rng.below(2) as u32;
        fate.leaves = u32::from(rng.chance(20));
        fate.locals = u32::from(rng.chance(20));
        fate.signals = u32::from(rng.chance(10));
        fate.stops = u32::from(rng.chance(10));
    }
    fate
}

fn ring(seed: u64) -> Result<Tally, String> {
    let mut rng = Rng::new(seed);
    let shape = shape(&mut rng, seed % 2 == 1);
    let (rounds, round) = (rng.between(5, 40), rng.between(1, 8) * MILLI);
    let until = 20 * MILLI + rounds * round * rng.between(5, 15) / 10;
    let fate = fate(&mut rng, seed, until);
    let ring = Ring::new(shape.ranks(), rounds, round);
    JobWorld::new(rng, shape, ring, &fate).run()
}

/// The same with the real engines of few ranks.
fn engines(seed: u64) -> Result<Tally, String> {
    let mut rng = Rng::new(seed);
    let shape = Shape {
        per_host: 1,
        ..shape(&mut rng, seed % 2 == 1)
    };
    let messages = rng.between(5, 120) as usize;
    let cuts = rng.below(4);
    let engines = Engines::new(&mut rng, shape.ranks(), messages, cuts);
    let fate = fate(&mut rng, seed, 150 * MILLI);
    JobWorld::new(rng, shape, engines, &fate).run()
}

fn check(run: impl Fn(u64) -> Result<Tally, String>) {
    let mut all = Tally::default();
    let mut count = 0;
    for seed in seed_range("REJOIN_MOVE_SEEDS", FIXED) {
        let tally = run(seed).unwrap_or_else(|wrong| {
            panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_MOVE_SEEDS={seed}..{}",
                seed + 1
            )
        });
        if seed % 2 == 0 {
            let is_well = tally.verdict == Some(Verdict::Success) && tally.recoveries == 0;
            assert!(is_well, "seed {seed}: {tally:?}");
        }
        count += 1;
        all += &tally;
    }
    println!("{count} seeds, {all:?}");
    if std::env::var("REJOIN_MOVE_SEEDS").is_err() {
        let enough = all.live_moves > count && all.failed_moves > 20 && all.recoveries > 100;
        let enough = enough && all.commits_in_moves > 100;
        assert!(enough, "{all:?}");
    }
}

#[test]
fn ranks_of_a_ring_move_whatever_dies() {
    check(ring);
}

#[test]
fn messages_survive_moves() {
    check(engines);
}
