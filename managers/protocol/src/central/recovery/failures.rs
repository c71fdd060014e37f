//! Failures as local managers report them: judged by the mode, told, and acknowledged.

use super::phases::GlobalRestore;
use super::response::{JobProgress, Response, Situation};
use crate::central::central_omission::CentralOmission;
use crate::central::event::Event;
use crate::central::failure::Failure;
use crate::central::interface::{CentralEffect, FailureHistory, HostIndex, Record};
use crate::central::job_end::END_BOUND;
use crate::central::job_state::Central;
use crate::central::losses::NotRestored;
use crate::central::phase::CentralPhase;
use crate::manager_messages::{Cause, End, ProcessInstance, Stage, Time, ToLocal};
use crate::policy::Refusal;
use crate::verdict::{Described, Verdict};
use rejoin_channel_table::{Epoch, Rank};

impl Central {
    /// A host reports a failure.
    pub(in crate::central) fn has_failed(
        &mut self,
        now: Time,
        failure: Failure,
        effects: &mut Vec<CentralEffect>,
    ) {
        if self.is_return_hindered(&failure) {
            self.not_restored(now, failure, effects);
        } else if self.ranks.failed(failure.host, failure.instance) {
            self.failed(now, failure, effects);
        } else {
            self.failed_too(now, failure, effects);
        }
    }

    /// A rank failed: either ranks roll back, or the failure is the job's verdict.
    fn failed(&mut self, now: Time, failure: Failure, effects: &mut Vec<CentralEffect>) {
        if let Cause::NotStarted { why } = &failure.cause
            && self.mode.recovers()
        {
            if let Some((from, to)) = self.next_best(failure.instance.rank) {
                self.losses.report(Event::FallsBack {
                    rank: failure.instance.rank,
                    host: self.hosts.name(failure.host),
                    from,
                    why: why.clone(),
                    to,
                });
                self.restore_all(now, Some(to), effects);
                return self.report_losses(effects);
            }
            if let Some(()) = self.group_not_restored(now, &failure, why, effects) {
                return self.report_losses(effects);
            }
            return self.not_restored(now, failure, effects);
        }
        let rank = failure.instance.rank;
        match self.response(now, rank, &failure.cause) {
            Response::End(refusal) => self.is_end(now, failure, refusal, effects),
            response => {
                self.begin_rollback(now, effects);
                let alone = !matches!(response, Response::RollBack(_));
                self.lost(failure, alone);
                self.roll_back(now, rank, &response, effects);
                self.report_losses(effects);
            }
        }
    }

    /// A rank can't be restored. Returns the checkpoint that this concerns, and the next best one
    /// of which every rank has an image, unless a rollback there could give a wrong answer.
    fn next_best(&mut self, rank: Rank) -> Option<(Epoch, Epoch)> {
        let CentralPhase::Restoring(GlobalRestore {
            epoch: Some(from), ..
        }) = self.phase
        else {
            return None;
        };
        let to = self.mode.checkpoints_mut()?.not_restored(rank, from)?;
        self.mode.outlived(to).is_none().then_some((from, to))
    }

    /// A rank of a group that comes back alone can't be restored: the group comes back from files
    /// of an earlier checkpoint, if there are any.
    fn group_not_restored(
        &mut self,
        now: Time,
        failure: &Failure,
        why: &str,
        effects: &mut Vec<CentralEffect>,
    ) -> Option<()> {
        let rank = failure.instance.rank;
        let from = self.groups.committed(rank)?.epoch;
        let to = self.group_falls_back(rank, from, effects)?;
        self.losses.report(Event::FallsBack {
            rank,
            host: self.hosts.name(failure.host),
            from,
            why: why.to_owned(),
            to,
        });
        self.restore_group(now, rank, to, effects);
        Some(())
    }

    /// The response of the job to a failure.
    fn response(&mut self, now: Time, rank: Rank, cause: &Cause) -> Response {
        let progress = match self.phase {
            CentralPhase::Starting | CentralPhase::Restoring(_) => JobProgress::InInit,
            CentralPhase::Running | CentralPhase::Finalizing => JobProgress::Running,
            CentralPhase::Finalized => JobProgress::Finalized,
            CentralPhase::Resuming(_)
            | CentralPhase::Ending
            | CentralPhase::Relaunching(_)
            | CentralPhase::Over => {
                return Response::End(None);
            }
        };
        let is_over = self.end.interrupted().is_some() || self.end.verdict().is_some();
        if is_over || self.end.sent(cause).is_some() {
            return Response::End(None);
        }
        let of_group = self.groups.committed(rank).map(|last| last.epoch);
        let of_group = of_group.filter(|_| !self.omits(CentralOmission::OwnGroup));
        let of_group = of_group.map(|epoch| self.fitting(epoch));
        let of_group = match self.omits(CentralOmission::OwnCommit) {
            true => of_group.and(self.mode.checkpoints().and_then(|c| c.committed())),
            false => of_group,
        };

        let situation = Situation {
            now,
            progress,
            absent: self.ranks.has_absent(),
            is_any_away: self.groups.are_several() && self.ranks.is_any_away(),
            of_group,
        };
        self.mode.respond(&situation, rank, cause)
    }

    fn roll_back(
        &mut self,
        now: Time,
        rank: Rank,
        to: &Response,
        effects: &mut Vec<CentralEffect>,
    ) {
        match *to {
            Response::RollBack(epoch) => self.restore_all(now, epoch, effects),
            Response::RestoreOne(epoch) => self.restore_one(now, rank, epoch, effects),
            Response::RestoreGroup(epoch) => self.restore_group(now, rank, epoch, effects),
            Response::End(_) => {}
        }
    }

    /// Reports a masked failure to the user, before the recovery.
    fn lost(&mut self, failure: Failure, alone: bool) {
        let host = self.hosts.name(failure.host);
        self.losses.lost(failure.into_event(host, alone));
    }

    /// A failure is masked; unless the job rolls back already, it is the reason.
    pub(super) fn begin_rollback(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let others_stand = self.groups.are_several() && self.phase == CentralPhase::Running;
        match others_stand {
            true => self.interrupt_moves(effects),
            false => self.end_moves(now, "the job rolls back", effects),
        }
        if !matches!(self.phase, CentralPhase::Restoring(_)) {
            self.losses.begin();
        }
    }

    /// A rank can't be restored, and nothing else helps.
    fn not_restored(&mut self, now: Time, failure: Failure, effects: &mut Vec<CentralEffect>) {
        let due = now.plus_millis(END_BOUND);
        self.losses.cannot_be_restored(NotRestored { failure, due });
        self.end_if_not_restored(now, effects);
    }

    /// Ends the job if a rank can't be restored, once it is known how those exited for which
    /// that was tried.
    fn end_if_not_restored(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        if let Some(lost) = self.losses.settled_not_restored() {
            self.cannot_restore(now, lost, effects);
        }
    }

    /// The same, when the exits that are not known have been waited for long enough.
    pub(in crate::central) fn restore_tick(
        &mut self,
        now: Time,
        effects: &mut Vec<CentralEffect>,
    ) -> bool {
        match self.losses.overdue(now) {
            Some(lost) => self.cannot_restore(now, lost, effects),
            None => return false,
        }
        true
    }

    /// A rank can't be restored: the failure for which that was tried is the job's end.
    fn cannot_restore(&mut self, now: Time, lost: Failure, effects: &mut Vec<CentralEffect>) {
        match self.losses.reason().cloned() {
            Some(Event::Lost {
                rank,
                host,
                pid,
                cause,
                ..
            }) if self.end.interrupted().is_none() => {
                let why = match lost.cause {
                    Cause::NotStarted { why } | Cause::NotStopped { why } => why,
                    other => Described(&other).to_string(),
                };
                let refusal = Some(Refusal::NotRestored {
                    rank: lost.instance.rank,
                    host: self.hosts.name(lost.host),
                    why,
                });
                let verdict = Verdict::Failed {
                    rank,
                    host,
                    pid,
                    cause,
                    refusal,
                };
                self.decide(now, verdict, effects);
            }
            _ => self.is_end(now, lost, None, effects),
        }
    }

    /// The exit of a process is detected. The others must stop in any case. If a rollback is
    /// possible, it begins now. The exit status is judged when it is known.
    pub(in crate::central) fn exit_detected(
        &mut self,
        now: Time,
        host: HostIndex,
        instance: ProcessInstance,
        effects: &mut Vec<CentralEffect>,
    ) {
        if !self.ranks.failed(host, instance) {
            // One that the job has just rolled back because of another is to be named, too.
            if let Some(epoch) = self.rolled_back_to(instance) {
                self.losses.detect((instance, host), epoch, false);
            }
            return;
        }
        let cause = Cause::Ended {
            end: End::Unknown,
            stage: Stage::Registered,
        };
        // A refusal is said with the cause, when that is known.
        let response = self.response(now, instance.rank, &cause);
        let from = match response {
            Response::RollBack(from) | Response::RestoreOne(from) => from,
            Response::RestoreGroup(epoch) => Some(epoch),
            Response::End(_) => return,
        };
        self.begin_rollback(now, effects);
        self.losses.detect((instance, host), from, true);
        self.roll_back(now, instance.rank, &response, effects);
    }

    /// A process failed that the job has rolled back because of another.
    fn failed_too(&mut self, now: Time, failure: Failure, effects: &mut Vec<CentralEffect>) {
        if let Some(epoch) = self.rolled_back_to(failure.instance) {
            self.exited_too(now, failure, epoch, effects);
        }
    }

    /// The checkpoint to which the job has just rolled back, if this was a process of it then.
    fn rolled_back_to(&self, instance: ProcessInstance) -> Option<Option<Epoch>> {
        if self.groups.are_several() && self.ranks.was_replaced(instance) {
            let last = self.groups.committed(instance.rank)?;
            return Some(Some(last.epoch));
        }
        let CentralPhase::Restoring(GlobalRestore { epoch, .. }) = self.phase else {
            return None;
        };
        let last = self.ranks.was_rolled_back(instance);
        last.then_some(epoch)
    }

    /// The status of an exit that was detected is known.
    pub(in crate::central) fn exit_status(
        &mut self,
        now: Time,
        failure: Failure,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Failure { instance, host, .. } = failure;
        match self.losses.status_known(instance) {
            Some((from, true)) => self.confirm(now, failure, from, effects),
            Some((from, false)) => self.exited_too(now, failure, from, effects),
            // Nothing was done for it: ranks may not roll back, or do so for another.
            None if self.ranks.is_current(instance) => self.failed(now, failure, effects),
            None => {}
        }
        self.acknowledge(host, instance, effects);
    }

    /// Ranks roll back for this exit already: either it is a failure, or it ends the job after all.
    fn confirm(
        &mut self,
        now: Time,
        failure: Failure,
        from: Option<Epoch>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let instance = failure.instance;
        if self.end.sent(&failure.cause).is_some() {
            return self.is_end(now, failure, None, effects);
        }
        // Another checkpoint may be committed by now.
        if let Err(refusal) = self.mode.confirm(instance.rank, &failure.cause, from) {
            let refusal = (refusal != Refusal::Meant).then_some(refusal);
            return self.is_end(now, failure, refusal, effects);
        }
        // No generation has begun for one that comes back alone.
        let alone = instance.generation == self.ranks.generation();
        self.lost(failure, alone);
        self.store_history(effects);
        self.report_losses(effects);
        self.end_if_not_restored(now, effects);
    }

    /// The same for one that exited while ranks rolled back for another. An exit by its own will
    /// would have been an end; it comes again after the rollback.
    fn exited_too(
        &mut self,
        now: Time,
        failure: Failure,
        from: Option<Epoch>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let rank = failure.instance.rank;
        if self.end.sent(&failure.cause).is_some() {
            // It does not come again: the signal was sent to the processes before the rollback.
            return self.is_end(now, failure, None, effects);
        }
        match self.mode.confirm(rank, &failure.cause, from) {
            Ok(()) => {
                self.lost(failure, false);
                self.store_history(effects);
            }
            Err(Refusal::Meant) => {}
            Err(refusal) => return self.is_end(now, failure, Some(refusal), effects),
        }
        self.report_losses(effects);
    }

    /// Its local manager may forget this exit: it is stored.
    fn acknowledge(
        &self,
        host: HostIndex,
        instance: ProcessInstance,
        effects: &mut Vec<CentralEffect>,
    ) {
        if self.phase != CentralPhase::Ending {
            effects.push(CentralEffect::Send(
                host,
                ToLocal::Acknowledged { instance },
            ));
        }
    }

    /// The history on which the next failure is judged.
    pub(super) fn memory(&self) -> FailureHistory {
        FailureHistory {
            history: self.mode.history(),
            losses: self.losses.stored(),
        }
    }

    fn store_history(&self, effects: &mut Vec<CentralEffect>) {
        let memory = Box::new(self.memory());
        effects.push(CentralEffect::Persist(Record::Memory(memory)));
    }

    /// Reports the events that were held back until every exit status was known.
    pub(in crate::central) fn report_losses(&mut self, effects: &mut Vec<CentralEffect>) {
        effects.extend(
            self.losses
                .take_reports()
                .into_iter()
                .map(CentralEffect::Event),
        );
    }

    /// A failure that is not masked ends the job. After the release from `MPI_Finalize`, the other
    /// ranks end by themselves.
    fn is_end(
        &mut self,
        now: Time,
        failure: Failure,
        refusal: Option<Refusal>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Failure { instance, host, .. } = failure;
        // An aborting rank requests the end of all ranks, and waits for its own.
        let alone = matches!(failure.cause, Cause::Ended { .. });
        let verdict = match self.end.sent(&failure.cause) {
            Some(signal) => Verdict::Interrupted { signal },
            None => failure.into_verdict(self.hosts.name(host), refusal),
        };
        if self.phase != CentralPhase::Finalized || !alone {
            return self.decide(now, verdict, effects);
        }
        // They may still have output to write.
        self.end.settle(verdict, effects);
        let instance = self.ranks.instance(instance.rank);
        effects.push(CentralEffect::Send(host, ToLocal::Release { instance }));
    }
}
