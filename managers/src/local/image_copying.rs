//! Orders to copy files of images of other hosts, and processes that wait for such a file.

use super::LocalManager;
use super::copies::CopyEnd;
use crate::error::Result;
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::ProcessInstance;

impl LocalManager {
    /// Copies the file of an image of another host.
    pub(super) fn copy_image(&mut self, rank: Rank, epoch: Epoch, from: usize) -> Result<()> {
        let host = u32::try_from(from).unwrap_or(u32::MAX);
        let Some(copies) = &mut self.copies else {
            let why = "its partner keeps no files".to_string();
            let refused = LocalInput::ImageNotCopied(rank, epoch, why);
            self.queue.push_back(refused);
            return Ok(());
        };
        match (copies.order(rank, epoch, host), &mut self.central) {
            (true, Some(central)) => central.ask_images_of(host),
            _ => Ok(()),
        }
    }

    /// Removes a copy, or ends its making.
    pub(super) fn drop_copy(&mut self, rank: Rank, epoch: Epoch) {
        let copies = self.copies.as_mut();
        let is_made = copies.is_some_and(|copies| copies.cancel(rank, epoch));
        // The file of a rank that is on this host by now goes with its image.
        if is_made && self.slot(rank).is_none() {
            self.images.remove_copy(rank, epoch);
        }
    }

    /// Copies that have come to their end.
    pub(super) fn take_copy_ends(&mut self) -> Result<()> {
        while let Some(end) = self.copies.as_mut().and_then(|copies| copies.next_end()) {
            self.copy_ended(end)?;
        }
        Ok(())
    }

    fn copy_ended(&mut self, (rank, epoch, end): CopyEnd) -> Result<()> {
        let copies = self.copies.as_mut();
        let awaited = copies.and_then(|copies| copies.take_awaited(rank, epoch));
        let Some(instance) = awaited else {
            self.queue.push_back(match end {
                Ok(_) => LocalInput::ImageCopied(rank, epoch),
                Err(why) => LocalInput::ImageNotCopied(rank, epoch, why),
            });
            return Ok(());
        };
        let Some(slot) = self.slot(rank) else {
            return Ok(());
        };
        let loaded = end.and_then(|_| self.images.load_one(slot, epoch));
        match loaded {
            Ok(()) => self.restore_process(instance, epoch),
            Err(why) => {
                let why = format!("its image of checkpoint {epoch}: {why}");
                self.not_restored(slot, instance, why);
                Ok(())
            }
        }
    }

    /// Whether a process begins only after its file is copied from another host.
    pub(super) fn awaits_copy(&mut self, instance: ProcessInstance, epoch: Epoch) -> Result<bool> {
        let rank = instance.rank;
        let Some(slot) = self.slot(rank) else {
            return Ok(false);
        };
        let Some(copies) = &mut self.copies else {
            return Ok(false);
        };
        let holder = copies.holder(rank);
        let Some(host) = holder.filter(|_| !self.images.has(slot, epoch)) else {
            return Ok(false);
        };
        if copies.wait_for(instance, epoch) {
            self.copy_image(rank, epoch, host as usize)?;
        }
        Ok(true)
    }

    /// A process whose file is being copied is not wanted any more; `false` if it is none.
    pub(super) fn gives_up_copy(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let copies = self.copies.as_mut();
        copies.is_some_and(|copies| copies.forget_awaited(rank, incarnation))
    }
}
