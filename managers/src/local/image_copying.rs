//! Orders to copy files of images of other hosts, and processes that wait for such a file.

use super::LocalManager;
use super::copies::CopyEnd;
use crate::error::Result;
use rejoin_channel_table::{ImageId, Incarnation, Rank};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::{KeptFile, ProcessInstance};

impl LocalManager {
    /// Copies the file of an image of another host, or makes the parity of several.
    pub(super) fn copy_image(&mut self, members: Vec<(Rank, usize)>, image: ImageId) -> Result<()> {
        let number =
            |(rank, host): &(Rank, usize)| (*rank, u32::try_from(*host).unwrap_or(u32::MAX));
        let numbers: Vec<(Rank, u32)> = members.iter().map(number).collect();
        let Some(copies) = &mut self.copies else {
            if let Some((rank, _)) = members.first().copied() {
                let file = KeptFile {
                    rank,
                    image,
                    is_parity: members.len() > 1,
                };
                let why = "its partner keeps no files".to_string();
                if !self.copied_ahead(file, Err(&why)) {
                    self.queue.push_back(LocalInput::ImageNotCopied(file, why));
                }
            }
            return Ok(());
        };
        let unknown = copies.order(&numbers, image);
        self.ask_images_of(unknown)
    }

    fn ask_images_of(&mut self, hosts: Vec<u32>) -> Result<()> {
        let Some(central) = &mut self.central else {
            return Ok(());
        };
        hosts
            .into_iter()
            .try_for_each(|host| central.ask_images_of(host))
    }

    /// Removes a copy or a parity, or ends its making.
    pub(super) fn drop_copy(&mut self, file: KeptFile) {
        let copies = self.copies.as_mut();
        let is_made = copies.is_some_and(|copies| copies.cancel(file));
        // The file of a rank that is on this host by now goes with its image. One that has left
        // keeps its slot.
        let slot = self.slot(file.rank).filter(|_| !file.is_parity);
        if is_made && !slot.is_some_and(|slot| self.images.has(slot, file.image)) {
            self.images.remove_copy(file);
        }
    }

    /// Copies that have come to their end.
    pub(super) fn take_copy_ends(&mut self) -> Result<()> {
        while let Some(end) = self.copies.as_mut().and_then(|copies| copies.next_end()) {
            self.copy_ended(end)?;
        }
        Ok(())
    }

    fn copy_ended(&mut self, (file, end): CopyEnd) -> Result<()> {
        let KeptFile { rank, image, .. } = file;
        if self.copied_ahead(file, end.as_ref().map(|_| ())) {
            return Ok(());
        }
        let copies = self.copies.as_mut().filter(|_| !file.is_parity);
        let awaited = copies.and_then(|copies| copies.take_awaited(rank, image));
        let Some(instance) = awaited else {
            self.queue.push_back(match end {
                Ok(_) => LocalInput::ImageCopied(file),
                Err(why) => LocalInput::ImageNotCopied(file, why),
            });
            return Ok(());
        };
        let Some(slot) = self.slot(rank) else {
            return Ok(());
        };
        let loaded = end.and_then(|_| self.images.load_one(slot, image));
        match loaded {
            Ok(()) => self.restore_process(instance, image),
            Err(why) => {
                let why = format!("its image of {image}: {why}");
                self.not_restored(slot, instance, why);
                Ok(())
            }
        }
    }

    /// Whether a process begins only after its file is copied from another host.
    pub(super) fn awaits_copy(
        &mut self,
        instance: ProcessInstance,
        image: ImageId,
    ) -> Result<bool> {
        let rank = instance.rank;
        let Some(slot) = self.slot(rank) else {
            return Ok(false);
        };
        let Some(copies) = &mut self.copies else {
            return Ok(false);
        };
        if !copies.is_elsewhere(rank) || self.images.has(slot, image) {
            return Ok(false);
        }
        let unknown = copies.wait_for(instance, image);
        self.ask_images_of(unknown)?;
        Ok(true)
    }

    /// A process whose file is being copied is not wanted any more; `false` if it is none.
    pub(super) fn gives_up_copy(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let copies = self.copies.as_mut();
        copies.is_some_and(|copies| copies.forget_awaited(rank, incarnation))
    }
}
