//! Deterministic simulator: ranks made of the real engine, table and handshake, over a network
//! that delays, cuts and half-opens connections. One thread, one seed, and checkers apart from the
//! code under test.
#![forbid(unsafe_code)]

pub mod check;
pub mod fuzz;
pub mod job;
pub mod node;
pub mod plan;
pub mod rng;
pub mod spread;
pub mod world;
