//! One image of a rank: a frozen process that makes others of itself, a file, or both.

use super::image_note::ImageNote;
use super::image_store::ImageStore;
use rejoin_channel_table::{Epoch, Incarnation};
use rejoin_ckpt::image::SaveError;
use rejoin_ckpt::store::{BaseFiles, PartialImage, StoredImage};
use rejoin_ckpt::twin::manager::Zygote;
use rejoin_wire::{Holds, ToManager};
use serde_bytes::ByteBuf;
use std::io;
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
    /// Bytes of standard input that were read, if the rank reads it.
    pub input: Option<u64>,
    /// A process was made ahead of the next restore, or is about to be.
    pub prepared: bool,
    /// It shares open files with the rank that it can't open anew.
    pub shares_files: bool,
    /// Its process has said that it is there.
    pub is_there: bool,
}

impl RankImage {
    /// Has the image write a file. `false`: the rest of the request waits until the socket is
    /// writable.
    ///
    /// # Errors
    /// Why there will be no file.
    pub fn begin_file(
        &mut self,
        slot: usize,
        store: &ImageStore,
        bases: BaseFiles,
    ) -> Result<bool, NoFile> {
        let (Some(report), Some(zygote)) = (&self.report, &mut self.zygote) else {
            return Err(NoFile::of_image("its image has no process"));
        };
        let (file, identity) = store.begin(slot, report.incarnation.0, &report.message, bases)?;
        let base = file.base();
        let base = base.as_ref().map(|(base, name)| (base.as_fd(), &name[..]));
        let sent = zygote.save(&identity, file.file().as_fd(), base);
        self.file = ImageFile::Partial(file);
        sent.map_err(NoFile::of_image)
    }

    /// The file is written.
    ///
    /// # Errors
    /// Why it can't be kept.
    pub fn complete_file(&mut self) -> Result<(), NoFile> {
        let (ImageFile::Partial(partial), Some(report)) =
            (std::mem::take(&mut self.file), &self.report)
        else {
            return Err(NoFile::of_image("there is no file to complete"));
        };
        let note = note_of(report, self).and_then(|note| note.encode());
        let note = note.map_err(NoFile::of_image)?;
        self.file = ImageFile::Stored(partial.complete(&note)?);
        Ok(())
    }

    /// The image of a job that has ended.
    pub fn loaded(epoch: Epoch, file: StoredImage, note: ImageNote) -> RankImage {
        RankImage {
            epoch,
            pid: 0,
            zygote: None,
            file: ImageFile::Stored(file),
            report: None,
            partial: note.partial.map(ByteBuf::into_vec),
            holds: note.holds,
            input: note.input,
            prepared: false,
            shares_files: false,
            is_there: false,
        }
    }

    /// Removes the file: the image counts no more.
    pub fn remove_file(&mut self) {
        if let ImageFile::Stored(file) = std::mem::take(&mut self.file) {
            file.remove();
        }
    }

    /// The file that it has, if it is whole.
    pub fn stored(&self) -> Option<&StoredImage> {
        match &self.file {
            ImageFile::Stored(file) => Some(file),
            _ => None,
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

/// What is to lie beside the file of an image.
fn note_of(report: &ImageReport, image: &RankImage) -> Result<ImageNote, String> {
    let ToManager::Imaged { generation, .. } = &report.message else {
        return Err("its report is none of an image".into());
    };
    let mut note = ImageNote::new(*generation, report.incarnation, image.holds.clone());
    note.partial = image.partial.clone().map(ByteBuf::from);
    note.input = image.input;
    Ok(note)
}

/// Why an image has no file.
pub(super) struct NoFile {
    /// For the user.
    pub why: String,
    /// For lack of room, and not because of what the process holds: another image of the process
    /// can be written where this one was not.
    pub is_of_storage: bool,
}

impl NoFile {
    /// It is a matter of this image.
    pub fn of_image(why: impl ToString) -> NoFile {
        NoFile {
            why: why.to_string(),
            is_of_storage: false,
        }
    }
}

impl From<io::Error> for NoFile {
    fn from(error: io::Error) -> NoFile {
        NoFile {
            why: error.to_string(),
            is_of_storage: error.raw_os_error().is_some_and(is_of_storage),
        }
    }
}

impl From<SaveError> for NoFile {
    fn from(error: SaveError) -> NoFile {
        let is_of_storage = matches!(error, SaveError::System { errno } if is_of_storage(errno));
        NoFile {
            why: error.to_string(),
            is_of_storage,
        }
    }
}

fn is_of_storage(errno: i32) -> bool {
    matches!(
        errno,
        libc::ENOSPC | libc::EDQUOT | libc::EIO | libc::EFBIG | libc::EROFS
    )
}
