//! Whether a manager on this host still answers. A frozen one does not end, so nothing else shows
//! that.
//!
//! A manager that uses the processor is not frozen. Linux may keep it in one system call for many
//! seconds: the call that reaps a child waits for the entries of that child below `/proc` while
//! others read there, and runs meanwhile, although it is shown as asleep. Such a manager gets more
//! time.

use rejoin_managers_host::descendants;
use std::time::{Duration, Instant};

/// A manager that has sent nothing for so long is asked for an answer.
const EVERY: Duration = Duration::from_secs(1);

/// How long it has for the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it has if it uses the processor or is about to. With two jobs on two processors such a
/// call took up to 58 s.
const RUNNING: Duration = Duration::from_secs(180);

/// A manager is idle if it was not seen to use the processor, or to be about to, for so long.
const IDLE: Duration = Duration::from_secs(2);

/// The reaction to a manager's silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duty {
    Nothing,
    /// Ask it for an answer.
    Ask,
    /// The manager has not answered for so many seconds: end it.
    End(u64),
}

/// What a process of this host does.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Activity {
    /// The process is shown as running, or as waiting for a processor.
    runs: bool,
    /// Processor time of the process so far, in ticks of the system.
    used: u64,
}

impl Activity {
    /// Of a process; one that is gone does nothing.
    pub fn of(pid: u32) -> Activity {
        let (state, used) = descendants::state_and_time(pid).unwrap_or_default();
        Activity {
            runs: state == 'R',
            used,
        }
    }
}

/// When it sent a message last, and when it was asked.
#[derive(Debug)]
pub(super) struct Watchdog {
    heard: Instant,
    asked: Option<Instant>,
    /// When this was last checked: a process that was stopped itself must not count others as
    /// silent.
    checked: Instant,
    /// Processor time of the manager at that check, if it had been asked.
    used: u64,
    /// When that had grown, or it ran.
    active: Instant,
}

impl Watchdog {
    /// Of a manager that has just begun.
    pub fn new(now: Instant) -> Watchdog {
        Watchdog {
            heard: now,
            asked: None,
            checked: now,
            used: 0,
            active: now,
        }
    }

    /// The manager has said something.
    pub fn answered(&mut self, now: Instant) {
        self.heard = now;
        self.asked = None;
    }

    /// Checks the clock. `activity` is that of the manager, if it matters.
    pub fn check(&mut self, now: Instant, activity: impl FnOnce() -> Activity) -> Duty {
        let was_suspended = now.duration_since(self.checked) > 3 * EVERY;
        self.checked = now;
        match &mut self.asked {
            Some(asked) if was_suspended => *asked = now,
            Some(asked) => {
                let silent = now.duration_since(*asked);
                let Activity { runs, used } = activity();
                if runs || used > self.used {
                    (self.active, self.used) = (now, used);
                }
                let is_idle = now.duration_since(self.active) >= IDLE;
                if silent >= RUNNING || (silent >= PATIENCE && is_idle) {
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

    const SLEEPS: Activity = Activity {
        runs: false,
        used: 5,
    };
    const RUNS: Activity = Activity {
        runs: true,
        ..SLEEPS
    };

    #[test]
    fn a_manager_that_does_not_answer_is_ended() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut watchdog = Watchdog::new(begun);
        assert_eq!(watchdog.check(begun, || SLEEPS), Duty::Nothing);
        assert_eq!(watchdog.wait_limit(begun), EVERY);
        assert_eq!(watchdog.check(at(1), || SLEEPS), Duty::Ask);
        for second in 2..=10 {
            assert_eq!(watchdog.check(at(second), || SLEEPS), Duty::Nothing);
            assert_eq!(watchdog.wait_limit(at(second)), EVERY);
        }
        watchdog.answered(at(10));
        assert_eq!(watchdog.check(at(11), || SLEEPS), Duty::Ask);
        for second in 12..=20 {
            assert_eq!(watchdog.check(at(second), || SLEEPS), Duty::Nothing);
        }
        assert_eq!(watchdog.check(at(21), || SLEEPS), Duty::End(10));
    }

    #[test]
    fn a_manager_that_runs_gets_more_time() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut watchdog = Watchdog::new(begun);
        assert_eq!(watchdog.check(at(1), || RUNS), Duty::Ask);
        for second in 2..=178 {
            assert_eq!(watchdog.check(at(second), || RUNS), Duty::Nothing);
        }
        let mut stops = Watchdog { ..watchdog };
        assert_eq!(stops.check(at(180), || SLEEPS), Duty::End(179));
        for second in 179..=180 {
            assert_eq!(watchdog.check(at(second), || RUNS), Duty::Nothing);
        }
        assert_eq!(watchdog.check(at(181), || RUNS), Duty::End(180));
    }

    #[test]
    fn a_manager_that_uses_the_processor_gets_more_time_though_it_is_shown_as_asleep() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let asleep = |used| move || Activity { runs: false, used };
        let mut watchdog = Watchdog::new(begun);
        assert_eq!(watchdog.check(at(1), asleep(7)), Duty::Ask);
        for second in 2..=30 {
            // The next check may follow at once.
            for _ in 0..2 {
                let duty = watchdog.check(at(second), asleep(7 + second));
                assert_eq!(duty, Duty::Nothing, "{second}");
            }
        }
        assert_eq!(watchdog.check(at(31), asleep(37)), Duty::Nothing);
        assert_eq!(watchdog.check(at(32), asleep(37)), Duty::End(31));
    }

    #[test]
    fn the_processor_time_of_a_process_grows_while_it_computes() {
        let before = Activity::of(std::process::id());
        let begun = Instant::now();
        while Activity::of(std::process::id()).used <= before.used {
            assert!(begun.elapsed() < Duration::from_secs(10));
        }
        assert!(!Activity::of(u32::MAX).runs);
    }

    #[test]
    fn a_suspended_process_asks_again() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut watchdog = Watchdog::new(begun);
        assert_eq!(watchdog.check(at(1), || SLEEPS), Duty::Ask);
        assert_eq!(watchdog.check(at(100), || SLEEPS), Duty::Nothing);
        for second in 101..110 {
            assert_eq!(watchdog.check(at(second), || SLEEPS), Duty::Nothing);
        }
        assert_eq!(watchdog.check(at(110), || SLEEPS), Duty::End(10));
    }
}
