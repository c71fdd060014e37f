//! Failures as local managers tell of them: judged by the mode, told, and acknowledged.

use super::phases::GlobalRestore;
use super::response::{JobProgress, Response, Situation};
use crate::central::event::Event;
use crate::central::job_end::END_BOUND;
use crate::central::job_state::Central;
use crate::central::losses::NotBack;
use crate::central::messages::{CentralEffect, FailureHistory, HostIndex, Record};
use crate::central::phase::CentralPhase;
use crate::control::{Cause, End, ProcessInstance, Stage, Time, ToLocal};
use crate::policy::Refusal;
use crate::verdict::{Described, Verdict};
use rejoin_channel_table::{Epoch, Generation, Rank};

impl Central {
    /// A rank failed: either ranks roll back, or the failure is the job's verdict.
    pub(in crate::central) fn failed(
        &mut self,
        now: Time,
        rank: Rank,
        host: HostIndex,
        pid: u32,
        cause: Cause,
        effects: &mut Vec<CentralEffect>,
    ) {
        if matches!(cause, Cause::NotStarted { .. }) && self.mode.recovers() {
            self.losses.cannot_return(NotBack {
                rank,
                host,
                pid,
                cause,
                due: now.plus_millis(END_BOUND),
            });
            return self.end_if_not_back(now, effects);
        }
        match self.response(now, rank, &cause) {
            Response::End(refusal) => self.is_end(now, rank, host, pid, cause, refusal, effects),
            response => {
                self.begins_to_go_back();
                let alone = matches!(response, Response::RestoreOne(_));
                self.lost((self.ranks.generation(), rank), host, pid, cause, alone);
                self.go_back(now, rank, &response, effects);
                self.tell_of_recovery(effects);
            }
        }
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
        if self.end.interrupted().is_some() || self.end.verdict().is_some() {
            return Response::End(None);
        }
        let situation = Situation {
            now,
            progress,
            absent: self.ranks.has_absent(),
        };
        self.mode.respond(&situation, rank, cause)
    }

    fn go_back(&mut self, now: Time, rank: Rank, to: &Response, effects: &mut Vec<CentralEffect>) {
        match *to {
            Response::RollBack(epoch) => self.restore_all(now, epoch, effects),
            Response::RestoreOne(epoch) => self.restore_one(now, rank, epoch, effects),
            Response::End(_) => {}
        }
    }

    /// Reports a masked failure in this generation to the user, before the recovery.
    fn lost(
        &mut self,
        (generation, rank): (Generation, Rank),
        host: HostIndex,
        pid: u32,
        cause: Cause,
        alone: bool,
    ) {
        self.losses.lost(Event::Lost {
            rank,
            host: self.hosts.name(host),
            pid,
            cause,
            generation: if alone { generation } else { generation.next() },
            alone,
        });
    }

    /// A failure is masked; unless the job rolls back already, it is the reason.
    fn begins_to_go_back(&mut self) {
        if !matches!(self.phase, CentralPhase::Restoring(_)) {
            self.losses.begin();
        }
    }

    /// Ends the job if a rank can't be brought back, once it is known how those exited for which
    /// that was tried.
    fn end_if_not_back(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        if let Some(lost) = self.losses.settled_not_back() {
            self.is_not_back(now, lost, effects);
        }
    }

    /// The same, when the exits that are not known have been waited for long enough.
    pub(in crate::central) fn not_back_tick(
        &mut self,
        now: Time,
        effects: &mut Vec<CentralEffect>,
    ) -> bool {
        match self.losses.overdue(now) {
            Some(lost) => self.is_not_back(now, lost, effects),
            None => return false,
        }
        true
    }

    /// A rank can't be brought back: the failure for which that was tried is the job's end.
    fn is_not_back(&mut self, now: Time, lost: NotBack, effects: &mut Vec<CentralEffect>) {
        match self.losses.reason().cloned() {
            Some(Event::Lost {
                rank,
                host,
                pid,
                cause,
                ..
            }) if self.end.interrupted().is_none() => {
                let why = match lost.cause {
                    Cause::NotStarted { why } => why,
                    other => Described(&other).to_string(),
                };
                let refusal = Some(Refusal::NotBack {
                    rank: lost.rank,
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
            _ => {
                let NotBack {
                    rank,
                    host,
                    pid,
                    cause,
                    ..
                } = lost;
                self.is_end(now, rank, host, pid, cause, None, effects);
            }
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
            if let Some(epoch) = self.taken_back(host, instance) {
                self.losses.detect(instance, epoch, false);
            }
            return;
        }
        let cause = Cause::Ended {
            end: End::Unknown,
            stage: Stage::Registered,
        };
        // A refusal is said with the cause, when that is known.
        let response = self.response(now, instance.rank, &cause);
        if let Response::RollBack(from) | Response::RestoreOne(from) = response {
            self.begins_to_go_back();
            self.losses.detect(instance, from, true);
            self.go_back(now, instance.rank, &response, effects);
        }
    }

    /// A process failed that the job has rolled back because of another.
    pub(in crate::central) fn failed_too(
        &mut self,
        now: Time,
        instance: ProcessInstance,
        host: HostIndex,
        failure: (u32, Cause),
        effects: &mut Vec<CentralEffect>,
    ) {
        if let Some(epoch) = self.taken_back(host, instance) {
            self.exited_too(now, instance, host, failure, epoch, effects);
        }
    }

    /// To where the job has just gone back, if this was a process of it then.
    fn taken_back(&self, host: HostIndex, instance: ProcessInstance) -> Option<Option<Epoch>> {
        let CentralPhase::Restoring(GlobalRestore { epoch, .. }) = self.phase else {
            return None;
        };
        let last = self.ranks.was_rolled_back(host, instance);
        last.then_some(epoch)
    }

    /// The status of an exit that was detected is known.
    pub(in crate::central) fn exit_status(
        &mut self,
        now: Time,
        instance: ProcessInstance,
        host: HostIndex,
        (pid, cause): (u32, Cause),
        effects: &mut Vec<CentralEffect>,
    ) {
        match self.losses.status_known(instance) {
            Some((from, true)) => self.confirm(now, instance, host, (pid, cause), from, effects),
            Some((from, false)) => {
                self.exited_too(now, instance, host, (pid, cause), from, effects);
            }
            // Nothing was done for it: ranks may not roll back, or do so for another.
            None if self.ranks.is_current(instance) => {
                self.failed(now, instance.rank, host, pid, cause, effects);
            }
            None => {}
        }
        self.acknowledge(host, instance, effects);
    }

    /// Ranks roll back for this exit already: either it is a failure, or it ends the job after all.
    fn confirm(
        &mut self,
        now: Time,
        instance: ProcessInstance,
        host: HostIndex,
        (pid, cause): (u32, Cause),
        from: Option<Epoch>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let rank = instance.rank;
        // Another checkpoint may be committed by now.
        if let Err(refusal) = self.mode.confirm(rank, &cause, from) {
            let refusal = (refusal != Refusal::Meant).then_some(refusal);
            return self.is_end(now, rank, host, pid, cause, refusal, effects);
        }
        // No generation has begun for one that comes back alone.
        let alone = instance.generation == self.ranks.generation();
        self.lost((instance.generation, rank), host, pid, cause, alone);
        effects.push(CentralEffect::Persist(Record::Memory(Box::new(
            self.memory(),
        ))));
        self.tell_of_recovery(effects);
        self.end_if_not_back(now, effects);
    }

    /// The same for one that exited while ranks rolled back for another. An exit by its own will
    /// would have been an end; it comes again where the job has gone back to.
    fn exited_too(
        &mut self,
        now: Time,
        instance: ProcessInstance,
        host: HostIndex,
        (pid, cause): (u32, Cause),
        from: Option<Epoch>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let rank = instance.rank;
        match self.mode.confirm(rank, &cause, from) {
            Ok(()) => {
                self.lost((instance.generation, rank), host, pid, cause, false);
                effects.push(CentralEffect::Persist(Record::Memory(Box::new(
                    self.memory(),
                ))));
            }
            Err(Refusal::Meant) => {}
            Err(refusal) => {
                return self.is_end(now, rank, host, pid, cause, Some(refusal), effects);
            }
        }
        self.tell_of_recovery(effects);
    }

    /// The local manager need not keep this exit any longer.
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

    /// Reports the events that were held back until every exit status was known.
    pub(in crate::central) fn tell_of_recovery(&mut self, effects: &mut Vec<CentralEffect>) {
        effects.extend(self.losses.told().into_iter().map(CentralEffect::Event));
    }

    #[expect(clippy::too_many_arguments, reason = "what is known of a failure")]
    fn is_end(
        &mut self,
        now: Time,
        rank: Rank,
        host: HostIndex,
        pid: u32,
        cause: Cause,
        refusal: Option<Refusal>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let by_signal = match (&cause, self.end.interrupted()) {
            (
                Cause::Ended {
                    end: End::Signaled(signal),
                    ..
                },
                Some(sent),
            ) => *signal == sent,
            _ => false,
        };
        // An aborting rank requests the end of all ranks, and waits for its own.
        let alone = matches!(cause, Cause::Ended { .. });
        let verdict = match self.end.interrupted() {
            Some(signal) if by_signal => Verdict::Interrupted { signal },
            _ => Verdict::Failed {
                rank,
                host: self.hosts.name(host),
                pid,
                cause,
                refusal,
            },
        };
        if self.phase != CentralPhase::Finalized || !alone {
            return self.decide(now, verdict, effects);
        }
        // After MPI_Finalize the others may still have output to write: they end by themselves.
        self.end.settle(verdict, effects);
        let instance = self.ranks.instance(rank);
        effects.push(CentralEffect::Send(host, ToLocal::Release { instance }));
    }
}
