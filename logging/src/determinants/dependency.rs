//! What a rank depends on that is not stored yet: determinants of other ranks whose messages it has
//! received. Only direct dependencies are noted. A rank's own log has those, so what depends on the
//! rank depends on them through it.
//!
//! If a rank loses determinants with its host, it continues from an earlier one. A rank that
//! depends on a lost one is an *orphan*: it has messages which their sender will not send again. It
//! returns to its last checkpoint, whose dependencies were all stored, and its log ends before the
//! first dependency that was lost ([`Dependency::cut`]). (Strom and Yemini, Optimistic Recovery in
//! Distributed Systems, 1985; Johnson and Zwaenepoel, Recovery in Distributed Systems Using
//! Optimistic Message Logging and Checkpointing, 1990, for direct dependencies.)

use rejoin_channel_table::ids::{Incarnation, Rank};

use super::determinant_record::{DeterminantKind, DeterminantRecord};

/// A rank's determinants up to a mark ([`super::DeterminantLog::mark`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dependency {
    /// The rank.
    pub rank: Rank,
    /// Incarnation of the rank that recorded the last of the determinants.
    pub incarnation: Incarnation,
    /// The mark.
    pub mark: u64,
}

impl Dependency {
    /// The record of this dependency in a log that counts these answers and sends.
    pub(super) fn record(&self, answers: u64, sends: u64) -> DeterminantRecord {
        let who = u64::from(self.rank.0) | u64::from(self.incarnation.0) << 32;
        DeterminantRecord {
            kind: DeterminantKind::Dependency,
            number: answers,
            values: [who, self.mark, sends],
        }
    }

    /// The dependency in a record; `None`: the record is another one.
    pub(super) fn of(record: &DeterminantRecord) -> Option<Dependency> {
        let [who, mark, _] = record.values;
        (record.kind == DeterminantKind::Dependency).then_some(Dependency {
            rank: Rank(who as u32),
            incarnation: Incarnation((who >> 32) as u32),
            mark,
        })
    }

    /// The mark of a log from which on it has this record, which is its record of this index.
    pub(super) fn own_mark(record: &DeterminantRecord, index: u64) -> u64 {
        let [_, _, sends] = record.values;
        let counted = record.number.saturating_add(sends);
        index.saturating_add(1).saturating_add(counted)
    }
}
