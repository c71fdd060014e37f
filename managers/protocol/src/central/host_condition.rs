//! The condition of each host, as the user sees it.

use rejoin_channel_table::LanId;
use serde::{Deserialize, Serialize};

/// How a host takes part in the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HostCondition {
    /// The host has ranks.
    Active,
    /// The host has no ranks and may get some.
    Spare,
    /// The host gets no ranks while another host has room, because its health command says so.
    Suspect,
    /// The host gets no ranks any more, and its local manager has not ended.
    Draining,
    /// The host takes no part any more, because it was drained.
    Left,
    /// The host takes no part any more, because it is lost.
    Lost,
}

impl HostCondition {
    /// The names of all conditions.
    pub const NAMES: [&str; 5] = ["active", "spare", "suspect", "draining", "inactive"];

    /// Name of the condition for users and files, one of [`HostCondition::NAMES`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HostCondition::Active => "active",
            HostCondition::Spare => "spare",
            HostCondition::Suspect => "suspect",
            HostCondition::Draining => "draining",
            HostCondition::Left | HostCondition::Lost => "inactive",
        }
    }
}

/// A host at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostView {
    /// Name of the host, as the user gave it.
    pub name: String,
    /// How it takes part.
    pub condition: HostCondition,
    /// Why, one line; of a host that takes part as usual, nothing.
    pub why: Option<String>,
    /// Site of the host, as the user gave it; empty: none is known.
    pub lan: LanId,
}
