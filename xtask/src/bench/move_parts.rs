//! `cargo xtask bench rejoin-cost`: the parts of a move by process count, real and simulated.

use super::options::Args;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Moves of each real job.
const MOVES: &str = "20";
const FEW_MOVES: &str = "4";

/// Runs an example of a package to its good end.
fn example(package: &str, name: &str) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(crate::workspace::root())
        .args(["run", "-q", "--profile", "fast", "-p", package])
        .args(["--example", name, "--"]);
    command
}

fn finish(command: &mut Command, name: &str) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {name}"))?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

/// Moves a rank of real jobs. The lines go to a file as they come: they take minutes.
fn measure(prefix: &Path, is_quick: bool, samples: &Path) -> Result<()> {
    let moves = if is_quick { FEW_MOVES } else { MOVES };
    let mut command = example("rejoin-tests", "move_parts");
    command.arg(moves).env("REJOIN_PREFIX", prefix);
    finish(command.stdout(File::create(samples)?), "move_parts")
}

/// Measures an installation that has fault injection, if one is named, then simulates large jobs,
/// and writes the page, the plot and the samples.
pub fn run(args: &Args) -> Result<()> {
    let out = crate::workspace::root().join(&args.out);
    std::fs::create_dir_all(&out)?;
    if let Some(prefix) = &args.prefix {
        let samples = out.join("rejoin-cost-real.tsv");
        measure(&std::path::absolute(prefix)?, args.quick, &samples)?;
    }
    finish(
        example("rejoin-sim", "rejoin_cost").arg(&out),
        "rejoin_cost",
    )?;
    println!("written to {}", out.join("rejoin-cost.md").display());
    Ok(())
}
