//! The part of the engine that belongs to no single channel: requests, messages, and matching.

use std::collections::VecDeque;

use rejoin_channel_table::ids::Rank;
use rejoin_channel_table::slab::Slab;

use crate::groups::log_queue::LogQueue;
use crate::matching::Matching;
use crate::omission::Omission;
use crate::pool::{Buf, Pool};
use crate::receive_state::ReceivedQueue;
use crate::requests::{EngineRequest, Recv, RecvState, Send, UnexpectedMessage, completion_of};
use crate::types::{Completion, Envelope, Pattern, RemoteGet, Segment, UnrecordedMark};

/// Everything that is not of one channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Core {
    pub requests: Slab<EngineRequest>,
    pub messages: Slab<UnexpectedMessage>,
    pub matching: Matching,
    pub pool: Pool,
    /// Messages that are complete and bound: the device copies them next.
    pub copies: VecDeque<u32>,
    pub log_queue: LogQueue,
    /// Bodies that the device reads out of their senders' memory next.
    pub gets: VecDeque<RemoteGet>,
    /// The body that the last copy came from; its buffer is used again at the next.
    pub copied: Buf,
    /// Peers with something to write since the device asked last.
    pub ready: VecDeque<Rank>,
    /// One of them waits for what there is to write: an answer to its message.
    pub answers: bool,
    /// Posted receives by world rank of the sender they name, and those that name none.
    pub posted_from: Vec<u32>,
    pub posted_any: u32,
    /// Bytes that grants beyond the windows may cost, or do: see `flow.rs`.
    pub beyond: u64,
    /// Bytes that this rank sent to itself and the engine keeps.
    pub own_bytes: u64,
    /// Counts completions and arrivals.
    pub moved: u64,
    /// What frames depend on that are written now, if that is not stable: a mark of the log of
    /// determinants, or 0.
    pub interval: u64,
    /// Intervals of peers that frames depend on which have arrived, until the device takes them.
    pub dependencies: VecDeque<UnrecordedMark>,
    /// Messages that the device logs next.
    pub received: ReceivedQueue,
    /// The part of the protocol that a test leaves out.
    #[cfg(any(test, feature = "omissions"))]
    pub omitted: Option<Omission>,
}

impl Core {
    pub(crate) fn new(size: u32) -> Self {
        Core {
            requests: Slab::default(),
            messages: Slab::default(),
            matching: Matching::default(),
            pool: Pool::default(),
            copies: VecDeque::new(),
            log_queue: LogQueue::default(),
            gets: VecDeque::new(),
            copied: Buf::default(),
            ready: VecDeque::new(),
            answers: false,
            posted_from: vec![0; size as usize],
            posted_any: 0,
            beyond: 0,
            own_bytes: 0,
            moved: 0,
            interval: 0,
            dependencies: VecDeque::new(),
            received: ReceivedQueue::default(),
            #[cfg(any(test, feature = "omissions"))]
            omitted: None,
        }
    }

    /// Whether a test leaves out this part.
    #[inline(always)]
    pub(crate) fn omits(&self, part: Omission) -> bool {
        #[cfg(any(test, feature = "omissions"))]
        return self.omitted == Some(part);
        #[cfg(not(any(test, feature = "omissions")))]
        {
            let _ = part;
            false
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
        let at = self
            .requests
            .insert(EngineRequest::Recv(Recv::new(pattern, seg)));
        self.matching.post(&mut self.requests, at);
        *self.count_posted(&pattern) += 1;
        at
    }

    /// Posts a receive with a wildcard that has this number.
    pub(crate) fn post_numbered(&mut self, pattern: Pattern, seg: Segment, number: u64) -> u32 {
        let at = self.post(pattern, seg);
        if let EngineRequest::Recv(recv) = &mut self.requests[at] {
            recv.wild = Some(number);
        }
        at
    }

    /// Gives posted receives the patterns of their known matches.
    pub(crate) fn narrow_posted(&mut self) {
        self.matching.narrow_posted(&mut self.requests);
    }

    /// Takes a posted receive back that is to be cancelled.
    pub(crate) fn unpost(&mut self, at: u32, pattern: &Pattern) {
        if let EngineRequest::Recv(recv) = &self.requests[at]
            && let Some(number) = recv.wild
            && (pattern.source.is_none() || pattern.tag.is_none())
            && let Some(wild) = self.matching.wild_mut()
        {
            wild.cancelled(number);
        }
        self.matching.unpost(&mut self.requests, at);
        *self.count_posted(pattern) -= 1;
    }

    /// Matches an arriving message with the oldest posted receive, and binds it.
    #[inline]
    pub(crate) fn match_posted(&mut self, env: &Envelope, len: u64) -> Option<u32> {
        let at = self.matching.take_posted(&mut self.requests, env)?;
        if let EngineRequest::Recv(recv) = &mut self.requests[at] {
            recv.bind(env, len);
            let pattern = recv.pattern;
            *self.count_posted(&pattern) -= 1;
        }
        Some(at)
    }

    /// Matches an arriving message whose whole body is at hand: the receive is complete, and the
    /// result is where the body goes.
    #[inline(always)]
    pub(crate) fn match_whole(&mut self, env: &Envelope, len: usize) -> Option<Segment> {
        let at = self.matching.take_posted(&mut self.requests, env)?;
        let EngineRequest::Recv(recv) = &mut self.requests[at] else {
            return None;
        };
        recv.state = RecvState::Done;
        recv.completion = completion_of(env, len as u64, recv.seg.len);
        let (pattern, into, freed) = (recv.pattern, recv.seg.part(0, len), recv.freed);
        *self.count_posted(&pattern) -= 1;
        self.moved += 1;
        if freed {
            self.requests.discard(at);
        }
        Some(into)
    }

    /// Keeps a message; `listed` when no receive is bound to it.
    pub(crate) fn keep_message(&mut self, message: UnexpectedMessage, listed: bool) -> u32 {
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
            EngineRequest::Recv(recv) => recv.seg,
            EngineRequest::Send(_) => Segment::default(),
        }
    }

    /// The whole body of a bound receive is in its buffer.
    #[inline]
    pub(crate) fn recv_done(&mut self, at: u32) {
        self.moved += 1;
        if let EngineRequest::Recv(recv) = &mut self.requests[at] {
            recv.state = RecvState::Done;
            if recv.freed {
                self.requests.discard(at);
            }
        }
    }

    /// Changes the events that a send waits for, and notices when none is left.
    pub(crate) fn update_send(&mut self, at: u32, change: impl FnOnce(&mut Send)) {
        if let EngineRequest::Send(send) = &mut self.requests[at] {
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
            EngineRequest::Send(send) => Some(send),
            EngineRequest::Recv(_) => None,
        }
    }

    /// The end of a request, if it has come.
    pub(crate) fn outcome(&self, at: u32) -> Option<Completion> {
        match &self.requests[at] {
            EngineRequest::Recv(recv) => (recv.state == RecvState::Done).then_some(recv.completion),
            EngineRequest::Send(send) => send.done().then_some(Completion {
                cancelled: send.cancelled,
                ..Completion::default()
            }),
        }
    }
}
