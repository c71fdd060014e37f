//! A fixed set of seeds. `REJOIN_SIM_SEEDS=1000..5000` runs others, and `REJOIN_SIM_SEEDS=17..18`
//! one that failed.

use rejoin_sim::message_plan::Plan;
use rejoin_sim::node::{GetCounts, ShortCounts};
use rejoin_sim::rng::Rng;
use rejoin_sim::seed_range::seed_range;
use rejoin_sim::world::{Faults, World};

/// Seeds that every test run takes.
const FIXED: std::ops::Range<u64> = 0..400;

/// What a seed's run did.
#[derive(Debug, Default, PartialEq, Eq)]
struct Done {
    messages: usize,
    cuts: u32,
    short: ShortCounts,
    gets: GetCounts,
}

fn run(seed: u64) -> (Done, Result<(), String>) {
    let mut rng = Rng::new(seed);
    let ranks = match seed % 16 {
        15 => rng.between(17, 64) as u32,
        7 => rng.between(9, 16) as u32,
        _ => rng.between(2, 8) as u32,
    };
    let count = rng.between(20, 600) as usize;
    let calm = rng.chance(15);
    let faults = Faults {
        cut_every: if calm { 0 } else { rng.between(100, 20_000) },
        until: rng.between(50_000, 400_000),
        dead_on_arrival: rng.below(20),
        late: rng.below(50),
    };
    let plan = Plan::random(&mut rng, ranks, count);
    let messages = plan.messages.len();
    let mut world = World::new(rng, plan, faults);
    let result = world.run();
    let done = Done {
        messages,
        cuts: world.cuts,
        short: world.short_counts(),
        gets: world.get_counts(),
    };
    (done, result)
}

#[test]
fn every_message_arrives_once_in_order_and_unchanged() {
    let (mut all, mut count) = (Done::default(), 0);
    for seed in seed_range("REJOIN_SIM_SEEDS", FIXED) {
        let (done, result) = run(seed);
        if let Err(violation) = result {
            panic!(
                "seed {seed}: {violation}\nrepeat it with REJOIN_SIM_SEEDS={seed}..{}",
                seed + 1
            );
        }
        all.messages += done.messages;
        all.cuts += done.cuts;
        all.short += done.short;
        all.gets += done.gets;
        count += 1;
    }
    println!("{count} seeds: {all:?}");
    let Done {
        cuts, short, gets, ..
    } = all;
    let least = [
        (u64::from(cuts), 1_000),
        (short.met, 500),
        (short.direct, 500),
        (short.unpacked, 500),
        (gets.whole, 500),
        (gets.failed, 50),
        (gets.after_cut, 20),
    ];
    assert!(
        std::env::var("REJOIN_SIM_SEEDS").is_ok() || least.iter().all(|(n, least)| n > least),
        "too little of something to mean much: {least:?}"
    );
}

#[test]
fn one_seed_is_one_run() {
    assert_eq!(run(3), run(3));
}
