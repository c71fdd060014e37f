//! Where the repository and the installation under test are.

use std::path::{Path, PathBuf};

/// The repository's root folder.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// The installation under test.
///
/// # Panics
/// When there is none: the message says how to make it.
pub fn prefix() -> PathBuf {
    let prefix = std::env::var_os("REJOIN_PREFIX")
        .map_or_else(|| root().join("target/prefix"), PathBuf::from);
    assert!(
        prefix.join("bin/mpicc").exists(),
        "no installation under {}: run `cargo xtask install --prefix target/prefix --fault-injection` first",
        prefix.display()
    );
    prefix
}
