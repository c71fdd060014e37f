//! Cost and speed of recovery: recovery, checkpoints, files of images, overhead, both recovery
//! modes side by side, the cost of message logging, and the same kills in each mode.

mod checkpoint;
mod image_costs;
mod images;
mod kill_schedule;
mod logging;
mod logging_beside;
mod modes;
mod moves;
mod overhead;
mod recovery;
mod side_by_side;

use super::figures::{Case, Table};

/// The cases in the order of the table.
const CASES: [Case; 10] = [
    ("recovery", recovery::run),
    ("checkpoint", checkpoint::run),
    ("images", images::run),
    ("image-recoveries", images::run_recoveries),
    ("image-costs", image_costs::run),
    ("overhead", overhead::run),
    ("modes", modes::run),
    ("moves", moves::run),
    ("logging", logging::run),
    ("kills", kill_schedule::run),
];

/// The table of these cases, `docs/bench/recovery.md`.
pub const TABLE: Table = Table {
    name: "survive",
    file: "recovery",
    title: "Survival: how fast, and at what price",
    cases: &CASES,
};
