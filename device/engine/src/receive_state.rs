//! What an engine knows of the receive log of its rank.

use std::collections::VecDeque;

use rejoin_channel_table::ids::{Rank, Ssn};

use crate::groups::logged_runs::LoggedRuns;
use crate::types::{Envelope, Segment};

/// A whole message that is to be logged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DueReceive {
    pub peer: Rank,
    pub ssn: Ssn,
    pub envelope: Envelope,
    pub sync: bool,
    /// What the peer's messages depend on at this moment.
    pub interval: u64,
    pub place: WholeBody,
    /// The sender hears that the message is finished when it is logged.
    pub finishes: bool,
}

/// The place of a whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WholeBody {
    /// The buffer of its receive.
    Memory(Segment),
    /// The unexpected message with this id.
    Message(u64),
}

/// Messages that are to be logged, if there is a receive log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ReceivedQueue {
    is_used: bool,
    due: VecDeque<DueReceive>,
}

impl ReceivedQueue {
    /// There is a receive log.
    pub(crate) fn begin(&mut self) {
        self.is_used = true;
    }

    #[inline(always)]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    pub(crate) fn push(&mut self, due: DueReceive) {
        self.due.push_back(due);
    }

    pub(crate) fn pop(&mut self) -> Option<DueReceive> {
        self.due.pop_front()
    }
}

/// What the receive log has of one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ReceiveLogged {
    runs: LoggedRuns,
    /// The message below which the peer was told last that it need retain none.
    told: Ssn,
    /// Bytes that were logged since.
    untold: u64,
}

impl ReceiveLogged {
    /// The log has this message, which takes so many bytes. Whether more than `most` bytes were
    /// logged since the last time that this was so, or the peer was told.
    pub(crate) fn add(&mut self, ssn: Ssn, bytes: u64, most: u64) -> bool {
        self.runs.add(ssn);
        self.untold += bytes;
        let is_much = self.untold > most;
        if is_much {
            self.untold = 0;
        }
        is_much
    }

    /// The first message that the log does not have, from this one on.
    pub(crate) fn end_from(&self, ssn: Ssn) -> Ssn {
        self.runs.end_from(ssn)
    }

    /// A committed image has all messages below this one.
    pub(crate) fn forget_below(&mut self, ssn: Ssn) {
        self.runs.forget_below(ssn);
    }

    /// What the peer was told last.
    pub(crate) fn told(&self) -> Ssn {
        self.told
    }

    /// The peer is told that it need retain no message below this one.
    pub(crate) fn tell(&mut self, below: Ssn) {
        (self.told, self.untold) = (below, 0);
    }
}
