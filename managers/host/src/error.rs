//! Errors of a manager itself, for all crates of the managers. The verdict describes failures of
//! ranks.

use rejoin_wire::codec::CodecError;

/// An error of a manager.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("can't {what}: {}", system_text(source))]
    System {
        /// What was tried.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The other manager sent malformed bytes.
    #[error("the link between the managers: {0}")]
    Link(#[from] CodecError),
    /// The log of a rank, or a copy of it, is of no use.
    #[error("{0}")]
    Log(String),
    /// The user's request can't be carried out.
    #[error("{0}")]
    Usage(String),
}

/// A result with the managers' error.
pub type Result<T> = std::result::Result<T, Error>;

/// The system's own words for an error, without its number.
#[must_use]
pub fn system_text(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_string(),
        None => error.to_string(),
    }
}

/// Names the attempt when a system call fails.
pub trait Context<T> {
    /// Turns the system's error into [`Error::System`].
    ///
    /// # Errors
    /// The error that there was, with `what` in front.
    fn context(self, what: &str) -> Result<T>;
}

impl<T, E: Into<std::io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: &str) -> Result<T> {
        self.map_err(|e| Error::System {
            what: what.to_string(),
            source: e.into(),
        })
    }
}
