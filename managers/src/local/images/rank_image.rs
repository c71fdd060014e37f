//! One image of a rank: a frozen process that makes others of itself, a file, or both.

use super::image_loader::ImageLoader;
use super::image_note::ImageNote;
use super::image_store::ImageStore;
use rejoin_channel_table::{Generation, ImageId, Incarnation};
use rejoin_ckpt::store::{BaseFiles, PartialImage, StoredImage};
use rejoin_ckpt::twin::manager::{SaveRequest, Zygote};
use rejoin_wire::{Holds, ToManager};
use serde_bytes::ByteBuf;
use std::os::fd::AsFd;

/// A rank's report of its image, until the image itself has reported that it is whole.
pub struct ImageReport {
    /// The reporting process.
    pub incarnation: Incarnation,
    /// Id of the reporting process, by the kernel.
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
    /// The file is written and gets its name.
    Written,
    /// The file is whole: the image outlives its process.
    Stored(StoredImage),
}

/// An image of a rank.
pub(super) struct RankImage {
    /// What it is called.
    pub id: ImageId,
    /// Tells its events from those of other images of the rank.
    pub serial: u32,
    /// The job's generation when it was taken.
    pub generation: Generation,
    /// The rank's incarnation that took it.
    pub incarnation: Incarnation,
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
    /// The image's process has said that it is there.
    pub is_there: bool,
    /// The image's process is to come of a restarter that has loaded earlier images of the rank. If
    /// that ends, the files are still there.
    pub by_loader: bool,
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
    ) -> Result<bool, String> {
        let Some(zygote) = &mut self.zygote else {
            return Err("its image has no process".into());
        };
        let begun = store.begin(slot, self.id, self.generation, self.incarnation, bases);
        let (file, identity) = begun.map_err(|e| e.to_string())?;
        let base = file.base();
        let base = base.as_ref().map(|(base, name)| (base.as_fd(), &name[..]));
        let request = SaveRequest {
            file: file.file().as_fd(),
            base,
            compression: store.compression(),
            passes: file.passes(),
        };
        let sent = zygote.save(&identity, &request);
        let is_sent = sent.map_err(|e| e.to_string())?;
        self.file = ImageFile::Partial(file);
        // A process that was made ahead ends: what it shares with the image is in no file.
        self.prepared = false;
        Ok(is_sent)
    }

    /// Whether the image is writing its file.
    pub fn is_being_stored(&self) -> bool {
        matches!(self.file, ImageFile::Partial(_))
    }

    /// Bytes of the file that are written, while it is.
    pub fn written_bytes(&self) -> Option<u64> {
        match &self.file {
            ImageFile::Partial(partial) => Some(partial.file().metadata().ok()?.len()),
            _ => None,
        }
    }

    /// The file is written. Returns it, and what is to lie beside it.
    ///
    /// # Errors
    /// Why it can't be kept.
    pub fn written(&mut self) -> Result<(PartialImage, Vec<u8>), String> {
        let ImageFile::Partial(partial) = std::mem::take(&mut self.file) else {
            return Err("there is no file to complete".into());
        };
        let note = self.note().encode()?;
        self.file = ImageFile::Written;
        Ok((partial, note))
    }

    /// What is to lie beside the file.
    fn note(&self) -> ImageNote {
        let mut note = ImageNote::new(self.generation, self.incarnation, self.holds.clone());
        note.partial = self.partial.clone().map(ByteBuf::from);
        note.input = self.input;
        note
    }

    /// The image of a job that has ended.
    pub fn loaded((id, serial): (ImageId, u32), file: StoredImage, note: ImageNote) -> RankImage {
        RankImage {
            id,
            serial,
            generation: note.generation,
            incarnation: note.incarnation,
            pid: 0,
            zygote: None,
            file: ImageFile::Stored(file),
            report: None,
            partial: note.partial.map(ByteBuf::into_vec),
            holds: note.holds,
            input: note.input,
            prepared: false,
            is_there: false,
            by_loader: false,
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

    /// Makes a process of the file, in a restarter that has loaded the images to which it refers.
    /// Returns the reason if that fails.
    pub fn load_last(&mut self, loader: ImageLoader) -> Result<(), String> {
        let ImageFile::Stored(file) = &self.file else {
            return Err("its image is gone".into());
        };
        let ImageLoader { pid, mut zygote } = loader;
        match zygote.load_next(file.path(), self.id.parts().into(), true) {
            Ok(true) => {}
            Ok(false) => return Err("its restarter takes no orders".into()),
            Err(error) => return Err(error.to_string()),
        }
        self.pid = pid;
        (self.is_there, self.prepared, self.by_loader) = (false, false, true);
        self.zygote = Some(zygote);
        Ok(())
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
        let started = store.restart(slot, self.id, file);
        let (pid, socket) =
            started.map_err(|e| format!("its image can't be started from a file: {e}"))?;
        let zygote = Zygote::new(socket).map_err(|e| e.to_string())?;
        self.pid = pid;
        (self.is_there, self.prepared, self.by_loader) = (false, false, false);
        Ok(self.zygote.insert(zygote))
    }
}
