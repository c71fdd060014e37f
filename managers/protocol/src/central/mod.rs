//! The central manager's core: the job as a whole.
//!
//! It gathers the ranks' cards and lets them start together. It requests checkpoints, and rolls the
//! job back to the last one when a rank fails. It lets the ranks leave `MPI_Finalize` together, and
//! gives exactly one [`Verdict`](crate::verdict::Verdict).
//!
//! [`CentralEffect::Persist`] names the records that a restarted central manager needs. The driver
//! must store the record before it carries out any later effect. Drivers without a store ignore it;
//! their job ends with its central manager. [`Central::resume`] continues a job.
//!
//! The state is in parts: `job_course` (how far the job has come), `cluster` (which rank is where),
//! `commits` (checkpoints), `return_state` (losses, and orders that wait), `moves`, and
//! `job_terms`, which do not change. `job_state` composes them. `central_step` passes each event to
//! its handler, a struct of references to the parts that it may touch (`job_parts`):
//! `registration`, `checkpoints` and `file_commits`, `region_checkpoints`, `moves`, `added_hosts`,
//! `recovery` (what is decided), `returns` (the one way back), `stopping`, `ending`, `resume` and
//! `watch_steps`.

mod added_hosts;
mod central_omission;
mod central_step;
mod checkpoint_handler;
mod checkpoints;
mod cluster;
mod commits;
mod copy_groups;
mod ending;
mod event;
mod failure;
mod file_commits;
mod group_schedule;
mod group_turns;
mod host_condition;
mod host_table;
mod host_views;
mod hosts_request;
mod interface;
mod job_clock;
mod job_course;
mod job_end;
mod job_parts;
mod job_state;
mod job_terms;
mod log_table;
mod losses;
mod moves;
mod out;
mod phase;
pub mod placement;
mod rank_table;
mod recovery;
mod recovery_groups;
mod region_checkpoints;
mod registration;
mod resume;
mod return_state;
mod returns;
mod stop_request;
mod stopping;
mod view;
mod watch_steps;

#[cfg(feature = "omissions")]
pub use central_omission::CentralOmission;
pub use copy_groups::{CopyGroups, Stripe};
pub use event::Event;
pub use host_condition::{HostCondition, HostView};
pub use hosts_request::{AddedHost, HostsRequest};
pub use interface::{
    CentralEffect, CentralInput, Failover, FailureHistory, HostIndex, Job, Leases, RankPlacement,
    Record, Recovery, Return, ReturnScope, StoredState,
};
pub use job_end::END_BOUND;
pub use job_state::Central;
pub use log_table::LogView;
pub use losses::Losses;
pub use moves::{FormerHosts, MovePhase, MoveRequest, MoveView, Movers, RankMove, RequestPlan};
pub use rank_table::RankView;
pub use resume::REPORT_BOUND;
pub use stop_request::{SAME_SIGNAL, StopRequest, StopSignal};
pub use view::{Course, ImageProgress, ImageWork, JobView};
