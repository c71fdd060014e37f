//! What the logs of the ranks hold, with message logging, for those who look on. Nothing is decided
//! by it, and no record keeps it: hosts tell it again to the next central manager.

use crate::manager_messages::Time;
use rejoin_channel_table::Rank;
use rejoin_logging::determinants::{LogFigures, LogUsage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the log of a rank, or those of all ranks, held when that was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogView {
    /// When that was.
    pub told_at: Time,
    /// The figures of that time.
    pub told: LogFigures,
}

impl LogView {
    /// The figures at this time, as far as they are known.
    #[must_use]
    pub fn at(&self, now: Time) -> LogFigures {
        self.told.later(now.0.saturating_sub(self.told_at.0))
    }
}

/// Nanoseconds between two sums: each is a message to mpirun.
const INTERVAL: u64 = 1_000_000_000;

/// The logs of all ranks, and their sums.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct LogTable {
    of_rank: BTreeMap<Rank, LogView>,
    /// For which receiver each rank retains most bytes, and how many.
    most_for: BTreeMap<Rank, (Rank, u64)>,
    sums: Option<LogView>,
    /// When the next sums may be made.
    next: Time,
    /// Something was told since the last ones.
    is_new: bool,
}

impl LogTable {
    /// A host says this of the log of one of its ranks.
    pub fn note(&mut self, now: Time, rank: Rank, log: &LogUsage) {
        let view = LogView {
            told_at: now,
            told: log.figures,
        };
        self.of_rank.insert(rank, view);
        match log.most_for {
            Some(most) => self.most_for.insert(rank, most),
            None => self.most_for.remove(&rank),
        };
        self.is_new = true;
    }

    /// Adds everything up, if there is anything new and that is due.
    pub fn sum_up(&mut self, now: Time) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        let mut sums = LogFigures::default();
        for one in self.of_rank.values() {
            sums.add(&one.at(now));
        }
        self.sums = Some(LogView {
            told_at: now,
            told: sums,
        });
        self.next = Time(now.0.saturating_add(INTERVAL));
        self.is_new = false;
    }

    /// Bytes that are retained for a rank, as far as it is the one for which a sender retains most.
    pub fn retained_for(&self) -> BTreeMap<Rank, u64> {
        let mut all = BTreeMap::new();
        for (receiver, bytes) in self.most_for.values() {
            let sum: &mut u64 = all.entry(*receiver).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        all
    }

    /// When [`LogTable::sum_up`] has something to do.
    pub fn due(&self) -> Option<Time> {
        self.is_new.then_some(self.next)
    }

    /// The log of a rank, if its host has told of it.
    pub fn of(&self, rank: Rank) -> Option<LogView> {
        self.of_rank.get(&rank).copied()
    }

    /// The logs of all ranks together, if any host has told of them.
    pub fn sums(&self) -> Option<LogView> {
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_added_up_once_a_second_at_most() {
        let at = |millis: u64| Time(millis * 1_000_000);
        let log = |retained, lag: Option<u64>| LogUsage {
            figures: LogFigures {
                retained_bytes: retained,
                most_retained_bytes: 2 * retained,
                memory_bytes: 4096,
                file_bytes: 512,
                determinants: 10,
                determinants_per_second: 3,
                lag_ns: lag.unwrap_or(0) * 1_000_000,
            },
            most_for: lag.map(|_| (Rank(2), retained)),
        };
        let mut table = LogTable::default();
        table.sum_up(at(9000));
        assert_eq!((table.sums(), table.due()), (None, None));
        table.note(at(9000), Rank(0), &log(5, Some(300)));
        table.note(at(9000), Rank(1), &log(7, Some(100)));
        table.sum_up(at(9000));
        assert_eq!(table.retained_for(), BTreeMap::from([(Rank(2), 12)]));
        let both = LogView {
            told_at: at(9000),
            told: LogFigures {
                retained_bytes: 12,
                most_retained_bytes: 14,
                memory_bytes: 8192,
                file_bytes: 1024,
                determinants: 20,
                determinants_per_second: 6,
                lag_ns: 300_000_000,
            },
        };
        assert_eq!((table.sums(), table.due()), (Some(both), None));
        table.note(at(9100), Rank(0), &log(0, None));
        table.sum_up(at(9100));
        assert_eq!((table.sums(), table.due()), (Some(both), Some(at(10_000))));
        table.sum_up(at(10_000));
        let later = table.sums().expect("sums");
        assert_eq!(table.retained_for(), BTreeMap::from([(Rank(2), 7)]));
        let later = later.at(at(10_500));
        assert_eq!((later.retained_bytes, later.lag_ns), (7, 1_600_000_000));
        let idle = table.of(Rank(0)).map(|log| log.at(at(10_500)).lag_ns);
        assert_eq!(idle, Some(0));
        assert_eq!(table.of(Rank(2)), None);
    }
}
