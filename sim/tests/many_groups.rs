//! Jobs of many recovery groups, a fixed set of seeds: a failure brings back the ranks of its group
//! only, also where hosts are lost or ranks move, and groups take turns with their images.
//! `REJOIN_MANY_GROUPS_SEEDS=1000..5000` runs others, and `REJOIN_MANY_GROUPS_SEEDS=17..18` one
//! that failed.

use rejoin_managers_protocol::central::{Central, CentralOmission};
use rejoin_managers_protocol::checkpoint::{CopyInterval, Interval};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_sim::job::logged_ring::LoggedRing;
use rejoin_sim::job::{Fate, JobWorld, MILLI, Shape, Tally};
use rejoin_sim::rng::Rng;
use rejoin_sim::seed_range::seed_range;
use std::ops::Range;

/// Counts of what senders of messages had to do, over all runs.
#[derive(Debug, Default)]
struct Logs {
    /// Rounds that were done again.
    repeated: u64,
    /// Messages for ranks that came back.
    replayed: u64,
    /// Messages that came to ranks which had them.
    known: u64,
    /// Messages that are retained no more.
    released: u64,
    lacked: u64,
}

/// Runs a seed with central managers that are changed so.
type Run = fn(u64, fn(&mut Central)) -> Result<(Tally, Logs), String>;

/// What the runs of some seeds have done.
#[derive(Debug, Default)]
struct Runs {
    count: u64,
    well: u64,
    all: Tally,
    logs: Logs,
}

/// A job of this shape whose ranks do so many rounds.
fn job(
    rng: Rng,
    shape: Shape,
    fate: &Fate,
    (rounds, round): (u64, u64),
    prepare: fn(&mut Central),
) -> Result<(Tally, Logs), String> {
    let group = shape.group.unwrap_or(1);
    let ring = LoggedRing::new(shape.ranks(), group, rounds, round);
    let mut world = JobWorld::new(rng, shape, ring, fate).with_central(prepare);
    let tally = world.run()?;
    let ring = world.work();
    let logs = Logs {
        repeated: ring.repeated,
        replayed: ring.replayed,
        known: ring.known,
        released: ring.released,
        lacked: ring.lacked,
    };
    Ok((tally, logs))
}

fn whole(_: &mut Central) {}

/// Runs these seeds, or those of the variable.
fn runs(
    fixed: Range<u64>,
    run: impl Fn(u64, fn(&mut Central)) -> Result<(Tally, Logs), String>,
) -> Runs {
    let mut runs = Runs::default();
    for seed in seed_range("REJOIN_MANY_GROUPS_SEEDS", fixed) {
        let (tally, logs) = run(seed, whole).unwrap_or_else(|wrong| {
            panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_MANY_GROUPS_SEEDS={seed}..{}",
                seed + 1
            )
        });
        runs.count += 1;
        runs.well += u64::from(tally.verdict == Some(Verdict::Success));
        runs.all += &tally;
        runs.logs.repeated += logs.repeated;
        runs.logs.replayed += logs.replayed;
        runs.logs.known += logs.known;
        runs.logs.released += logs.released;
        runs.logs.lacked += logs.lacked;
    }
    println!("{runs:?}");
    runs
}

fn is_fixed() -> bool {
    std::env::var("REJOIN_MANY_GROUPS_SEEDS").is_err()
}

/// Hosts, ranks on each, and ranks of a group.
fn sizes(seed: u64) -> (usize, u32, u32) {
    match seed % 8 {
        7 => (64, 64, 64),
        kind if kind % 2 == 0 => (64, 32, 1),
        _ => (64, 32, 32),
    }
}

/// Thousands of ranks, in groups of a rank or of a host.
fn thousands(seed: u64, prepare: fn(&mut Central)) -> Result<(Tally, Logs), String> {
    let mut rng = Rng::new(seed ^ 0x6709);
    let (hosts, per_host, group) = sizes(seed);
    let shape = Shape {
        hosts,
        spares: 0,
        per_host,
        interval: Interval::Every(rng.between(20, 60)),
        files: None,
        leases: None,
        lookups: false,
        failover: false,
        takes_in: false,
        copies: None,
        group: Some(group),
    };
    let (rounds, round) = (rng.between(30, 60), rng.between(4, 8) * MILLI);
    let fate = Fate {
        from: 150 * MILLI,
        until: 150 * MILLI + rounds * round,
        kills: rng.between(2, 8) as u32,
        crowds: 1 + rng.below(2) as u32,
        parts: rng.below(3) as u32,
        cuts: rng.below(4) as u32,
        asks: rng.below(2) as u32,
        centrals: rng.below(4) as u32,
        ..Fate::default()
    };
    job(rng, shape, &fate, (rounds, round), prepare)
}

#[test]
fn of_thousands_of_ranks_those_of_a_failed_group_come_back() {
    let runs = runs(0..16, |seed, prepare| {
        let (tally, logs) = thousands(seed, prepare)?;
        let (hosts, per_host, group) = sizes(seed);
        let most = (hosts as u32 * per_host / group).div_ceil(8);
        // No turn is wasted either.
        let at_once = tally.most_at_once[0];
        assert_eq!(at_once, u64::from(most), "seed {seed}: {tally:?}");
        Ok((tally, logs))
    });
    if is_fixed() {
        let Runs {
            count, well, all, ..
        } = &runs;
        assert_eq!(well, count);
        assert!(all.group_returns > 150 && all.centrals > 10, "{all:?}");
        assert!(runs.logs.replayed > 1000 && runs.logs.known > 1000);
    }
}

/// Files are copied each time, or at an interval of the copies' own. Another host keeps copies, or
/// parities of two or three files.
fn copies(seed: u64) -> (usize, CopyInterval) {
    let interval = match seed % 3 {
        0 => CopyInterval::EachTime,
        1 => CopyInterval::Own(Interval::Asked),
        _ => CopyInterval::Own(Interval::Every(100)),
    };
    (1 + (seed / 3 % 3) as usize, interval)
}

/// Groups lose their hosts, for good or because these are unreachable.
fn without_hosts(seed: u64, prepare: fn(&mut Central)) -> Result<(Tally, Logs), String> {
    let mut rng = Rng::new(seed ^ 0x6105);
    let term = rng.between(1000, 4000);
    let spares = rng.below(3) as usize;
    let per_host = rng.between(1, 6) as u32;
    let shape = Shape {
        hosts: rng.between(2, 8) as usize + spares,
        spares,
        per_host,
        interval: Interval::Every(rng.between(5, 60)),
        files: Some(Interval::Every(rng.between(20, 300))),
        leases: Some(Terms::new(term, term + 500)),
        lookups: seed.is_multiple_of(4),
        failover: true,
        takes_in: true,
        copies: seed.is_multiple_of(2).then(|| copies(seed)),
        group: Some(if rng.chance(50) { 1 } else { per_host }),
    };
    let (rounds, round) = (rng.between(20, 60), rng.between(20, 80) * MILLI);
    let fate = Fate {
        // By then most have a checkpoint that outlives a host.
        from: 400 * MILLI,
        until: 400 * MILLI + rounds * round,
        kills: rng.below(6) as u32,
        parts: rng.below(4) as u32,
        cuts: rng.below(4) as u32,
        locals: rng.below(3) as u32,
        centrals: rng.below(4) as u32,
        files: rng.below(2) as u32,
        ..Fate::default()
    };
    job(
        rng,
        shape,
        &fate,
        (rounds + 400 * MILLI / round, round),
        prepare,
    )
}

#[test]
fn groups_of_lost_hosts_come_back_on_others() {
    let runs = runs(0..400, without_hosts);
    if is_fixed() {
        let Runs {
            count, well, all, ..
        } = &runs;
        assert!(well * 10 > count * 8, "{well} of {count} seeds succeed");
        assert!(all.moves > 100 && all.displaced > 10, "{all:?}");
        assert!(all.group_returns > 500 && all.centrals > 200, "{all:?}");
        assert!(runs.logs.replayed > 1000 && runs.logs.released > 1000);
        assert!(runs.logs.lacked > 100, "{:?}", runs.logs);
    }
}

/// The same, where processes fail again and again with their images in memory, also shortly before
/// their hosts.
fn fallible(seed: u64, prepare: fn(&mut Central)) -> Result<(Tally, Logs), String> {
    let mut rng = Rng::new(seed ^ 0x61f7);
    let per_host = rng.between(1, 3) as u32;
    let shape = Shape {
        hosts: rng.between(3, 6) as usize,
        spares: 0,
        per_host,
        interval: Interval::Every(rng.between(20, 60)),
        files: Some(Interval::Every(rng.between(20, 60))),
        leases: Some(Terms::new(1000, 1500)),
        lookups: false,
        failover: true,
        takes_in: true,
        // Files are there long before their copies.
        copies: Some((
            1,
            CopyInterval::Own(Interval::Every(rng.between(300, 2000))),
        )),
        group: Some(per_host),
    };
    let (rounds, round) = (rng.between(40, 100), rng.between(10, 40) * MILLI);
    let fate = Fate {
        from: 200 * MILLI,
        until: 200 * MILLI + rounds * round,
        kills: rng.between(4, 20) as u32,
        images: rng.below(4) as u32,
        pairs: rng.between(4, 20) as u32,
        locals: rng.between(1, 3) as u32,
        ..Fate::default()
    };
    job(
        rng,
        shape,
        &fate,
        (rounds + 200 * MILLI / round, round),
        prepare,
    )
}

#[test]
fn groups_come_back_together_where_files_lack_messages() {
    let runs = runs(0..400, fallible);
    if is_fixed() {
        assert!(runs.all.returns_beside > 10, "{:?}", runs.all);
        assert!(runs.logs.lacked > 100, "{:?}", runs.logs);
    }
}

/// Ranks of groups move while others die.
fn moving(seed: u64, prepare: fn(&mut Central)) -> Result<(Tally, Logs), String> {
    let mut rng = Rng::new(seed ^ 0x603e);
    let spares = rng.below(3) as usize;
    let per_host = rng.between(1, 6) as u32;
    let shape = Shape {
        hosts: rng.between(2, 6) as usize + spares,
        spares,
        per_host,
        interval: Interval::Every(rng.between(2, 60)),
        files: rng.chance(70).then(|| Interval::Every(rng.between(5, 100))),
        leases: (!seed.is_multiple_of(2)).then(|| Terms::new(1000, 3000)),
        lookups: rng.chance(30),
        failover: true,
        takes_in: true,
        copies: rng.chance(50).then(|| copies(seed)),
        group: Some(if rng.chance(50) { 1 } else { per_host }),
    };
    let (rounds, round) = (rng.between(10, 60), rng.between(1, 12) * MILLI);
    let mut fate = Fate {
        from: 10 * MILLI,
        until: 20 * MILLI + rounds * round * rng.between(5, 15) / 10,
        moves: rng.between(2, 16) as u32,
        healths: rng.below(4) as u32,
        added: rng.below(3) as u32,
        ..Fate::default()
    };
    // In half of the seeds ranks only move.
    if !seed.is_multiple_of(2) {
        fate.kills = rng.below(8) as u32;
        fate.cuts = rng.below(3) as u32;
        fate.centrals = rng.below(4) as u32;
        fate.parts = rng.below(3) as u32;
        fate.files = rng.below(3) as u32;
        fate.leaves = u32::from(rng.chance(20));
        fate.locals = u32::from(rng.chance(20));
    }
    job(rng, shape, &fate, (rounds, round), prepare)
}

#[test]
fn ranks_of_groups_move_whatever_dies() {
    let runs = runs(0..400, |seed, prepare| {
        let (tally, logs) = moving(seed, prepare)?;
        let is_well = tally.verdict == Some(Verdict::Success) && tally.returned == 0;
        let only_moves = seed.is_multiple_of(2);
        assert!(is_well || !only_moves, "seed {seed}: {tally:?}");
        Ok((tally, logs))
    });
    if is_fixed() {
        let Runs {
            count, well, all, ..
        } = &runs;
        assert!(well * 10 > count * 8, "{well} of {count} seeds succeed");
        assert!(all.live_moves > *count && all.failed_moves > 20, "{all:?}");
        assert!(
            all.group_returns > 100 && all.commits_in_moves > 100,
            "{all:?}"
        );
    }
}

/// Without this part of central's work, one of the first seeds fails, and its error says so.
fn found(part: &str, says: &str, run: Run, omit: fn(&mut Central)) {
    let wrong = (0..20).find_map(|seed| Some((seed, run(seed, omit).err()?)));
    let (seed, wrong) = wrong.unwrap_or_else(|| panic!("nobody notices: {part}"));
    let first = wrong.lines().next().unwrap_or_default();
    println!("without {part}, seed {seed}: {first:.200}");
    assert!(first.contains(says), "without {part}, seed {seed}: {wrong}");
}

#[test]
fn a_central_manager_that_forgets_a_part_of_its_work_for_groups_is_found() {
    found("turns", "groups have their turn", thousands, |central| {
        central.omit(CentralOmission::Turns);
    });
    found("own groups", "all ranks go back", thousands, |central| {
        central.omit(CentralOmission::OwnGroup);
    });
    found(
        "stored commits",
        "before it is stored",
        thousands,
        |central| {
            central.omit(CentralOmission::StoredCommit);
        },
    );
    found(
        "own commits",
        "a group commits an older checkpoint",
        without_hosts,
        |central| {
            central.omit(CentralOmission::OwnCommit);
        },
    );
    found("updates", "stuck", without_hosts, |central| {
        central.omit(CentralOmission::Updates);
    });
    found("files", "lacks message", without_hosts, |central| {
        central.omit(CentralOmission::FilesRelease);
    });
    found("fitting files", "lacks message", fallible, |central| {
        central.omit(CentralOmission::FittingFiles);
    });
}
