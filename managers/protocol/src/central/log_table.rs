//! What the logs of the ranks hold, with message logging, for those who look on. Nothing is decided
//! by it, and no record keeps it: hosts tell it again to the next central manager.

use crate::manager_messages::{RankLogUse, Time};
use rejoin_channel_table::Rank;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the log of a rank, or those of all ranks, held when that was told last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogView {
    /// Bytes of messages that are retained for other recovery groups.
    pub retained: u64,
    /// The most of these bytes that one rank retained at any time.
    pub most_retained: u64,
    /// Bytes of the logs' memory that are in use.
    pub memory: u64,
    /// Bytes in use of the files into which logs spill.
    pub file: u64,
    /// Determinants that were recorded so far.
    pub determinants: u64,
    /// Determinants that were recorded in the last second or so.
    pub determinants_per_second: u64,
    /// When a peer with retained messages released some last, or the first was retained for it
    /// after none was. Of all peers and ranks, the earliest of these times. `None`: no message is
    /// retained.
    pub waits_since: Option<Time>,
}

impl LogView {
    fn new(now: Time, log: &RankLogUse) -> LogView {
        LogView {
            retained: log.retained,
            most_retained: log.most_retained,
            memory: log.memory,
            file: log.file,
            determinants: log.determinants,
            determinants_per_second: log.determinants_per_second,
            waits_since: log.lag.map(|lag| Time(now.0.saturating_sub(lag))),
        }
    }

    fn add(&mut self, other: &LogView) {
        let add = |one: &mut u64, more: u64| *one = one.saturating_add(more);
        add(&mut self.retained, other.retained);
        add(&mut self.memory, other.memory);
        add(&mut self.file, other.file);
        add(&mut self.determinants, other.determinants);
        add(
            &mut self.determinants_per_second,
            other.determinants_per_second,
        );
        self.most_retained = self.most_retained.max(other.most_retained);
        let times = [self.waits_since, other.waits_since];
        self.waits_since = times.into_iter().flatten().min();
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
    pub fn note(&mut self, now: Time, log: &RankLogUse) {
        self.of_rank.insert(log.rank, LogView::new(now, log));
        match log.most_for {
            Some(most) => self.most_for.insert(log.rank, most),
            None => self.most_for.remove(&log.rank),
        };
        self.is_new = true;
    }

    /// Adds everything up, if there is anything new and that is due.
    pub fn sum_up(&mut self, now: Time) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        let mut sums = LogView::default();
        self.of_rank.values().for_each(|one| sums.add(one));
        self.sums = Some(sums);
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
        let log = |rank, retained, lag: Option<u64>| RankLogUse {
            rank: Rank(rank),
            retained,
            most_retained: 2 * retained,
            memory: 4096,
            file: 512,
            determinants: 10,
            determinants_per_second: 3,
            most_for: lag.map(|_| (Rank(2), retained)),
            lag: lag.map(|millis| millis * 1_000_000),
        };
        let mut table = LogTable::default();
        table.sum_up(at(9000));
        assert_eq!((table.sums(), table.due()), (None, None));
        table.note(at(9000), &log(0, 5, Some(300)));
        table.note(at(9000), &log(1, 7, Some(100)));
        table.sum_up(at(9000));
        assert_eq!(table.retained_for(), BTreeMap::from([(Rank(2), 12)]));
        let both = LogView {
            retained: 12,
            most_retained: 14,
            memory: 8192,
            file: 1024,
            determinants: 20,
            determinants_per_second: 6,
            waits_since: Some(at(8700)),
        };
        assert_eq!((table.sums(), table.due()), (Some(both), None));
        table.note(at(9100), &log(0, 0, None));
        table.sum_up(at(9100));
        assert_eq!((table.sums(), table.due()), (Some(both), Some(at(10_000))));
        table.sum_up(at(10_000));
        let later = table.sums().expect("sums");
        assert_eq!(table.retained_for(), BTreeMap::from([(Rank(2), 7)]));
        assert_eq!((later.retained, later.waits_since), (7, Some(at(8900))));
        assert_eq!(table.of(Rank(0)).map(|log| log.waits_since), Some(None));
        assert_eq!(table.of(Rank(2)), None);
    }
}
