//! What the logs of this host's ranks held at the last look, with message logging. Central shows
//! that to those who look on, and must not be flooded: this host looks once a second, and says what
//! has changed.

use rejoin_channel_table::Rank;
use rejoin_logging::determinants::LogUsage;
use rejoin_managers_protocol::manager_messages::RankLogUse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Least time between two reports of this moment: many ranks may ask for a checkpoint together.
const PAUSE: Duration = Duration::from_millis(20);

/// What a log was like at a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    usage: LogUsage,
    determinants: u64,
    per_second: u64,
}

/// The last look at all logs.
#[derive(Default)]
pub(super) struct LogReports {
    /// `None`: there was none.
    at: Option<Instant>,
    last: BTreeMap<Rank, Look>,
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

    /// The logs of which there is something new. `clock`: by the clock of the ranks, in
    /// nanoseconds.
    pub(super) fn news(
        &mut self,
        logs: impl Iterator<Item = (Rank, LogUsage, u64)>,
        now: Instant,
        clock: u64,
    ) -> Vec<RankLogUse> {
        let elapsed = self.at.map_or(INTERVAL, |at| now - at).as_secs_f64();
        self.at = Some(now);
        let mut news = Vec::new();
        for (rank, usage, determinants) in logs {
            let last = self.last.get(&rank);
            let more = last.map_or(0, |last| determinants.saturating_sub(last.determinants));
            let look = Look {
                usage,
                determinants,
                per_second: (more as f64 / elapsed).round() as u64,
            };
            if self.last.insert(rank, look) != Some(look) {
                news.push(look.told(rank, clock));
            }
        }
        news
    }

    /// What all logs hold at this moment, between two looks; nothing shortly after the last answer.
    pub(super) fn at_once(
        &mut self,
        logs: impl Iterator<Item = (Rank, LogUsage, u64)>,
        now: Instant,
        clock: u64,
    ) -> Vec<RankLogUse> {
        if self.told_at.is_some_and(|at| now - at < PAUSE) {
            return Vec::new();
        }
        self.told_at = Some(now);
        let look = |(rank, usage, determinants)| {
            let last = self.last.get(&rank);
            let per_second = last.map_or(0, |last| last.per_second);
            let look = Look {
                usage,
                determinants,
                per_second,
            };
            look.told(rank, clock)
        };
        logs.map(look).collect()
    }
}

impl Look {
    /// The report of this look for central.
    fn told(&self, rank: Rank, clock: u64) -> RankLogUse {
        let usage = &self.usage;
        RankLogUse {
            rank,
            retained: usage.retained,
            most_retained: usage.most_retained,
            memory: usage.memory,
            file: usage.file,
            determinants: self.determinants,
            determinants_per_second: self.per_second,
            most_for: usage.most_for,
            lag: usage.waits_since.map(|since| clock.saturating_sub(since)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_looked_at_once_a_second_and_told_when_they_change() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let usage = LogUsage {
            retained: 50,
            most_retained: 70,
            memory: 4096,
            file: 512,
            waits_since: Some(300),
            most_for: Some((Rank(1), 40)),
        };
        let idle = (Rank(4), LogUsage::default(), 0);
        let mut reports = LogReports::default();
        assert!(reports.wait_limit(at(0)).is_zero());
        let first = reports.news([(Rank(3), usage, 100), idle].into_iter(), at(0), 1000);
        let of_three = RankLogUse {
            rank: Rank(3),
            retained: 50,
            most_retained: 70,
            memory: 4096,
            file: 512,
            determinants: 100,
            determinants_per_second: 0,
            most_for: Some((Rank(1), 40)),
            lag: Some(700),
        };
        assert_eq!((first.len(), first[0]), (2, of_three));
        assert_eq!(reports.wait_limit(at(600)), Duration::from_millis(400));
        assert!(reports.wait_limit(at(1000)).is_zero());
        let second = reports.news([(Rank(3), usage, 140), idle].into_iter(), at(2000), 1300);
        let faster = RankLogUse {
            determinants: 140,
            determinants_per_second: 20,
            lag: Some(1000),
            ..of_three
        };
        assert_eq!(second, [faster]);
        let third = reports.news([(Rank(3), usage, 140), idle].into_iter(), at(3000), 1400);
        assert_eq!(third[0].determinants_per_second, 0, "no more were recorded");
        let mut at_once = |millis| {
            let logs = [(Rank(3), usage, 150)].into_iter();
            reports.at_once(logs, at(millis), 1400)
        };
        assert_eq!(at_once(3100)[0].determinants, 150);
        assert!(at_once(3110).is_empty(), "too soon");
        assert_eq!(at_once(3120).len(), 1);
        let fourth = reports.news([(Rank(3), usage, 140), idle].into_iter(), at(4000), 1500);
        assert!(fourth.is_empty());
        reports.forget();
        let fifth = reports.news([(Rank(3), usage, 140), idle].into_iter(), at(5000), 1600);
        assert_eq!(fifth.len(), 2, "another central manager");
    }
}
