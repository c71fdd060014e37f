//! Failures: judged, and masked by going back to the last checkpoint.

use super::{Central, END_BOUND, Effect, Event, HostIndex, Memory, Phase, Record};
use crate::control::{Cause, End, ProcessInstance, Stage, Time, ToLocal};
use crate::policy::{self, Refusal};
use crate::verdict::{Described, Verdict};
use rejoin_channel_table::{Epoch, Generation, Incarnation, Rank};

/// Ranks are being taken back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Restoring {
    /// To which checkpoint; `None`: to the start.
    pub epoch: Option<Epoch>,
    /// When the first failure was heard of: others may follow before all are back.
    pub since: Time,
}

/// A rank that could not be brought back, until it is known how those ended for which the job went back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NotBack {
    rank: Rank,
    host: HostIndex,
    pid: u32,
    cause: Cause,
    /// Waited for no longer.
    pub due: Time,
}

impl Central {
    /// A rank failed: either the job goes back, or this is its verdict.
    pub(super) fn failed(
        &mut self,
        now: Time,
        rank: Rank,
        host: HostIndex,
        pid: u32,
        cause: Cause,
        effects: &mut Vec<Effect>,
    ) {
        if matches!(cause, Cause::NotStarted { .. }) && self.checkpoints.is_some() {
            let due = now.plus_millis(END_BOUND);
            let lost = NotBack {
                rank,
                host,
                pid,
                cause,
                due,
            };
            if self.dying.is_empty() {
                self.is_not_back(now, lost, effects);
            } else {
                self.not_back.get_or_insert(lost);
            }
            return;
        }
        match self.masks(now, rank, &cause) {
            Ok(epoch) => {
                self.begins_to_go_back();
                let alone = self.phase == Phase::Finalized;
                self.lost((self.generation, rank), host, pid, cause, alone);
                if alone {
                    self.restore_one(now, rank, epoch, effects);
                } else {
                    self.restore_all(now, epoch, effects);
                }
                self.tell_of_recovery(effects);
            }
            Err(refusal) => self.is_end(now, rank, host, pid, cause, refusal, effects),
        }
    }

    /// What is told of a failure in this generation that is masked, before that of the recovery.
    fn lost(
        &mut self,
        (generation, rank): (Generation, Rank),
        host: HostIndex,
        pid: u32,
        cause: Cause,
        alone: bool,
    ) {
        let lost = Event::Lost {
            rank,
            host: self.hosts[host].name.clone(),
            pid,
            cause,
            generation: if alone { generation } else { generation.next() },
            alone,
        };
        self.reason.get_or_insert(lost.clone());
        self.untold.insert(0, lost);
    }

    /// A failure is masked; unless the job goes back already, it is the reason.
    fn begins_to_go_back(&mut self) {
        if !matches!(self.phase, Phase::Restoring(_)) {
            self.reason = None;
        }
    }

    /// A rank can't be brought back: the failure for which that was tried is the job's end.
    pub(super) fn is_not_back(&mut self, now: Time, lost: NotBack, effects: &mut Vec<Effect>) {
        match self.reason.clone() {
            Some(Event::Lost {
                rank,
                host,
                pid,
                cause,
                ..
            }) if self.interrupted.is_none() => {
                let why = match lost.cause {
                    Cause::NotStarted { why } => why,
                    other => Described(&other).to_string(),
                };
                let refusal = Some(Refusal::NotBack {
                    rank: lost.rank,
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

    /// A process has begun to end. The others must stop in any case; if the job may go back, it does so
    /// now, and how the process ended is looked at when it is known.
    pub(super) fn dying(
        &mut self,
        now: Time,
        host: HostIndex,
        instance: ProcessInstance,
        effects: &mut Vec<Effect>,
    ) {
        if self.find(host, instance).is_none() {
            return self.dying_too(host, instance);
        }
        let cause = Cause::Ended {
            end: End::Unknown,
            stage: Stage::Registered,
        };
        let finalized = self.phase == Phase::Finalized;
        if let Some(rank) = self.ranks.get_mut(instance.rank.index()) {
            rank.ended = true;
        }
        // A refusal is said with the cause, when that is known.
        if let Ok(epoch) = self.masks(now, instance.rank, &cause) {
            self.begins_to_go_back();
            self.dying.push((instance, epoch));
            if finalized {
                self.restore_one(now, instance.rank, epoch, effects);
            } else {
                self.restore_all(now, epoch, effects);
            }
        }
    }

    /// A process has begun to end that the job has just taken back because of another: it is to be named too.
    fn dying_too(&mut self, host: HostIndex, instance: ProcessInstance) {
        let known = |(other, _): &(ProcessInstance, _)| *other == instance;
        let first = self.dying.iter().any(known) || self.others.iter().any(known);
        if let Some(epoch) = self.taken_back(host, instance).filter(|_| !first) {
            self.others.push((instance, epoch));
        }
    }

    /// The same for one of which it is known at once how it ended.
    pub(super) fn failed_too(
        &mut self,
        now: Time,
        instance: ProcessInstance,
        host: HostIndex,
        failure: (u32, Cause),
        effects: &mut Vec<Effect>,
    ) {
        if let Some(epoch) = self.taken_back(host, instance) {
            self.buried_too(now, instance, host, failure, epoch, effects);
        }
    }

    /// To where the job has just gone back, if this was a process of it then.
    fn taken_back(&self, host: HostIndex, instance: ProcessInstance) -> Option<Option<Epoch>> {
        let Phase::Restoring(Restoring { epoch, .. }) = self.phase else {
            return None;
        };
        let rank = self.ranks.get(instance.rank.index())?;
        let last = instance.generation.next() == self.generation
            && instance.incarnation.next() == rank.incarnation;
        (last && rank.host == host).then_some(epoch)
    }

    /// It is known how a process ended that had begun to.
    pub(super) fn buried(
        &mut self,
        now: Time,
        instance: ProcessInstance,
        host: HostIndex,
        pid: u32,
        cause: Cause,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(at) = self.others.iter().position(|(other, _)| *other == instance) {
            let (_, from) = self.others.swap_remove(at);
            self.buried_too(now, instance, host, (pid, cause), from, effects);
            return self.note(host, instance, effects);
        }
        let Some(at) = self.dying.iter().position(|(dying, _)| *dying == instance) else {
            // Nothing was done for it: the job may not go back, or does so for another.
            let current = self.ranks.get(instance.rank.index());
            let same = current.is_some_and(|r| {
                r.incarnation == instance.incarnation && instance.generation == self.generation
            });
            if same {
                self.failed(now, instance.rank, host, pid, cause, effects);
            }
            return self.note(host, instance, effects);
        };
        // Another checkpoint may be committed by now.
        let (_, from) = self.dying.swap_remove(at);
        if let Err(refusal) = self.history.confirm(instance.rank, &cause, from) {
            let refusal = (refusal != Refusal::Meant).then_some(refusal);
            self.is_end(now, instance.rank, host, pid, cause, refusal, effects);
            return self.note(host, instance, effects);
        }
        // No generation has begun for one that comes back alone.
        let alone = instance.generation == self.generation;
        self.lost(
            (instance.generation, instance.rank),
            host,
            pid,
            cause,
            alone,
        );
        effects.push(Effect::Persist(Record::Memory(self.memory())));
        self.tell_of_recovery(effects);
        if self.dying.is_empty()
            && let Some(lost) = self.not_back.take()
        {
            self.is_not_back(now, lost, effects);
        }
        self.note(host, instance, effects);
    }

    /// The same for one that ended while the job went back for another. An exit would have been an end; it comes
    /// again where the job has gone back to.
    fn buried_too(
        &mut self,
        now: Time,
        instance: ProcessInstance,
        host: HostIndex,
        (pid, cause): (u32, Cause),
        from: Option<Epoch>,
        effects: &mut Vec<Effect>,
    ) {
        match self.history.confirm(instance.rank, &cause, from) {
            Ok(()) => {
                self.lost(
                    (instance.generation, instance.rank),
                    host,
                    pid,
                    cause,
                    false,
                );
                effects.push(Effect::Persist(Record::Memory(self.memory())));
            }
            Err(Refusal::Meant) => {}
            Err(refusal) => {
                return self.is_end(now, instance.rank, host, pid, cause, Some(refusal), effects);
            }
        }
        self.tell_of_recovery(effects);
    }

    /// The local manager need not remember this end any longer.
    fn note(&self, host: HostIndex, instance: ProcessInstance, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Ending {
            effects.push(Effect::Send(host, ToLocal::Acknowledged { instance }));
        }
    }

    /// What the next failure is judged by.
    fn memory(&self) -> Memory {
        Memory {
            history: self.history.clone(),
            anew: self.anew,
            dying: self.dying.clone(),
            since: self.since,
            untold: self.untold.clone(),
            reason: self.reason.clone(),
        }
    }

    /// Tells what was held back until all ends are known.
    pub(super) fn tell_of_recovery(&mut self, effects: &mut Vec<Effect>) {
        if self.dying.is_empty() && self.others.is_empty() {
            effects.extend(self.untold.drain(..).map(Effect::Event));
        }
    }

    /// Whether a failure is masked, and by which checkpoint.
    fn masks(
        &mut self,
        now: Time,
        rank: Rank,
        cause: &Cause,
    ) -> Result<Option<Epoch>, Option<Refusal>> {
        let over = matches!(self.phase, Phase::Ending | Phase::Over);
        let Some(checkpoints) = &self.checkpoints else {
            return Err(None);
        };
        if over || self.interrupted.is_some() || self.verdict.is_some() {
            return Err(None);
        }
        let committed = checkpoints.committed();
        if self.phase == Phase::Finalized && committed != self.last {
            // Alone, a rank can only come back into MPI_Finalize.
            return Err(Some(Refusal::NoCheckpoint));
        }
        match self.history.judge(now, rank, cause, committed) {
            Ok(()) => Ok(committed),
            Err(Refusal::NoCheckpoint) if !self.anew && self.first_is_open() => {
                self.history.admit(now).map_err(Some)?;
                self.anew = true;
                Ok(None)
            }
            Err(Refusal::Meant) if !self.anew && self.is_before_init(cause) => {
                self.history.admit(now).map_err(Some)?;
                self.anew = true;
                Ok(None)
            }
            Err(Refusal::Meant) => Err(None),
            Err(refusal) => Err(Some(refusal)),
        }
    }

    /// A process was killed before it had called `MPI_Init`, in a job of which another has: it is known what they
    /// are, and none of them has left `MPI_Init`.
    fn is_before_init(&self, cause: &Cause) -> bool {
        self.phase == Phase::Starting
            && policy::is_killed_before_init(cause)
            && self.ranks.iter().any(|r| r.stage >= Stage::Registered)
    }

    /// Nothing but `MPI_Init` can have happened: the first checkpoint is to come.
    fn first_is_open(&self) -> bool {
        match self.phase {
            Phase::Starting | Phase::Restoring(_) => true,
            Phase::Running | Phase::Finalizing => self
                .checkpoints
                .as_ref()
                .is_some_and(|c| c.ordered().is_some()),
            _ => false,
        }
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
        effects: &mut Vec<Effect>,
    ) {
        let by_signal = match (&cause, self.interrupted) {
            (
                Cause::Ended {
                    end: End::Signaled(signal),
                    ..
                },
                Some(sent),
            ) => *signal == sent,
            _ => false,
        };
        // Who aborts asks for everyone's end, and waits for its own.
        let alone = matches!(cause, Cause::Ended { .. });
        let verdict = match self.interrupted {
            Some(signal) if by_signal => Verdict::Interrupted { signal },
            _ => Verdict::Failed {
                rank,
                host: self.hosts[host].name.clone(),
                pid,
                cause,
                refusal,
            },
        };
        if self.phase != Phase::Finalized || !alone {
            return self.decide(now, verdict, effects);
        }
        // After MPI_Finalize the others may still have output to write: they end by themselves.
        self.settle(verdict, effects);
        let instance = ProcessInstance {
            generation: self.generation,
            rank,
            incarnation: self.ranks[rank.index()].incarnation,
        };
        effects.push(Effect::Send(host, ToLocal::Release { instance }));
    }

    /// A new generation: every rank goes back to the last checkpoint.
    fn restore_all(&mut self, now: Time, epoch: Option<Epoch>, effects: &mut Vec<Effect>) {
        let since = match &self.phase {
            Phase::Restoring(restoring) => restoring.since,
            _ => now,
        };
        self.generation = self.generation.next();
        let burnt = self.checkpoints.as_mut().and_then(|c| c.rolled_back());
        for rank in &mut self.ranks {
            rank.back();
        }
        self.since = since;
        // It is tried again.
        self.not_back = None;
        self.phase = Phase::Restoring(Restoring { epoch, since });
        self.last = None;
        self.store_restoring(epoch, effects);
        let generation = self.generation;
        (self.absent, self.complete) = (None, 0);
        for (host, ranks) in self.ranks_by_host().into_iter().enumerate() {
            if !ranks.is_empty() && !self.hosts[host].done {
                let order = ToLocal::Restore {
                    generation,
                    epoch,
                    ranks,
                };
                effects.push(Effect::Send(host, order));
            }
        }
        if let Some(burnt) = burnt {
            self.keep(burnt, effects);
        }
    }

    /// After the last checkpoint no rank needs another: only this one comes back.
    fn restore_one(
        &mut self,
        now: Time,
        rank: Rank,
        epoch: Option<Epoch>,
        effects: &mut Vec<Effect>,
    ) {
        // It may fail again on its way.
        self.alone.entry(rank).or_insert(now);
        self.since = now;
        let state = &mut self.ranks[rank.index()];
        // Nothing is sent any more; others that come back alone must not wait for this one.
        let card = state.card.take();
        state.back();
        state.card = card;
        let (host, incarnation) = (state.host, state.incarnation);
        self.store_restoring(epoch, effects);
        let order = ToLocal::Restore {
            generation: self.generation,
            epoch,
            ranks: vec![(rank, incarnation)],
        };
        effects.push(Effect::Send(host, order));
    }

    fn store_restoring(&self, epoch: Option<Epoch>, effects: &mut Vec<Effect>) {
        effects.push(Effect::Persist(Record::Restoring {
            generation: self.generation,
            epoch,
            incarnations: self.ranks.iter().map(|r| r.incarnation).collect(),
            memory: self.memory(),
        }));
    }

    /// A rank that comes back alone gets the table at once.
    pub(super) fn start_alone(&mut self, now: Time, rank: Rank, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Finalized {
            return;
        }
        let cards = self
            .ranks
            .iter()
            .map(|r| Some((r.incarnation, r.card.clone()?)));
        let Some(table) = cards.collect::<Option<Vec<_>>>() else {
            return;
        };
        let state = &self.ranks[rank.index()];
        let (host, incarnation) = (state.host, state.incarnation);
        let start = ToLocal::Start {
            generation: self.generation,
            table,
            image: None,
        };
        effects.push(Effect::Send(host, start));
        if let Some(since) = self.alone.remove(&rank) {
            let epoch = self.last;
            self.tell_back(now, epoch, since, Some((rank, incarnation)), effects);
        }
    }

    /// Central was started again: these are coming back alone.
    pub(super) fn alone_again(&mut self, waiting: &[Rank]) {
        for (rank, state) in (0u32..).map(Rank).zip(&self.ranks) {
            let begins = state.stage == Stage::Spawned && !state.ended;
            if begins || waiting.contains(&rank) {
                self.alone.insert(rank, self.since);
            }
        }
    }

    /// A rank that comes back alone finds that all were let go.
    pub(super) fn let_go_alone(&mut self, rank: Rank, effects: &mut Vec<Effect>) {
        let generation = self.generation;
        let host = self.ranks[rank.index()].host;
        effects.push(Effect::Send(host, ToLocal::AllFinalized { generation }));
    }

    /// Every rank is back.
    pub(super) fn recovered(
        &mut self,
        now: Time,
        restoring: &Restoring,
        effects: &mut Vec<Effect>,
    ) {
        let Some(checkpoints) = &mut self.checkpoints else {
            return;
        };
        checkpoints.run_again(now);
        self.tell_recovered(now, restoring, effects);
    }

    /// Says so, once it is known how everyone ended.
    pub(super) fn tell_recovered(
        &mut self,
        now: Time,
        restoring: &Restoring,
        effects: &mut Vec<Effect>,
    ) {
        self.tell_back(now, restoring.epoch, restoring.since, None, effects);
    }

    fn tell_back(
        &mut self,
        now: Time,
        epoch: Option<Epoch>,
        since: Time,
        alone: Option<(Rank, Incarnation)>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(checkpoints) = &self.checkpoints else {
            return;
        };
        let from = epoch.map_or(self.began, |_| checkpoints.committed_at()).0;
        self.untold.push(Event::Recovered {
            generation: self.generation,
            alone,
            epoch,
            took: now.0.saturating_sub(since.0),
            repeated: since.0.saturating_sub(from),
        });
        self.tell_of_recovery(effects);
    }
}

impl super::RankState {
    /// The next incarnation, of which nothing is known yet.
    fn back(&mut self) {
        self.incarnation = self.incarnation.next();
        self.stage = Stage::Spawned;
        self.pid = 0;
        self.card = None;
        self.ended = false;
    }
}
