//! Files of images and their copies, which are written at any time after the order.

use super::{SimFile, System};
use rejoin_channel_table::{Epoch, ImageId, Rank};
use rejoin_managers_protocol::central::Record;
use rejoin_managers_protocol::levels::Level;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::KeptFile;

impl System {
    /// An image is to write its file. Returns the answer, if it can't begin.
    pub fn write_image(&mut self, rank: Rank, id: ImageId) -> Option<LocalInput> {
        let Some(image) = self.images.get_mut(&(rank, id)) else {
            let why = Some("its image is gone".to_string());
            return Some(LocalInput::ImageNotStored(rank, id, why));
        };
        if image.file != SimFile::Absent || !image.in_memory {
            let text = format!("{image:?} is to be written");
            self.complain(text);
            return None;
        }
        image.file = SimFile::Partial;
        None
    }

    /// The file of an image is whole, or can't be written.
    pub fn written(&mut self, rank: Rank, id: ImageId, well: bool) {
        let Some(image) = self.images.get_mut(&(rank, id)) else {
            return;
        };
        let input = match well {
            true => LocalInput::ImageStored(rank, id),
            false => LocalInput::ImageNotStored(rank, id, Some("no space".into())),
        };
        image.file = if well {
            SimFile::Whole
        } else {
            SimFile::Absent
        };
        self.local(self.image_home(rank, id), input);
    }

    /// A restore ends the writing.
    pub fn interrupt_writing(&mut self, rank: Rank, id: ImageId) {
        let image = self.images.get_mut(&(rank, id));
        if let Some(image) = image.filter(|image| image.file == SimFile::Partial) {
            image.file = SimFile::Absent;
            let input = LocalInput::ImageNotStored(rank, id, None);
            self.local(self.image_home(rank, id), input);
        }
    }

    /// The process of an image ends, because later images in memory count.
    pub fn drop_from_memory(&mut self, rank: Rank, id: ImageId) {
        let Some(image) = self.images.get_mut(&(rank, id)) else {
            return;
        };
        image.in_memory = false;
        if image.file != SimFile::Whole {
            self.complain("an image without a file is dropped from memory");
        }
    }

    /// The process of an image is killed. The image outlives it in a whole file.
    pub fn lose_image(&mut self, rank: Rank, id: ImageId) {
        let image = self.images.get_mut(&(rank, id));
        match image {
            Some(image) if image.file == SimFile::Whole => image.in_memory = false,
            _ => {
                let host = self.image_home(rank, id);
                self.images.remove(&(rank, id));
                self.local(host, LocalInput::ImageEnded(rank, id, None));
            }
        }
    }

    /// The partner of a rank's host begins to copy a file. Returns the answer, if it can't begin:
    /// the file may be gone by now.
    pub fn copy_image(
        &mut self,
        host: usize,
        members: &[(Rank, usize)],
        epoch: Epoch,
    ) -> Option<LocalInput> {
        let [(rank, from)] = *members else {
            self.complain(format!("host {host} copies {members:?}"));
            return None;
        };
        if from != self.host_of(rank) || host != self.partner(rank) {
            self.complain(format!("host {host} copies {rank:?}, {epoch} from {from}"));
        }
        let has_file = self.images.get(&(rank, ImageId::Checkpoint(epoch)));
        if has_file.is_none_or(|image| image.file != SimFile::Whole) {
            let why = "there is no such file".into();
            return Some(LocalInput::ImageNotCopied(copy(rank, epoch), why));
        }
        if self.copies.insert((rank, epoch), false).is_some() {
            self.complain("a copy is made twice");
        }
        None
    }

    fn partner(&self, rank: Rank) -> usize {
        (self.host_of(rank) + 1) % self.hosts.len()
    }

    /// A copy is whole, or can't be made.
    pub fn copied(&mut self, rank: Rank, epoch: Epoch, well: bool) {
        let input = match well {
            true => {
                self.copies.insert((rank, epoch), true);
                LocalInput::ImageCopied(copy(rank, epoch))
            }
            false => {
                self.copies.remove(&(rank, epoch));
                LocalInput::ImageNotCopied(copy(rank, epoch), "no space".into())
            }
        };
        self.local(self.partner(rank), input);
    }

    /// Files count once every rank has a copy.
    pub fn check_copies(&mut self, record: &Record) {
        let Record::Committed { epoch, level, .. } = record else {
            return;
        };
        if *level != Level::Partner || self.hosts.len() < 2 || self.job().copies.is_none() {
            return;
        }
        let is_whole = |rank| self.copies.get(&(Rank(rank), *epoch)) == Some(&true);
        if !(0..self.ranks).all(is_whole) {
            self.complain(format!("{epoch} is committed without all copies"));
        }
    }
}

fn copy(rank: Rank, epoch: Epoch) -> KeptFile {
    KeptFile {
        rank,
        image: ImageId::Checkpoint(epoch),
        is_parity: false,
    }
}
