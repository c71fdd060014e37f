//! Checkpoints: their requests, their images, their commits; and the release from `MPI_Finalize`,
//! which waits for the last one.

use super::checkpoint_handler::CheckpointHandler;
use super::event::Event;
use super::interface::{CentralEffect, HostIndex, Record};
use super::phase::CentralPhase;
use crate::checkpoint::{Progress, Tick};
use crate::levels::Level;
use crate::manager_messages::{ProcessInstance, ToLocal};
use rejoin_channel_table::{Epoch, Rank};
use rejoin_wire::ImageCost;

impl CheckpointHandler<'_> {
    /// Gives the next checkpoint its number and stores that. `None` when one is under way.
    pub(super) fn request(&mut self) -> Option<Epoch> {
        let now = self.out.now;
        let waits =
            self.course.phase == CentralPhase::Running && !self.moves.allows_checkpoint(now);
        let until = self.moves.puts_off_until().filter(|until| *until > now);
        let is_any_away = self.commits.mode.logs_messages() && self.cluster.ranks.is_any_away();
        let checkpoints = self.commits.checkpoints_mut()?;
        if is_any_away {
            // It follows when all groups are back.
            checkpoints.put_off(None);
            return None;
        }
        // Before the first one nothing moves.
        if waits && checkpoints.committed().is_some() {
            checkpoints.put_off(until);
            return None;
        }
        let epoch = checkpoints.request(now)?;
        self.out.persist(Record::Requested { epoch });
        self.out.event(Event::Requested(epoch));
        Some(epoch)
    }

    fn request_all(&mut self) {
        if let Some(epoch) = self.request() {
            self.turns().request_images(epoch);
        }
    }

    /// The user or the program asks for one. Where none can be taken now, the next phase sees to
    /// it.
    pub(super) fn on_checkpoint_request(&mut self) {
        match (&self.course.phase, self.commits.checkpoints_mut()) {
            (CentralPhase::Running, _) => self.request_all(),
            (CentralPhase::Restoring(_) | CentralPhase::Resuming(_), Some(checkpoints)) => {
                checkpoints.request_later();
            }
            _ => {}
        }
    }

    /// A rank asks for one later than `after`, which may be under way or there.
    pub(super) fn on_checkpoint_request_after(
        &mut self,
        host: HostIndex,
        instance: ProcessInstance,
        after: Epoch,
    ) {
        if self.cluster.ranks.is_live(host, instance) {
            self.want_files_from(Epoch(after.0.saturating_add(1)));
        }
    }

    /// A rank needs a checkpoint of this number or a higher one, in files where they let peers
    /// release what they retain.
    fn want_files_from(&mut self, from: Epoch) {
        let frees_logs = self.commits.mode.logs_messages();
        let Some(checkpoints) = self.commits.checkpoints_mut() else {
            return;
        };
        // A log that is full has room once the files are there.
        if frees_logs && checkpoints.keeps_files() && checkpoints.want_files_from(from) {
            return;
        }
        let latest = checkpoints.pending().max(checkpoints.committed());
        if latest.is_none_or(|latest| latest < from) {
            self.on_checkpoint_request();
        }
    }

    /// The log of a rank in the epoch `of` waits for files of its last image, or of a later one.
    pub(super) fn files_wanted(&mut self, host: HostIndex, instance: ProcessInstance, of: Epoch) {
        let is_live = self.cluster.ranks.is_live(host, instance);
        let Some(checkpoints) = self.commits.checkpoints().filter(|_| is_live) else {
            return;
        };
        let counted = checkpoints.epochs();
        let written = [counted.writing, counted.copying].into_iter().flatten();
        let is_under_way = written.max() >= Some(of) || checkpoints.pending() >= Some(of);
        let from = match is_under_way && checkpoints.keeps_files() {
            true => of,
            // Without files, or if those of the last image are not wanted, a newer one is needed.
            false => Epoch(of.0.saturating_add(1)),
        };
        self.want_files_from(from);
    }

    pub(super) fn checkpoint_tick(&mut self) {
        let now = self.out.now;
        let running = matches!(
            self.course.phase,
            CentralPhase::Running | CentralPhase::Finalizing
        );
        let Some(checkpoints) = self.commits.checkpoints_mut().filter(|_| running) else {
            return;
        };
        if let Some((epoch, rank)) = checkpoints.late_files(now) {
            let why = Some("its file was not whole within an hour".to_string());
            let who = (rank, self.cluster.ranks.host_of(rank));
            return self.not_stored(who, epoch, why);
        }
        if let Some((epoch, rank)) = checkpoints.late_copies(now) {
            let why = "its file was not copied within an hour".to_string();
            let stripe = self.cluster.copy_groups().stripe_of(rank);
            let holder = stripe.map(|stripe| stripe.holder);
            let who = (rank, holder.unwrap_or(self.cluster.ranks.host_of(rank)));
            return self.not_copied(who, epoch, why);
        }
        let runs = self.course.phase == CentralPhase::Running;
        if runs && checkpoints.copies_due_at().is_some_and(|due| due <= now) {
            self.write_files_again();
        }
        let Some(checkpoints) = self.commits.checkpoints_mut() else {
            return;
        };
        match checkpoints.tick(now) {
            Tick::Nothing => {}
            Tick::Due if self.course.phase == CentralPhase::Running => self.request_all(),
            Tick::Due => {}
            Tick::Late { epoch, rank } => {
                let why = "it did not reach a safe point for an image in time".into();
                self.aborted(epoch, rank, why);
            }
        }
    }

    /// The image of a rank is there.
    pub(super) fn taken(
        &mut self,
        host: HostIndex,
        instance: ProcessInstance,
        epoch: Epoch,
        cost: ImageCost,
    ) {
        if self.cluster.ranks.is_live(host, instance) {
            self.imaged(instance.rank, epoch, cost);
        }
    }

    /// A rank can't take its image, for this reason. With it whether the program has state that a
    /// rollback does not take back.
    pub(super) fn not_taken(
        &mut self,
        host: HostIndex,
        instance: ProcessInstance,
        epoch: Epoch,
        (why, outlives): (String, bool),
    ) {
        if !self.cluster.ranks.is_live(host, instance) {
            return;
        }
        if outlives && let Some(checkpoints) = self.commits.checkpoints_mut() {
            checkpoints.set_outliving(epoch, instance.rank, why.clone());
        }
        self.not_imaged(instance.rank, epoch, why);
    }

    /// An image that was there is gone, unless it is where the rank was then.
    pub(super) fn is_lost(
        &mut self,
        host: HostIndex,
        instance: ProcessInstance,
        epoch: Epoch,
        why: Option<String>,
    ) {
        let is_here = self.cluster.former_hosts.at(instance.rank, epoch).is_none();
        if is_here && self.cluster.ranks.is_live(host, instance) {
            self.image_lost(instance.rank, epoch, why);
        }
    }

    fn imaged(&mut self, rank: Rank, epoch: Epoch, cost: ImageCost) {
        let now = self.out.now;
        let begins_files = self.begins_files();
        let Some(checkpoints) = self.commits.checkpoints_mut() else {
            return;
        };
        let progress = checkpoints.imaged(rank, epoch, cost);
        self.group_commits().commit_group(rank, epoch);
        self.turns().group_is_imaged(rank, epoch);
        let Some(checkpoints) = self.commits.checkpoints_mut() else {
            return;
        };
        if progress != Progress::Complete(epoch) {
            return;
        }
        self.out.persist(Record::Committed {
            epoch,
            level: Level::Memory,
            at: now,
            cost: checkpoints.dearest(),
        });
        let cost = Some(checkpoints.cost_so_far());
        let took = checkpoints.commit(now, epoch);
        // The images of the last checkpoint are needed for too short a time.
        if begins_files {
            checkpoints.begin_files(now);
        }
        let stretched = checkpoints.newly_stretched();
        let counted = checkpoints.epochs();
        self.notify_committed(epoch);
        self.out.event(Event::Committed {
            epoch,
            level: Level::Memory,
            took,
            cost,
            counted,
        });
        self.out.effects.extend(stretched.map(|s| {
            CentralEffect::Event(Event::Stretched {
                asked: s.asked,
                interval: s.interval,
                cost: s.cost,
            })
        }));
        if self.course.phase == CentralPhase::Finalizing {
            self.last_checkpoint();
        }
    }

    /// A rank is in `MPI_Finalize`.
    pub(super) fn finalizing(&mut self, host: HostIndex, instance: ProcessInstance) {
        if !self.cluster.ranks.finalizing(host, instance) {
            return;
        }
        match self.course.phase {
            CentralPhase::Finalized => self.release_alone(instance.rank),
            _ => self.finalize_when_complete(),
        }
    }

    /// Lets the ranks leave `MPI_Finalize` once all are there. With recovery on, a last checkpoint
    /// comes first: from then on no rank needs another, and each can come back alone.
    pub(super) fn finalize_when_complete(&mut self) {
        let moves = self.moves.is_under_way();
        if self.course.phase != CentralPhase::Running
            || moves
            || !self.cluster.ranks.all_finalizing()
        {
            return;
        }
        if !self.commits.mode.recovers() {
            return self.finalize();
        }
        self.course.phase = CentralPhase::Finalizing;
        self.last_checkpoint();
    }

    /// Lets all ranks leave `MPI_Finalize`.
    fn finalize(&mut self) {
        self.course.phase = CentralPhase::Finalized;
        let generation = self.cluster.ranks.generation();
        let last = self.commits.mode.last_checkpoint();
        self.out.persist(Record::Finalized { generation, last });
        let released = || ToLocal::AllFinalized { generation };
        self.cluster.hosts.send_all(released, self.out);
        self.cluster.end_empty_hosts(self.out);
    }

    /// All ranks are in `MPI_Finalize`. Waits for the end of a checkpoint under way, then for a
    /// last one whose images are all taken there, and releases the ranks.
    fn last_checkpoint(&mut self) {
        let last = self.commits.mode.last_checkpoint();
        let Some(checkpoints) = self.commits.checkpoints_mut() else {
            return self.finalize();
        };
        if checkpoints.pending().is_some() {
            return;
        }
        if last.is_some() && checkpoints.committed() == last {
            checkpoints.stop();
            return self.finalize();
        }
        self.request_all();
        let last = self.commits.checkpoints().and_then(|c| c.pending());
        self.commits.mode.set_last_checkpoint(last);
    }

    fn not_imaged(&mut self, rank: Rank, epoch: Epoch, why: String) {
        let now = self.out.now;
        let Some(checkpoints) = self.commits.checkpoints_mut() else {
            return;
        };
        if checkpoints.failed(now, epoch) == Progress::Aborted(epoch) {
            self.aborted(epoch, rank, why);
        }
    }

    pub(super) fn image_lost(&mut self, rank: Rank, epoch: Epoch, why: Option<String>) {
        let now = self.out.now;
        let begins_files = self.begins_files();
        let Some(checkpoints) = self.commits.mode.checkpoints_mut() else {
            return;
        };
        // A checkpoint that follows at once would need the same memory.
        let at_once = why.is_none();
        let of_group = self.commits.groups.committed(rank);
        if at_once && of_group.is_some_and(|last| last.epoch == epoch) {
            checkpoints.hurry(now);
        }
        let committed = checkpoints.committed();
        let counts = committed == Some(epoch) || checkpoints.pending() == Some(epoch);
        let before = checkpoints.epochs();
        let aborted = checkpoints.image_lost(now, rank, epoch, at_once) == Progress::Aborted(epoch);
        let target = checkpoints.newest_whole();
        let after = checkpoints.epochs();
        let is_given_up = (before.writing, before.copying) != (after.writing, after.copying);
        if is_given_up {
            self.commits.file_turns.end();
        }
        if is_given_up && begins_files {
            // A newer checkpoint in memory is written instead.
            checkpoints.begin_files(now);
            checkpoints.continue_pursuit(now);
        }
        if counts && self.course.end.verdict().is_none() {
            self.out.event(Event::ImageLost {
                epoch,
                committed,
                target,
                rank,
                host: self.cluster.hosts.name(self.cluster.ranks.host_of(rank)),
                why: why.clone(),
            });
        }
        if is_given_up {
            self.notify_committed(epoch);
        }
        if aborted {
            let why = why.unwrap_or_else(|| "its image was ended".into());
            self.aborted(epoch, rank, why);
        }
        self.checkpoint_tick();
    }

    /// A checkpoint is aborted: hosts drop its images, and the last committed one still counts.
    fn aborted(&mut self, epoch: Epoch, rank: Rank, why: String) {
        let now = self.out.now;
        self.notify_committed(epoch);
        let checkpoints = self.commits.checkpoints();
        self.out.event(Event::Aborted {
            epoch,
            rank,
            why,
            again: checkpoints.is_some_and(|c| c.follows_soon(now)),
        });
        if self.course.phase == CentralPhase::Finalizing {
            // The ranks leave without a last checkpoint: otherwise the job would not end.
            if self.commits.mode.last_checkpoint() == Some(epoch) {
                if let Some(checkpoints) = self.commits.checkpoints_mut() {
                    checkpoints.stop();
                }
                return self.finalize();
            }
            self.last_checkpoint();
        }
    }

    /// A rank that was restored alone is released, like all ranks before.
    pub(in crate::central) fn release_alone(&mut self, rank: Rank) {
        let generation = self.cluster.ranks.generation();
        let host = self.cluster.ranks.host_of(rank);
        self.out.send(host, ToLocal::AllFinalized { generation });
    }
}
