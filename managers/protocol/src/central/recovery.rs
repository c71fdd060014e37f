//! Failures: judged, and masked by going back to the last checkpoint.

use super::{Central, Effect, Event, HostIndex, Memory, Phase, Record};
use crate::control::{Cause, End, Life, Stage, Time, ToLocal};
use crate::policy::Refusal;
use crate::verdict::Verdict;
use rejoin_channel_table::{Epoch, Generation, Rank};

/// Ranks are being taken back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Restoring {
    /// To which checkpoint; `None`: to the start.
    pub epoch: Option<Epoch>,
    /// When the first failure was heard of: others may follow before all are back.
    pub since: Time,
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
        match self.masks(now, rank, &cause) {
            Ok(epoch) => {
                self.lost(rank, host, pid, cause, self.generation.next());
                if self.phase == Phase::Finalized {
                    self.restore_one(rank, epoch, effects);
                } else {
                    self.restore_all(now, epoch, effects);
                }
                self.tell_of_recovery(effects);
            }
            Err(refusal) => self.is_end(now, rank, host, pid, cause, refusal, effects),
        }
    }

    /// What is told of a failure that is masked, before that of the recovery.
    fn lost(
        &mut self,
        rank: Rank,
        host: HostIndex,
        pid: u32,
        cause: Cause,
        generation: Generation,
    ) {
        let lost = Event::Lost {
            rank,
            host: self.hosts[host].name.clone(),
            pid,
            cause,
            generation,
        };
        self.untold.insert(0, lost);
    }

    /// A process has begun to end. The others must stop in any case; if the job may go back, it does so
    /// now, and how the process ended is looked at when it is known.
    pub(super) fn dying(&mut self, now: Time, life: Life, effects: &mut Vec<Effect>) {
        let cause = Cause::Ended {
            end: End::Unknown,
            stage: Stage::Registered,
        };
        let finalized = self.phase == Phase::Finalized;
        if let Some(rank) = self.ranks.get_mut(life.rank.index()) {
            rank.ended = true;
        }
        // A refusal is said with the cause, when that is known.
        if let Ok(epoch) = self.masks(now, life.rank, &cause) {
            self.dying.push((life, epoch));
            if finalized {
                self.restore_one(life.rank, epoch, effects);
            } else {
                self.restore_all(now, epoch, effects);
            }
        }
    }

    /// It is known how a process ended that had begun to.
    pub(super) fn buried(
        &mut self,
        now: Time,
        life: Life,
        host: HostIndex,
        pid: u32,
        cause: Cause,
        effects: &mut Vec<Effect>,
    ) {
        let Some(at) = self.dying.iter().position(|(dying, _)| *dying == life) else {
            // Nothing was done for it: the job may not go back, or does so for another.
            let current = self.ranks.get(life.rank.index());
            let same = current.is_some_and(|r| {
                r.incarnation == life.incarnation && life.generation == self.generation
            });
            if same {
                self.failed(now, life.rank, host, pid, cause, effects);
            }
            return self.note(host, life, effects);
        };
        // Another checkpoint may be committed by now.
        let (_, from) = self.dying.swap_remove(at);
        if let Err(refusal) = self.history.confirm(life.rank, &cause, from) {
            let refusal = (refusal != Refusal::Meant).then_some(refusal);
            self.is_end(now, life.rank, host, pid, cause, refusal, effects);
            return self.note(host, life, effects);
        }
        self.lost(life.rank, host, pid, cause, life.generation.next());
        effects.push(Effect::Persist(Record::Memory(self.memory())));
        self.tell_of_recovery(effects);
        self.note(host, life, effects);
    }

    /// The local manager need not remember this end any longer.
    fn note(&self, host: HostIndex, life: Life, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Ending {
            effects.push(Effect::Send(host, ToLocal::Noted { life }));
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
        }
    }

    /// Tells what was held back until all ends are known.
    pub(super) fn tell_of_recovery(&mut self, effects: &mut Vec<Effect>) {
        if self.dying.is_empty() {
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
            Err(Refusal::Meant) => Err(None),
            Err(refusal) => Err(Some(refusal)),
        }
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
        let life = Life {
            generation: self.generation,
            rank,
            incarnation: self.ranks[rank.index()].incarnation,
        };
        effects.push(Effect::Send(host, ToLocal::Release { life }));
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
    fn restore_one(&mut self, rank: Rank, epoch: Option<Epoch>, effects: &mut Vec<Effect>) {
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
    pub(super) fn start_alone(&mut self, rank: Rank, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Finalized {
            return;
        }
        let cards = self
            .ranks
            .iter()
            .map(|r| Some((r.incarnation, r.card.clone()?)));
        if let Some(table) = cards.collect::<Option<Vec<_>>>() {
            let start = ToLocal::Start {
                generation: self.generation,
                table,
                image: None,
            };
            effects.push(Effect::Send(self.ranks[rank.index()].host, start));
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
        let Some(checkpoints) = &self.checkpoints else {
            return;
        };
        let from = match restoring.epoch {
            Some(_) => checkpoints.committed_at().0,
            None => 0,
        };
        self.untold.push(Event::Recovered {
            generation: self.generation,
            epoch: restoring.epoch,
            took: now.0.saturating_sub(restoring.since.0),
            repeated: restoring.since.0.saturating_sub(from),
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
