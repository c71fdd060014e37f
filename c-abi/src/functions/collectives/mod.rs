//! Collectives (MPI-5.0 chapter 6) on intracommunicators.

mod args;
mod at_once;
#[allow(
    clippy::too_many_arguments,
    reason = "the arguments are the standard's"
)]
mod calls;
pub mod forms;
pub mod op;
mod run;
