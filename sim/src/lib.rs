//! Deterministic simulator: ranks made of the real engine, table and handshake, over a network
//! that delays, cuts and half-opens connections. One thread, one seed, and checkers apart from the
//! code under test.
//!
//! ```
//! use rejoin_sim::message_plan::Plan;
//! use rejoin_sim::rng::Rng;
//! use rejoin_sim::world::{Faults, World};
//!
//! // The seed decides on everything: messages, delays, cuts.
//! let mut rng = Rng::new(7);
//! let plan = Plan::random(&mut rng, 4, 100);
//! let faults = Faults {
//!     cut_every: 500,
//!     until: 100_000,
//!     dead_on_arrival: 10,
//!     late: 20,
//! };
//! let mut world = World::new(rng, plan, faults);
//! world.run().expect("every message arrives once, in order and unchanged");
//! assert!(world.cuts > 0);
//! ```
#![forbid(unsafe_code)]

pub mod fuzz;
pub mod job;
pub mod message_check;
pub mod message_plan;
pub mod node;
pub mod rng;
pub mod seed_range;
pub mod table_distribution;
pub mod update_distribution;
pub mod world;
