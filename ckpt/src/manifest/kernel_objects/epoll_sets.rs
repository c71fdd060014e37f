//! Sets of watched descriptors (`epoll`).

use std::os::fd::RawFd;

use super::super::description::Description;
use super::super::open_file::Descriptor;
use super::event_sources::information;
use crate::{proc, sys};

/// The kernel's name of such a set.
pub(super) const NAME: &[u8] = b"anon_inode:[eventpoll]";

/// A descriptor that a set watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watched {
    fd: RawFd,
    events: u32,
    data: u64,
    inode: u64,
}

/// A set.
pub(super) struct EpollSet {
    description: Description,
    watched: Vec<Watched>,
}

impl EpollSet {
    /// Reads it. A file that is watched under a number that it has no more gives `EBADF`.
    pub fn capture(description: Description, all: &[Descriptor]) -> sys::Sys<Self> {
        let text = information(description.number())?;
        let lines = proc::lines(&text).filter(|line| line.starts_with(b"tfd:"));
        let watched: Option<Vec<_>> = lines.map(Watched::read).collect();
        let watched = watched.ok_or(libc::EIO)?;
        let is_there = |one: &Watched| {
            let same = |d: &Descriptor| d.fd == one.fd && d.file.1 == one.inode;
            all.iter().any(same)
        };
        if !watched.iter().all(is_there) {
            return Err(libc::EBADF);
        }
        Ok(Self {
            description,
            watched,
        })
    }

    /// The open file description, with all numbers.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Makes it anew, empty.
    pub fn make(&self) -> sys::Sys<()> {
        // SAFETY: touches no memory.
        let new = sys::check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }.into())?;
        self.description.install(new as RawFd)
    }

    /// Fills it, once everything that it watches is there.
    pub fn fill(&self) -> sys::Sys<()> {
        self.watched.iter().try_for_each(|one| {
            match self.control(libc::EPOLL_CTL_ADD, one) {
                // A standard stream may be a file in the restored process.
                Err(libc::EPERM) if one.fd <= 2 => Ok(()),
                result => result,
            }
        })
    }

    /// Watches these numbers no more, or again (`EPOLL_CTL_DEL`, `EPOLL_CTL_ADD`).
    pub fn change(&self, operation: i32, numbers: &[RawFd]) {
        for one in self.watched.iter().filter(|one| numbers.contains(&one.fd)) {
            let _ = self.control(operation, one);
        }
    }

    fn control(&self, operation: i32, one: &Watched) -> sys::Sys<()> {
        let mut event = libc::epoll_event {
            events: one.events,
            u64: one.data,
        };
        let set = self.description.number();
        // SAFETY: the pointer is to an event.
        let done = unsafe { libc::epoll_ctl(set, operation, one.fd, &raw mut event) };
        sys::check(done.into()).map(drop)
    }
}

impl Watched {
    /// Reads `tfd:        3 events:       19 data:                3  pos:0 ino:4bc337 sdev:9`.
    fn read(line: &[u8]) -> Option<Self> {
        let mut words = proc::words(line);
        let mut after = |key: &[u8]| {
            let word = words.next()?;
            match word.strip_prefix(key)? {
                b"" => words.next(),
                value => Some(value),
            }
        };
        let fd = proc::number(after(b"tfd:")?)?;
        let events = proc::hex(after(b"events:")?)?;
        let data = proc::hex(after(b"data:")?)?;
        after(b"pos:")?;
        let inode = proc::hex(after(b"ino:")?)?;
        Some(Self {
            fd: RawFd::try_from(fd).ok()?,
            events: u32::try_from(events).ok()?,
            data,
            inode,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_sets_are_read() {
        let line =
            b"tfd:        3 events: 80000019 data: ffffffffffffffff  pos:0 ino:4bc337 sdev:9";
        let read = Watched {
            fd: 3,
            events: 0x8000_0019,
            data: u64::MAX,
            inode: 0x004b_c337,
        };
        assert_eq!(Watched::read(line), Some(read));
        assert_eq!(Watched::read(b"tfd: 3 events: x"), None);
        assert_eq!(Watched::read(b"pos:\t0"), None);
    }
}
