//! What a replay tells the one who started it.

use std::fs::File;
use std::io::Write as _;

/// How a replay goes, said once: in a file that the starter names, if there is one.
#[derive(Debug, Default)]
pub(super) struct ReplayOutcome {
    file: Option<File>,
}

/// Names the file.
const VARIABLE: &str = "REJOIN_REPLAY_OUTCOME";

impl ReplayOutcome {
    /// Opens the file.
    ///
    /// # Errors
    /// The system's, with the name of the file.
    pub(super) fn from_environment() -> Result<Self, String> {
        let Some(path) = std::env::var_os(VARIABLE) else {
            return Ok(Self::default());
        };
        let opened = File::options().append(true).open(&path);
        let shown = path.to_string_lossy();
        opened
            .map(|file| Self { file: Some(file) })
            .map_err(|error| format!("{VARIABLE}={shown}: {error}"))
    }

    /// Says `word`, and what belongs to it. Nothing after that counts.
    pub(super) fn say(&mut self, word: &str, text: &str) {
        if let Some(mut file) = self.file.take() {
            // The starter says so if it finds nothing.
            let _ = file.write_all(format!("{word} {text}\n").as_bytes());
        }
    }
}
