//! `cargo xtask soak`: kills and moves ranks by the thousand in all modes of recovery, and loses
//! hosts, with other seeds each time, until the time is over.

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
    /// Ranks that were killed and came back.
    back: u64,
    /// Ranks that were killed, each with its recovery group.
    of_groups: u64,
    moves: u64,
    /// Tests in which hosts are lost.
    hosts: u64,
    /// Seeds of the simulator.
    simulated: u64,
}

impl Counts {
    /// Adds what a line of a test says.
    fn add(&mut self, line: &str) {
        let number = |behind| number_before(line, behind).unwrap_or(0);
        self.back += number(" ranks came back, seeds ");
        self.of_groups += number(" ranks killed");
        // Of one program, and of a test that disturbs moves.
        self.moves += number(" moves in ") + number(" moves, ");
    }
}

/// Seeds that a round takes of the real programs, at most.
const SEEDS: u64 = 20;

/// Tests with real programs, in all modes of recovery, with their variables for the first seed.
const KILLS: &str = "test --profile fast -p rejoin-tests --test survive --test sender_log \
    --test sender_log_files --test receiver_log_kills --test group_kills --test moves_programs \
    --test moves_at_once --no-fail-fast -- --test-threads=1 --nocapture";
/// Tests in which hosts are lost, which have no seeds.
const HOSTS: &str = "test --profile fast -p rejoin-tests --test host_loss --test sender_log_hosts \
    --test receiver_log --test failover --no-fail-fast -- --test-threads=1";
/// Ranks by the hundred that sleep, on eight hosts of which one is lost.
const MANY: &str = "test --profile fast -p rejoin-tests --test many_ranks -- --test-threads=1";
/// The simulator with ten thousand ranks, in each mode, also in groups of one.
const LARGE: &str = "test --profile fast -p rejoin-sim --test large_jobs -- --test-threads=1";
/// Seeds of each of its five tests in a round.
const LARGE_SEEDS: u64 = 2;
/// Tests of the simulator, with their variables for seeds, and seeds of a round.
const SIMULATED: [(&str, &str, u64); 5] = [
    ("seeds", "REJOIN_SIM_SEEDS", 400),
    ("jobs", "REJOIN_JOB_SEEDS", 16),
    ("moves", "REJOIN_MOVE_SEEDS", 200),
    ("groups", "REJOIN_GROUP_SEEDS", 100),
    ("many_groups", "REJOIN_MANY_GROUPS_SEEDS", 16),
];

/// A command, and how it is written.
struct Step {
    variables: Vec<(&'static str, String)>,
    arguments: String,
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
            .args(self.arguments.split_whitespace())
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

/// The number that a line has before this text.
fn number_before(line: &str, text: &str) -> Option<u64> {
    let (head, _) = line.split_once(text)?;
    head.rsplit(' ').next()?.parse().ok()
}

fn round(prefix: &Path, seed: u64, counts: &mut Counts) -> Result<()> {
    let prefix = ("REJOIN_PREFIX", prefix.display().to_string());
    let kills = Step {
        variables: vec![
            prefix.clone(),
            ("REJOIN_SURVIVE_SEED", seed.to_string()),
            ("REJOIN_MOVES_SEED", seed.to_string()),
        ],
        arguments: KILLS.to_owned(),
    };
    kills.run(|line| counts.add(line))?;
    let hosts = Step {
        variables: vec![prefix.clone()],
        arguments: HOSTS.to_owned(),
    };
    let many = Step {
        variables: vec![prefix, ("REJOIN_MANY_RANKS", "8x64".to_owned())],
        arguments: MANY.to_owned(),
    };
    for step in [hosts, many] {
        step.run(|line| counts.hosts += number_before(line, " passed;").unwrap_or(0))?;
    }
    for (test, variable, count) in SIMULATED {
        // Each round has seeds of its own.
        let from = seed / SEEDS * count;
        let simulated = Step {
            variables: vec![(variable, format!("{from}..{}", from + count))],
            arguments: format!("test --profile fast -p rejoin-sim --test {test}"),
        };
        simulated.run(|_| {})?;
        counts.simulated += count;
    }
    let from = seed / SEEDS * LARGE_SEEDS;
    let large = Step {
        variables: vec![
            ("REJOIN_LARGE_RANKS", "10000".to_owned()),
            (
                "REJOIN_LARGE_SEEDS",
                format!("{from}..{}", from + LARGE_SEEDS),
            ),
        ],
        arguments: LARGE.to_owned(),
    };
    large.run(|_| {})?;
    counts.simulated += 5 * LARGE_SEEDS;
    counts.rounds += 1;
    Ok(())
}

fn models() -> Result<()> {
    let step = Step {
        variables: vec![("REJOIN_MODELS", "soak".into())],
        arguments: "test --profile fast -p rejoin-sim --test model_epochs \
                    --test model_groups --test model_wildcards --test model_optimistic \
                    -p rejoin-managers-protocol --test model_recovery"
            .to_owned(),
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
        seed += SEEDS;
        if begun.elapsed() >= limit || enough(&counts) {
            break Ok(());
        }
    };
    println!(
        "{} rounds with seeds {}..{seed} in {:.0} minutes: {} ranks killed and back, {} killed \
         with their groups, {} moves, {} tests of lost hosts, {} simulated seeds",
        counts.rounds,
        args.seed,
        begun.elapsed().as_secs_f64() / 60.0,
        counts.back,
        counts.of_groups,
        counts.moves,
        counts.hosts,
        counts.simulated
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
    fn what_tests_say_is_counted() {
        let mut counts = Counts::default();
        for line in [
            "cg: 40 ranks came back, seeds 1..3",
            "cg over shm with seed 1: 12 kills sent, 11 ranks came back",
            "sender-log, groups of a host, seed 2: 30 ranks killed",
            "jacobi: 9 moves in 2 jobs",
            "30 moves, 2 central managers, 5 recoveries",
            "cg with seed 1",
        ] {
            counts.add(line);
        }
        let found = [counts.back, counts.of_groups, counts.moves];
        assert_eq!(found, [40, 30, 39]);
        let line = "test result: ok. 17 passed; 0 failed; 0 ignored";
        assert_eq!(number_before(line, " passed;"), Some(17));
    }
}
