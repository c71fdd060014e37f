//! The messages whose bodies are still to be copied into the log.

use std::collections::VecDeque;

use rejoin_channel_table::ids::{Rank, Ssn};

use crate::pool::Buf;

/// Bodies that are listed for a copy before it is due.
const MOST_EARLY: usize = 1024;

/// A message: its receiver, and its number.
pub(crate) type LoggedMessage = (Rank, Ssn);

/// Messages whose bodies the device copies into the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LogQueue {
    pub due: VecDeque<LoggedMessage>,
    /// Bodies that their receivers may not have yet.
    pub early: VecDeque<LoggedMessage>,
    pub partial: Vec<PartialCopy>,
}

/// A body of which a part is copied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PartialCopy {
    pub of: LoggedMessage,
    pub buf: Buf,
    /// Bytes of the body that are copied already.
    pub done: usize,
}

impl LogQueue {
    /// The send of this message waits for nothing but the copy.
    pub(crate) fn push_due(&mut self, peer: Rank, ssn: Ssn) {
        self.due.push_back((peer, ssn));
    }

    /// The peer gets the body of this message by and by. A rank that always has something else to
    /// do lists no more than these.
    pub(crate) fn push_early(&mut self, peer: Rank, ssn: Ssn) {
        if self.early.len() < MOST_EARLY {
            self.early.push_back((peer, ssn));
        }
    }

    pub(crate) fn take_partial(&mut self, of: LoggedMessage) -> Option<PartialCopy> {
        let at = self.partial.iter().position(|one| one.of == of)?;
        Some(self.partial.swap_remove(at))
    }
}
