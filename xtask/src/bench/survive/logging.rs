//! What message logging costs without failures: `--recovery sender-log` beside `--recovery none`,
//! where each rank is a recovery group, and where the host is one; and `--recovery receiver-log`
//! where each rank is one.

use super::figures::Figure;
use super::job::Setting;
use super::side_by_side::{Compared, Measured, Way, compare};
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

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let mut figures = compare(setting, &OF_RANKS, RANKS)?;
    figures.extend(compare(setting, &OF_HOST, HOST)?);
    figures.extend(compare(setting, &OF_RECEIVERS, RECEIVERS)?);
    Ok(figures)
}
