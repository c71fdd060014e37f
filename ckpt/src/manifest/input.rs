//! Standard input, when it is a pipe.

use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use crate::sys;

/// A pipe as standard input, at the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPipe {
    /// Device and inode of the pipe.
    pub pipe: (u64, u64),
    /// Bytes in it that were not read.
    pub unread: u64,
    /// When they were counted: between these two times, in nanoseconds of `CLOCK_MONOTONIC`.
    pub counted: (u64, u64),
}

impl InputPipe {
    /// Looks at descriptor 0.
    pub(super) fn capture() -> Option<Self> {
        let pipe = pipe(0)?;
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

/// Which pipe a descriptor is, when it is one.
pub(crate) fn pipe(fd: RawFd) -> Option<(u64, u64)> {
    let stat = sys::status(fd).ok()?;
    (stat.st_mode & libc::S_IFMT == libc::S_IFIFO).then_some((stat.st_dev, stat.st_ino))
}
