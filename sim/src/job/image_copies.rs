//! Which hosts have copies of image files of other hosts.

use rejoin_channel_table::{Epoch, Rank};
use rejoin_managers_protocol::central::HostIndex;
use std::collections::BTreeMap;

/// A copy of the file of an image.
#[derive(Debug, Clone, Copy)]
struct SimCopy {
    host: HostIndex,
    is_whole: bool,
}

/// All copies.
#[derive(Debug, Default)]
pub(super) struct SimCopies {
    copies: BTreeMap<(Rank, Epoch), SimCopy>,
}

impl SimCopies {
    /// Whether some host has a whole copy.
    pub fn has(&self, rank: Rank, epoch: Epoch) -> bool {
        let copy = self.copies.get(&(rank, epoch));
        copy.is_some_and(|copy| copy.is_whole)
    }

    /// The host that has a whole copy, if there is one.
    pub fn holder(&self, rank: Rank, epoch: Epoch) -> Option<HostIndex> {
        let copy = self.copies.get(&(rank, epoch));
        Some(copy.filter(|copy| copy.is_whole)?.host)
    }

    /// A host begins a copy.
    pub fn begin(&mut self, host: HostIndex, rank: Rank, epoch: Epoch) {
        let is_whole = false;
        let copy = SimCopy { host, is_whole };
        self.copies.insert((rank, epoch), copy);
    }

    /// The host that is making this copy.
    pub fn maker(&self, rank: Rank, epoch: Epoch) -> Option<HostIndex> {
        let copy = self.copies.get(&(rank, epoch));
        Some(copy.filter(|copy| !copy.is_whole)?.host)
    }

    /// A copy is whole.
    pub fn complete(&mut self, rank: Rank, epoch: Epoch) {
        if let Some(copy) = self.copies.get_mut(&(rank, epoch)) {
            copy.is_whole = true;
        }
    }

    /// A host is lost with its copies.
    pub fn lose_host(&mut self, host: HostIndex) {
        self.copies.retain(|_, copy| copy.host != host);
    }

    /// This rank is on a host that may have a copy: the copy is its file now.
    pub fn take_in(&mut self, host: HostIndex, rank: Rank) {
        self.copies
            .retain(|(other, _), copy| *other != rank || copy.host != host);
    }

    /// A copy does not count any more.
    pub fn drop(&mut self, rank: Rank, epoch: Epoch) {
        self.copies.remove(&(rank, epoch));
    }

    /// The launch is over. The whole copies of this checkpoint stay. Returns them by host.
    pub fn keep(&mut self, epoch: Option<Epoch>) -> BTreeMap<HostIndex, Vec<(Rank, Epoch)>> {
        self.copies
            .retain(|(_, other), copy| Some(*other) == epoch && copy.is_whole);
        let mut by_host: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (image, copy) in &self.copies {
            by_host.entry(copy.host).or_default().push(*image);
        }
        by_host
    }
}
