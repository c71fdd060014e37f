//! Requests and messages, and what of the engine belongs to no single channel.

use std::collections::VecDeque;

use rejoin_channel_table::ids::{Rank, Ssn};

use crate::bins::{CLASSES, Link};
use crate::matching::Matching;
use crate::pool::{Buf, Pool};
use crate::types::{Completion, Envelope, Pattern, RemoteGet, Segment};
use rejoin_channel_table::slab::Slab;

/// A request of the application.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
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
    pub link: Link,
    pub order: u64,
    pub state: RecvState,
    /// Valid from `Bound` on.
    pub completion: Completion,
    /// Nobody will poll it.
    pub freed: bool,
}

impl Recv {
    pub(crate) fn new(pattern: Pattern, seg: Segment) -> Self {
        Recv {
            pattern,
            seg,
            link: Link::NONE,
            order: 0,
            state: RecvState::Posted,
            completion: Completion::default(),
            freed: false,
        }
    }

    /// Fixes the message: from now on nothing else can match.
    #[inline]
    pub(crate) fn bind(&mut self, env: &Envelope, len: u64) {
        self.state = RecvState::Bound;
        self.completion = met(env, len, self.seg.len);
    }
}

/// How a receive of so much room ends that has met a message.
#[inline]
pub(crate) fn met(env: &Envelope, len: u64, room: usize) -> Completion {
    let room = room as u64;
    Completion {
        source: env.source,
        tag: env.tag,
        len: len.min(room),
        truncated: (len > room).then_some(len),
        cancelled: false,
    }
}

/// What a send still waits for; it is complete when nothing is left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Send {
    pub peer: Rank,
    pub ssn: Ssn,
    pub seg: Segment,
    /// What lies in `seg`, of a small message that waits for the window.
    pub held: Buf,
    pub envelope: Envelope,
    pub sync: bool,
    pub blocking: bool,
    /// Waits for the window; has no sequence number yet.
    pub blocked: bool,
    /// Its body may have to be sent again out of user memory.
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
pub(crate) enum Body {
    /// Being received.
    Arriving(Buf),
    /// Complete.
    Ready(Buf),
    /// With the sender, who waits for a clear to send: at this address, where its memory can be
    /// read.
    Remote(u64),
    /// In user memory of this rank, which sends to itself; of that request, if it has one.
    Own(Segment, Option<u32>),
}

/// A message that no posted receive waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Message {
    pub peer: Rank,
    pub ssn: Ssn,
    pub envelope: Envelope,
    pub len: u64,
    pub sync: bool,
    /// Came on a grant beyond the window.
    pub granted: bool,
    pub body: Body,
    /// The receive that took it while the body was on its way.
    pub bound: Option<u32>,
    pub order: u64,
    pub links: [Link; CLASSES],
}

/// Everything that is not of one channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Core {
    pub requests: Slab<Request>,
    pub messages: Slab<Message>,
    pub matching: Matching,
    pub pool: Pool,
    /// Messages that are complete and bound: the device copies them next.
    pub copies: VecDeque<u32>,
    /// Bodies that the device reads out of their senders' memory next.
    pub gets: VecDeque<RemoteGet>,
    /// The body that the last copy came from; its buffer is used again at the next.
    pub copied: Buf,
    /// Peers with something to write since the device asked last.
    pub ready: VecDeque<Rank>,
    /// Posted receives by world rank of the sender they name, and those that name none.
    pub posted_from: Vec<u32>,
    pub posted_any: u32,
    /// Bytes that grants beyond the windows may cost, or do: see `flow.rs`.
    pub beyond: u64,
    /// Bytes that this rank sent to itself and the engine keeps.
    pub own_bytes: u64,
    /// Counts completions and arrivals.
    pub moved: u64,
}

impl Core {
    pub(crate) fn new(size: u32) -> Self {
        Core {
            requests: Slab::default(),
            messages: Slab::default(),
            matching: Matching::default(),
            pool: Pool::default(),
            copies: VecDeque::new(),
            gets: VecDeque::new(),
            copied: Buf::default(),
            ready: VecDeque::new(),
            posted_from: vec![0; size as usize],
            posted_any: 0,
            beyond: 0,
            own_bytes: 0,
            moved: 0,
        }
    }

    /// Whether no receive is posted that a message of this peer could meet.
    #[inline]
    pub(crate) fn none_posted(&self, peer: Rank) -> bool {
        self.posted_any == 0 && self.posted_from.get(peer.index()) == Some(&0)
    }

    #[inline]
    fn count_posted(&mut self, pattern: &Pattern) -> &mut u32 {
        let named = pattern.from.map(Rank::index);
        match named.and_then(|at| self.posted_from.get_mut(at)) {
            Some(count) => count,
            None => &mut self.posted_any,
        }
    }

    /// Posts a new receive and returns its index.
    #[inline]
    pub(crate) fn post(&mut self, pattern: Pattern, seg: Segment) -> u32 {
        let at = self.requests.insert(Request::Recv(Recv::new(pattern, seg)));
        self.matching.post(&mut self.requests, at);
        *self.count_posted(&pattern) += 1;
        at
    }

    /// Takes a posted receive back that is to be cancelled.
    pub(crate) fn unpost(&mut self, at: u32, pattern: &Pattern) {
        self.matching.unpost(&mut self.requests, at);
        *self.count_posted(pattern) -= 1;
    }

    /// Matches an arriving message with the oldest posted receive, and binds it.
    #[inline]
    pub(crate) fn match_posted(&mut self, env: &Envelope, len: u64) -> Option<u32> {
        let at = self.matching.take_posted(&mut self.requests, env)?;
        if let Request::Recv(recv) = &mut self.requests[at] {
            recv.bind(env, len);
            let pattern = recv.pattern;
            *self.count_posted(&pattern) -= 1;
        }
        Some(at)
    }

    /// The same where the whole body is at hand: the receive is complete, and this is where the
    /// body goes.
    #[inline(always)]
    pub(crate) fn meet_posted(&mut self, env: &Envelope, len: usize) -> Option<Segment> {
        let at = self.matching.take_posted(&mut self.requests, env)?;
        let Request::Recv(recv) = &mut self.requests[at] else {
            return None;
        };
        recv.state = RecvState::Done;
        recv.completion = met(env, len as u64, recv.seg.len);
        let (pattern, into, freed) = (recv.pattern, recv.seg.part(0, len), recv.freed);
        *self.count_posted(&pattern) -= 1;
        self.moved += 1;
        if freed {
            self.requests.discard(at);
        }
        Some(into)
    }

    /// Keeps a message; `listed` when no receive is bound to it.
    pub(crate) fn keep_message(&mut self, message: Message, listed: bool) -> u32 {
        let at = self.messages.insert(message);
        if listed {
            self.matching.add(&mut self.messages, at);
            self.moved += 1;
        }
        at
    }

    /// The buffer and length of a bound receive.
    #[inline]
    pub(crate) fn recv_segment(&self, at: u32) -> Segment {
        match &self.requests[at] {
            Request::Recv(recv) => recv.seg,
            Request::Send(_) => Segment::default(),
        }
    }

    /// The whole body of a bound receive is in its buffer.
    #[inline]
    pub(crate) fn recv_done(&mut self, at: u32) {
        self.moved += 1;
        if let Request::Recv(recv) = &mut self.requests[at] {
            recv.state = RecvState::Done;
            if recv.freed {
                self.requests.discard(at);
            }
        }
    }

    /// Changes what a send waits for and notices when nothing is left.
    pub(crate) fn update_send(&mut self, at: u32, change: impl FnOnce(&mut Send)) {
        if let Request::Send(send) = &mut self.requests[at] {
            change(send);
            if send.done() {
                self.moved += 1;
                if send.freed {
                    self.requests.discard(at);
                }
            }
        }
    }

    pub(crate) fn send_of(&self, at: u32) -> Option<&Send> {
        match &self.requests[at] {
            Request::Send(send) => Some(send),
            Request::Recv(_) => None,
        }
    }

    /// The end of a request, if it has come.
    pub(crate) fn outcome(&self, at: u32) -> Option<Completion> {
        match &self.requests[at] {
            Request::Recv(recv) => (recv.state == RecvState::Done).then_some(recv.completion),
            Request::Send(send) => send.done().then_some(Completion {
                cancelled: send.cancelled,
                ..Completion::default()
            }),
        }
    }
}
