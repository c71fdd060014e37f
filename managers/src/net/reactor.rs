//! One epoll for everything a manager waits for: sockets, pipes, pidfds, signals.

use crate::error::{Context, Result};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::os::fd::AsFd;
use std::time::Duration;

/// What an event is about: a kind, a number, and the incarnation that the number belonged to when
/// it was registered, so that an event of a replaced process is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// The driver's own kinds.
    pub kind: u8,
    /// Low 24 bits of the incarnation.
    pub incarnation: u32,
    /// Index in the driver's tables.
    pub index: u32,
}

impl Token {
    /// A token of something there is one of.
    #[must_use]
    pub const fn single(kind: u8) -> Token {
        Token {
            kind,
            incarnation: 0,
            index: 0,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.kind) << 56
            | u64::from(self.incarnation & 0x00ff_ffff) << 32
            | u64::from(self.index)
    }

    fn unpack(data: u64) -> Token {
        Token {
            kind: (data >> 56) as u8,
            incarnation: (data >> 32) as u32 & 0x00ff_ffff,
            index: data as u32,
        }
    }
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// Until there is something to read, or the end.
    pub read: bool,
    /// Until there is room to write.
    pub write: bool,
}

impl Interest {
    /// Reading only.
    pub const READ: Interest = Interest {
        read: true,
        write: false,
    };

    fn flags(self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, self.read);
        flags.set(EpollFlags::EPOLLOUT, self.write);
        flags
    }
}

/// The epoll and its event buffer. Level-triggered: what is not handled comes again.
#[derive(Debug)]
pub struct Reactor {
    epoll: Epoll,
    events: Vec<EpollEvent>,
}

impl Reactor {
    /// A new epoll.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("create an epoll")?;
        Ok(Reactor {
            epoll,
            events: vec![EpollEvent::empty(); 256],
        })
    }

    /// Starts to watch a descriptor. `false`: it can't be watched and is always ready (a file).
    ///
    /// # Errors
    /// The system refuses.
    pub fn add(&self, fd: impl AsFd, token: Token, interest: Interest) -> Result<bool> {
        match self
            .epoll
            .add(fd, EpollEvent::new(interest.flags(), token.pack()))
        {
            Ok(()) => Ok(true),
            Err(Errno::EPERM) => Ok(false),
            Err(error) => Err(error).context("watch a descriptor"),
        }
    }

    /// Changes what is watched for.
    ///
    /// # Errors
    /// The system refuses.
    pub fn change(&self, fd: impl AsFd, token: Token, interest: Interest) -> Result<()> {
        let mut event = EpollEvent::new(interest.flags(), token.pack());
        self.epoll
            .modify(fd, &mut event)
            .context("watch a descriptor")
    }

    /// Stops watching; errors don't matter, closing does the same.
    pub fn remove(&self, fd: impl AsFd) {
        let _ = self.epoll.delete(fd);
    }

    /// Waits for events, at most `limit` long, and returns their tokens.
    ///
    /// # Errors
    /// The system refuses.
    pub fn wait(&mut self, limit: Option<Duration>, tokens: &mut Vec<Token>) -> Result<()> {
        // Rounded up: a deadline that has almost come must not become a busy loop.
        let timeout = match limit {
            None => EpollTimeout::NONE,
            Some(limit) => {
                let millis = limit.as_micros().div_ceil(1000).min(60_000);
                EpollTimeout::try_from(millis as i32).unwrap_or(EpollTimeout::ZERO)
            }
        };
        tokens.clear();
        let count = match self.epoll.wait(&mut self.events, timeout) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error).context("wait for events"),
        };
        tokens.extend(self.events[..count].iter().map(|e| Token::unpack(e.data())));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_epoll() {
        let token = Token {
            kind: 7,
            incarnation: 0x12_3456,
            index: u32::MAX,
        };
        assert_eq!(Token::unpack(token.pack()), token);
    }
}
