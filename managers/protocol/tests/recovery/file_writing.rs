//! Files of images, which are written at any time after the order.

use super::{SimFile, System};
use rejoin_channel_table::{Epoch, Rank};
use rejoin_managers_protocol::local::LocalInput;

impl System {
    /// An image is to write its file. Returns the answer, if it can't begin.
    pub fn write_image(&mut self, rank: Rank, epoch: Epoch) -> Option<LocalInput> {
        let Some(image) = self.images.get_mut(&(rank, epoch)) else {
            let why = Some("its image is gone".to_string());
            return Some(LocalInput::ImageNotStored(rank, epoch, why));
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
    pub fn written(&mut self, rank: Rank, epoch: Epoch, well: bool) {
        let Some(image) = self.images.get_mut(&(rank, epoch)) else {
            return;
        };
        let input = match well {
            true => LocalInput::ImageStored(rank, epoch),
            false => LocalInput::ImageNotStored(rank, epoch, Some("no space".into())),
        };
        image.file = if well {
            SimFile::Whole
        } else {
            SimFile::Absent
        };
        self.local(self.host_of(rank), input);
    }

    /// A restore ends the writing.
    pub fn interrupt_writing(&mut self, rank: Rank, epoch: Epoch) {
        let image = self.images.get_mut(&(rank, epoch));
        if let Some(image) = image.filter(|image| image.file == SimFile::Partial) {
            image.file = SimFile::Absent;
            let input = LocalInput::ImageNotStored(rank, epoch, None);
            self.local(self.host_of(rank), input);
        }
    }

    /// The process of an image ends, because later images in memory count.
    pub fn drop_from_memory(&mut self, rank: Rank, epoch: Epoch) {
        let Some(image) = self.images.get_mut(&(rank, epoch)) else {
            return;
        };
        image.in_memory = false;
        if image.file != SimFile::Whole {
            self.complain("an image without a file is dropped from memory");
        }
    }

    /// The process of an image is killed. The image outlives it in a whole file.
    pub fn lose_image(&mut self, rank: Rank, epoch: Epoch) {
        let image = self.images.get_mut(&(rank, epoch));
        match image {
            Some(image) if image.file == SimFile::Whole => image.in_memory = false,
            _ => {
                self.images.remove(&(rank, epoch));
                let host = self.host_of(rank);
                self.local(host, LocalInput::ImageEnded(rank, epoch));
            }
        }
    }
}
