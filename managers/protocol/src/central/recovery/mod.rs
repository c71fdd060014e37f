//! Reactions to a failure: what is decided.
//!
//! `planner` has a variant for each mode: a failure ends the job, all ranks come back from the last
//! committed checkpoint, or only the group of the failed rank does so, from its own last commit
//! (`group_commits`) and with the groups that are tied to it (`fitting_checkpoint`). Before the
//! first checkpoint the job can only begin anew (`checkpointed`). `failures` judges failures and
//! ends jobs, `other_hosts` plans without a lost host. Ranks come back by `returns`.

mod checkpointed;
mod failures;
mod fitting_checkpoint;
mod group_commits;
mod lost_hosts;
mod other_hosts;
mod phases;
mod planner;
mod response;

pub(super) use failures::FailureHandler;
pub(super) use group_commits::GroupCommitHandler;
pub(super) use lost_hosts::LostHosts;
pub(super) use other_hosts::HostLossHandler;
pub(super) use phases::GlobalRestore;
pub(super) use planner::RecoveryPlanner;
