//! What several recovery groups add to the engine: messages between groups are logged until an
//! image of the receiver's group holds them, and one group returns alone.
//!
//! - The sender's log: `group_log` (what it retains and releases), `log_queue` and `log_copies`
//!   (when bodies are copied), `log_space` (their memory), `image_bodies` (which of them the file of
//!   an image has).
//! - The receiver's log: `received`, with the `logged_runs` of each peer.
//! - A return: `return_from_past` (messages that peers have already), `wild_receives` and
//!   `wild_matches` (matches that are repeated), `interval_frames` (what may still be lost).

pub(crate) mod group_log;
#[cfg(test)]
pub(crate) mod group_tests;
mod image_bodies;
mod interval_frames;
mod log_copies;
pub(crate) mod log_queue;
pub(crate) mod log_space;
pub(crate) mod logged_runs;
pub(crate) mod received;
#[cfg(test)]
mod received_tests;
mod return_from_past;
mod wild_matches;
pub(crate) mod wild_receives;

pub use group_log::LogLook;
pub use received::{Received, ReceivedBody};
pub use wild_receives::WildMatch;
