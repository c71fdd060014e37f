//! The options of the benches.

use super::contestants::Medium;
use std::path::PathBuf;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Instead of the comparison with others: recovery, checkpoint, images, image-recoveries,
    /// image-costs, overhead, modes, moves, logging, kills, or survive for all of them; or
    /// bindings, nonblocking, writes, or programs for all of them; or detectors, or rejoin-cost.
    pub(super) names: Vec<String>,
    /// What carries the messages of the comparison.
    #[arg(long, value_enum, default_value_t = Medium::Tcp)]
    pub(super) medium: Medium,
    /// Interleaved rounds of each case, at least five; medians are quoted.
    #[arg(long, default_value_t = Args::ROUNDS)]
    pub(super) rounds: usize,
    /// Only cases whose name contains this text.
    #[arg(long)]
    pub(super) filter: Option<String>,
    /// Fewer iterations per run: a look, not a figure.
    #[arg(long)]
    pub(super) quick: bool,
    /// Where the table, the plot and the samples are written.
    #[arg(long, default_value = "docs/bench")]
    pub(super) out: PathBuf,
    /// An installed Rejoin to measure instead of a fresh release build.
    #[arg(long)]
    pub(super) prefix: Option<PathBuf>,
    /// Seconds after which one run counts as failed.
    #[arg(long, default_value_t = 120)]
    pub(super) timeout: u64,
}

impl Args {
    /// Rounds where none are asked for.
    pub(super) const ROUNDS: usize = 7;
}
