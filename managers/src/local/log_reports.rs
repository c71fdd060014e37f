//! What the logs of this host's ranks held at the last look, with message logging. Central shows
//! that to those who look on, and must not be flooded: this host looks once a second, and says what
//! has changed.

use rejoin_channel_table::Rank;
use rejoin_logging::determinants::LogUsage;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Least time between two reports of this moment: many ranks may ask for a checkpoint together.
const PAUSE: Duration = Duration::from_millis(20);

/// The last look at all logs.
#[derive(Default)]
pub(super) struct LogReports {
    /// `None`: there was none.
    at: Option<Instant>,
    /// What each log was like, and when, by the clock of the ranks.
    last: BTreeMap<Rank, (u64, LogUsage)>,
    /// The last report of its moment.
    told_at: Option<Instant>,
}

impl LogReports {
    /// Time until the next look is due.
    pub(super) fn wait_limit(&self, now: Instant) -> Duration {
        self.at.map_or(Duration::ZERO, |at| {
            (at + INTERVAL).saturating_duration_since(now)
        })
    }

    /// Another central manager has heard nothing of the logs.
    pub(super) fn forget(&mut self) {
        self.last.clear();
    }

    /// The logs of which there is something new. `clock`: when they were read, by the clock of the
    /// ranks in nanoseconds.
    pub(super) fn news(
        &mut self,
        logs: impl Iterator<Item = (Rank, LogUsage)>,
        now: Instant,
        clock: u64,
    ) -> Vec<(Rank, LogUsage)> {
        let elapsed = self.at.map_or(INTERVAL, |at| now - at).as_secs_f64();
        self.at = Some(now);
        let mut news = Vec::new();
        for (rank, mut usage) in logs {
            let figures = &mut usage.figures;
            // That a log waits longer is not new.
            let expected = self.last.get(&rank).map(|(at, last)| {
                let more = figures
                    .determinants
                    .saturating_sub(last.figures.determinants);
                figures.determinants_per_second = (more as f64 / elapsed).round() as u64;
                let figures = last.figures.later(clock.saturating_sub(*at));
                LogUsage { figures, ..*last }
            });
            if expected != Some(usage) {
                news.push((rank, usage));
            }
            self.last.insert(rank, (clock, usage));
        }
        news
    }

    /// What all logs hold at this moment, between two looks; nothing shortly after the last answer.
    pub(super) fn at_once(
        &mut self,
        logs: impl Iterator<Item = (Rank, LogUsage)>,
        now: Instant,
    ) -> Vec<(Rank, LogUsage)> {
        if self.told_at.is_some_and(|at| now - at < PAUSE) {
            return Vec::new();
        }
        self.told_at = Some(now);
        let with_rate = |(rank, mut usage): (Rank, LogUsage)| {
            let last = self.last.get(&rank);
            usage.figures.determinants_per_second =
                last.map_or(0, |(_, last)| last.figures.determinants_per_second);
            (rank, usage)
        };
        logs.map(with_rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_logging::determinants::LogFigures;

    #[test]
    fn logs_are_looked_at_once_a_second_and_told_when_they_change() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let log = |determinants, lag_ns| {
            let figures = LogFigures {
                retained_bytes: 50,
                determinants,
                lag_ns,
                ..LogFigures::default()
            };
            let most_for = Some((Rank(1), 40));
            let idle = (Rank(4), LogUsage::default());
            [(Rank(3), LogUsage { figures, most_for }), idle].into_iter()
        };
        let mut reports = LogReports::default();
        assert!(reports.wait_limit(at(0)).is_zero());
        let first = reports.news(log(100, 700), at(0), 1000);
        assert_eq!(first, log(100, 700).collect::<Vec<_>>());
        assert_eq!(reports.wait_limit(at(600)), Duration::from_millis(400));
        assert!(reports.wait_limit(at(1000)).is_zero());
        let second = reports.news(log(140, 1000), at(2000), 1300);
        let mut faster = log(140, 1000).next().expect("a log");
        faster.1.figures.determinants_per_second = 20;
        assert_eq!(second, [faster]);
        let third = reports.news(log(140, 1100), at(3000), 1400);
        assert_eq!(third, [log(140, 1100).next().expect("a log")], "no more");
        let mut at_once = |millis| reports.at_once(log(150, 1100), at(millis));
        assert_eq!(at_once(3100)[0].1.figures.determinants, 150);
        assert!(at_once(3110).is_empty(), "too soon");
        assert_eq!(at_once(3120).len(), 2);
        let fourth = reports.news(log(140, 1200), at(4000), 1500);
        assert_eq!(fourth, [], "it only waits longer");
        let released = reports.news(log(140, 1250), at(5000), 1600);
        assert_eq!(released.len(), 1);
        reports.forget();
        let sixth = reports.news(log(140, 1350), at(6000), 1700);
        assert_eq!(sixth.len(), 2, "another central manager");
    }
}
