//! Jobs of thousands of hosts whose local managers probe each other.

use rejoin_managers_protocol::checkpoint::Interval;
use rejoin_managers_protocol::detector::{Detector, DetectorSettings};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_sim::job::ring_program::Ring;
use rejoin_sim::job::{Fate, JobWorld, MILLI, Shape, Tally};
use rejoin_sim::rng::Rng;

/// Hosts of the job, of one rank each.
const HOSTS: usize = 2000;

/// A job of about ten seconds with this detector. So many hosts can't be reached for a while.
fn run(detector: Detector, parts: u32) -> Tally {
    let rng = Rng::new(7);
    let settings = DetectorSettings {
        detector,
        interval: 500,
        timeout: 300,
    };
    let shape = Shape {
        hosts: HOSTS,
        spares: 0,
        per_host: 1,
        interval: Interval::Every(5000),
        files: None,
        leases: Some(Terms::new(5000, 60_000).with_detector(settings)),
        lookups: true,
        failover: false,
        takes_in: false,
        copies: None,
        group: None,
    };
    let fate = Fate {
        from: 1000 * MILLI,
        until: 6000 * MILLI,
        parts,
        ..Fate::default()
    };
    let ring = Ring::new(shape.ranks(), 20, 500 * MILLI);
    let tally = JobWorld::new(rng, shape, ring, &fate).run();
    tally.unwrap_or_else(|wrong| panic!("{wrong}"))
}

#[test]
fn each_host_is_probed_by_one_other_and_central_hears_less() {
    let (star, ring) = (run(Detector::Star, 0), run(Detector::Ring, 0));
    for tally in [&star, &ring] {
        assert_eq!(tally.verdict, Some(Verdict::Success));
        assert_eq!((tally.suspected, tally.links_lost), (0, 0), "{tally:?}");
    }
    println!("star: {star:?}\nring: {ring:?}");
    assert_eq!(star.probes, 0);
    let seconds = ring.ended / (1000 * MILLI);
    // A probe and an answer each interval, and some more while hosts join.
    let most = HOSTS as u64 * 2 * (2 * seconds + 4);
    assert!(
        ring.probes > HOSTS as u64 * 2 * seconds && ring.probes < most,
        "{ring:?}"
    );
    assert!(
        ring.reports < star.reports,
        "{} {}",
        ring.reports,
        star.reports
    );
}

#[test]
fn hosts_of_thousands_that_cannot_be_reached_are_suspected_and_nothing_else_is() {
    let tally = run(Detector::Ring, 12);
    assert_eq!(tally.verdict, Some(Verdict::Success), "{tally:?}");
    println!("{tally:?}");
    assert!(tally.parts > 3 && tally.suspected > 0, "{tally:?}");
    assert_eq!(tally.links_lost, 0, "{tally:?}");
    assert!(tally.suspected <= tally.parts, "{tally:?}");
}
