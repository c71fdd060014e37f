//! One line of a file of events.

use super::tidy_text::tidy;
use serde::Deserialize;

/// The fields of a line, as far as a history needs them. Unknown fields are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct EventLine {
    /// Seconds since 1970.
    pub time: Option<f64>,
    /// Nanoseconds since mpirun started.
    pub at_ns: Option<u64>,
    /// Name of the job.
    #[serde(deserialize_with = "tidy")]
    pub job: Option<String>,
    /// The kind of event.
    #[serde(deserialize_with = "tidy")]
    pub event: Option<String>,
    pub generation: u32,
    pub epoch: Option<u32>,
    #[serde(deserialize_with = "tidy")]
    pub level: Option<String>,
    pub rank: Option<u32>,
    #[serde(deserialize_with = "tidy")]
    pub host: Option<String>,
    #[serde(deserialize_with = "tidy")]
    pub to: Option<String>,
    pub pid: Option<u32>,
    #[serde(deserialize_with = "tidy")]
    pub cause: Option<String>,
    pub took_ns: Option<u64>,
    pub repeated_ns: Option<u64>,
    pub interval_ms: Option<u64>,
    pub ranks: Option<u32>,
    #[serde(deserialize_with = "tidy")]
    pub program: Option<String>,
    pub hosts: Vec<PlacedOnHost>,
    pub stall_ns: Option<u64>,
    pub copied_bytes: Option<u64>,
    pub bytes: Option<u64>,
    pub code: Option<i32>,
    pub retained_bytes: Option<u64>,
    pub most_retained_bytes: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub file_bytes: Option<u64>,
    pub determinants: Option<u64>,
    pub determinants_per_second: Option<u64>,
    pub lag_ns: Option<u64>,
}

/// A host and its ranks.
#[derive(Debug, Deserialize)]
pub struct PlacedOnHost {
    /// Name of the host.
    #[serde(deserialize_with = "tidy")]
    pub host: Option<String>,
    /// The first and the last rank of each run.
    pub ranks: Vec<(u32, u32)>,
}
