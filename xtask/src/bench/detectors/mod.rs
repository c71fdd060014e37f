//! `cargo xtask bench detectors`: what each detector costs, how soon it notices a lost host, and
//! whether load deceives it.

mod cost_plot;
mod detector_runs;
mod detector_table;

use super::options::Args;
use anyhow::{Context, Result, ensure};
use detector_runs::Runs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program of HPC Challenge, if `tests/clients/hpcc.sh` has built it for this installation.
fn hpcc() -> Option<PathBuf> {
    let built = crate::workspace::root().join("target/clients/hpcc/hpcc");
    built.exists().then_some(built)
}

/// Runs the measuring program, whose lines go to a file as they come: they take minutes.
fn measure(prefix: &Path, rounds: usize, samples: &Path) -> Result<()> {
    let mut command = Command::new("cargo");
    command
        .current_dir(crate::workspace::root())
        .env("REJOIN_PREFIX", prefix)
        .args(["run", "-q", "--profile", "fast", "-p", "rejoin-tests"])
        .args(["--example", "detector_costs", "--", &rounds.to_string()])
        .args(hpcc())
        .stdout(File::create(samples)?);
    let status = command.status().context("starting detector_costs")?;
    ensure!(status.success(), "detector_costs: {status}");
    Ok(())
}

/// Measures an installation, and writes the page, the plot and the samples. Without one, writes the
/// page and the plot anew from the samples.
pub fn run(args: &Args) -> Result<()> {
    let out = crate::workspace::root().join(&args.out);
    std::fs::create_dir_all(&out)?;
    let samples = out.join("detectors.tsv");
    if let Some(prefix) = &args.prefix {
        measure(&std::path::absolute(prefix)?, args.rounds, &samples)?;
    }
    let text = std::fs::read_to_string(&samples).with_context(|| {
        let shown = samples.display();
        format!("{shown}: there are no samples; --prefix DIR measures an installation")
    })?;
    let runs = Runs::read(&text);
    std::fs::write(out.join("detectors.md"), detector_table::page(&runs))?;
    cost_plot::write(&out.join("detectors.svg"), &runs)?;
    println!("written to {}", out.join("detectors.md").display());
    Ok(())
}
