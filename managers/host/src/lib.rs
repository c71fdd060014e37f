//! The host of a manager: processors, interfaces and limits, the processes below a manager and
//! how they are suspended, the signals that a manager gets, the memory that is left, the user's
//! run directory, the clocks, and random numbers. And the error of the managers' crates, which says
//! what a manager tried and what the host answered.

mod control_groups;
pub mod descendants;
pub mod error;
pub mod host_clocks;
pub mod host_limits;
pub mod images_folder;
pub mod inherited_descriptors;
pub mod memory_room;
pub mod network_interfaces;
pub mod random;
pub mod run_dir;
pub mod signal_reader;
pub mod suspension;
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
