//! When the job began, and when its time limit is reached.

use crate::manager_messages::Time;

/// When the job began, and its time limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct JobClock {
    /// In milliseconds.
    limit: Option<u64>,
    /// Milliseconds of the limit that were over before this launch.
    spent: u64,
    began: Time,
    limit_at: Option<Time>,
}

impl JobClock {
    /// Of a job that has not begun, with its limit and what earlier launches have used of it, in
    /// milliseconds.
    pub fn new(limit: Option<u64>, spent: u64) -> JobClock {
        JobClock {
            limit,
            spent,
            began: Time::default(),
            limit_at: None,
        }
    }

    /// The job's processes are first started now.
    pub fn begin(&mut self, now: Time) {
        self.began = now;
        let left = self.limit.map(|limit| limit.saturating_sub(self.spent));
        self.limit_at = left.map(|left| now.plus_millis(left));
    }

    /// When the job's processes were first started.
    pub fn began(&self) -> Time {
        self.began
    }

    /// When the limit is reached.
    pub fn limit_at(&self) -> Option<Time> {
        self.limit_at
    }

    /// The limit in milliseconds, once it is reached.
    pub fn exceeded(&self, now: Time) -> Option<u64> {
        self.limit
            .filter(|_| self.limit_at.is_some_and(|at| at <= now))
    }
}
