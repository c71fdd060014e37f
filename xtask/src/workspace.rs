//! Where the workspace is.

use std::path::{Path, PathBuf};

/// The repository's root folder.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}
