//! One poll of mio for everything a manager waits for: sockets, pipes, pidfds, signals.

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Events, Poll};
use nix::errno::Errno;
use rejoin_managers_host::error::{Context, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

/// The longest single wait.
const LONGEST: Duration = Duration::from_secs(60);

/// The subject of an event: a kind, a number, and the incarnation of the number at its
/// registration. So an event of a replaced process is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// The driver's own kinds.
    pub kind: u8,
    /// Incarnation of the subject; 0 where none succeeds it.
    pub incarnation: u32,
    /// Index in the driver's tables.
    pub index: u32,
}

impl Token {
    /// A token of something there is one of.
    #[must_use]
    pub const fn single(kind: u8) -> Token {
        Token::indexed(kind, 0)
    }

    /// A token of one of several, which has no successor.
    #[must_use]
    pub const fn indexed(kind: u8, index: u32) -> Token {
        Token {
            kind,
            incarnation: 0,
            index,
        }
    }
}

/// The readiness to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// Until there is something to read, or the end.
    pub read: bool,
    /// Until there is room to write.
    pub write: bool,
}

impl Interest {
    /// Reading only.
    pub const READ: Interest = Interest::new(true, false);
    /// Writing only.
    pub const WRITE: Interest = Interest::new(false, true);
    /// Both.
    pub const READ_AND_WRITE: Interest = Interest::new(true, true);
    /// Neither: errors and the other side's end are still reported.
    pub const NONE: Interest = Interest::new(false, false);

    const fn new(read: bool, write: bool) -> Interest {
        Interest { read, write }
    }

    fn of_mio(self) -> mio::Interest {
        let read = self.read.then_some(mio::Interest::READABLE);
        let write = self.write.then_some(mio::Interest::WRITABLE);
        match (read, write) {
            (Some(read), Some(write)) => read | write,
            // mio knows no empty interest. Nothing here has urgent data; errors and hang-ups always
            // come.
            (read, write) => read.or(write).unwrap_or(mio::Interest::PRIORITY),
        }
    }
}

/// The watched descriptors, and those that the last wait has reported.
#[derive(Debug, Default)]
struct Watched {
    all: BTreeMap<RawFd, (Token, mio::Interest)>,
    reported: Vec<RawFd>,
}

/// The poll and its events. Level-triggered: an unhandled event comes again. mio itself reports
/// changes only, so each wait first registers the descriptors again that the wait before has
/// reported.
#[derive(Debug)]
pub struct Reactor {
    poll: Poll,
    events: Events,
    watched: RefCell<Watched>,
}

impl Reactor {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> Result<Self> {
        Ok(Reactor {
            poll: Poll::new().context("create an epoll")?,
            events: Events::with_capacity(256),
            watched: RefCell::default(),
        })
    }

    /// Starts to watch a descriptor. `false`: it can't be watched and is always ready (a file).
    ///
    /// # Errors
    /// The system refuses.
    pub fn add(&self, fd: impl AsFd, token: Token, interest: Interest) -> Result<bool> {
        let fd = fd.as_fd().as_raw_fd();
        let interest = interest.of_mio();
        let added = SourceFd(&fd).register(self.poll.registry(), name(fd), interest);
        match added {
            Ok(()) => {
                let mut watched = self.watched.borrow_mut();
                watched.all.insert(fd, (token, interest));
                Ok(true)
            }
            Err(error) if error.raw_os_error() == Some(Errno::EPERM as i32) => Ok(false),
            Err(error) => Err(error).context("watch a descriptor"),
        }
    }

    /// Changes the watched readiness.
    ///
    /// # Errors
    /// The system refuses.
    pub fn change(&self, fd: impl AsFd, token: Token, interest: Interest) -> Result<()> {
        let fd = fd.as_fd().as_raw_fd();
        let wanted = (token, interest.of_mio());
        let mut watched = self.watched.borrow_mut();
        if watched.all.get(&fd) == Some(&wanted) {
            return Ok(());
        }
        let changed = SourceFd(&fd).reregister(self.poll.registry(), name(fd), wanted.1);
        changed.context("watch a descriptor")?;
        watched.all.insert(fd, wanted);
        Ok(())
    }

    /// Stops watching; errors don't matter, closing does the same.
    pub fn remove(&self, fd: impl AsFd) {
        let fd = fd.as_fd().as_raw_fd();
        self.watched.borrow_mut().all.remove(&fd);
        let _ = SourceFd(&fd).deregister(self.poll.registry());
    }

    /// Waits for events, at most `limit` long, and returns their tokens.
    ///
    /// # Errors
    /// The system refuses.
    pub fn wait(&mut self, limit: Option<Duration>, tokens: &mut Vec<Token>) -> Result<()> {
        let watched = self.watched.get_mut();
        for fd in watched.reported.drain(..) {
            if let Some((_, interest)) = watched.all.get(&fd) {
                // One that was closed meanwhile is watched no more.
                let _ = SourceFd(&fd).reregister(self.poll.registry(), name(fd), *interest);
            }
        }
        tokens.clear();
        // mio rounds up to milliseconds: a deadline that has almost come is no busy loop.
        let limit = limit.map(|limit| limit.min(LONGEST));
        match self.poll.poll(&mut self.events, limit) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            other => other.context("wait for events")?,
        }
        for event in &self.events {
            let fd = event.token().0 as RawFd;
            watched.reported.push(fd);
            tokens.extend(watched.all.get(&fd).map(|(token, _)| *token));
        }
        Ok(())
    }
}

/// mio's name of a descriptor: its number, which is unique while it is watched.
fn name(fd: RawFd) -> mio::Token {
    mio::Token(fd as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    const SOON: Option<Duration> = Some(Duration::from_millis(1));

    fn waited(reactor: &mut Reactor) -> Vec<Token> {
        let mut tokens = Vec::new();
        reactor.wait(SOON, &mut tokens).unwrap();
        tokens
    }

    #[test]
    fn what_is_not_handled_comes_again() {
        let mut reactor = Reactor::new().unwrap();
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let token = Token {
            kind: 7,
            incarnation: 0x12_3456,
            index: u32::MAX,
        };
        assert!(reactor.add(&ours, token, Interest::READ).unwrap());
        assert_eq!(waited(&mut reactor), []);
        theirs.write_all(b"two").unwrap();
        for byte in b"two" {
            assert_eq!(waited(&mut reactor), [token]);
            let mut read = [0];
            ours.read_exact(&mut read).unwrap();
            assert_eq!(read, [*byte]);
        }
        assert_eq!(waited(&mut reactor), []);
    }

    #[test]
    fn without_interest_only_the_end_is_reported() {
        let mut reactor = Reactor::new().unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (first, second) = (Token::single(1), Token::single(2));
        reactor.add(&ours, first, Interest::NONE).unwrap();
        theirs.write_all(b"unread").unwrap();
        assert_eq!(waited(&mut reactor), []);
        reactor.change(&ours, second, Interest::READ).unwrap();
        assert_eq!(waited(&mut reactor), [second]);
        reactor.change(&ours, first, Interest::NONE).unwrap();
        assert_eq!(waited(&mut reactor), []);
        drop(theirs);
        assert_eq!(waited(&mut reactor), [first]);
        reactor.remove(&ours);
        assert_eq!(waited(&mut reactor), []);
    }

    #[test]
    fn a_file_is_always_ready_and_not_watched() {
        let reactor = Reactor::new().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let token = Token::single(1);
        assert!(!reactor.add(&file, token, Interest::READ).unwrap());
    }
}
