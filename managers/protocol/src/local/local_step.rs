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
use crate::manager_messages::{Cause, HostMessage, LogMessage, MoveMessage, Time, ToLocal};
use rejoin_channel_table::{Incarnation, Rank};
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
            LocalInput::Closed(rank, incarnation) => {
                ExitHandler::of(parts).closed(rank, incarnation)
            }
            LocalInput::ExitDetected(rank, incarnation) => {
                ExitHandler::of(parts).event(rank, incarnation, RankProcess::exit_detected);
            }
            LocalInput::ChildEnded(rank, incarnation, end) => {
                ExitHandler::of(parts).child_ended(rank, incarnation, end);
            }
            LocalInput::CallerEnded(rank, incarnation, end) => {
                ExitHandler::of(parts).caller_ended(rank, incarnation, end);
            }
            LocalInput::Retired(rank, incarnation) => {
                ProcessHandler::of(parts).has_retired(rank, incarnation);
            }
            LocalInput::ImageEnded(rank, image, why) => {
                ImageHandler::of(parts).image_ended(rank, image, why);
            }
            LocalInput::ImageStored(rank, image) => {
                ImageHandler::of(parts).image_stored(rank, image)
            }
            LocalInput::ImageNotStored(rank, image, why) => {
                ImageHandler::of(parts).image_not_stored(rank, image, why);
            }
            LocalInput::ImageCopied(file) => CopyHandler::of(parts).image_copied(file),
            LocalInput::ImageNotCopied(file, why) => {
                CopyHandler::of(parts).image_not_copied(file, why);
            }
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
            let starts = matches!(&order, ToLocal::Spawn { ranks, .. } if !ranks.is_empty());
            let waits = self.course.phase == LocalPhase::Idle && self.lease.is_suspended();
            return match starts && waits {
                true => self.lease.postpone(order),
                false => self.order(order, out),
            };
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
        let (present, phase) = (self.processes.generation(), self.course.phase.clone());
        let runs = phase == LocalPhase::Running;
        let parts = &mut self.parts(out);
        match order {
            ToLocal::Leave => HostEndHandler::of(parts).leave(false),
            ToLocal::Copy { members, epoch } => CopyHandler::of(parts).copy_image(members, epoch),
            // The asking central manager has not received it.
            ToLocal::Report | ToLocal::End { .. } | ToLocal::Kill if phase == LocalPhase::Done => {
                out.report(HostMessage::Done);
            }
            ToLocal::Spawn {
                generation,
                ranks,
                from,
                moved,
                ..
            } => ProcessHandler::of(parts).spawn(generation, (from, ranks), moved),
            ToLocal::Restore {
                generation,
                from,
                ranks,
                moved,
                ..
            } if runs && generation >= present => {
                ProcessHandler::of(parts).restore(generation, (from, ranks), moved);
            }
            ToLocal::Restore { .. } => parts.lease.come_back(order),
            ToLocal::Start {
                generation,
                table,
                image,
            } if runs && generation == present => {
                StartHandler::of(parts).take_table(generation, table, image)
            }
            ToLocal::Begin {
                generation,
                process_map,
                image,
            } if runs && generation == present => {
                StartHandler::of(parts).begin_without_table(generation, process_map, image)
            }
            ToLocal::Image(order) => ImageHandler::of(parts).order(order),
            ToLocal::Move(order) => MoveOrderHandler::of(parts).order(order),
            ToLocal::Update { instance, card } => {
                MoveOrderHandler::of(parts).update(instance, card);
            }
            ToLocal::Regions(order) => RankRegionHandler::of(parts).order(order),
            ToLocal::CanNotLeave => LeavingHandler::of(parts).can_not_leave(),
            ToLocal::Release { instance } => parts.processes.release(instance),
            ToLocal::AllFinalized { generation } => {
                RankMessageHandler::of(parts).all_finalized(generation);
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
            ToLocal::Start { .. }
            | ToLocal::Begin { .. }
            | ToLocal::End { .. }
            | ToLocal::Granted { .. } => {}
        }
    }
}
