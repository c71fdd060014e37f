//! The ADI-level channel device: transports and the progress engine that moves the engine's bytes.
//!
//! The MPI layer calls [`Device`]. Below it, `rejoin-engine` holds the whole state of messages and
//! never touches memory of the program. `rejoin-channel-table` holds the connections between ranks.
//! This crate owns the sockets, the clock and the copies.
//!
//! [`Device`] composes types with private state, each a folder: `links` (connections, dials,
//! readable links), `manager` (the link to the local manager), `recovery` (checkpoints and images),
//! `log` (what a rank logs for replays) and `progress` (the loop's own state). Code that needs
//! several of them is in the folder `device`, as handlers. What records a rank, and what replays it
//! alone in place of a device, is in [`recording`].

mod cost;
pub mod descriptors;
mod device;
mod error;
mod events;
mod job_locality;
mod job_member;
mod links;
mod log;
mod manager;
mod meter;
mod options;
mod os;
mod program_memory;
mod progress;
pub mod recording;
mod recovery;
mod served_peers;
mod size_limits;
mod streaming_copy;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod ticks;
pub mod transport;

pub use descriptors::OldDescriptors;
pub use device::{Caller, Counters, Device, Mode, safe_point};
pub use error::{Error, Result};
pub use events::Waker;
pub use job_locality::{JobLocality, LocalCost};
pub use job_member::Rollback;
pub use log::Determinants;
pub use meter::Stats;
pub use options::Options;
pub use progress::Names;
pub use rejoin_channel_table::ids::Rank;
pub use rejoin_channel_table::{Identity, LocalHostId};
pub use rejoin_ckpt::regions;
pub use rejoin_ckpt::{Arena, SettledLength};
pub use rejoin_engine::{Completion, Config, Envelope, MsgId, Pattern, Probe, ReqId};
pub use rejoin_logging::determinants;
pub use transport::{Fault, SendOutcome};
