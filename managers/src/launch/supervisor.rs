//! The process between a launch agent and the local manager that it starts: it waits for the
//! manager's end and passes on how that was, as an exit code that the agent brings back.
//!
//! So mpirun hears from the host itself that its manager has ended. A connection that breaks does
//! not say that, and of a command that a signal ended ssh tells no more than of a network that is
//! gone.

use crate::host::descendants;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

/// Signals that are meant for the manager, and the one that tells of its end.
const AWAITED: [Signal; 4] = [
    Signal::SIGCHLD,
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
];

/// Returns in the manager, which is a child of this process; here, when that has ended, with its
/// exit code or 128 and its signal's number. A system that makes no process does without.
pub fn stand_by() {
    let awaited: SigSet = AWAITED.into_iter().collect();
    let Ok(before) = awaited.thread_swap_mask(SigmaskHow::SIG_BLOCK) else {
        return;
    };
    // Where it was ignored by who started us the manager's end would not be told.
    // SAFETY: the default action of a signal is no handler.
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
    // SAFETY: this process has one thread.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => std::process::exit(attend(child, &awaited)),
        Ok(ForkResult::Child) | Err(_) => {
            let _ = before.thread_set_mask();
        }
    }
}

fn attend(manager: Pid, awaited: &SigSet) -> i32 {
    // SAFETY: the name is a C string.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"rejoin-agent".as_ptr(), 0, 0, 0);
    }
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
            // It ends in order.
            Ok(other) => descendants::send(manager.as_raw().cast_unsigned(), other as i32),
            Err(_) => {}
        }
    }
}
