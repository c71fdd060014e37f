//! Ranks roll back: the present processes retire, and when all of them have, images take over.
//!
//! No new process sends before all old ones are stopped. A process that was stopped in the middle
//! of a write must not end that write beside its successor.

use super::host_rollback::LocalRestore;
use super::host_state::Local;
use super::inputs::LocalEffect;
use super::instance_state::InstanceState;
use super::rank_process::RankProcess;
use super::recovery_wait::{Awaited, WaitDuty};
use crate::manager_messages::{Cause, MovedRank, ProcessInstance, ProcessMessage, Time, ToCentral};
use rejoin_channel_table::{Generation, ImageId, Incarnation, Rank};

impl Local {
    /// Central's order. One that comes before the last was carried out replaces it.
    pub(super) fn restore(
        &mut self,
        now: Time,
        generation: Generation,
        (from, mut ranks): (Option<ImageId>, Vec<(Rank, Incarnation)>),
        moved: Vec<MovedRank>,
        effects: &mut Vec<LocalEffect>,
    ) {
        // One that came before, from a central manager that has died since.
        ranks.retain(|(rank, incarnation)| self.ordered(*rank) < Some(*incarnation));
        if ranks.is_empty() {
            return;
        }
        self.take_in(moved, (from, &ranks), effects);
        // Others that come back alone, too, do so still.
        let adds = generation == self.processes.generation();
        if !adds {
            self.images.forget_groups();
        }
        self.processes.enter(generation);
        for (rank, _) in &ranks {
            // What is loaded is used, or a vacated rank drops it.
            self.moves.unload(*rank);
            self.drop_images_of_move(*rank, effects);
            if let Some(process) = self.processes.of_mut(*rank) {
                process.set_leaves_host(false);
                if process.state_mut().retire(now) {
                    let ProcessInstance {
                        rank, incarnation, ..
                    } = process.instance();
                    effects.push(LocalEffect::Retire(rank, incarnation));
                }
            }
        }
        let ordered = ranks.into_iter().map(|(rank, incarnation)| LocalRestore {
            rank,
            incarnation,
            from,
        });
        self.restore.order(ordered.collect(), adds);
        self.take_over(effects);
    }

    /// Ranks of a lost host are ranks of this one from now on, if they are not yet. One that has
    /// moved here before may come `back` from a file of another host as well.
    pub(super) fn take_in(
        &mut self,
        moved: Vec<MovedRank>,
        (from, back): (Option<ImageId>, &[(Rank, Incarnation)]),
        effects: &mut Vec<LocalEffect>,
    ) {
        for moved in moved {
            let process = self.processes.of(moved.rank);
            let comes_back = back.iter().any(|(rank, _)| *rank == moved.rank);
            if comes_back || process.is_none_or(RankProcess::leaves_host) {
                // What was a copy is the file of the rank's image now.
                self.copies.take_in(moved.rank, from);
                if let Some(ImageId::Move(number)) = from {
                    self.moves.arrives(moved.rank, number);
                }
                if let Some(image) = from {
                    // Also if an earlier process of the rank is still on its way out.
                    self.images.add_stored(moved.rank, image);
                }
                effects.push(LocalEffect::TakeIn(moved, from));
            }
        }
    }

    /// The incarnation of a rank that was last ordered.
    pub(super) fn ordered(&self, rank: Rank) -> Option<Incarnation> {
        let present = self.processes.of(rank);
        let present = present.map(|process| process.instance().incarnation);
        self.restore.to_come(rank).chain(present).max()
    }

    /// A process is out of the way.
    pub(super) fn has_retired(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        effects: &mut Vec<LocalEffect>,
    ) {
        let process = self.processes.find(rank, incarnation);
        if process.is_some_and(|process| process.state_mut().has_retired()) {
            self.leave_vacated(effects);
            self.take_over(effects);
        }
    }

    /// Once all are out of the way, their successors begin. Nothing begins without a lease.
    pub(super) fn take_over(&mut self, effects: &mut Vec<LocalEffect>) {
        let is_delayed = self.processes.iter().any(|p| p.state().delays_successor());
        if is_delayed || self.lease.is_suspended() {
            return;
        }
        for one in self.restore.take() {
            let LocalRestore {
                rank,
                incarnation,
                from,
            } = one;
            let instance = self.processes.instance(rank, incarnation);
            match self.processes.of(rank) {
                Some(process) => {
                    self.restore
                        .leaves_behind(rank, process.instance().incarnation);
                    self.processes.renew(instance, from.is_some());
                }
                None => {
                    self.processes.add(instance, from.is_some());
                    if let Some(image) = from {
                        self.images.add_stored(rank, image);
                    }
                }
            }
            match from {
                None => effects.push(LocalEffect::Spawn(instance)),
                // If the image is gone, the driver says so. It must know of the instance, because
                // the instance may have to retire for an earlier checkpoint.
                Some(image) => effects.push(LocalEffect::Restore(instance, image)),
            }
        }
    }

    /// The job ends: no successor comes any more.
    pub(super) fn cancel_restore(&mut self) {
        self.restore.cancel();
        let states = self.processes.iter_mut().map(RankProcess::state_mut);
        states.for_each(InstanceState::stop_waits);
    }

    /// Tells the user of processes that a rollback waits for, or may have to. After a bound, it
    /// tells central that the rank does not come back.
    pub(super) fn recovery_waits(&mut self, now: Time, effects: &mut Vec<LocalEffect>) {
        let suspended = self.lease.is_suspended() || self.halted;
        let mut due = Vec::new();
        for process in self.processes.iter_mut() {
            if suspended {
                process.state_mut().suspended(now);
            }
            let duty = process.state_mut().recovery_wait_due(now);
            let leaves = process.leaves_host();
            let awaited = |awaited| match awaited {
                Awaited::Stop if leaves => Awaited::Departure,
                other => other,
            };
            let duty = duty.map(|(which, duty)| (awaited(which), duty));
            due.extend(duty.map(|duty| (process.instance(), process.pid(), duty)));
        }
        for (instance, pid, (awaited, duty)) in due {
            let (rank, incarnation) = (instance.rank, instance.incarnation);
            let missing = awaited.missing();
            let (WaitDuty::Note(seconds) | WaitDuty::End(seconds)) = duty;
            let process = match pid {
                0 => "its process".to_string(),
                pid => format!("its process {pid}"),
            };
            let text = format!("{process} {missing}, for {seconds} s");
            match (duty, awaited) {
                (WaitDuty::Note(_), Awaited::Departure) => {
                    effects.push(LocalEffect::Waits(rank, text));
                }
                (WaitDuty::Note(_), _) => {
                    let text = format!("the recovery waits: {text}");
                    effects.push(LocalEffect::Waits(rank, text));
                }
                (WaitDuty::End(_), Awaited::Registration) => {
                    let cause = Cause::NotStarted { why: text };
                    self.fail(rank, incarnation, cause, effects);
                }
                (WaitDuty::End(_), Awaited::Stop) => {
                    let successor = self.ordered(rank).unwrap_or(incarnation);
                    let news = ToCentral::Process(ProcessMessage::Failed {
                        instance: self.processes.instance(rank, successor),
                        pid: 0,
                        cause: Cause::NotStarted { why: text },
                    });
                    self.tell(news, effects);
                }
                // Of a rank that is elsewhere, this host knows no successor.
                (WaitDuty::End(_), Awaited::Departure) => {
                    let news = ToCentral::Process(ProcessMessage::Failed {
                        instance: self.processes.instance(rank, incarnation),
                        pid: 0,
                        cause: Cause::NotStopped { why: text },
                    });
                    self.tell(news, effects);
                }
            }
        }
    }

    /// Ends the processes whose successors have all begun; until then that would only keep the
    /// cores busy with taking down memory.
    pub(super) fn discard_retired(&mut self, effects: &mut Vec<LocalEffect>) {
        for (rank, incarnation) in self.restore.take_retired() {
            effects.push(LocalEffect::Discard(rank, incarnation));
        }
    }
}
