//! Which ranks read whose memory, and when.

use rejoin_channel_table::Rank;
use rejoin_engine::{GetLengths, Gets};

use super::{Time, World};
use crate::node::{MemoryAccess, Violation};

/// Percent of arrivals after which a rank reads the bodies that it knows of, before its next poll.
pub(super) const GET_SOON: u64 = 30;
/// Longest time from an arrival to such a read, in microseconds.
pub(super) const GET_DELAY: Time = 300;
/// Percent of reads that fail, with some of the bytes read.
const FAILED: u64 = 10;
/// Bodies from these lengths on are read: alone, and while others are under way.
const LEAST: [Gets; 3] = [
    Gets::all_from(1_000),
    Gets {
        single: GetLengths::of_classes(0),
        stream: GetLengths::all_from(1_000),
    },
    Gets {
        single: GetLengths::all_from(3_000),
        stream: GetLengths::all_from(500),
    },
];

impl World {
    /// Whether two ranks share a host.
    pub(super) fn is_near(&self, rank: u32, other: u32) -> bool {
        self.near >> ((rank ^ other) % 64) & 1 == 1
    }

    /// Decides which rank can read the memory of which other rank of its host.
    pub(super) fn share_memory(&mut self) {
        let size = self.nodes.len() as u32;
        for reader in 0..size {
            for owner in (0..size).filter(|owner| *owner != reader) {
                if !self.is_near(reader, owner) || self.rng.chance(20) {
                    continue;
                }
                self.update_access(reader, owner, |access| access.ours = true);
                let least = LEAST[self.rng.below(LEAST.len() as u64) as usize];
                self.update_access(owner, reader, |access| access.theirs = Some(least));
            }
        }
    }

    fn update_access(&mut self, rank: u32, peer: u32, change: impl FnOnce(&mut MemoryAccess)) {
        let node = &mut self.nodes[rank as usize];
        let mut access = node.access(Rank(peer));
        change(&mut access);
        node.share_memory(Rank(peer), access);
    }

    /// A rank reads the bodies that its engine asks for. Some reads fail.
    pub(super) fn get(&mut self, rank: u32) -> Result<(), Violation> {
        while let Some(get) = self.nodes[rank as usize].engine.next_get() {
            let mut bytes = self.nodes[get.peer.index()].expose_memory(&get)?;
            if self.rng.chance(FAILED) {
                bytes.truncate(self.rng.below(bytes.len().max(1) as u64) as usize);
            }
            let whole = bytes.len() == get.to.len;
            let node = &mut self.nodes[rank as usize];
            let link = node.table().live(get.peer);
            let cut = link.is_some_and(|id| self.connections[&id].cut);
            node.get_counts.after_cut += u64::from(whole && cut);
            node.take_get(&get, &bytes);
        }
        self.reap(rank)
    }
}
