//! Checkpoints: their requests, their images, their commits; and the release from `MPI_Finalize`,
//! which waits for the last one.

use super::event::Event;
use super::interface::{CentralEffect, HostIndex, Record};
use super::job_state::Central;
use super::phase::CentralPhase;
use crate::checkpoint::{Progress, Tick};
use crate::levels::Level;
use crate::manager_messages::{ProcessInstance, Time, ToCentral, ToLocal};
use rejoin_channel_table::{Epoch, Rank};
use rejoin_wire::ImageCost;

impl Central {
    /// Gives the next checkpoint its number and stores that. `None` when one is under way.
    pub(super) fn request(&mut self, now: Time, effects: &mut Vec<CentralEffect>) -> Option<Epoch> {
        let waits = self.phase == CentralPhase::Running && !self.moves.allows_checkpoint(now);
        let until = self.moves.puts_off_until().filter(|until| *until > now);
        let is_any_away = self.groups.are_several() && self.ranks.is_any_away();
        let checkpoints = self.mode.checkpoints_mut()?;
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
        effects.push(CentralEffect::Persist(Record::Requested { epoch }));
        effects.push(CentralEffect::Event(Event::Requested(epoch)));
        Some(epoch)
    }

    fn request_all(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        if let Some(epoch) = self.request(now, effects) {
            self.request_images(now, epoch, effects);
        }
    }

    /// The user or the program asks for one. Where none can be taken now, the next phase sees to
    /// it.
    pub(super) fn checkpoint_asked(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        match (&self.phase, self.mode.checkpoints_mut()) {
            (CentralPhase::Running, _) => self.request_all(now, effects),
            (CentralPhase::Restoring(_) | CentralPhase::Resuming(_), Some(checkpoints)) => {
                checkpoints.request_later();
            }
            _ => {}
        }
    }

    /// A rank asks for one later than `after`, which may be under way or there.
    fn checkpoint_asked_after(
        &mut self,
        now: Time,
        after: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        self.want_files_from(now, Epoch(after.0.saturating_add(1)), effects);
    }

    /// A rank needs a checkpoint of this number or a higher one, in files where they let peers
    /// release what they retain.
    fn want_files_from(&mut self, now: Time, from: Epoch, effects: &mut Vec<CentralEffect>) {
        let frees_logs = self.groups.are_several();
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        // A log that is full has room once the files are there.
        if frees_logs && checkpoints.keeps_files() && checkpoints.want_files_from(from) {
            return;
        }
        let latest = checkpoints.pending().max(checkpoints.committed());
        if latest.is_none_or(|latest| latest < from) {
            self.checkpoint_asked(now, effects);
        }
    }

    /// The log of a rank in the epoch `of` waits for files of its last image, or of a later one.
    fn files_wanted(&mut self, now: Time, of: Epoch, effects: &mut Vec<CentralEffect>) {
        let Some(checkpoints) = self.mode.checkpoints() else {
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
        self.want_files_from(now, from, effects);
    }

    pub(super) fn checkpoint_tick(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let running = matches!(self.phase, CentralPhase::Running | CentralPhase::Finalizing);
        let Some(checkpoints) = self.mode.checkpoints_mut().filter(|_| running) else {
            return;
        };
        if let Some((epoch, rank)) = checkpoints.late_files(now) {
            let why = Some("its file was not whole within an hour".to_string());
            let who = (rank, self.ranks.host_of(rank));
            return self.not_stored(now, who, epoch, why, effects);
        }
        if let Some((epoch, rank)) = checkpoints.late_copies(now) {
            let why = "its file was not copied within an hour".to_string();
            let stripe = self.copy_groups().stripe_of(rank);
            let holder = stripe.map(|stripe| stripe.holder);
            let who = (rank, holder.unwrap_or(self.ranks.host_of(rank)));
            return self.not_copied(now, who, epoch, why, effects);
        }
        let runs = self.phase == CentralPhase::Running;
        if runs && checkpoints.copies_due_at().is_some_and(|due| due <= now) {
            self.write_files_again(now, effects);
        }
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        match checkpoints.tick(now) {
            Tick::Nothing => {}
            Tick::Due if self.phase == CentralPhase::Running => self.request_all(now, effects),
            Tick::Due => {}
            Tick::Late { epoch, rank } => {
                let why = "it did not reach a safe point for an image in time".into();
                self.aborted(now, epoch, rank, why, effects);
            }
        }
    }

    /// A local manager's report about an image, or about a rank that requests one.
    pub(super) fn image_message(
        &mut self,
        now: Time,
        host: HostIndex,
        message: ToCentral,
        effects: &mut Vec<CentralEffect>,
    ) {
        let (ToCentral::Imaged {
            instance, epoch, ..
        }
        | ToCentral::NotImaged {
            instance, epoch, ..
        }
        | ToCentral::ImageLost {
            instance, epoch, ..
        }
        | ToCentral::WantFiles {
            instance,
            of: epoch,
        }
        | ToCentral::Checkpoint {
            instance,
            after: epoch,
        }) = message
        else {
            return;
        };
        if !self.ranks.is_live(host, instance) {
            return;
        }
        let is_lost = matches!(message, ToCentral::ImageLost { .. });
        if is_lost && self.former_hosts.at(instance.rank, epoch).is_some() {
            // It is where the rank was then.
            return;
        }
        match message {
            ToCentral::Imaged { cost, .. } => self.imaged(now, instance.rank, epoch, cost, effects),
            ToCentral::NotImaged { why, outlives, .. } => {
                if outlives && let Some(checkpoints) = self.mode.checkpoints_mut() {
                    checkpoints.set_outliving(epoch, instance.rank, why.clone());
                }
                self.not_imaged(now, instance.rank, epoch, why, effects);
            }
            ToCentral::WantFiles { .. } => self.files_wanted(now, epoch, effects),
            ToCentral::Checkpoint { .. } => self.checkpoint_asked_after(now, epoch, effects),
            ToCentral::ImageLost { why, .. } => {
                self.image_lost(now, instance.rank, epoch, why, effects);
            }
            _ => {}
        }
    }

    fn imaged(
        &mut self,
        now: Time,
        rank: Rank,
        epoch: Epoch,
        cost: ImageCost,
        effects: &mut Vec<CentralEffect>,
    ) {
        let begins_files = self.begins_files();
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        let progress = checkpoints.imaged(rank, epoch, cost);
        self.commit_group(now, rank, epoch, effects);
        self.group_is_imaged(now, rank, epoch, effects);
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        if progress != Progress::Complete(epoch) {
            return;
        }
        effects.push(CentralEffect::Persist(Record::Committed {
            epoch,
            level: Level::Memory,
            at: now,
            cost: checkpoints.dearest(),
        }));
        let cost = Some(checkpoints.cost_so_far());
        let took = checkpoints.commit(now, epoch);
        // The images of the last checkpoint are needed for too short a time.
        if begins_files {
            checkpoints.begin_files(now);
        }
        let stretched = checkpoints.newly_stretched();
        let counted = checkpoints.epochs();
        self.tell_committed(epoch, effects);
        effects.push(CentralEffect::Event(Event::Committed {
            epoch,
            level: Level::Memory,
            took,
            cost,
            counted,
        }));
        effects.extend(stretched.map(|s| {
            CentralEffect::Event(Event::Stretched {
                asked: s.asked,
                interval: s.interval,
                cost: s.cost,
            })
        }));
        if self.phase == CentralPhase::Finalizing {
            self.last_checkpoint(now, effects);
        }
    }

    /// A rank is in `MPI_Finalize`.
    pub(super) fn finalizing(
        &mut self,
        now: Time,
        host: HostIndex,
        instance: ProcessInstance,
        effects: &mut Vec<CentralEffect>,
    ) {
        if !self.ranks.finalizing(host, instance) {
            return;
        }
        match self.phase {
            CentralPhase::Finalized => self.release_alone(instance.rank, effects),
            _ => self.finalize_when_complete(now, effects),
        }
    }

    /// Lets the ranks leave `MPI_Finalize` once all are there. With recovery on, a last checkpoint
    /// comes first: from then on no rank needs another, and each can come back alone.
    pub(super) fn finalize_when_complete(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let moves = self.moves.is_under_way();
        if self.phase != CentralPhase::Running || moves || !self.ranks.all_finalizing() {
            return;
        }
        if !self.mode.recovers() {
            return self.finalize(effects);
        }
        self.phase = CentralPhase::Finalizing;
        self.last_checkpoint(now, effects);
    }

    /// Lets all ranks leave `MPI_Finalize`.
    fn finalize(&mut self, effects: &mut Vec<CentralEffect>) {
        self.phase = CentralPhase::Finalized;
        let generation = self.ranks.generation();
        let last = self.mode.last_checkpoint();
        effects.push(CentralEffect::Persist(Record::Finalized {
            generation,
            last,
        }));
        let released = || ToLocal::AllFinalized { generation };
        self.hosts.send_all(released, effects);
        self.end_empty_hosts(effects);
    }

    /// Hosts whose ranks have all moved away are needed no more.
    pub(super) fn end_empty_hosts(&self, effects: &mut Vec<CentralEffect>) {
        for host in self.departures.visited() {
            if !self.ranks.is_any_on(host) && !self.hosts.is_done(host) {
                effects.push(CentralEffect::Send(host, ToLocal::Kill));
            }
        }
    }

    /// All ranks are in `MPI_Finalize`. Waits for the end of a checkpoint under way, then for a
    /// last one whose images are all taken there, and releases the ranks.
    fn last_checkpoint(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let last = self.mode.last_checkpoint();
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return self.finalize(effects);
        };
        if checkpoints.pending().is_some() {
            return;
        }
        if last.is_some() && checkpoints.committed() == last {
            checkpoints.stop();
            return self.finalize(effects);
        }
        self.request_all(now, effects);
        let last = self.mode.checkpoints().and_then(|c| c.pending());
        self.mode.set_last_checkpoint(last);
    }

    fn not_imaged(
        &mut self,
        now: Time,
        rank: Rank,
        epoch: Epoch,
        why: String,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        if checkpoints.failed(now, epoch) == Progress::Aborted(epoch) {
            self.aborted(now, epoch, rank, why, effects);
        }
    }

    pub(super) fn image_lost(
        &mut self,
        now: Time,
        rank: Rank,
        epoch: Epoch,
        why: Option<String>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let begins_files = self.begins_files();
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        // A checkpoint that follows at once would need the same memory.
        let at_once = why.is_none();
        let of_group = self.groups.committed(rank);
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
            self.file_turns.end();
        }
        if is_given_up && begins_files {
            // A newer checkpoint in memory is written instead.
            checkpoints.begin_files(now);
            checkpoints.continue_pursuit(now);
        }
        if counts && self.end.verdict().is_none() {
            effects.push(CentralEffect::Event(Event::ImageLost {
                epoch,
                committed,
                target,
                rank,
                host: self.hosts.name(self.ranks.host_of(rank)),
                why: why.clone(),
            }));
        }
        if is_given_up {
            self.tell_committed(epoch, effects);
        }
        if aborted {
            let why = why.unwrap_or_else(|| "its image was ended".into());
            self.aborted(now, epoch, rank, why, effects);
        }
        self.checkpoint_tick(now, effects);
    }

    /// A checkpoint is aborted: hosts drop its images, and the last committed one still counts.
    fn aborted(
        &mut self,
        now: Time,
        epoch: Epoch,
        rank: Rank,
        why: String,
        effects: &mut Vec<CentralEffect>,
    ) {
        self.tell_committed(epoch, effects);
        let checkpoints = self.mode.checkpoints();
        effects.push(CentralEffect::Event(Event::Aborted {
            epoch,
            rank,
            why,
            again: checkpoints.is_some_and(|c| c.follows_soon(now)),
        }));
        self.refuse_without_numbers(now, effects);
        if self.phase == CentralPhase::Finalizing {
            // The ranks leave without a last checkpoint: otherwise the job would not end.
            if self.mode.last_checkpoint() == Some(epoch) {
                if let Some(checkpoints) = self.mode.checkpoints_mut() {
                    checkpoints.stop();
                }
                return self.finalize(effects);
            }
            self.last_checkpoint(now, effects);
        }
    }

    /// Tells the hosts which images count, and orders copies that were begun.
    pub(super) fn tell_committed(&mut self, abandoned: Epoch, effects: &mut Vec<CentralEffect>) {
        let generation = self.ranks.generation();
        let checkpoints = self.mode.checkpoints();
        let epochs = checkpoints.map(|c| c.epochs()).unwrap_or_default();
        if let Some(oldest) = epochs.oldest() {
            self.former_hosts.forget_before(oldest);
            self.end_drained(effects);
        }
        let commit = || ToLocal::Commit {
            generation,
            epochs,
            abandoned,
        };
        self.hosts.send_all(commit, effects);
        self.write_groups(epochs.writing, effects);
        self.order_copies(effects);
    }
}
