//! Ranks roll back: the present processes retire, and when all of them have, images take over.
//!
//! No new process sends before all old ones are stopped. A process that was stopped in the middle
//! of a write must not end that write beside its successor.

use super::host_course::LocalPhase;
use super::host_parts::{HostParts, keys};
use super::host_rollback::LocalRestore;
use super::inputs::LocalEffect;
use super::rank_process::RankProcess;
use super::vacated::VacateHandler;
use crate::handler_keys::handler;
use crate::manager_messages::{MovedRank, ProcessInstance, ProcessMessage};
use crate::signal_numbers::{KILL, TERM};
use rejoin_channel_table::{Epoch, Generation, ImageId, Incarnation, Rank};

handler! {
    /// Processes of ranks that begin, or come back.
    pub(super) ProcessHandler of HostParts {
        changes { course, processes, restore, moves, images, copies, lease, out }
    }
    with {
        vacates: VacateHandler { processes, moves, images, out },
    }
}

impl ProcessHandler<'_> {
    /// Central's order to start ranks.
    pub fn spawn(
        &mut self,
        generation: Generation,
        (from, ranks): (Option<Epoch>, Vec<(Rank, Incarnation)>),
        moved: Vec<MovedRank>,
    ) {
        if self.course.phase == LocalPhase::Idle {
            self.begin(generation, (from, ranks), moved);
        } else if self.course.runs() && generation > self.processes.generation() {
            // An older order to start waited for the lease when this host reported that no rank
            // was there, and was carried out since. Otherwise it came twice.
            self.restore(generation, (from.map(ImageId::Checkpoint), ranks), moved);
        }
    }

    /// The job begins on this host.
    fn begin(
        &mut self,
        generation: Generation,
        (from, ranks): (Option<Epoch>, Vec<(Rank, Incarnation)>),
        moved: Vec<MovedRank>,
    ) {
        self.course.phase = LocalPhase::Running;
        self.take_in(moved, (from.map(ImageId::Checkpoint), &[]));
        if let Some(epoch) = from {
            self.images
                .continue_from(epoch, ranks.iter().map(|(rank, _)| *rank));
        }
        self.processes.begin(generation, ranks, from.is_some());
        let instances = self.processes.iter().map(|process| process.instance());
        self.out
            .effects
            .extend(instances.map(|instance| match from {
                None => LocalEffect::Spawn(instance),
                Some(epoch) => LocalEffect::Restore(instance, ImageId::Checkpoint(epoch)),
            }));
    }

    /// A process was started.
    pub fn spawned(&mut self, rank: Rank, incarnation: Incarnation, pid: u32) {
        if let Some(process) = self.processes.find(rank, incarnation) {
            process.started(self.out.now, pid);
            let instance = self.processes.instance(rank, incarnation);
            self.out.report(ProcessMessage::Spawned { instance, pid });
        }
        if self.lease.is_suspended() {
            // It was on its way when the lease ended.
            self.out.push(LocalEffect::StopAll);
        }
        // A process that was being started when all got the order to end has not received it.
        match self.course.phase {
            LocalPhase::Ending(Some(_)) => self.out.push(LocalEffect::SignalAll(TERM)),
            LocalPhase::Ending(None) => self.out.push(LocalEffect::SignalAll(KILL)),
            _ => {}
        }
    }

    /// Central's order. One that comes before the last was carried out replaces it.
    pub fn restore(
        &mut self,
        generation: Generation,
        (from, mut ranks): (Option<ImageId>, Vec<(Rank, Incarnation)>),
        moved: Vec<MovedRank>,
    ) {
        // One that came before, from a central manager that has died since.
        ranks.retain(|(rank, incarnation)| {
            self.restore.latest(*rank, self.processes) < Some(*incarnation)
        });
        if ranks.is_empty() {
            return;
        }
        self.take_in(moved, (from, &ranks));
        // Others that come back alone, too, do so still.
        let adds = generation == self.processes.generation();
        if !adds {
            self.images.forget_groups();
        }
        self.processes.enter(generation);
        for (rank, _) in &ranks {
            // What is loaded is used, or a vacated rank drops it.
            self.moves.unload(*rank);
            self.vacates().drop_images_of_move(*rank);
            if let Some(process) = self.processes.of_mut(*rank) {
                process.set_leaves_host(false);
                if process.state_mut().retire(self.out.now) {
                    let ProcessInstance {
                        rank, incarnation, ..
                    } = process.instance();
                    self.out.push(LocalEffect::Retire(rank, incarnation));
                }
            }
        }
        let ordered = ranks.into_iter().map(|(rank, incarnation)| LocalRestore {
            rank,
            incarnation,
            from,
        });
        self.restore.order(ordered.collect(), adds);
        self.take_over();
    }

    /// Ranks of a lost host are ranks of this one from now on, if they are not yet. One that has
    /// moved here before may come `back` from a file of another host as well.
    fn take_in(
        &mut self,
        moved: Vec<MovedRank>,
        (from, back): (Option<ImageId>, &[(Rank, Incarnation)]),
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
                self.out.push(LocalEffect::TakeIn(moved, from));
            }
        }
    }

    /// A process is out of the way.
    pub fn has_retired(&mut self, rank: Rank, incarnation: Incarnation) {
        let process = self.processes.find(rank, incarnation);
        if process.is_some_and(|process| process.state_mut().has_retired()) {
            self.vacates().leave_vacated();
            self.take_over();
        }
    }

    /// Once all are out of the way, their successors begin. Nothing begins without a lease.
    pub fn take_over(&mut self) {
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
                None => self.out.push(LocalEffect::Spawn(instance)),
                // If the image is gone, the driver says so. It must know of the instance, because
                // the instance may have to retire for an earlier checkpoint.
                Some(image) => self.out.push(LocalEffect::Restore(instance, image)),
            }
        }
    }
}
