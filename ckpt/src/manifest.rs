//! What a clone does not bring along and a restored process must set again.

use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use crate::error::Caveat;
use crate::sys;

mod files;
mod memory;
mod signals;
mod timers;

pub(crate) use files::{Descriptor, descriptors};

/// What the manager learns of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The files that a wake cuts back to their length at the image.
    pub written: Vec<WrittenFile>,
    /// Device and inode of every file that is open for writing, those above included: one that
    /// several ranks list must not be cut.
    pub writable: Vec<(u64, u64)>,
    /// Standard input, when it is a pipe.
    pub input: Option<Input>,
    /// The process holds locks of files: it must be dead, not only stopped, before a runner can
    /// take them again.
    pub has_locks: bool,
    /// What will not be as it was.
    pub caveats: Vec<Caveat>,
}

/// A pipe as standard input, at the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Device and inode of the pipe.
    pub pipe: (u64, u64),
    /// Bytes in it that were not read.
    pub unread: u64,
    /// When they were counted: not before this moment and not after the other, in nanoseconds of
    /// `CLOCK_MONOTONIC`.
    pub counted: (u64, u64),
}

impl Input {
    /// Looks at descriptor 0.
    fn capture() -> Option<Self> {
        let pipe = crate::twin::pipe(0)?;
        let mut unread: libc::c_int = 0;
        let before = sys::now();
        // SAFETY: the request fills in one number.
        let asked = unsafe { libc::ioctl(0, libc::FIONREAD, &raw mut unread) };
        let counted = (before, sys::now());
        (asked == 0).then_some(Self {
            pipe,
            unread: unread.max(0) as u64,
            counted,
        })
    }
}

/// A file that was open for writing at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Where it was, as the system names it.
    pub path: String,
    /// Number of its file system.
    pub device: u64,
    /// Its number there. Two ranks with the same file share it: it must not be cut.
    pub inode: u64,
    /// Its length at the image, in bytes.
    pub length: u64,
}

/// How a restore treats files.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// Cut written files back at all.
    pub is_wanted: bool,
    /// Device and inode of those to be left alone.
    pub spared: Vec<(u64, u64)>,
}

/// The state itself; it lies in the image's own memory.
#[derive(Default)]
pub(crate) struct Manifest {
    files: files::Files,
    timers: timers::Timers,
    pending: signals::Pending,
    locked: memory::Locked,
}

impl Manifest {
    /// Reads the state of this process. Signals are blocked; `order` is the signal that is nobody's
    /// business. `inherited` are things that the manager has open under the same numbers: nobody's
    /// who means the program.
    pub fn capture(all: &[Descriptor], order: i32, inherited: &[(RawFd, (u64, u64))]) -> Self {
        Self {
            files: files::Files::capture(all, inherited),
            timers: timers::Timers::capture(),
            pending: signals::Pending::capture(order),
            locked: memory::Locked::capture(),
        }
    }

    /// What the manager is told.
    pub fn summary(&self) -> Summary {
        Summary {
            written: self.files.written(),
            writable: self.files.writable(),
            input: Input::capture(),
            has_locks: self.files.has_locks(),
            caveats: self.files.caveats.clone(),
        }
    }

    /// In the twin: shares nothing with the rank that the rank could miss, but for the returned
    /// number of open files.
    pub fn detach(&self) -> u16 {
        self.files.detach()
    }

    /// Sets everything again, in a runner with its signals blocked. Alarms come last, that none is
    /// late by what the rest takes.
    pub fn restore(&self, cut: &Cut) -> Vec<Caveat> {
        let mut caveats = Vec::new();
        self.files.restore(cut, &mut caveats);
        self.locked.restore(&mut caveats);
        self.pending.restore(&mut caveats);
        self.timers.restore(&mut caveats);
        caveats
    }
}

/// `/proc/self/fd/N`.
pub(crate) fn link_of(fd: i32) -> sys::Path {
    sys::Path::new(format_args!("/proc/self/fd/{fd}"))
}
