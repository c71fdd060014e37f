//! `rejoin verify-determinism`: records a job, and runs each of its ranks again.

use crate::replay::{ReplayedJob, memory_file, verify};
use rejoin_managers_host::error::system_text;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Seek as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A replay may take so many times as long as the recorded run.
const TIMES: u32 = 10;
/// And so much longer.
const LONGER: Duration = Duration::from_secs(60);
/// Exit code when mpirun refuses, or can't be run.
const REFUSED: i32 = 2;

/// Records the job that `mpirun` would run with these arguments, and compares each rank with its
/// replay. `kept`: folder in which the recordings stay. Returns the exit code: 0 if all ranks did
/// the same again, 1 if not, 2 if that can't be said.
#[must_use]
pub fn run(kept: Option<&Path>, arguments: &[OsString]) -> i32 {
    let own = std::env::temp_dir().join(format!("rejoin-verify-{}", std::process::id()));
    let folder = kept.unwrap_or(&own);
    let made = match kept {
        Some(_) => Ok(()),
        // Nobody else's folder is used, and nobody else reads what is in it.
        None => fs::DirBuilder::new().mode(0o700).create(&own),
    };
    if let Err(error) = made {
        let (shown, why) = (own.display(), system_text(&error));
        say_line!("rejoin: can't make {shown}: {why}");
        return REFUSED;
    }
    let judged = judged(folder, arguments);
    let is_same = matches!(&judged, Ok(found) if found.different.is_empty());
    if kept.is_none() && (is_same || judged.is_err()) {
        // What can't be removed is only left over.
        let _ = fs::remove_dir_all(&own);
    }
    match judged {
        Ok(found) => report(folder, &found),
        Err(why) => {
            say_line!("rejoin: {why}");
            REFUSED
        }
    }
}

fn report(folder: &Path, found: &ReplayedJob) -> i32 {
    let ReplayedJob {
        same,
        sent,
        received,
        different,
    } = found;
    let Some((first, _)) = different.first() else {
        say_line!(
            "rejoin: all {same} ranks did the same again ({sent} messages sent, {received} \
             received)"
        );
        return 0;
    };
    for (rank, text) in different {
        say_line!("rejoin: rank {rank} does not do the same again: {text}");
    }
    let shown = folder.display();
    say_line!(
        "rejoin: {same} ranks did; to look at one: rejoin replay {shown} --rank {first} -- gdb \
         --args"
    );
    1
}

fn judged(folder: &Path, arguments: &[OsString]) -> Result<ReplayedJob, String> {
    let reader = reader(arguments);
    let input = reader.map_or(Ok(None), |_| saved_input());
    let input = input.map_err(|e| format!("standard input: {}", system_text(&e)))?;
    let begun = Instant::now();
    record(folder, arguments, input.as_ref())?;
    let limit = begun.elapsed() * TIMES + LONGER;
    say_line!("rejoin: the job is recorded; its ranks run again, each alone");
    verify(folder, input.as_ref().zip(reader), limit)
}

/// The rank that reads standard input: rank 0, or that of `--stdin`.
fn reader(arguments: &[OsString]) -> Option<u32> {
    let mut words = arguments.iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--stdin") {
            Some("") => words.next(),
            Some(value) => value.strip_prefix('=').map(|value| value.to_owned().into()),
            None => continue,
        };
        if let Some(value) = value {
            return value.parse().ok();
        }
    }
    Some(0)
}

/// Standard input, which both runs get; a terminal is none.
fn saved_input() -> io::Result<Option<File>> {
    let mut input = io::stdin().lock();
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut file = memory_file()?;
    if is_pipe()? {
        say_line!("rejoin: reads standard input to its end first, because all runs get it");
    }
    io::copy(&mut input, &mut file)?;
    file.rewind()?;
    Ok(Some(file))
}

/// Whether standard input may last.
fn is_pipe() -> io::Result<bool> {
    let kind = nix::sys::stat::fstat(io::stdin())?.st_mode & libc::S_IFMT;
    Ok(kind == libc::S_IFIFO || kind == libc::S_IFSOCK)
}

fn record(folder: &Path, arguments: &[OsString], input: Option<&File>) -> Result<(), String> {
    let mpirun = beside_this()?;
    let mut command = Command::new(&mpirun);
    command.arg("--record").arg(folder).args(arguments);
    let input = input.map(File::try_clone).transpose();
    let input = input.map_err(|error| system_text(&error))?;
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    let ended = command.status();
    let shown = mpirun.display();
    let status = ended.map_err(|error| format!("can't run {shown}: {}", system_text(&error)))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!(
            "the recorded run ended with {status}, so there is nothing to compare"
        )),
    }
}

/// The mpirun of this installation.
fn beside_this() -> Result<PathBuf, String> {
    let own = std::env::current_exe();
    let own = own.map_err(|error| format!("where this program is: {}", system_text(&error)))?;
    Ok(own.with_file_name("mpirun"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_that_reads_is_that_of_the_option() {
        let of = |line: &str| reader(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of("-n 4 ./app"), Some(0));
        assert_eq!(of("-n 4 --stdin 2 ./app"), Some(2));
        assert_eq!(of("--stdin=1 -n 4 ./app"), Some(1));
        assert_eq!(of("--stdin none ./app"), None);
    }
}
