//! Locks on ranges of files.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// A locked range of a file; the lock ends with the value.
pub(super) struct RangeLock<'a> {
    file: &'a File,
    range: Range<i64>,
}

/// What a lock keeps others from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockKind {
    /// Writing.
    Shared,
    /// Reading and writing.
    Exclusive,
}

impl<'a> RangeLock<'a> {
    /// Locks a range against other open descriptions of the file, and waits for that. Whoever holds
    /// a lock waits for no message meanwhile. A shared lock needs a file that is open for reading,
    /// an exclusive one a file that is open for writing.
    ///
    /// # Errors
    /// The system's.
    pub fn take(file: &'a File, range: Range<i64>, kind: LockKind) -> io::Result<Self> {
        let kind = match kind {
            LockKind::Shared => libc::F_RDLCK,
            LockKind::Exclusive => libc::F_WRLCK,
        };
        loop {
            match set_lock(file, kind, &range) {
                Ok(()) => return Ok(Self { file, range }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for RangeLock<'_> {
    fn drop(&mut self) {
        // It can't fail: the range was locked.
        let _ = set_lock(self.file, libc::F_UNLCK, &self.range);
    }
}

fn set_lock(file: &File, kind: i32, range: &Range<i64>) -> io::Result<()> {
    // SAFETY: `flock` is plain data; the call reads it only.
    let result = unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = kind as i16;
        lock.l_whence = libc::SEEK_SET as i16;
        lock.l_start = range.start;
        lock.l_len = range.end - range.start;
        libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &raw const lock)
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
