//! Who comes back after a failure, by the mode of recovery.

use super::checkpointed::Checkpointed;
use super::response::{Response, Situation};
use crate::central::interface::Recovery;
use crate::checkpoint::Coordinator;
use crate::manager_messages::{Cause, Time};
use crate::policy::{History, Refusal};
use rejoin_channel_table::{Epoch, Rank};

/// Who comes back after a failure, and from what. One variant for each way; modes that differ in
/// what ranks log have one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::central) enum RecoveryPlanner {
    /// Failures end the job.
    None,
    /// All ranks come back together.
    Coordinated(Box<Checkpointed>),
    /// Only the recovery group of a failed rank comes back, with groups that are tied to it.
    Logging(Box<Checkpointed>),
}

impl RecoveryPlanner {
    /// The mode of a job of `size` ranks. `logs_messages`: the job has several recovery groups.
    pub fn new(recovery: Option<Recovery>, size: u32, logs_messages: bool) -> RecoveryPlanner {
        let made = recovery.map(|recovery| Box::new(Checkpointed::new(recovery, size)));
        match made {
            None => RecoveryPlanner::None,
            Some(mode) if logs_messages => RecoveryPlanner::Logging(mode),
            Some(mode) => RecoveryPlanner::Coordinated(mode),
        }
    }

    /// A failure concerns the group of its rank only: ranks log messages.
    pub fn logs_messages(&self) -> bool {
        matches!(self, RecoveryPlanner::Logging(_))
    }

    fn checkpointed(&self) -> Option<&Checkpointed> {
        match self {
            RecoveryPlanner::None => None,
            RecoveryPlanner::Coordinated(mode) | RecoveryPlanner::Logging(mode) => Some(mode),
        }
    }

    fn checkpointed_mut(&mut self) -> Option<&mut Checkpointed> {
        match self {
            RecoveryPlanner::None => None,
            RecoveryPlanner::Coordinated(mode) | RecoveryPlanner::Logging(mode) => Some(mode),
        }
    }

    /// Failures are masked where that is possible.
    pub fn recovers(&self) -> bool {
        !matches!(self, RecoveryPlanner::None)
    }

    /// The job's checkpoints; `None` in a mode without any.
    pub fn checkpoints(&self) -> Option<&Coordinator> {
        self.checkpointed().map(Checkpointed::checkpoints)
    }

    /// The job's checkpoints, to be changed.
    pub fn checkpoints_mut(&mut self) -> Option<&mut Coordinator> {
        self.checkpointed_mut().map(Checkpointed::checkpoints_mut)
    }

    /// The checkpoint of which every image was requested when all ranks were in `MPI_Finalize`.
    pub fn last_checkpoint(&self) -> Option<Epoch> {
        self.checkpointed()?.last()
    }

    /// Names that checkpoint, or says that there is none any more.
    pub fn set_last_checkpoint(&mut self, last: Option<Epoch>) {
        if let Some(mode) = self.checkpointed_mut() {
            mode.set_last(last);
        }
    }

    /// The failures masked so far.
    pub fn history(&self) -> History {
        let history = self.checkpointed().map(Checkpointed::history);
        history.cloned().unwrap_or_default()
    }

    /// Central was started again: this was masked before.
    pub fn set_history(&mut self, history: History) {
        if let Some(mode) = self.checkpointed_mut() {
            mode.set_history(history);
        }
    }

    /// The response of the job to this failure.
    pub(super) fn respond(&mut self, situation: &Situation, rank: Rank, cause: &Cause) -> Response {
        match self.checkpointed_mut() {
            // The first failure ends the job, and needs no reason why it was not masked.
            None => Response::End(None),
            Some(mode) => mode.respond(situation, rank, cause),
        }
    }

    /// Counts that the job begins anew for no fault of a rank, if it may.
    pub(super) fn admits(&mut self, now: Time) -> bool {
        let mode = self.checkpointed_mut();
        mode.is_some_and(|mode| mode.admits(now))
    }

    /// Why a rollback to this checkpoint could give a wrong answer.
    pub(in crate::central) fn outlived(&self, to: Epoch) -> Option<Refusal> {
        self.checkpointed()?.outlived(to)
    }

    /// Judges how an instance exited for which the job rolls back already to `from`.
    pub(super) fn confirm(
        &mut self,
        rank: Rank,
        cause: &Cause,
        from: Option<Epoch>,
    ) -> Result<(), Refusal> {
        match self.checkpointed_mut() {
            None => Err(Refusal::Meant),
            Some(mode) => mode.confirm(rank, cause, from),
        }
    }
}
