//! Messages between mpirun and the central manager's process.

use super::host_links::LinkPlan;
use rejoin_managers_protocol::central::{
    CentralEffect, CentralInput, HostView, Job, JobView, MoveView, RankView,
};
use rejoin_managers_protocol::manager_messages::Time;
use rejoin_managers_protocol::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::os::fd::RawFd;
use std::path::PathBuf;

/// How a central manager's process begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Begin {
    /// The job.
    pub job: Job,
    /// The setup of its links to the local managers.
    pub links: LinkPlan,
    /// The sockets that listen for local managers, which the process has inherited.
    pub listening: Vec<RawFd>,
    /// Where its journal is, or is to be made, if there is a place for it.
    pub journal: Option<PathBuf>,
    /// No process can continue the job: this one only ends it, with this verdict.
    pub verdict: Option<Verdict>,
    /// A predecessor has said something, so it has stored that the job began.
    pub began: bool,
    /// Inputs that the predecessor may not have taken, with their numbers.
    pub inputs: Vec<(u64, CentralInput)>,
    /// Tell the user what happens; and since when times count.
    pub verbose: Option<Time>,
}

/// A client wants to know how the job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StatusRequest {
    /// The number of the client.
    pub client: u32,
    /// The client wants to know of each rank.
    pub with_ranks: bool,
}

/// From mpirun.
#[derive(Debug, Serialize, Deserialize)]
pub enum MpirunToCentral {
    /// The first message.
    Begin(Box<Begin>),
    /// For the core. With a number, central reports when the input was taken and its records are
    /// stored.
    Input(Option<u64>, CentralInput),
    /// How is everything?
    Status(StatusRequest),
    /// Is it there? It answers [`CentralToMpirun::Alive`].
    Ping,
}

/// To mpirun.
#[derive(Debug, Serialize, Deserialize)]
pub enum CentralToMpirun {
    /// The effects of an input, except for records and messages to local managers.
    Step {
        /// Numbers of inputs that were taken with it.
        took: Vec<u64>,
        /// The job as it is now, when that has changed.
        view: Option<JobView>,
        /// In their order; none that store or send.
        effects: Vec<CentralEffect>,
    },
    /// The answer to [`MpirunToCentral::Status`].
    Status {
        /// The client that asked.
        client: u32,
        /// The job.
        view: JobView,
        /// State of each rank of the job; none if the client does not want them.
        ranks: Vec<RankView>,
        /// State of each of its hosts.
        hosts: Vec<HostView>,
        /// The ranks that are on their way.
        moves: Vec<MoveView>,
        /// When that was.
        now: Time,
    },
    /// The answer to [`MpirunToCentral::Ping`].
    Alive,
    /// The journal can't be read, for this reason: nothing more is done.
    NoJournal(String),
    /// The journal can't be made, or not be written any more, for this reason. Later records are
    /// not stored, and no central manager can continue the job.
    JournalFailed(String),
}
