//! The setting of a claim.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::skipped::Skipped;
use super::times::Times;
use crate::bounded::{AfterFailure, Deadline, Spent};

/// What all claims share.
#[derive(Clone)]
pub struct Shared {
    /// Whether what is missing may be installed.
    pub install: bool,
    /// Whether a claim runs also if it has passed on the same sources before.
    pub repeats: bool,
    /// Test binaries have this in their names.
    pub file: Option<String>,
    /// Where claims note what does not run.
    pub skipped: Skipped,
    /// Where the times of what claims run are noted.
    pub times: Times,
}

/// The setting of one claim, with its time limit.
pub struct Setting {
    /// The workspace's folder.
    pub root: PathBuf,
    /// What it shares with the others.
    pub shared: Shared,
    deadline: Deadline,
    compiled: Cell<Spent>,
}

impl Setting {
    /// For a claim that may take so many minutes.
    pub fn new(minutes: u64, shared: &Shared) -> Result<Setting> {
        Ok(Setting {
            root: crate::workspace::root(),
            shared: shared.clone(),
            deadline: Deadline::after(Duration::from_secs(60 * minutes))?,
            compiled: Cell::default(),
        })
    }

    /// What [`Setting::compile`] has taken so far.
    pub fn compiled(&self) -> Spent {
        self.compiled.get()
    }

    /// The same as [`Setting::run_all`] for commands that compile, and little else.
    pub fn compile(&self, commands: &mut [Command]) -> Result<()> {
        let (begun, before) = (Instant::now(), Spent::by_children());
        let result = self.run_all(commands);
        let mut compiled = self.compiled.get();
        compiled.wall += begun.elapsed();
        compiled.processor += Spent::by_children().saturating_sub(before);
        self.compiled.set(compiled);
        result
    }

    /// Runs a command to its good end, within the claim's time.
    pub fn run(&self, command: &mut Command) -> Result<()> {
        self.shared.skipped.tell(command);
        self.deadline.run(command)
    }

    /// Runs commands that use one core each at the same time.
    pub fn run_all(&self, commands: &mut [Command]) -> Result<()> {
        self.run_some(commands, commands.len(), AfterFailure::Ends, |_, _| ())
    }

    /// Runs commands, so many at a time. `ended` gets the number of each that has ended, and the
    /// time that it took.
    pub fn run_some(
        &self,
        commands: &mut [Command],
        at_once: usize,
        after_failure: AfterFailure,
        ended: impl FnMut(usize, Spent),
    ) -> Result<()> {
        for command in commands.iter_mut() {
            self.shared.skipped.tell(command);
        }
        self.deadline
            .run_some(commands, at_once, after_failure, ended)
    }
}

/// Cargo with these arguments, in the workspace's folder.
pub fn cargo(context: &Setting, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(&context.root).args(args);
    command
}
