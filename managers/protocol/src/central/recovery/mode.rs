//! The recovery modes behind one enum.

use super::coordinated::Coordinated;
use super::response::{Response, Situation};
use crate::central::interface::Recovery;
use crate::checkpoint::Coordinator;
use crate::manager_messages::Cause;
use crate::policy::{History, Refusal};
use rejoin_channel_table::{Epoch, Rank};

/// How failures are masked. One variant for each recovery mode.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::central) enum RecoveryMode {
    /// Failures end the job.
    None,
    /// All ranks roll back together.
    Coordinated(Box<Coordinated>),
}

impl RecoveryMode {
    /// The mode of a job of `size` ranks.
    pub fn new(recovery: Option<Recovery>, size: u32) -> RecoveryMode {
        match recovery {
            None => RecoveryMode::None,
            Some(recovery) => RecoveryMode::Coordinated(Box::new(Coordinated::new(recovery, size))),
        }
    }

    /// Failures are masked where that is possible.
    pub fn recovers(&self) -> bool {
        !matches!(self, RecoveryMode::None)
    }

    /// The job's checkpoints; `None` in a mode without any.
    pub fn checkpoints(&self) -> Option<&Coordinator> {
        match self {
            RecoveryMode::None => None,
            RecoveryMode::Coordinated(mode) => Some(mode.checkpoints()),
        }
    }

    /// The same, to be changed.
    pub fn checkpoints_mut(&mut self) -> Option<&mut Coordinator> {
        match self {
            RecoveryMode::None => None,
            RecoveryMode::Coordinated(mode) => Some(mode.checkpoints_mut()),
        }
    }

    /// The checkpoint of which every image was requested when all ranks were in `MPI_Finalize`.
    pub fn last_checkpoint(&self) -> Option<Epoch> {
        match self {
            RecoveryMode::None => None,
            RecoveryMode::Coordinated(mode) => mode.last(),
        }
    }

    /// Names that checkpoint, or says that there is none any more.
    pub fn set_last_checkpoint(&mut self, last: Option<Epoch>) {
        if let RecoveryMode::Coordinated(mode) = self {
            mode.set_last(last);
        }
    }

    /// The failures masked so far.
    pub fn history(&self) -> History {
        match self {
            RecoveryMode::None => History::default(),
            RecoveryMode::Coordinated(mode) => mode.history().clone(),
        }
    }

    /// Central was started again: this was masked before.
    pub fn set_history(&mut self, history: History) {
        if let RecoveryMode::Coordinated(mode) = self {
            mode.set_history(history);
        }
    }

    /// The response of the job to this failure.
    pub(super) fn respond(&mut self, situation: &Situation, rank: Rank, cause: &Cause) -> Response {
        match self {
            // The first failure ends the job, and needs no reason why it was not masked.
            RecoveryMode::None => Response::End(None),
            RecoveryMode::Coordinated(mode) => mode.respond(situation, rank, cause),
        }
    }

    /// Why a rollback to this checkpoint could give a wrong answer.
    pub(in crate::central) fn outlived(&self, to: Epoch) -> Option<Refusal> {
        match self {
            RecoveryMode::None => None,
            RecoveryMode::Coordinated(mode) => mode.outlived(to),
        }
    }

    /// Judges how an instance exited for which the job rolls back already to `from`.
    pub(super) fn confirm(
        &mut self,
        rank: Rank,
        cause: &Cause,
        from: Option<Epoch>,
    ) -> Result<(), Refusal> {
        match self {
            RecoveryMode::None => Err(Refusal::Meant),
            RecoveryMode::Coordinated(mode) => mode.confirm(rank, cause, from),
        }
    }
}
