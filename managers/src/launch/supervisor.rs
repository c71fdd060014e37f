//! The supervisor: the process between a launch agent and the local manager that it starts. It
//! waits for the manager's end and reports it as an exit code, which the agent returns.
//!
//! So mpirun learns from the host itself that its manager has ended. A broken connection does not
//! prove that. When a signal ends a command, ssh reports the same as for a lost network.
//!
//! What a manager leaves behind comes to this process, which kills it first. Its exit code then
//! says that nothing is left, so ranks may continue on another host at once. Shells, ssh and other
//! agents do not use these codes for their own troubles.

use crate::host::descendants;
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

/// Signals for the manager, and the signal of its end.
const AWAITED: [Signal; 4] = [
    Signal::SIGCHLD,
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
];

/// The exit code of an agent that does not know whether anything is left of what it started.
const UNKNOWN: i32 = 255;

/// The exit code if the manager has failed and nothing is left; plus a signal's number, if that
/// signal ended the manager.
const NOTHING_LEFT: i32 = 192;

/// Signals with numbers up to this one have exit codes of their own.
const LAST_SIGNAL: i32 = 31;

/// How a manager has ended that a supervisor reports by this exit code, if it says that nothing is
/// left of the manager.
#[must_use]
pub fn reported_end(code: i32) -> Option<String> {
    match code - NOTHING_LEFT {
        0 => Some("it failed".into()),
        signal @ 1..=LAST_SIGNAL => Some(format!("it was killed by signal {signal}")),
        _ => None,
    }
}

/// Returns only in the manager, which is a child of this process. This process exits when the
/// manager has ended: with 0 if that ended well, else with a code for [`reported_end`], or with 255
/// if something may be left. If the system makes no process, there is no supervisor.
pub fn supervise() {
    let awaited: SigSet = AWAITED.into_iter().collect();
    let Ok(before) = awaited.thread_swap_mask(SigmaskHow::SIG_BLOCK) else {
        return;
    };
    // If the parent process ignores the signal, the manager's end would not be reported.
    // SAFETY: the default action of a signal is no handler.
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
    // SAFETY: this process has one thread.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => {
            descendants::become_subreaper();
            let end = await_end(child, &awaited);
            let left = descendants::sweep(descendants::SWEEP_LIMIT);
            // Nobody knows what these still do.
            std::process::exit(if left.is_empty() { code(end) } else { UNKNOWN })
        }
        Ok(ForkResult::Child) | Err(_) => {
            let _ = before.thread_set_mask();
        }
    }
}

/// The exit code for an end that leaves nothing behind.
fn code(end: Option<WaitStatus>) -> i32 {
    match end {
        Some(WaitStatus::Exited(_, 0)) => 0,
        Some(WaitStatus::Exited(..)) => NOTHING_LEFT,
        Some(WaitStatus::Signaled(_, signal, _)) => match signal as i32 {
            signal @ 1..=LAST_SIGNAL => NOTHING_LEFT + signal,
            _ => NOTHING_LEFT,
        },
        _ => UNKNOWN,
    }
}

/// How the manager has ended; `None`: the system does not say.
fn await_end(manager: Pid, awaited: &SigSet) -> Option<WaitStatus> {
    // For `ps`.
    let _ = prctl::set_name(c"rejoin-agent");
    loop {
        match awaited.wait() {
            Ok(Signal::SIGCHLD) => match waitpid(manager, Some(WaitPidFlag::WNOHANG)) {
                Ok(end @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..))) => return Some(end),
                Ok(_) => {}
                Err(_) => return None,
            },
            // The agent's terminal is gone, which is none of the manager's: a connection that
            // breaks ends nothing.
            Ok(Signal::SIGHUP) => {}
            // The manager ends the ranks first.
            Ok(other) => descendants::send(manager.as_raw().cast_unsigned(), other as i32),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_codes_of_supervisors_say_that_nothing_is_left() {
        let pid = Pid::from_raw(1);
        let killed = code(Some(WaitStatus::Signaled(pid, Signal::SIGKILL, false)));
        let how = reported_end(killed);
        assert_eq!(how.as_deref(), Some("it was killed by signal 9"));
        let failed = code(Some(WaitStatus::Exited(pid, 1)));
        assert_eq!(reported_end(failed).as_deref(), Some("it failed"));
        let well = code(Some(WaitStatus::Exited(pid, 0)));
        // Those of commands, of shells for signals, of ssh and docker.
        let others = (0..=128 + 64).filter(|code| *code != NOTHING_LEFT);
        for code in others.chain([well, UNKNOWN]) {
            assert_eq!(reported_end(code), None, "{code}");
        }
    }
}
