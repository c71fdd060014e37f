//! How much a rank may retain for other recovery groups.

use crate::log::log_pace::LogPace;
use rejoin_engine::LogLook;
use rejoin_wire::{Images, MessageLog};

/// The room: in memory, and in the file into which the log spills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogRoom {
    memory: u64,
    /// Half of the file's bytes: the other half may be held for the last image.
    file: u64,
}

impl LogRoom {
    /// The room that the manager has given this rank.
    pub(crate) fn of(log: &MessageLog, images: Option<&Images>) -> LogRoom {
        let has_file = images.is_some_and(|images| images.log_spill.is_some());
        let spill = log.spill.as_ref().filter(|_| has_file);
        LogRoom {
            memory: log.limit,
            file: spill.map_or(0, |spill| spill.bytes / 2),
        }
    }

    /// The room without its file: what would be in the file is in memory.
    pub(crate) fn without_file(self) -> LogRoom {
        LogRoom { file: 0, ..self }
    }

    /// Nothing is too much: a recording retains no messages.
    pub(crate) fn endless() -> LogRoom {
        LogRoom {
            memory: u64::MAX,
            file: 0,
        }
    }

    /// When checkpoints are asked for that make room in good time.
    pub(crate) fn pace(self) -> LogPace {
        match self.memory {
            u64::MAX => LogPace::never(),
            memory => LogPace::new(memory.saturating_add(self.file) / 2),
        }
    }

    /// More is retained in memory than may be: no message is sent to another group.
    pub(crate) fn is_full(self, look: &LogLook) -> bool {
        look.in_memory > self.memory
    }

    /// So much that a checkpoint is to make room. `since_image`: bytes that the last image lacks.
    /// Short messages never spill, so memory may run short while the file has room.
    pub(crate) fn is_half_full(self, look: &LogLook, since_image: u64) -> bool {
        let all = self.memory.saturating_add(self.file);
        let is_short = self.file > 0 && look.in_memory.min(since_image) > self.memory / 4 * 3;
        since_image > all / 2 || is_short
    }
}

#[cfg(test)]
impl LogRoom {
    /// So many bytes of memory.
    pub(crate) fn in_memory(memory: u64) -> LogRoom {
        LogRoom { memory, file: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(retained: u64, spilled: u64) -> LogLook {
        LogLook {
            in_memory: retained - spilled,
            ..LogLook::default()
        }
    }

    #[test]
    fn what_is_in_the_file_fills_no_memory() {
        let room = LogRoom {
            memory: 100,
            file: 400,
        };
        assert!(!room.is_full(&look(300, 200)) && room.is_full(&look(301, 200)));
        assert!(!room.is_half_full(&look(250, 200), 250));
        assert!(room.is_half_full(&look(251, 200), 251), "half of both");
        assert!(!room.is_half_full(&look(175, 100), 75));
        assert!(room.is_half_full(&look(176, 100), 76), "short messages");
        assert!(
            !room.is_half_full(&look(176, 100), 75),
            "the last image has them"
        );
        assert!(room.without_file().is_half_full(&look(51, 0), 51));
        let memory = LogRoom::in_memory(100);
        assert!(!memory.is_half_full(&look(99, 0), 50) && memory.is_half_full(&look(51, 0), 51));
        assert!(memory.is_full(&look(101, 0)));
    }

    #[test]
    fn a_file_counts_if_the_manager_has_one_for_this_rank() {
        let log = MessageLog {
            limit: 7,
            spill: Some(rejoin_wire::LogSpill {
                folder: "/scratch".into(),
                bytes: 10,
            }),
            ..MessageLog::default()
        };
        let mut images = Images::default();
        assert_eq!(LogRoom::of(&log, Some(&images)), LogRoom::in_memory(7));
        assert_eq!(LogRoom::of(&log, None), LogRoom::in_memory(7));
        images.log_spill = Some(3);
        let room = LogRoom { memory: 7, file: 5 };
        assert_eq!(LogRoom::of(&log, Some(&images)), room);
    }
}
