//! What ranks say, and ends of their processes.

use super::local_rank::end_of;
use super::manager_parts::{ManagerParts, handler, keys};
use super::new_images::NewImageHandler;
use super::report_logs::LogReporter;
use super::start::watch_place;
use super::stored_logs::StoredLogHandler;
use crate::launch::local_messages::LocalToMpirun;
use crate::launch::spawn::SpawnStep;
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::Result;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::End;
use rejoin_wire::{MOST_SIGNAL_PAUSE, ToManager};
use std::time::Duration;

handler! {
    /// Hears ranks, and notices ends of their processes.
    pub(super) RankEventHandler of ManagerParts {
        changes { ranks, requests, images, starter, log_reports, input, outputs, mpirun, inputs }
        reads { over, reactor }
    }
    with {
        logs: StoredLogHandler { ranks, requests, starter, mpirun, inputs, reactor },
        reporter: LogReporter { starter, over, log_reports, inputs },
        new_images: NewImageHandler {
            ranks, images, starter, input, outputs, mpirun, inputs, reactor,
        },
    }
}

impl RankEventHandler<'_> {
    /// Reads all messages of a rank that have arrived.
    pub fn read_socket(&mut self, slot: usize) {
        let Some((said, open)) = self.ranks[slot].read(slot, self.reactor) else {
            return;
        };
        let last_ask = said
            .iter()
            .rposition(|(_, said)| matches!(said, Ok(ToManager::StoreDeterminants { .. })));
        for (at, (pid, message)) in said.into_iter().enumerate() {
            let message = match message {
                Ok(message @ ToManager::Imaged { .. }) => {
                    self.new_images().take_image(slot, pid, message);
                    continue;
                }
                // The last answer is that of all.
                Ok(ToManager::StoreDeterminants { .. }) if Some(at) < last_ask => continue,
                Ok(ToManager::StoreDeterminants { mark }) => {
                    if let Err(error) = self.logs().store_determinants(slot, mark) {
                        tracing::error!(%error, "determinants are not stored");
                    }
                    continue;
                }
                Ok(ToManager::StoreReceived { position }) => {
                    if let Err(error) = self.logs().store_received(slot, position) {
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
                    self.logs().was_cut(slot);
                    Ok(message)
                }
                Ok(message @ (ToManager::Checkpoint { .. } | ToManager::WantFiles { .. })) => {
                    self.reporter().report_at_once();
                    Ok(message)
                }
                other => other,
            };
            if let Ok(ToManager::RegionsStored { epoch }) = &message {
                self.has_stored(slot, *epoch);
            }
            let said = |rank, incarnation| match message {
                Ok(message) => LocalInput::FromRank(rank, incarnation, pid, message),
                Err(error) => LocalInput::Malformed(rank, incarnation, error.to_string()),
            };
            self.ranks.report(slot, said, self.inputs);
        }
        if !open {
            self.ranks[slot].close_socket(self.reactor);
            self.ranks.report(slot, LocalInput::Closed, self.inputs);
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
            begun: self.outputs.stored(slot, self.mpirun, self.reactor),
        };
        if let Err(error) = self.mpirun.notify(&stored) {
            tracing::error!(%error, "a stored state is not reported");
        }
    }

    /// Watches the process that called `MPI_Init` under a wrapper.
    pub fn watch_caller(&mut self, rank: Rank, incarnation: Incarnation, pid: u32) -> Result<()> {
        let Some(slot) = self.ranks.slot(rank) else {
            return Ok(());
        };
        match descendants::watch(pid) {
            Ok(pidfd) => {
                let caller = (pid, pidfd);
                self.ranks[slot].registered(slot, incarnation, caller, self.reactor)?;
            }
            // It ended before we could look.
            Err(_) => {
                let ended = LocalInput::CallerEnded(rank, incarnation, End::Unknown);
                self.inputs.push_back(ended);
            }
        }
        Ok(())
    }

    /// The started process ended: reads its last messages, then reaps it.
    pub fn child_ended(&mut self, slot: usize) {
        self.read_failures();
        self.read_socket(slot);
        let Some(pid) = self.ranks[slot].child_pid() else {
            return;
        };
        let Some(status) = descendants::reap(pid) else {
            return;
        };
        if self.ranks[slot].child_reaped(self.reactor) {
            self.ranks
                .report(slot, LocalInput::ExitDetected, self.inputs);
        }
        let end = end_of(status);
        if matches!(end, End::Exited(_)) {
            self.outputs.rank_exited(slot, self.mpirun, self.reactor);
        }
        let ended = |rank, incarnation| LocalInput::ChildEnded(rank, incarnation, end);
        self.ranks.report(slot, ended, self.inputs);
    }

    /// The process that called MPI_Init under a wrapper ended.
    pub fn caller_ended(&mut self, slot: usize) {
        self.read_socket(slot);
        if let Some(end) = self.ranks[slot].caller_ended(slot, self.reactor) {
            let ended = |rank, incarnation| LocalInput::CallerEnded(rank, incarnation, end);
            self.ranks.report(slot, ended, self.inputs);
        }
    }

    /// Ends that have begun.
    pub fn ends_noticed(&mut self) {
        let ended = self.starter.as_ref().map(|starter| starter.ended());
        for place in ended.unwrap_or_default() {
            let slot = place as usize / 2;
            let Some(rank) = self.ranks.get_mut(slot) else {
                continue;
            };
            let is_present = watch_place(slot, rank.incarnation()) == place;
            if is_present && rank.child_pid().is_some() && rank.exit_begins() {
                self.ranks
                    .report(slot, LocalInput::ExitDetected, self.inputs);
            }
        }
    }

    /// Reads the reports of processes that could not exec.
    pub fn read_failures(&mut self) {
        while let Some(starter) = &self.starter
            && let Some(failure) = starter.take_failure()
        {
            if failure.step == SpawnStep::Binding {
                // It runs in spite of the failure.
                if let Some(rank) = self.ranks.get(failure.slot) {
                    let unbound = LocalToMpirun::Unbound(rank.rank(), failure.errno);
                    // A broken link shows itself where it is read.
                    let _ = self.mpirun.notify(&unbound);
                }
            } else if let Some(why) = starter.describe(failure) {
                let not_started =
                    |rank, incarnation| LocalInput::NotStarted(rank, incarnation, why);
                self.ranks.report(failure.slot, not_started, self.inputs);
            }
        }
    }
}
