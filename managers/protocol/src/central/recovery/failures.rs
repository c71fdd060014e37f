//! Failures as local managers report them: judged by the mode, told, and acknowledged.

use super::phases::GlobalRestore;
use super::response::{JobProgress, Response, Situation};
use crate::central::central_omission::CentralOmission;
use crate::central::ending::EndHandler;
use crate::central::event::Event;
use crate::central::failure::Failure;
use crate::central::interface::HostIndex;
use crate::central::job_end::END_BOUND;
use crate::central::job_parts::JobParts;
use crate::central::losses::NotRestored;
use crate::central::moves::MoveHandler;
use crate::central::phase::CentralPhase;
use crate::central::recovery::GroupCommitHandler;
use crate::central::returns::{OrderHandler, ReturnHandler, ReturnPlan, Returning};
use crate::manager_messages::{Cause, End, ProcessInstance, Stage, ToLocal};
use crate::policy::Refusal;
use crate::verdict::{Described, Verdict};
use rejoin_channel_table::{Epoch, Rank};

/// Judges failures: ranks come back, or the job ends.
pub(in crate::central) struct FailureHandler<'a> {
    /// All parts: what it does can touch each of them.
    pub(in crate::central) job: JobParts<'a>,
}

impl<'a> FailureHandler<'a> {
    /// The handler of a step.
    pub(in crate::central) fn of(job: &'a mut JobParts<'_>) -> Self {
        FailureHandler { job: job.all() }
    }
}

impl FailureHandler<'_> {
    /// A host reports a failure.
    pub(in crate::central) fn has_failed(&mut self, failure: Failure) {
        if OrderHandler::of(&mut self.job).is_return_hindered(&failure) {
            self.not_restored(failure);
        } else if self
            .job
            .cluster
            .ranks
            .failed(failure.host, failure.instance)
        {
            self.failed(failure);
        } else {
            self.failed_too(failure);
        }
    }

    /// A rank failed: either ranks roll back, or the failure is the job's verdict.
    fn failed(&mut self, failure: Failure) {
        if let Cause::NotStarted { why } = &failure.cause
            && self.job.commits.mode.recovers()
        {
            if let Some((from, to)) = self.next_best(failure.instance.rank) {
                self.job.returns.losses.report(Event::FallsBack {
                    rank: failure.instance.rank,
                    host: self.job.cluster.hosts.name(failure.host),
                    from,
                    why: why.clone(),
                    to,
                });
                self.come_back(Returning::All, Some(to));
                return self.job.returns.report_losses(self.job.out);
            }
            if let Some(()) = self.group_not_restored(&failure, why) {
                return self.job.returns.report_losses(self.job.out);
            }
            return self.not_restored(failure);
        }
        let rank = failure.instance.rank;
        match self.response(rank, &failure.cause) {
            Response::End(refusal) => self.is_end(failure, refusal),
            response => {
                self.begin_rollback();
                let alone = !matches!(response, Response::RollBack(_));
                self.lost(failure, alone);
                self.roll_back(rank, &response);
                self.job.returns.report_losses(self.job.out);
            }
        }
    }

    /// A rank can't be restored. Returns the checkpoint that this concerns, and the next best one
    /// of which every rank has an image, unless a rollback there could give a wrong answer.
    fn next_best(&mut self, rank: Rank) -> Option<(Epoch, Epoch)> {
        let CentralPhase::Restoring(GlobalRestore {
            epoch: Some(from), ..
        }) = self.job.course.phase
        else {
            return None;
        };
        let to = self
            .job
            .commits
            .checkpoints_mut()?
            .not_restored(rank, from)?;
        self.job
            .commits
            .mode
            .outlived(to)
            .is_none()
            .then_some((from, to))
    }

    /// A rank of a group that comes back alone can't be restored: the group comes back from files
    /// of an earlier checkpoint, if there are any.
    fn group_not_restored(&mut self, failure: &Failure, why: &str) -> Option<()> {
        let rank = failure.instance.rank;
        let from = self.job.commits.groups.committed(rank)?.epoch;
        let to = GroupCommitHandler::of(&mut self.job).group_falls_back(rank, from)?;
        self.job.returns.losses.report(Event::FallsBack {
            rank,
            host: self.job.cluster.hosts.name(failure.host),
            from,
            why: why.to_owned(),
            to,
        });
        let who = self.groups_with(rank, to);
        self.come_back(who, Some(to));
        Some(())
    }

    /// The response of the job to a failure.
    fn response(&mut self, rank: Rank, cause: &Cause) -> Response {
        let now = self.job.out.now;
        let progress = match self.job.course.phase {
            CentralPhase::Starting | CentralPhase::Restoring(_) => JobProgress::InInit,
            CentralPhase::Running | CentralPhase::Finalizing => JobProgress::Running,
            CentralPhase::Finalized => JobProgress::Finalized,
            CentralPhase::Resuming(_) | CentralPhase::Ending | CentralPhase::Over => {
                return Response::End(None);
            }
        };
        let is_over =
            self.job.course.end.interrupted().is_some() || self.job.course.end.verdict().is_some();
        if is_over || self.job.course.end.sent(cause).is_some() {
            return Response::End(None);
        }
        let of_group = self
            .job
            .commits
            .groups
            .committed(rank)
            .map(|last| last.epoch);
        let of_group = of_group.filter(|_| !self.job.terms.omits(CentralOmission::OwnGroup));
        let of_group = of_group.map(|epoch| self.job.commits.fitting(epoch, self.job.terms));
        let of_group = match self.job.terms.omits(CentralOmission::OwnCommit) {
            true => of_group.and(self.job.commits.checkpoints().and_then(|c| c.committed())),
            false => of_group,
        };

        let situation = Situation {
            now,
            progress,
            absent: self.job.cluster.ranks.has_absent(),
            is_any_away: self.job.commits.mode.logs_messages()
                && self.job.cluster.ranks.is_any_away(),
            of_group,
        };
        self.job.commits.mode.respond(&situation, rank, cause)
    }

    fn roll_back(&mut self, rank: Rank, to: &Response) {
        let (who, from) = match *to {
            Response::RollBack(epoch) => (Returning::All, epoch),
            Response::RestoreOne(epoch) => (Returning::Finalized(rank), epoch),
            Response::RestoreGroup(epoch) => (self.groups_with(rank, epoch), Some(epoch)),
            Response::End(_) => return,
        };
        self.come_back(who, from);
    }

    /// Ranks come back where their images are.
    fn come_back(&mut self, who: Returning, from: Option<Epoch>) {
        let lost = None;
        ReturnHandler::of(&mut self.job).begin_return(ReturnPlan { who, from, lost });
    }

    /// The group of this rank, and those that come back with it from this checkpoint.
    fn groups_with(&self, rank: Rank, epoch: Epoch) -> Returning {
        let mut members = self.job.commits.groups.members(rank).to_vec();
        members.extend(self.job.commits.returning_beside(epoch, self.job.terms));
        members.sort_unstable();
        members.dedup();
        Returning::Groups(members)
    }

    /// Reports a masked failure to the user, before the recovery.
    fn lost(&mut self, failure: Failure, alone: bool) {
        let host = self.job.cluster.hosts.name(failure.host);
        self.job
            .returns
            .losses
            .lost(failure.into_event(host, alone));
    }

    /// A failure is masked; unless the job rolls back already, it is the reason.
    pub(super) fn begin_rollback(&mut self) {
        let others_stand =
            self.job.commits.mode.logs_messages() && self.job.course.phase == CentralPhase::Running;
        match others_stand {
            true => MoveHandler::of(&mut self.job).interrupt_moves(),
            false => MoveHandler::of(&mut self.job).end_moves("the job rolls back"),
        }
        if !matches!(self.job.course.phase, CentralPhase::Restoring(_)) {
            self.job.returns.losses.begin();
        }
    }

    /// A rank can't be restored, and nothing else helps.
    fn not_restored(&mut self, failure: Failure) {
        let now = self.job.out.now;
        let due = now.plus_millis(END_BOUND);
        self.job
            .returns
            .losses
            .cannot_be_restored(NotRestored { failure, due });
        self.end_if_not_restored();
    }

    /// Ends the job if a rank can't be restored, once it is known how those exited for which
    /// that was tried.
    fn end_if_not_restored(&mut self) {
        if let Some(lost) = self.job.returns.losses.settled_not_restored() {
            self.cannot_restore(lost);
        }
    }

    /// Ends the job if a rank can't be restored, when the exits that are not known have been waited
    /// for long enough.
    pub(in crate::central) fn restore_tick(&mut self) -> bool {
        let now = self.job.out.now;
        match self.job.returns.losses.overdue(now) {
            Some(lost) => self.cannot_restore(lost),
            None => return false,
        }
        true
    }

    /// A rank can't be restored: the failure for which that was tried is the job's end.
    fn cannot_restore(&mut self, lost: Failure) {
        match self.job.returns.losses.reason().cloned() {
            Some(Event::Lost {
                rank,
                host,
                pid,
                cause,
                ..
            }) if self.job.course.end.interrupted().is_none() => {
                let why = match lost.cause {
                    Cause::NotStarted { why } | Cause::NotStopped { why } => why,
                    other => Described(&other).to_string(),
                };
                let refusal = Some(Refusal::NotRestored {
                    rank: lost.instance.rank,
                    host: self.job.cluster.hosts.name(lost.host),
                    why,
                });
                let verdict = Verdict::Failed {
                    rank,
                    host,
                    pid,
                    cause,
                    refusal,
                };
                EndHandler::of(&mut self.job).decide(verdict);
            }
            _ => self.is_end(lost, None),
        }
    }

    /// The exit of a process is detected. The others must stop in any case. If a rollback is
    /// possible, it begins now. The exit status is judged when it is known.
    pub(in crate::central) fn exit_detected(&mut self, host: HostIndex, instance: ProcessInstance) {
        if !self.job.cluster.ranks.failed(host, instance) {
            // One that the job has just rolled back because of another is to be named, too.
            if let Some(epoch) = self.rolled_back_to(instance) {
                self.job
                    .returns
                    .losses
                    .detect((instance, host), epoch, false);
            }
            return;
        }
        let cause = Cause::Ended {
            end: End::Unknown,
            stage: Stage::Registered,
        };
        // A refusal is said with the cause, when that is known.
        let response = self.response(instance.rank, &cause);
        let from = match response {
            Response::RollBack(from) | Response::RestoreOne(from) => from,
            Response::RestoreGroup(epoch) => Some(epoch),
            Response::End(_) => return,
        };
        self.begin_rollback();
        self.job.returns.losses.detect((instance, host), from, true);
        self.roll_back(instance.rank, &response);
    }

    /// A process failed that the job has rolled back because of another.
    fn failed_too(&mut self, failure: Failure) {
        if let Some(epoch) = self.rolled_back_to(failure.instance) {
            self.exited_too(failure, epoch);
        }
    }

    /// The checkpoint to which the job has just rolled back, if this was a process of it then.
    fn rolled_back_to(&self, instance: ProcessInstance) -> Option<Option<Epoch>> {
        if self.job.commits.mode.logs_messages() && self.job.cluster.ranks.was_replaced(instance) {
            let last = self.job.commits.groups.committed(instance.rank)?;
            return Some(Some(last.epoch));
        }
        let CentralPhase::Restoring(GlobalRestore { epoch, .. }) = self.job.course.phase else {
            return None;
        };
        let last = self.job.cluster.ranks.was_rolled_back(instance);
        last.then_some(epoch)
    }

    /// The status of an exit that was detected is known.
    pub(in crate::central) fn exit_status(&mut self, failure: Failure) {
        let Failure { instance, host, .. } = failure;
        match self.job.returns.losses.status_known(instance) {
            Some((from, true)) => self.confirm(failure, from),
            Some((from, false)) => self.exited_too(failure, from),
            // Nothing was done for it: ranks may not roll back, or do so for another.
            None if self.job.cluster.ranks.is_current(instance) => self.failed(failure),
            None => {}
        }
        self.acknowledge(host, instance);
    }

    /// Ranks roll back for this exit already: either it is a failure, or it ends the job after all.
    fn confirm(&mut self, failure: Failure, from: Option<Epoch>) {
        let instance = failure.instance;
        if self.job.course.end.sent(&failure.cause).is_some() {
            return self.is_end(failure, None);
        }
        // Another checkpoint may be committed by now.
        if let Err(refusal) = self
            .job
            .commits
            .mode
            .confirm(instance.rank, &failure.cause, from)
        {
            let refusal = (refusal != Refusal::Meant).then_some(refusal);
            return self.is_end(failure, refusal);
        }
        // No generation has begun for one that comes back alone.
        let alone = instance.generation == self.job.cluster.ranks.generation();
        self.lost(failure, alone);
        self.job
            .returns
            .store_history(&self.job.commits.mode, self.job.out);
        self.job.returns.report_losses(self.job.out);
        self.end_if_not_restored();
    }

    /// A process exited while ranks rolled back for another. An exit by its own will would have
    /// been an end; it comes again after the rollback.
    fn exited_too(&mut self, failure: Failure, from: Option<Epoch>) {
        let rank = failure.instance.rank;
        if self.job.course.end.sent(&failure.cause).is_some() {
            // It does not come again: the signal was sent to the processes before the rollback.
            return self.is_end(failure, None);
        }
        match self.job.commits.mode.confirm(rank, &failure.cause, from) {
            Ok(()) => {
                self.lost(failure, false);
                self.job
                    .returns
                    .store_history(&self.job.commits.mode, self.job.out);
            }
            Err(Refusal::Meant) => {}
            Err(refusal) => return self.is_end(failure, Some(refusal)),
        }
        self.job.returns.report_losses(self.job.out);
    }

    /// The local manager of the host may forget this exit: it is stored.
    fn acknowledge(&mut self, host: HostIndex, instance: ProcessInstance) {
        if self.job.course.phase != CentralPhase::Ending {
            self.job.out.send(host, ToLocal::Acknowledged { instance });
        }
    }

    /// A failure that is not masked ends the job. After the release from `MPI_Finalize`, the other
    /// ranks end by themselves.
    fn is_end(&mut self, failure: Failure, refusal: Option<Refusal>) {
        let Failure { instance, host, .. } = failure;
        // An aborting rank requests the end of all ranks, and waits for its own.
        let alone = matches!(failure.cause, Cause::Ended { .. });
        let verdict = match self.job.course.end.sent(&failure.cause) {
            Some(signal) => Verdict::Interrupted { signal },
            None => failure.into_verdict(self.job.cluster.hosts.name(host), refusal),
        };
        if self.job.course.phase != CentralPhase::Finalized || !alone {
            return EndHandler::of(&mut self.job).decide(verdict);
        }
        // They may still have output to write.
        self.job.course.end.settle(verdict, self.job.out);
        let instance = self.job.cluster.ranks.instance(instance.rank);
        self.job.out.send(host, ToLocal::Release { instance });
    }
}
