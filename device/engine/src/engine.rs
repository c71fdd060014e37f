//! The engine and the calls of the application.

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};

use crate::channel_state::Channel;
use crate::config::Config;
use crate::core_state::Core;
use crate::error::Error;
use crate::omission::Omission;
use crate::pool::Buf;
use crate::requests::{EngineRequest, HeldBody, RecvState, Send};
use crate::tx;
use crate::types::{
    Completion, Detach, Envelope, MessageMode, MsgId, Pattern, Probe, ReqId, Segment, Sent,
};

/// The recovery state of one rank: see the crate's page for how a device drives it.
///
/// A message of five bytes between two ranks, without a network:
///
/// ```
/// use rejoin_channel_table::{Rank, Resume};
/// use rejoin_engine::{
///     Config, Engine, Envelope, HEADER_LEN, Header, MessageMode, Pattern, WritePiece, RxBody, Segment, Sent,
/// };
///
/// let (zero, one) = (Rank(0), Rank(1));
/// let mut sender = Engine::new(Config::default(), zero, 2);
/// let mut receiver = Engine::new(Config::default(), one, 2);
/// sender.link_up(one, &Resume::default())?;
/// receiver.link_up(zero, &Resume::default())?;
///
/// // A short body is copied: the send is complete before anything is written.
/// let env = Envelope { context: 1, source: 0, tag: 7 };
/// let segment = Segment { addr: 0, len: 5 };
/// let sent = sender.send(one, env, segment, Some(b"hello"), MessageMode::Standard)?;
/// assert!(matches!(sent, Sent::Done));
/// let pattern = Pattern { context: 1, source: None, tag: Some(7), from: Some(zero) };
/// let request = receiver.recv(pattern, segment)?;
///
/// // The bytes that the device would write to the link.
/// assert_eq!(sender.next_ready(), Some(one));
/// let mut wire = Vec::new();
/// for piece in sender.tx_gather(one).pieces() {
///     if let WritePiece::Bytes(bytes) = piece {
///         wire.extend_from_slice(bytes);
///     }
/// }
/// sender.tx_advance(one, wire.len());
///
/// // The other device passes headers to the engine, and puts bodies where the engine says.
/// let mut rest = &wire[..];
/// while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
///     let header = Header::decode(header)?;
///     let (body, after) = after.split_at(header.body_len() as usize);
///     rest = after;
///     if let RxBody::Into { into, .. } = receiver.rx_header(zero, &header)? {
///         assert_eq!((into, body), (segment, &b"hello"[..]));
///         receiver.rx_done(zero)?;
///     }
/// }
/// assert_eq!(receiver.poll(request).map(|done| done.len), Some(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) me: Rank,
    pub(crate) epoch: Epoch,
    /// The number of each rank's recovery group, if there are several.
    pub(crate) groups: Option<Box<[u32]>>,
    pub(crate) channels: Vec<Option<Box<Channel>>>,
    pub(crate) core: Core,
}

impl Engine {
    /// An engine for rank `me` of `size` ranks; the configuration is made consistent.
    pub fn new(config: Config, me: Rank, size: u32) -> Engine {
        Engine {
            config: config.consistent(),
            me,
            epoch: Epoch(0),
            groups: None,
            channels: (0..size).map(|_| None).collect(),
            core: Core::new(size),
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The epoch that frames made now carry.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Enters a later epoch; the image of this rank at its start must have been taken.
    pub fn set_epoch(&mut self, epoch: Epoch) {
        if epoch <= self.epoch {
            return;
        }
        self.epoch = epoch;
        if self.groups.is_some() {
            self.note_image(epoch);
        }
        for channel in self.channels.iter_mut().flatten() {
            if !channel.across || self.core.omits(Omission::NoEpoch) {
                channel.epoch = epoch;
            }
        }
    }

    /// Whether a message of `len` bytes is copied when sent: then `send` wants its bytes.
    #[inline(always)]
    #[must_use]
    pub fn copies(&self, len: usize) -> bool {
        len <= self.config.eager_copy
    }

    /// Counts completions and arrivals: when it stays the same, nothing happened for the caller.
    pub fn moved(&self) -> u64 {
        self.core.moved
    }

    /// Messages sent to other ranks and received from them, each once however often it travelled.
    pub fn messages(&self) -> (u64, u64) {
        let channels = self.channels.iter().flatten();
        channels.fold((0, 0), |(sent, received), channel| {
            (
                sent + channel.tx.retention.next().0,
                received + channel.rx.order.next().0,
            )
        })
    }

    /// The ranks that this one has exchanged messages with, or tried to.
    pub fn peers(&self) -> impl Iterator<Item = Rank> + '_ {
        self.channels.iter().flatten().map(|channel| channel.peer)
    }

    /// The channel to a peer, made at its first use.
    #[inline]
    pub(crate) fn channel(&mut self, peer: Rank) -> Result<(&mut Channel, &mut Core), Error> {
        let size = self.channels.len() as u32;
        let across = self.is_across(peer);
        let slot = self.channels.get_mut(peer.index());
        let slot = slot.ok_or(Error::NoSuchRank { rank: peer, size })?;
        let new = || Box::new(Channel::new(peer, &self.config, self.epoch, across));
        let channel = slot.get_or_insert_with(new);
        Ok((channel, &mut self.core))
    }

    /// Sends a message. `bytes` is the content of `seg`, given when [`Engine::copies`] its length.
    /// Without it a small message is sent from the user's memory like a medium one.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`].
    #[inline]
    pub fn send(
        &mut self,
        to: Rank,
        env: Envelope,
        seg: Segment,
        bytes: Option<&[u8]>,
        mode: MessageMode,
    ) -> Result<Sent, Error> {
        debug_assert!(bytes.is_none_or(|b| b.len() == seg.len));
        if to == self.me {
            return Ok(self.send_to_self(env, seg, bytes, mode));
        }
        let config = self.config;
        let (channel, core) = self.channel(to)?;
        let mut tx = tx::SendContext {
            channel,
            core,
            config: &config,
        };
        if let Some(bytes) = bytes
            && mode != MessageMode::Synchronous
            && tx.send_copied(&env, bytes)
        {
            return Ok(Sent::Done);
        }
        let request = tx.core.requests.insert(EngineRequest::Send(Send {
            peer: to,
            ssn: Ssn(0),
            seg,
            held: Buf::default(),
            envelope: env,
            sync: mode == MessageMode::Synchronous,
            blocking: mode == MessageMode::Blocking,
            blocked: true,
            needs_ack: false,
            needs_match: false,
            rendezvous: false,
            needs_finish: false,
            clear: false,
            offered: false,
            cancel: None,
            cancelled: false,
            freed: false,
        }));
        if !tx.channel.tx.blocked.is_empty() || !tx.start_send(request, bytes) {
            tx.queue_send(request, bytes);
        }
        Ok(Sent::Pending(ReqId(self.core.requests.id(request))))
    }

    /// Posts a receive, or takes an unexpected message that matches.
    ///
    /// # Errors
    /// None today; the pattern needs no peer to exist.
    #[inline]
    pub fn recv(&mut self, pattern: Pattern, seg: Segment) -> Result<ReqId, Error> {
        let core = &mut self.core;
        if let Some((pattern, number)) = core.matching.numbered(&pattern) {
            return Ok(self.recv_numbered(pattern, seg, number));
        }
        if let Some(message) = core.matching.find(&mut core.messages, &pattern) {
            core.matching.remove(&mut core.messages, message);
            return Ok(self.claim(message, seg));
        }
        let at = self.core.post(pattern, seg);
        Ok(ReqId(self.core.requests.id(at)))
    }

    /// Posts a receive that had a wildcard and may have one still, or takes a message that matches.
    #[inline(never)]
    fn recv_numbered(&mut self, pattern: Pattern, seg: Segment, number: u64) -> ReqId {
        let core = &mut self.core;
        if let Some(message) = core.matching.find(&mut core.messages, &pattern) {
            core.matching.remove(&mut core.messages, message);
            let env = core.messages[message].envelope;
            let is_known = pattern.source.is_some() && pattern.tag.is_some();
            if let Some(wild) = core.matching.wild_mut().filter(|_| !is_known) {
                wild.matched(number, &env);
            }
            return self.claim(message, seg);
        }
        let at = self.core.post_numbered(pattern, seg, number);
        ReqId(self.core.requests.id(at))
    }

    /// Posts a receive that names its sender and its tag, for which no message has come; `None`:
    /// nothing was done, [`Engine::recv`] is to.
    #[inline(always)]
    pub fn post_named(&mut self, pattern: &Pattern, seg: Segment) -> Option<ReqId> {
        let core = &mut self.core;
        let named = pattern.from.is_some() && pattern.tag.is_some();
        if !named || core.matching.find(&mut core.messages, pattern).is_some() {
            return None;
        }
        let at = core.post(*pattern, seg);
        Some(ReqId(core.requests.id(at)))
    }

    /// The end of a receive that got a whole message, as [`Engine::poll`] returns it; `None` for
    /// any other request.
    #[inline(always)]
    pub fn poll_whole(&mut self, id: ReqId) -> Option<Completion> {
        let at = self.core.requests.find(id.0)?;
        let EngineRequest::Recv(recv) = &self.core.requests[at] else {
            return None;
        };
        let done = recv.completion;
        let whole = recv.state == RecvState::Done && done.truncated.is_none() && !done.cancelled;
        whole.then(|| {
            self.core.requests.discard(at);
            done
        })
    }

    /// Whose message a request waits for, if that is known.
    #[inline]
    #[must_use]
    pub fn peer_of(&self, id: ReqId) -> Option<Rank> {
        match self.core.requests.get(id.0)? {
            EngineRequest::Recv(recv) => recv.pattern.from,
            EngineRequest::Send(send) => Some(send.peer),
        }
    }

    /// Looks for an unexpected message (MPI-5.0 §3.8.1).
    pub fn probe(&mut self, pattern: &Pattern) -> Option<Probe> {
        let core = &mut self.core;
        let at = core.matching.find(&mut core.messages, pattern)?;
        Some(core.describe(at))
    }

    /// Takes an unexpected message out of matching (MPI-5.0 §3.8.2).
    pub fn mprobe(&mut self, pattern: &Pattern) -> Option<(MsgId, Probe)> {
        let core = &mut self.core;
        let at = core.matching.find(&mut core.messages, pattern)?;
        core.matching.remove(&mut core.messages, at);
        Some((MsgId(core.messages.id(at)), core.describe(at)))
    }

    /// Receives a message that `mprobe` took.
    ///
    /// # Errors
    /// [`Error::StaleMessage`].
    pub fn mrecv(&mut self, message: MsgId, seg: Segment) -> Result<ReqId, Error> {
        let at = self.core.messages.find(message.0);
        let at = at.ok_or(Error::StaleMessage)?;
        let taken = &self.core.messages[at];
        if taken.links[0].listed() || taken.bound.is_some() {
            return Err(Error::StaleMessage);
        }
        Ok(self.claim(at, seg))
    }

    /// The end of a request; then its id is stale. A stale id is complete with nothing to say. A
    /// caller that polls waits, so a peer that was not asked to acknowledge the message is asked
    /// now.
    #[inline]
    pub fn poll(&mut self, id: ReqId) -> Option<Completion> {
        let Some(at) = self.core.requests.find(id.0) else {
            return Some(Completion::default());
        };
        let Some(outcome) = self.core.outcome(at) else {
            self.hurry_ack(at);
            return None;
        };
        self.core.requests.discard(at);
        Some(outcome)
    }

    /// Hurries the ack that a send waits for. A blocking one is about to be detached instead.
    fn hurry_ack(&mut self, at: u32) {
        let EngineRequest::Send(Send {
            peer,
            ssn,
            needs_ack: true,
            blocking: false,
            ..
        }) = self.core.requests[at]
        else {
            return;
        };
        if let Some(Some(channel)) = self.channels.get_mut(peer.index()) {
            channel.request_ack(&mut self.core, ssn);
        }
    }

    /// Whether `poll` would answer.
    #[inline]
    pub fn is_complete(&self, id: ReqId) -> bool {
        let at = self.core.requests.find(id.0);
        at.is_none_or(|at| self.core.outcome(at).is_some())
    }

    /// Lets a request end by itself (MPI-5.0 §3.7.3, `MPI_Request_free`).
    pub fn free(&mut self, id: ReqId) {
        let Some(at) = self.core.requests.find(id.0) else {
            return;
        };
        if self.core.outcome(at).is_some() {
            self.core.requests.discard(at);
            return;
        }
        match &mut self.core.requests[at] {
            EngineRequest::Recv(recv) => recv.freed = true,
            EngineRequest::Send(send) => send.freed = true,
        }
    }

    /// Asks for the end of a request (MPI-5.0 §3.8.4): its completion says whether it came too
    /// late.
    pub fn cancel(&mut self, id: ReqId) {
        let Some(at) = self.core.requests.find(id.0) else {
            return;
        };
        match &mut self.core.requests[at] {
            EngineRequest::Recv(recv) if recv.state == RecvState::Posted => {
                recv.state = RecvState::Bound;
                recv.completion.cancelled = true;
                let pattern = recv.pattern;
                self.core.unpost(at, &pattern);
                self.core.recv_done(at);
            }
            EngineRequest::Recv(_) => (),
            EngineRequest::Send(send) if send.done() || send.cancel.is_some() => (),
            EngineRequest::Send(_) => self.cancel_send(at),
        }
    }

    /// Completes a blocking send of medium size: the device copies the body into the retention.
    /// Best after the write; while the body is still being written the answer is `Wait`.
    pub fn detach(&mut self, id: ReqId) -> Detach<'_> {
        let Some(at) = self.core.requests.find(id.0) else {
            return Detach::Done;
        };
        let EngineRequest::Send(send) = &self.core.requests[at] else {
            return Detach::Wait;
        };
        if send.done() {
            return Detach::Done;
        }
        if send.peer == self.me {
            // A synchronous send must wait for its match; a receive may have the message already.
            return if send.sync {
                Detach::Wait
            } else {
                self.detach_own(at)
            };
        }
        if send.blocked || !send.needs_ack || send.needs_match || send.cancel.is_some() {
            return Detach::Wait;
        }
        let (peer, ssn) = (send.peer, send.ssn);
        match self.channels.get_mut(peer.index()) {
            Some(Some(channel)) => tx::detach(channel, &mut self.core, &self.config, at, ssn),
            _ => Detach::Wait,
        }
    }
}

#[cfg(any(test, feature = "omissions"))]
impl Engine {
    /// Leaves this part out from now on.
    pub fn omit(&mut self, part: Omission) {
        self.core.omitted = Some(part);
    }
}

impl Core {
    fn describe(&self, at: u32) -> Probe {
        let message = &self.messages[at];
        Probe {
            source: message.envelope.source,
            tag: message.envelope.tag,
            len: message.len,
        }
    }

    /// Marks a bound message whose body is complete for the device's next copy.
    pub(crate) fn copy_soon(&mut self, at: u32) {
        debug_assert!(!matches!(self.messages[at].body, HeldBody::Remote(_)));
        self.copies.push_back(at);
    }
}
