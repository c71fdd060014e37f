//! Jobs of thousands of ranks, a fixed set of seeds. `REJOIN_JOB_SEEDS=1000..5000` runs others, and
//! `REJOIN_JOB_SEEDS=17..18` one that failed.

use rejoin_managers_protocol::checkpoint::Interval;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_sim::job::ring::Ring;
use rejoin_sim::job::{Fate, MILLI, Shape, Tally, World};
use rejoin_sim::rng::Rng;

/// Seeds that every test run takes.
const FIXED: std::ops::Range<u64> = 0..300;

fn seeds(fixed: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("REJOIN_JOB_SEEDS") else {
        return fixed;
    };
    let parse = |(from, to): (&str, &str)| Some(from.parse().ok()?..to.parse().ok()?);
    let range = text.split_once("..").and_then(parse);
    range.unwrap_or_else(|| panic!("REJOIN_JOB_SEEDS is {text:?}, not from..to"))
}

/// A job in which only what is masked befalls it, or (one in four) other things too.
fn run(seed: u64) -> Result<Tally, String> {
    let mut rng = Rng::new(seed);
    let shape = match seed % 16 {
        15 => Shape {
            hosts: 64,
            per_host: 32,
            interval: Interval::Every(30),
        },
        _ => Shape {
            hosts: rng.between(1, 8) as usize,
            per_host: rng.between(1, 12) as u32,
            interval: Interval::Every(rng.between(2, 60)),
        },
    };
    let (rounds, round) = (rng.between(5, 40), rng.between(1, 8) * MILLI);
    // Some after the job's end, had nothing befallen it.
    let until = 20 * MILLI + rounds * round * rng.between(5, 15) / 10;
    let mut fate = Fate {
        from: if rng.chance(10) { 0 } else { 10 * MILLI },
        until,
        patient: rng.chance(90),
        kills: rng.below(12) as u32,
        crowds: rng.below(2) as u32,
        parts: rng.below(4) as u32,
        asks: rng.below(3) as u32,
        ..Fate::default()
    };
    if seed % 4 == 3 {
        fate.images = rng.below(3) as u32;
        fate.refusals = rng.below(3) as u32;
        fate.locals = u32::from(rng.chance(20));
        fate.signals = if rng.chance(30) {
            rng.between(1, 2) as u32
        } else {
            0
        };
    }
    let ring = Ring::new(shape.ranks(), rounds, round);
    World::new(rng, shape, ring, &fate).run()
}

#[test]
fn jobs_of_many_ranks_end_well_whatever_dies() {
    let mut all = Tally::default();
    let (mut count, mut well) = (0, 0);
    for seed in seeds(FIXED) {
        match run(seed) {
            Ok(tally) => {
                count += 1;
                well += u64::from(tally.verdict == Some(Verdict::Success));
                all.kills += tally.kills;
                all.recoveries += tally.recoveries;
                all.commits += tally.commits;
                all.alone += tally.alone;
                all.parts += tally.parts;
                all.orders += tally.orders;
                all.reports += tally.reports;
            }
            Err(wrong) => panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_JOB_SEEDS={seed}..{}",
                seed + 1
            ),
        }
    }
    println!("{count} seeds, {well} successes, {all:?}");
    if std::env::var("REJOIN_JOB_SEEDS").is_err() {
        assert!(well * 10 > count * 7 && all.recoveries > 300 && all.alone > 5);
    }
}

#[test]
fn one_seed_is_one_run() {
    assert_eq!(run(5), run(5));
}
