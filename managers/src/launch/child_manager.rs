//! Starts this program again as a manager on this host.

use crate::error::{Context, Result};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Starts a manager: this program again under another name, with its link as standard input. It has
/// a process group of its own, so that the terminal's signals reach only mpirun. It inherits these
/// descriptors under their numbers. Returns this side's end of the link, and the process id.
///
/// # Errors
/// The system's error, which names `what`.
pub fn start_manager(
    name: &str,
    argument: &str,
    what: &str,
    inherited: Vec<RawFd>,
) -> Result<(OwnedFd, u32)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)
        .context(&format!("make the link to {what}"))?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(name)
        .arg(argument)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .process_group(0);
    // SAFETY: system calls with plain numbers between fork and exec.
    unsafe {
        command.pre_exec(move || {
            for number in &inherited {
                if libc::fcntl(*number, libc::F_SETFD, 0) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let child = command.spawn().context(&format!("start {what}"))?;
    Ok((ours, child.id()))
}
