//! What a peer has of this rank's messages, as its resume says.
//!
//! Between recovery groups, a rank that has come back from the past sends messages that its peers
//! have had already. It numbers and logs them, and does not write them.

use rejoin_channel_table::ids::Ssn;
use rejoin_channel_table::resume::Resume;

/// What the peer lacks of a message whose envelope it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Nothing that this rank could send.
    Nothing,
    /// The body of an eager message.
    EagerBody,
    /// The body of a rendezvous message, which has matched.
    ClearedBody,
    /// The body of a rendezvous message that has not matched: a clear to send will follow.
    Match,
}

/// The state of the messages below [`PeerView::next`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PeerView {
    /// The peer has all envelopes below.
    pub next: Ssn,
    /// The lists of a [`Resume`], ascending.
    pub cut: Vec<Ssn>,
    pub clear: Vec<Ssn>,
    pub pending: Vec<Ssn>,
    pub unmatched: Vec<Ssn>,
}

impl PeerView {
    /// The view that a resume describes.
    pub(crate) fn of(resume: &Resume) -> Self {
        PeerView {
            next: resume.next_envelope,
            cut: resume.incomplete_eager.clone(),
            clear: resume.clear.clone(),
            pending: resume.pending_rts.clone(),
            unmatched: resume.unmatched_sync.clone(),
        }
    }

    /// What the peer lacks of a message.
    pub(crate) fn lack(&self, ssn: Ssn) -> Lack {
        let known = |list: &[Ssn]| list.binary_search(&ssn).is_ok();
        if known(&self.cut) {
            Lack::EagerBody
        } else if known(&self.clear) {
            Lack::ClearedBody
        } else if known(&self.pending) {
            Lack::Match
        } else {
            Lack::Nothing
        }
    }

    /// Whether a synchronous eager message has not matched.
    pub(crate) fn is_unmatched(&self, ssn: Ssn) -> bool {
        self.unmatched.binary_search(&ssn).is_ok()
    }

    /// A rendezvous message has matched.
    pub(crate) fn cleared(&mut self, ssn: Ssn) {
        if let Ok(at) = self.pending.binary_search(&ssn) {
            self.pending.remove(at);
            let place = self.clear.partition_point(|other| *other < ssn);
            self.clear.insert(place, ssn);
        }
    }

    /// The peer has the body of a rendezvous message.
    pub(crate) fn finished(&mut self, ssn: Ssn) {
        for list in [&mut self.pending, &mut self.clear] {
            if let Ok(at) = list.binary_search(&ssn) {
                list.remove(at);
            }
        }
    }

    /// A synchronous message has matched.
    pub(crate) fn matched(&mut self, ssn: Ssn) {
        if let Ok(at) = self.unmatched.binary_search(&ssn) {
            self.unmatched.remove(at);
        }
    }
}
