//! Folders of images: whether ranks of this host can store their registered memory in that of
//! `--images`, and the folder of a job for which nobody names one.

use crate::error::system_text;
use std::fs::File;
use std::path::Path;

/// The folder of the files of this user's jobs, as far as nobody names another.
#[must_use]
pub fn default_path() -> String {
    let top = std::env::var("TMPDIR").ok();
    let top = top.filter(|top| Path::new(top).is_absolute());
    let top = top.unwrap_or_else(|| "/tmp".into());
    let user = nix::unistd::geteuid();
    format!("{}/rejoin-images-{user}", top.trim_end_matches('/'))
}

/// Makes the folder and, for a moment, a file in it. Ranks would notice only at their first
/// `MPIX_Checkpoint` that they can't.
///
/// # Errors
/// One line that names the folder and the system's reason.
pub fn try_to_write(folder: &str) -> Result<(), String> {
    // Several hosts may try it at once.
    let host = nix::unistd::gethostname().unwrap_or_default();
    let probe = format!("{}-{}.draft", host.to_string_lossy(), std::process::id());
    let probe = Path::new(folder).join(probe);
    let tried = std::fs::create_dir_all(folder)
        .and_then(|()| File::create(&probe))
        .and_then(|_| std::fs::remove_file(&probe));
    tried.map_err(|error| {
        let why = system_text(&error);
        format!("--images {folder}: ranks could not store their state there: {why}")
    })
}
