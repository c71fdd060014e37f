//! Jobs whose ranks are several recovery groups, a fixed set of seeds: the ranks of a group come
//! back while the others stand. `REJOIN_GROUP_SEEDS=1000..5000` runs others, and
//! `REJOIN_GROUP_SEEDS=17..18` one that failed.

use rejoin_managers_protocol::checkpoint::Interval;
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_sim::job::engines::Engines;
use rejoin_sim::job::{Fate, JobWorld, MILLI, Shape, Tally};
use rejoin_sim::rng::Rng;
use rejoin_sim::seed_range::seed_range;

fn shape(rng: &mut Rng, (hosts, per_host): (u64, u64), interval: (u64, u64)) -> Shape {
    let per_host = rng.between(1, per_host) as u32;
    Shape {
        hosts: rng.between(1, hosts) as usize,
        spares: 0,
        per_host,
        interval: Interval::Every(rng.between(interval.0, interval.1)),
        files: None,
        leases: rng.chance(40).then(|| Terms::new(1000, 5000)),
        lookups: false,
        failover: false,
        takes_in: false,
        copies: None,
        group: Some(if rng.chance(50) { 1 } else { per_host }),
    }
}

/// A few ranks with engines: every received message is checked.
fn exchange(seed: u64) -> Result<(Tally, u64, (u64, u64)), String> {
    let mut rng = Rng::new(seed ^ 0x9709);
    let shape = shape(&mut rng, (4, 4), (2, 20));
    let fate = Fate {
        from: 5 * MILLI,
        until: rng.between(20, 150) * MILLI,
        kills: rng.below(12) as u32,
        crowds: rng.below(2) as u32,
        parts: rng.below(3) as u32,
        cuts: rng.below(3) as u32,
        asks: rng.below(3) as u32,
        centrals: rng.below(4) as u32,
        ..Fate::default()
    };
    let (messages, cuts) = (rng.between(20, 300) as usize, rng.below(10));
    let engines = Engines::new(&mut rng, shape.ranks(), messages, cuts);
    let engines = engines.in_groups(shape.log_groups());
    // Every other job has logs at the receivers: some of them have little room.
    let words = if rng.chance(50) {
        0
    } else {
        100 << rng.below(12)
    };
    let engines = engines.with_receive_logs(words);
    let mut world = JobWorld::new(rng, shape, engines, &fate);
    let tally = world.run()?;
    Ok((tally, world.work().broken, world.work().received))
}

#[test]
fn no_answer_is_changed_by_a_group_that_comes_back() {
    let mut all = Tally::default();
    let (mut count, mut well, mut broken) = (0, 0, 0);
    let mut received = (0, 0);
    for seed in seed_range("REJOIN_GROUP_SEEDS", 0..200) {
        let (tally, cuts, (restored, unlogged)) = exchange(seed).unwrap_or_else(|wrong| {
            panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_GROUP_SEEDS={seed}..{}",
                seed + 1
            )
        });
        count += 1;
        well += u64::from(tally.verdict == Some(Verdict::Success));
        broken += cuts;
        received = (received.0 + restored, received.1 + unlogged);
        all += &tally;
    }
    println!("{count} seeds, {well} successes, {broken} links cut, {all:?}");
    let (restored, unlogged) = received;
    println!("{restored} messages came from receive logs, {unlogged} had no room there");
    if std::env::var("REJOIN_GROUP_SEEDS").is_err() {
        assert!(well * 10 > count * 9, "{well} of {count} seeds succeed");
        let enough = all.lone_losses > 200 && all.centrals > 100 && broken > 100;
        assert!(enough, "{all:?}");
        assert!(restored > 300 && unlogged > 300, "{received:?}");
    }
}
