//! Detectors: who looks after the hosts of a job, and when.
//!
//! Ranks are never probed; local managers are. A detector only says what a host has not answered. A
//! host counts as lost when its lease has run out ([`crate::lease`]), whatever the detector.
//!
//! - `star`: each local manager renews its lease often, so central notices silence itself.
//! - `ring`: each local manager probes another one at an interval. It tells central when there is
//!   no answer, and central asks that host itself ([`HostWatch`]). Leases are renewed half as
//!   often.
//! - `sporadic`: a local manager probes a host only while one of its ranks waits for a rank there.
//! - `none`: nobody probes, and leases last for as long as the user is patient.

mod host_watch;
mod prober;

pub use host_watch::{HostWatch, WatchEffect};
pub use prober::{ProbeDuty, Prober};

use rejoin_channel_table::Rank;
use serde::{Deserialize, Serialize};

/// How hosts that do not answer are noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Detector {
    /// By central, from the renewals of leases.
    #[default]
    Star,
    /// By other local managers, all the time.
    Ring,
    /// By other local managers, while ranks wait.
    Sporadic,
    /// By the kernels' signals only.
    None,
}

/// The detector of a job and its times, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DetectorSettings {
    /// The detector.
    pub detector: Detector,
    /// Between two probes of one host; for `sporadic`, also how long a wait of a rank lasts before
    /// its manager probes.
    pub interval: u64,
    /// How long an answer to a probe is waited for.
    pub timeout: u64,
}

impl Default for DetectorSettings {
    fn default() -> Self {
        DetectorSettings {
            detector: Detector::default(),
            interval: 1000,
            timeout: 1000,
        }
    }
}

impl DetectorSettings {
    /// Local managers probe each other.
    #[must_use]
    pub fn probes(&self) -> bool {
        matches!(self.detector, Detector::Ring | Detector::Sporadic)
    }
}

/// What became of a probe that has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ProbeFailure {
    /// Nothing has come.
    Silent,
    /// The host has refused the connection.
    Refused,
    /// The connection has broken, and there is no other.
    Broken,
}

impl std::fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ProbeFailure::Silent => "no answer",
            ProbeFailure::Refused => "the connection is refused",
            ProbeFailure::Broken => "the connection has broken",
        })
    }
}

/// Between local managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ProbeMessage {
    /// Is this host there?
    Probe {
        /// Number of the probe.
        number: u64,
    },
    /// This host is there.
    Answer {
        /// Number of the answered probe.
        number: u64,
    },
}

/// From central to a local manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WatchOrder {
    /// These hosts are to be probed from now on. Suspicions that were told are settled.
    Watch(Vec<usize>),
    /// Another host can't reach this one: is it there?
    Ask {
        /// Number of the question.
        number: u64,
    },
    /// The rank that was asked for is on this host.
    RankOn(Rank, usize),
}

/// From a local manager to central.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WatchReport {
    /// A host has not answered a probe.
    Suspect {
        /// The host that was probed.
        host: usize,
        /// What became of the probe.
        failure: ProbeFailure,
    },
    /// The answer to [`WatchOrder::Ask`].
    Alive {
        /// Number of the question.
        number: u64,
    },
    /// On which host is this rank?
    RequestRank(Rank),
}
