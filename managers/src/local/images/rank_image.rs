//! One image of a rank: a frozen process that makes others of itself, a file, or both.

use super::image_store::ImageStore;
use rejoin_channel_table::{Epoch, Incarnation};
use rejoin_ckpt::image::SaveError;
use rejoin_ckpt::store::{PartialImage, StoredImage};
use rejoin_ckpt::twin::manager::Zygote;
use rejoin_wire::{Holds, ToManager};
use std::os::fd::AsFd;

/// A rank's report of its image, until the image itself has reported that it is whole.
pub struct ImageReport {
    /// The reporting process.
    pub incarnation: Incarnation,
    /// Its process id, by the kernel.
    pub pid: u32,
    /// [`ToManager::Imaged`].
    pub message: ToManager,
}

/// The file of an image.
#[derive(Default)]
pub(super) enum ImageFile {
    /// There is none.
    #[default]
    Absent,
    /// The image is writing it.
    Partial(PartialImage),
    /// It is whole: the image outlives its process.
    Stored(StoredImage),
}

/// An image of a rank.
pub(super) struct RankImage {
    /// The checkpoint that it belongs to.
    pub epoch: Epoch,
    /// The number of its process, if it has one.
    pub pid: u32,
    /// The frozen process, if there is one.
    pub zygote: Option<Zygote>,
    /// The file, as far as there is one.
    pub file: ImageFile,
    /// The report, until the image counts.
    pub report: Option<ImageReport>,
    /// The unfinished lines at the image.
    pub partial: [Vec<u8>; 2],
    /// Files and locks.
    pub holds: Holds,
    /// A process was made ahead of the next restore, or is about to be.
    pub prepared: bool,
    /// It shares open files with the rank that it can't open anew.
    pub shares_files: bool,
    /// Its process has said that it is there.
    pub is_there: bool,
}

impl RankImage {
    /// Has the image write a file. `false` if the store begins none; the reason, if it can't.
    ///
    /// The second value: the rest of the request waits until the socket is writable.
    pub fn begin_file(&mut self, slot: usize, store: &ImageStore) -> Result<bool, String> {
        let (Some(report), Some(zygote)) = (&self.report, &mut self.zygote) else {
            return Err("its image has no process".into());
        };
        let begun = store.begin(slot, report.incarnation.0, &report.message);
        let (file, identity) = begun.map_err(|e| e.to_string())?;
        let sent = zygote.save(&identity, file.file().as_fd());
        self.file = ImageFile::Partial(file);
        sent.map_err(|e| e.to_string())
    }

    /// The file is written. The reason, if it can't be kept.
    pub fn complete_file(&mut self) -> Result<(), String> {
        match std::mem::take(&mut self.file) {
            ImageFile::Partial(partial) => {
                let stored = partial.complete().map_err(|e| e.to_string())?;
                self.file = ImageFile::Stored(stored);
                Ok(())
            }
            _ => Err("there is no file to complete".into()),
        }
    }

    /// Whether the image has a whole file.
    pub fn is_stored(&self) -> bool {
        matches!(self.file, ImageFile::Stored(_))
    }

    /// Makes a process of the file. Returns the reason if that fails.
    pub fn restart(
        &mut self,
        slot: usize,
        store: Option<&ImageStore>,
    ) -> Result<&mut Zygote, String> {
        let (Some(store), ImageFile::Stored(file)) = (store, &self.file) else {
            return Err("its image is gone".into());
        };
        let started = store.restart(slot, self.epoch, file);
        let (pid, socket) =
            started.map_err(|e| format!("its image can't be started from a file: {e}"))?;
        let zygote = Zygote::new(socket).map_err(|e| e.to_string())?;
        self.pid = pid;
        (self.is_there, self.prepared) = (false, false);
        Ok(self.zygote.insert(zygote))
    }
}

/// Whether another image of the process could be written where this one was not: for lack of room,
/// and not because of what the process holds.
pub(super) fn is_of_storage(why: SaveError) -> bool {
    matches!(
        why,
        SaveError::System {
            errno: libc::ENOSPC | libc::EDQUOT | libc::EIO | libc::EFBIG | libc::EROFS
        }
    )
}
