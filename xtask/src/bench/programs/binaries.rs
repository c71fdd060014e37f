//! Binaries of Debian over Rejoin, beside the Open MPI for which they were compiled.

use anyhow::{Context, Result, ensure};
use std::process::Command;

use crate::bench::figures::Figure;
use crate::bench::job::Setting;

/// Scripts of `tests/clients/debian`.
const BINARIES: [&str; 5] = ["lammps", "hpcc", "espresso", "cp2k", "gromacs"];
/// Each takes at most this multiple of the time that it takes with Debian's MPI.
const GOAL: f64 = 1.05;
/// All together take at most this multiple.
const MEAN_GOAL: f64 = 0.95;

/// Measures whole runs of each on 2 ranks, in turns, without losses and with checkpoints as usual.
pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let (mut figures, mut product) = (Vec::new(), 1.0);
    for name in BINARIES {
        let ratios = ratios(setting, name)?;
        let text = format!("{name}: time over that with Debian's Open MPI, 2 ranks");
        let figure = Figure::median(text, "", &ratios).at_most(GOAL);
        product *= figure.value;
        figures.push(figure);
    }
    let mean = f64::powf(product, 1.0 / BINARIES.len() as f64);
    figures.push(Figure::count("their geometric mean", "", mean).at_most(MEAN_GOAL));
    Ok(figures)
}

/// The ratio of each round.
fn ratios(setting: &Setting, name: &str) -> Result<Vec<f64>> {
    let root = crate::workspace::root();
    let times = root.join("target/bench").join(format!("{name}.times"));
    let _ = std::fs::remove_file(&times);
    let script = root.join("tests/clients/debian").join(name);
    let mut command = Command::new(script.with_extension("sh"));
    command
        .arg(&setting.prefix)
        .arg(root.join("target/clients"))
        .env("BENCH_TIMES", &times)
        .env("BENCH_ROUNDS", setting.rounds.to_string());
    let status = command
        .status()
        .with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    let text = std::fs::read_to_string(&times)?;
    let ratio = |line: &str| {
        let (theirs, own) = line.split_once('\t')?;
        Some(own.parse::<f64>().ok()? / theirs.parse::<f64>().ok()?)
    };
    let all = text.lines().map(ratio).collect::<Option<Vec<_>>>();
    all.with_context(|| format!("{} has no times", times.display()))
}
