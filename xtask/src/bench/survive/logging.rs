//! What message logging costs without failures: `--recovery sender-log` beside `--recovery none`,
//! where each rank is a recovery group, and where the host is one; and `--recovery receiver-log`
//! where each rank is one. On loopback, on hosts with a link of 10 Gbit/s, and beside other MPIs.

use super::logging_beside;
use super::side_by_side::{Compared, Measured, Way, compare, compare_linked};
use crate::bench::figures::Figure;
use crate::bench::job::Setting;
use anyhow::Result;

const NONE: Way = ("--recovery none", &["--recovery", "none"]);
const RANKS: [Way; 2] = [
    (
        "groups of a rank",
        &["--recovery", "sender-log", "--log-group", "rank"],
    ),
    NONE,
];
const RECEIVERS: [Way; 2] = [
    (
        "receiver-log",
        &["--recovery", "receiver-log", "--log-group", "rank"],
    ),
    NONE,
];
const HOST: [Way; 2] = [
    (
        "a group of the host",
        &["--recovery", "sender-log", "--log-group", "host"],
    ),
    NONE,
];
const TCP: &[&str] = &["--transport", "tcp"];
const SHM: &[&str] = &["--transport", "shm"];

/// Between two ranks.
const fn between(
    words: &'static [&'static str],
    iters: [&'static str; 2],
    measured: Measured,
    what: &'static str,
    (common, goal): (&'static [&'static str], Option<f64>),
) -> Compared {
    Compared {
        words,
        iters,
        ranks: 2,
        measured,
        unit: match measured {
            Measured::PrintedRate => "MB/s",
            Measured::Printed | Measured::Wall => "us",
        },
        what,
        common,
        pairs: 1,
        goal,
    }
}

/// A program on four ranks.
const fn program(
    words: &'static [&'static str],
    iters: [&'static str; 2],
    what: &'static str,
) -> Compared {
    Compared {
        words,
        iters,
        ranks: 4,
        measured: Measured::Wall,
        unit: "s",
        what,
        common: &[],
        pairs: 1,
        goal: Some(2.0),
    }
}

const LATENCY: &[&str] = &["mpibench", "lat", "8"];
const WILDCARDS: &[&str] = &["mpibench", "anylat", "8"];
const BANDWIDTH: &[&str] = &["mpibench", "bw", "1048576", "64"];
const EXCHANGES: [&str; 2] = ["200000", "20000"];
/// The log has been through all of its memory after a part of them.
const WINDOWS: [&str; 2] = ["400", "50"];

/// A bandwidth of 0.85.
const BANDWIDTH_GOAL: f64 = 17.6;

const OF_RANKS: [Compared; 8] = [
    between(
        LATENCY,
        EXCHANGES,
        Measured::Printed,
        "latency of 8 bytes, TCP",
        (TCP, Some(10.0)),
    ),
    between(
        WILDCARDS,
        ["50000", "10000"],
        Measured::Printed,
        "latency of 8 bytes with wildcards, TCP",
        (TCP, Some(15.0)),
    ),
    between(
        BANDWIDTH,
        WINDOWS,
        Measured::PrintedRate,
        "bandwidth of 1 MiB, TCP",
        (TCP, Some(BANDWIDTH_GOAL)),
    ),
    between(
        LATENCY,
        EXCHANGES,
        Measured::Printed,
        "latency of 8 bytes, shared memory",
        (SHM, None),
    ),
    between(
        BANDWIDTH,
        WINDOWS,
        Measured::PrintedRate,
        "bandwidth of 1 MiB, shared memory",
        (SHM, None),
    ),
    program(
        &["state", "stencil", "64", "100"],
        ["400", "40"],
        "stencil on four ranks",
    ),
    program(
        &["state", "cg", "64", "100"],
        ["400", "40"],
        "conjugate gradients on four ranks",
    ),
    program(
        &["apps", "is", "16777216"],
        ["60", "6"],
        "integer sort on four ranks",
    ),
];

const OF_RECEIVERS: [Compared; 5] = [
    between(
        LATENCY,
        EXCHANGES,
        Measured::Printed,
        "receivers log, latency of 8 bytes, TCP",
        (TCP, Some(10.0)),
    ),
    between(
        WILDCARDS,
        ["50000", "10000"],
        Measured::Printed,
        "receivers log, latency of 8 bytes with wildcards, TCP",
        (TCP, Some(15.0)),
    ),
    between(
        BANDWIDTH,
        WINDOWS,
        Measured::PrintedRate,
        "receivers log, bandwidth of 1 MiB, TCP",
        (TCP, Some(BANDWIDTH_GOAL)),
    ),
    program(
        &["state", "stencil", "64", "100"],
        ["400", "40"],
        "receivers log, stencil on four ranks",
    ),
    program(
        &["apps", "is", "16777216"],
        ["60", "6"],
        "receivers log, integer sort on four ranks",
    ),
];

const OF_HOST: [Compared; 2] = [
    between(
        LATENCY,
        EXCHANGES,
        Measured::Printed,
        "latency of 8 bytes within a group",
        (SHM, Some(2.0)),
    ),
    between(
        BANDWIDTH,
        WINDOWS,
        Measured::PrintedRate,
        "bandwidth of 1 MiB within a group",
        (SHM, Some(2.0)),
    ),
];

/// A host for each of two ranks, and for two of four.
const LINK: (&str, &str) = ("h1:1,h2:1", "10gbit");
const PROGRAM_LINK: (&str, &str) = ("h1:2,h2:2", "10gbit");
/// All hosts are on the same cores: a wait that spins keeps others from running.
const NO_SPIN: &[&str] = &["--spin", "0"];

const OF_LINK: [Compared; 2] = [
    between(
        LATENCY,
        EXCHANGES,
        Measured::Printed,
        "link of 10 Gbit/s, latency of 8 bytes",
        (&[], Some(10.0)),
    ),
    between(
        BANDWIDTH,
        ["100", "20"],
        Measured::PrintedRate,
        "link of 10 Gbit/s, bandwidth of 1 MiB",
        (&[], Some(BANDWIDTH_GOAL)),
    ),
];

const RECEIVERS_OF_LINK: [Compared; 1] = [between(
    BANDWIDTH,
    ["100", "20"],
    Measured::PrintedRate,
    "receivers log, link of 10 Gbit/s, bandwidth of 1 MiB",
    (&[], Some(BANDWIDTH_GOAL)),
)];

const PROGRAMS_OF_LINK: [Compared; 3] = [
    Compared {
        common: NO_SPIN,
        ..program(
            &["state", "stencil", "64", "100"],
            ["400", "40"],
            "two hosts, link of 10 Gbit/s, stencil on four ranks",
        )
    },
    Compared {
        common: NO_SPIN,
        ..program(
            &["state", "cg", "64", "100"],
            ["400", "40"],
            "two hosts, link of 10 Gbit/s, conjugate gradients on four ranks",
        )
    },
    Compared {
        common: NO_SPIN,
        ..program(
            &["apps", "is", "16777216"],
            ["60", "6"],
            "two hosts, link of 10 Gbit/s, integer sort on four ranks",
        )
    },
];

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let mut figures = compare(setting, &OF_RANKS, RANKS)?;
    figures.extend(compare(setting, &OF_HOST, HOST)?);
    figures.extend(compare(setting, &OF_RECEIVERS, RECEIVERS)?);
    figures.extend(compare_linked(setting, LINK, &OF_LINK, RANKS)?);
    let receivers = compare_linked(setting, LINK, &RECEIVERS_OF_LINK, RECEIVERS)?;
    figures.extend(receivers);
    let programs = compare_linked(setting, PROGRAM_LINK, &PROGRAMS_OF_LINK, HOST)?;
    figures.extend(programs);
    let ways = [NONE, RANKS[0], RECEIVERS[0]];
    for words in [LATENCY, WILDCARDS, BANDWIDTH] {
        figures.extend(logging_beside::run(setting, words, ways)?);
    }
    Ok(figures)
}
