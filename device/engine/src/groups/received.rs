//! Messages of other recovery groups that the receive log of this rank takes.
//!
//! The device logs each message when its body is in its place, before the program can touch it, and
//! tells the engine. Such a message counts like one that a committed image holds: its sender need
//! not retain it. A returned rank has it from its log, before it has any link.

use rejoin_channel_table::ids::{Incarnation, Rank, Ssn};
use rejoin_logging::receive_log::{LoggedReceive, MessageHead};

use crate::bins::{BinLink, CLASSES};
use crate::channel_state::{Channel, Rx};
use crate::core_state::Core;
use crate::engine::Engine;
use crate::frame::FrameKind;
use crate::omission::Omission;
use crate::partial_bodies::Target;
use crate::pool::Buf;
use crate::receive_state::{DueReceive, WholeBody};
use crate::requests::{EngineRequest, HeldBody, UnexpectedMessage};
use crate::rx;
use crate::tx::{ENVELOPE_COST, SendContext};
use crate::types::{Envelope, Segment};

/// A message that was received as a whole, and is to be logged now.
#[derive(Debug)]
pub struct Received<'a> {
    /// World rank of its sender.
    pub peer: Rank,
    /// The number of the message in the channel.
    pub ssn: Ssn,
    /// Context id, source and tag.
    pub envelope: Envelope,
    /// Whether the sender waits until a receive takes the message.
    pub sync: bool,
    /// The mark of the sender's log on which it depends; 0: on nothing that is not stable.
    pub interval: u64,
    /// Where the bytes of the body are.
    pub body: ReceivedBody<'a>,
}

/// Where the body of such a message is.
#[derive(Debug)]
pub enum ReceivedBody<'a> {
    /// In the buffer of its receive.
    Memory(Segment),
    /// The engine has the bytes.
    Bytes(&'a [u8]),
}

impl Received<'_> {
    /// What the receive log says of it; this incarnation of the peer has sent it.
    #[must_use]
    pub fn head(&self, incarnation: Incarnation) -> MessageHead {
        MessageHead {
            sender: self.peer,
            incarnation,
            ssn: self.ssn,
            context: self.envelope.context,
            source: self.envelope.source,
            tag: self.envelope.tag,
            synchronous: self.sync,
            interval: self.interval,
        }
    }
}

impl ReceivedBody<'_> {
    /// The length of the body in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            ReceivedBody::Memory(segment) => segment.len,
            ReceivedBody::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether the body has no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Engine {
    /// From now on the device logs what comes of other groups. To be called before the first
    /// message.
    pub fn begin_receive_log(&mut self) {
        self.core.received.begin();
    }

    /// Whether [`Engine::log_received`] has something to show.
    #[inline(always)]
    #[must_use]
    pub fn any_received(&self) -> bool {
        !self.core.received.is_empty()
    }

    /// Shows each message that is to be logged now. `log` says whether the log has it, and outlives
    /// what the sender's log would; where that is so later, [`Engine::received_logged`] says it.
    /// Then the senders of rendezvous messages hear that these are finished.
    pub fn log_received(&mut self, mut log: impl FnMut(&Received<'_>) -> bool) {
        while let Some(due) = self.core.received.pop() {
            let body = match due.place {
                WholeBody::Memory(segment) => ReceivedBody::Memory(segment),
                WholeBody::Message(id) => {
                    // One that was cancelled is not there.
                    match self.core.messages.get(id).map(|message| &message.body) {
                        Some(HeldBody::Ready(buf)) => ReceivedBody::Bytes(buf.bytes()),
                        Some(_) => ReceivedBody::Bytes(&[]),
                        None => continue,
                    }
                }
            };
            let len = body.len();
            let received = Received {
                peer: due.peer,
                ssn: due.ssn,
                envelope: due.envelope,
                sync: due.sync,
                interval: due.interval,
                body,
            };
            if log(&received) {
                self.received_logged(due.peer, due.ssn, len);
            }
            if due.finishes {
                self.send_finish(due.peer, due.ssn);
            }
        }
    }

    fn send_finish(&mut self, peer: Rank, ssn: Ssn) {
        if let Some(Some(channel)) = self.channels.get_mut(peer.index()) {
            channel.send_finish(&mut self.core, ssn);
        }
    }

    /// The receive log has this message of a peer, and outlives what the peer's log would.
    pub fn received_logged(&mut self, peer: Rank, ssn: Ssn, len: usize) {
        let quarter = self.config.window / 4;
        let Some(Some(channel)) = self.channels.get_mut(peer.index()) else {
            return;
        };
        let cost = ENVELOPE_COST + len as u64;
        if channel.rx.logged.add(ssn, cost, quarter)
            && channel.up
            && channel.rx.has_kept_to_notify()
        {
            channel.ack_soon(&mut self.core);
        }
    }

    /// The process was restored: its receive log has this message, which its image may have, too.
    /// To be called before there is a link, when receives with a wildcard match as before
    /// ([`Engine::replay_wild_matches`]); the device then drains [`Engine::next_copy`].
    /// False: earlier messages of the peer are not there, so that the peer sends this one again.
    /// Otherwise the device says again that it is logged ([`Engine::received_logged`]).
    pub fn restore_received(&mut self, message: &LoggedReceive) -> bool {
        let (head, body) = (&message.head, &message.body);
        let (peer, ssn) = (head.sender, head.ssn);
        let envelope = Envelope {
            context: head.context,
            source: head.source,
            tag: head.tag,
        };
        if !self.is_across(peer) {
            return false;
        }
        let Ok((channel, core)) = self.channel(peer) else {
            return false;
        };
        let next = channel.rx.order.next();
        if ssn > next {
            return false;
        }
        let mut buf = core.pool.take(body.len());
        buf.bytes_mut().copy_from_slice(body);
        if ssn < next {
            return core.omits(Omission::LoggedBody) || self.restore_body(peer, ssn, buf);
        }
        channel.rx.order.take();
        let bound = core.match_posted(&envelope, body.len() as u64);
        let sync = head.synchronous && bound.is_none();
        core.keep_restored(UnexpectedMessage {
            sync,
            ..restored((peer, ssn), envelope, buf, bound)
        });
        true
    }

    /// The image has the envelope of a message, and the log its body, unless the image has both.
    /// False: the body has another length than the envelope says.
    fn restore_body(&mut self, peer: Rank, ssn: Ssn, buf: Buf) -> bool {
        let config = self.config;
        let context = rx::context(&mut self.channels, &mut self.core, &config, peer);
        let Some(mut rx) = context else {
            return false;
        };
        let len = buf.len();
        let partial = rx.channel.rx.partial.get(ssn);
        if partial.is_some_and(|partial| partial.len != len as u64) {
            return false;
        }
        let Some(partial) = rx.channel.rx.partial.remove(ssn) else {
            return rx.restore_announced(ssn, buf);
        };
        match partial.target {
            Target::Request(request) => {
                // All that the copy needs; it completes the receive.
                let message = restored((peer, ssn), Envelope::default(), buf, Some(request));
                rx.core.keep_restored(message);
                if partial.eager {
                    rx.consumed(partial.granted, ENVELOPE_COST + len as u64);
                }
            }
            Target::Message(at) => {
                rx.core.messages[at].body = HeldBody::Arriving(buf);
                rx.eager_done(partial.target, len, partial.granted, false);
            }
            Target::Nowhere => {}
        }
        true
    }
}

/// A message that came from the receive log.
fn restored(
    (peer, ssn): (Rank, Ssn),
    envelope: Envelope,
    buf: Buf,
    bound: Option<u32>,
) -> UnexpectedMessage {
    UnexpectedMessage {
        peer,
        ssn,
        envelope,
        len: buf.len() as u64,
        sync: false,
        granted: false,
        restored: true,
        body: HeldBody::Ready(buf),
        bound,
        order: 0,
        links: [BinLink::NONE; CLASSES],
    }
}

impl Core {
    /// Keeps a message that came from the receive log; it is copied next if it has its receive.
    fn keep_restored(&mut self, message: UnexpectedMessage) {
        let is_bound = message.bound.is_some();
        let at = self.keep_message(message, !is_bound);
        if is_bound {
            self.copy_soon(at);
        }
    }
}

impl SendContext<'_> {
    /// A message that waits for its receive, and whose body is with its sender, gets it. False: the
    /// body has another length.
    fn restore_announced(&mut self, ssn: Ssn, buf: Buf) -> bool {
        let peer = self.channel.peer;
        let is_it = |message: &UnexpectedMessage| {
            let is_remote = matches!(message.body, HeldBody::Remote(_));
            is_remote && message.peer == peer && message.ssn == ssn
        };
        let waiting = self.core.messages.iter_mut();
        let Some((_, message)) = waiting.into_iter().find(|(_, message)| is_it(message)) else {
            return true;
        };
        if message.len != buf.len() as u64 {
            return false;
        }
        message.body = HeldBody::Ready(buf);
        message.restored = true;
        let granted = message.granted;
        self.consumed(granted, ENVELOPE_COST);
        true
    }
}

impl Rx {
    /// The message below which a committed image, or the receive log, has all.
    pub(crate) fn kept_below(&self) -> Ssn {
        self.logged.end_from(self.committed)
    }

    /// Whether the peer was told less, in the last ack beside messages.
    pub(crate) fn has_kept_to_notify(&self) -> bool {
        self.kept_below() > self.logged.told()
    }

    /// The peer is told this.
    pub(crate) fn notify_kept(&mut self) -> Ssn {
        let kept = self.kept_below();
        self.logged.tell(kept);
        kept
    }

    /// An image is committed that has all messages below this one.
    pub(crate) fn commit_image(&mut self, whole: Ssn) {
        self.committed = self.committed.max(whole);
        self.logged.forget_below(self.committed);
    }
}

impl Channel {
    /// The next message was received with its body, of `len` bytes, which goes to its receive.
    #[inline(always)]
    pub(crate) fn log_matched(&self, core: &mut Core, env: &Envelope, into: Segment, len: usize) {
        // The rest of a message that was too long for its receive is gone.
        if self.across && core.received.is_used() && into.len == len {
            let next = self.rx.order.next();
            Self::log_later(
                core,
                DueReceive {
                    peer: self.peer,
                    ssn: next,
                    envelope: *env,
                    sync: false,
                    interval: self.rx.interval,
                    place: WholeBody::Memory(into),
                    finishes: false,
                },
            );
        }
    }

    /// An eager message is whole: its length, and whether its sender waits for the match. Its
    /// receive may be freed next.
    #[inline(always)]
    pub(crate) fn log_whole(&self, core: &mut Core, ssn: Ssn, target: Target, of: (usize, bool)) {
        if self.across && core.received.is_used() {
            self.log_target(core, ssn, target, (of.0, of.1, false));
        }
    }

    /// A rendezvous message is whole in its receive, as for [`Channel::log_whole`]. Its sender
    /// hears that when it is logged: then it knows whether it must retain the body.
    pub(crate) fn finish(&mut self, core: &mut Core, ssn: Ssn, request: u32, of: (usize, bool)) {
        let target = Target::Request(request);
        let is_later = self.across
            && core.received.is_used()
            && self.log_target(core, ssn, target, (of.0, of.1, true));
        if !is_later {
            self.send_finish(core, ssn);
        }
        core.recv_done(request);
    }

    /// Tells the sender of a rendezvous message that its body is here.
    fn send_finish(&mut self, core: &mut Core, ssn: Ssn) {
        let mut header = self.header(FrameKind::Finish, ssn);
        if self.across {
            header.length = self.rx.notify_kept().0;
        }
        self.control(core, &header);
    }

    /// Whether the message is to be logged.
    fn log_target(
        &self,
        core: &mut Core,
        ssn: Ssn,
        target: Target,
        (len, sync, finishes): (usize, bool, bool),
    ) -> bool {
        let into = |core: &Core, request: u32| {
            let room = core.recv_segment(request);
            WholeBody::Memory(room.part(0, len))
        };
        let (envelope, place) = match target {
            Target::Nowhere => return false,
            Target::Request(request) => {
                let EngineRequest::Recv(recv) = &core.requests[request] else {
                    return false;
                };
                let envelope = Envelope {
                    context: recv.pattern.context,
                    source: recv.completion.source,
                    tag: recv.completion.tag,
                };
                (envelope, into(core, request))
            }
            Target::Message(at) => {
                let message = &core.messages[at];
                // A receive that waits for it gets its copy before the device logs it.
                let copied = message.bound.map(|request| into(core, request));
                let place = copied.unwrap_or_else(|| WholeBody::Message(core.messages.id(at)));
                (message.envelope, place)
            }
        };
        let is_cut = matches!(place, WholeBody::Memory(into) if into.len < len);
        if !is_cut {
            Self::log_later(
                core,
                DueReceive {
                    peer: self.peer,
                    ssn,
                    envelope,
                    sync,
                    interval: self.rx.interval,
                    place,
                    finishes,
                },
            );
        }
        !is_cut
    }

    #[cold]
    #[inline(never)]
    fn log_later(core: &mut Core, due: DueReceive) {
        core.received.push(due);
    }
}
