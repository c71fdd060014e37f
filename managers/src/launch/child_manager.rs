//! Starts this program again as a manager on this host.

use crate::error::{Context, Result};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Starts a manager: this program again under another name, with its link as standard input, in a
/// process group of its own so that the terminal's signals reach mpirun alone. Returns our end and
/// its process id.
///
/// # Errors
/// The system refuses; `what` is named.
pub fn start_manager(name: &str, argument: &str, what: &str) -> Result<(OwnedFd, u32)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)
        .context(&format!("make the link to {what}"))?;
    let child = Command::new("/proc/self/exe")
        .arg0(name)
        .arg(argument)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .context(&format!("start {what}"))?;
    Ok((ours, child.id()))
}
