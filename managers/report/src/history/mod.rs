//! What a file of events says of the jobs in it: `docs/events.md` describes the lines.

mod event_line;
mod history_reader;
mod job_history;
mod tidy_text;

pub(crate) use event_line::EventLine;
pub use event_line::PlacedRanks;
pub use history_reader::{BadLine, Histories, read};
pub use job_history::{
    CheckpointEnd, CheckpointSpan, FailureMark, HostOutage, Incident, JobHistory, RankRun,
    RecoverySpan,
};
