//! Size and settings of a simulated job.

use rejoin_channel_table::{Epoch, Generation};
use rejoin_managers_protocol::central::{Failover, HostIndex, Job, Leases, Recovery};
use rejoin_managers_protocol::checkpoint::{CopyInterval, Interval};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::policy::RecoveryLimit;

/// Nanoseconds in a millisecond.
pub const MILLI: u64 = 1_000_000;

/// Size of a job, and how it takes checkpoints.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Hosts.
    pub hosts: usize,
    /// The last so many of them have no ranks at first.
    pub spares: usize,
    /// Ranks on each of the others.
    pub per_host: u32,
    /// When checkpoints are ordered.
    pub interval: Interval,
    /// When images also go to files.
    pub files: Option<Interval>,
    /// Its hosts are reached over a network, and go by leases.
    pub leases: Option<Terms>,
    /// Ranks look cards up: each asks for one when it begins.
    pub lookups: bool,
    /// The job continues without a lost host.
    pub failover: bool,
    /// Other hosts take in the ranks of a lost one, where that is possible.
    pub takes_in: bool,
    /// Each host has a folder of its own for files. Hosts in groups of this size have the parities
    /// of their files stored elsewhere, so often.
    pub copies: Option<(usize, CopyInterval)>,
    /// So many ranks that follow one another are a recovery group.
    pub group: Option<u32>,
}

impl Shape {
    /// Ranks in all.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        (self.hosts - self.spares) as u32 * self.per_host
    }

    /// For each rank its recovery group; empty: the job is one.
    #[must_use]
    pub fn log_groups(&self) -> Vec<u32> {
        let of = |size| (0..self.ranks()).map(|rank| rank / size).collect();
        self.group.map(of).unwrap_or_default()
    }

    /// The job, as central receives it.
    pub(super) fn job(&self) -> Job {
        let place = |rank: u32| (rank / self.per_host) as HostIndex;
        Job {
            generation: Generation(0),
            hosts: (0..self.hosts).map(|n| format!("host{n}")).collect(),
            placement: (0..self.ranks()).map(place).collect(),
            slots: vec![self.per_host; self.hosts],
            lans: Vec::new(),
            limit: None,
            spent: 0,
            leases: self.leases.map(|terms| Leases {
                terms,
                hosts: (0..self.hosts).collect(),
            }),
            failover: self.failover.then(|| Failover {
                takes_in: self.takes_in,
                ..Failover::default()
            }),
            from: None,
            requested: Epoch(0),
            log_groups: self.log_groups(),
            files_lack: true,
            copies: self.copies.map(|(size, _)| size),
            recovery: Some(Recovery {
                interval: self.interval,
                files: self.files,
                copies: self
                    .copies
                    .map_or(CopyInterval::EachTime, |(_, interval)| interval),
                limit: RecoveryLimit {
                    restarts: 1000,
                    within: 600_000,
                },
                accepts_outliving: false,
            }),
        }
    }
}
