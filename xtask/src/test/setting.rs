//! The setting of a claim.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::skipped::Skipped;
use crate::bounded::{AfterFailure, Deadline};

/// Data that claims share, and the time limit of one claim.
pub struct Setting {
    /// The workspace's folder.
    pub root: PathBuf,
    /// Whether what is missing may be installed.
    pub install: bool,
    /// Where claims note what does not run.
    pub skipped: Skipped,
    deadline: Deadline,
}

impl Setting {
    /// For a claim that may take so many minutes.
    pub fn new(install: bool, minutes: u64, skipped: &Skipped) -> Result<Setting> {
        Ok(Setting {
            root: crate::workspace::root(),
            install,
            skipped: skipped.clone(),
            deadline: Deadline::after(Duration::from_secs(60 * minutes))?,
        })
    }

    /// Runs a command to its good end, within the claim's time.
    pub fn run(&self, command: &mut Command) -> Result<()> {
        self.skipped.tell(command);
        self.deadline.run(command)
    }

    /// Runs commands that use one core each at the same time.
    pub fn run_all(&self, commands: &mut [Command]) -> Result<()> {
        self.run_some(commands, commands.len(), AfterFailure::Ends)
    }

    /// Runs commands, so many at a time.
    pub fn run_some(
        &self,
        commands: &mut [Command],
        at_once: usize,
        after_failure: AfterFailure,
    ) -> Result<()> {
        for command in commands.iter_mut() {
            self.skipped.tell(command);
        }
        self.deadline.run_some(commands, at_once, after_failure)
    }
}

/// Cargo with these arguments, in the workspace's folder.
pub fn cargo(context: &Setting, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(&context.root).args(args);
    command
}
