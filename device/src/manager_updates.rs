//! What the manager says while the job runs.

use rejoin_channel_table::BusinessCard;
use rejoin_channel_table::ids::{Incarnation, Rank};
use rejoin_wire::FromManager;

use crate::agent;
use crate::device::Device;
use crate::error::Result;

impl Device {
    /// Reads the manager's messages.
    pub(crate) fn hear_manager(&mut self) -> Result<bool> {
        let mut moved = false;
        while let Some(agent) = &mut self.io.agent {
            match agent.receive()? {
                None => break,
                Some(FromManager::AllFinalized { generation }) => {
                    self.all_finalized |= generation == self.identity.generation;
                }
                Some(FromManager::Stop { .. }) => agent::stop(),
                Some(FromManager::Checkpoint { generation, epoch }) => {
                    if generation == self.identity.generation {
                        self.request_checkpoint(epoch);
                    }
                    continue;
                }
                Some(FromManager::Kept {
                    generation,
                    epoch,
                    abandoned,
                }) => {
                    if generation == self.identity.generation {
                        self.known.kept = self.known.kept.max(epoch.unwrap_or_default());
                        self.known.abandoned = self.known.abandoned.max(abandoned);
                    }
                }
                Some(
                    FromManager::Update { generation, .. } | FromManager::Card { generation, .. },
                ) if generation != self.identity.generation => {}
                Some(
                    FromManager::Update {
                        rank,
                        incarnation,
                        card,
                        ..
                    }
                    | FromManager::Card {
                        rank,
                        incarnation,
                        card,
                        ..
                    },
                ) => {
                    self.updated(rank, incarnation, card);
                }
                Some(
                    FromManager::Welcome(_) | FromManager::Start { .. } | FromManager::Begin { .. },
                ) => {}
            }
            self.words += 1;
            moved = true;
        }
        Ok(moved)
    }

    /// A rank has a new incarnation, or is elsewhere, or its card has come: nothing known of the
    /// way to it is good any more.
    fn updated(&mut self, rank: Rank, incarnation: Incarnation, card: BusinessCard) {
        let before = self.table.book().incarnation(rank);
        match self.table.update(rank, incarnation, card) {
            Ok(Some(token)) => {
                self.forget(token);
                self.engine.link_down(rank);
            }
            Ok(None) => {}
            // An older one, or none of this job's.
            Err(_) => return,
        }
        if before != Some(incarnation) {
            self.abandon_dial(rank);
        }
        self.forget_addresses(rank);
    }
}
