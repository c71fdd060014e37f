//! A rank as its recording names it, and the command that runs it again.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rejoin_wire::recording::{
    OUTCOME_VARIABLE, RECORDING_VARIABLE, RankStart, RecordingEntry, RecordingReader, file_name,
};

use rejoin_managers_host::error::system_text;

/// Variables of the terminal, which may be another one today.
const OF_TERMINAL: [&str; 3] = ["TERM", "DISPLAY", "XAUTHORITY"];

/// A recorded rank.
#[derive(Debug)]
pub struct RecordedRank {
    path: PathBuf,
    start: RankStart,
}

impl RecordedRank {
    /// Opens the recording of a rank in a folder.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn open(folder: &Path, rank: u32) -> Result<Self, String> {
        let path = folder.join(file_name(rank));
        let path = std::path::absolute(&path).unwrap_or(path);
        let shown = path.display();
        let file = File::open(&path)
            .map_err(|error| format!("can't read {shown}: {}", system_text(&error)))?;
        let mut reader = RecordingReader::new(file).map_err(|error| format!("{shown} {error}"))?;
        match reader.next().map_err(|error| format!("{shown} {error}"))? {
            Some(located) => match located.entry {
                RecordingEntry::Start(start) if !start.command.is_empty() => {
                    Ok(Self { path, start })
                }
                _ => Err(format!("{shown} does not say how its rank began")),
            },
            None => Err(format!("{shown} is empty: its rank ended as it began")),
        }
    }

    /// Ranks of the recorded job.
    #[must_use]
    pub fn job_size(&self) -> u32 {
        self.start.size
    }

    /// The command that runs the rank again, with its arguments, variables and working directory.
    /// `wrapper`: a debugger that runs it, or nothing.
    #[must_use]
    pub fn command(&self, wrapper: &[OsString], outcome: Option<&Path>) -> Command {
        let text = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
        let mut words = wrapper
            .iter()
            .cloned()
            .chain(self.start.command.iter().map(text));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command.env_clear();
        if wrapper.is_empty() {
            end_with_parent(&mut command);
        }
        for variable in &self.start.environment {
            let at = variable.iter().position(|byte| *byte == b'=');
            if let Some(at) = at.filter(|at| *at > 0) {
                let [name, value] = [&variable[..at], &variable[at + 1..]].map(OsStr::from_bytes);
                command.env(name, value);
            }
        }
        let now = OF_TERMINAL.map(|name| (name, std::env::var_os(name)));
        for (name, value) in now {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        command.env(RECORDING_VARIABLE, &self.path);
        if let Some(outcome) = outcome {
            command.env(OUTCOME_VARIABLE, outcome);
        }
        command.current_dir(OsStr::from_bytes(&self.start.directory));
        command
    }

    /// The program and where it runs, for messages.
    #[must_use]
    pub fn shown(&self) -> String {
        let program = self.start.command.first().map(Vec::as_slice);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (program, directory) = (program.unwrap_or_default(), &self.start.directory);
        format!("{} in {}", text(program), text(directory))
    }

    /// Becomes the wrapper, which runs the rank. Returns only why that failed.
    #[must_use]
    pub fn become_wrapper(&self, wrapper: &[OsString]) -> String {
        let error = self.command(wrapper, None).exec();
        let program = wrapper.first().map(|w| w.to_string_lossy().into_owned());
        let program = program.unwrap_or_default();
        format!("can't run {program}: {}", system_text(&error))
    }
}

/// Nobody waits for a replay whose starter has ended.
fn end_with_parent(command: &mut Command) {
    // SAFETY: one system call with constants, which touches no memory.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            Ok(())
        });
    }
}
