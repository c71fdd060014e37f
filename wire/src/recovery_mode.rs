//! How failures of a job are masked.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// How failures of a job are masked (`--recovery`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RecoveryMode {
    /// Failures end the job.
    #[default]
    None,
    /// All ranks go back to their last checkpoint.
    Coordinated,
    /// Only the recovery group of a lost rank goes back. Senders keep messages to other groups, and
    /// repeat what the group had received.
    SenderLog(MessageLog),
    /// The mode `SenderLog`, in which receivers log messages, too. Messages leave before what they
    /// depend on is stored, and say what that is. Ranks that depend on what is lost go back, too.
    ReceiverLog(MessageLog),
}

/// What the ranks of a job log of their messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MessageLog {
    /// For each rank the number of its recovery group, from 0.
    pub groups: Vec<u32>,
    /// Most bytes that a rank retains for other groups (`--log-limit`); 0: the local manager sets
    /// it.
    pub limit: u64,
    /// Where messages spill that a rank retains beyond its memory for them (`--log-spill`).
    pub spill: Option<LogSpill>,
    /// Determinants must outlive a rank's host before anything that depends on them leaves the rank
    /// (`--stable node`).
    pub stable_node: bool,
}

/// A file into which the log of a rank spills.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogSpill {
    /// Absolute path of the folder in which the local manager makes the file.
    pub folder: String,
    /// Bytes of the file, which are reserved; 0: the local manager sets it.
    pub bytes: u64,
}

/// No mode has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no such mode; coordinated, sender-log, receiver-log and none are")]
pub struct NoSuchMode;

impl RecoveryMode {
    /// The name of the mode, as `--recovery` takes it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            RecoveryMode::None => "none",
            RecoveryMode::Coordinated => "coordinated",
            RecoveryMode::SenderLog(_) => "sender-log",
            RecoveryMode::ReceiverLog(_) => "receiver-log",
        }
    }

    /// Failures are masked where that is possible: there are checkpoints.
    #[must_use]
    pub fn masks_failures(&self) -> bool {
        !matches!(self, RecoveryMode::None)
    }

    /// What ranks log, if they do.
    #[must_use]
    pub fn log(&self) -> Option<&MessageLog> {
        match self {
            RecoveryMode::None | RecoveryMode::Coordinated => None,
            RecoveryMode::SenderLog(log) | RecoveryMode::ReceiverLog(log) => Some(log),
        }
    }

    /// What ranks log, if they do, to be changed.
    pub fn log_mut(&mut self) -> Option<&mut MessageLog> {
        match self {
            RecoveryMode::None | RecoveryMode::Coordinated => None,
            RecoveryMode::SenderLog(log) | RecoveryMode::ReceiverLog(log) => Some(log),
        }
    }

    /// Determinants must outlive a rank's host before anything that depends on them leaves the
    /// rank.
    #[must_use]
    pub fn is_stable_on_nodes(&self) -> bool {
        self.log().is_some_and(|log| log.stable_node)
    }

    /// Messages leave a rank before what they depend on is stored.
    #[must_use]
    pub fn is_optimistic(&self) -> bool {
        matches!(self, RecoveryMode::ReceiverLog(_))
    }
}

impl FromStr for RecoveryMode {
    type Err = NoSuchMode;

    /// The mode of this name; of one with a log, the log is not described yet.
    fn from_str(name: &str) -> Result<RecoveryMode, NoSuchMode> {
        let modes = [
            RecoveryMode::None,
            RecoveryMode::Coordinated,
            RecoveryMode::SenderLog(MessageLog::default()),
            RecoveryMode::ReceiverLog(MessageLog::default()),
        ];
        let found = modes.into_iter().find(|mode| mode.name() == name);
        found.ok_or(NoSuchMode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_its_name() {
        for (name, masks, logs, optimistic) in [
            ("none", false, false, false),
            ("coordinated", true, false, false),
            ("sender-log", true, true, false),
            ("receiver-log", true, true, true),
        ] {
            let mut mode: RecoveryMode = name.parse().expect("a mode");
            assert_eq!(mode.name(), name);
            assert_eq!(mode.masks_failures(), masks);
            assert_eq!(
                (mode.log().is_some(), mode.log_mut().is_some()),
                (logs, logs)
            );
            assert_eq!(mode.is_optimistic(), optimistic);
        }
        assert_eq!("log".parse::<RecoveryMode>(), Err(NoSuchMode));
    }
}
