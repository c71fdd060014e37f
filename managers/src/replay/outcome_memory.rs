//! Memory files for replays: they have no name, so nothing is left of them.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use nix::sys::memfd::{MFdFlags, memfd_create};
use rejoin_wire::recording::ReplayOutcome;

/// A file in memory.
///
/// # Errors
/// The system's.
pub fn memory_file() -> io::Result<File> {
    let made = memfd_create(c"rejoin-replay", MFdFlags::MFD_CLOEXEC);
    Ok(File::from(made?))
}

/// The memory into which a replay writes its outcome.
#[derive(Debug)]
pub struct OutcomeMemory(File);

impl OutcomeMemory {
    /// Makes it.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        memory_file().map(Self)
    }

    /// Where the replay finds it, as long as this process runs.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let (pid, descriptor) = (std::process::id(), self.0.as_raw_fd());
        PathBuf::from(format!("/proc/{pid}/fd/{descriptor}"))
    }

    /// What the replay has written; `None`: nothing.
    #[must_use]
    pub fn read(&mut self) -> Option<ReplayOutcome> {
        ReplayOutcome::parse(&last_of(&mut self.0, u64::MAX))
    }
}

/// The last bytes of a file, as text.
pub(super) fn last_of(file: &mut File, bytes: u64) -> String {
    let length = file.seek(SeekFrom::End(0)).unwrap_or(0);
    let from = SeekFrom::Start(length.saturating_sub(bytes));
    let mut text = Vec::new();
    let read = file.seek(from).and_then(|_| file.read_to_end(&mut text));
    // What can't be read is not shown.
    read.map_or_else(
        |_| String::new(),
        |_| String::from_utf8_lossy(&text).into_owned(),
    )
}
