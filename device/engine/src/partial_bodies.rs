//! Bodies whose envelopes were received, and that come, or come again, as data frames.

use std::collections::VecDeque;

use rejoin_channel_table::ids::Ssn;

/// Where a body goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Request(u32),
    Message(u32),
    Nowhere,
}

/// An incomplete body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Partial {
    pub ssn: Ssn,
    pub eager: bool,
    pub want_ack: bool,
    /// Came on a grant beyond the window.
    pub granted: bool,
    /// The sender waits for the match.
    pub sync: bool,
    pub target: Target,
    pub received: u64,
    pub len: u64,
}

/// The incomplete bodies of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PartialBodies {
    /// Ascending.
    list: VecDeque<Partial>,
    /// Eager ones among them.
    eager: usize,
}

impl PartialBodies {
    fn position(&self, ssn: Ssn) -> Option<usize> {
        self.list.binary_search_by_key(&ssn, |p| p.ssn).ok()
    }

    /// Whether any of them is eager.
    #[inline(always)]
    pub(crate) fn any_eager(&self) -> bool {
        self.eager > 0
    }

    /// The message of the first eager one.
    pub(crate) fn first_eager(&self) -> Option<Ssn> {
        if !self.any_eager() {
            return None;
        }
        let first = self.list.iter().find(|partial| partial.eager);
        first.map(|first| first.ssn)
    }

    /// The body of a message.
    pub(crate) fn get(&self, ssn: Ssn) -> Option<&Partial> {
        self.list.get(self.position(ssn)?)
    }

    /// The bodies in the order of their messages.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Partial> {
        self.list.iter()
    }

    /// Expects a body.
    pub(crate) fn insert(&mut self, partial: Partial) {
        let at = self.list.partition_point(|p| p.ssn < partial.ssn);
        self.eager += usize::from(partial.eager);
        self.list.insert(at, partial);
    }

    /// `count` bytes have come; the body, if it is complete.
    pub(crate) fn receive(&mut self, ssn: Ssn, count: usize) -> Option<Partial> {
        let at = self.position(ssn)?;
        let partial = &mut self.list[at];
        partial.received += count as u64;
        if partial.received < partial.len {
            return None;
        }
        self.remove(ssn)
    }

    /// Takes a body out.
    pub(crate) fn remove(&mut self, ssn: Ssn) -> Option<Partial> {
        let partial = self.list.remove(self.position(ssn)?)?;
        self.eager -= usize::from(partial.eager);
        Some(partial)
    }

    /// The link is lost: all of them come again from their start.
    pub(crate) fn restart(&mut self) {
        for partial in &mut self.list {
            partial.received = 0;
        }
    }
}
