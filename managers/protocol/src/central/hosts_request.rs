//! A request to add hosts to the running job.

use rejoin_channel_table::LanId;
use serde::{Deserialize, Serialize};

/// A host that is added.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AddedHost {
    /// Name of the host.
    pub name: String,
    /// How many ranks it takes before others get more.
    pub slots: u32,
    /// The host is reached over a network.
    pub is_remote: bool,
    /// Site of the host; empty: none is known.
    pub lan: LanId,
}

/// A request to add hosts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostsRequest {
    /// The driver's number of the request, which names it in
    /// [`Event::HostsAdded`](super::Event::HostsAdded).
    pub id: u64,
    /// The hosts.
    pub hosts: Vec<AddedHost>,
}
