//! Rollbacks to checkpoints: every rank rolls back to the last committed one of which every rank
//! has an image. In a job of several recovery groups, only the group of the failed rank does so, to
//! its own last one. When all ranks have been released from `MPI_Finalize`, no rank needs another,
//! and a failed one is restored alone.

use super::response::{JobProgress, Response, Situation};
use crate::central::interface::Recovery;
use crate::checkpoint::Coordinator;
use crate::manager_messages::{Cause, Time};
use crate::policy::{self, History, Refusal};
use rejoin_channel_table::{Epoch, Rank};

/// State of this mode.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::central) struct Checkpointed {
    checkpoints: Coordinator,
    history: History,
    /// The checkpoint of which every image was requested when all ranks were in `MPI_Finalize`.
    last: Option<Epoch>,
    /// Roll back although a rank has state that this does not take back.
    accepts_outliving: bool,
}

impl Checkpointed {
    /// Of a job of `size` ranks that has no checkpoint yet.
    pub(super) fn new(recovery: Recovery, size: u32) -> Checkpointed {
        Checkpointed {
            checkpoints: Coordinator::new(size, recovery.interval, recovery.files),
            history: History::new(recovery.limit),
            last: None,
            accepts_outliving: recovery.accepts_outliving,
        }
    }

    pub(super) fn checkpoints(&self) -> &Coordinator {
        &self.checkpoints
    }

    pub(super) fn checkpoints_mut(&mut self) -> &mut Coordinator {
        &mut self.checkpoints
    }

    pub(super) fn last(&self) -> Option<Epoch> {
        self.last
    }

    pub(super) fn set_last(&mut self, last: Option<Epoch>) {
        self.last = last;
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    pub(super) fn set_history(&mut self, history: History) {
        self.history = history;
        self.checkpoints.set_failures(self.history.total());
    }

    pub(super) fn respond(&mut self, situation: &Situation, rank: Rank, cause: &Cause) -> Response {
        let alone = situation.progress == JobProgress::Finalized;
        let of_group = match situation.progress {
            JobProgress::Running => situation.of_group,
            JobProgress::InInit | JobProgress::Finalized => None,
        };
        let of_job = match alone {
            true => self.checkpoints.committed(),
            false => self.checkpoints.target(),
        };
        let from = of_group.or(of_job);
        if alone && from != self.last {
            // Alone, a rank can only come back into MPI_Finalize.
            return Response::End(Some(Refusal::NoCheckpoint));
        }
        let pending = self.checkpoints.pending().is_some() || situation.is_any_away;
        let judged = match from {
            Some(_) => self.history.judge(situation.now, rank, cause, from),
            None => judge_new_start(&mut self.history, situation, pending, rank, cause),
        };
        self.checkpoints.set_failures(self.history.total());
        if judged.is_ok()
            && let Some(refusal) = self.outlived(from.unwrap_or_default())
        {
            return Response::End(Some(refusal));
        }
        match judged {
            Ok(()) => match of_group {
                Some(epoch) => Response::RestoreGroup(epoch),
                None if alone => Response::RestoreOne(from),
                None => Response::RollBack(from),
            },
            Err(Refusal::Meant) => Response::End(None),
            Err(refusal) => Response::End(Some(refusal)),
        }
    }

    pub(super) fn admits(&mut self, now: Time) -> bool {
        let admitted = self.history.admit(now).is_ok();
        self.checkpoints.set_failures(self.history.total());
        admitted
    }

    /// Why a rollback to this checkpoint could give a wrong answer.
    pub(super) fn outlived(&self, to: Epoch) -> Option<Refusal> {
        let (rank, what) = self.checkpoints.outliving(to)?;
        let what = what.to_string();
        (!self.accepts_outliving).then_some(Refusal::Outlived { rank, what })
    }

    pub(super) fn confirm(
        &mut self,
        rank: Rank,
        cause: &Cause,
        from: Option<Epoch>,
    ) -> Result<(), Refusal> {
        self.history.confirm(rank, cause, from)
    }
}

/// Whether the job starts anew because of this failure. Before the first checkpoint there is only
/// the start for a rollback. Nothing but `MPI_Init` is lost by that, so the job starts anew as
/// often as `--max-restarts` allows. `pending`: a checkpoint is under way, or waits for a group
/// that comes back.
fn judge_new_start(
    history: &mut History,
    situation: &Situation,
    pending: bool,
    rank: Rank,
    cause: &Cause,
) -> Result<(), Refusal> {
    let in_init = situation.progress == JobProgress::InInit;
    if policy::is_killed_before_init(cause) {
        // A program may not use MPI at all if one of its ranks ended without MPI_Init. A restart
        // would then repeat its effects.
        return match in_init && !situation.absent {
            true => history.admit(situation.now),
            false => Err(Refusal::Meant),
        };
    }
    // While the first checkpoint is under way, ranks have hardly left MPI_Init. One that was
    // aborted leaves the job without any: too much would be done again.
    let running = situation.progress == JobProgress::Running;
    if policy::is_failure(cause) && !in_init && !(running && pending) {
        return Err(Refusal::NoCheckpoint);
    }
    history.judge(situation.now, rank, cause, None)
}
