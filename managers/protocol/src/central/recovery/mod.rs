//! Reactions to a failure: a strategy per recovery mode.
//!
//! - `none`: a failure ends the job.
//! - `coordinated`: every rank rolls back to the last committed checkpoint.
//!   - `start_anew`: before the first checkpoint the job can only begin anew.
//!
//! A mode only decides. The steps are the same for all modes: `failures` judges failures and ends
//! jobs, `rollback` orders ranks back, `relaunch` starts all ranks again without a lost host.

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
pub(super) use restoring::GlobalRestore;
