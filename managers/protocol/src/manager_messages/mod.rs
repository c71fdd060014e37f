//! Messages about ranks between the central manager and the local managers.
//!
//! A message that depends on the state of the job carries the generation, and a message about one
//! process its incarnation. So a report about a replaced process never counts for its successor.
//! Messages about the host (its lease, its end) and about the whole job (signals, the verdict) hold
//! for every generation.

mod host_report;
mod instances;
mod process_messages;
mod to_central;
mod to_local;

pub use host_report::{RankReport, Report};
pub use instances::{Cause, End, KeptFile, MovedRank, ProcessInstance, Stage, Time};
pub use process_messages::{ProcessExit, ProcessMessage};
pub use to_central::{
    FileMessage, HostMessage, ImageMessage, LogMessage, MoveBytes, MoveMessage, RegionMessage,
    ToCentral,
};
pub use to_local::{ImageOrder, RankMoveOrder, RegionOrder, ToLocal};
