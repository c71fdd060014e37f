//! Messages that this host's ranks have logged, and that must outlive the host: mpirun keeps a
//! copy, so that their senders need not retain them.

use super::LocalManager;
use crate::error::Result;
use crate::launch::local_messages::LocalToMpirun;
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_logging::determinants::StableMark;
use rejoin_logging::receive_log::ReceivedPart;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_wire::FromManager;
use rejoin_wire::codec::{MANAGER_LIMIT, encode};

impl LocalManager {
    /// A rank wants its receive log to be stored up to this position.
    pub(super) fn store_received(&mut self, slot: usize, position: u64) -> Result<()> {
        if self.ranks[slot].is_retiring() {
            return Ok(());
        }
        let (rank, incarnation) = (self.ranks[slot].rank(), self.ranks[slot].incarnation());
        let Some(starter) = &mut self.starter else {
            return Ok(());
        };
        match starter.logs().read_received(rank, position) {
            // Also one without words: the answer then comes behind all that is on its way.
            Ok(part) => self.mpirun.tell(&LocalToMpirun::Received {
                rank,
                incarnation,
                part,
            }),
            Err(error) => {
                let why = error.to_string();
                self.told(slot, |rank, incarnation| {
                    LocalInput::Malformed(rank, incarnation, why)
                });
                Ok(())
            }
        }
    }

    /// The receive log of a rank is stored up to a mark.
    pub(super) fn received_stored(&mut self, stored: StableMark) -> Result<()> {
        let Some(slot) = self.slot(stored.rank) else {
            return Ok(());
        };
        // A later process asks itself.
        if self.ranks[slot].incarnation() != stored.incarnation {
            return Ok(());
        }
        let position = stored.mark;
        let message = FromManager::ReceivedStored { position };
        let mut frame = Vec::new();
        encode(&message, MANAGER_LIMIT, &mut frame)?;
        self.send_to_rank(slot, &message, &frame)
    }

    /// What a rank has logged of which a process is to begin on this host.
    pub(super) fn take_received(
        &mut self,
        process: (Rank, Incarnation),
        part: ReceivedPart,
    ) -> Result<()> {
        if let Some(starter) = &mut self.starter {
            starter.logs().take_received(process, &part);
        }
        Ok(())
    }
}
