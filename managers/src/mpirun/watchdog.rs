//! Whether a manager on this host still answers. A frozen one does not end, so nothing else shows
//! that.
//!
//! A manager that runs is not frozen. Linux may keep it in one system call for many seconds: while
//! memory is reclaimed, the call that reaps a child waits for the entries of that child below
//! `/proc`, and runs meanwhile. Such a manager gets more time.

use crate::host::descendants;
use std::time::{Duration, Instant};

/// A manager that has sent nothing for so long is asked for an answer.
const EVERY: Duration = Duration::from_secs(1);

/// How long it has for the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it has if it runs or is about to.
const RUNNING: Duration = Duration::from_secs(60);

/// The reaction to a manager's silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duty {
    Nothing,
    /// Ask it for an answer.
    Ask,
    /// It has not answered for so many seconds: end it.
    End(u64),
}

/// Whether a process of this host runs, or only waits for a processor.
pub(super) fn is_running(pid: u32) -> bool {
    descendants::state_of(pid) == Some('R')
}

/// When it sent a message last, and when it was asked.
#[derive(Debug)]
pub(super) struct Watchdog {
    heard: Instant,
    asked: Option<Instant>,
    /// When this was last checked: a process that was stopped itself must not count others as
    /// silent.
    checked: Instant,
}

impl Watchdog {
    /// Of a manager that has just begun.
    pub fn new(now: Instant) -> Watchdog {
        Watchdog {
            heard: now,
            asked: None,
            checked: now,
        }
    }

    /// It has said something.
    pub fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.asked = None;
    }

    /// Checks the clock. `runs`: whether the manager runs now, if that matters.
    pub fn check(&mut self, now: Instant, runs: impl FnOnce() -> bool) -> Duty {
        let was_suspended = now.duration_since(self.checked) > 3 * EVERY;
        self.checked = now;
        match &mut self.asked {
            Some(asked) if was_suspended => *asked = now,
            Some(asked) => {
                let silent = now.duration_since(*asked);
                if silent >= RUNNING || (silent >= PATIENCE && !runs()) {
                    return Duty::End(silent.as_secs());
                }
            }
            None if now.duration_since(self.heard) >= EVERY => {
                self.asked = Some(now);
                return Duty::Ask;
            }
            None => {}
        }
        Duty::Nothing
    }

    /// How long until [`Watchdog::check`] is due.
    pub fn wait_limit(&self, now: Instant) -> Duration {
        let next = self.asked.map_or(self.heard, |_| self.checked) + EVERY;
        next.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_that_does_not_answer_is_ended() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut watchdog = Watchdog::new(begun);
        assert_eq!(watchdog.check(begun, || false), Duty::Nothing);
        assert_eq!(watchdog.wait_limit(begun), EVERY);
        assert_eq!(watchdog.check(at(1), || false), Duty::Ask);
        for second in 2..=10 {
            assert_eq!(watchdog.check(at(second), || false), Duty::Nothing);
            assert_eq!(watchdog.wait_limit(at(second)), EVERY);
        }
        watchdog.heard(at(10));
        assert_eq!(watchdog.check(at(11), || false), Duty::Ask);
        for second in 12..=20 {
            assert_eq!(watchdog.check(at(second), || false), Duty::Nothing);
        }
        assert_eq!(watchdog.check(at(21), || false), Duty::End(10));
    }

    #[test]
    fn a_manager_that_runs_gets_more_time() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut watchdog = Watchdog::new(begun);
        assert_eq!(watchdog.check(at(1), || true), Duty::Ask);
        for second in 2..=60 {
            assert_eq!(watchdog.check(at(second), || true), Duty::Nothing);
        }
        let mut stops = Watchdog { ..watchdog };
        assert_eq!(stops.check(at(60), || false), Duty::End(59));
        assert_eq!(watchdog.check(at(61), || true), Duty::End(60));
    }

    #[test]
    fn a_suspended_process_asks_again() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut watchdog = Watchdog::new(begun);
        assert_eq!(watchdog.check(at(1), || false), Duty::Ask);
        assert_eq!(watchdog.check(at(100), || false), Duty::Nothing);
        for second in 101..110 {
            assert_eq!(watchdog.check(at(second), || false), Duty::Nothing);
        }
        assert_eq!(watchdog.check(at(110), || false), Duty::End(10));
    }
}
