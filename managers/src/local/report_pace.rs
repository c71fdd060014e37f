//! How far the files of ranks are that move from here or to here. Central shows that to those who
//! look on, and must not be flooded: each rank is reported twice a second at most, and short moves
//! never.

use rejoin_channel_table::Rank;
use rejoin_managers_protocol::manager_messages::MoveBytes;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time between two reports.
const INTERVAL: Duration = Duration::from_millis(500);

/// What was reported last, and when the next reports are due.
#[derive(Default)]
pub(super) struct ReportPace {
    /// `None`: no rank is on its way.
    due: Option<Instant>,
    last: BTreeMap<Rank, MoveBytes>,
}

impl ReportPace {
    /// Time until the next reports are due.
    pub(super) fn wait_limit(&self, now: Instant) -> Option<Duration> {
        Some(self.due?.saturating_duration_since(now))
    }

    /// Ranks are on their way, or none is. Whether reports are due now.
    pub(super) fn are_due(&mut self, any: bool, now: Instant) -> bool {
        if !any {
            *self = ReportPace::default();
            return false;
        }
        let due = *self.due.get_or_insert(now + INTERVAL);
        if now < due {
            return false;
        }
        self.due = Some(now + INTERVAL);
        true
    }

    /// The reports that differ from the last ones.
    pub(super) fn news(&mut self, all: Vec<MoveBytes>) -> Vec<MoveBytes> {
        let is_new = |bytes: &MoveBytes| self.last.get(&bytes.rank) != Some(bytes);
        let news = all.iter().copied().filter(is_new).collect();
        self.last = all.into_iter().map(|bytes| (bytes.rank, bytes)).collect();
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::{Epoch, MoveNumber};

    #[test]
    fn reports_come_in_intervals_and_only_of_what_has_changed() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut reports = ReportPace::default();
        assert!(!reports.are_due(false, at(0)));
        assert_eq!(reports.wait_limit(at(0)), None);
        assert!(!reports.are_due(true, at(0)) && !reports.are_due(true, at(400)));
        assert_eq!(
            reports.wait_limit(at(400)),
            Some(Duration::from_millis(100))
        );
        assert!(reports.are_due(true, at(500)) && !reports.are_due(true, at(900)));
        let bytes = |rank, done| MoveBytes {
            rank: Rank(rank),
            number: MoveNumber::next(None, Epoch(7)),
            done,
            of: Some(9),
        };
        let both = vec![bytes(1, 2), bytes(2, 3)];
        assert_eq!(reports.news(both.clone()), both);
        assert_eq!(reports.news(vec![bytes(1, 2), bytes(2, 4)]), [bytes(2, 4)]);
        assert!(!reports.are_due(false, at(1000)));
        assert_eq!(reports.news(both.clone()), both);
    }
}
