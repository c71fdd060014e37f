//! The ADI-level channel device: transports and the progress engine that moves the engine's bytes.

pub mod agent;
pub mod descriptors;
pub mod error;
pub mod options;
pub mod poller;
pub mod stats;
pub mod transport;

pub use error::{Error, Result};
pub use options::Options;
pub use poller::Waker;
pub use stats::Stats;
