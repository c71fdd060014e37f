//! Collectives (MPI-5.0 chapter 6).

pub(crate) mod args;
#[allow(
    clippy::too_many_arguments,
    reason = "the arguments are the standard's"
)]
mod calls;
mod fast_path;
pub mod forms;
pub mod op;
mod run;
