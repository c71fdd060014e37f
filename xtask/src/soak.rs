//! `cargo xtask soak`: kills thousands of ranks, with other seeds each time, until the time is
//! over.

use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Options of `cargo xtask soak`.
#[derive(clap::Args)]
pub struct Args {
    /// Begins no further round after so many minutes.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Begins no further round after so many ranks have come back.
    #[arg(long)]
    kills: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// An installation to test instead of a fresh one.
    #[arg(long)]
    prefix: Option<PathBuf>,
    /// Runs the models at their largest bounds first, which takes hours.
    #[arg(long)]
    models: bool,
}

/// Counts of the work done so far.
#[derive(Debug, Default)]
struct Counts {
    rounds: u64,
    back: u64,
    simulated: u64,
    jobs: u64,
}

/// Simulator seeds of a round.
const SIMULATED: u64 = 400;
/// Simulated jobs of a round.
const JOBS: u64 = 16;
/// Seeds that a round takes of the real programs, at most.
const SEEDS: u64 = 20;

/// A command, and how it is written.
struct Step {
    variables: Vec<(&'static str, String)>,
    arguments: &'static str,
}

impl Step {
    /// To be copied into a shell.
    fn written(&self) -> String {
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| format!("{name}={value} "));
        format!("{}cargo {}", variables.collect::<String>(), self.arguments)
    }

    /// Runs it; its lines are shown, and given to `line`.
    fn run(&self, mut line: impl FnMut(&str)) -> Result<()> {
        println!("--- {}", self.written());
        let mut child = Command::new("cargo")
            .args(self.arguments.split(' '))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(crate::workspace::root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting cargo")?;
        let out = child.stdout.take().context("its output")?;
        for text in BufReader::new(out).lines() {
            let text = text.context("reading its output")?;
            println!("{text}");
            line(&text);
        }
        let status = child.wait()?;
        ensure!(status.success(), "repeat it with: {}", self.written());
        Ok(())
    }
}

/// `NAME: COUNT ranks came back, seeds …`
fn came_back(line: &str) -> Option<u64> {
    let (head, _) = line.split_once(" ranks came back")?;
    head.rsplit(' ').next()?.parse().ok()
}

fn round(prefix: &Path, seed: u64, counts: &mut Counts) -> Result<()> {
    let seeds = |count| format!("{seed}..{}", seed + count);
    let programs = Step {
        variables: vec![
            ("REJOIN_PREFIX", prefix.display().to_string()),
            ("REJOIN_SURVIVE_SEED", seed.to_string()),
        ],
        arguments: "test --profile fast -p rejoin-tests --test survive -- --test-threads=1 --nocapture",
    };
    programs.run(|line| counts.back += came_back(line).unwrap_or(0))?;
    let simulated = Step {
        variables: vec![("REJOIN_SIM_SEEDS", seeds(SIMULATED))],
        arguments: "test --profile fast -p rejoin-sim --test seeds",
    };
    simulated.run(|_| {})?;
    counts.simulated += SIMULATED;
    let jobs = Step {
        variables: vec![("REJOIN_JOB_SEEDS", seeds(JOBS))],
        arguments: "test --profile fast -p rejoin-sim --test jobs",
    };
    jobs.run(|_| {})?;
    counts.jobs += JOBS;
    counts.rounds += 1;
    Ok(())
}

fn models() -> Result<()> {
    let step = Step {
        variables: vec![("REJOIN_MODELS", "soak".into())],
        arguments: "test --profile fast -p rejoin-sim --test model_epochs \
                    --test model_groups --test model_wildcards --test model_optimistic \
                    -p rejoin-managers-protocol --test model_recovery",
    };
    step.run(|_| {})
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let begun = Instant::now();
    let prefix = match &args.prefix {
        Some(prefix) => std::path::absolute(prefix)?,
        None => {
            let prefix = crate::workspace::root().join("target/prefix");
            let status = Command::new("cargo")
                .args(["xtask", "install", "--prefix"])
                .arg(&prefix)
                .arg("--fault-injection")
                .current_dir(crate::workspace::root())
                .status()?;
            ensure!(status.success(), "the installation failed");
            prefix
        }
    };
    if args.models {
        models()?;
    }
    let mut counts = Counts::default();
    let mut seed = args.seed;
    let limit = Duration::from_secs(60 * args.minutes);
    let enough = |counts: &Counts| args.kills.is_some_and(|kills| counts.back >= kills);
    let result = loop {
        if let Err(error) = round(&prefix, seed, &mut counts) {
            break Err(error);
        }
        seed += SEEDS.max(JOBS);
        if begun.elapsed() >= limit || enough(&counts) {
            break Ok(());
        }
    };
    println!(
        "{} rounds with seeds {}..{seed} in {:.0} minutes: {} ranks killed and back, {} simulated channels' \
         seeds, {} simulated jobs",
        counts.rounds,
        args.seed,
        begun.elapsed().as_secs_f64() / 60.0,
        counts.back,
        counts.simulated,
        counts.jobs
    );
    match result {
        Ok(()) => Ok(()),
        Err(error) => bail!("failed in the round of seed {seed}: {error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_back_is_read() {
        assert_eq!(came_back("cg: 40 ranks came back, seeds 1..3"), Some(40));
        assert_eq!(came_back("cg with seed 1"), None);
    }
}
