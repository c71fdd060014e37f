//! Requests of the application, and messages that no receive waited for.

use rejoin_channel_table::ids::{Rank, Ssn};

use crate::bins::{BinLink, CLASSES};
use crate::pool::Buf;
use crate::types::{Completion, Envelope, Pattern, Segment};

/// A request of the application.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EngineRequest {
    Recv(Recv),
    Send(Send),
}

/// How far a receive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RecvState {
    Posted,
    /// Matched; the body is on its way.
    Bound,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recv {
    pub pattern: Pattern,
    pub seg: Segment,
    pub link: BinLink,
    pub order: u64,
    /// Number of the receive, if it has or had a wildcard, and such receives are numbered.
    pub wild: Option<u64>,
    pub state: RecvState,
    /// Valid from `Bound` on.
    pub completion: Completion,
    /// The request was freed: no caller will poll it.
    pub freed: bool,
}

impl Recv {
    pub(crate) fn new(pattern: Pattern, seg: Segment) -> Self {
        Recv {
            pattern,
            seg,
            link: BinLink::NONE,
            order: 0,
            wild: None,
            state: RecvState::Posted,
            completion: Completion::default(),
            freed: false,
        }
    }

    /// Fixes the message: from now on nothing else can match.
    #[inline]
    pub(crate) fn bind(&mut self, env: &Envelope, len: u64) {
        self.state = RecvState::Bound;
        self.completion = completion_of(env, len, self.seg.len);
    }
}

/// The completion of a receive of `room` bytes that has matched a message.
#[inline]
pub(crate) fn completion_of(env: &Envelope, len: u64, room: usize) -> Completion {
    let room = room as u64;
    Completion {
        source: env.source,
        tag: env.tag,
        len: len.min(room),
        truncated: (len > room).then_some(len),
        cancelled: false,
    }
}

/// The events that a send still waits for. It is complete when none is left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Send {
    pub peer: Rank,
    pub ssn: Ssn,
    pub seg: Segment,
    /// The bytes of `seg`, for a small message that waits for the window.
    pub held: Buf,
    pub envelope: Envelope,
    pub sync: bool,
    pub blocking: bool,
    /// Waits for the window; has no sequence number yet.
    pub blocked: bool,
    /// The body may have to be sent again out of user memory.
    pub needs_ack: bool,
    pub needs_match: bool,
    /// The body goes when the receiver is clear to take it.
    pub rendezvous: bool,
    pub needs_finish: bool,
    /// Rendezvous: the receiver is clear to take the body.
    pub clear: bool,
    /// Rendezvous: the envelope says where the body is, so that the receiver may read it.
    pub offered: bool,
    /// Number of a cancel request without an answer.
    pub cancel: Option<u64>,
    pub cancelled: bool,
    pub freed: bool,
}

impl Send {
    #[inline]
    pub(crate) fn done(&self) -> bool {
        !(self.blocked
            || self.needs_ack
            || self.needs_match
            || self.needs_finish
            || self.cancel.is_some())
    }
}

/// Where the body of a message is that no receive took yet, or that is about to be copied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HeldBody {
    /// Being received.
    Arriving(Buf),
    /// Complete.
    Ready(Buf),
    /// With the sender, which waits for a clear to send. The address is that of the body, if the
    /// sender's memory can be read.
    Remote(u64),
    /// In user memory of this rank, which sends to itself; of that request, if it has one.
    Own(Segment, Option<u32>),
}

/// A message that no posted receive waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnexpectedMessage {
    pub peer: Rank,
    pub ssn: Ssn,
    pub envelope: Envelope,
    pub len: u64,
    pub sync: bool,
    /// Came on a grant beyond the window.
    pub granted: bool,
    /// Came from the receive log, beside the window.
    pub restored: bool,
    pub body: HeldBody,
    /// The receive that took it while the body was on its way.
    pub bound: Option<u32>,
    pub order: u64,
    pub links: [BinLink; CLASSES],
}
