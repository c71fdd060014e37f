//! The waits of a rollback for a process: it is to stop, or to register again. A rollback may also
//! have to wait for one whose rank is on another host. A process that hangs in the kernel does
//! neither. The user is told, and after a bound the rank does not come back.

use crate::manager_messages::Time;

/// Milliseconds that a rollback waits for a process before the user is told.
pub const FIRST_NOTE: u64 = 10_000;

/// Milliseconds from one such note to the next.
pub const NEXT_NOTE: u64 = 30_000;

/// Milliseconds that a rollback waits for a process at most.
pub const RECOVERY_BOUND: u64 = 120_000;

/// What a rollback awaits of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Awaited {
    /// The process stops, and makes room for its successor.
    Stop,
    /// The process stops, because its rank is on another host.
    Departure,
    /// The process comes from an image, and calls its manager.
    Registration,
}

impl Awaited {
    /// What the process has not done.
    pub fn missing(self) -> &'static str {
        match self {
            Awaited::Stop => "has not stopped, and its successor must wait for that",
            Awaited::Departure => "has not stopped, and the rank is on another host",
            Awaited::Registration => "comes from an image and has not called its manager",
        }
    }
}

/// What is due for a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitDuty {
    /// Tell the user how many seconds it has lasted.
    Note(u64),
    /// The wait has lasted so many seconds, and ends.
    End(u64),
}

/// A wait of a rollback for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RecoveryWait {
    since: Time,
    next: Time,
}

impl RecoveryWait {
    /// A wait that begins now.
    pub fn new(now: Time) -> RecoveryWait {
        RecoveryWait {
            since: now,
            next: now.plus_millis(FIRST_NOTE),
        }
    }

    /// When [`RecoveryWait::due`] has something.
    pub fn deadline(&self) -> Time {
        self.next
    }

    /// What is due now. A wait that has ended is reported again and again: the report may not have
    /// reached a central manager that lives.
    pub fn due(&mut self, now: Time) -> Option<WaitDuty> {
        if self.next > now {
            return None;
        }
        let bound = self.since.plus_millis(RECOVERY_BOUND);
        let seconds = now.0.saturating_sub(self.since.0) / 1_000_000_000;
        let next = now.plus_millis(NEXT_NOTE);
        if bound <= now {
            self.next = next;
            return Some(WaitDuty::End(seconds));
        }
        self.next = next.min(bound);
        Some(WaitDuty::Note(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_at_intervals_until_its_bound() {
        let mut wait = RecoveryWait::new(Time(0));
        let mut told = Vec::new();
        while told.len() < 6 {
            let at = wait.deadline();
            assert_eq!(wait.due(Time(at.0 - 1)), None);
            told.extend(wait.due(at));
        }
        let notes = [10, 40, 70, 100].map(WaitDuty::Note);
        assert_eq!(told[..4], notes);
        assert_eq!(told[4..], [120, 150].map(WaitDuty::End));
    }
}
