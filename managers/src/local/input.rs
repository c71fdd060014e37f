//! Standard input for the one rank that gets it.

use super::{Driver, kind};
use crate::error::Result;
use crate::plan::Up;
use crate::reactor::{Interest, Token};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// The pipe to the rank, and what it has not taken yet (at most a window).
pub(super) struct RankInput {
    pipe: OwnedFd,
    queue: VecDeque<u8>,
    ended: bool,
}

impl RankInput {
    pub fn new(pipe: OwnedFd) -> Self {
        RankInput {
            pipe,
            queue: VecDeque::new(),
            ended: false,
        }
    }

    pub fn pipe(&self) -> &OwnedFd {
        &self.pipe
    }

    /// Adds what came; nothing means the end.
    pub fn push(&mut self, bytes: &[u8]) {
        self.ended |= bytes.is_empty();
        self.queue.extend(bytes);
    }
}

impl Driver {
    /// Writes what the pipe takes; called when there is more, when there is room, and when the rank
    /// has closed its side.
    pub(super) fn write_input(&mut self) -> Result<()> {
        let Some(input) = &mut self.input else {
            return Ok(());
        };
        let mut taken = 0;
        let mut closed = false;
        let idle = input.queue.is_empty() && !input.ended;
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
        if closed || ended || idle {
            // Idle and called by an event: nothing was waited for, so the rank closed its side.
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
