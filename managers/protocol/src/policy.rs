//! Which failures are masked, and when to stop: the restart policy.
//!
//! Ends, not failures, are an exit by the program itself (any code), `MPI_Abort`, and a broken rule
//! of the manager's socket. A death by signal is a failure. A fault of the program itself (such as
//! SIGSEGV) is a failure too. But a second fault of the same kind, of the same rank from the same
//! checkpoint, is an end: another rollback would only repeat it. Central itself knows the signals
//! that the user has sent to mpirun; a death by one of them is no failure.
//!
//! A rank that returns because it depends on lost messages has not failed: the limit of recoveries
//! does not count it. Each has its own bound, until the next failure.

use crate::manager_messages::{Cause, End, Stage, Time};
use rejoin_channel_table::{Epoch, Rank};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// How many recoveries a job may have in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecoveryLimit {
    /// Recoveries at most …
    pub restarts: u32,
    /// … within so many milliseconds.
    pub within: u64,
}

impl Default for RecoveryLimit {
    fn default() -> Self {
        RecoveryLimit {
            restarts: 20,
            within: 600_000,
        }
    }
}

/// Why a failure is not masked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The program, or a rule that it broke, ended it.
    Meant,
    /// The same fault came twice from the same checkpoint.
    Repeated,
    /// Too many recoveries in the time that the limit names.
    TooMany(RecoveryLimit),
    /// A rank has returned too often because of one failure, each time as it depended on something
    /// lost.
    TooManyReturns(Rank),
    /// There is no checkpoint for a rollback.
    NoCheckpoint,
    /// A rank has state that a rollback does not take back, so the answer could be wrong.
    Outlived {
        /// The rank.
        rank: Rank,
        /// The rank's report of that state.
        what: String,
    },
    /// A rank could not be restored: its image is gone, too, or makes no process.
    NotRestored {
        /// The rank that was not restored.
        rank: Rank,
        /// Name of its host.
        host: String,
        /// The report of its host.
        why: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Meant => write!(f, "this is an end, not a failure"),
            Refusal::Repeated => write!(
                f,
                "the same fault came again after a rollback to the same checkpoint"
            ),
            Refusal::TooMany(limit) => write!(
                f,
                "the limit of {} recoveries in {} s is reached (--max-restarts)",
                limit.restarts,
                limit.within / 1000
            ),
            Refusal::TooManyReturns(rank) => write!(
                f,
                "rank {} has returned {ORPHAN_RETURNS} times since the last failure",
                rank.0
            ),
            Refusal::NoCheckpoint => write!(f, "there is no checkpoint for a rollback"),
            Refusal::Outlived { rank, what } => write!(
                f,
                "a rollback could give a wrong answer, because it does not take back what was written \
                 since: rank {}: {what}. --accept-external-state rolls back all the same",
                rank.0
            ),
            Refusal::NotRestored { rank, host, why } => {
                write!(f, "rank {} on host {host} can't be restored: {why}", rank.0)
            }
        }
    }
}

/// A fault that the program itself made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Fault {
    rank: Rank,
    signal: i32,
    from: Option<Epoch>,
}

/// Failures masked so far.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct History {
    limit: RecoveryLimit,
    recent: VecDeque<Time>,
    faults: Vec<Fault>,
    total: u64,
    /// How often each rank has returned as an orphan since the last failure.
    orphans: BTreeMap<Rank, u32>,
}

impl Default for History {
    fn default() -> Self {
        History::new(RecoveryLimit::default())
    }
}

impl History {
    /// Nothing has failed yet.
    #[must_use]
    pub fn new(limit: RecoveryLimit) -> Self {
        History {
            limit,
            recent: VecDeque::new(),
            faults: Vec::new(),
            total: 0,
            orphans: BTreeMap::new(),
        }
    }

    /// Recoveries begun so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether a failure is to be masked; `from` is the checkpoint that the job would roll back to,
    /// `None` the start.
    ///
    /// # Errors
    /// Why not.
    pub fn judge(
        &mut self,
        now: Time,
        rank: Rank,
        cause: &Cause,
        from: Option<Epoch>,
    ) -> Result<(), Refusal> {
        if matches!(cause, Cause::Orphaned { .. }) {
            return self.admit_orphan(rank);
        }
        let signal = failure_signal(cause).ok_or(Refusal::Meant)?;
        self.note(rank, signal, from)?;
        self.admit(now)
    }

    /// Looks at the cause of a failure that is being masked already, before it was known.
    ///
    /// # Errors
    /// Why it should not be.
    pub fn confirm(
        &mut self,
        rank: Rank,
        cause: &Cause,
        from: Option<Epoch>,
    ) -> Result<(), Refusal> {
        match *cause {
            Cause::Ended {
                end: End::Signaled(signal),
                ..
            } => self.note(rank, signal, from),
            Cause::Ended {
                end: End::Unknown, ..
            }
            | Cause::Orphaned { .. } => Ok(()),
            _ => Err(Refusal::Meant),
        }
    }

    /// Remembers a fault of the program's own; the same one again is refused.
    fn note(&mut self, rank: Rank, signal: i32, from: Option<Epoch>) -> Result<(), Refusal> {
        if !OWN_FAULTS.contains(&signal) {
            return Ok(());
        }
        let fault = Fault { rank, signal, from };
        if self.faults.contains(&fault) {
            return Err(Refusal::Repeated);
        }
        // Only faults from the present checkpoint can come again.
        self.faults.retain(|known| known.from == from);
        self.faults.push(fault);
        Ok(())
    }

    /// Counts a recovery, if the limit allows it.
    ///
    /// # Errors
    /// [`Refusal::TooMany`].
    pub fn admit(&mut self, now: Time) -> Result<(), Refusal> {
        let within = self.limit.within;
        self.recent.retain(|at| at.plus_millis(within) > now);
        if self.recent.len() >= self.limit.restarts as usize {
            return Err(Refusal::TooMany(self.limit));
        }
        self.recent.push_back(now);
        self.total += 1;
        self.orphans.clear();
        Ok(())
    }

    /// Counts the return of an orphan, if it has not returned all too often.
    fn admit_orphan(&mut self, rank: Rank) -> Result<(), Refusal> {
        let returns = self.orphans.entry(rank).or_default();
        if *returns >= ORPHAN_RETURNS {
            return Err(Refusal::TooManyReturns(rank));
        }
        *returns += 1;
        Ok(())
    }
}

/// The signal that killed a process that uses MPI; 0 where only its parent knows.
fn failure_signal(cause: &Cause) -> Option<i32> {
    match *cause {
        Cause::Ended {
            end: End::Signaled(signal),
            stage,
        } if stage != Stage::Spawned => Some(signal),
        Cause::Ended {
            end: End::Unknown,
            stage,
        } if stage != Stage::Spawned => Some(0),
        Cause::Orphaned { .. } => Some(0),
        _ => None,
    }
}

/// The cause is a failure, and no end that the program meant.
#[must_use]
pub fn is_failure(cause: &Cause) -> bool {
    failure_signal(cause).is_some()
}

/// A process was killed before it had called `MPI_Init`, and not by a fault of its own, which would
/// come again.
#[must_use]
pub fn is_killed_before_init(cause: &Cause) -> bool {
    matches!(
        cause,
        Cause::Ended {
            end: End::Signaled(signal),
            stage: Stage::Spawned,
        } if !OWN_FAULTS.contains(signal)
    )
}

/// How often a rank may return as an orphan because of one failure. Each time, other ranks that it
/// had heard of must have returned meanwhile, so a sound job comes to an end long before.
const ORPHAN_RETURNS: u32 = 100;

/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS: Linux numbers, as on x86-64 and Arm.
const OWN_FAULTS: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: RecoveryLimit = RecoveryLimit {
        restarts: 2,
        within: 1000,
    };

    fn killed(signal: i32) -> Cause {
        Cause::Ended {
            end: End::Signaled(signal),
            stage: Stage::Registered,
        }
    }

    fn at(millis: u64) -> Time {
        Time(0).plus_millis(millis)
    }

    #[test]
    fn what_the_program_meant_is_no_failure() {
        let mut history = History::new(LIMIT);
        let meant = [
            Cause::Ended {
                end: End::Exited(3),
                stage: Stage::Registered,
            },
            Cause::Aborted {
                code: 1,
                why: String::new(),
            },
            // A program that is no MPI program, or not yet one.
            Cause::Ended {
                end: End::Signaled(9),
                stage: Stage::Spawned,
            },
        ];
        for cause in meant {
            let judged = history.judge(at(0), Rank(0), &cause, Some(Epoch(1)));
            assert_eq!(judged, Err(Refusal::Meant));
        }
        assert_eq!(history.total(), 0);
    }

    #[test]
    fn recoveries_are_limited_within_a_time_only() {
        let mut history = History::new(LIMIT);
        let mut kill = |millis| history.judge(at(millis), Rank(1), &killed(9), Some(Epoch(1)));
        assert_eq!(kill(0), Ok(()));
        assert_eq!(kill(600), Ok(()));
        assert_eq!(kill(900), Err(Refusal::TooMany(LIMIT)));
        assert_eq!(kill(1001), Ok(()));
        assert_eq!(kill(1500), Err(Refusal::TooMany(LIMIT)));
    }

    #[test]
    fn orphans_do_not_count_as_failures_and_have_a_bound_of_their_own() {
        let mut history = History::new(LIMIT);
        let orphan = Cause::Orphaned { on: Rank(0) };
        let mut judge = |rank, cause: &Cause| history.judge(at(0), Rank(rank), cause, None);
        assert_eq!(judge(0, &killed(9)), Ok(()));
        for _ in 0..ORPHAN_RETURNS {
            assert_eq!(judge(1, &orphan), Ok(()));
        }
        let refused = Err(Refusal::TooManyReturns(Rank(1)));
        assert_eq!(judge(1, &orphan), refused);
        assert_eq!(judge(2, &orphan), Ok(()));
        // Another failure makes other orphans.
        assert_eq!(judge(0, &killed(9)), Ok(()));
        assert_eq!(judge(1, &orphan), Ok(()));
        assert_eq!(judge(0, &killed(9)), Err(Refusal::TooMany(LIMIT)));
        assert_eq!(history.total(), 2);
    }

    #[test]
    fn the_same_fault_from_the_same_checkpoint_twice_is_an_end() {
        let mut history = History::new(RecoveryLimit {
            restarts: 100,
            within: 1000,
        });
        let mut fault = |rank, signal, epoch| {
            history.judge(at(0), Rank(rank), &killed(signal), Some(Epoch(epoch)))
        };
        assert_eq!(fault(0, 11, 1), Ok(()));
        assert_eq!(fault(1, 11, 1), Ok(()));
        assert_eq!(fault(0, 7, 1), Ok(()));
        assert_eq!(fault(0, 9, 1), Ok(()));
        assert_eq!(fault(0, 9, 1), Ok(()));
        assert_eq!(fault(0, 11, 2), Ok(()));
        assert_eq!(fault(0, 11, 2), Err(Refusal::Repeated));
    }
}
