//! Jobs of thousands of ranks, a fixed set of seeds. `REJOIN_JOB_SEEDS=1000..5000` runs others, and
//! `REJOIN_JOB_SEEDS=17..18` one that failed.

use rejoin_managers_protocol::checkpoint::{CopyInterval, Interval};
use rejoin_managers_protocol::detector::{Detector, DetectorSettings};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::manager_messages::{Cause, Stage};
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_sim::job::engines::Engines;
use rejoin_sim::job::ring_program::Ring;
use rejoin_sim::job::{Fate, JobWorld, MILLI, Shape, Tally};
use rejoin_sim::node::DisabledEpochRule;
use rejoin_sim::node::ShortCounts;
use rejoin_sim::rng::Rng;
use rejoin_sim::seed_range::seed_range;

/// Seeds that every test run takes.
const FIXED: std::ops::Range<u64> = 0..300;

/// The same, where ranks have engines.
const EXCHANGES: std::ops::Range<u64> = 0..150;

/// Files are copied each time, or at an interval of the copies' own. Another host keeps copies, or
/// parities of two or three files.
fn copies(seed: u64) -> (usize, CopyInterval) {
    let interval = match seed % 3 {
        0 => CopyInterval::EachTime,
        1 => CopyInterval::Own(Interval::Asked),
        _ if seed.is_multiple_of(5) => CopyInterval::Own(Interval::Auto),
        _ => CopyInterval::Own(Interval::Every(100)),
    };
    (1 + (seed / 3 % 3) as usize, interval)
}

/// A job with faults that recovery masks. One in four has other faults too.
fn run(seed: u64, forgets: bool) -> Result<Tally, String> {
    let mut rng = Rng::new(seed);
    let shape = match seed % 16 {
        15 => Shape {
            hosts: 64,
            spares: 0,
            per_host: 32,
            interval: Interval::Every(30),
            files: None,
            leases: None,
            lookups: seed % 32 == 31,
            failover: false,
            takes_in: false,
            copies: None,
            group: None,
        },
        _ => Shape {
            hosts: rng.between(1, 8) as usize,
            spares: 0,
            per_host: rng.between(1, 12) as u32,
            interval: Interval::Every(rng.between(2, 60)),
            files: (seed % 3 == 1).then_some(Interval::Auto),
            leases: rng.chance(40).then(|| Terms::new(1000, 3000)),
            lookups: seed.is_multiple_of(2),
            failover: false,
            takes_in: false,
            copies: None,
            group: None,
        },
    };
    let (rounds, round) = (rng.between(5, 40), rng.between(1, 8) * MILLI);
    // Some come after the time at which the job would end without faults.
    let until = 20 * MILLI + rounds * round * rng.between(5, 15) / 10;
    let mut fate = Fate {
        forgets,
        from: if rng.chance(30) { 0 } else { 10 * MILLI },
        until,
        kills: rng.below(12) as u32,
        crowds: rng.below(2) as u32,
        parts: rng.below(4) as u32,
        cuts: rng.below(4) as u32,
        asks: rng.below(3) as u32,
        centrals: rng.below(4) as u32,
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
    JobWorld::new(rng, shape, ring, &fate).run()
}

#[test]
fn jobs_of_many_ranks_end_well_whatever_dies() {
    let mut all = Tally::default();
    let (mut count, mut well, mut recovered) = (0, 0, 0);
    for seed in seed_range("REJOIN_JOB_SEEDS", FIXED) {
        match run(seed, false) {
            Ok(tally) => {
                count += 1;
                let success = tally.verdict == Some(Verdict::Success);
                well += u64::from(success);
                recovered += u64::from(tally.recoveries > 0);
                // No rank that is needed can be killed without a recovery.
                let needed = success && tally.unreleased > 0;
                assert!(!needed || tally.recoveries > 0, "seed {seed}: {tally:?}");
                all += &tally;
            }
            Err(wrong) => panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_JOB_SEEDS={seed}..{}",
                seed + 1
            ),
        }
    }
    println!("{count} seeds, {well} successes, {recovered} with recoveries, {all:?}");
    if std::env::var("REJOIN_JOB_SEEDS").is_err() {
        assert!(well * 10 > count * 7, "{well} of {count} seeds succeed");
        // Enough faults of each kind, so that the checks are significant. One recovery masks all
        // kills that follow the first one soon, so there are far fewer recoveries than kills.
        let enough = all.kills > 2000 && all.early > 100 && all.recoveries > count;
        assert!(enough && all.alone > 5, "{all:?}");
        assert!(
            all.parts > 300 && all.cuts > 300 && all.centrals > 150 && all.silent > 20,
            "{all:?}"
        );
        assert!(all.cards > 1000, "{all:?}");
        // The faults of every fourth seed.
        let rare = [all.images, all.refused, all.locals, all.signals, all.stops];
        assert!(rare.iter().all(|count| *count > 5), "{all:?}");
    }
}

/// A detector for this seed.
fn detector(seed: u64) -> DetectorSettings {
    let kinds = [
        Detector::Star,
        Detector::Ring,
        Detector::Ring,
        Detector::None,
    ];
    DetectorSettings {
        detector: kinds[(seed / 2 % 4) as usize],
        interval: 100 + 100 * (seed % 7),
        timeout: 100 + 100 * (seed % 5),
    }
}

/// A job that loses hosts, for good or because they are unreachable, while other processes die too.
fn run_without_hosts(seed: u64) -> Result<Tally, String> {
    let mut rng = Rng::new(seed ^ 0x105e);
    // Some leases outlast the time after which central drops an unreachable host, some do not.
    let term = rng.between(1000, 4000);
    let spares = rng.below(2) as usize;
    let shape = Shape {
        hosts: rng.between(2, 6) as usize + spares,
        spares,
        per_host: rng.between(1, 6) as u32,
        interval: Interval::Every(rng.between(5, 60)),
        files: (!seed.is_multiple_of(3)).then_some(Interval::Auto),
        // Without leases, central could not know that an unreachable host makes no further step.
        leases: Some(Terms::new(term, term + 500).with_detector(detector(seed))),
        lookups: seed.is_multiple_of(2),
        failover: true,
        takes_in: !seed.is_multiple_of(4),
        copies: seed.is_multiple_of(2).then(|| copies(seed)),
        group: None,
    };
    let (rounds, round) = (rng.between(20, 60), rng.between(20, 80) * MILLI);
    let fate = Fate {
        from: 10 * MILLI,
        until: 20 * MILLI + rounds * round,
        kills: rng.below(4) as u32,
        parts: rng.below(4) as u32,
        cuts: rng.below(4) as u32,
        locals: rng.below(3) as u32,
        centrals: rng.below(4) as u32,
        signals: u32::from(rng.chance(10)),
        ..Fate::default()
    };
    let ring = Ring::new(shape.ranks(), rounds, round);
    JobWorld::new(rng, shape, ring, &fate).run()
}

#[test]
fn jobs_that_lose_hosts_continue_on_others_when_nothing_acts_there() {
    let mut all = Tally::default();
    let (mut count, mut well) = (0, 0);
    for seed in seed_range("REJOIN_JOB_SEEDS", 0..500) {
        let tally = run_without_hosts(seed).unwrap_or_else(|wrong| {
            panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_JOB_SEEDS={seed}..{}",
                seed + 1
            )
        });
        count += 1;
        well += u64::from(tally.verdict == Some(Verdict::Success));
        all += &tally;
    }
    println!("{count} seeds, {well} successes, {all:?}");
    if std::env::var("REJOIN_JOB_SEEDS").is_err() {
        assert!(well * 10 > count * 6, "{well} of {count} seeds succeed");
        let enough = all.region_starts > 80 && all.centrals > 100;
        assert!(all.moves > 70 && all.displaced > 2, "{all:?}");
        assert!(all.silent > 5 && all.dropped > 5, "{all:?}");
        assert!(all.locals > 100 && all.signals > 5, "{all:?}");
        assert!(enough, "{all:?}");
    }
}

/// A job whose images go to files. Ranks die together with their images, and files fail.
fn run_with_files(seed: u64) -> Result<Tally, String> {
    let mut rng = Rng::new(seed ^ 0xf11e5);
    let shape = Shape {
        hosts: rng.between(1, 4) as usize,
        spares: 0,
        per_host: rng.between(1, 6) as u32,
        interval: Interval::Every(rng.between(2, 40)),
        files: Some(match seed % 3 {
            0 => Interval::Every(rng.between(10, 200)),
            _ => Interval::Auto,
        }),
        leases: None,
        lookups: false,
        failover: false,
        takes_in: false,
        copies: seed.is_multiple_of(2).then(|| copies(seed)),
        group: None,
    };
    let (rounds, round) = (rng.between(10, 60), rng.between(1, 8) * MILLI);
    let fate = Fate {
        // By then the first checkpoint is in files.
        from: 400 * MILLI,
        until: 400 * MILLI + rounds * round,
        kills: rng.below(6) as u32,
        pairs: rng.below(5) as u32,
        images: rng.below(4) as u32,
        files: rng.below(3) as u32,
        refusals: rng.below(2) as u32,
        centrals: rng.below(3) as u32,
        asks: rng.below(2) as u32,
        ..Fate::default()
    };
    let ring = Ring::new(shape.ranks(), rounds + 400 * MILLI / round, round);
    JobWorld::new(rng, shape, ring, &fate).run()
}

#[test]
fn jobs_whose_ranks_die_with_their_images_go_back_to_files() {
    let mut all = Tally::default();
    let (mut count, mut well) = (0, 0);
    for seed in seed_range("REJOIN_JOB_SEEDS", 0..400) {
        let tally = run_with_files(seed).unwrap_or_else(|wrong| {
            panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_JOB_SEEDS={seed}..{}",
                seed + 1
            )
        });
        count += 1;
        well += u64::from(tally.verdict == Some(Verdict::Success));
        // The last checkpoint, in MPI_Finalize, has no files.
        let at_the_end = |verdict: &Verdict| match verdict {
            Verdict::Success => true,
            Verdict::Failed { cause, .. } => {
                // A rank that came back alone registers like any other.
                let late = |stage| {
                    stage >= Stage::Finalizing || tally.unreleased == 0 || tally.lone_losses > 0
                };
                matches!(cause, Cause::Ended { stage, .. } if late(*stage))
            }
            _ => false,
        };
        let verdict = tally.verdict.as_ref();
        assert!(verdict.is_some_and(at_the_end), "seed {seed}: {tally:?}");
        all += &tally;
    }
    println!("{count} seeds, {well} successes, {all:?}");
    if std::env::var("REJOIN_JOB_SEEDS").is_err() {
        assert!(well * 10 > count * 8, "{well} of {count} seeds succeed");
        assert!(all.fallbacks > 100 && all.outlived > 100, "{all:?}");
        assert!(all.file_commits > 700 && all.unwritten > 50, "{all:?}");
    }
}

/// A job that is to stop with a last checkpoint in files. Ranks and central die meanwhile.
fn run_to_stop(seed: u64) -> Result<Tally, String> {
    let mut rng = Rng::new(seed ^ 0x5709);
    let shape = Shape {
        hosts: rng.between(1, 4) as usize,
        spares: 0,
        per_host: rng.between(1, 6) as u32,
        interval: match seed % 3 {
            0 => Interval::Asked,
            _ => Interval::Every(rng.between(2, 40)),
        },
        files: Some(match seed % 2 {
            0 => Interval::Asked,
            _ => Interval::Auto,
        }),
        leases: None,
        lookups: false,
        failover: false,
        takes_in: false,
        copies: seed.is_multiple_of(4).then(|| copies(seed)),
        group: None,
    };
    let (rounds, round) = (rng.between(10, 60), rng.between(1, 8) * MILLI);
    let fate = Fate {
        from: 400 * MILLI,
        until: 400 * MILLI + rounds * round,
        kills: rng.below(4) as u32,
        pairs: rng.below(2) as u32,
        files: rng.below(3) as u32,
        refusals: rng.below(2) as u32,
        centrals: rng.below(4) as u32,
        stops: rng.between(1, 2) as u32,
        ..Fate::default()
    };
    // Files take a while.
    let ring = Ring::new(shape.ranks(), rounds + 1500 * MILLI / round, round);
    JobWorld::new(rng, shape, ring, &fate).run()
}

#[test]
fn jobs_that_are_to_stop_end_with_a_checkpoint_in_files_whatever_dies() {
    let mut all = Tally::default();
    let mut count = 0;
    for seed in seed_range("REJOIN_JOB_SEEDS", 0..400) {
        let tally = run_to_stop(seed).unwrap_or_else(|wrong| {
            panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_JOB_SEEDS={seed}..{}",
                seed + 1
            )
        });
        count += 1;
        all += &tally;
    }
    println!("{count} seeds, {all:?}");
    if std::env::var("REJOIN_JOB_SEEDS").is_err() {
        assert!(all.stopped * 4 > count, "{} of {count} stop", all.stopped);
        let enough = all.recoveries > 100 && all.centrals > 100 && all.unwritten > 30;
        assert!(enough, "{all:?}");
    }
}

/// A few ranks with engines: every received message is checked.
fn exchange(
    seed: u64,
    disabled_rule: DisabledEpochRule,
) -> Result<(Tally, u64, ShortCounts), String> {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let shape = Shape {
        hosts: rng.between(1, 4) as usize,
        spares: 0,
        per_host: rng.between(1, 4) as u32,
        interval: Interval::Every(rng.between(2, 20)),
        files: rng.chance(50).then_some(Interval::Auto),
        leases: rng.chance(40).then(|| Terms::new(1000, 5000)),
        lookups: seed.is_multiple_of(2),
        failover: false,
        takes_in: false,
        copies: None,
        group: None,
    };
    let fate = Fate {
        from: 5 * MILLI,
        until: rng.between(20, 150) * MILLI,
        kills: rng.below(8) as u32,
        pairs: if shape.files.is_some() {
            rng.below(4) as u32
        } else {
            0
        },
        files: if shape.files.is_some() {
            rng.below(2) as u32
        } else {
            0
        },
        parts: rng.below(3) as u32,
        cuts: rng.below(3) as u32,
        asks: rng.below(3) as u32,
        centrals: rng.below(4) as u32,
        ..Fate::default()
    };
    let (messages, cuts) = (rng.between(20, 300) as usize, rng.below(10));
    let mut engines = Engines::new(&mut rng, shape.ranks(), messages, cuts);
    engines.disabled_rule = disabled_rule;
    let mut world = JobWorld::new(rng, shape, engines, &fate);
    let tally = world.run()?;
    Ok((tally, world.work().broken, world.work().short_counts()))
}

#[test]
fn no_answer_is_changed_by_what_comes_back() {
    let (mut recoveries, mut commits, mut broken, mut fallbacks) = (0, 0, 0, 0);
    let mut short_counts = ShortCounts::default();
    for seed in seed_range("REJOIN_JOB_SEEDS", EXCHANGES) {
        match exchange(seed, DisabledEpochRule::default()) {
            Ok((tally, cuts, short)) => {
                // A rank can't come back from an image that is lost before it has a file.
                let success = tally.verdict == Some(Verdict::Success);
                assert!(success || tally.images > 0, "seed {seed}: {tally:?}");
                fallbacks += tally.fallbacks;
                recoveries += tally.recoveries;
                commits += tally.commits;
                broken += cuts;
                short_counts += short;
            }
            Err(wrong) => panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_JOB_SEEDS={seed}..{}",
                seed + 1
            ),
        }
    }
    println!(
        "{recoveries} recoveries, {commits} checkpoints, {broken} links cut, {short_counts:?}"
    );
    if std::env::var("REJOIN_JOB_SEEDS").is_err() {
        assert!(recoveries > 100 && commits > 300 && broken > 100);
        assert!(fallbacks > 5, "{fallbacks} rollbacks to older files");
        assert!(short_counts.met > 500 && short_counts.direct > 100 && short_counts.unpacked > 500);
    }
}

#[test]
fn without_half_of_the_rule_of_epochs_something_is_lost() {
    for (messages, acks) in [(true, false), (false, true)] {
        let disabled_rule = DisabledEpochRule { messages, acks };
        let wrong = (0..60).find_map(|seed| exchange(seed, disabled_rule).err());
        let wrong = wrong.unwrap_or_else(|| panic!("{disabled_rule:?} is not found"));
        println!("{}", wrong.lines().next().unwrap_or_default());
    }
}

#[test]
fn a_store_that_forgets_is_found() {
    let wrong = (0..100).find_map(|seed| run(seed, true).err());
    let wrong = wrong.expect("a number is given twice");
    println!("{}", wrong.lines().next().unwrap_or_default());
}

#[test]
fn one_seed_is_one_run() {
    assert_eq!(run(5, false), run(5, false));
}
