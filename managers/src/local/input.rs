//! Standard input for the one rank that gets it.

use super::output::set_nonblocking;
use super::{Driver, kind};
use crate::error::{Context, Result};
use crate::plan::Up;
use crate::reactor::{Interest, Token};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

/// The pipe to the rank, and what it has not taken yet (at most a window).
pub(super) struct RankInput {
    pipe: OwnedFd,
    queue: VecDeque<u8>,
    ended: bool,
}

impl RankInput {
    /// Adds what came; nothing means the end.
    pub fn push(&mut self, bytes: &[u8]) {
        self.ended |= bytes.is_empty();
        self.queue.extend(bytes);
    }
}

impl Driver {
    /// Makes the pipe, before its rank is started: input may come at once, and its end too. Returns
    /// the rank's end.
    pub(super) fn open_input(&mut self) -> Result<OwnedFd> {
        let (reader, pipe) = pipe2(OFlag::O_CLOEXEC).context("make the pipe of standard input")?;
        set_nonblocking(&pipe)?;
        let input = RankInput {
            pipe,
            queue: VecDeque::new(),
            ended: false,
        };
        // No interest: a closed reader is reported all the same.
        let interest = Interest {
            read: false,
            write: false,
        };
        self.reactor
            .add(&input.pipe, Token::single(kind::INPUT), interest)?;
        self.input = Some(input);
        Ok(reader)
    }

    /// Writes what the pipe takes; called when there is more, when there is room, and when the rank
    /// has closed its side.
    pub(super) fn write_input(&mut self) -> Result<()> {
        let Some(input) = &mut self.input else {
            return Ok(());
        };
        let mut taken = 0;
        // With nothing to write only an error can tell that the rank closed its side.
        let mut closed = input.queue.is_empty() && is_broken(&input.pipe);
        while !input.queue.is_empty() {
            match nix::unistd::write(&input.pipe, input.queue.as_slices().0) {
                Ok(count) => {
                    input.queue.drain(..count);
                    taken += count;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(_) => {
                    closed = true;
                    break;
                }
            }
        }
        let ended = input.ended && input.queue.is_empty();
        if closed || ended {
            self.reactor.remove(&input.pipe);
            self.input = None;
            if !ended {
                self.link.queue(&Up::InputClosed)?;
            }
            return Ok(());
        }
        let interest = Interest {
            read: false,
            write: !input.queue.is_empty(),
        };
        self.reactor
            .change(&input.pipe, Token::single(kind::INPUT), interest)?;
        if taken > 0 {
            self.link.queue(&Up::InputCredit(taken as u32))?;
        }
        Ok(())
    }
}

/// Nobody can read from this pipe any more.
fn is_broken(pipe: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
    let found = poll(&mut polled, PollTimeout::ZERO);
    found.is_ok()
        && polled[0]
            .revents()
            .is_some_and(|r| r.contains(PollFlags::POLLERR))
}
