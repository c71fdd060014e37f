//! The input and the result of a recovery mode's decision.

use crate::manager_messages::Time;
use crate::policy::Refusal;
use rejoin_channel_table::Epoch;

/// The response of the job to a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Response {
    /// Every rank rolls back to this checkpoint; `None`: the job starts anew.
    RollBack(Option<Epoch>),
    /// The ranks of the failed rank's group come back from this checkpoint of it, and the others
    /// stand.
    RestoreGroup(Epoch),
    /// Only the failed rank comes back, from the last checkpoint of the job.
    RestoreOne(Option<Epoch>),
    /// The failure ends the job. The refusal says why the failure was not masked, if that needs a
    /// reason.
    End(Option<Refusal>),
}

/// The situation on which a mode decides.
pub(super) struct Situation {
    pub now: Time,
    pub progress: JobProgress,
    /// The last checkpoint of the failed rank's group, in a job of several groups.
    pub of_group: Option<Epoch>,
    /// A rank ended without calling `MPI_Init`.
    pub absent: bool,
    /// A group is coming back, so that no checkpoint can be requested.
    pub is_any_away: bool,
}

/// How far the job has come, as far as a recovery mode must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobProgress {
    /// Some ranks have not registered since the job began or rolled back.
    InInit,
    /// All ranks have registered, and have not been released from `MPI_Finalize`.
    Running,
    /// All ranks have been released from `MPI_Finalize`.
    Finalized,
}
