//! The host of a manager: processors, interfaces and limits, the processes below a manager, the
//! signals that a manager gets, and the user's run directory.

pub mod descendants;
pub mod interfaces;
pub mod limits;
pub mod run_dir;
pub mod signals;
pub mod topology;

use crate::error::{Context, Result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::os::fd::AsFd;

/// Makes reads and writes return instead of waiting.
///
/// # Errors
/// The system refuses.
pub fn set_nonblocking(fd: impl AsFd) -> Result<()> {
    let flags = OFlag::from_bits_truncate(fcntl(&fd, FcntlArg::F_GETFL).context("ask a pipe")?);
    fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).context("set up a pipe")?;
    Ok(())
}
