//! The result of an image, in the rank that continues and in a restored process.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::error::Caveat;
use crate::manifest::{LateMemory, Summary};

/// An image, seen from the rank that continues.
#[derive(Debug)]
pub struct Image {
    /// The zygote's process number.
    pub pid: i32,
    /// The manager's end of the zygote's socket: send it to the manager, then close it here at
    /// once.
    pub wait: OwnedFd,
    /// The reading end of descriptor 1 from now on. The former pipe ends at the image.
    pub stdout: Option<OwnedFd>,
    /// The reading end of descriptor 2 from now on.
    pub stderr: Option<OwnedFd>,
    /// The zygote is a child of the manager, not of this process.
    pub is_managers_child: bool,
    /// The summary for the manager of this image.
    pub summary: Summary,
    /// How long it took.
    pub timings: Timings,
}

/// How long an image held the rank up, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// Before the clone: checks, manifest, new pipes.
    pub prepare: u64,
    /// The clone itself: it copies the page tables.
    pub clone: u64,
}

/// The data for a restored process.
#[derive(Debug)]
pub struct Restored {
    /// The manager's message, at most [`super::BODY_LIMIT`] bytes.
    pub body: Vec<u8>,
    /// Descriptors that came along beside the standard streams, all in the library's block.
    pub fds: Vec<OwnedFd>,
    /// State that could not be set again.
    pub caveats: Vec<Caveat>,
    /// Memory that the process shares with other ranks, and maps once all of them are back.
    pub late: LateMemory,
}

/// From which side [`super::take`] returns.
#[derive(Debug)]
pub enum Taken {
    /// The rank continues.
    Continued(Image),
    /// A new process: it has no connections and descriptors of the library from before the image.
    Restored(Restored),
}
