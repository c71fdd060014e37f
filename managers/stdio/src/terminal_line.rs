//! The last line of the terminal, where mpirun shows something for a while.
//!
//! Whoever writes on the terminal calls [`clear`] before. Then the line is gone, and shown again
//! later. Nothing is shown behind an unfinished line of text, so writers also say what they wrote.

use nix::errno::Errno;
use nix::unistd::{getpgrp, tcgetpgrp};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write as _};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The cursor goes to the beginning of the line, which is emptied.
pub const EMPTY_LINE: &str = "\r\x1b[2K";

/// The terminal on which the line is shown now.
static SHOWN: Mutex<Option<Arc<TerminalLine>>> = Mutex::new(None);
/// Text stands before the cursor.
static IS_IN_TEXT: AtomicBool = AtomicBool::new(false);

/// Somebody is about to write on the terminal.
pub fn clear() {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(line) = shown {
        line.write(EMPTY_LINE.as_bytes());
    }
}

/// These bytes were written on the terminal.
pub fn wrote(bytes: &[u8]) {
    if let Some(last) = bytes.last() {
        IS_IN_TEXT.store(*last != b'\n', Ordering::Relaxed);
    }
}

/// Whether standard error is a terminal that knows escape sequences.
#[must_use]
pub fn error_is_terminal() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind == "dumb");
    std::io::stderr().is_terminal() && !is_dumb
}

/// A terminal, without waiting for it: what it does not take at once is not shown.
#[derive(Debug)]
pub struct TerminalLine(File);

impl TerminalLine {
    /// Of standard error, if it is a terminal that knows escape sequences.
    #[must_use]
    pub fn of_standard_error() -> Option<Arc<TerminalLine>> {
        match error_is_terminal() {
            true => TerminalLine::of(&std::io::stderr()),
            false => None,
        }
    }

    /// Of a terminal. The flags of its descriptor stay as they are: others share it.
    #[must_use]
    pub fn of(terminal: &impl AsFd) -> Option<Arc<TerminalLine>> {
        let path = format!("/proc/self/fd/{}", terminal.as_fd().as_raw_fd());
        let mut options = OpenOptions::new();
        options.write(true);
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        options
            .open(path)
            .ok()
            .map(|file| Arc::new(TerminalLine(file)))
    }

    /// Whether a line may be shown: the cursor is at the beginning of one, and this process is in
    /// the foreground, or the terminal is not the one that controls it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        let is_ours = match tcgetpgrp(&self.0) {
            Ok(group) => group == getpgrp(),
            Err(error) => error == Errno::ENOTTY,
        };
        is_ours && !IS_IN_TEXT.load(Ordering::Relaxed)
    }

    /// How many columns it has; 80 if it does not say.
    #[must_use]
    pub fn width(&self) -> u16 {
        let mut size = libc::winsize {
            ws_row: 0,
            ws_col: 0,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the pointer is to the structure that the request fills in.
        let asked = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
        match (asked, size.ws_col) {
            (0, columns @ 1..) => columns,
            _ => 80,
        }
    }

    /// Shows a line, in place of the one that is shown.
    pub fn show(self: &Arc<TerminalLine>, line: &str) {
        self.write(line.as_bytes());
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(self));
    }

    fn write(&self, bytes: &[u8]) {
        // A terminal that is stopped or gone shows nothing.
        let _ = (&self.0).write(bytes);
    }
}
