//! How far the job has come, and what ends it.

use super::job_clock::JobClock;
use super::job_end::JobEnd;
use super::moves::MoveTable;
use super::phase::CentralPhase;
use super::stop_request::StopRequest;
use crate::manager_messages::Time;

/// The job's phase, its time, and its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct JobCourse {
    pub phase: CentralPhase,
    pub clock: JobClock,
    pub end: JobEnd,
    /// The job is to stop with a last checkpoint.
    pub stop: Option<StopRequest>,
}

impl JobCourse {
    /// Of a job that has not begun.
    pub fn new(clock: JobClock) -> JobCourse {
        JobCourse {
            phase: CentralPhase::Starting,
            clock,
            end: JobEnd::default(),
            stop: None,
        }
    }

    /// Whether files of images count now.
    pub fn counts_files(&self) -> bool {
        matches!(
            self.phase,
            CentralPhase::Running | CentralPhase::Restoring(_) | CentralPhase::Finalizing
        )
    }

    /// Whether files can be begun: the job runs, no rank is about to leave the host on which its
    /// file would be written, and none has a deadline for that.
    pub fn begins_files(&self, moves: &MoveTable) -> bool {
        let leaves = moves.is_any_leaving() || moves.is_any_urgent();
        self.phase == CentralPhase::Running && !leaves
    }

    /// When the stop is given up, in phases that can do so.
    pub fn stop_due(&self) -> Option<Time> {
        self.stop.and_then(|stop| stop.due())
    }
}
