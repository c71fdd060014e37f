//! The managers' protocol cores, sans-IO. What ranks and managers say to each other is
//! [`rejoin_wire`].
//!
//! - [`control`]: what local managers and the central manager say to each other.
//! - [`local`]: one host's ranks; [`central`]: the job; [`verdict`]: how it ended.
//! - [`broadcast`]: words of central to all hosts, down a tree of local managers;
//!   [`lookup`]: where a rank is, for one who can't wait.
//! - [`checkpoint`]: when checkpoints are taken and stand; [`policy`]: which failures are masked;
//!   [`signals`]: those that ask programs to end.
//!
//! A core is a value with `step(now, input, effects)`: it reads no clock and touches no socket. The
//! same code runs in the daemons, in the simulator and under the model checker.

#![forbid(unsafe_code)]

pub mod broadcast;
pub mod central;
pub mod checkpoint;
pub mod control;
pub mod lease;
pub mod local;
pub mod lookup;
pub mod policy;
pub mod signals;
pub mod verdict;
