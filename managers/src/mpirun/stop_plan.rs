//! When a job is to stop with a last checkpoint: at a time, and after which signals.

use rejoin_managers_protocol::central::StopSignal;
use std::time::{Duration, Instant, SystemTime};

/// The time of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopTime {
    /// By the clock of the host of mpirun, however it is set meanwhile.
    Clock(SystemTime),
    /// So long after mpirun began.
    After(Duration),
}

/// The plan of the user for a stop, and how far it has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopPlan {
    /// When the job is to stop.
    pub at: Option<StopTime>,
    /// Milliseconds that a signal leaves for the last checkpoint; `None`: signals are passed on.
    pub grace: Option<u64>,
    /// After which signals the job is to stop.
    pub signals: Vec<i32>,
    /// The time has come, and central was told.
    timed: bool,
    /// The signal that has come, and when its grace time is over.
    signalled: Option<(i32, Instant)>,
}

/// The clock of the host may be set, so that a time comes sooner.
const CLOCK_CHECK: Duration = Duration::from_secs(1);

impl StopPlan {
    /// A plan in which nothing has happened.
    #[must_use]
    pub fn new(at: Option<StopTime>, grace: Option<u64>, signals: Vec<i32>) -> StopPlan {
        StopPlan {
            at,
            grace,
            signals,
            ..StopPlan::default()
        }
    }

    /// How long until the job is to stop, in a job that began then. `None`: no time is set, or it
    /// has come before.
    fn time_left(&self, begun: Instant) -> Option<Duration> {
        let at = self.at.filter(|_| !self.timed)?;
        Some(match at {
            StopTime::After(time) => time.saturating_sub(begun.elapsed()),
            StopTime::Clock(at) => at.duration_since(SystemTime::now()).unwrap_or_default(),
        })
    }

    /// Whether the job, which began then, is to stop now. It says so once.
    pub(super) fn is_time(&mut self, begun: Instant) -> bool {
        let is_time = self.time_left(begun).is_some_and(|left| left.is_zero());
        self.timed |= is_time;
        is_time
    }

    /// How long until [`StopPlan::is_time`] is to be asked.
    pub(super) fn wait_limit(&self, begun: Instant) -> Option<Duration> {
        let left = self.time_left(begun)?;
        match self.at {
            Some(StopTime::Clock(_)) => Some(left.min(CLOCK_CHECK)),
            _ => Some(left),
        }
    }

    /// The request of a signal, if the job is to stop after it.
    pub(super) fn by_signal(&mut self, number: i32) -> Option<StopSignal> {
        let grace = self.grace.filter(|_| self.signals.contains(&number))?;
        let until = Instant::now() + Duration::from_millis(grace);
        self.signalled.get_or_insert((number, until));
        Some(StopSignal { number, grace })
    }

    /// The plan of the next launch, which does not know what has happened.
    pub(super) fn of_next_launch(&self) -> StopPlan {
        StopPlan {
            timed: false,
            ..self.clone()
        }
    }

    /// The request of a signal to an earlier launch, with the rest of its grace time.
    pub(super) fn pending_signal(&self) -> Option<StopSignal> {
        let (number, until) = self.signalled?;
        let left = until.saturating_duration_since(Instant::now());
        let grace = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        Some(StopSignal { number, grace })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_comes_once_in_a_launch() {
        let begun = Instant::now();
        let mut plan = StopPlan::new(Some(StopTime::After(Duration::ZERO)), None, Vec::new());
        assert_eq!(plan.wait_limit(begun), Some(Duration::ZERO));
        assert!(plan.is_time(begun));
        assert!(!plan.is_time(begun));
        assert_eq!(plan.wait_limit(begun), None);
        assert!(plan.of_next_launch().is_time(begun));
    }

    #[test]
    fn a_time_by_the_clock_is_looked_at_again() {
        let begun = Instant::now();
        let later = SystemTime::now() + Duration::from_secs(3600);
        let mut plan = StopPlan::new(Some(StopTime::Clock(later)), None, Vec::new());
        assert_eq!(plan.wait_limit(begun), Some(CLOCK_CHECK));
        assert!(!plan.is_time(begun));
        plan.at = Some(StopTime::Clock(SystemTime::UNIX_EPOCH));
        assert!(plan.is_time(begun));
    }

    #[test]
    fn a_signal_counts_with_a_grace_time_only() {
        let mut plan = StopPlan::new(None, None, vec![15]);
        assert_eq!(plan.by_signal(15), None);
        let mut plan = StopPlan::new(None, Some(60_000), vec![15]);
        assert_eq!(plan.by_signal(2), None);
        assert_eq!(plan.pending_signal(), None);
        let signal = plan.by_signal(15);
        assert_eq!(signal.map(|s| (s.number, s.grace)), Some((15, 60_000)));
        let pending = plan.of_next_launch().pending_signal();
        assert!(pending.is_some_and(|s| s.number == 15 && s.grace <= 60_000));
    }
}
