//! The file into which a replay writes its outcome, for the one who started it.

use std::fs::File;
use std::io::Write as _;

use rejoin_wire::recording::{OUTCOME_VARIABLE, ReplayOutcome};

use super::raised;

/// Gets the outcome, once.
#[derive(Debug, Default)]
pub(super) struct OutcomeFile(Option<File>);

impl OutcomeFile {
    /// Opens the file that the starter names, if it names one.
    ///
    /// # Errors
    /// The system's, with the name of the file.
    pub(super) fn from_environment() -> Result<Self, String> {
        let Some(path) = std::env::var_os(OUTCOME_VARIABLE) else {
            return Ok(Self::default());
        };
        let opened = File::options().append(true).open(&path).and_then(raised);
        let shown = path.to_string_lossy();
        opened
            .map(|file| Self(Some(file)))
            .map_err(|error| format!("{OUTCOME_VARIABLE}={shown}: {error}"))
    }

    /// Says how the replay went. Nothing after that counts. False: nobody gets it.
    pub(super) fn say(&mut self, outcome: &ReplayOutcome) -> bool {
        let written = self.0.take().map(|mut file| writeln!(file, "{outcome}"));
        matches!(written, Some(Ok(())))
    }
}
