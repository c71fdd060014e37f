//! Where process images are kept: a folder per job, a file per rank and checkpoint.
//!
//! A file is written with a temporary name, and gets its own when it is whole. It is removed with
//! the value that stands for it.
//!
//! ```
//! use rejoin_ckpt::store::ImageFolder;
//!
//! let folder = std::env::temp_dir().join(format!("rejoin-store-{}", std::process::id()));
//! let images = ImageFolder::new(&folder, 7);
//! let image = images.begin(3, 12)?;
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
    /// from aligned memory.
    ///
    /// # Errors
    /// The system's reason.
    pub fn begin(&self, rank: u32, epoch: u32) -> io::Result<PartialImage> {
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
}

impl PartialImage {
    /// The open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the whole file its name.
    ///
    /// # Errors
    /// The system's reason; the file is removed.
    pub fn complete(self) -> io::Result<StoredImage> {
        let bytes = self.file.metadata()?.len();
        fs::rename(&self.temporary, &self.path)?;
        Ok(StoredImage {
            path: self.path.clone(),
            bytes,
        })
    }
}

impl Drop for PartialImage {
    fn drop(&mut self) {
        // A complete one has another name.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// A whole file.
#[derive(Debug)]
pub struct StoredImage {
    path: PathBuf,
    bytes: u64,
}

impl StoredImage {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for StoredImage {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
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
        let partial = images.begin(0, 1).expect("a file");
        assert_eq!(names(), ["rank-0.epoch-1.partial"]);
        drop(partial);
        assert!(names().is_empty());
        let stored = images
            .begin(0, 2)
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
        drop(stored);
        images.remove_if_empty();
        assert!(!images.path.exists());
        fs::remove_dir(&folder).expect("empty");
    }
}
