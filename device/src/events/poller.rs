//! Readiness by epoll, edge-triggered.
//!
//! A thin layer over the system's calls. Unlike mio's, its descriptors can be moved into the
//! library's high block, which an image of the process drops as one range.

use std::os::fd::{AsFd, IntoRawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::waker::Waker;
use crate::descriptors;
use crate::error::{Error, Result};

/// The receiver of an event. The generation makes an event for a closed descriptor harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollToken {
    /// Index of the slot.
    pub slot: u32,
    /// How often the slot had been used when the descriptor was registered.
    pub generation: u32,
}

impl PollToken {
    /// The channel to the local manager.
    pub const MANAGER: Self = Self {
        slot: u32::MAX,
        generation: 0,
    };
    /// The waker.
    pub const WAKER: Self = Self {
        slot: u32::MAX,
        generation: 1,
    };

    /// The listener with this number.
    #[must_use]
    pub const fn listener(number: u32) -> Self {
        Self {
            slot: u32::MAX - 1,
            generation: number,
        }
    }

    /// Whether this is a listener's token.
    #[must_use]
    pub const fn is_listener(self) -> bool {
        self.slot == u32::MAX - 1
    }

    const fn to_bits(self) -> u64 {
        (self.slot as u64) << 32 | self.generation as u64
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the two halves are taken apart"
    )]
    const fn from_bits(bits: u64) -> Self {
        Self {
            slot: (bits >> 32) as u32,
            generation: bits as u32,
        }
    }
}

/// An event: whose, and whether it may be read or written now. A hang-up or error counts as both,
/// so that the next call finds it.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// Token of the descriptor that the event is for.
    pub token: PollToken,
    /// A read may bring something.
    pub readable: bool,
    /// A write may be taken.
    pub writable: bool,
    /// The other end is gone, or has said its last word: no event will follow, so the link must be
    /// read to that end.
    pub hangup: bool,
}

/// Events taken in one call.
const BATCH: usize = 64;

/// One epoll instance.
pub struct Poller {
    epoll: Epoll,
    waker: Waker,
    buffer: [EpollEvent; BATCH],
}

impl Poller {
    /// Makes the epoll instance, and the descriptor behind `waker` anew, both in the high block.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn new(waker: &Waker) -> Result<Self> {
        let made = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|errno| Error::system("make an epoll instance", errno))?;
        let poller = Self {
            epoll: Epoll(descriptors::raise(made.0)?),
            waker: waker.clone(),
            buffer: [EpollEvent::empty(); BATCH],
        };
        waker.open(|event| poller.add(event, PollToken::WAKER, false))?;
        Ok(poller)
    }

    /// Drops a number that is no longer this library's, without a system call.
    pub(crate) fn forget(self) {
        let _ = self.epoll.0.into_raw_fd();
    }

    /// Registers a descriptor, edge-triggered; closing it takes it out.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn add<F: AsFd>(&self, descriptor: F, token: PollToken, write: bool) -> Result<()> {
        let mut flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        if write {
            flags |= EpollFlags::EPOLLOUT;
        }
        self.epoll
            .add(descriptor, EpollEvent::new(flags, token.to_bits()))
            .map_err(|errno| Error::system("register a descriptor with epoll", errno))
    }

    /// Takes a descriptor out for a while.
    ///
    /// # Errors
    /// When it was not registered.
    pub fn remove<F: AsFd>(&self, descriptor: F) -> Result<()> {
        self.epoll
            .delete(descriptor)
            .map_err(|errno| Error::system("take a descriptor out of epoll", errno))
    }

    /// Waits at most `limit` (`None`: without limit) and gives each event to `each`. Returns their
    /// number. A signal ends the wait early without an error. Time is counted in milliseconds,
    /// rounded up.
    ///
    /// # Errors
    /// Only on misuse of the system's call.
    pub fn wait(
        &mut self,
        limit: Option<Duration>,
        mut each: impl FnMut(Readiness),
    ) -> Result<usize> {
        let timeout = limit.map_or(EpollTimeout::NONE, |limit| {
            let ms = limit.as_nanos().div_ceil(1_000_000).min(1 << 30);
            EpollTimeout::try_from(u32::try_from(ms).unwrap_or(1 << 30))
                .unwrap_or(EpollTimeout::MAX)
        });
        let count = match self.epoll.wait(&mut self.buffer, timeout) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(errno) => return Err(Error::system("wait in epoll", errno)),
        };
        for event in &self.buffer[..count] {
            let token = PollToken::from_bits(event.data());
            let flags = event.events();
            let broken = flags.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP);
            let hangup = broken || flags.contains(EpollFlags::EPOLLRDHUP);
            if token == PollToken::WAKER {
                self.waker.reset();
            }
            each(Readiness {
                token,
                readable: hangup || flags.contains(EpollFlags::EPOLLIN),
                writable: broken || flags.contains(EpollFlags::EPOLLOUT),
                hangup,
            });
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_waker_ends_a_wait_and_tokens_survive() {
        let waker = Waker::default();
        let mut poller = Poller::new(&waker).expect("poller");
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        let start = Instant::now();
        let mut seen = Vec::new();
        poller
            .wait(Some(Duration::from_secs(20)), |event| {
                seen.push(event.token)
            })
            .expect("wait");
        thread.join().expect("joined");
        assert_eq!(seen, [PollToken::WAKER]);
        assert!(start.elapsed() < Duration::from_secs(10));
        let none = poller.wait(Some(Duration::ZERO), |_| ()).expect("look");
        assert_eq!(none, 0);
        let token = PollToken {
            slot: 7,
            generation: u32::MAX,
        };
        assert_eq!(PollToken::from_bits(token.to_bits()), token);
    }
}
