//! Passes inputs to the core, and its effects to their handlers.

use super::LocalManager;
use super::image_copying::HostCopyHandler;
use super::lease_duties::SuspendHandler;
use super::load_ahead::LoadHandler;
use super::manager_links::ManagerLinks;
use super::moved_ranks::TakeInHandler;
use super::new_images::ImageFileHandler;
use super::peer_messages::PeerHandler;
use super::rank_events::RankEventHandler;
use super::rank_sender::RankSender;
use super::restore_process::RestoreHandler;
use super::retire::RetireHandler;
use super::start_ranks::SpawnHandler;
use crate::fault;
use crate::launch::local_messages::{LocalToCentral, LocalToMpirun};
use rejoin_channel_table::ImageId;
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::Result;
use rejoin_managers_host::host_clocks;
use rejoin_managers_protocol::local::{LocalEffect, LocalInput};

impl LocalManager {
    /// Passes all inputs to the core, and carries out its effects.
    pub(super) fn steps(&mut self) -> Result<()> {
        while let Some(input) = self.parts.inputs.pop_front() {
            tracing::debug!(?input, "local");
            fault::at_input(&input);
            let mut effects = Vec::new();
            self.core.step(host_clocks::now(), input, &mut effects);
            for effect in effects {
                let first = || !self.parts.restores.is_any();
                let point = fault::before_local(&effect, first);
                self.perform(effect)?;
                fault::after_local(point);
            }
        }
        Ok(())
    }

    fn perform(&mut self, effect: LocalEffect) -> Result<()> {
        use LocalEffect as Effect;
        let parts = &mut self.parts;
        match effect {
            Effect::Abandon => {
                tracing::warn!("this host is told to end, and its ranks with it");
                self.abandon();
            }
            Effect::Spawn(instance) => SpawnHandler::of(parts).order_process(instance)?,
            Effect::Retire(rank, number) => RetireHandler::of(parts).retire(rank, number),
            Effect::Restore(instance, image) => {
                RestoreHandler::of(parts).restore(instance, image)?;
            }
            Effect::TakeIn(moved, from) => TakeInHandler::of(parts).take_in(moved, from)?,
            Effect::Discard(rank, number) => RetireHandler::of(parts).discard(rank, number),
            Effect::HasLeft(rank) => TakeInHandler::of(parts).has_left(rank),
            Effect::DropImage(rank, image) => RestoreHandler::of(parts).drop_image(rank, image),
            Effect::DropFromMemory(rank, image) => {
                RestoreHandler::of(parts).drop_from_memory(rank, image);
            }
            Effect::WriteImage(rank, epoch) => {
                ImageFileHandler::of(parts).write_image(rank, ImageId::Checkpoint(epoch), None);
            }
            Effect::WriteImageOfMove(rank, number, base) => {
                ImageFileHandler::of(parts).write_image(rank, ImageId::Move(number), base);
            }
            Effect::Load(rank, number, holder) => {
                LoadHandler::of(parts).load_ahead(rank, number, holder)?;
            }
            Effect::Unload(rank) => LoadHandler::of(parts).unload(rank),
            Effect::CopyImage(members, epoch) => {
                HostCopyHandler::of(parts).copy_image(&members, epoch)?;
            }
            Effect::DropCopy(file) => HostCopyHandler::of(parts).drop_copy(file),
            Effect::Central(news) => {
                PeerHandler::of(parts).report_to_central(&LocalToCentral::News(news))?
            }
            Effect::Ranks(ranks, message) => RankSender::of(parts).notify_all(&ranks, &message)?,
            Effect::LookUp(to, message) => PeerHandler::of(parts).send_lookup(to, message)?,
            Effect::Probe(to, message) => PeerHandler::of(parts).send_probe(to, message)?,
            Effect::Watch(rank, number, pid) => {
                RankEventHandler::of(parts).watch_caller(rank, number, pid)?;
            }
            Effect::StopAll => SuspendHandler::of(parts).stop_all(),
            Effect::RunUntil(until) => SuspendHandler::of(parts).run_until(until),
            Effect::SignalGroup(rank, signal) => {
                SpawnHandler::of(parts).signal_group(rank, signal);
            }
            Effect::SignalCaller(rank, signal) => {
                SpawnHandler::of(parts).signal_caller(rank, signal);
            }
            Effect::SignalAll(signal) => self.signal_all(signal),
            Effect::Sweep => self.begin_sweep(),
            Effect::Exit { keeps_files } => self.exit(keeps_files),
            Effect::Caveats(rank, lines) => {
                parts
                    .mpirun
                    .notify(&LocalToMpirun::Caveats { rank, lines })?;
            }
            Effect::Waits(rank, text) => {
                parts.mpirun.notify(&LocalToMpirun::Waits { rank, text })?
            }
            Effect::Note(rank, important, text) => parts.mpirun.notify(&LocalToMpirun::Note {
                rank,
                important,
                text,
            })?,
        }
        Ok(())
    }

    /// The manager ends before the job does, and its ranks with it.
    pub(super) fn abandon(&mut self) {
        self.has_abandoned = true;
        ManagerLinks::of(&mut self.parts).job_ended();
    }

    fn signal_all(&mut self, signal: i32) {
        SpawnHandler::of(&mut self.parts).start_no_more();
        let count = descendants::signal_all(signal);
        tracing::info!(signal, count, "signal to every process of the job");
        self.sweep.signalled(signal);
    }

    fn begin_sweep(&mut self) {
        RestoreHandler::of(&mut self.parts).drop_all_images();
        if self.sweep.begin(&self.parts.ranks.tracked()) {
            self.parts.inputs.push_back(LocalInput::Swept);
        }
    }

    fn exit(&mut self, keeps_files: bool) {
        let parts = &mut self.parts;
        parts.over = true;
        SpawnHandler::of(parts).start_no_more();
        parts.copies.iter().for_each(|copies| copies.close());
        parts.images.leave_folder(keeps_files);
        parts.outputs.job_over();
    }
}
