//! mpirun's standard input, read as far as the rank that gets it takes it.

use crate::plan::INPUT_WINDOW;
use crate::reactor::{Interest, Reactor, Token};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How often to see whether we are in the terminal's foreground again.
const RETRY: Duration = Duration::from_millis(300);

/// State of standard input.
#[derive(Debug)]
pub struct Source {
    open: bool,
    terminal: bool,
    window: usize,
    /// Watched by epoll.
    watched: bool,
    /// A file: always ready, never watched.
    file: bool,
    retry: Option<Instant>,
    token: Token,
}

impl Source {
    /// Standard input, or none.
    #[must_use]
    pub fn new(open: bool, token: Token) -> Source {
        Source {
            open,
            terminal: std::io::stdin().is_terminal(),
            window: INPUT_WINDOW,
            watched: false,
            file: false,
            retry: None,
            token,
        }
    }

    /// Starts or stops watching as the window and the terminal demand.
    pub fn arrange(&mut self, reactor: &Reactor) {
        let stdin = std::io::stdin();
        let mut want = self.open && self.window > 0 && !self.file;
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
        self.open && self.file && self.window > 0
    }

    /// How long to wait before [`Source::arrange`] is worth another try.
    #[must_use]
    pub fn wait_limit(&self) -> Option<Duration> {
        self.retry
            .map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Reads once. Empty bytes are the end; `None` is nothing.
    pub fn read(&mut self) -> Option<Vec<u8>> {
        if !self.open || self.window == 0 || self.in_background() {
            return None;
        }
        let mut buffer = vec![0; self.window];
        match nix::unistd::read(std::io::stdin().as_fd(), &mut buffer) {
            Ok(count) => {
                buffer.truncate(count);
                self.window -= count;
                self.open = count > 0;
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

    /// Nobody reads any more.
    pub fn close(&mut self) {
        self.open = false;
    }
}
