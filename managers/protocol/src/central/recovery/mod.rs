//! Reactions to a failure: a strategy per recovery mode.
//!
//! - none (in `mode`): a failure ends the job.
//! - `coordinated`: every rank rolls back to the last committed checkpoint. Before the first
//!   checkpoint the job can only begin anew. In a job of several recovery groups (message logging)
//!   only the group of the failed rank does so (`group_return`), from its own last commit
//!   (`group_commits`).
//!
//! A mode only decides. The steps are the same for all modes: `failures` judges failures and ends
//! jobs, `rollback` orders ranks back, `other_hosts` does so without a lost host, and `relaunch`
//! starts all ranks again without one.

mod coordinated;
mod failures;
mod fitting_checkpoint;
mod group_commits;
mod group_return;
mod groups_on_others;
mod held_group_orders;
mod lost_hosts;
mod mode;
mod other_hosts;
mod phases;
mod relaunch;
mod response;
mod rollback;

pub(super) use held_group_orders::HeldGroupOrders;
pub(super) use lost_hosts::LostHosts;
pub(super) use mode::RecoveryMode;
pub(super) use phases::{GlobalRestore, Relaunching};
