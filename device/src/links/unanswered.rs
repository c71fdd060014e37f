//! A link whose other end does not answer.

use std::time::{Duration, Instant};

use crate::transport::PathState;

/// Possible difference between the kernel's clock and this one.
const GRAIN: Duration = Duration::from_millis(100);

/// Since when the other end of a link is known not to answer, if it does not.
#[derive(Debug, Default)]
pub(crate) struct Unanswered(Option<Instant>);

impl Unanswered {
    /// Takes the system's present state of the path. True when the other end has not answered for
    /// `limit`.
    pub(crate) fn lasts(&mut self, path: &PathState, now: Instant, limit: Duration) -> bool {
        if !path.waits {
            self.0 = None;
            return false;
        }
        let since = self.0.get_or_insert(now);
        let lasted = now - *since;
        if path.since_ack + GRAIN < lasted {
            // An ack has come since: it is another wait.
            *since = now;
            return false;
        }
        lasted >= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_begins_another_wait() {
        let limit = Duration::from_secs(20);
        let path = |waits, since_ack| PathState {
            waits,
            since_ack: Duration::from_secs(since_ack),
            moved: 0,
        };
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut unanswered = Unanswered::default();
        assert!(!unanswered.lasts(&path(true, 5), at(0), limit));
        assert!(!unanswered.lasts(&path(true, 24), at(19), limit));
        // The last ack is 1 s old.
        assert!(!unanswered.lasts(&path(true, 1), at(20), limit));
        assert!(!unanswered.lasts(&path(true, 20), at(39), limit));
        assert!(unanswered.lasts(&path(true, 21), at(40), limit));
        // Nothing is under way.
        assert!(!unanswered.lasts(&path(false, 30), at(50), limit));
        assert!(!unanswered.lasts(&path(true, 40), at(60), limit));
    }
}
