//! `cargo xtask count`: instructions of short messages, under valgrind's callgrind. They are the
//! same on any machine, however busy it is. So a limit on them shows what a change costs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::bounded::Deadline;

/// Options of `cargo xtask count`.
#[derive(clap::Args)]
pub struct Args {
    /// Counts in this installation, of the release profile, instead of making one.
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

/// A function whose calls are counted in a run of `mpibench` on two ranks.
struct Case {
    function: &'static str,
    transport: &'static str,
    /// Arguments of `mpibench`, before the number of rounds.
    program: &'static [&'static str],
    /// The rank that is counted.
    rank: usize,
    measure: Measure,
    /// Most instructions of a call. `docs/profile.md` has the counts.
    limit: f64,
}

/// Which number stands for all calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// The mean of all calls, with what only some of them do.
    Mean,
    /// The median: calls that wait for their message take more instructions.
    Median,
}

const CASES: &[Case] = &[
    Case {
        function: "MPI_Send",
        transport: "shm",
        program: &["burst", "8"],
        rank: 0,
        measure: Measure::Mean,
        limit: 409.0,
    },
    Case {
        function: "MPI_Recv",
        transport: "shm",
        program: &["burst", "8"],
        rank: 1,
        measure: Measure::Median,
        limit: 396.0,
    },
    Case {
        function: "MPI_Isend",
        transport: "shm",
        program: &["rate", "8", "64"],
        rank: 0,
        measure: Measure::Mean,
        limit: 490.0,
    },
    Case {
        function: "MPI_Send",
        transport: "tcp",
        program: &["burst", "8"],
        rank: 0,
        measure: Measure::Mean,
        limit: 656.0,
    },
];

/// Calls of the function in a round.
const CALLS: u32 = 64;

/// Rounds of a short and of a long run. Their difference has no start of the program in it.
const ROUNDS: [u32; 2] = [50, 200];

/// Rounds of a run of which each call is counted.
const SINGLE_ROUNDS: u32 = 5;

/// Longest time of one run.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    ensure!(has_valgrind(), "valgrind is not installed");
    let prefix = match args.prefix {
        Some(prefix) => prefix,
        None => crate::install::install(&crate::install::Args {
            prefix: crate::workspace::root().join("target/installed"),
            destdir: None,
            profile: "release".to_owned(),
            no_strip: false,
            fault_injection: false,
            built: None,
        })?,
    };
    check(&prefix)
}

/// Whether callgrind can run here.
pub fn has_valgrind() -> bool {
    let out = Command::new("valgrind").arg("--version").output();
    out.is_ok_and(|out| out.status.success())
}

/// Counts all cases in an installation, and fails if one is above its limit.
pub fn check(prefix: &Path) -> Result<()> {
    let root = crate::workspace::root();
    let folder = root.join("target/count");
    fs::create_dir_all(&folder)?;
    let program = folder.join("mpibench");
    let mut compiler = Command::new(prefix.join("bin/mpicc"));
    compiler.args(["-O2", "-o"]).arg(&program);
    let status = compiler.arg(root.join("benches/c/mpibench.c")).status();
    ensure!(status.context("starting mpicc")?.success(), "mpicc failed");
    let mut above = Vec::new();
    for case in CASES {
        let count = per_call(case, prefix, &program, &folder)?;
        let (function, transport, limit) = (case.function, case.transport, case.limit);
        let line = format!("{function} over {transport}: {count:.0} instructions, limit {limit}");
        println!("{line}");
        if count > limit {
            above.push(line);
        }
    }
    if above.is_empty() {
        return Ok(());
    }
    bail!("more instructions than allowed: {}", above.join("; "))
}

/// Instructions of one call.
fn per_call(case: &Case, prefix: &Path, program: &Path, folder: &Path) -> Result<f64> {
    let counts = |rounds| counted(case, rounds, prefix, program, folder);
    if case.measure == Measure::Median {
        // A call that the program has made apart from the rounds changes no median.
        return median(counts(SINGLE_ROUNDS)?).context("no call was counted");
    }
    let [short, long] = ROUNDS.map(|rounds| counts(rounds).map(|all| all.iter().sum::<u64>()));
    // Before its rounds the program makes a tenth of them, and one, that it does not measure.
    let rounds = |count: u32| count + count / 10 + 1;
    let calls = (rounds(ROUNDS[1]) - rounds(ROUNDS[0])) * CALLS;
    let more = long?.saturating_sub(short?);
    Ok(more as f64 / f64::from(calls))
}

/// Instructions of all calls in a run: their sum, or those of each call for a median.
fn counted(
    case: &Case,
    rounds: u32,
    prefix: &Path,
    program: &Path,
    folder: &Path,
) -> Result<Vec<u64>> {
    let counts = folder.join("counts");
    let _ = fs::remove_dir_all(&counts);
    fs::create_dir_all(&counts)?;
    let mut job = Command::new(prefix.join("bin/mpirun"));
    job.args(["--recovery", "none", "--transport", case.transport]);
    for rank in 0..2 {
        if rank > 0 {
            job.arg(":");
        }
        job.args(["-n", "1"]);
        if rank == case.rank {
            let file = counts.join("callgrind");
            job.args(["valgrind", "-q", "--tool=callgrind"]);
            job.arg(format!("--callgrind-out-file={}", file.display()));
            // The profiling name of the function is the same code under another name.
            job.arg(format!("--toggle-collect=*{}", case.function));
            if case.measure == Measure::Median {
                job.arg(format!("--dump-after=*{}", case.function));
            }
        }
        job.arg(program).args(case.program).arg(rounds.to_string());
    }
    job.stdout(Stdio::null());
    Deadline::after(LIMIT)?.run(&mut job)?;
    let mut totals = Vec::new();
    for file in fs::read_dir(&counts)? {
        totals.extend(total(&fs::read_to_string(file?.path())?));
    }
    Ok(totals)
}

fn median(mut counts: Vec<u64>) -> Option<f64> {
    counts.sort_unstable();
    Some(*counts.get(counts.len() / 2)? as f64)
}

/// The total in a file of callgrind.
fn total(text: &str) -> Option<u64> {
    let mut lines = text.lines().rev();
    lines.find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_their_median_are_read() {
        let text = "version: 1\nevents: Ir\nsummary: 8\n\nfn=(1) a\n4 7\n\ntotals: 1234\n";
        assert_eq!(total(text), Some(1234));
        assert_eq!(total("events: Ir\n"), None);
        assert_eq!(median(vec![9, 1, 2, 900, 3]), Some(3.0));
        assert_eq!(median(Vec::new()), None);
    }
}
