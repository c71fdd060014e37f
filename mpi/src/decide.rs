//! The one hook that every nondeterministic answer passes.
//!
//! The answer of an MPI call may depend on timing: the message that a wildcard matched, the result
//! of a test, the first of several requests. Message logging must record and repeat these answers.
//! So each of them goes through [`Decider::answer`], which numbers it. Today the hook returns the
//! raw answer.
//!
//! The order is always: **find a candidate, ask, then take.** No message is consumed before the
//! answer is known, so a replay may answer "not yet" for a message that has arrived. The steps
//! after an answer follow the answer and wait for its message, so a replay may answer "yes" for a
//! message that has not arrived yet. Receives with a wildcard ask when they are posted
//! ([`Decider::post`]). A replay narrows the pattern to the recorded source and tag, and the engine
//! then matches as before.
//!
//! A replay still needs two parts. `answer` and `post` must return the record by kind and number.
//! The blocking any- and some-calls must ask *before* the wait, because they first wait for a
//! candidate. The recorded one may be another, for which they then wait too: that is correct, but
//! later than necessary.

use crate::adi::Pattern;
use std::cell::Cell;

/// The kinds of answers that depend on timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AnswerKind {
    /// Which message a receive with a wildcard was matched with: asked when it is posted, reported
    /// at its end.
    WildcardMatch,
    /// `MPI_Probe`, `MPI_Mprobe`: which message.
    Probe,
    /// `MPI_Iprobe`, `MPI_Improbe`: whether, and which.
    Iprobe,
    /// `MPI_Test`, `MPI_Testall`, `MPI_Request_get_status`: whether.
    Test,
    /// `MPI_Waitany`, `MPI_Testany`: which request.
    Any,
    /// `MPI_Waitsome`, `MPI_Testsome`: whether, of each active request in order.
    Some,
    /// `MPI_Cancel`: whether the operation was cancelled; reported when it is complete.
    Cancel,
}

/// How many kinds there are.
pub const KINDS: usize = 7;

/// Names a receive with a wildcard: they are numbered as they are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wild(u64);

/// Numbers the answers of this process and, in logging modes, records or replays them.
#[derive(Debug, Default)]
pub struct Decider {
    total: Cell<u64>,
    by_kind: [Cell<u64>; KINDS],
    posted: Cell<u64>,
    /// How many of the next questions are answered with no, as a replay would.
    #[cfg(test)]
    pub(crate) refuse: Cell<u32>,
}

impl Decider {
    /// Passes the answer `raw` of kind `kind`. Returns the answer for the program.
    #[inline]
    pub fn answer<T>(&self, kind: AnswerKind, raw: T) -> T {
        self.total.set(self.total.get() + 1);
        let slot = &self.by_kind[kind as usize];
        slot.set(slot.get() + 1);
        raw
    }

    /// Passes a yes or no. After a yes the caller waits for the message in question if it has not
    /// arrived.
    #[inline]
    pub fn whether(&self, kind: AnswerKind, raw: bool) -> bool {
        #[cfg(test)]
        if let Some(left) = self.refuse.get().checked_sub(1) {
            self.refuse.set(left);
            return self.answer(kind, false);
        }
        self.answer(kind, raw)
    }

    /// Before a receive is posted: the pattern to post, and its number if it has a wildcard.
    #[inline]
    pub fn post(&self, pattern: Pattern) -> (Pattern, Option<Wild>) {
        if pattern.source.is_some() && pattern.tag.is_some() {
            return (pattern, None);
        }
        let number = self.posted.get();
        self.posted.set(number + 1);
        (pattern, Some(Wild(number)))
    }

    /// The receive `wild` was matched with a message from `source` with `tag`.
    pub fn matched(&self, wild: Wild, source: i32, tag: i32) {
        self.answer(AnswerKind::WildcardMatch, (wild, source, tag));
    }

    /// Number of answers so far.
    pub fn total(&self) -> u64 {
        self.total.get()
    }

    /// Number of answers of one kind so far.
    pub fn count(&self, kind: AnswerKind) -> u64 {
        self.by_kind[kind as usize].get()
    }
}
