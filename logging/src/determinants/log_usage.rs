//! What the log of a rank uses. The rank writes it into the header of the log's memory now and
//! then, and its manager reads it there. So no message tells of it, and the rank waits for nothing.

use super::log_layout::{
    BODY_BYTES, BYTES_FOR, END, FILE_BYTES, MOST_FOR, MOST_RETAINED, RETAINED, WAIT_SINCE,
};
use super::{DeterminantLog, LogMemory};
use rejoin_channel_table::ids::Rank;

/// What the log of a rank uses, as its rank has written it last. The words are read one by one, so
/// some may be newer than others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogUsage {
    /// Bytes of messages that are retained for other recovery groups.
    pub retained: u64,
    /// The most of these bytes that there ever were.
    pub most_retained: u64,
    /// Bytes of the memory of bodies that are in use: by retained messages, and by bodies that an
    /// image may still need.
    pub memory: u64,
    /// Bytes in use, for the same reasons, of the file into which the log spills.
    pub file: u64,
    /// For each peer with retained messages, there is a time when it released some last, or when
    /// the first was retained after none was. The earliest of these times; `None`: no message is
    /// retained. In nanoseconds, by the clock of rank and manager.
    pub waits_since: Option<u64>,
    /// The peer for which most bytes are retained, and how many.
    pub most_for: Option<(Rank, u64)>,
}

impl LogUsage {
    /// What a log's memory says, and how many determinants the rank has recorded so far.
    pub fn read(memory: &impl LogMemory) -> (LogUsage, u64) {
        let since = memory.load(WAIT_SINCE);
        let most_for = memory.load(MOST_FOR).checked_sub(1);
        let usage = LogUsage {
            retained: memory.load(RETAINED),
            most_retained: memory.load(MOST_RETAINED),
            memory: memory.load(BODY_BYTES),
            file: memory.load(FILE_BYTES),
            waits_since: (since != 0).then_some(since),
            most_for: most_for.map(|rank| (Rank(rank as u32), memory.load(BYTES_FOR))),
        };
        (usage, memory.load(END))
    }
}

impl<M: LogMemory> DeterminantLog<M> {
    /// Writes what the log uses into its memory.
    pub fn write_usage(&mut self, usage: &LogUsage) {
        let words = [
            (RETAINED, usage.retained),
            (MOST_RETAINED, usage.most_retained),
            (BODY_BYTES, usage.memory),
            (FILE_BYTES, usage.file),
            (WAIT_SINCE, usage.waits_since.unwrap_or(0)),
            (
                MOST_FOR,
                usage.most_for.map_or(0, |(rank, _)| u64::from(rank.0) + 1),
            ),
            (BYTES_FOR, usage.most_for.map_or(0, |(_, bytes)| bytes)),
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
        assert_eq!(LogUsage::read(log.memory()), (LogUsage::default(), 0));
        let usage = LogUsage {
            retained: 5,
            most_retained: 7,
            memory: 4096,
            file: 8192,
            waits_since: Some(3),
            most_for: Some((Rank(0), 4)),
        };
        log.write_usage(&usage);
        for _ in 0..2 {
            let given = log.answer(DeterminantKind::Test, Some([1, 2, 3]));
            given.expect("room");
        }
        assert_eq!(LogUsage::read(log.memory()), (usage, 2));
        let memory = log.memory_words();
        log.replay_from(memory).expect("its memory");
        log.write_usage(&LogUsage::default());
        assert_eq!(LogUsage::read(log.memory()), (LogUsage::default(), 2));
    }
}
