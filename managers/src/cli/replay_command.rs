//! `rejoin replay`: runs one rank of a recording again, alone.

use crate::replay::{OutcomeMemory, RecordedRank};
use rejoin_managers_host::error::system_text;
use rejoin_wire::recording::ReplayOutcome;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

/// Runs the rank; in a wrapper, such as a debugger, this process becomes the wrapper. Returns the
/// exit code: that of the rank, or 1 if it did not do what is recorded.
#[must_use]
pub fn run(folder: &Path, rank: u32, wrapper: &[OsString]) -> i32 {
    let recorded = match RecordedRank::open(folder, rank) {
        Ok(recorded) => recorded,
        Err(why) => {
            say_line!("rejoin: {why}");
            return 2;
        }
    };
    if !wrapper.is_empty() {
        let why = recorded.become_wrapper(wrapper);
        say_line!("rejoin: {why}");
        return 127;
    }
    replayed(&recorded, rank).unwrap_or_else(|error| {
        let why = system_text(&error);
        let shown = recorded.shown();
        say_line!("rejoin: can't run rank {rank} again ({shown}): {why}");
        127
    })
}

fn replayed(recorded: &RecordedRank, rank: u32) -> std::io::Result<i32> {
    let mut outcome = OutcomeMemory::new()?;
    let status = recorded.command(&[], Some(&outcome.path())).status()?;
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, signal) => 128 + signal.unwrap_or_default(),
    };
    Ok(match outcome.read() {
        Some(ReplayOutcome::Same { sent, received }) => {
            say_line!(
                "rejoin: rank {rank} did all that is recorded: {sent} messages sent, {received} \
                 received"
            );
            code
        }
        Some(ReplayOutcome::Differs(text)) => {
            say_line!("rejoin: rank {rank} does not do what is recorded: {text}");
            code.max(1)
        }
        Some(ReplayOutcome::Ended(text)) => {
            say_line!("rejoin: rank {rank}: {text}");
            code.max(1)
        }
        None => {
            say_line!(
                "rejoin: rank {rank} ended without MPI_Finalize, with {}",
                how(code)
            );
            code
        }
    })
}

fn how(code: i32) -> String {
    match code {
        129.. => format!("signal {}", code - 128),
        code => format!("exit code {code}"),
    }
}
