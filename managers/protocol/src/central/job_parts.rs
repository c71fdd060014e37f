//! The parts of the job's state, and the keys that each handler gets to them.
//!
//! A handler is a struct of references: its fields are all that it may read or change. Handlers
//! stand above each other, and none calls one above it: `EndHandler`, `TurnHandler` and
//! `GroupCommitHandler`; then `CheckpointHandler`, `RegionHandler` and `OrderHandler`; then
//! `MoveHandler`; then `ReturnHandler` and `RegistrationHandler`; then `FailureHandler`; then
//! `HostLossHandler` and `StopHandler`; then `ResumeHandler`. From `ReturnHandler` on all have all
//! parts. `AddedHostsHandler` and `WatchHandler` call none. `MoveRules` only looks.

use super::cluster::Cluster;
use super::commits::Commits;
use super::job_course::JobCourse;
use super::job_terms::JobTerms;
use super::moves::MoveTable;
use super::out::Out;
use super::return_state::ReturnState;
use crate::handler_keys::parts;

parts! {
    /// All parts, for one step.
    pub(super) JobParts<'a> {
        changes {
            course: JobCourse,
            cluster: Cluster,
            commits: Commits,
            returns: ReturnState,
            moves: MoveTable,
            out: Out,
        }
        reads { terms: JobTerms, }
    }
}

impl JobParts<'_> {
    /// The same parts, for another handler.
    pub fn all(&mut self) -> JobParts<'_> {
        JobParts {
            terms: self.terms,
            course: self.course,
            cluster: self.cluster,
            commits: self.commits,
            returns: self.returns,
            moves: self.moves,
            out: self.out,
        }
    }
}
