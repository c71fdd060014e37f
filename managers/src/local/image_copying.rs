//! Orders to copy files of images of other hosts.

use super::manager_parts::{ManagerParts, handler, keys};
use rejoin_channel_table::{Epoch, ImageId, Rank};
use rejoin_managers_host::error::Result;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::{KeptFile, ProcessInstance};

/// Why a host whose images have no files copies none.
pub(super) const NO_FILES: &str = "its partner keeps no files";

handler! {
    /// Has files copied, and asks central where they are.
    pub(super) CopyRequests {
        changes { copies, central }
    }
}

impl CopyRequests<'_> {
    /// Copies the file of an image of another host, or makes the parity of several. `false`: this
    /// host keeps no files.
    pub fn order(&mut self, members: &[(Rank, usize)], image: ImageId) -> Result<bool> {
        let Some(copies) = &mut self.copies else {
            return Ok(false);
        };
        let number =
            |(rank, host): &(Rank, usize)| (*rank, u32::try_from(*host).unwrap_or(u32::MAX));
        let numbers: Vec<(Rank, u32)> = members.iter().map(number).collect();
        let unknown = copies.order(&numbers, image);
        self.request_images_of(unknown)?;
        Ok(true)
    }

    /// Whether a process begins only after its file, which is not here, is copied from another
    /// host.
    pub fn awaits(&mut self, instance: ProcessInstance, image: ImageId) -> Result<bool> {
        let copies = self.copies.as_mut();
        let Some(copies) = copies.filter(|copies| copies.is_elsewhere(instance.rank)) else {
            return Ok(false);
        };
        let unknown = copies.wait_for(instance, image);
        self.request_images_of(unknown)?;
        Ok(true)
    }

    fn request_images_of(&mut self, hosts: Vec<u32>) -> Result<()> {
        let Some(central) = &mut self.central else {
            return Ok(());
        };
        hosts
            .into_iter()
            .try_for_each(|host| central.request_images_of(host))
    }
}

handler! {
    /// Copies of files of checkpoints.
    pub(super) HostCopyHandler of ManagerParts {
        changes { copies, central, inputs }
        reads { ranks, images }
    }
    with {
        requests: CopyRequests { copies, central },
    }
}

impl HostCopyHandler<'_> {
    /// Copies the file of a checkpoint of another host, or makes the parity of several.
    pub fn copy_image(&mut self, members: &[(Rank, usize)], epoch: Epoch) -> Result<()> {
        let image = ImageId::Checkpoint(epoch);
        if !self.requests().order(members, image)?
            && let Some((rank, _)) = members.first().copied()
        {
            let file = KeptFile {
                rank,
                image,
                is_parity: members.len() > 1,
            };
            let refused = LocalInput::ImageNotCopied(file, NO_FILES.to_string());
            self.inputs.push_back(refused);
        }
        Ok(())
    }

    /// Removes a copy or a parity, or ends its making.
    pub fn drop_copy(&mut self, file: KeptFile) {
        let copies = self.copies.as_mut();
        let is_made = copies.is_some_and(|copies| copies.cancel(file));
        // The file of a rank that is on this host by now goes with its image. One that has left
        // keeps its slot.
        let slot = self.ranks.slot(file.rank).filter(|_| !file.is_parity);
        if is_made && !slot.is_some_and(|slot| self.images.has(slot, file.image)) {
            self.images.remove_copy(file);
        }
    }
}
