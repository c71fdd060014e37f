//! What the user is told of transports: that something slower is used than could be, and, with `--verbose`,
//! what was used.

use rejoin_channel_table::ids::Rank;
use rejoin_managers_protocol::rank::ToManager;

use crate::agent::Agent;
use crate::device::Device;
use crate::error::Result;

/// What there is to tell since the descriptors were made.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Why there is no shared memory where it was to be used.
    pub(crate) lacking: Option<String>,
    /// The user knows that shared memory with some rank has failed.
    pub(crate) told: bool,
}

impl Notes {
    /// Says, before the rank registers, that it has to do without shared memory.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn tell_lacking(&self, agent: &mut Agent) -> Result<()> {
        let Some(why) = &self.lacking else {
            return Ok(());
        };
        let text = format!("TCP instead of shared memory with the ranks of its host: {why}");
        agent.tell(&ToManager::Note {
            important: true,
            text,
        })
    }
}

impl Device {
    /// Says, once, that messages to `rank` go over TCP though both sides wanted shared memory.
    pub(crate) fn tell_fallback(&mut self, rank: Rank, why: &str) -> Result<()> {
        if std::mem::replace(&mut self.io.notes.told, true) {
            return Ok(());
        }
        let text = format!("TCP instead of shared memory with rank {rank}: {why}");
        match &mut self.io.agent {
            Some(agent) => agent.tell(&ToManager::Note {
                important: true,
                text,
            }),
            None => Ok(()),
        }
    }
}
