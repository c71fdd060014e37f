//! How fast a host copies the images of another one, so that ranks keep their share of the network.

use std::time::{Duration, Instant};

/// A limit of bytes a second.
#[derive(Debug)]
pub(super) struct CopyRate {
    /// `None`: no limit.
    limit: Option<u64>,
    /// The bytes so far were within the limit at this time.
    even: Instant,
}

impl CopyRate {
    /// With this limit in bytes a second.
    pub fn new(limit: Option<u64>, now: Instant) -> CopyRate {
        CopyRate { limit, even: now }
    }

    /// So many bytes have come. Returns how long to wait before the next ones are read.
    pub fn pause_after(&mut self, bytes: usize, now: Instant) -> Duration {
        let Some(limit) = self.limit else {
            return Duration::ZERO;
        };
        // Time that passed without a copy gives no credit.
        let takes = Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64);
        self.even = self.even.max(now) + takes;
        self.even.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_no_faster_than_the_limit_and_idle_time_gives_no_credit() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut rate = CopyRate::new(Some(1 << 20), start);
        assert_eq!(rate.pause_after(1 << 19, at(0)), Duration::from_millis(500));
        // Half of it was waited for.
        assert_eq!(
            rate.pause_after(1 << 19, at(250)),
            Duration::from_millis(750)
        );
        assert_eq!(
            rate.pause_after(1 << 19, at(5000)),
            Duration::from_millis(500)
        );
        let mut free = CopyRate::new(None, start);
        assert_eq!(free.pause_after(1 << 30, at(0)), Duration::ZERO);
    }
}
