//! Where process images are kept: a folder per job, a file per rank and checkpoint.
//!
//! A file is written with a temporary name, and gets its own when it is whole. It may refer to
//! files of earlier checkpoints for pages that did not change. It is removed with the last value
//! that stands for it, or for an image that refers to it.
//!
//! ```
//! use rejoin_ckpt::store::{BaseFiles, ImageFolder};
//!
//! let folder = std::env::temp_dir().join(format!("rejoin-store-{}", std::process::id()));
//! let images = ImageFolder::new(&folder, 7);
//! let image = images.begin(3, 12, BaseFiles::default())?;
//! image.file().set_len(8192)?;
//! let stored = image.complete()?;
//! assert_eq!(stored.bytes(), 8192);
//! assert!(stored.path().ends_with("job-0000000000000007/rank-3.epoch-12.image"));
//! drop(stored);
//! images.remove_if_empty();
//! assert_eq!(std::fs::read_dir(&folder)?.count(), 0);
//! # std::fs::remove_dir(&folder)?;
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod folder_claim;

pub use folder_claim::FolderClaim;

/// The folder of a job's process images. Other jobs have others.
#[derive(Debug, Clone)]
pub struct ImageFolder {
    path: PathBuf,
}

impl ImageFolder {
    /// Of this job, below the folder of all images. Nothing is made yet.
    #[must_use]
    pub fn new(images: &Path, job: u64) -> Self {
        Self {
            path: images.join(format!("job-{job:016x}")),
        }
    }

    /// Removes the folders of other jobs that managers of this host have left behind. The number of
    /// folders.
    #[must_use]
    pub fn remove_abandoned(&self, host: &str) -> u32 {
        folder_claim::remove_abandoned(&self.path, host)
    }

    /// Makes the folder, and keeps [`ImageFolder::remove_abandoned`] away from it as long as the
    /// claim lives. A manager of this host holds it.
    ///
    /// # Errors
    /// The system's reason.
    pub fn claim(&self, host: &str) -> io::Result<FolderClaim> {
        FolderClaim::new(&self.path, host)
    }

    /// Makes a file for the image of a rank at a checkpoint, which only this user may read. It
    /// bypasses the system's cache where the file system allows that, so writes must be whole pages
    /// from aligned memory. It may refer to the bases.
    ///
    /// # Errors
    /// The system's reason.
    pub fn begin(&self, rank: u32, epoch: u32, bases: BaseFiles) -> io::Result<PartialImage> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)?;
        let path = self.path.join(format!("rank-{rank}.epoch-{epoch}.image"));
        let temporary = path.with_extension("partial");
        let open = |flags| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            options.custom_flags(flags).open(&temporary)
        };
        let file = open(libc::O_DIRECT).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::EOPNOTSUPP) => open(0),
            _ => Err(error),
        })?;
        Ok(PartialImage {
            file,
            temporary,
            path,
            bases,
        })
    }

    /// Removes the folder if it has no files.
    pub fn remove_if_empty(&self) {
        // Other managers of the job may have files in it.
        let _ = fs::remove_dir(&self.path);
    }
}

/// A file that is being written.
#[derive(Debug)]
pub struct PartialImage {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    bases: BaseFiles,
}

impl PartialImage {
    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The image before, opened, and the name of its file, if the new one may refer to it.
    #[must_use]
    pub fn base(&self) -> Option<(File, String)> {
        let path = &self.bases.files.first()?.path;
        let name = path.file_name()?.to_str()?;
        Some((File::open(path).ok()?, name.to_owned()))
    }

    /// Gives the whole file its name.
    ///
    /// # Errors
    /// The system's reason; the file is removed.
    pub fn complete(self) -> io::Result<StoredImage> {
        let bytes = self.file.metadata()?.len();
        fs::rename(&self.temporary, &self.path)?;
        let path = self.path.clone();
        Ok(StoredImage {
            file: Arc::new(StoredFile { path, bytes }),
            bases: self.bases.clone(),
        })
    }
}

impl Drop for PartialImage {
    fn drop(&mut self) {
        // A complete one has another name.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// A whole file, which is removed with this value.
#[derive(Debug)]
struct StoredFile {
    path: PathBuf,
    bytes: u64,
}

impl Drop for StoredFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Most files that an image refers to.
const MOST_BASES: usize = 7;

/// The files that an image may refer to: the image before, and then those that it refers to.
#[derive(Debug, Clone, Default)]
pub struct BaseFiles {
    files: Vec<Arc<StoredFile>>,
}

/// An image whose file is whole.
#[derive(Debug)]
pub struct StoredImage {
    file: Arc<StoredFile>,
    bases: BaseFiles,
}

impl StoredImage {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Length of its file in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.file.bytes
    }

    /// Length in bytes of its file and of all that it refers to.
    #[must_use]
    pub fn all_bytes(&self) -> u64 {
        let bases = self.bases.files.iter().map(|file| file.bytes);
        bases.fold(self.bytes(), u64::saturating_add)
    }

    /// For the next image. None if there are enough: the next image is complete in itself after a
    /// few, or when the others have become half as long as the first. So an image has
    /// few files, which take at most about one and a half times the room of a complete one, and
    /// twice that for a moment.
    #[must_use]
    pub fn as_bases(&self) -> BaseFiles {
        let before = self.bases.files.iter().cloned();
        let files: Vec<_> = std::iter::once(Arc::clone(&self.file))
            .chain(before)
            .collect();
        let (complete, others) = files
            .split_last()
            .map_or((0, &[][..]), |(last, others)| (last.bytes, others));
        let changed: u64 = others.iter().map(|file| file.bytes).sum();
        match files.len() <= MOST_BASES && changed <= complete / 2 {
            true => BaseFiles { files },
            false => BaseFiles::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_has_its_name_only_while_it_is_whole_and_kept() {
        let folder = std::env::temp_dir().join(format!("rejoin-images-{}", std::process::id()));
        let images = ImageFolder::new(&folder, u64::MAX);
        let none = BaseFiles::default;
        let names = || -> Vec<String> {
            let entries = fs::read_dir(&images.path).expect("the folder");
            entries
                .map(|entry| {
                    entry
                        .expect("an entry")
                        .file_name()
                        .into_string()
                        .expect("text")
                })
                .collect()
        };
        let partial = images.begin(0, 1, none()).expect("a file");
        assert_eq!(names(), ["rank-0.epoch-1.partial"]);
        drop(partial);
        assert!(names().is_empty());
        let stored = images
            .begin(0, 2, none())
            .expect("a file")
            .complete()
            .expect("a name");
        let mode = fs::metadata(stored.path())
            .expect("its data")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(names(), ["rank-0.epoch-2.image"]);
        images.remove_if_empty();
        assert_eq!(names().len(), 1, "the folder is not empty");
        let next = images.begin(0, 3, stored.as_bases()).expect("a file");
        let (_, name) = next.base().expect("the image before");
        assert_eq!(name, "rank-0.epoch-2.image");
        drop(stored);
        let next = next.complete().expect("a name");
        assert_eq!(names().len(), 2, "the image refers to the one before");
        drop(next);
        images.remove_if_empty();
        assert!(!images.path.exists());
        fs::remove_dir(&folder).expect("empty");
    }

    #[test]
    fn an_image_refers_to_few_files_and_to_short_ones() {
        let folder = std::env::temp_dir().join(format!("rejoin-bases-{}", std::process::id()));
        let images = ImageFolder::new(&folder, 1);
        let stored = |epoch, bases, bytes| {
            let partial = images.begin(0, epoch, bases).expect("a file");
            partial.file().set_len(bytes).expect("its length");
            partial.complete().expect("a name")
        };
        let mut image = stored(0, BaseFiles::default(), 1000);
        for epoch in 1..=MOST_BASES as u32 {
            let bases = image.as_bases();
            assert_eq!(bases.files.len(), epoch as usize);
            image = stored(epoch, bases, 10);
        }
        assert!(image.as_bases().files.is_empty(), "there are enough");
        let complete = stored(20, BaseFiles::default(), 1000);
        let changed = stored(21, complete.as_bases(), 501);
        assert_eq!(changed.all_bytes(), 1501);
        assert!(changed.as_bases().files.is_empty(), "too much has changed");
        drop((image, complete, changed));
        images.remove_if_empty();
        fs::remove_dir(&folder).expect("empty");
    }
}
