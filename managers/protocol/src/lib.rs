//! The managers' protocol cores, sans-IO, and the messages that managers and ranks exchange.
//!
//! - [`rank`]: what a rank and its local manager say to each other; [`codec`]: their frames.

#![forbid(unsafe_code)]

pub mod codec;
pub mod rank;
