//! How often a job loses ranks, and the interval between checkpoints that follows from it.

use crate::manager_messages::Time;

/// Milliseconds without a failure that are assumed before the job began. So a single early failure
/// does not count as a high rate.
const HEAD_START: u64 = 120_000;

/// Failures that a job has masked, and since when they are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct FailureRate {
    began: Option<Time>,
    seen: u64,
}

impl FailureRate {
    /// The job's processes were first started at this time.
    pub fn begin(&mut self, at: Time) {
        self.began = Some(at);
    }

    /// So many failures were masked in all.
    pub fn set_seen(&mut self, seen: u64) {
        self.seen = seen;
    }

    /// Mean milliseconds between failures; `None`: there was none.
    fn mean(&self, now: Time) -> Option<u64> {
        let nanos = now.0.saturating_sub(self.began?.0);
        (nanos / 1_000_000 + HEAD_START).checked_div(self.seen)
    }

    /// The interval in milliseconds at which checkpoints of this cost (in microseconds) and the
    /// work that is repeated after failures take the least time together: the square root of twice
    /// the cost times the mean time between failures (J. W. Young, "A first order approximation to
    /// the optimum checkpoint interval", Communications of the ACM 17(9), 1974). `None`: no failure
    /// was seen.
    pub fn best_interval(&self, now: Time, cost: u64) -> Option<u64> {
        let mean = self.mean(now)?.saturating_mul(1000);
        Some(cost.saturating_mul(2).saturating_mul(mean).isqrt() / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_interval_grows_with_cost_and_shrinks_with_failures() {
        let mut rate = FailureRate::default();
        let at = |seconds: u64| Time(0).plus_millis(1000 * seconds);
        assert_eq!(rate.best_interval(at(60), 1000), None);
        rate.begin(at(10));
        assert_eq!(rate.best_interval(at(60), 1000), None, "no failure");
        rate.set_seen(1);
        // Half a second, and 1800 s between failures.
        assert_eq!(rate.best_interval(at(10 + 1680), 500_000), Some(42_426));
        rate.set_seen(9);
        assert_eq!(rate.best_interval(at(10 + 1680), 500_000), Some(14_142));
        assert_eq!(rate.best_interval(at(10 + 1680), 0), Some(0));
        // A failure in the first second is no rate of one in a second.
        rate.set_seen(1);
        assert_eq!(rate.best_interval(at(11), 500_000), Some(11_000));
        assert!(rate.best_interval(Time(u64::MAX), u64::MAX).is_some());
    }
}
