//! The launch agent: the command (ssh, or the user's own) that starts a local manager on another
//! host.

use crate::launch::supervisor;
use rejoin_managers_host::error::{Error, Result, system_text};
use rejoin_managers_host::signal_reader;
use rejoin_managers_net::invite::Invitation;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};

/// A started agent.
#[derive(Debug)]
pub struct LaunchAgent {
    pid: u32,
    command: String,
    ended: Option<ExitStatus>,
    /// Why the agent did not take the invitation.
    refused: Option<String>,
}

impl LaunchAgent {
    /// Starts an agent and gives it the invitation. It is in a process group of its own, so that
    /// the terminal's signals reach only mpirun. Its output goes to mpirun's standard error.
    pub fn start(command: &[OsString], invitation: &Invitation) -> Result<LaunchAgent> {
        let shown: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
        let shown = shown.join(" ");
        let (first, rest) = command.split_first().ok_or_else(|| {
            Error::Usage("there is no command that starts programs on other hosts".into())
        })?;
        let mut command = Command::new(first);
        command
            .args(rest)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0);
        let file_limit_ignored = signal_reader::file_limit_is_ignored();
        // SAFETY: system calls with plain numbers between fork and exec. One that hangs must not
        // outlive us.
        unsafe {
            command.pre_exec(move || {
                if !file_limit_ignored {
                    libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
                }
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                Ok(())
            });
        }
        let mut child = command
            .spawn()
            .map_err(|e| Error::Usage(format!("can't run `{shown}`: {}", system_text(&e))))?;
        // Less than a pipe holds; closed behind it.
        let given = child.stdin.take().map(|stdin| invitation.write(stdin));
        let refused = given.and_then(std::result::Result::err);
        Ok(LaunchAgent {
            pid: child.id(),
            command: shown,
            ended: None,
            refused: refused.map(|e| e.to_string()),
        })
    }

    /// The command, for messages to the user.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// A child has ended; it may be this one.
    pub fn ended(&mut self, pid: u32, status: Option<i32>) {
        if pid == self.pid {
            self.ended = status.map(ExitStatus::from_raw);
        }
    }

    /// The agent has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// How the local manager that it started has ended on its host, and that nothing of it is left,
    /// if a supervisor there says so.
    pub fn ended_there(&self) -> Option<String> {
        supervisor::reported_end(self.ended?.code()?)
    }

    /// How it ended if that is not known to be the end of the manager: the end of an agent may
    /// leave the manager behind. Of its own troubles ssh speaks with the code 255.
    pub fn ended_otherwise(&self) -> Option<String> {
        let code = self.ended?.code()?;
        let says_nothing = matches!(code, 0 | 255) || supervisor::reported_end(code).is_some();
        (!says_nothing).then(|| match code {
            129..=192 => format!("it was killed by signal {}", code - 128),
            _ => format!("with exit code {code}"),
        })
    }

    /// The agent has ended well.
    pub fn ended_well(&self) -> bool {
        self.ended.is_some_and(|status| status.success())
    }

    /// How it failed. One that ended well may have left what it started behind.
    pub fn failed(&self) -> Option<String> {
        let ended = self.ended.filter(|status| !status.success());
        ended
            .map(|status| match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with exit code {code}"),
                (_, Some(signal)) => format!("was ended by signal {signal}"),
                _ => "failed".into(),
            })
            .or_else(|| self.refused.clone())
    }
}
