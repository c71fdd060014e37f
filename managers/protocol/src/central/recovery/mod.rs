//! What a failure leads to: a strategy per recovery mode.
//!
//! - `none`: a failure ends the job.
//! - `coordinated`: every rank goes back to the last committed checkpoint.
//!   - `start_anew`: before the first checkpoint there is only the start to go back to.
//!
//! A mode only decides. What follows is the same for all: `failures` judges and ends, `rollback`
//! orders ranks back, `relaunch` starts all ranks again without a lost host.

mod coordinated;
mod failures;
mod mode;
mod none;
mod relaunch;
mod relaunching;
mod response;
mod restoring;
mod rollback;
mod start_anew;

pub(super) use mode::RecoveryMode;
pub(super) use relaunching::Relaunching;
pub(super) use restoring::Restoring;
