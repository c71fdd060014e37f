//! What goes into the central manager's core and comes out of it.

use super::HostIndex;
use crate::control::{ToCentral, ToLocal};
use crate::verdict::Verdict;
use rejoin_channel_table::{BusinessCard, Generation, Incarnation, Rank};
use serde::{Deserialize, Serialize};

/// What the driver tells the core.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// Start the job.
    Begin,
    /// A local manager said this.
    Local(HostIndex, ToCentral),
    /// The link to a local manager is gone.
    HostLost(HostIndex),
    /// The launcher got this signal.
    Signal(i32),
    /// The ranks' output can't be written, for this reason, or (without one) nobody reads it.
    OutputLost(Option<String>),
    /// The deadline may have come.
    Tick,
}

/// What the core tells the driver to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Store this before doing anything that follows.
    Persist(Record),
    /// Tell a local manager.
    Send(HostIndex, ToLocal),
    /// Let go of a local manager that does not answer: close its link, kill what is reachable.
    Drop(HostIndex),
    /// A rank reported what it counted.
    Counters(Rank, Vec<(String, u64)>),
    /// The job is decided: nothing later changes the verdict.
    Decided(Verdict),
    /// The job is over and every host has been heard of or dropped.
    Over(Verdict),
}

/// What must outlive the central manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Record {
    /// Processes of these incarnations, in rank order, are about to be started.
    Began {
        /// The job's generation.
        generation: Generation,
        /// Incarnation of each rank.
        incarnations: Vec<Incarnation>,
    },
    /// All ranks have registered and are about to be let go.
    Started {
        /// The job's generation.
        generation: Generation,
        /// Incarnation and card of each rank, in rank order.
        table: Vec<(Incarnation, BusinessCard)>,
    },
    /// All ranks are in `MPI_Finalize` and are about to be let go: none can be asked to come back.
    Finalized {
        /// The job's generation.
        generation: Generation,
    },
    /// The verdict, which nothing changes any more.
    Decided(Verdict),
}

/// What central is given to start with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Job {
    /// Generation of the job's first processes.
    pub generation: Generation,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// For each rank its host.
    pub placement: Vec<HostIndex>,
    /// Time limit in milliseconds.
    pub limit: Option<u64>,
}
