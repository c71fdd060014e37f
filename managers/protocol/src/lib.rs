//! The managers' protocol cores, sans-IO. [`rejoin_wire`] has the messages between ranks and
//! managers.
//!
//! - [`manager_messages`]: messages between local managers and the central manager.
//! - [`local`]: one host's ranks; [`central`]: the job; [`verdict`]: how it ended.
//! - [`broadcast`]: messages of central to all hosts, down a tree of local managers; [`lookup`]:
//!   the card of one rank, on demand, and [`central_lookups`]: central's part of that.
//! - [`checkpoint`]: when checkpoints are taken and committed; [`levels`],
//!   [`committed_levels`] and `background_level`: which of them count, in memory, in files and on
//!   partner hosts; [`interval`] and `failure_rate`: how long it is until the next one; [`policy`]:
//!   which failures are masked; [`signal_numbers`]: signals that ask programs to end.
//! - [`lease`]: how long an unreachable host may continue; [`detector`]: which local manager probes
//!   which, and what is behind a missing answer.
//!
//! A core is a value with `step(now, input, effects)`: it reads no clock and touches no socket. The
//! same code runs in the daemons, in the simulator and under the model checker.

#![forbid(unsafe_code)]

mod background_level;
pub mod broadcast;
pub mod broadcast_tree;
pub mod central;
pub mod central_lookups;
pub mod checkpoint;
mod committed_checkpoint;
pub mod committed_levels;
pub mod detector;
mod failure_rate;
mod handler_keys;
pub mod host_health;
pub mod interval;
pub mod lease;
pub mod levels;
pub mod local;
pub mod lookup;
pub mod manager_messages;
pub mod policy;
pub mod region_commits;
pub mod signal_numbers;
pub mod verdict;
