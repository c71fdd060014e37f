//! What a recovery mode decides by, and what it decides.

use crate::control::Time;
use crate::policy::Refusal;
use rejoin_channel_table::Epoch;

/// What the job does about a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Response {
    /// Every rank goes back to this checkpoint; `None`: the job starts anew.
    RollBack(Option<Epoch>),
    /// Only the failed rank comes back, from the last checkpoint of the job.
    RestoreOne(Option<Epoch>),
    /// The failure ends the job; the refusal is told where one may ask why it was not masked.
    End(Option<Refusal>),
}

/// What a mode decides by.
pub(super) struct Situation {
    pub now: Time,
    pub progress: JobProgress,
    /// A rank ended without calling `MPI_Init`.
    pub absent: bool,
}

/// How far the job has come, as far as a recovery mode must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobProgress {
    /// Some ranks have not registered since the job began or went back.
    InInit,
    /// All ranks have registered, and have not all been let go from `MPI_Finalize`.
    Running,
    /// All ranks have been let go from `MPI_Finalize`.
    Finalized,
}
