//! Ranks that run again alone, from their recordings (`mpirun --record`).

mod outcome;
mod recorded_rank;
mod verification;

pub use outcome::{Outcome, OutcomeFile};
pub use recorded_rank::RecordedRank;
pub(crate) use verification::unnamed_file;
pub use verification::{Verification, verify};
