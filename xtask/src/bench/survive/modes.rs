//! Latency and bandwidth in the default mode beside `--recovery none`.

use super::side_by_side::{Compared, Measured, Way, compare};
use crate::bench::figures::Figure;
use crate::bench::job::Setting;
use anyhow::Result;

const WAYS: [Way; 2] = [
    ("default mode", &[]),
    ("--recovery none", &["--recovery", "none"]),
];

const ALL: [Compared; 3] = [
    Compared {
        words: &["mpibench", "lat", "8"],
        iters: ["300000", "30000"],
        ranks: 2,
        measured: Measured::Printed,
        unit: "us",
        what: "latency of 8 bytes",
        common: &[],
        pairs: 2,
        goal: Some(2.0),
    },
    Compared {
        words: &["mpibench", "bw", "1048576", "64"],
        iters: ["60", "10"],
        ranks: 2,
        measured: Measured::PrintedRate,
        unit: "MB/s",
        what: "bandwidth of 1 MiB",
        common: &[],
        pairs: 2,
        goal: Some(2.0),
    },
    // The memory that it writes was just part of an image, so each page is copied.
    Compared {
        words: &["mpibench", "lat", "2147483647"],
        iters: ["1", "1"],
        ranks: 2,
        measured: Measured::Printed,
        unit: "us",
        what: "a message of 2 GiB",
        common: &[],
        pairs: 1,
        goal: None,
    },
];

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    compare(setting, &ALL, WAYS)
}
