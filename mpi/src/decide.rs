//! The one hook that every nondeterministic answer passes.
//!
//! What an MPI call answers may depend on timing: which message a wildcard met, whether a test
//! was true, which request of several came first. Message logging has to know and to repeat
//! these answers (DESIGN.md section 9), so each of them goes through [`Decider::answer`], which
//! numbers it. Today the answer given is the raw one.

use std::cell::Cell;

/// The kinds of answers that depend on timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Which message a receive with a wildcard met (told after the fact).
    WildcardMatch,
    /// `MPI_Probe`, `MPI_Mprobe`: which message.
    Probe,
    /// `MPI_Iprobe`, `MPI_Improbe`: whether, and which.
    Iprobe,
    /// `MPI_Test`, `MPI_Testall`, `MPI_Request_get_status`: whether.
    Test,
    /// `MPI_Waitany`, `MPI_Testany`: which request.
    Any,
    /// `MPI_Waitsome`, `MPI_Testsome`: which requests.
    Some,
    /// `MPI_Cancel`: whether the operation was cancelled.
    Cancel,
}

/// How many kinds there are.
pub const KINDS: usize = 7;

/// Numbers the answers of this process and, in logging modes, records or replays them.
#[derive(Debug, Default)]
pub struct Decider {
    total: Cell<u64>,
    by_kind: [Cell<u64>; KINDS],
}

impl Decider {
    /// Passes the answer `raw` of kind `kind`; what comes back is what the program is told.
    #[inline]
    pub fn answer<T>(&self, kind: Kind, raw: T) -> T {
        self.total.set(self.total.get() + 1);
        let slot = &self.by_kind[kind as usize];
        slot.set(slot.get() + 1);
        raw
    }

    /// Number of answers so far.
    pub fn total(&self) -> u64 {
        self.total.get()
    }

    /// Number of answers of one kind so far.
    pub fn count(&self, kind: Kind) -> u64 {
        self.by_kind[kind as usize].get()
    }
}
