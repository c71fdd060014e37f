//! Bodies that are read out of the memory of a sender on the same host.

use rejoin_channel_table::ids::Rank;

use crate::device::Device;
use crate::memory;
use crate::transport::Link;

impl Device {
    /// Tells the engine, once it is known, which side of the link to a rank can read the other's memory.
    #[inline]
    pub(crate) fn learn_reach(&mut self, rank: Rank) {
        let token = self.table.live(rank).map(|(_, token)| token);
        let Some(live) = token.and_then(|token| self.io.slots.live(token)) else {
            return;
        };
        if live.reach_known {
            return;
        }
        if let Link::Shm(link) = &live.stream {
            let (ours, theirs) = link.reach();
            live.reach_known = theirs.is_some();
            self.engine.set_reach(rank, ours, theirs == Some(true));
        }
    }

    /// Reads the bodies that the engine asks for; true if there were any.
    #[inline]
    pub(crate) fn pull_all(&mut self) -> bool {
        let mut any = false;
        while let Some(pull) = self.engine.next_pull() {
            any = true;
            let token = self.table.live(pull.peer).map(|(_, token)| token);
            let live = token.and_then(|token| self.io.slots.live(token));
            let whole = match live.map(|live| &mut live.stream) {
                // SAFETY: the segment is a posted receive's, for which the caller has promised.
                Some(Link::Shm(link)) => unsafe {
                    link.pull(pull.from, memory::start(pull.to), pull.to.len)
                },
                _ => false,
            };
            self.meter.stats.pulls += 1;
            self.meter.stats.bytes_pulled += if whole { pull.to.len as u64 } else { 0 };
            self.engine.pulled(&pull, whole);
        }
        any
    }
}
