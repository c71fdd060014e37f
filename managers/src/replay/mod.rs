//! Ranks that run again alone, from their recordings (`mpirun --record`).

mod outcome;
mod recorded_rank;
mod replayed_job;

pub use outcome::{OutcomeFile, ReplayResult};
pub use recorded_rank::RecordedRank;
pub(crate) use replayed_job::unnamed_file;
pub use replayed_job::{ReplayedJob, verify};
