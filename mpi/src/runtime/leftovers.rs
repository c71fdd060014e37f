//! Files that a job needs until it can no longer roll back, and that it then removes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folders with such files.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(RefCell<BTreeSet<(PathBuf, String)>>);

impl Leftovers {
    /// Files of this folder whose names begin so are to be removed, and the folder if it is empty
    /// then.
    pub fn add(&self, folder: &Path, prefix: &str) {
        let one = (folder.to_owned(), prefix.to_owned());
        self.0.borrow_mut().insert(one);
    }

    /// Removes them. What can't be removed stays: another rank may have removed it.
    pub fn remove(&self) {
        for (folder, prefix) in self.0.take() {
            let Ok(files) = std::fs::read_dir(&folder) else {
                continue;
            };
            for file in files.flatten() {
                if file.file_name().to_string_lossy().starts_with(&prefix) {
                    let _ = std::fs::remove_file(file.path());
                }
            }
            let _ = std::fs::remove_dir(&folder);
        }
    }
}
