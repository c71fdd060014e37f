//! How a recorded rank began.

use serde::{Deserialize, Serialize};

/// What a rank was when it began: a replay is the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankStart {
    /// Rank in the job.
    pub rank: u32,
    /// Ranks of the job.
    pub size: u32,
    /// Number of the program, when there are several.
    pub appnum: Option<u32>,
    /// The number of each rank's host.
    pub hosts: Vec<u32>,
    /// Ranks of one host exchange messages with copies, not with system calls.
    pub copies_locally: bool,
    /// The order in which a reduction combines may follow the hosts.
    pub reduces_by_hosts: bool,
    /// Name of the rank's host.
    pub host: String,
    /// Identity of the rank's host, equal for ranks that can share memory.
    pub local_host: String,
    /// Program and arguments.
    pub command: Vec<Vec<u8>>,
    /// The variables of the process, as NAME=VALUE.
    pub environment: Vec<Vec<u8>>,
    /// Working directory of the process.
    pub directory: Vec<u8>,
}
