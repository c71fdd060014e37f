//! Locks of files, as `fdinfo` lists them.

use std::os::fd::RawFd;

use crate::{proc, sys};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockKind {
    /// `fcntl(F_SETLK)`: the process holds it.
    Process,
    /// `fcntl(F_OFD_SETLK)`: the description holds it.
    Description,
    /// `flock`: the description holds it, for the whole file.
    Whole,
    /// `fcntl(F_SETLEASE)`: another process that opens the file must wait.
    Lease,
}

/// A lock that this process holds on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lock {
    kind: LockKind,
    is_write: bool,
    start: i64,
    /// 0 up to the end, however far that moves.
    length: i64,
}

impl Lock {
    /// The locks in the text of `fdinfo`: `lock: 1: POSIX  ADVISORY  WRITE 77 fe:00:1234 0 EOF`.
    pub fn all(text: &[u8]) -> Vec<Self> {
        proc::lines(text)
            .filter_map(|l| Self::one(l.strip_prefix(b"lock:")?))
            .collect()
    }

    fn one(line: &[u8]) -> Option<Self> {
        let mut words = proc::words(line).skip(1);
        let kind = match words.next()? {
            b"POSIX" => LockKind::Process,
            b"OFDLCK" => LockKind::Description,
            b"FLOCK" => LockKind::Whole,
            b"LEASE" => LockKind::Lease,
            _ => return None,
        };
        let is_write = words.nth(1)? == b"WRITE";
        let start = i64::try_from(proc::number(words.nth(2)?)?).ok()?;
        let length = match words.next()? {
            b"EOF" => 0,
            end => i64::try_from(proc::number(end)?)
                .ok()?
                .checked_sub(start)?
                .checked_add(1)?,
        };
        Some(Self {
            kind,
            is_write,
            start,
            length,
        })
    }

    /// Whether it ends with any descriptor of the file.
    pub fn is_process(&self) -> bool {
        self.kind == LockKind::Process
    }

    /// Whether no image can be taken beside it.
    pub fn is_lease(&self) -> bool {
        self.kind == LockKind::Lease
    }

    /// Locks the file again, under the number `fd`.
    pub fn take(&self, fd: RawFd) -> sys::Sys<()> {
        let kind = if self.is_write {
            libc::F_WRLCK
        } else {
            libc::F_RDLCK
        };
        let command = match self.kind {
            LockKind::Process => libc::F_SETLK,
            LockKind::Description => libc::F_OFD_SETLK,
            LockKind::Whole => {
                let kind = if self.is_write {
                    libc::LOCK_EX
                } else {
                    libc::LOCK_SH
                };
                // SAFETY: touches no memory.
                let result = unsafe { libc::flock(fd, kind | libc::LOCK_NB) };
                return sys::check(result.into()).map(drop);
            }
            // No image has any.
            LockKind::Lease => return Ok(()),
        };
        // SAFETY: `flock` is plain data, and the command takes a pointer to one.
        let result = unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            lock.l_type = kind as i16;
            lock.l_start = self.start;
            lock.l_len = self.length;
            libc::fcntl(fd, command, &raw mut lock)
        };
        sys::check(result.into()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_read() {
        let text = b"pos:\t0\nlock:\t1: POSIX  ADVISORY  WRITE 77 fe:00:1234 10 19\nlock:\t2: FLOCK  ADVISORY  READ 77 fe:00:1234 0 EOF\nlock:\t3: LEASE  ACTIVE    WRITE 77 fe:00:1234 0 EOF\nlock:\t4: DELEG x\n";
        let locks = Lock::all(text);
        assert_eq!(locks.len(), 3);
        assert!(locks[2].is_lease() && !locks[1].is_lease());
        let first = Lock {
            kind: LockKind::Process,
            is_write: true,
            start: 10,
            length: 10,
        };
        assert_eq!(locks[0], first);
        assert_eq!(
            (locks[1].kind, locks[1].is_write, locks[1].length),
            (LockKind::Whole, false, 0)
        );
    }
}
