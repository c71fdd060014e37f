//! The file into which the log of a rank spills: bodies for which its memory has no room.
//!
//! Its disk space is reserved when it is made, since a page without any would end a process that
//! writes to it (SIGBUS, mmap(2)). File systems that never write in place reserve none of use. The
//! file has no name any more: the space is free again when the last process that has it ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::anonymous;
use crate::rank_log_memory::{SPILL_FILE, is_its_name};

/// Tells the files of a process apart.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The file of one rank's log, as its manager has it.
#[derive(Debug)]
pub struct SpillFile(File);

impl SpillFile {
    /// Makes a file of so many bytes in a folder, and reserves them.
    ///
    /// # Errors
    /// The system's reason: there is no such folder, its device has no room, or its file system
    /// reserves none.
    pub fn new(folder: &Path, bytes: u64) -> io::Result<SpillFile> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{SPILL_FILE}{}.{number}", std::process::id()));
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path)?;
        std::fs::remove_file(&path)?;
        let shown = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        if !is_its_name(shown.as_os_str().as_encoded_bytes()) {
            // Such as NFS: images would not know it.
            let why = "this file system gives a removed file another name";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        anonymous::allow(bytes)?;
        anonymous::reserve(&file, bytes)?;
        Ok(SpillFile(file))
    }
}

impl AsFd for SpillFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_of_a_file_has_its_name_and_no_other_one_has() {
        let file = SpillFile::new(&std::env::temp_dir(), 8192).expect("a file");
        assert_eq!(file.0.metadata().expect("its length").len(), 8192);
        let link = format!("/proc/self/fd/{}", file.0.as_raw_fd());
        let shown = std::fs::read_link(link).expect("its name");
        assert!(
            is_its_name(shown.as_os_str().as_encoded_bytes()),
            "{shown:?}"
        );
        for other in [
            &b"/tmp/rejoin-log.1.0"[..],
            b"/memfd:rejoin-log.1 (deleted)",
            b"/tmp/other.rejoin-log.1 (deleted)",
            b"rejoin-log.1 (deleted)",
            b"",
        ] {
            assert!(!is_its_name(other));
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_by_the_system() {
        let missing = SpillFile::new(Path::new("/nowhere/at/all"), 1);
        assert_eq!(
            missing.expect_err("no folder").kind(),
            io::ErrorKind::NotFound
        );
    }
}
