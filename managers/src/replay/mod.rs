//! Ranks that run again alone, from their recordings (`mpirun --record`).

mod outcome_memory;
mod recorded_rank;
mod replayed_job;

pub use outcome_memory::{OutcomeMemory, memory_file};
pub use recorded_rank::RecordedRank;
pub use replayed_job::{ReplayedJob, verify};
