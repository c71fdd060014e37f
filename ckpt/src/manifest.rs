//! State that a clone does not inherit and that a restored process must set again.

use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use crate::error::Caveat;

mod files;
mod input;
mod locked_memory;
mod locks;
mod pending_signals;
mod timers;

pub use files::WrittenFile;
pub(crate) use files::{Cut, Descriptor, descriptors};
pub use input::InputPipe;
pub(crate) use input::pipe;
pub(crate) use timers::restore_late as restore_late_timers;

/// The description of an image for the manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The files that a restore cuts back to their length at the image.
    pub written: Vec<WrittenFile>,
    /// Device and inode of every file that is open for writing, including those above. A file that
    /// several ranks list must not be cut.
    pub writable: Vec<(u64, u64)>,
    /// Standard input, when it is a pipe.
    pub input: Option<InputPipe>,
    /// The process holds locks of files: it must be dead, not only stopped, before a runner can
    /// take them again.
    pub has_locks: bool,
    /// State that a restored process does not get back.
    pub caveats: Vec<Caveat>,
}

/// The state itself; it lies in the image's own memory.
#[derive(Default)]
pub(crate) struct Manifest {
    files: files::Files,
    timers: timers::Timers,
    pending: pending_signals::PendingSignals,
    locked: locked_memory::Locked,
}

impl Manifest {
    /// Reads the state of this process, with signals blocked. `request_signal` is that of
    /// checkpoint requests, which is not part of the state. `inherited` are descriptors that the
    /// manager has open under the same numbers; they do not belong to the program.
    pub fn capture(
        all: &[Descriptor],
        request_signal: i32,
        inherited: &[(RawFd, (u64, u64))],
    ) -> Self {
        Self {
            files: files::Files::capture(all, inherited),
            timers: timers::Timers::capture(),
            pending: pending_signals::PendingSignals::capture(request_signal),
            locked: locked_memory::Locked::capture(),
        }
    }

    /// The summary for the manager.
    pub fn summary(&self) -> Summary {
        Summary {
            written: self.files.written(),
            writable: self.files.writable(),
            input: InputPipe::capture(),
            has_locks: self.files.has_locks(),
            caveats: self.files.caveats.clone(),
        }
    }

    /// In the twin: stops sharing open files with the rank. Returns the number of files that it
    /// still shares.
    pub fn detach(&self) -> u16 {
        self.files.detach()
    }

    /// Checks that each open file has a path that leads to it. Otherwise the number of a file that
    /// has none.
    pub fn check_paths(&self) -> Result<(), RawFd> {
        self.files.check_paths()
    }

    /// In a zygote made from a file: opens the files by their paths, under their numbers. Otherwise
    /// the number of a file that is not there any more.
    pub fn open_by_path(&self) -> Result<(), RawFd> {
        self.files.open_by_path()
    }

    /// Sets everything again, in a runner with its signals blocked. Alarms come last, so that the
    /// other steps delay none.
    pub fn restore(&self, cut: &Cut) -> Vec<Caveat> {
        let mut caveats = Vec::new();
        self.files.restore(cut, &mut caveats);
        self.locked.restore(&mut caveats);
        self.pending.restore(&mut caveats);
        self.timers.restore(&mut caveats);
        caveats
    }
}
