//! Signals of a manager, which it reads from a descriptor.

use crate::error::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

/// Signals that mpirun passes on to the ranks.
pub const FORWARDED: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Blocked signals, to be read from a descriptor.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks these signals and SIGCHLD. Signals that were ignored before stay ignored (`nohup`, a
    /// shell's background jobs).
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(signals: &[Signal]) -> Result<Self> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGCHLD);
        for &signal in signals {
            if !is_ignored(signal) {
                set.add(signal);
            }
        }
        set.thread_block().context("block signals")?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let fd = SignalFd::with_flags(&set, flags).context("make a descriptor for signals")?;
        Ok(Signals(fd))
    }

    /// The next pending signal's number.
    pub fn take(&mut self) -> Option<i32> {
        match self.0.read_signal() {
            Ok(Some(info)) => i32::try_from(info.ssi_signo).ok(),
            _ => None,
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether this process was started with SIGXFSZ ignored.
static FILE_LIMIT_IGNORED: OnceLock<bool> = OnceLock::new();

/// From here on a write beyond the limit of file sizes (`ulimit -f`) is an error, not this
/// process's end.
pub fn survive_file_limit() {
    FILE_LIMIT_IGNORED.get_or_init(|| is_ignored(Signal::SIGXFSZ));
    ignore(Signal::SIGXFSZ);
}

/// Whether who started this process ignores SIGXFSZ, so that programs that it starts are to do the
/// same.
#[must_use]
pub fn file_limit_is_ignored() -> bool {
    *FILE_LIMIT_IGNORED.get_or_init(|| is_ignored(Signal::SIGXFSZ))
}

/// Ignores a signal.
pub fn ignore(signal: Signal) {
    // SAFETY: SIG_IGN runs no code of ours.
    unsafe {
        libc::signal(signal as i32, libc::SIG_IGN);
    }
}

fn is_ignored(signal: Signal) -> bool {
    // SAFETY: sigaction is plain data for which all zeros is a value; the call only fills it in.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal as i32, std::ptr::null(), &mut old) == 0
            && old.sa_sigaction == libc::SIG_IGN
    }
}
