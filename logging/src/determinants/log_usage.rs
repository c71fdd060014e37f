//! What the log of a rank holds. The rank writes it into the header of the log's memory now and
//! then, and its manager reads it there. So no message tells of it, and the rank waits for nothing.

use super::log_layout::{
    BODY_BYTES, BYTES_FOR, END, FILE_BYTES, MOST_FOR, MOST_RETAINED, RETAINED, WAIT_SINCE,
};
use super::{DeterminantLog, LogMemory};
use rejoin_channel_table::ids::Rank;
use serde::{Deserialize, Serialize};

/// What the log of a rank, or those of all ranks, held at one moment. Of all ranks these are sums,
/// unless something else is said. The status of a job and its events have fields of these names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct LogFigures {
    /// Bytes of messages that are retained for other recovery groups.
    pub retained_bytes: u64,
    /// The most of these bytes that one rank retained at any time.
    pub most_retained_bytes: u64,
    /// Bytes of the logs' memory that are in use: by bodies of retained messages, and by bodies
    /// that an image may still need.
    pub memory_bytes: u64,
    /// Bytes of the files into which logs spill, in use by the same bodies.
    pub file_bytes: u64,
    /// Determinants that were recorded so far.
    pub determinants: u64,
    /// Determinants that were recorded in the last second or so.
    pub determinants_per_second: u64,
    /// Nanoseconds since a peer with retained messages released some last, or since the first was
    /// retained for it after none was. Of all peers and ranks, the longest of these times. 0: no
    /// message is retained.
    pub lag_ns: u64,
}

impl LogFigures {
    /// The figures so many nanoseconds later, if nothing else has changed.
    #[must_use]
    pub fn later(self, nanoseconds: u64) -> LogFigures {
        let lag_ns = match self.lag_ns {
            0 => 0,
            lag => lag.saturating_add(nanoseconds),
        };
        LogFigures { lag_ns, ..self }
    }

    /// Adds the figures of other ranks at the same moment.
    pub fn add(&mut self, other: &LogFigures) {
        for (sum, more) in [
            (&mut self.retained_bytes, other.retained_bytes),
            (&mut self.memory_bytes, other.memory_bytes),
            (&mut self.file_bytes, other.file_bytes),
            (&mut self.determinants, other.determinants),
            (
                &mut self.determinants_per_second,
                other.determinants_per_second,
            ),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.most_retained_bytes = self.most_retained_bytes.max(other.most_retained_bytes);
        self.lag_ns = self.lag_ns.max(other.lag_ns);
    }
}

/// What the log of a rank holds, and for whom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogUsage {
    /// The figures.
    pub figures: LogFigures,
    /// The peer for which most bytes are retained, and how many.
    pub most_for: Option<(Rank, u64)>,
}

impl LogUsage {
    /// What a log's memory says at this time, by the clock of rank and manager in nanoseconds. The
    /// words are read one by one, so some may be newer than others. No word has the determinants a
    /// second.
    pub fn read(memory: &impl LogMemory, clock: u64) -> LogUsage {
        let most_for = memory.load(MOST_FOR).checked_sub(1);
        let figures = LogFigures {
            retained_bytes: memory.load(RETAINED),
            most_retained_bytes: memory.load(MOST_RETAINED),
            memory_bytes: memory.load(BODY_BYTES),
            file_bytes: memory.load(FILE_BYTES),
            determinants: memory.load(END),
            determinants_per_second: 0,
            lag_ns: match memory.load(WAIT_SINCE) {
                0 => 0,
                // 0 would say that nothing waits.
                since => clock.saturating_sub(since).max(1),
            },
        };
        LogUsage {
            figures,
            most_for: most_for.map(|rank| (Rank(rank as u32), memory.load(BYTES_FOR))),
        }
    }
}

impl<M: LogMemory> DeterminantLog<M> {
    /// Writes what the log uses into its memory. `waits_since`: where the lag begins, by the clock
    /// of rank and manager; a reader makes the lag of it. The log itself counts determinants.
    pub fn write_usage(&mut self, usage: &LogUsage, waits_since: Option<u64>) {
        let (figures, most_for) = (&usage.figures, usage.most_for);
        let words = [
            (RETAINED, figures.retained_bytes),
            (MOST_RETAINED, figures.most_retained_bytes),
            (BODY_BYTES, figures.memory_bytes),
            (FILE_BYTES, figures.file_bytes),
            (WAIT_SINCE, waits_since.unwrap_or(0)),
            (
                MOST_FOR,
                most_for.map_or(0, |(rank, _)| u64::from(rank.0) + 1),
            ),
            (BYTES_FOR, most_for.map_or(0, |(_, bytes)| bytes)),
        ];
        for (word, value) in words {
            self.memory.store(word, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::DeterminantKind;
    use super::*;

    #[test]
    fn a_reader_of_the_memory_finds_what_was_written_and_recorded() {
        let mut log = DeterminantLog::new(vec![9; 16 + 4 * 4]).expect("a log");
        assert_eq!(LogUsage::read(log.memory(), 10), LogUsage::default());
        let mut usage = LogUsage {
            figures: LogFigures {
                retained_bytes: 5,
                most_retained_bytes: 7,
                memory_bytes: 4096,
                file_bytes: 8192,
                ..LogFigures::default()
            },
            most_for: Some((Rank(0), 4)),
        };
        log.write_usage(&usage, Some(3));
        for _ in 0..2 {
            let given = log.answer(DeterminantKind::Test, Some([1, 2, 3]));
            given.expect("room");
        }
        usage.figures.determinants = 2;
        usage.figures.lag_ns = 7;
        assert_eq!(LogUsage::read(log.memory(), 10), usage);
        assert_eq!(LogUsage::read(log.memory(), 3).figures.lag_ns, 1, "not 0");
        let memory = log.memory_words();
        log.replay_from(memory).expect("its memory");
        log.write_usage(&LogUsage::default(), None);
        let unused = LogFigures {
            determinants: 2,
            ..LogFigures::default()
        };
        assert_eq!(LogUsage::read(log.memory(), 10).figures, unused);
        assert_eq!(unused.later(9), unused, "nothing is retained");
        assert_eq!(usage.figures.later(9).lag_ns, 16);
    }
}
