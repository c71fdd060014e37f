//! One line of a file of events, as it is written and read. `docs/events.md` describes the fields.

use super::tidy_text::tidy;
use rejoin_logging::determinants::LogFigures;
use serde::{Deserialize, Deserializer, Serialize};

/// The fields of a line. Those that do not belong to its event are left out. Fields of later
/// versions are ignored.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EventLine {
    /// Seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<f64>,
    /// Nanoseconds since mpirun started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// Name of the job.
    #[serde(deserialize_with = "tidy", skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The kind of event.
    #[serde(deserialize_with = "tidy", skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    pub generation: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
    #[serde(deserialize_with = "tidy", skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    #[serde(deserialize_with = "tidy", skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(deserialize_with = "tidy", skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(deserialize_with = "tidy", skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(deserialize_with = "tidy", skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(deserialize_with = "tidy", skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    #[serde(deserialize_with = "tidy", skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    #[serde(deserialize_with = "tidy", skip_serializing_if = "Option::is_none")]
    pub recovery: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<PlacedRanks>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_bytes: Option<u64>,
    /// Bytes of the files of a checkpoint. This version does not write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    #[serde(flatten, deserialize_with = "figures")]
    pub log: Option<LogFigures>,
}

/// A host and its ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedRanks {
    /// Name of the host.
    #[serde(deserialize_with = "tidy")]
    pub host: Option<String>,
    /// Site of the host, if one is known.
    #[serde(
        default,
        deserialize_with = "tidy",
        skip_serializing_if = "Option::is_none"
    )]
    pub site: Option<String>,
    /// Runs of ranks: the first one and the last one of each.
    pub ranks: Vec<(u32, u32)>,
}

/// Without this, figures of another type would count as absent.
fn figures<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LogFigures>, D::Error> {
    LogFigures::deserialize(deserializer).map(Some)
}
