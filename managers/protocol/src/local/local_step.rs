//! Passes each input to its handler.

use super::checkpoint_messages::ImageHandler;
use super::copy_messages::CopyHandler;
use super::exits::ExitHandler;
use super::host_course::LocalPhase;
use super::host_state::Local;
use super::inputs::{LocalEffect, LocalInput};
use super::lease_steps::LeaseHandler;
use super::leaving::LeavingHandler;
use super::lifecycle::HostEndHandler;
use super::local_out::LocalOut;
use super::lookups::LookupHandler;
use super::move_orders::MoveOrderHandler;
use super::overdue_processes::OverdueHandler;
use super::probe_steps::ProbeHandler;
use super::rank_messages::RankMessageHandler;
use super::rank_process::RankProcess;
use super::region_messages::RankRegionHandler;
use super::report::ReportHandler;
use super::restore::ProcessHandler;
use super::starts::StartHandler;
use super::user_signals::SignalHandler;
use super::vacated::VacateHandler;
use crate::manager_messages::{Cause, HostMessage, LogMessage, MoveMessage, Time, ToLocal};
use rejoin_channel_table::{ImageId, Incarnation, Rank};
use rejoin_wire::ToManager;

impl Local {
    /// One step.
    pub fn step(&mut self, now: Time, input: LocalInput, effects: &mut Vec<LocalEffect>) {
        let mut out = LocalOut {
            now,
            effects: std::mem::take(effects),
            has_central: self.has_central,
        };
        LeaseHandler::of(&mut self.parts(&mut out)).lease_tick();
        self.take(input, &mut out);
        HostEndHandler::of(&mut self.parts(&mut out)).sweep_when_empty();
        self.has_central = out.has_central;
        *effects = out.effects;
    }

    fn take(&mut self, input: LocalInput, out: &mut LocalOut) {
        let parts = &mut self.parts(out);
        match input {
            LocalInput::Central(order) => {
                ProbeHandler::of(parts).places_change(&order);
                self.order_or_grant(order, out);
            }
            LocalInput::CentralLost => HostEndHandler::of(parts).abandoned_by_central(),
            LocalInput::Spawned(rank, incarnation, pid) => {
                ProcessHandler::of(parts).spawned(rank, incarnation, pid);
            }
            LocalInput::NotStarted(rank, incarnation, why) => {
                ExitHandler::of(parts).not_started(rank, incarnation, why);
            }
            LocalInput::FromRank(rank, incarnation, pid, message) => {
                self.on_rank_message(rank, incarnation, pid, message, out);
            }
            LocalInput::Malformed(rank, incarnation, why) => {
                ExitHandler::of(parts).fail(rank, incarnation, Cause::Misbehaved { why });
            }
            LocalInput::Closed(..)
            | LocalInput::ExitDetected(..)
            | LocalInput::ChildEnded(..)
            | LocalInput::CallerEnded(..)
            | LocalInput::Retired(..) => self.process_ends(input, out),
            LocalInput::ImageEnded(..)
            | LocalInput::ImageGivenUp(..)
            | LocalInput::ImageStored(..)
            | LocalInput::ImageNotStored(..) => self.image_changes(input, out),
            LocalInput::ImageCopied(file) => CopyHandler::of(parts).image_copied(file),
            LocalInput::ImageNotCopied(file, why) => {
                CopyHandler::of(parts).image_not_copied(file, why);
            }
            LocalInput::CopiesFound(found) => parts.copies.adopt(found),
            LocalInput::Loaded(rank, number, bytes) => {
                MoveOrderHandler::of(parts).loaded(rank, number, bytes);
            }
            LocalInput::NotLoaded(rank, number, why) => {
                MoveOrderHandler::of(parts).not_loaded(rank, number, why);
            }
            LocalInput::MoveBytes(bytes) => out.report(MoveMessage::Bytes(bytes)),
            LocalInput::LookedUp(from, message) => {
                LookupHandler::of(parts).on_lookup(from, message);
            }
            LocalInput::Probed(host, message) => ProbeHandler::of(parts).probed(host, message),
            LocalInput::NoConnection(host, why) => ProbeHandler::of(parts).no_connection(host, why),
            LocalInput::Leave(millis) => LeavingHandler::of(parts).leave_within(millis),
            LocalInput::Health(health) => HostEndHandler::of(parts).health(health),
            LocalInput::LogsUsed(all) => out.report(LogMessage::Used(all)),
            LocalInput::Tick => self.tick(out),
            LocalInput::Swept => HostEndHandler::of(parts).swept(),
        }
    }

    /// A message of a rank.
    fn on_rank_message(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        pid: u32,
        message: ToManager,
        out: &mut LocalOut,
    ) {
        let parts = &mut self.parts(out);
        match message {
            ToManager::LookUp { rank: of, least } => {
                let instance = parts.processes.instance(rank, incarnation);
                LookupHandler::of(parts).looks_up(instance, of, least);
            }
            ToManager::Waits { ranks, any } => ProbeHandler::of(parts).rank_waits(ranks, any),
            message => RankMessageHandler::of(parts).on_message(rank, incarnation, pid, message),
        }
    }

    /// A process ends, or is out of the way.
    fn process_ends(&mut self, input: LocalInput, out: &mut LocalOut) {
        let now = out.now;
        let parts = &mut self.parts(out);
        match input {
            LocalInput::Closed(rank, incarnation) => {
                let closed = |process: &mut RankProcess, number| process.closed(now, number);
                ExitHandler::of(parts).event(rank, incarnation, closed);
            }
            LocalInput::ExitDetected(rank, incarnation) => {
                ExitHandler::of(parts).event(rank, incarnation, RankProcess::exit_detected);
            }
            LocalInput::ChildEnded(rank, incarnation, end) => {
                let news = parts.processes.child_ended(now, rank, incarnation, end);
                out.report_any(news);
            }
            LocalInput::CallerEnded(rank, incarnation, end) => {
                ExitHandler::of(parts).event(rank, incarnation, |process, number| {
                    process.caller_ended(now, end, number)
                });
            }
            LocalInput::Retired(rank, incarnation) => {
                ProcessHandler::of(parts).has_retired(rank, incarnation);
            }
            _ => {}
        }
    }

    /// An image ends, or is in a file, or can't be.
    fn image_changes(&mut self, input: LocalInput, out: &mut LocalOut) {
        let parts = &mut self.parts(out);
        let mut images = ImageHandler::of(parts);
        match input {
            LocalInput::ImageEnded(rank, image) => images.image_ended(rank, image, None),
            LocalInput::ImageGivenUp(rank, image, why) => {
                images.image_ended(rank, image, Some(why));
            }
            LocalInput::ImageStored(rank, image) => images.image_stored(rank, image),
            LocalInput::ImageNotStored(rank, image, why) => {
                images.image_not_stored(rank, image, why);
            }
            _ => {}
        }
    }

    /// Looks at the clock for all that waits for it.
    fn tick(&mut self, out: &mut LocalOut) {
        let parts = &mut self.parts(out);
        LookupHandler::of(parts).request_again();
        ProbeHandler::of(parts).probe_tick();
        LeavingHandler::of(parts).leaving_tick();
        OverdueHandler::of(parts).recovery_waits();
        HostEndHandler::of(parts).kill_when_due();
        ExitHandler::of(parts).judge_due();
    }

    /// An order of central, or the lease for which earlier orders have waited.
    fn order_or_grant(&mut self, order: ToLocal, out: &mut LocalOut) {
        let ToLocal::Granted { number } = order else {
            return self.order(order, out);
        };
        if LeaseHandler::of(&mut self.parts(out)).granted(number) {
            ProcessHandler::of(&mut self.parts(out)).take_over();
            for order in self.lease.take_orders() {
                self.order(order, out);
            }
            SignalHandler::of(&mut self.parts(out)).pass_held_signal();
        }
    }

    /// An order of central.
    fn order(&mut self, order: ToLocal, out: &mut LocalOut) {
        let present = self.processes.generation();
        let phase = self.course.phase.clone();
        let parts = &mut self.parts(out);
        match order {
            ToLocal::Leave { keeps_files } => HostEndHandler::of(parts).leave(keeps_files),
            ToLocal::Copy { members, epoch } => CopyHandler::of(parts).copy_image(members, epoch),
            ToLocal::Unload { rank } => VacateHandler::of(parts).unload(rank),
            ToLocal::WriteImages { ranks, epoch } => {
                ImageHandler::of(parts).write_images(epoch, &ranks);
            }
            // The asking central manager has not received it.
            ToLocal::Report | ToLocal::End { .. } | ToLocal::Kill if phase == LocalPhase::Done => {
                out.report(HostMessage::Done);
            }
            ToLocal::Spawn { .. } | ToLocal::Restore { .. } => {
                self.order_processes(order, out);
            }
            ToLocal::Start { .. } | ToLocal::Begin { .. } => self.order_to_begin(order, out),
            ToLocal::Move { .. }
            | ToLocal::Load { .. }
            | ToLocal::Stay { .. }
            | ToLocal::Vacate { .. }
            | ToLocal::Update { .. } => MoveOrderHandler::of(parts).order(order),
            ToLocal::RegionsNumber {
                generation,
                rank,
                epoch,
            } => RankRegionHandler::of(parts).number_regions(generation, rank, epoch),
            ToLocal::RegionsCommitted { generation, epochs } => {
                RankRegionHandler::of(parts).committed(generation, epochs);
            }
            ToLocal::Checkpoint { .. }
            | ToLocal::CheckpointRanks { .. }
            | ToLocal::Commit { .. }
            | ToLocal::CommitGroup { .. } => self.order_of_checkpoint(order, out),
            ToLocal::CanNotLeave => LeavingHandler::of(parts).can_not_leave(),
            ToLocal::Release { instance } => parts.processes.release(instance),
            ToLocal::AllFinalized { generation } if generation == present => {
                RankMessageHandler::of(parts).all_finalized();
            }
            ToLocal::Signal { signal } => SignalHandler::of(parts).pass_signal(signal),
            ToLocal::End { why } if matches!(phase, LocalPhase::Idle | LocalPhase::Running) => {
                HostEndHandler::of(parts).end(why);
            }
            ToLocal::Kill => HostEndHandler::of(parts).kill(),
            ToLocal::Watch(order) => ProbeHandler::of(parts).watch_order(order),
            ToLocal::Report => ReportHandler::of(parts).report(),
            ToLocal::Acknowledged { instance } => parts.processes.acknowledged(instance),
            // Stale news of an older generation, or an order that came twice. A lease is no order.
            ToLocal::AllFinalized { .. } | ToLocal::End { .. } | ToLocal::Granted { .. } => {}
        }
    }

    /// An order about checkpoints: of which ranks take images, and which of these count.
    fn order_of_checkpoint(&mut self, order: ToLocal, out: &mut LocalOut) {
        let parts = &mut self.parts(out);
        let present = parts.processes.generation();
        match order {
            ToLocal::Checkpoint { generation, epoch } if generation == present => {
                ImageHandler::of(parts).request_images(generation, epoch, None);
            }
            ToLocal::CheckpointRanks {
                generation,
                epoch,
                ranks,
            } if generation == present => {
                ImageHandler::of(parts).request_images(generation, epoch, Some(ranks));
            }
            ToLocal::Commit {
                generation,
                epochs,
                abandoned,
            } if generation == present || ImageHandler::of(parts).has_only_images(generation) => {
                ImageHandler::of(parts).commit(epochs, abandoned);
            }
            ToLocal::CommitGroup {
                generation,
                ranks,
                epoch,
                released,
            } if generation == present => {
                ImageHandler::of(parts).commit_group(&ranks, (epoch, released));
            }
            // Stale news of an older generation.
            _ => {}
        }
    }

    /// An order to make processes of ranks.
    fn order_processes(&mut self, order: ToLocal, out: &mut LocalOut) {
        let parts = &mut self.parts(out);
        let present = parts.processes.generation();
        let runs = parts.course.runs();
        match order {
            ToLocal::Spawn { .. } if parts.course.phase == LocalPhase::Idle => {
                ProcessHandler::of(parts).begin(order)
            }
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
                ProcessHandler::of(parts).restore(generation, (from, ranks), moved);
            }
            ToLocal::Restore {
                generation,
                from,
                ranks,
                moved,
            } if runs && generation >= present => {
                ProcessHandler::of(parts).restore(generation, (from, ranks), moved);
            }
            ToLocal::Restore { .. } if parts.lease.awaits() => parts.lease.come_back(order),
            // It came twice.
            _ => {}
        }
    }

    /// All ranks have registered: those of this host begin, with the table or ahead of it.
    fn order_to_begin(&mut self, order: ToLocal, out: &mut LocalOut) {
        let parts = &mut self.parts(out);
        let present = parts.processes.generation();
        let runs = parts.course.runs();
        match order {
            ToLocal::Start {
                generation,
                table,
                image,
            } if generation == present && runs => {
                StartHandler::of(parts).take_table(generation, table, image);
            }
            ToLocal::Begin {
                generation,
                process_map,
                image,
            } if generation == present && runs => {
                StartHandler::of(parts).begin_without_table(generation, process_map, image);
            }
            // An older generation.
            _ => {}
        }
    }
}
