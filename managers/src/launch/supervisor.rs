//! The supervisor: the process between a launch agent and the local manager that it starts. It
//! waits for the manager's end and reports it as an exit code, which the agent returns.
//!
//! So mpirun learns from the host itself that its manager has ended. A broken connection does not
//! prove that. When a signal ends a command, ssh reports the same as for a lost network.
//!
//! What a manager leaves behind comes to this process, which kills it before it reports the end. So
//! ranks may continue on another host at once.

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

/// Returns only in the manager, which is a child of this process. This process exits when the
/// manager has ended, with its exit code or 128 plus its signal's number. If the system makes no
/// process, there is no supervisor.
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
            let code = await_end(child, &awaited);
            let left = descendants::sweep(descendants::SWEEP_LIMIT);
            // Nobody knows what these still do.
            std::process::exit(if left.is_empty() { code } else { UNKNOWN })
        }
        Ok(ForkResult::Child) | Err(_) => {
            let _ = before.thread_set_mask();
        }
    }
}

fn await_end(manager: Pid, awaited: &SigSet) -> i32 {
    // For `ps`.
    let _ = prctl::set_name(c"rejoin-agent");
    loop {
        match awaited.wait() {
            Ok(Signal::SIGCHLD) => match waitpid(manager, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(_, code)) => return code,
                Ok(WaitStatus::Signaled(_, signal, _)) => return 128 + signal as i32,
                Ok(_) => {}
                Err(_) => return 1,
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
