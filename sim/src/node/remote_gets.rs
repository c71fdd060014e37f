//! Bodies that a node reads out of the memory of another node, as a rank does on its own host.

use rejoin_channel_table::Rank;
use rejoin_engine::RemoteGet;

use super::{MemoryAccess, Node, Violation};

impl Node {
    /// Which node can read the other's memory, from the next link to `peer` on.
    pub fn share_memory(&mut self, peer: Rank, access: MemoryAccess) {
        self.access.insert(peer, access);
    }

    /// Which node can read the other's memory over the links to `peer`.
    pub fn access(&self, peer: Rank) -> MemoryAccess {
        self.access.get(&peer).copied().unwrap_or_default()
    }

    /// A link is open: the engine learns who can read whose memory.
    pub(super) fn learn_access(&mut self, peer: Rank) {
        let MemoryAccess { ours, theirs } = self.access(peer);
        self.engine.set_remote_access(peer, ours, theirs);
    }

    /// Whether there are bodies to read out of other nodes' memory, or their senders are to be
    /// cleared.
    pub fn may_get(&self) -> bool {
        let mut engine = self.engine.clone();
        engine.next_get().is_some() || engine != self.engine
    }

    /// The bytes of this node's memory that another node reads.
    ///
    /// # Errors
    /// The engine named memory that this node does not have.
    pub fn expose_memory(&self, get: &RemoteGet) -> Result<Vec<u8>, Violation> {
        let from = usize::try_from(get.from).unwrap_or(usize::MAX);
        let bytes = self.memory.get(from..from.saturating_add(get.to.len));
        let bytes = bytes.ok_or_else(|| format!("{get:?} is outside of its sender's memory"))?;
        Ok(bytes.to_vec())
    }

    /// Takes what was read of a body: all of it, or the bytes before the read failed.
    pub fn take_get(&mut self, get: &RemoteGet, bytes: &[u8]) {
        self.memory[get.to.addr..get.to.addr + bytes.len()].copy_from_slice(bytes);
        let whole = bytes.len() == get.to.len;
        self.engine.get_done(get, whole);
        self.log_whole();
        if whole {
            self.get_counts.whole += 1;
        } else {
            self.get_counts.failed += 1;
        }
    }
}
