//! Passes each input to its handler.

use super::host_state::{Local, LocalPhase};
use super::inputs::{LocalEffect, LocalInput};
use super::rank_process::RankProcess;
use crate::manager_messages::{Cause, HostMessage, LogMessage, MoveMessage, Time, ToLocal};
use rejoin_channel_table::{ImageId, Rank};
use rejoin_wire::ToManager;

impl Local {
    /// One step.
    pub fn step(&mut self, now: Time, input: LocalInput, effects: &mut Vec<LocalEffect>) {
        self.lease_tick(now, effects);
        match input {
            LocalInput::Central(order) => {
                self.places_change(&order);
                self.order(now, order, effects);
            }
            LocalInput::CentralLost => self.abandoned_by_central(effects),
            LocalInput::Spawned(rank, incarnation, pid) => {
                self.spawned(now, rank, incarnation, pid, effects)
            }
            LocalInput::NotStarted(rank, incarnation, why) => {
                self.not_started(rank, incarnation, why, effects);
            }
            LocalInput::Said(asker, incarnation, _, ToManager::LookUp { rank, least }) => {
                let instance = self.processes.instance(asker, incarnation);
                self.looks_up(now, instance, rank, least, effects);
            }
            LocalInput::Said(.., ToManager::Waits { ranks, any }) => {
                self.rank_waits(now, ranks, any, effects);
            }
            LocalInput::LookedUp(from, message) => self.hear_lookup(now, from, message, effects),
            LocalInput::Said(rank, incarnation, pid, message) => {
                self.said(rank, incarnation, pid, message, effects);
            }
            LocalInput::Malformed(rank, incarnation, why) => {
                self.fail(rank, incarnation, Cause::Misbehaved { why }, effects);
            }
            LocalInput::Closed(rank, incarnation) => {
                self.event(rank, incarnation, effects, |process, number| {
                    process.closed(now, number)
                });
            }
            // Without recovery, nobody has anything to begin before the status is known.
            LocalInput::ExitDetected(..) if !self.hold => {}
            LocalInput::ExitDetected(rank, incarnation) => {
                self.event(rank, incarnation, effects, RankProcess::exit_detected);
            }
            LocalInput::ChildEnded(rank, incarnation, end) => {
                let news = self.processes.child_ended(now, rank, incarnation, end);
                self.tell_any(news, effects);
            }
            LocalInput::CallerEnded(rank, incarnation, end) => {
                self.event(rank, incarnation, effects, |process, number| {
                    process.caller_ended(now, end, number)
                });
            }
            LocalInput::Retired(rank, incarnation) => self.has_retired(rank, incarnation, effects),
            LocalInput::Probed(host, message) => self.probed(now, host, message, effects),
            LocalInput::NoConnection(host, failure) => self.no_connection(host, failure),
            LocalInput::Leave(millis) => self.leave_within(now, millis, effects),
            LocalInput::Health(health) => self.health(health, effects),
            LocalInput::LogsUsed(all) => self.tell(LogMessage::Used(all), effects),
            LocalInput::Tick => self.tick(now, effects),
            LocalInput::Swept => self.swept(effects),
            input => self.step_of_image(input, effects),
        }
        self.sweep_when_empty(effects);
    }

    /// An input about images and their files.
    fn step_of_image(&mut self, input: LocalInput, effects: &mut Vec<LocalEffect>) {
        match input {
            LocalInput::ImageEnded(rank, image) => self.image_ended(rank, image, None, effects),
            LocalInput::ImageGivenUp(rank, image, why) => {
                self.image_ended(rank, image, Some(why), effects);
            }
            LocalInput::ImageStored(rank, image) => self.image_stored(rank, image, effects),
            LocalInput::ImageNotStored(rank, image, why) => {
                self.image_not_stored(rank, image, why, effects);
            }
            LocalInput::ImageCopied(file) => self.image_copied(file, effects),
            LocalInput::ImageNotCopied(file, why) => self.image_not_copied(file, why, effects),
            LocalInput::Loaded(rank, number, bytes) => self.loaded(rank, number, bytes, effects),
            LocalInput::NotLoaded(rank, number, why) => {
                self.not_loaded(rank, number, why, effects);
            }
            LocalInput::MoveBytes(bytes) => self.tell(MoveMessage::Bytes(bytes), effects),
            LocalInput::CopiesFound(found) => self.copies.adopt(found),
            _ => {}
        }
    }

    /// An order of central.
    pub(super) fn order(&mut self, now: Time, order: ToLocal, effects: &mut Vec<LocalEffect>) {
        let present = self.processes.generation();
        match order {
            ToLocal::Leave { .. }
            | ToLocal::Copy { .. }
            | ToLocal::Unload { .. }
            | ToLocal::WriteImages { .. } => self.order_of_files(order, effects),
            // The asking central manager has not received it.
            ToLocal::Report | ToLocal::End { .. } | ToLocal::Kill
                if self.phase == LocalPhase::Done =>
            {
                self.tell(HostMessage::Done, effects);
            }
            ToLocal::Granted { number } => self.granted(now, number, effects),
            ToLocal::Spawn { .. } | ToLocal::Restore { .. } => {
                self.order_processes(now, order, effects);
            }
            ToLocal::Start { .. } | ToLocal::Begin { .. } => self.order_to_begin(order, effects),
            ToLocal::Move { .. }
            | ToLocal::Load { .. }
            | ToLocal::Stay { .. }
            | ToLocal::Vacate { .. }
            | ToLocal::Update { .. } => self.order_of_move(now, order, effects),
            ToLocal::RegionsNumber { .. } | ToLocal::RegionsCommitted { .. } => {
                self.order_of_regions(order, effects);
            }
            ToLocal::Checkpoint { .. }
            | ToLocal::CheckpointRanks { .. }
            | ToLocal::Commit { .. }
            | ToLocal::CommitGroup { .. } => self.order_of_checkpoint(order, effects),
            ToLocal::CanNotLeave => self.can_not_leave(effects),
            ToLocal::Release { instance } => self.processes.release(instance),
            ToLocal::AllFinalized { generation } if generation == present => {
                self.all_finalized(effects);
            }
            ToLocal::Signal { signal } => self.pass_signal(signal, effects),
            ToLocal::End { why }
                if matches!(self.phase, LocalPhase::Idle | LocalPhase::Running) =>
            {
                self.end(now, why, effects);
            }
            ToLocal::Kill => self.kill(effects),
            ToLocal::Watch(order) => self.watch_order(now, order, effects),
            ToLocal::Report => self.report(effects),
            ToLocal::Acknowledged { instance } => self.processes.acknowledged(instance),
            // Stale news of an older generation, or an order that came twice.
            ToLocal::AllFinalized { .. } | ToLocal::End { .. } => {}
        }
    }

    /// An order about checkpoints: of which ranks take images, and which of these count.
    fn order_of_checkpoint(&mut self, order: ToLocal, effects: &mut Vec<LocalEffect>) {
        let present = self.processes.generation();
        match order {
            ToLocal::Checkpoint { generation, epoch } if generation == present => {
                self.request_images(generation, epoch, |_| true, effects);
            }
            ToLocal::CheckpointRanks {
                generation,
                epoch,
                ranks,
            } if generation == present => {
                let is_asked = |rank: Rank| ranks.contains(&rank);
                self.request_images(generation, epoch, is_asked, effects);
            }
            ToLocal::Commit {
                generation,
                epochs,
                abandoned,
            } if generation == present || self.has_only_images(generation) => {
                self.commit(epochs, abandoned, effects);
            }
            ToLocal::CommitGroup {
                generation,
                ranks,
                epoch,
                released,
            } if generation == present => {
                self.commit_group(&ranks, (epoch, released), effects);
            }
            // Stale news of an older generation.
            _ => {}
        }
    }

    /// All ranks have registered: those of this host begin, with the table or ahead of it.
    fn order_to_begin(&mut self, order: ToLocal, effects: &mut Vec<LocalEffect>) {
        let present = self.processes.generation();
        let runs = self.phase == LocalPhase::Running;
        match order {
            ToLocal::Start {
                generation,
                table,
                image,
            } if generation == present && runs => {
                self.take_table(generation, table, image, effects);
            }
            ToLocal::Begin {
                generation,
                process_map,
                image,
            } if generation == present && runs => {
                self.begin_without_table(generation, process_map, image, effects);
            }
            // An older generation.
            _ => {}
        }
    }

    /// An order about files of images, or about the end of this host.
    fn order_of_files(&mut self, order: ToLocal, effects: &mut Vec<LocalEffect>) {
        match order {
            ToLocal::Leave { keeps_files } => self.leave(keeps_files, effects),
            ToLocal::Copy { members, epoch } => self.copy_image(members, epoch, effects),
            ToLocal::Unload { rank } => self.unload(rank, effects),
            ToLocal::WriteImages { ranks, epoch } => self.write_images(epoch, &ranks, effects),
            _ => {}
        }
    }

    /// An order to make processes of ranks.
    fn order_processes(&mut self, now: Time, order: ToLocal, effects: &mut Vec<LocalEffect>) {
        let present = self.processes.generation();
        let runs = self.phase == LocalPhase::Running;
        match order {
            ToLocal::Spawn { .. } if self.phase == LocalPhase::Idle => self.begin(order, effects),
            // An older order to start waited for the lease when this host reported that no rank was
            // there, and was carried out since.
            ToLocal::Spawn {
                generation,
                ranks,
                from,
                moved,
                ..
            } if runs && generation > present => {
                let from = from.map(ImageId::Checkpoint);
                self.restore(now, generation, (from, ranks), moved, effects);
            }
            ToLocal::Restore {
                generation,
                from,
                ranks,
                moved,
            } if runs && generation >= present => {
                self.restore(now, generation, (from, ranks), moved, effects);
            }
            ToLocal::Restore { .. } if self.lease.awaits() => self.lease.come_back(order),
            // It came twice.
            _ => {}
        }
    }
}
