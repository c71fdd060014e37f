//! The installation to which this process's program belongs.

use std::path::PathBuf;

/// The folder of this installation's MPI library; `None` if this program is in none.
#[must_use]
pub fn library_folder() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let folder = own.parent()?.parent()?.join("lib");
    folder.join("libmpi_abi.so.1").exists().then_some(folder)
}
