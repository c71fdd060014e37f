//! The ADI-level channel device: transports and the progress engine that moves the engine's bytes.
//!
//! [`Device`] is what the MPI layer calls. Below it, `rejoin-engine` holds the whole state of
//! messages and never touches memory of the program, and `rejoin-channel-table` says who is
//! connected to whom. This crate owns the sockets, the clock and the copies.

#[cfg(test)]
extern crate self as rejoin_device;

pub mod agent;
mod asked;
mod await_links;
mod clock;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
mod connect;
pub mod descriptors;
mod device;
mod error;
mod fast_path;
mod fault_injector;
mod finalize;
mod get;
mod handshake_io;
pub mod image;
mod io;
mod key;
mod limits;
mod link_check;
mod link_flapping;
mod live;
mod manager_updates;
mod memory;
pub mod notes;
mod options;
mod pending;
mod pending_checkpoint;
mod polled;
pub mod poller;
mod progress;
mod receive;
mod rejoin;
pub mod safe_point;
mod slots;
mod spin;
mod spin_list;
mod stall;
mod startup;
pub mod stats;
mod transmit;
pub mod transport;
mod waker;

pub use device::{Device, LocalCost, Mode};
pub use error::{Error, Result};
pub use fast_path::Caller;
pub use options::Options;
pub use rejoin::Old;
pub use rejoin_channel_table::ids::Rank;
pub use rejoin_channel_table::{Identity, LocalHostId};
pub use rejoin_ckpt::regions;
pub use rejoin_engine::{Completion, Config, Envelope, MsgId, Pattern, Probe, ReqId};
pub use stall::Names;
pub use stats::Stats;
pub use transport::{Attempt, Fault};
pub use waker::Waker;

/// Context id of a communicator.
pub type Context = u32;
