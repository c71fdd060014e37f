//! An open file description of the program's, under all its numbers.

use std::os::fd::RawFd;

use super::duplicates;
use super::open_file::Descriptor;
use crate::sys;

/// Flags of a description that are set again.
const KEPT_FLAGS: i32 = libc::O_NONBLOCK | libc::O_DIRECT;

/// The description.
pub(super) struct Description {
    /// All numbers of the description, each with its close-on-exec flag.
    numbers: Vec<(RawFd, bool)>,
    flags: i32,
}

impl Description {
    /// The descriptions among descriptors of one file.
    pub fn all(descriptors: &[&Descriptor]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for one in descriptors {
            let is_same = |other: &&mut Self| duplicates::are_one(other.number(), one.fd);
            match all.iter_mut().find(is_same) {
                Some(other) => other.numbers.push((one.fd, is_cloexec(one.fd))),
                None => all.push(Self {
                    numbers: vec![(one.fd, is_cloexec(one.fd))],
                    flags: sys::control(one.fd, libc::F_GETFL, 0).unwrap_or(0),
                }),
            }
        }
        all
    }

    /// Whether this is one of its numbers.
    pub fn has(&self, fd: RawFd) -> bool {
        self.numbers.iter().any(|&(number, _)| number == fd)
    }

    /// First number of the description.
    pub fn number(&self) -> RawFd {
        self.numbers[0].0
    }

    /// How it may be accessed.
    pub fn access(&self) -> i32 {
        self.flags & libc::O_ACCMODE
    }

    /// Whether it may be read.
    pub fn reads(&self) -> bool {
        self.access() != libc::O_WRONLY
    }

    /// Whether it may be written.
    pub fn writes(&self) -> bool {
        self.access() != libc::O_RDONLY
    }

    /// Whether each write is a packet of its own, in a pipe.
    pub fn keeps_limits(&self) -> bool {
        self.flags & libc::O_DIRECT != 0
    }

    /// Whether the process gets signals for it. They are not set up again.
    pub fn is_signalling(&self) -> bool {
        self.flags & libc::O_ASYNC != 0
    }

    /// Puts another descriptor under all numbers.
    pub fn put(&self, fd: RawFd) -> sys::Sys<()> {
        self.numbers
            .iter()
            .try_for_each(|&(number, is_cloexec)| sys::duplicate(fd, number, is_cloexec))
    }

    /// Puts a new description under all numbers, with the flags of the former one. Takes over
    /// `new`.
    pub fn install(&self, new: RawFd) -> sys::Sys<()> {
        let now = sys::control(new, libc::F_GETFL, 0)?;
        let flags = now & !KEPT_FLAGS | self.flags & KEPT_FLAGS;
        if flags != now {
            sys::control(new, libc::F_SETFL, flags)?;
        }
        self.put(new)?;
        if !self.has(new) {
            sys::close(new);
        }
        Ok(())
    }
}

fn is_cloexec(fd: RawFd) -> bool {
    sys::control(fd, libc::F_GETFD, 0).is_ok_and(|f| f & libc::FD_CLOEXEC != 0)
}
