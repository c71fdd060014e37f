//! The receiving side: headers, where their bodies go, and the end of bodies.

use rejoin_channel_table::ids::{Rank, Ssn};
use rejoin_logging::Arrival;

use crate::bins::{BinLink, CLASSES};
use crate::channel_state::{Channel, Current};
use crate::core_state::Core;
use crate::engine::Engine;
use crate::error::ProtocolError;
use crate::frame::{Flags, FrameKind, GRANTED_LIMIT, Header};
use crate::partial_bodies::{Partial, Target};
use crate::requests::{HeldBody, UnexpectedMessage};
use crate::tx::{ENVELOPE_COST, SendContext};
use crate::types::{RxBody, Segment};

impl Engine {
    /// Takes a header of the peer and says where its body goes.
    ///
    /// # Errors
    /// The peer broke the protocol: close the link, nothing of this frame was taken but its ack.
    /// [`ProtocolError::LaterEpoch`] leaves everything untouched and is no fault of the peer.
    #[inline]
    pub fn rx_header(&mut self, peer: Rank, header: &Header) -> Result<RxBody, ProtocolError> {
        if peer == self.me {
            return Err(ProtocolError::NotAPeer(peer));
        }
        self.accepts_epoch(header.epoch)?;
        let config = self.config;
        let (channel, core) = self
            .channel(peer)
            .map_err(|_| ProtocolError::NotAPeer(peer))?;
        if channel.rx.current.is_some() {
            return Err(ProtocolError::WithinBody);
        }
        let mut rx = SendContext {
            channel,
            core,
            config: &config,
        };
        rx.acknowledged(header.ack)?;
        rx.credited(header.credit)?;
        match header.kind {
            FrameKind::Eager => rx.eager(header),
            FrameKind::Rts => rx.ready_to_send(header),
            FrameKind::Data => rx.data(header),
            _ => rx.control(header).map(|()| RxBody::None),
        }
    }

    /// The engine's buffer for the body being read: after [`RxBody::Buffer`], until `rx_done`.
    /// It has the body's length; at any other time it is empty.
    #[inline]
    pub fn rx_buffer(&mut self, peer: Rank) -> &mut [u8] {
        let Some(Some(channel)) = self.channels.get_mut(peer.index()) else {
            return &mut [];
        };
        let Some(current) = &channel.rx.current else {
            return &mut [];
        };
        let Target::Message(at) = current.target else {
            return &mut [];
        };
        match &mut self.core.messages[at].body {
            HeldBody::Arriving(buf) => {
                &mut buf.bytes_mut()[current.offset..current.offset + current.len]
            }
            _ => &mut [],
        }
    }

    /// The body that the last header announced is in its place.
    ///
    /// # Errors
    /// [`ProtocolError::NoBody`] when no body was announced.
    #[inline]
    pub fn rx_done(&mut self, peer: Rank) -> Result<(), ProtocolError> {
        let config = self.config;
        let (channel, core) = self
            .channel(peer)
            .map_err(|_| ProtocolError::NotAPeer(peer))?;
        let current = channel.rx.current.take().ok_or(ProtocolError::NoBody)?;
        let mut rx = SendContext {
            channel,
            core,
            config: &config,
        };
        if current.kind == FrameKind::Eager {
            let whole = (current.len, current.sync);
            rx.channel
                .log_whole(rx.core, current.ssn, current.target, whole);
            rx.eager_done(
                current.target,
                current.len,
                current.granted,
                current.want_ack,
            );
        } else {
            rx.data_done(&current);
        }
        Ok(())
    }
}

impl SendContext<'_> {
    /// Judges an envelope: whether it is new. Notes what it costs.
    fn admit(&mut self, header: &Header) -> Result<bool, ProtocolError> {
        let rx = &mut self.channel.rx;
        match rx.order.judge(header.ssn) {
            Arrival::New => (),
            Arrival::Duplicate => return Ok(false),
            Arrival::Gap => {
                return Err(ProtocolError::Gap {
                    expected: rx.order.next(),
                    got: header.ssn,
                });
            }
        }
        let exceeded = |_| ProtocolError::WindowExceeded;
        if header.flags.has(Flags::GRANTED) {
            rx.window.take_grant().map_err(exceeded)?;
            self.core.grant_used(header.body_len());
        } else {
            let cost = ENVELOPE_COST + header.body_len();
            rx.window.take(cost).map_err(exceeded)?;
        }
        rx.order.take();
        Ok(true)
    }

    #[inline]
    fn eager(&mut self, header: &Header) -> Result<RxBody, ProtocolError> {
        let len = header.length as usize;
        let granted = header.flags.has(Flags::GRANTED);
        if len > self.config.eager_max || (granted && header.length > GRANTED_LIMIT) {
            return Err(ProtocolError::TooLong(header.length));
        }
        let (target, body) = if self.admit(header)? {
            match self.core.match_posted(&header.envelope, header.length) {
                Some(request) => {
                    let seg = self.core.recv_segment(request);
                    (Target::Request(request), into(seg, 0, len))
                }
                None => {
                    let body = HeldBody::Arriving(self.core.pool.take(len));
                    let message = self.unexpected(header, body);
                    (Target::Message(message), RxBody::Buffer)
                }
            }
        } else {
            (Target::Nowhere, RxBody::Discard(header.length))
        };
        // Before any frame is made: its ack must not cover the body that is still to come.
        let want_ack = header.flags.has(Flags::WANT_ACK);
        let sync = header.flags.has(Flags::SYNC);
        if len > 0 {
            self.channel.rx.current = Some(Current {
                kind: FrameKind::Eager,
                ssn: header.ssn,
                target,
                want_ack,
                granted,
                sync,
                offset: 0,
                len,
            });
        }
        if sync && matches!(target, Target::Request(_)) {
            self.send_control(FrameKind::Matched, header.ssn);
        }
        if len == 0 {
            self.channel
                .log_whole(self.core, header.ssn, target, (0, sync));
            self.eager_done(target, 0, granted, want_ack);
            return Ok(RxBody::None);
        }
        Ok(body)
    }

    fn unexpected(&mut self, header: &Header, body: HeldBody) -> u32 {
        let message = UnexpectedMessage {
            peer: self.channel.peer,
            ssn: header.ssn,
            envelope: header.envelope,
            len: header.length,
            sync: header.flags.has(Flags::SYNC),
            granted: header.flags.has(Flags::GRANTED),
            restored: false,
            body,
            bound: None,
            order: 0,
            links: [BinLink::NONE; CLASSES],
        };
        self.core.keep_message(message, true)
    }

    pub(crate) fn send_control(&mut self, kind: FrameKind, ssn: Ssn) {
        self.channel.send_control(self.core, kind, ssn);
    }

    fn ready_to_send(&mut self, header: &Header) -> Result<RxBody, ProtocolError> {
        if !self.admit(header)? {
            return Ok(RxBody::None);
        }
        self.channel.rx.unacked += ENVELOPE_COST;
        match self.core.match_posted(&header.envelope, header.length) {
            Some(request) => {
                let granted = header.flags.has(Flags::GRANTED);
                let flags = (granted, header.flags.has(Flags::SYNC));
                self.clear_to_send(header.ssn, header.length, request, flags, header.aux);
            }
            None => {
                self.unexpected(header, HeldBody::Remote(header.aux));
            }
        }
        // Envelopes beyond the window bring no credit; without acks the sender's retention fills.
        self.channel.owed(self.core, self.config);
        Ok(RxBody::None)
    }

    /// A rendezvous message has matched its receive: its envelope is consumed. Its body may come,
    /// or this rank reads the body itself, `from` its sender's memory.
    pub(crate) fn clear_to_send(
        &mut self,
        ssn: Ssn,
        len: u64,
        request: u32,
        (granted, sync): (bool, bool),
        from: u64,
    ) {
        self.consumed(granted, ENVELOPE_COST);
        if len == 0 {
            self.channel.finish(self.core, ssn, request, (0, sync));
            return;
        }
        self.channel.rx.partial.insert(Partial {
            ssn,
            eager: false,
            want_ack: false,
            granted,
            sync,
            target: Target::Request(request),
            received: 0,
            len,
        });
        if self.channel.access.ours && from != 0 {
            self.plan_get(ssn, len, request, from);
        } else {
            self.send_control(FrameKind::Cts, ssn);
        }
    }

    fn data(&mut self, header: &Header) -> Result<RxBody, ProtocolError> {
        let Some(partial) = self.channel.rx.partial.get(header.ssn) else {
            return Err(ProtocolError::UnexpectedData(header.ssn));
        };
        let left = partial.len - partial.received;
        if header.aux != partial.received || header.length == 0 || header.length > left {
            return Err(ProtocolError::Misplaced {
                ssn: header.ssn,
                offset: header.aux,
            });
        }
        let (offset, len) = (header.aux as usize, header.length as usize);
        let body = match partial.target {
            Target::Request(request) => into(self.core.recv_segment(request), offset, len),
            Target::Message(_) => RxBody::Buffer,
            Target::Nowhere => RxBody::Discard(header.length),
        };
        self.channel.rx.current = Some(Current {
            kind: FrameKind::Data,
            ssn: header.ssn,
            target: partial.target,
            want_ack: partial.want_ack,
            granted: partial.granted,
            sync: partial.sync,
            offset,
            len,
        });
        Ok(body)
    }

    fn data_done(&mut self, current: &Current) {
        let partial = &mut self.channel.rx.partial;
        let Some(partial) = partial.receive(current.ssn, current.len) else {
            return;
        };
        let len = partial.len as usize;
        let of = (len, partial.sync);
        if partial.eager {
            self.channel
                .log_whole(self.core, partial.ssn, partial.target, of);
            self.eager_done(partial.target, len, partial.granted, partial.want_ack);
            self.decide_cancels(partial.ssn);
        } else if let Target::Request(request) = partial.target {
            self.channel.finish(self.core, partial.ssn, request, of);
        }
    }

    /// The whole body of an eager message is in memory.
    #[inline]
    pub(crate) fn eager_done(&mut self, target: Target, len: usize, granted: bool, want_ack: bool) {
        let cost = ENVELOPE_COST + len as u64;
        match target {
            Target::Nowhere => return,
            Target::Request(request) => {
                self.core.recv_done(request);
                self.give_back(granted, cost);
            }
            Target::Message(at) => {
                let message = &mut self.core.messages[at];
                if let HeldBody::Arriving(buf) = &mut message.body {
                    message.body = HeldBody::Ready(std::mem::take(buf));
                }
                if message.bound.is_some() {
                    self.core.copy_soon(at);
                }
            }
        }
        self.channel.rx.unacked += cost;
        if want_ack {
            self.channel.ack_soon(self.core);
        } else {
            self.channel.owed(self.core, self.config);
        }
    }

    /// An envelope, or a body with it, has left the memory of unexpected messages.
    pub(crate) fn consumed(&mut self, granted: bool, cost: u64) {
        self.give_back(granted, cost);
        self.channel.owed(self.core, self.config);
    }

    #[inline]
    fn give_back(&mut self, granted: bool, cost: u64) {
        if granted {
            self.core.grant_over(cost - ENVELOPE_COST);
        } else {
            self.channel.rx.window.give_back(cost);
        }
    }
}

/// A part of a body into a buffer that may be too short for it.
#[inline]
fn into(seg: Segment, offset: usize, len: usize) -> RxBody {
    let into = seg.part(offset, len);
    let discard = (len - into.len) as u64;
    if into.len == 0 {
        RxBody::Discard(discard)
    } else {
        RxBody::Into { into, discard }
    }
}

impl Channel {
    /// The link is lost: the body that was being read comes again as a whole.
    pub(crate) fn interrupt(&mut self) {
        // The peer asks again.
        self.rx.undecided.clear();
        if let Some(current) = self.rx.current.take()
            && current.kind == FrameKind::Eager
            && current.target != Target::Nowhere
        {
            self.rx.partial.insert(Partial {
                ssn: current.ssn,
                eager: true,
                // Data frames are overtaken by a control frame that asks for it.
                want_ack: true,
                granted: current.granted,
                sync: current.sync,
                target: current.target,
                received: 0,
                len: current.len as u64,
            });
        }
        self.rx.partial.restart();
    }
}

/// A context for the channel of a peer that is known to have one.
pub(crate) fn context<'a>(
    channels: &'a mut [Option<Box<Channel>>],
    core: &'a mut Core,
    config: &'a crate::config::Config,
    peer: Rank,
) -> Option<SendContext<'a>> {
    let channel = channels.get_mut(peer.index())?.as_deref_mut()?;
    Some(SendContext {
        channel,
        core,
        config,
    })
}
