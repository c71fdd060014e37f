//! A rank that has come back from the past, seen from its own side: its peers of other groups have
//! messages that it has not sent yet.

use rejoin_channel_table::ids::Ssn;

use crate::bulk::{Bulk, BulkSource};
use crate::channel_state::SentBody;
use crate::error::ProtocolError;
use crate::frame::{Flags, FrameKind, Header};
use crate::omission::Omission;
use crate::peer_view::Lack;
use crate::requests::EngineRequest;
use crate::tx::SendContext;

impl SendContext<'_> {
    /// Numbers and logs a message that the peer has had, as a whole or in part. It is not written;
    /// only the part that the peer lacks is.
    pub(crate) fn send_unwritten(&mut self, request: u32, bytes: Option<&[u8]>) {
        let ssn = self.channel.tx.retention.next();
        let (lack, unmatched) = match &self.channel.tx.ahead {
            Some(view) => (view.lack(ssn), view.is_unmatched(ssn)),
            None => (Lack::Nothing, false),
        };
        let EngineRequest::Send(send) = &mut self.core.requests[request] else {
            return;
        };
        let held = std::mem::take(&mut send.held);
        let copied = bytes.unwrap_or(held.bytes());
        let in_ring = copied.len() == send.seg.len;
        let eager = !matches!(lack, Lack::ClearedBody | Lack::Match);
        send.ssn = ssn;
        send.blocked = false;
        send.rendezvous = !eager;
        send.needs_finish = false;
        send.needs_match = false;
        send.needs_ack = !in_ring;
        // It may be sent later, to a peer that has come back, too.
        let fits = send.seg.len <= self.config.eager_max || lack == Lack::EagerBody;
        let kind = if eager && fits {
            FrameKind::Eager
        } else {
            FrameKind::Rts
        };
        let (len, envelope, sync) = (send.seg.len, send.envelope, send.sync);
        let body = (!in_ring).then_some(SentBody::User(send.seg, request));
        // It reports nothing: the peer never gets it.
        let header = Header {
            kind,
            flags: if sync { Flags::SYNC } else { Flags::NONE },
            epoch: self.channel.epoch,
            envelope,
            length: len as u64,
            ssn,
            ack: Ssn(0),
            credit: 0,
            aux: 0,
        };
        let payload = if in_ring { copied } else { &[] };
        self.channel
            .tx
            .retention
            .push(&header.encode(), payload, body);
        self.core.pool.put(held);
        self.supply(ssn, Some(request), lack, unmatched);
        let told = self.channel.tx.told_ack;
        // It concerns what was just sent, and is no more than the peer has.
        let _ = self.take_ack(told);
        self.catch_up();
        self.channel.mark_ready(self.core);
    }

    /// All that the peer has had was sent: from now on messages are written.
    fn catch_up(&mut self) {
        let tx = &mut self.channel.tx;
        if tx
            .ahead
            .as_ref()
            .is_some_and(|view| view.next <= tx.retention.next())
        {
            tx.ahead = None;
            tx.limit_window();
        }
    }

    /// Whether a frame of the peer is about a message that this rank has not sent yet. If so, it
    /// counts when the message is sent.
    pub(crate) fn concerns_unsent(&mut self, header: &Header) -> bool {
        let tx = &mut self.channel.tx;
        let Some(view) = &mut tx.ahead else {
            return false;
        };
        if header.ssn < tx.retention.next() || header.ssn >= view.next {
            return false;
        }
        match header.kind {
            FrameKind::Cts => view.cleared(header.ssn),
            FrameKind::Finish => view.finished(header.ssn),
            FrameKind::Matched => view.matched(header.ssn),
            _ => return false,
        }
        true
    }

    /// The ack as far as it concerns messages that were sent.
    ///
    /// # Errors
    /// The ack concerns messages that the peer cannot have.
    pub(crate) fn clamp_ack(&mut self, ack: Ssn) -> Result<Ssn, ProtocolError> {
        let tx = &mut self.channel.tx;
        let next = tx.retention.next();
        if self.channel.across {
            tx.told_ack = tx.told_ack.max(ack);
        }
        match &tx.ahead {
            Some(view) if ack <= view.next && !self.core.omits(Omission::ClampedAck) => {
                Ok(ack.min(next))
            }
            _ if ack <= next => Ok(ack),
            _ => Err(ProtocolError::FalseAck(ack)),
        }
    }

    /// Sends what the peer lacks of a message whose envelope it has; the send waits for the events
    /// that are still to come. Between groups the message may have been sent in another way before.
    pub(crate) fn supply(&mut self, ssn: Ssn, request: Option<u32>, lack: Lack, unmatched: bool) {
        if let Some(request) = request.or_else(|| self.live_request(ssn)) {
            self.adjust(ssn, request, lack, unmatched);
        }
        match lack {
            Lack::EagerBody => self.send_body(ssn, BulkSource::Eager),
            Lack::ClearedBody => match self.channel.tx.open.find(ssn) {
                Some(request) => self.start_body(request, ssn),
                None => self.start_logged_body(ssn),
            },
            Lack::Match if self.channel.tx.open.find(ssn).is_none() => {
                self.channel.tx.owed.push(ssn);
            }
            Lack::Nothing | Lack::Match => (),
        }
    }

    /// The events that a send waits for are those that the peer's view leaves.
    fn adjust(&mut self, ssn: Ssn, request: u32, lack: Lack, unmatched: bool) {
        let user = matches!(
            self.channel.tx.retention.body(ssn),
            Some(SentBody::User(..))
        );
        let Some(send) = self.core.send_of(request) else {
            return;
        };
        let waits = matches!(lack, Lack::ClearedBody | Lack::Match);
        // A synchronous one that was eager is matched when its body is asked for.
        let finish = waits && (user || send.needs_finish || send.needs_match);
        let received = send.needs_finish && !finish && lack != Lack::EagerBody;
        let needs_match = send.sync && !waits && unmatched;
        if finish || needs_match || send.cancel.is_some() {
            self.channel.tx.open.insert(ssn, request);
        } else {
            self.channel.tx.open.remove(ssn);
        }
        if received && user {
            self.core.log_queue.push_due(self.channel.peer, ssn);
        }
        // The last step: a request that was freed may end here.
        self.core.update_send(request, |send| {
            send.rendezvous = waits || (send.rendezvous && lack != Lack::EagerBody);
            send.needs_finish = finish;
            send.needs_match = needs_match;
            send.needs_ack |= user && (received || lack == Lack::EagerBody);
            send.needs_ack &= !finish;
        });
    }

    /// The request of a message that is not complete.
    pub(crate) fn live_request(&self, ssn: Ssn) -> Option<u32> {
        let tx = &self.channel.tx;
        tx.open.find(ssn).or_else(|| match tx.retention.body(ssn) {
            Some(SentBody::User(_, request)) => Some(*request),
            _ => None,
        })
    }

    /// Sends the body of a rendezvous message whose send is over, if it is logged. The resume may
    /// ask for it, and a clear to send that was planned before the resume.
    pub(crate) fn start_logged_body(&mut self, ssn: Ssn) {
        let tx = &mut self.channel.tx;
        tx.owed.retain(|owed| *owed != ssn);
        if self.channel.across && !tx.served.contains(&ssn) {
            tx.served.push(ssn);
            self.send_body(ssn, BulkSource::Log);
        }
    }

    /// Queues a body that the retention has.
    pub(crate) fn send_body(&mut self, ssn: Ssn, source: BulkSource) {
        let Some(len) = self.channel.tx.body_len(ssn).filter(|len| *len > 0) else {
            return;
        };
        self.channel.tx.bulk.push_back(Bulk {
            ssn,
            source,
            offset: 0,
            len,
        });
        self.channel.mark_ready(self.core);
    }
}
