//! Collectives (MPI-5.0 chapter 6) on intracommunicators.

mod args;
pub mod blocking;
pub mod blocking_reductions;
#[allow(
    clippy::too_many_arguments,
    reason = "the arguments are the standard's"
)]
mod calls;
pub mod nonblocking;
pub mod nonblocking_reductions;
pub mod persistent;
pub mod persistent_reductions;
mod run;
