//! What a replay has said about itself.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// How a replay went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayResult {
    /// The rank did all that is recorded, and no more.
    Same {
        /// Messages that it sent.
        sent: u64,
        /// Messages that it received.
        received: u64,
    },
    /// The rank did something else: what, and what is recorded.
    Differs(String),
    /// The recording ends before the rank does: where.
    Ended(String),
}

impl ReplayResult {
    /// What the replay wrote; `None`: it ended without `MPI_Finalize`.
    fn parse(text: &str) -> Option<Self> {
        let (word, rest) = text.trim_end().split_once(' ')?;
        match word {
            "same" => {
                let (sent, received) = rest.split_once(' ')?;
                Some(Self::Same {
                    sent: sent.parse().ok()?,
                    received: received.parse().ok()?,
                })
            }
            "differs" => Some(Self::Differs(rest.to_owned())),
            "ended" => Some(Self::Ended(rest.to_owned())),
            _ => None,
        }
    }
}

/// The file into which a replay writes its outcome; removed at the end.
#[derive(Debug)]
pub struct OutcomeFile(PathBuf);

impl OutcomeFile {
    /// Makes an empty one.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rejoin-replay-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        File::options().write(true).create_new(true).open(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What the replay has written; `None`: nothing.
    #[must_use]
    pub fn read(&self) -> Option<ReplayResult> {
        ReplayResult::parse(&fs::read_to_string(&self.0).ok()?)
    }
}

impl Drop for OutcomeFile {
    fn drop(&mut self) {
        // Nobody reads it any more.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_as_replays_write_them() {
        let same = ReplayResult::Same {
            sent: 3,
            received: 4,
        };
        assert_eq!(ReplayResult::parse("same 3 4\n"), Some(same));
        let differs = ReplayResult::Differs("MPI_Send, and more".into());
        assert_eq!(
            ReplayResult::parse("differs MPI_Send, and more\n"),
            Some(differs)
        );
        for nothing in ["", "same", "same 3", "same x 4", "else 1"] {
            assert_eq!(ReplayResult::parse(nothing), None, "{nothing}");
        }
    }
}
