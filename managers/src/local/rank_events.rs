//! What ranks say, and ends of their processes.

use super::LocalManager;
use super::local_rank::end_of;
use super::start::watch_place;
use crate::error::Result;
use crate::host::descendants;
use crate::launch::local_messages::LocalToMpirun;
use crate::launch::spawn::SpawnStep;
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::End;
use rejoin_wire::{FromManager, MOST_SIGNAL_PAUSE, SignalRequest, ToManager};
use std::time::Duration;

impl LocalManager {
    /// Sends a frame with this message to a rank; a checkpoint request goes by signal too.
    pub(super) fn send_to_rank(
        &mut self,
        slot: usize,
        message: &FromManager,
        frame: &[u8],
    ) -> Result<()> {
        let logs_messages = self.starter.as_mut().is_some_and(|s| s.logs().is_used());
        let rank = &mut self.ranks[slot];
        rank.send(frame, slot, &self.reactor)?;
        let request = match message {
            FromManager::Checkpoint { epoch, .. } => SignalRequest::Checkpoint(*epoch),
            FromManager::Move { .. } => SignalRequest::ReadMessages,
            // The rank may retain messages for one that has come back.
            FromManager::Card { incarnation, .. }
                if logs_messages && *incarnation != Incarnation(0) =>
            {
                SignalRequest::ReadMessages
            }
            _ => return Ok(()),
        };
        let target = rank.signal_target();
        self.requests.send(slot, request, target.as_ref());
        Ok(())
    }

    /// Sends checkpoint requests again by signal, where a process did not take them.
    pub(super) fn retry_requests(&mut self) {
        let (ranks, images) = (&self.ranks, &self.images);
        self.requests.retry(|slot, request| {
            let rank = &ranks[slot];
            let is_open = match request {
                SignalRequest::ReadMessages => true,
                SignalRequest::Checkpoint(epoch) => images.lacks(slot, epoch),
            };
            let counts = !rank.is_retiring() && is_open;
            rank.signal_target().filter(|_| counts)
        });
    }

    /// Reads all messages of a rank that have arrived.
    pub(super) fn read_socket(&mut self, slot: usize) {
        let Some((said, open)) = self.ranks[slot].read(slot, &self.reactor) else {
            return;
        };
        let last_ask = said
            .iter()
            .rposition(|(_, said)| matches!(said, Ok(ToManager::StoreDeterminants { .. })));
        for (at, (pid, message)) in said.into_iter().enumerate() {
            let message = match message {
                Ok(message @ ToManager::Imaged { .. }) => {
                    self.take_image(slot, pid, message);
                    continue;
                }
                // The last answer is that of all.
                Ok(ToManager::StoreDeterminants { .. }) if Some(at) < last_ask => continue,
                Ok(ToManager::StoreDeterminants { mark }) => {
                    if let Err(error) = self.store_determinants(slot, mark) {
                        tracing::error!(%error, "determinants are not stored");
                    }
                    continue;
                }
                Ok(ToManager::StoreReceived { position }) => {
                    if let Err(error) = self.store_received(slot, position) {
                        tracing::error!(%error, "received messages are not stored");
                    }
                    continue;
                }
                Ok(ToManager::SignalLater { milliseconds }) => {
                    let pause = milliseconds.clamp(1, MOST_SIGNAL_PAUSE);
                    let pause = Duration::from_millis(pause.into());
                    let incarnation = self.ranks[slot].incarnation();
                    self.requests.send_later(slot, pause, incarnation);
                    continue;
                }
                Ok(message @ ToManager::Orphan { .. }) => {
                    self.log_was_cut(slot);
                    Ok(message)
                }
                Ok(message @ (ToManager::Checkpoint { .. } | ToManager::WantFiles { .. })) => {
                    self.report_logs_at_once();
                    Ok(message)
                }
                other => other,
            };
            if let Ok(ToManager::RegionsStored { epoch }) = &message {
                self.has_stored(slot, *epoch);
            }
            self.told(slot, |rank, incarnation| match message {
                Ok(message) => LocalInput::Said(rank, incarnation, pid, message),
                Err(error) => LocalInput::Malformed(rank, incarnation, error.to_string()),
            });
        }
        if !open {
            self.ranks[slot].close_socket(&self.reactor);
            self.told(slot, LocalInput::Closed);
        }
    }

    /// The program of a rank has stored its memory: its earlier output precedes the report of that.
    fn has_stored(&mut self, slot: usize, epoch: Epoch) {
        if self.ranks[slot].is_retiring() {
            return;
        }
        let stored = LocalToMpirun::RegionsStored {
            rank: self.ranks[slot].rank(),
            epoch,
            begun: self.outputs.stored(slot, &mut self.mpirun, &self.reactor),
        };
        if let Err(error) = self.mpirun.tell(&stored) {
            tracing::error!(%error, "a stored state is not reported");
        }
    }

    /// Watches the process that called `MPI_Init` under a wrapper.
    pub(super) fn watch_caller(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        pid: u32,
    ) -> Result<()> {
        let Some(slot) = self.slot(rank) else {
            return Ok(());
        };
        match descendants::watch(pid) {
            Ok(pidfd) => {
                let caller = (pid, pidfd);
                self.ranks[slot].registered(slot, incarnation, caller, &self.reactor)?;
            }
            // It ended before we could look.
            Err(_) => {
                let ended = LocalInput::CallerEnded(rank, incarnation, End::Unknown);
                self.queue.push_back(ended);
            }
        }
        Ok(())
    }

    /// The started process ended: reads its last messages, then reaps it.
    pub(super) fn child_ended(&mut self, slot: usize) {
        self.read_failures();
        self.read_socket(slot);
        let Some(pid) = self.ranks[slot].child_pid() else {
            return;
        };
        let Some(status) = descendants::reap(pid) else {
            return;
        };
        if self.ranks[slot].child_reaped(&self.reactor) {
            self.told(slot, LocalInput::ExitDetected);
        }
        let end = end_of(status);
        if matches!(end, End::Exited(_)) {
            self.outputs
                .rank_exited(slot, &mut self.mpirun, &self.reactor);
        }
        self.told(slot, |rank, incarnation| {
            LocalInput::ChildEnded(rank, incarnation, end)
        });
    }

    /// The process that called MPI_Init under a wrapper ended.
    pub(super) fn caller_ended(&mut self, slot: usize) {
        self.read_socket(slot);
        if let Some(end) = self.ranks[slot].caller_ended(slot, &self.reactor) {
            self.told(slot, |rank, incarnation| {
                LocalInput::CallerEnded(rank, incarnation, end)
            });
        }
    }

    /// Ends that have begun.
    pub(super) fn ends_noticed(&mut self) {
        let ended = self.starter.as_ref().map(|starter| starter.ended());
        for place in ended.unwrap_or_default() {
            let slot = place as usize / 2;
            let Some(rank) = self.ranks.get_mut(slot) else {
                continue;
            };
            let is_present = watch_place(slot, rank.incarnation()) == place;
            if is_present && rank.child_pid().is_some() && rank.exit_begins() {
                self.told(slot, LocalInput::ExitDetected);
            }
        }
    }

    /// Reads the reports of processes that could not exec.
    pub(super) fn read_failures(&mut self) {
        while let Some(starter) = &self.starter
            && let Some(failure) = starter.take_failure()
        {
            if failure.step == SpawnStep::Binding {
                // It runs in spite of the failure.
                if let Some(rank) = self.ranks.get(failure.slot) {
                    let unbound = LocalToMpirun::Unbound(rank.rank(), failure.errno);
                    // A broken link shows itself where it is read.
                    let _ = self.mpirun.tell(&unbound);
                }
            } else if let Some(why) = starter.describe(failure) {
                self.told(failure.slot, |rank, incarnation| {
                    LocalInput::NotStarted(rank, incarnation, why)
                });
            }
        }
    }

    /// A process has ended that is not one of the present ones: an image, a retired one, or one of
    /// which this manager is about to learn.
    pub(super) fn forget(&mut self, pid: u32, status: Option<i32>) {
        if let Some((slot, id, token)) = self.images.of_process(pid) {
            // It may have said why.
            if let Err(error) = self.image_event(token) {
                tracing::error!(%error, "the end of an image is not reported");
            }
            // Its socket may still be held by a process that it is making.
            if self.images.of_process(pid).is_some() {
                self.image_lost(slot, id, "its process ended");
            }
            return;
        }
        for rank in &mut self.ranks {
            if let Some(incarnation) = rank.reaped(pid) {
                let end = status.map_or(End::Unknown, end_of);
                let ended = LocalInput::ChildEnded(rank.rank(), incarnation, end);
                return self.queue.push_back(ended);
            }
        }
        if let Some(status) = status {
            self.restores.add_stray(pid, status);
        }
    }
}
