//! Standard output and error: a new pipe at each image, so that the former pipe ends with the last
//! byte written before the image.

use std::os::fd::RawFd;

use crate::manifest::{Descriptor, pipe};
use crate::sys;

/// One stream's new pipe.
struct Renewed {
    /// All numbers under which the program writes to the old pipe.
    numbers: Vec<(RawFd, bool)>,
    /// The old pipe, to go back to when the clone fails.
    old: RawFd,
    read: RawFd,
}

/// Both streams: output and error.
pub(super) struct RenewedStreams {
    renewed: [Option<Renewed>; 2],
}

impl RenewedStreams {
    /// Puts new pipes where the program writes to the pipes `current`. On failure the old ones are
    /// back.
    pub fn renew(
        current: &[Option<(u64, u64)>; 2],
        all: &[Descriptor],
        block: RawFd,
    ) -> sys::Sys<Self> {
        let mut streams = Self {
            renewed: [None, None],
        };
        for which in 0..2 {
            let Some(file) = current[which] else { continue };
            if which == 1 && current[0] == Some(file) {
                continue; // Both are one pipe, and it has been seen to.
            }
            let is_writer = |d: &&Descriptor| d.file == file && writes(d.fd);
            let numbers: Vec<_> = all
                .iter()
                .filter(is_writer)
                .map(|d| (d.fd, is_cloexec(d.fd)))
                .collect();
            if numbers.is_empty() {
                continue;
            }
            match Renewed::new(numbers, block) {
                Ok(new) => streams.renewed[which] = Some(new),
                Err(errno) => {
                    streams.undo();
                    return Err(errno);
                }
            }
        }
        Ok(streams)
    }

    /// The numbers of the new pipes.
    pub fn numbers(&self) -> Vec<RawFd> {
        let all = self.renewed.iter().flatten().flat_map(|one| &one.numbers);
        all.map(|&(number, _)| number).collect()
    }

    /// Puts the old pipes back.
    pub fn undo(&self) {
        for one in self.renewed.iter().flatten() {
            one.put(one.old);
            sys::close(one.old);
            sys::close(one.read);
        }
    }

    /// In the rank: closes the old pipes, and records the new ones.
    pub fn keep(&self, current: &mut [Option<(u64, u64)>; 2]) {
        for one in self.renewed.iter().flatten() {
            sys::close(one.old);
        }
        self.note(current);
    }

    /// In the zygote: closes all ends of the pipes. `instead` takes their numbers.
    pub fn release(&self, instead: RawFd) {
        for one in self.renewed.iter().flatten() {
            one.put(instead);
            sys::close(one.old);
            sys::close(one.read);
        }
    }

    /// In a runner: replaces the pipes with those that the manager sent. Returns the numbers
    /// without a pipe; output to them is lost.
    pub fn install(
        &self,
        sent: [Option<RawFd>; 2],
        current: &mut [Option<(u64, u64)>; 2],
    ) -> Vec<RawFd> {
        let mut lost = Vec::new();
        for (which, one) in self.renewed.iter().enumerate() {
            let Some(one) = one else { continue };
            match sent[which] {
                Some(fd) => one.put(fd),
                None => {
                    lost.push(which as RawFd + 1);
                    if let Ok(fd) = sys::open(c"/dev/null", libc::O_WRONLY) {
                        one.put(fd);
                        sys::close(fd);
                    }
                }
            }
        }
        self.note(current);
        lost
    }

    fn note(&self, current: &mut [Option<(u64, u64)>; 2]) {
        let is_one = current[0].is_some() && current[0] == current[1];
        for (which, one) in self.renewed.iter().enumerate() {
            if let Some(one) = one {
                current[which] = pipe(one.numbers[0].0);
            }
        }
        if is_one {
            current[1] = current[0];
        }
    }

    /// The reading ends for the manager.
    pub fn read_ends(&self) -> [Option<RawFd>; 2] {
        [0, 1].map(|which| self.renewed[which].as_ref().map(|one| one.read))
    }
}

impl Renewed {
    fn new(numbers: Vec<(RawFd, bool)>, block: RawFd) -> sys::Sys<Self> {
        let old = sys::raise(numbers[0].0, block)?;
        let made = new_pipe(block).inspect_err(|_| sys::close(old))?;
        let [read, write] = made;
        if let Ok(flags) = sys::control(old, libc::F_GETFL, 0) {
            let _ = sys::control(write, libc::F_SETFL, flags);
        }
        let one = Self { numbers, old, read };
        one.put(write);
        sys::close(write);
        Ok(one)
    }

    fn put(&self, fd: RawFd) {
        for &(number, is_cloexec) in &self.numbers {
            // The number is open, so this replaces it and cannot run out of anything.
            let _ = sys::duplicate(fd, number, is_cloexec);
        }
    }
}

fn new_pipe(block: RawFd) -> sys::Sys<[RawFd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers.
    sys::check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
    let read = sys::raise(ends[0], block);
    sys::close(ends[0]);
    match read {
        Ok(read) => Ok([read, ends[1]]),
        Err(errno) => {
            sys::close(ends[1]);
            Err(errno)
        }
    }
}

fn writes(fd: RawFd) -> bool {
    sys::control(fd, libc::F_GETFL, 0).is_ok_and(|f| f & libc::O_ACCMODE != libc::O_RDONLY)
}

fn is_cloexec(fd: RawFd) -> bool {
    sys::control(fd, libc::F_GETFD, 0).is_ok_and(|f| f & libc::FD_CLOEXEC != 0)
}
