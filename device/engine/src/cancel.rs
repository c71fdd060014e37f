//! Cancelling sends (MPI-5.0 §3.8.4): the receiver decides whether it came in time.
//!
//! A request carries its number on this channel (`length`) and the lowest number without an answer
//! (`aux`). The receiver remembers a removed message until the request's number is below that
//! lowest number. So a request that is repeated after a lost link gets the same answer.

use rejoin_channel_table::ids::Ssn;

use crate::control_frames::pointless;
use crate::engine::Engine;
use crate::error::ProtocolError;
use crate::frame::{FrameKind, Header};
use crate::partial_bodies::Target;
use crate::requests::{EngineRequest, HeldBody, Send};
use crate::rx;
use crate::tx::{ENVELOPE_COST, SendContext};

/// Most removed messages that are remembered for one peer; beyond it cancelling comes too late.
const REMEMBERED: usize = 1 << 16;
/// Most frames that may wait to be written to a peer that continues to ask.
const UNREAD: usize = 1 << 18;

impl Engine {
    /// Cancels a send that is not complete.
    pub(crate) fn cancel_send(&mut self, at: u32) {
        let EngineRequest::Send(Send {
            peer, ssn, blocked, ..
        }) = self.core.requests[at]
        else {
            return;
        };
        if peer == self.me {
            self.cancel_own(at);
            return;
        }
        if self.groups.is_some() {
            // It always comes too late: a replay could not repeat that the peer had not matched the
            // message, and a retained message must not come back.
            return;
        }
        let config = self.config;
        let Some(mut tx) = rx::context(&mut self.channels, &mut self.core, &config, peer) else {
            return;
        };
        if blocked {
            tx.channel.tx.blocked.retain(|&waiting| waiting != at);
            tx.core.update_send(at, |send| {
                send.blocked = false;
                send.cancelled = true;
            });
            tx.drain_queues();
            return;
        }
        let number = tx.channel.tx.cancels.add(ssn);
        tx.core.update_send(at, |send| send.cancel = Some(number));
        tx.channel.tx.open.insert(ssn, at);
        // Without a link the resume asks, behind the envelope.
        if tx.channel.up {
            tx.request_cancel(number, ssn);
        }
    }
}

impl SendContext<'_> {
    pub(crate) fn request_cancel(&mut self, number: u64, ssn: Ssn) {
        let mut header = self.channel.header(FrameKind::CancelRequest, ssn);
        header.length = number;
        let lowest = self.channel.tx.cancels.lowest();
        header.aux = lowest.unwrap_or(number);
        self.channel.control(self.core, &header);
    }

    pub(crate) fn cancel_requested(&mut self, header: &Header) -> Result<(), ProtocolError> {
        // A peer that never reads the answers gets no more of them.
        let unread = self.channel.tx.plan.headers() >= UNREAD;
        if header.ssn >= self.channel.rx.order.next() || unread {
            return Err(pointless(header));
        }
        let number = header.length;
        if self.is_arriving(header.ssn) {
            // The end of the cancelled send must not wait for a receive (MPI-5.0 §3.8.4), so the
            // request needs an answer. The sender may not have its memory back while the receiver
            // still reads the body from it. A sender asks once and waits for the answer.
            let undecided = &mut self.channel.rx.undecided;
            if undecided.iter().any(|(_, ssn)| *ssn == header.ssn) {
                return Err(pointless(header));
            }
            undecided.push((number, header.ssn));
            return Ok(());
        }
        let remembered = &mut self.channel.rx.cancelled;
        remembered.retain(|(n, _)| *n >= header.aux);
        self.decide_cancel(number, header.ssn);
        Ok(())
    }

    fn decide_cancel(&mut self, number: u64, ssn: Ssn) {
        let remembered = &self.channel.rx.cancelled;
        let room = remembered.len() < REMEMBERED;
        let removed = remembered.contains(&(number, ssn)) || (room && self.remove(number, ssn));
        let mut reply = self.channel.header(FrameKind::CancelReply, ssn);
        reply.length = number;
        reply.aux = u64::from(removed);
        self.channel.control(self.core, &reply);
    }

    /// A body has come as a whole: answers the requests to cancel it.
    pub(crate) fn decide_cancels(&mut self, ssn: Ssn) {
        while let Some(at) = self.channel.rx.undecided.iter().position(|c| c.1 == ssn) {
            let (number, _) = self.channel.rx.undecided.swap_remove(at);
            self.decide_cancel(number, ssn);
        }
    }

    /// Whether the body of an unexpected message is still to come.
    fn is_arriving(&self, ssn: Ssn) -> bool {
        match self.channel.rx.partial.get(ssn).map(|body| body.target) {
            Some(Target::Message(message)) => self.core.messages[message].links[0].listed(),
            _ => false,
        }
    }

    /// Removes an unexpected message if nothing has taken it and its body is not on its way.
    fn remove(&mut self, number: u64, ssn: Ssn) -> bool {
        let peer = self.channel.peer;
        let found = self.core.messages.iter().find(|(_, message)| {
            message.peer == peer
                && message.ssn == ssn
                && message.links[0].listed()
                && !matches!(message.body, HeldBody::Arriving(_))
        });
        let Some((at, _)) = found else {
            return false;
        };
        let core = &mut *self.core;
        core.matching.remove(&mut core.messages, at);
        let Some(message) = core.messages.remove(at) else {
            return false;
        };
        let mut cost = ENVELOPE_COST;
        if let HeldBody::Ready(buf) = message.body {
            cost += buf.len() as u64;
            core.pool.put(buf);
        }
        self.consumed(message.granted, cost);
        self.channel.rx.cancelled.push((number, ssn));
        true
    }

    pub(crate) fn cancel_replied(&mut self, header: &Header) -> Result<(), ProtocolError> {
        let number = header.length;
        let tx = &self.channel.tx;
        if !tx.cancels.is_unanswered(number, header.ssn) {
            // The answer came twice, or there was no such request.
            return if tx.cancels.was_made(number) {
                Ok(())
            } else {
                Err(pointless(header))
            };
        }
        let request = tx.open.find(header.ssn);
        // A message that is clear to send was matched. Its memory may be in use by a write, so it
        // still belongs to the library.
        let matched = request.and_then(|request| self.core.send_of(request));
        if header.aux == 1 && matched.is_some_and(|send| send.clear) {
            return Err(pointless(header));
        }
        self.channel.tx.cancels.answered(number, header.ssn);
        let Some(request) = request else {
            return Ok(());
        };
        self.settle(request, header.ssn, |send| {
            send.cancel = None;
            if header.aux == 1 {
                send.cancelled = true;
                send.needs_match = false;
                send.needs_finish = false;
            }
        });
        Ok(())
    }
}
