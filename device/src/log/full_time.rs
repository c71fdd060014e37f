//! For how long a log has been full without a pause, as its rank has seen it.

use std::time::{Duration, Instant};

/// From one look to the next, so much counts at most: the rank may be suspended meanwhile, or
/// compute. One that waits for room looks more often.
const MOST_PER_LOOK: Duration = Duration::from_secs(2);

/// The time. A process that is restored begins anew.
#[derive(Debug, Default)]
pub(crate) struct FullTime {
    looked: Option<Instant>,
    lasted: Duration,
}

impl FullTime {
    /// The log is full now, or is not.
    pub(crate) fn look(&mut self, now: Instant, is_full: bool) {
        if !is_full {
            *self = FullTime::default();
            return;
        }
        if let Some(before) = self.looked.replace(now) {
            let passed = now.saturating_duration_since(before);
            self.lasted += passed.min(MOST_PER_LOOK);
        }
    }

    /// How long it has been full.
    pub(crate) fn lasted(&self) -> Duration {
        self.lasted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_in_which_the_rank_waits_for_room_counts() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut full = FullTime::default();
        for second in 10..13 {
            full.look(at(second), true);
        }
        assert_eq!(full.lasted(), Duration::from_secs(2));
        full.look(at(500), true);
        assert_eq!(full.lasted(), Duration::from_secs(4), "it was suspended");
        // The clock of another host.
        full.look(at(7), true);
        assert_eq!(full.lasted(), Duration::from_secs(4));
        full.look(at(8), true);
        assert_eq!(full.lasted(), Duration::from_secs(5));
        full.look(at(9), false);
        full.look(at(20), true);
        assert_eq!(full.lasted(), Duration::ZERO);
    }
}
