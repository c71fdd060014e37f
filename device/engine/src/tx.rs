//! The sending side: envelopes go into the retention, and the plan lists the next writes.
//!
//! Envelopes and control frames enter the plan when they are made. Large bodies enter it one data
//! frame at a time, or as several short frames of that total length. So a small message never waits
//! for more than that.

use std::ops::Range;

use rejoin_channel_table::ids::Ssn;

use crate::bulk::{Bulk, BulkSource};
use crate::channel_state::{Channel, SentBody, Tx};
use crate::config::Config;
use crate::core_state::Core;
use crate::frame::{Flags, FrameKind, GRANTED_LIMIT, HEADER_LEN, Header};
use crate::requests::EngineRequest;
use crate::types::{Detach, Envelope, MAX_PIECES, WritePiece, WriteVector};
use crate::write_plan::PlannedPart;

/// The context of a send: a channel, the shared state, and the values in frames.
pub(crate) struct SendContext<'a> {
    pub channel: &'a mut Channel,
    pub core: &'a mut Core,
    pub config: &'a Config,
}

/// The part of the window that an envelope uses, without its body.
pub(crate) const ENVELOPE_COST: u64 = HEADER_LEN as u64;
/// Medium messages without an ack beyond which further ones do not ask for it.
const PROMPT: usize = 4;
/// Longest of those that do not: beside a longer body its ack costs nothing.
const UNHURRIED: usize = 128 << 10;
/// Most data frames of one write: each is two pieces.
const MOST_CHUNKS: usize = MAX_PIECES / 2;

impl SendContext<'_> {
    /// Header and body into the ring, and into the plan. False if the message must wait.
    #[inline]
    pub(crate) fn send_copied(&mut self, env: &Envelope, bytes: &[u8]) -> bool {
        let Some((range, _)) = self.keep_copied(env, bytes) else {
            return false;
        };
        if self.channel.up {
            self.channel.tx.plan.push_frames(range);
        }
        self.channel.mark_ready(self.core);
        true
    }

    /// Header and body into the ring; where they lie, and the header. `None` if the message must
    /// wait.
    #[inline(always)]
    pub(crate) fn keep_copied(
        &mut self,
        env: &Envelope,
        bytes: &[u8],
    ) -> Option<(Range<u64>, Header)> {
        let channel = &mut *self.channel;
        let cost = ENVELOPE_COST + bytes.len() as u64;
        if !channel.tx.blocked.is_empty()
            || channel.tx.full(self.config)
            || !channel.tx.window.charge(cost)
        {
            return None;
        }
        let ssn = channel.tx.retention.next();
        let mut header = channel.header(FrameKind::Eager, ssn);
        header.envelope = *env;
        header.length = bytes.len() as u64;
        let range = channel.tx.retention.push_words(&header.words(), bytes);
        Some((range, header))
    }

    /// Gives a send its sequence number and envelope, if the window allows. `bytes` are copied
    /// when they are given.
    pub(crate) fn start_send(&mut self, request: u32, bytes: Option<&[u8]>) -> bool {
        let logs = self.bodies_to_log();
        let EngineRequest::Send(send) = &mut self.core.requests[request] else {
            return true;
        };
        let channel = &mut *self.channel;
        if channel.tx.full(self.config) || channel.tx.resend.is_some() {
            return false;
        }
        if channel.tx.ahead.is_some() {
            self.send_unwritten(request, bytes);
            return true;
        }
        let len = send.seg.len;
        let is_stream = !send.blocking && channel.tx.has_bodies_under_way();
        let single_copy = channel.access.offers(len, is_stream);
        let fits = len <= self.config.eager_max && !single_copy;
        let Some((eager, mut flags)) = channel.tx.take_room(len, fits) else {
            return false;
        };
        let ssn = channel.tx.retention.next();
        let held = std::mem::take(&mut send.held);
        let copied = bytes.unwrap_or(held.bytes());
        let user_body = eager && copied.len() < len;
        send.ssn = ssn;
        send.blocked = false;
        send.rendezvous = !eager;
        send.needs_finish = !eager;
        send.needs_ack = user_body;
        send.needs_match = eager && send.sync;
        flags = flags.with_if(Flags::SYNC, send.sync);
        flags = flags.with_if(Flags::STREAM, is_stream && channel.access.tells_use(len));
        if user_body && !send.blocking && channel.tx.hurries(len, send.sync) {
            flags = channel.tx.asking(ssn, flags);
        }
        let logged = logs.takes(eager, if eager { user_body } else { len > 0 });
        let body = (user_body || logged).then_some(SentBody::User(send.seg, request));
        let waits = send.needs_finish || send.needs_match;
        let kind = if eager {
            FrameKind::Eager
        } else {
            FrameKind::Rts
        };
        let mut header = channel.header(kind, ssn);
        header.flags = flags;
        header.envelope = send.envelope;
        header.length = len as u64;
        // A shorter body takes less time by the link, also when it waits for clearance.
        if single_copy {
            send.offered = true;
            header.aux = send.seg.addr as u64;
        }
        let payload = if eager && !user_body { copied } else { &[] };
        let range = channel.tx.retention.push(&header.encode(), payload, body);
        if waits {
            channel.tx.open.insert(ssn, request);
        }
        if logged && !channel.tx.peer_keeps {
            self.core.log_queue.push_early(channel.peer, ssn);
        }
        if channel.up {
            let body = if user_body { len } else { 0 };
            channel.tx.plan_message(ssn, range, body);
        }
        channel.mark_ready(self.core);
        self.core.pool.put(held);
        // A small message that had to wait and was copied is complete now.
        self.core.update_send(request, |_| ());
        true
    }

    /// Queues a send until the window has room. The engine keeps the bytes of a small send, which
    /// take about as much memory as the request. So the send is complete once it enters the plan,
    /// and many such sends form one piece.
    #[cold]
    pub(crate) fn queue_send(&mut self, request: u32, bytes: Option<&[u8]>) {
        if let Some(bytes) = bytes
            && bytes.len() as u64 <= GRANTED_LIMIT
            && let EngineRequest::Send(send) = &mut self.core.requests[request]
        {
            send.held = self.core.pool.take(bytes.len());
            send.held.bytes_mut().copy_from_slice(bytes);
        }
        self.channel.tx.blocked.push_back(request);
    }

    /// Starts the sends that wait, in order, as far as the window allows.
    #[cold]
    #[inline(never)]
    pub(crate) fn drain_queues(&mut self) {
        self.continue_resend();
        while let Some(&request) = self.channel.tx.blocked.front() {
            if !self.start_send(request, None) {
                break;
            }
            self.channel.tx.blocked.pop_front();
        }
    }
}

impl Tx {
    /// Whether the limit of unacknowledged bytes is reached. Acks may lag behind the credit when a
    /// body was cut and the messages behind it are consumed.
    #[inline]
    fn full(&self, config: &Config) -> bool {
        (self.retention.unacked_bytes() + self.detached) as u64 > 2 * config.window
    }

    /// Whether the next message asks for its ack. A few medium messages do, because their sender
    /// probably waits for them. In a stream the receiver acknowledges in its own time, or on
    /// request.
    fn hurries(&self, len: usize, sync: bool) -> bool {
        sync || len > UNHURRIED || self.retention.unacked_bodies() < PROMPT
    }

    /// Whether bodies are under way which the peer has not had as a whole, as far as is known.
    fn has_bodies_under_way(&self) -> bool {
        self.retention.unacked_bodies() > 0 || !self.open.is_empty()
    }

    /// The flags of a message that asks for its ack.
    fn asking(&mut self, ssn: Ssn, flags: Flags) -> Flags {
        self.unasked = ssn.next();
        flags.with(Flags::WANT_ACK)
    }

    /// Plans the frame of a message, and the bytes of its body that are not in the frame.
    fn plan_message(&mut self, ssn: Ssn, frame: Range<u64>, body: usize) {
        self.plan.push_frames(frame);
        if body > 0 {
            self.plan.push_body(ssn, body);
        }
    }

    /// Takes room in the window for an envelope, and for its body if that `fits` with it. Returns
    /// whether the body goes along, and the flags; `None`: there is no room.
    #[inline(always)]
    fn take_room(&mut self, len: usize, fits: bool) -> Option<(bool, Flags)> {
        if self.held {
            return None;
        }
        let cost = ENVELOPE_COST + if fits { len as u64 } else { 0 };
        if self.window.charge(cost) {
            return Some((fits, Flags::NONE));
        }
        // Beyond the window a body goes along that costs less than to ask for it.
        let granted = self.window.use_grant();
        granted.then_some((fits && len as u64 <= GRANTED_LIMIT, Flags::GRANTED))
    }
}

impl Channel {
    /// Whether the device has something to write on the link.
    #[inline]
    pub(crate) fn pending(&self) -> bool {
        self.up && (!self.tx.plan.is_empty() || self.ack_now || !self.tx.bulk.is_empty())
    }

    /// Completes the plan with frames that are made at the last moment: a due ack, the next data
    /// frame.
    #[inline]
    pub(crate) fn prepare(&mut self, core: &mut Core, config: &Config) {
        if self.ack_now {
            self.plan_ack(core);
        }
        if self.tx.plan.chunks() == 0 {
            self.plan_chunks(config);
        }
        if core.interval > self.tx.interval && !self.tx.plan.is_empty() {
            self.notify_interval(core.interval);
        }
    }

    pub(crate) fn plan_ack(&mut self, core: &mut Core) {
        self.plan_ack_frame(core, Flags::NONE);
    }

    /// Asks the peer to acknowledge the sent messages, unless it was asked already: the program
    /// waits for this message.
    pub(crate) fn request_ack(&mut self, core: &mut Core, ssn: Ssn) {
        if self.up && ssn >= self.tx.unasked {
            self.plan_ack_frame(core, Flags::WANT_ACK);
            self.tx.unasked = self.tx.retention.next();
        }
    }

    fn plan_ack_frame(&mut self, core: &mut Core, flags: Flags) {
        let mut header = self.header(FrameKind::Ack, Ssn(0));
        header.flags = flags;
        header.aux = self.rx.window.granted();
        header.length = self.rx.notify_kept().0;
        self.control(core, &header);
    }

    /// Plans data frames for one write: one, or as many short ones as are no longer together.
    fn plan_chunks(&mut self, config: &Config) {
        let mut room = config.chunk;
        while let Some(bulk) = self.tx.bulk.front_mut() {
            let Bulk { ssn, source, .. } = *bulk;
            let range = bulk.offset..bulk.len.min(bulk.offset + config.chunk);
            if self.tx.plan.chunks() == MOST_CHUNKS || range.len() > room {
                return;
            }
            room -= range.len();
            bulk.offset = range.end;
            if bulk.offset == bulk.len {
                self.tx.bulk.pop_front();
            }
            let mut header = self.header(FrameKind::Data, ssn);
            header.length = range.len() as u64;
            header.aux = range.start as u64;
            self.tx.plan.push_chunk(&header, source, range);
        }
    }

    /// Lists the plan for one write.
    pub(crate) fn gather<'a>(&'a self, core: &'a Core, out: &mut WriteVector<'a>) {
        let mut next = 0;
        for part in self.tx.plan.parts().take(MAX_PIECES) {
            let room = match part {
                PlannedPart::Ring(range) => self.gather_ring(range.clone(), out),
                PlannedPart::Headers { count, at } => {
                    let [a, b] = self.tx.plan.header_bytes(next..next + count, *at);
                    next += count;
                    out.push(WritePiece::Bytes(a)) && out.push(WritePiece::Bytes(b))
                }
                PlannedPart::Body { ssn, at, len } => self.gather_kept(*ssn, *at..*len, out),
                PlannedPart::Chunk { ssn, source, range } => match source {
                    BulkSource::Open => self.gather_open(core, *ssn, range.clone(), out),
                    BulkSource::Eager | BulkSource::Log => {
                        self.gather_kept(*ssn, range.clone(), out)
                    }
                },
            };
            if !room {
                return;
            }
        }
    }

    fn gather_ring<'a>(&'a self, range: Range<u64>, out: &mut WriteVector<'a>) -> bool {
        let (a, b) = self.tx.retention.slices(range);
        out.push(WritePiece::Bytes(a)) && out.push(WritePiece::Bytes(b))
    }

    /// A part of a body, wherever it is retained.
    fn gather_kept<'a>(&'a self, ssn: Ssn, range: Range<usize>, out: &mut WriteVector<'a>) -> bool {
        match self.tx.retention.body(ssn) {
            Some(SentBody::User(seg, _)) => {
                out.push(WritePiece::Memory(seg.part(range.start, range.len())))
            }
            Some(SentBody::Kept(buf) | SentBody::Logged(buf)) => {
                out.push(WritePiece::Bytes(&buf.bytes()[range]))
            }
            None => match self.tx.retention.frame(ssn) {
                Some(frame) => {
                    let body = frame.start + ENVELOPE_COST;
                    self.gather_ring(body + range.start as u64..body + range.end as u64, out)
                }
                None => false,
            },
        }
    }

    /// A part of a rendezvous body.
    fn gather_open<'a>(
        &'a self,
        core: &'a Core,
        ssn: Ssn,
        range: Range<usize>,
        out: &mut WriteVector<'a>,
    ) -> bool {
        match self
            .tx
            .open
            .find(ssn)
            .and_then(|request| core.send_of(request))
        {
            Some(send) => out.push(WritePiece::Memory(send.seg.part(range.start, range.len()))),
            None => false,
        }
    }
}

impl Channel {
    pub(crate) fn waiting(&self) -> bool {
        !self.up && !self.quiet()
    }

    /// Nothing unacknowledged, queued, planned or owed to the peer.
    pub(crate) fn quiet(&self) -> bool {
        self.awaits() && self.tx.open.is_empty() && self.tx.blocked.is_empty()
    }

    /// Whether the body of an eager message is still to be written on the present link.
    pub(crate) fn writes_body(&self, message: Ssn) -> bool {
        let tx = &self.tx;
        let eager = |of: Ssn, source| source == BulkSource::Eager && of == message;
        let planned = |part: &PlannedPart| match part {
            PlannedPart::Body { ssn, .. } => *ssn == message,
            PlannedPart::Chunk { ssn, source, .. } => eager(*ssn, *source),
            _ => false,
        };
        let waits = tx.resend.is_some_and(|next| next <= message);
        waits || tx.plan.parts().any(planned) || tx.bulk.iter().any(|b| eager(b.ssn, b.source))
    }

    /// Nothing is unacknowledged, and no body is left that is sent though its send is over.
    pub(crate) fn has_all(&self) -> bool {
        self.quiet() && self.tx.owed.is_empty() && self.tx.served.is_empty()
    }

    /// Whether [`Channel::quiet`] holds, except for sends that wait only for a report of the peer.
    pub(crate) fn awaits(&self) -> bool {
        let tx = &self.tx;
        let written = tx.plan.is_empty() && tx.bulk.is_empty() && !self.ack_now;
        tx.retention.is_acknowledged() && written && !tx.may_lack && tx.resend.is_none()
    }
}

/// Replaces a medium body in user memory by a copy, unless it is being written.
pub(crate) fn detach<'a>(
    channel: &'a mut Channel,
    core: &'a mut Core,
    config: &Config,
    request: u32,
    message: Ssn,
) -> Detach<'a> {
    // An acknowledged body is copied into the log anyway.
    let acknowledged = message < channel.tx.retention.unacked();
    if acknowledged || channel.writes_body(message) || channel.tx.full(config) {
        return Detach::Wait;
    }
    match channel.tx.retention.body_mut(message) {
        Some(body @ SentBody::User(..)) => {
            let SentBody::User(from, _) = *body else {
                return Detach::Wait;
            };
            *body = SentBody::Kept(if channel.across {
                core.pool.take_logged(from.len)
            } else {
                core.pool.take(from.len)
            });
            channel.tx.detached += from.len;
            core.update_send(request, |send| send.needs_ack = false);
            match body {
                SentBody::Kept(buf) => Detach::Copy {
                    from,
                    into: buf.bytes_mut(),
                },
                SentBody::User(..) | SentBody::Logged(_) => Detach::Wait,
            }
        }
        _ => Detach::Wait,
    }
}
