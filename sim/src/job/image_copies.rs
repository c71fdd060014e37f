//! Which hosts have copies of image files of other hosts, or the parities of several.

use rejoin_channel_table::{Epoch, ImageId, Rank};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::manager_messages::KeptFile;
use std::collections::BTreeMap;

/// A copy of the file of an image, or the parity of several.
#[derive(Debug, Clone)]
struct SimCopy {
    host: HostIndex,
    members: Vec<Rank>,
    is_whole: bool,
}

/// All copies.
#[derive(Debug, Default)]
pub(super) struct SimCopies {
    copies: BTreeMap<KeptFile, SimCopy>,
}

impl SimCopies {
    /// The host that has a whole copy or a parity of this rank's file, and the other ranks whose
    /// files are needed beside it.
    pub fn of(&self, rank: Rank, image: ImageId) -> Option<(HostIndex, Vec<Rank>)> {
        let mut copies = self.copies.iter().filter(|(file, _)| file.image == image);
        let is_meant = |copy: &SimCopy| copy.is_whole && copy.members.contains(&rank);
        let (_, copy) = copies.find(|(_, copy)| is_meant(copy))?;
        let others = copy.members.iter().copied().filter(|other| *other != rank);
        Some((copy.host, others.collect()))
    }

    /// A host begins a copy, or the parity of several. Returns which it is.
    pub fn begin(&mut self, host: HostIndex, members: Vec<Rank>, epoch: Epoch) -> KeptFile {
        let file = KeptFile {
            rank: members[0],
            image: ImageId::Checkpoint(epoch),
            is_parity: members.len() > 1,
        };
        let copy = SimCopy {
            host,
            members,
            is_whole: false,
        };
        self.copies.insert(file, copy);
        file
    }

    /// The host that is making this one, and of which ranks.
    pub fn maker(&self, file: KeptFile) -> Option<(HostIndex, Vec<Rank>)> {
        let copy = self.copies.get(&file).filter(|copy| !copy.is_whole)?;
        Some((copy.host, copy.members.clone()))
    }

    /// It is whole.
    pub fn complete(&mut self, file: KeptFile) {
        if let Some(copy) = self.copies.get_mut(&file) {
            copy.is_whole = true;
        }
    }

    /// A host is lost with its copies.
    pub fn lose_host(&mut self, host: HostIndex) {
        self.copies.retain(|_, copy| copy.host != host);
    }

    /// This rank is on a host that may have a copy, and comes back from this image:
    /// the copy is its file now.
    pub fn take_in(&mut self, host: HostIndex, rank: Rank, image: Option<ImageId>) {
        let is_copy = |file: &KeptFile| file.rank == rank && !file.is_parity;
        self.copies.retain(|file, copy| {
            let stays = copy.is_whole && Some(file.image) != image;
            !is_copy(file) || copy.host != host || stays
        });
    }

    /// A copy does not count any more.
    pub fn drop(&mut self, file: KeptFile) {
        self.copies.remove(&file);
    }
}
