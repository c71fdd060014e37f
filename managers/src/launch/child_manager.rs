//! Starts this program again as a manager on this host.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::{Context, Result};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// A manager's process that is stopped for so long before it has begun is killed.
const EXEC_LIMIT: Duration = Duration::from_secs(10);

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
    let child = spawn(&mut command, EXEC_LIMIT).context(&format!("start {what}"))?;
    Ok((ours, child.id()))
}

/// Starts a program. The system's call waits until the new process has become that program. One
/// that somebody stops before is killed after `limit`, or the call would wait without end. The
/// caller's thread makes the process, because central ends with the thread that has made it.
fn spawn(command: &mut Command, limit: Duration) -> std::io::Result<Child> {
    let before = descendants::children(std::process::id());
    let (started, is_started) = mpsc::channel::<()>();
    let watcher = std::thread::Builder::new().spawn(move || {
        while is_started.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let mut new = descendants::children(std::process::id());
            new.retain(|pid| !before.contains(pid) && descendants::is_stopped_clone(*pid));
            new.iter()
                .for_each(|pid| descendants::send(*pid, libc::SIGKILL));
            if !new.is_empty() {
                return true;
            }
        }
        false
    })?;
    let child = command.spawn();
    drop(started);
    if watcher.join().unwrap_or(false) {
        // Its killer was the watcher: it has never become the program.
        let mut child = child?;
        child.wait()?;
        let text = "its process was stopped before it began, and was killed";
        return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, text));
    }
    child
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_stopped_before_it_begins_is_not_waited_for_without_end() {
        let _alone = crate::alone();
        let limit = Duration::from_millis(50);
        let mut command = Command::new("true");
        assert!(
            spawn(&mut command, limit)
                .unwrap()
                .wait()
                .unwrap()
                .success()
        );
        // SAFETY: one system call with a plain number between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::raise(libc::SIGSTOP);
                Ok(())
            });
        }
        let error = spawn(&mut command, limit).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }
}
