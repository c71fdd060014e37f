//! What the health command of a host says.

use serde::{Deserialize, Serialize};

/// The answer of a health command, each with a reason for the user where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HostHealth {
    /// Nothing is wrong with the host.
    Fine,
    /// Other hosts are better places for ranks.
    Suspect(String),
    /// The ranks are to leave the host.
    Leave(String),
    /// The command gave no answer, for this reason.
    NoAnswer(String),
}
