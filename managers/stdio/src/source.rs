//! mpirun's standard input, read as far as the rank that gets it takes it.

use crate::INPUT_WINDOW;
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{Whence, lseek};
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How often to see whether we are in the terminal's foreground again.
const RETRY: Duration = Duration::from_millis(300);

/// Bytes that are kept for processes that begin anew.
const KEPT: usize = 1 << 20;

/// The bytes that one launch of a job has read, for the next one, whose processes begin anew.
#[derive(Debug, Clone, Default)]
pub struct Consumed {
    bytes: Vec<u8>,
    /// There was more than is kept, and `bytes` is empty.
    too_much: bool,
    ended: bool,
    /// A file, and where in it the first launch began.
    begun: Option<i64>,
}

impl Consumed {
    /// Something was read that can't be read again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.too_much
    }
}

/// State of standard input.
#[derive(Debug)]
pub struct InputSource {
    open: bool,
    terminal: bool,
    window: usize,
    /// Nobody can be given anything now.
    paused: bool,
    /// Watched by epoll.
    watched: bool,
    /// A file: always ready, never watched.
    file: bool,
    retry: Option<Instant>,
    token: Token,
    /// The bytes read so far, if another launch may need them.
    keeps: bool,
    consumed: Consumed,
    /// Bytes of that which this launch has been given.
    given: usize,
}

impl InputSource {
    /// Standard input, or none: first the bytes that an earlier launch has read. Keeps it for the
    /// next one, or not.
    #[must_use]
    pub fn new(open: bool, keeps: bool, mut consumed: Consumed, token: Token) -> InputSource {
        if keeps && consumed.begun.is_none() {
            consumed.begun = position();
        } else if let Some(begun) = consumed.begun
            && lseek(std::io::stdin(), begun, Whence::SeekSet).is_ok()
        {
            (consumed.ended, consumed.too_much) = (false, false);
        }
        InputSource {
            keeps,
            consumed,
            given: 0,
            open,
            terminal: std::io::stdin().is_terminal(),
            window: INPUT_WINDOW,
            paused: false,
            watched: false,
            file: false,
            retry: None,
            token,
        }
    }

    /// Reads nothing, or reads again.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Starts or stops watching as the window and the terminal demand.
    pub fn arrange(&mut self, reactor: &Reactor) {
        let stdin = std::io::stdin();
        let mut want = self.open && !self.paused && self.window > 0;
        want &= !self.file && !self.has_more_to_give();
        if want && self.in_background() {
            // Reading now would stop us (SIGTTIN).
            want = false;
            self.retry = Some(Instant::now() + RETRY);
        } else {
            self.retry = None;
        }
        if want && !self.watched {
            match reactor.add(stdin.as_fd(), self.token, Interest::READ) {
                Ok(watched) => {
                    self.watched = watched;
                    self.file = !watched;
                }
                Err(_) => self.open = false,
            }
        } else if !want && self.watched {
            reactor.remove(stdin.as_fd());
            self.watched = false;
        }
    }

    fn in_background(&self) -> bool {
        self.terminal
            && nix::unistd::tcgetpgrp(std::io::stdin().as_fd())
                .is_ok_and(|group| group != nix::unistd::getpgrp())
    }

    /// There is something to read without an event.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.open && !self.paused && (self.file || self.has_more_to_give()) && self.window > 0
    }

    /// An earlier launch has read something that this one was not given.
    fn has_more_to_give(&self) -> bool {
        self.given < self.consumed.bytes.len() || self.consumed.ended
    }

    /// Bytes were read that can't be given to another launch.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.consumed.is_lost()
    }

    /// Another host reads it from now on, and gets it from the beginning.
    pub fn give_again(&mut self, reactor: &Reactor) {
        if self.watched {
            reactor.remove(std::io::stdin().as_fd());
            self.watched = false;
        }
        if let Some(begun) = self.consumed.begun
            && lseek(std::io::stdin(), begun, Whence::SeekSet).is_ok()
        {
            self.consumed.ended = false;
        }
        (self.given, self.window, self.open) = (0, INPUT_WINDOW, true);
    }

    /// The bytes read so far, for another launch.
    pub fn consumed(&mut self) -> Consumed {
        std::mem::take(&mut self.consumed)
    }

    /// The next bytes that an earlier launch has read.
    fn again(&mut self) -> Vec<u8> {
        let rest = &self.consumed.bytes[self.given..];
        let bytes = rest[..rest.len().min(self.window)].to_vec();
        self.given += bytes.len();
        self.window -= bytes.len();
        self.open = !bytes.is_empty();
        bytes
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.consumed.ended = bytes.is_empty();
        if !self.keeps || self.consumed.too_much || self.consumed.begun.is_some() {
            return;
        }
        if self.consumed.bytes.len() + bytes.len() > KEPT {
            self.consumed.too_much = true;
            self.consumed.bytes = Vec::new();
        } else {
            self.consumed.bytes.extend_from_slice(bytes);
        }
        self.given = self.consumed.bytes.len();
    }

    /// How long to wait before [`InputSource::arrange`] is worth another try.
    #[must_use]
    pub fn wait_limit(&self) -> Option<Duration> {
        self.retry
            .map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Reads once. Empty bytes are the end; `None` is nothing.
    pub fn read(&mut self) -> Option<Vec<u8>> {
        if !self.open || self.paused || self.window == 0 {
            return None;
        }
        if self.has_more_to_give() {
            return Some(self.again());
        }
        if self.in_background() {
            return None;
        }
        let mut buffer = vec![0; self.window];
        match nix::unistd::read(std::io::stdin().as_fd(), &mut buffer) {
            Ok(count) => {
                buffer.truncate(count);
                self.window -= count;
                self.open = count > 0;
                self.keep(&buffer);
                Some(buffer)
            }
            Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => None,
            Err(_) => {
                self.open = false;
                Some(Vec::new())
            }
        }
    }

    /// The rank took so many bytes.
    pub fn credit(&mut self, count: u32) {
        self.window = (self.window + count as usize).min(INPUT_WINDOW);
    }

    /// There is no reader any more.
    pub fn close(&mut self) {
        self.open = false;
    }
}

/// The position in standard input, if it is a file.
fn position() -> Option<i64> {
    let stdin = std::io::stdin();
    let kind = SFlag::from_bits_truncate(fstat(stdin.as_fd()).ok()?.st_mode) & SFlag::S_IFMT;
    let place = lseek(stdin.as_fd(), 0, Whence::SeekCur).ok()?;
    (kind == SFlag::S_IFREG).then_some(place)
}
