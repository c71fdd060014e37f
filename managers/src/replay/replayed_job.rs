//! Runs all ranks of a recording again, each alone, and compares.

use std::fs::File;
use std::io::{self, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::outcome_memory::last_of;
use super::{OutcomeMemory, RecordedRank, memory_file};
use rejoin_managers_host::error::system_text;
use rejoin_wire::recording::ReplayOutcome;

/// How often replays are looked at.
const PAUSE: Duration = Duration::from_millis(5);
/// Most bytes of what a replay writes on standard error that are shown.
const SHOWN: u64 = 4096;

/// What the replays of all ranks have shown.
#[derive(Debug, Default)]
pub struct ReplayedJob {
    /// Ranks that did the same again.
    pub same: u32,
    /// Messages that they sent, and received.
    pub sent: u64,
    /// Messages that they received.
    pub received: u64,
    /// Ranks that did not, and what they did.
    pub different: Vec<(u32, String)>,
}

struct Replay {
    rank: u32,
    child: Child,
    outcome: OutcomeMemory,
    /// What it writes on standard error.
    errors: File,
    begun: Instant,
}

/// Runs every rank of the recordings in `folder` again, as many at a time as there are processors.
/// `input`: standard input of the rank that read it. `limit`: how long a replay may take.
///
/// # Errors
/// A recording is missing, or a replay can't be started.
pub fn verify(
    folder: &Path,
    input: Option<(&File, u32)>,
    limit: Duration,
) -> Result<ReplayedJob, String> {
    let size = RecordedRank::open(folder, 0)?.job_size();
    let ranks = (0..size).map(|rank| RecordedRank::open(folder, rank));
    let ranks = ranks.collect::<Result<Vec<_>, _>>()?;
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let mut waiting = (0u32..).zip(&ranks);
    let mut running: Vec<Replay> = Vec::new();
    let mut found = ReplayedJob::default();
    loop {
        while running.len() < at_once
            && let Some((rank, recorded)) = waiting.next()
        {
            let started = start(rank, recorded, input);
            running.push(started.map_err(|e| format!("rank {rank}: {}", system_text(&e)))?);
        }
        if running.is_empty() {
            found.different.sort_unstable();
            return Ok(found);
        }
        let mut at = 0;
        while at < running.len() {
            let replay = &mut running[at];
            let ended = replay.child.try_wait().map_err(|e| system_text(&e))?;
            let is_late = replay.begun.elapsed() > limit;
            if ended.is_none() && !is_late {
                at += 1;
                continue;
            }
            let mut replay = running.swap_remove(at);
            if ended.is_none() {
                // It may have ended meanwhile.
                let _ = replay.child.kill();
                let _ = replay.child.wait();
            }
            judge(&mut found, replay, ended, limit);
        }
        std::thread::sleep(PAUSE);
    }
}

fn start(rank: u32, recorded: &RecordedRank, input: Option<(&File, u32)>) -> io::Result<Replay> {
    let outcome = OutcomeMemory::new()?;
    let errors = memory_file()?;
    let mut command = recorded.command(&[], Some(&outcome.path()));
    let input = match input {
        Some((file, reader)) if reader == rank => {
            let mut file = file.try_clone()?;
            file.rewind()?;
            Stdio::from(file)
        }
        _ => Stdio::null(),
    };
    command.stdin(input).stdout(Stdio::null());
    command.stderr(errors.try_clone()?);
    Ok(Replay {
        rank,
        child: command.spawn()?,
        outcome,
        errors,
        begun: Instant::now(),
    })
}

fn judge(found: &mut ReplayedJob, mut replay: Replay, ended: Option<ExitStatus>, limit: Duration) {
    let outcome = replay.outcome.read();
    let text = match (outcome, ended) {
        (Some(ReplayOutcome::Same { sent, received }), Some(status)) if status.success() => {
            found.same += 1;
            found.sent += sent;
            found.received += received;
            return;
        }
        (Some(ReplayOutcome::Differs(text) | ReplayOutcome::Ended(text)), _) => text,
        (_, None) => format!(
            "the replay had not ended after {:.0} s",
            limit.as_secs_f64()
        ),
        (outcome, Some(status)) => {
            let when = match outcome {
                Some(_) => "after MPI_Finalize",
                None => "before MPI_Finalize",
            };
            let said = said(&mut replay.errors);
            format!("the replay ended {when} with {}{said}", named(status))
        }
    };
    found.different.push((replay.rank, text));
}

fn named(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or_default()),
    }
}

/// The last lines that the replay wrote.
fn said(errors: &mut File) -> String {
    match last_of(errors, SHOWN).trim_end() {
        "" => String::new(),
        text => format!(":\n{text}"),
    }
}
