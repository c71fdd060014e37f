//! The supervisor: the process between a launch agent and the local manager that it starts. It
//! waits for the manager's end and reports it as an exit code, which the agent returns.
//!
//! So mpirun learns from the host itself that its manager has ended. A broken connection does not
//! prove that. When a signal ends a command, ssh reports the same as for a lost network.
//!
//! What a manager leaves behind comes to this process, which kills it first. Its exit code then
//! says that nothing is left, so ranks may continue on another host at once. Shells, ssh and other
//! agents do not use these codes for their own troubles.
//!
//! It also suspends the ranks when the lease of the host has run out, since the manager may be
//! stopped or get no processor then. The manager sends it the deadlines
//! ([`fence_link`]).

use super::fence_link::{self, LeaseMessage, LeaseReceiver, LeaseSender};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::{Context, Result};
use rejoin_managers_host::host_clocks;
use rejoin_managers_host::signal_reader::Signals;
use rejoin_managers_host::suspension::Suspension;
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::lease::Fence;
use rejoin_managers_protocol::manager_messages::Time;
use std::time::Duration;

/// Signals for the manager.
const AWAITED: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// While ranks are suspended, others may continue some of them, for so long.
const AGAIN: Duration = Duration::from_millis(20);

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

/// Returns only in the manager, which is a child of this process, with its link to this one. This
/// process exits when the manager has ended: with 0 if that ended well, else with a code for
/// [`reported_end`], or with 255 if something may be left.
///
/// # Errors
/// The system makes no process: there is no supervisor, and so nothing may run here.
pub fn supervise() -> Result<LeaseSender> {
    let (link, supervisor) = fence_link::pair()?;
    let awaited: SigSet = AWAITED.into_iter().chain([Signal::SIGCHLD]).collect();
    let before = awaited.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let before = before.context("block signals")?;
    // If the parent process ignores the signal, the manager's end would not be reported.
    // SAFETY: the default action of a signal is no handler.
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
    // SAFETY: this process has one thread.
    match unsafe { fork() }.context("make the supervisor")? {
        ForkResult::Parent { child } => {
            drop(link);
            descendants::become_subreaper();
            let made = Supervisor::new(child, supervisor);
            let end = made.and_then(|mut supervisor| supervisor.await_end());
            let left = descendants::sweep(descendants::SWEEP_LIMIT);
            // Nobody knows what these still do.
            let end = end.ok().filter(|_| left.is_empty());
            std::process::exit(code(end))
        }
        ForkResult::Child => {
            let _ = before.thread_set_mask();
            Ok(link)
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

/// Has this process act at once also where processor or memory are short, as far as the system
/// permits that. It hardly ever does anything.
fn stay_ready() {
    // SAFETY: system calls with plain numbers; locked pages change no contents.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, -20);
        libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT);
    }
}

/// The state of a supervisor.
struct Supervisor {
    manager: Pid,
    link: LeaseReceiver,
    /// The manager has closed its end: it is about to end.
    is_closed: bool,
    reactor: Reactor,
    signals: Signals,
    fence: Fence,
    /// Rings when the fence or another pass is due.
    timer: TimerFd,
    ranks: Suspension,
}

impl Supervisor {
    fn new(manager: Pid, link: LeaseReceiver) -> Result<Supervisor> {
        // For `ps`.
        let _ = prctl::set_name(c"rejoin-agent");
        stay_ready();
        let reactor = Reactor::new()?;
        let signals = Signals::new(&AWAITED)?;
        // As the clock of leases, it counts while the machine sleeps.
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags).context("make a timer")?;
        // All are looked at after each event.
        let token = Token::single(0);
        reactor.add(&signals, token, Interest::READ)?;
        reactor.add(&link, token, Interest::READ)?;
        reactor.add(&timer, token, Interest::READ)?;
        Ok(Supervisor {
            manager,
            link,
            is_closed: false,
            reactor,
            signals,
            fence: Fence::default(),
            timer,
            ranks: Suspension::below(manager.as_raw().cast_unsigned()),
        })
    }

    /// Enforces the lease until the manager has ended. Returns how it has.
    fn await_end(&mut self) -> Result<WaitStatus> {
        let mut events = Vec::new();
        loop {
            self.reactor.wait(None, &mut events)?;
            self.enforce_lease()?;
            while let Some(signal) = self.signals.take() {
                match signal {
                    libc::SIGCHLD => {
                        let ended = waitpid(self.manager, Some(WaitPidFlag::WNOHANG));
                        let ended = ended.context("ask how the manager has ended")?;
                        if let WaitStatus::Exited(..) | WaitStatus::Signaled(..) = ended {
                            return Ok(ended);
                        }
                    }
                    // The agent's terminal is gone, which is none of the manager's: a connection
                    // that breaks ends nothing.
                    libc::SIGHUP => {}
                    // The manager ends the ranks first.
                    other => descendants::send(self.manager.as_raw().cast_unsigned(), other),
                }
            }
        }
    }

    fn enforce_lease(&mut self) -> Result<()> {
        // The manager relies on this order: what it has sent before the deadline counts.
        let now = host_clocks::now();
        while !self.is_closed {
            match self.link.next() {
                Ok(Some(message)) => self.lease_changes(&message),
                Ok(None) => break,
                Err(_) => {
                    self.is_closed = true;
                    self.reactor.remove(&self.link);
                }
            }
        }
        self.fence.due(now);
        if self.fence.is_suspended() {
            self.ranks.suspend();
        }
        self.set_timer()
    }

    fn lease_changes(&mut self, message: &LeaseMessage) {
        match message.until {
            None => {
                self.fence.ended();
                self.ranks.suspend();
            }
            Some(until) => {
                if self.fence.extended(host_clocks::now(), until) {
                    self.ranks.resume(&message.except);
                }
            }
        }
        self.link.answer(message);
    }

    fn set_timer(&mut self) -> Result<()> {
        let again = || Time(host_clocks::now().0 + AGAIN.as_nanos() as u64);
        let suspended = self.fence.is_suspended().then(again);
        let set = match self.fence.deadline().or(suspended) {
            // Zero would stop it.
            Some(Time(at)) => self.timer.set(
                Expiration::OneShot(TimeSpec::from_duration(Duration::from_nanos(at.max(1)))),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            ),
            None => self.timer.unset(),
        };
        set.context("set a timer")
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
