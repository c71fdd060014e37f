//! Messages of the manager while the job runs.

use rejoin_channel_table::BusinessCard;
use rejoin_channel_table::ids::{Incarnation, Rank};
use rejoin_wire::FromManager;

use super::Device;
use crate::error::Result;
use crate::manager;
use crate::recovery::MoveImage;

impl Device {
    /// Reads the manager's messages.
    pub(super) fn read_manager_messages(&mut self) -> Result<bool> {
        let mut moved = false;
        let present = self.member.identity().generation;
        while let Some(message) = self.manager.receive()? {
            match message {
                FromManager::Stop { .. } => manager::stop(),
                FromManager::Checkpoint { generation, epoch } => {
                    if generation == present {
                        self.recovery.request(epoch, self.engine.epoch());
                    }
                    continue;
                }
                FromManager::Move {
                    generation,
                    number,
                    stops,
                } => {
                    if generation == present {
                        let checkpoint = self.recovery.checkpoint();
                        checkpoint.request_move(MoveImage { number, stops });
                    }
                    continue;
                }
                FromManager::Stay { generation, number } => {
                    if generation == present {
                        self.recovery.stay(number);
                    }
                    continue;
                }
                FromManager::Committed {
                    generation,
                    epoch,
                    abandoned,
                } => {
                    if generation == present {
                        self.recovery.note_checkpoints(epoch, abandoned);
                    }
                }
                FromManager::AllFinalized { generation }
                | FromManager::GroupCommitted { generation, .. }
                | FromManager::RegionsNumber { generation, .. }
                | FromManager::RegionsCommitted { generation, .. }
                | FromManager::Card { generation, .. }
                    if generation != present => {}
                FromManager::AllFinalized { .. } => self.manager.finalized(),
                FromManager::DeterminantsStored { mark } => self.determinants_stored(mark),
                FromManager::ReceivedStored { position } => self.received_stored(position)?,
                FromManager::GroupCommitted { epoch, .. } => self.group_committed(epoch)?,
                FromManager::RegionsNumber { epoch, .. } => {
                    self.recovery.region_answers().give_number(epoch);
                }
                FromManager::RegionsCommitted { newest, before, .. } => {
                    self.recovery.region_answers().commit(newest, before);
                }
                FromManager::Card {
                    rank,
                    incarnation,
                    card,
                    ..
                } => self.updated(rank, incarnation, card)?,
                FromManager::Welcome(_) | FromManager::Start { .. } | FromManager::Begin { .. } => {
                }
            }
            self.manager.count_message();
            moved = true;
        }
        Ok(moved)
    }

    /// A rank has a new incarnation, or another host, or its card has come.
    fn updated(&mut self, rank: Rank, incarnation: Incarnation, card: BusinessCard) -> Result<()> {
        self.record_dependencies();
        self.note_ends(rank, &card.log_ends);
        self.return_if_orphan()?;
        let is_new = self.links.book().incarnation(rank) != Some(incarnation);
        let Some(closed) = self.links.update(rank, incarnation, card) else {
            return Ok(());
        };
        if let Some(closed) = closed {
            self.meter.stats.doorbells += closed.doorbells;
            self.engine.link_down(rank);
        }
        if is_new {
            // It may have come back from an image that lacks messages.
            self.engine.peer_returned(rank);
        }
        // Messages for the old place of the rank now wait for the new one.
        if self.engine.tx_waiting(rank) {
            self.links.list_redial(rank);
        }
        match is_new {
            true => self.note_returned(rank),
            false => Ok(()),
        }
    }
}
