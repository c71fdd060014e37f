//! Commands with a time limit. A command that exceeds it is ended with all its child processes.

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a command is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// A time by which commands have ended.
pub struct Deadline {
    at: Instant,
    limit: Duration,
    held: SigSet,
    signals: SignalFd,
}

impl Deadline {
    /// A deadline from now on. From here on, signals that end this program are blocked and first
    /// end the commands. The commands have process groups of their own, which a terminal does not
    /// reach.
    pub fn after(limit: Duration) -> Result<Deadline> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block().context("blocking signals")?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&set, flags).context("a descriptor for signals")?;
        Ok(Deadline {
            at: Instant::now() + limit,
            limit,
            held: set,
            signals,
        })
    }

    /// Runs a command, which must end well and in time.
    pub fn run(&self, command: &mut Command) -> Result<()> {
        let status = self.status(command)?;
        ensure!(status.success(), "{command:?} ended with {status}");
        Ok(())
    }

    fn status(&self, command: &mut Command) -> Result<ExitStatus> {
        command.stdin(Stdio::null()).process_group(0);
        let mut child = self
            .spawn(command)
            .with_context(|| format!("starting {command:?}"))?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if let Ok(Some(signal)) = self.signals.read_signal() {
                end(&mut child)?;
                eprintln!("ended by signal {}", signal.ssi_signo);
                std::process::exit(128 + signal.ssi_signo as i32);
            }
            if Instant::now() >= self.at {
                end(&mut child)?;
                bail!("{command:?} had not ended after {:?}", self.limit);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Deadline {
    /// A process inherits the blocked signals of the thread that starts it, so a thread without
    /// blocked signals starts it.
    fn spawn(&self, command: &mut Command) -> std::io::Result<Child> {
        std::thread::scope(|scope| {
            let starter = scope.spawn(|| {
                self.held.thread_unblock()?;
                command.spawn()
            });
            let ended = || std::io::Error::other("the thread that starts it ended");
            starter.join().unwrap_or_else(|_| Err(ended()))
        })
    }
}

/// Ends a command and its process group, politely first.
fn end(child: &mut Child) -> Result<()> {
    let group = Pid::from_raw(i32::try_from(child.id())?);
    // A group that has ended already is what we want.
    let _ = killpg(group, Signal::SIGTERM);
    let patience = Instant::now() + Duration::from_secs(3);
    while child.try_wait()?.is_none() && Instant::now() < patience {
        std::thread::sleep(PAUSE);
    }
    let _ = killpg(group, Signal::SIGKILL);
    child.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_ended_with_what_it_has_started() {
        // Time enough to start something.
        let deadline = Deadline::after(Duration::from_secs(3)).expect("a deadline");
        let mark = std::env::temp_dir().join(format!("rejoin-bounded-{}", std::process::id()));
        let script = format!("sleep 1000 & echo $! > '{}'; wait", mark.display());
        let error = deadline
            .run(Command::new("sh").args(["-c", &script]))
            .expect_err("it hangs");
        assert!(error.to_string().contains("had not ended"), "{error}");
        let text = std::fs::read_to_string(&mark).expect("the pid");
        std::fs::remove_file(&mark).expect("the mark goes");
        // It is gone, or a zombie that someone else is to reap.
        let stat = format!("/proc/{}/stat", text.trim());
        let begun = Instant::now();
        loop {
            let state = std::fs::read_to_string(&stat).unwrap_or_default();
            if state.is_empty() || state.contains(") Z ") {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{state}");
            std::thread::sleep(PAUSE);
        }
    }

    #[test]
    fn what_ends_in_time_is_judged_by_its_end() {
        let deadline = Deadline::after(Duration::from_secs(60)).expect("a deadline");
        deadline.run(&mut Command::new("true")).expect("true");
        let free = ["-q", "SigBlk:\t0000000000000000", "/proc/self/status"];
        let grep = deadline.run(Command::new("grep").args(free));
        grep.expect("signals reach commands");
        let error = deadline.run(&mut Command::new("false"));
        assert!(error.expect_err("false").to_string().contains("status: 1"));
        let absent = deadline.run(&mut Command::new("/no/such/program"));
        assert!(absent.is_err());
    }
}
