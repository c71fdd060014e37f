//! Sends that wait for a report of the peer about their message: matched, clear to send, finished,
//! or cancelled.

use std::collections::VecDeque;

use rejoin_channel_table::ids::Ssn;

/// The messages with their requests, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OpenSends(VecDeque<(Ssn, u32)>);

impl OpenSends {
    fn position(&self, ssn: Ssn) -> Result<usize, usize> {
        self.0.binary_search_by_key(&ssn, |(s, _)| *s)
    }

    /// Whether no send waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The request of a message.
    pub(crate) fn find(&self, ssn: Ssn) -> Option<u32> {
        self.position(ssn).ok().map(|at| self.0[at].1)
    }

    /// All messages with their requests.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ssn, u32)> {
        self.0.iter().copied()
    }

    /// A send waits for a report, unless it does so already.
    pub(crate) fn insert(&mut self, ssn: Ssn, request: u32) {
        if let Err(at) = self.position(ssn) {
            self.0.insert(at, (ssn, request));
        }
    }

    /// No report about the message can come any more.
    pub(crate) fn remove(&mut self, ssn: Ssn) {
        if let Ok(at) = self.position(ssn) {
            self.0.remove(at);
        }
    }
}

/// Requests to cancel a send, by number and message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CancelRequests {
    unanswered: Vec<(u64, Ssn)>,
    /// The highest number so far.
    last: u64,
}

impl CancelRequests {
    /// Numbers a new request.
    pub(crate) fn add(&mut self, ssn: Ssn) -> u64 {
        self.last += 1;
        self.unanswered.push((self.last, ssn));
        self.last
    }

    /// Whether a request had this number.
    pub(crate) fn was_made(&self, number: u64) -> bool {
        number <= self.last
    }

    /// Whether a request has no answer yet.
    pub(crate) fn is_unanswered(&self, number: u64, ssn: Ssn) -> bool {
        self.unanswered.contains(&(number, ssn))
    }

    /// The lowest number without an answer.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.unanswered.iter().map(|(number, _)| *number).min()
    }

    /// The requests without an answer.
    pub(crate) fn unanswered(&self) -> Vec<(u64, Ssn)> {
        self.unanswered.clone()
    }

    /// The answer to a request has come.
    pub(crate) fn answered(&mut self, number: u64, ssn: Ssn) {
        self.unanswered.retain(|other| *other != (number, ssn));
    }
}
