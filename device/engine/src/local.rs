//! Matching inside the rank: receives that match unexpected messages, and messages to itself.

use rejoin_channel_table::ids::{Rank, Ssn};

use crate::bins::{BinLink, CLASSES};
use crate::engine::Engine;
use crate::frame::FrameKind;
use crate::pool::Buf;
use crate::requests::{EngineRequest, HeldBody, Recv, Send, UnexpectedMessage};
use crate::rx;
use crate::tx::ENVELOPE_COST;
use crate::types::{
    BodySource, Copy, Detach, Envelope, MessageMode, Pattern, ReqId, Segment, Sent,
};

impl Engine {
    /// Binds a new receive to a message that is out of the matching lists.
    pub(crate) fn claim(&mut self, at: u32, seg: Segment) -> ReqId {
        let message = &mut self.core.messages[at];
        let pattern = Pattern {
            from: Some(message.peer),
            context: message.envelope.context,
            ..Pattern::default()
        };
        let mut recv = Recv::new(pattern, seg);
        recv.bind(&message.envelope, message.len);
        let request = self.core.requests.insert(EngineRequest::Recv(recv));
        message.bound = Some(request);
        let id = ReqId(self.core.requests.id(request));
        let (peer, ssn, len) = (message.peer, message.ssn, message.len);
        let (sync, granted) = (message.sync, message.granted);
        let (remote, arriving) = match message.body {
            HeldBody::Remote(from) => (Some(from), false),
            HeldBody::Arriving(_) => (None, true),
            HeldBody::Ready(_) | HeldBody::Own(..) => (None, false),
        };
        if remote.is_none() && !arriving {
            self.core.copy_soon(at);
        }
        if peer == self.me {
            return id;
        }
        let config = self.config;
        let context = rx::context(&mut self.channels, &mut self.core, &config, peer);
        if let Some(mut rx) = context {
            if let Some(from) = remote {
                rx.core.messages.remove(at);
                rx.clear_to_send(ssn, len, request, (granted, sync), from);
            } else if sync {
                rx.send_control(FrameKind::Matched, ssn);
            }
        }
        id
    }

    /// The next body that is in memory and goes into a user segment, now: its receive is complete
    /// when the device has copied it.
    #[inline]
    pub fn next_copy(&mut self) -> Option<Copy<'_>> {
        while let Some(at) = self.core.copies.pop_front() {
            let Some(message) = self.core.messages.remove(at) else {
                continue;
            };
            let Some(request) = message.bound else {
                continue;
            };
            let room = self.core.recv_segment(request).len;
            let to = self
                .core
                .recv_segment(request)
                .part(0, message.len as usize);
            let len = room.min(message.len as usize);
            self.core.recv_done(request);
            match message.body {
                HeldBody::Ready(buf) => {
                    if !message.restored {
                        self.release(message.peer, message.len, message.granted);
                    }
                    let before = std::mem::replace(&mut self.core.copied, buf);
                    self.core.pool.put(before);
                    if len > 0 {
                        return Some(Copy {
                            from: BodySource::Bytes(&self.core.copied.bytes()[..len]),
                            to,
                        });
                    }
                }
                HeldBody::Own(from, send) => {
                    if let Some(send) = send {
                        self.core.update_send(send, |send| send.needs_match = false);
                    }
                    if len > 0 {
                        return Some(Copy {
                            from: BodySource::Memory(from.part(0, len)),
                            to,
                        });
                    }
                }
                HeldBody::Arriving(_) | HeldBody::Remote(_) => (),
            }
        }
        None
    }

    /// A buffered body is consumed.
    fn release(&mut self, peer: Rank, len: u64, granted: bool) {
        let config = self.config;
        if peer == self.me {
            self.core.own_bytes = self.core.own_bytes.saturating_sub(ENVELOPE_COST + len);
            return;
        }
        let context = rx::context(&mut self.channels, &mut self.core, &config, peer);
        if let Some(mut rx) = context {
            rx.consumed(granted, ENVELOPE_COST + len);
        }
    }

    /// A message to this rank itself. Small ones are buffered as long as the window has room for
    /// them; others stay where they are until a receive takes them.
    pub(crate) fn send_to_self(
        &mut self,
        env: Envelope,
        seg: Segment,
        bytes: Option<&[u8]>,
        mode: MessageMode,
    ) -> Sent {
        let core = &mut self.core;
        let bound = core.match_posted(&env, seg.len as u64);
        let cost = ENVELOPE_COST + seg.len as u64;
        let mut message = UnexpectedMessage {
            peer: self.me,
            ssn: Ssn(0),
            envelope: env,
            len: seg.len as u64,
            sync: false,
            granted: false,
            restored: false,
            body: HeldBody::Own(seg, None),
            bound,
            order: 0,
            links: [BinLink::NONE; CLASSES],
        };
        if bound.is_some() {
            let at = core.keep_message(message, false);
            core.copy_soon(at);
            return Sent::Done;
        }
        if let Some(bytes) = bytes
            && mode != MessageMode::Synchronous
            && core.own_bytes + cost <= self.config.window
        {
            core.own_bytes += cost;
            let mut buf = core.pool.take(bytes.len());
            buf.bytes_mut().copy_from_slice(bytes);
            message.body = HeldBody::Ready(buf);
            core.keep_message(message, true);
            return Sent::Done;
        }
        let request = core.requests.insert(EngineRequest::Send(Send {
            peer: self.me,
            ssn: Ssn(0),
            seg,
            held: Buf::default(),
            envelope: env,
            sync: mode == MessageMode::Synchronous,
            blocking: false,
            blocked: false,
            needs_ack: false,
            needs_match: true,
            rendezvous: false,
            needs_finish: false,
            clear: false,
            offered: false,
            cancel: None,
            cancelled: false,
            freed: false,
        }));
        message.body = HeldBody::Own(seg, Some(request));
        let at = core.keep_message(message, true);
        // It needs no sequence number; its place in the slab finds it.
        core.update_send(request, |send| send.ssn = Ssn(u64::from(at)));
        Sent::Pending(ReqId(core.requests.id(request)))
    }

    /// The message of a send to this rank itself, while no receive or matched probe has it.
    fn own_message(&self, request: u32) -> Option<u32> {
        let send = self.core.send_of(request)?;
        (send.needs_match).then_some(())?;
        let at = u32::try_from(send.ssn.0).ok()?;
        let message = &self.core.messages[at];
        (message.bound.is_none() && message.links[0].listed()).then_some(at)
    }

    /// Cancels a send to this rank itself, unless it is too late.
    pub(crate) fn cancel_own(&mut self, request: u32) {
        let Some(at) = self.own_message(request) else {
            return;
        };
        let core = &mut self.core;
        core.matching.remove(&mut core.messages, at);
        core.messages.remove(at);
        core.update_send(request, |send| {
            send.cancelled = true;
            send.needs_match = false;
        });
    }

    /// Completes a send to this rank itself by a copy, if it is no larger than an eager one and
    /// there is room.
    pub(crate) fn detach_own(&mut self, request: u32) -> Detach<'_> {
        let Some(at) = self.own_message(request) else {
            return Detach::Wait;
        };
        let Some(from) = self.core.send_of(request).map(|send| send.seg) else {
            return Detach::Wait;
        };
        let cost = ENVELOPE_COST + from.len as u64;
        let core = &mut self.core;
        if from.len > self.config.eager_max || core.own_bytes + cost > self.config.window {
            return Detach::Wait;
        }
        core.own_bytes += cost;
        core.update_send(request, |send| send.needs_match = false);
        core.messages[at].body = HeldBody::Ready(core.pool.take(from.len));
        match &mut core.messages[at].body {
            HeldBody::Ready(buf) => Detach::Copy {
                from,
                into: buf.bytes_mut(),
            },
            _ => Detach::Wait,
        }
    }
}
