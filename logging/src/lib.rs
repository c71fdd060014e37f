//! The messages that a sender keeps until some horizon has passed: retention, send window,
//! duplicate suppression. The messages that a receiver logs. And the nondeterministic answers that
//! a replay repeats.
//!
//! This crate is sans-IO and deterministic: no transport, no clock, no storage. The horizon is
//! the receiver's acknowledgement, or between recovery groups a committed image of the receiver, or
//! its receive log.
#![forbid(unsafe_code)]

mod byte_ring;
pub mod determinants;
mod ends;
pub mod receive_log;
mod receive_order;
mod retention;
mod window;

pub use byte_ring::ByteRing;
pub use receive_order::{Arrival, ReceiveOrder};
pub use retention::{Horizon, Retention};
pub use window::{ReceiveWindow, SendWindow, WindowError, WindowTotals};
