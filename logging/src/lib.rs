//! The messages that a sender keeps until some horizon has passed: retention, send window,
//! duplicate suppression.
//!
//! This crate is sans-IO and deterministic: no transport, no clock, no storage. The horizon is
//! the receiver's acknowledgement: nothing outside of this crate sets another [`Horizon`] yet.
//! Message logs will.
#![forbid(unsafe_code)]

mod ends;
mod order;
mod retention;
mod ring;
mod window;

pub use order::{Arrival, ReceiveOrder};
pub use retention::{Horizon, Retention};
pub use ring::ByteRing;
pub use window::{ReceiveWindow, SendWindow, WindowError};
