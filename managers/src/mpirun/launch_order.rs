//! The launch that the command line requests.

use super::job_streams::Show;
use super::stop_plan::StopPlan;
use crate::launch::launch_plan::LaunchPlan;
use crate::launch::machines::Machines;
use rejoin_channel_table::{Epoch, Generation};
use rejoin_managers_protocol::central::Recovery;
use rejoin_managers_stdio::source;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

/// What to launch.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Everything that the local managers must know, for all ranks.
    pub plan: LaunchPlan,
    /// The hosts, and which ranks are where.
    pub machines: Machines,
    /// Generation of its first processes.
    pub generation: Generation,
    /// How often it was launched before, on other hosts.
    pub launch: u32,
    /// The highest number of a checkpoint that was requested then.
    pub requested: Epoch,
    /// The checkpoint that was committed before the one from which the job is restarted.
    pub before: Option<Epoch>,
    /// Time limit in milliseconds.
    pub limit: Option<u64>,
    /// Since when that counts.
    pub begun: Instant,
    /// Standard input that earlier launches have read.
    pub consumed: source::Consumed,
    /// Put `[rank]<stream> ` before each line.
    pub tag: bool,
    /// Say what happens.
    pub verbose: bool,
    /// How failures are masked; `None`: they end the job.
    pub recovery: Option<Recovery>,
    /// A signal that orders a checkpoint instead of being passed on.
    pub checkpoint_signal: Option<i32>,
    /// When the job is to stop with a last checkpoint.
    pub stop: StopPlan,
    /// Where events are appended to.
    pub events: Option<PathBuf>,
    /// Where metrics are answered.
    pub metrics: Option<SocketAddr>,
    /// When output is shown.
    pub show: Show,
}

impl Launch {
    /// The name of the first program.
    #[must_use]
    pub fn program(&self) -> Cow<'_, str> {
        let program = self.plan.programs.first().and_then(|p| p.argv.first());
        program.map_or(Cow::Borrowed(""), |name| String::from_utf8_lossy(name))
    }
}
