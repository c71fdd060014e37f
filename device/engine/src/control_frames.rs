//! Words about messages: acknowledged, credited, clear to send, finished, matched.

use rejoin_channel_table::ids::Ssn;

use crate::bulk::{Bulk, BulkSource};
use crate::channel_state::SentBody;
use crate::error::ProtocolError;
use crate::frame::{Flags, FrameKind, Header};
use crate::omission::Omission;
use crate::requests::Send;
use crate::tx::SendContext;
use crate::write_plan::PlannedPart;

impl SendContext<'_> {
    /// The peer has all envelopes below `ack` with their eager bodies.
    #[inline(always)]
    pub(crate) fn acknowledged(&mut self, ack: Ssn) -> Result<(), ProtocolError> {
        let tx = &mut self.channel.tx;
        if ack <= tx.retention.unacked() {
            return Ok(());
        }
        // Nothing is left to be written, nothing waits, and all of it lies in the ring.
        let idle = tx.plan.is_empty() && tx.bulk.is_empty() && tx.blocked.is_empty();
        if idle && ack <= tx.retention.next() && tx.retention.release_acknowledged(ack) {
            return Ok(());
        }
        self.reborrow().acknowledged_beside_others(ack)
    }

    /// The same context for a call that is seldom made: this one may stay in registers.
    #[inline(always)]
    fn reborrow(&mut self) -> SendContext<'_> {
        SendContext {
            channel: self.channel,
            core: self.core,
            config: self.config,
        }
    }

    /// An ack of something new, whatever else there is.
    #[inline(never)]
    fn acknowledged_beside_others(&mut self, ack: Ssn) -> Result<(), ProtocolError> {
        self.take_ack(ack)?;
        // A message may wait for room in the retention.
        if !self.channel.tx.blocked.is_empty() {
            self.drain_queues();
        }
        Ok(())
    }

    /// Takes an ack for the caller that is sending what waits.
    pub(crate) fn take_ack(&mut self, ack: Ssn) -> Result<(), ProtocolError> {
        let ack = self.clamp_ack(ack)?;
        // The rest concerns messages that this rank has not sent yet.
        if ack <= self.channel.tx.retention.unacked() {
            return Ok(());
        }
        if !self.can_be_acknowledged(ack) {
            return Err(ProtocolError::FalseAck(ack));
        }
        let core = &mut *self.core;
        let (across, peer) = (self.channel.across, self.channel.peer);
        let tx = &mut self.channel.tx;
        let (detached, logged) = (&mut tx.detached, &mut tx.logged);
        tx.retention.acknowledge(ack, |ssn, body| match body {
            SentBody::User(_, request) if across && !core.omits(Omission::EagerCopy) => {
                core.log_eager(*request, peer, ssn);
            }
            SentBody::User(_, request) => core.update_send(*request, |send| send.needs_ack = false),
            SentBody::Kept(buf) => {
                *detached -= buf.len();
                *logged += buf.len() as u64;
                *body = SentBody::Logged(std::mem::take(buf));
            }
            SentBody::Logged(_) => (),
        });
        self.release();
        Ok(())
    }

    /// Nothing that is still to be written can have been received.
    fn can_be_acknowledged(&self, ack: Ssn) -> bool {
        let tx = &self.channel.tx;
        if tx.resend.is_some_and(|next| next < ack) {
            return false;
        }
        if tx.plan.is_empty() && tx.bulk.is_empty() {
            return ack <= tx.retention.next();
        }
        let Some(last) = ack
            .0
            .checked_sub(1)
            .and_then(|last| tx.retention.frame(Ssn(last)))
        else {
            return false;
        };
        let unwritten = |part: &PlannedPart| match part {
            PlannedPart::Ring(range) => range.start < last.end,
            PlannedPart::Body { ssn, .. } => *ssn < ack,
            PlannedPart::Chunk { ssn, source, .. } => *source == BulkSource::Eager && *ssn < ack,
            PlannedPart::Headers { .. } => false,
        };
        let resent = |bulk: &Bulk| bulk.source == BulkSource::Eager && bulk.ssn < ack;
        !tx.plan.parts().any(unwritten) && !tx.bulk.iter().any(resent)
    }

    /// The peer has given back so much of the window in all.
    #[inline(always)]
    pub(crate) fn credited(&mut self, total: u64) -> Result<(), ProtocolError> {
        let more = self.channel.tx.window.credit(total);
        let more = more.map_err(|_| ProtocolError::FalseCredit)?;
        if more && self.channel.tx.waits_for_window() {
            self.reborrow().drain_queues();
        }
        Ok(())
    }

    /// A frame without a body.
    pub(crate) fn control(&mut self, header: &Header) -> Result<(), ProtocolError> {
        match header.kind {
            FrameKind::Ack => {
                if self.channel.tx.window.grant(header.aux) {
                    self.drain_queues();
                }
                self.peer_keeps(header, header.ack);
                if header.flags.has(Flags::WANT_ACK) && self.channel.owes() {
                    self.channel.ack_soon(self.core);
                }
                Ok(())
            }
            FrameKind::Cts => self.cleared(header),
            FrameKind::Finish => self.finished(header),
            FrameKind::Matched => self.matched(header),
            FrameKind::CancelRequest => self.cancel_requested(header),
            FrameKind::CancelReply => self.cancel_replied(header),
            FrameKind::Interval => self.depends_on(header),
            FrameKind::Image => self.peer_has_image(header),
            FrameKind::Eager | FrameKind::Rts | FrameKind::Data => Ok(()),
        }
    }

    /// The request of the message that a control frame is about; `None` for one that is over,
    /// about which a frame may come twice.
    fn subject(&self, header: &Header) -> Result<Option<(u32, &Send)>, ProtocolError> {
        if header.ssn >= self.channel.tx.retention.next() {
            return Err(pointless(header));
        }
        let request = self.channel.tx.open.find(header.ssn);
        Ok(request.and_then(|request| Some((request, self.core.send_of(request)?))))
    }

    /// The frame says below which message the peer keeps all; it has all below `has`.
    fn peer_keeps(&mut self, header: &Header, has: Ssn) {
        if self.channel.across {
            let kept = Ssn(header.length);
            self.channel.tx.peer_keeps = kept >= has && has > Ssn(0);
            self.peer_committed(kept);
        }
    }

    fn cleared(&mut self, header: &Header) -> Result<(), ProtocolError> {
        if self.concerns_unsent(header) {
            return Ok(());
        }
        let Some((request, send)) = self.subject(header)? else {
            self.start_logged_body(header.ssn);
            return Ok(());
        };
        if !send.rendezvous {
            return Err(pointless(header));
        }
        if send.needs_finish && !send.clear {
            self.start_body(request, header.ssn);
        }
        Ok(())
    }

    /// Queues the body of a rendezvous message.
    pub(crate) fn start_body(&mut self, request: u32, ssn: Ssn) {
        let mut len = 0;
        self.core.update_send(request, |send| {
            send.clear = true;
            len = send.seg.len;
        });
        if len > 0 {
            self.channel.tx.bulk.push_back(Bulk {
                ssn,
                source: BulkSource::Open,
                offset: 0,
                len,
            });
            self.channel.mark_ready(self.core);
        }
    }

    fn finished(&mut self, header: &Header) -> Result<(), ProtocolError> {
        // Also of a message whose send is over: the receiver says it once.
        self.peer_keeps(header, Ssn(header.ssn.0.saturating_add(1)));
        if self.concerns_unsent(header) {
            return Ok(());
        }
        let Some((request, send)) = self.subject(header)? else {
            let tx = &mut self.channel.tx;
            tx.served.retain(|ssn| *ssn != header.ssn);
            tx.owed.retain(|ssn| *ssn != header.ssn);
            return Ok(());
        };
        let planned = |part: &PlannedPart| matches!(part, PlannedPart::Chunk { ssn, source: BulkSource::Open, .. } if *ssn == header.ssn);
        let tx = &self.channel.tx;
        // A peer that reads the body itself asks for nothing.
        let sent = send.clear || send.seg.len == 0 || send.offered;
        let written = sent
            && !tx.plan.parts().any(planned)
            && !tx.bulk.iter().any(|bulk| bulk.ssn == header.ssn);
        if !send.rendezvous || (send.needs_finish && !written) {
            return Err(pointless(header));
        }
        self.body_received(request, header.ssn);
        Ok(())
    }

    fn matched(&mut self, header: &Header) -> Result<(), ProtocolError> {
        if self.concerns_unsent(header) {
            return Ok(());
        }
        let Some((request, send)) = self.subject(header)? else {
            return Ok(());
        };
        if !send.sync {
            return Err(pointless(header));
        }
        self.settle(request, header.ssn, |send| send.needs_match = false);
        Ok(())
    }

    /// Changes the events that an open send waits for; it is closed when no frame for it can come.
    pub(crate) fn settle(&mut self, request: u32, ssn: Ssn, change: impl FnOnce(&mut Send)) {
        let mut open = true;
        self.core.update_send(request, |send| {
            change(send);
            open = send.needs_finish || send.needs_match || send.cancel.is_some();
        });
        if !open {
            self.channel.tx.open.remove(ssn);
        }
    }
}

pub(crate) fn pointless(header: &Header) -> ProtocolError {
    ProtocolError::Pointless {
        kind: header.kind,
        ssn: header.ssn,
    }
}
