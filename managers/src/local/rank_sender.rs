//! Messages to this host's ranks. Some of them also go by signal.

use super::manager_parts::{ManagerParts, handler, keys};
use crate::fault;
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_managers_host::error::Result;
use rejoin_wire::codec::{MANAGER_LIMIT, encode};
use rejoin_wire::{FromManager, SignalRequest};

handler! {
    /// Sends to ranks.
    pub(super) RankSender of ManagerParts {
        changes { ranks, requests }
        reads { starter, reactor }
    }
}

impl RankSender<'_> {
    /// Tells these ranks.
    pub fn notify_all(&mut self, ranks: &[Rank], message: &FromManager) -> Result<()> {
        let mut frame = Vec::new();
        encode(message, MANAGER_LIMIT, &mut frame)?;
        for (told, rank) in ranks.iter().enumerate() {
            fault::halfway(message, told, ranks.len());
            if let Some(slot) = self.ranks.slot(*rank) {
                self.send(slot, message, &frame)?;
            }
        }
        if let FromManager::Checkpoint { .. } | FromManager::Move { .. } = message {
            self.requests.sent();
        }
        Ok(())
    }

    /// Tells one rank.
    pub fn notify(&mut self, slot: usize, message: &FromManager) -> Result<()> {
        let mut frame = Vec::new();
        encode(message, MANAGER_LIMIT, &mut frame)?;
        self.send(slot, message, &frame)
    }

    /// Sends a frame with this message to a rank; a checkpoint request goes by signal too.
    fn send(&mut self, slot: usize, message: &FromManager, frame: &[u8]) -> Result<()> {
        let rank = &mut self.ranks[slot];
        rank.send(frame, slot, self.reactor)?;
        let starter = self.starter.as_ref();
        let logs_messages = starter.is_some_and(|starter| starter.rank_logs().is_used());
        // The rank may retain messages for one that has come back.
        let is_update = |card: &FromManager| matches!(card, FromManager::Card { incarnation, .. } if *incarnation != Incarnation(0));
        let request = if let FromManager::Checkpoint { epoch, .. } = message {
            SignalRequest::Checkpoint(*epoch)
        } else if matches!(message, FromManager::Move { .. })
            || (logs_messages && is_update(message))
        {
            SignalRequest::ReadMessages
        } else {
            return Ok(());
        };
        let target = rank.signal_target();
        self.requests.send(slot, request, target.as_ref());
        Ok(())
    }
}

handler! {
    /// Repeats requests by signal.
    pub(super) RequestRetries of ManagerParts {
        changes { requests }
        reads { ranks, images }
    }
}

impl RequestRetries<'_> {
    /// Sends checkpoint requests again by signal, where a process did not take them.
    pub fn retry(&mut self) {
        let (ranks, images) = (self.ranks, self.images);
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
}
