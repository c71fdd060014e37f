//! Frames that are sent again on a new link.
//!
//! The receiver's resume says what it has taken, and its window paces the rest. A receiver that
//! has come back from the past lacks more than its window takes. Each frame gets a new header: ack,
//! credit and epoch are those of now. Between groups it offers no memory to read, because the send
//! may be over.

use rejoin_channel_table::ids::Ssn;

use crate::channel_state::SentBody;
use crate::frame::{Flags, FrameKind, GRANTED_LIMIT, HEADER_LEN, Header};
use crate::omission::Omission;
use crate::tx::{ENVELOPE_COST, SendContext};

impl crate::channel_state::Tx {
    /// Whether a message waits for room in the window.
    #[inline]
    pub(crate) fn waits_for_window(&self) -> bool {
        !self.blocked.is_empty() || self.resend.is_some()
    }

    /// Closes the window to new messages while others are sent again, while the peer has what this
    /// rank has not sent yet, and while the log is full.
    pub(crate) fn limit_window(&mut self) {
        let closed = self.resend.is_some() || self.ahead.is_some() || self.held;
        self.window.close(closed);
    }

    /// Length of a body that is retained, in the ring or outside of it.
    pub(crate) fn body_len(&self, ssn: Ssn) -> Option<usize> {
        let frame = self.retention.frame(ssn)?;
        let in_ring = (frame.end - frame.start - ENVELOPE_COST) as usize;
        Some(self.retention.body(ssn).map_or(in_ring, SentBody::len))
    }
}

impl SendContext<'_> {
    /// Sends frames again, as far as the window allows.
    pub(crate) fn continue_resend(&mut self) {
        if !self.channel.up {
            return;
        }
        while let Some(ssn) = self.channel.tx.resend {
            if ssn >= self.channel.tx.retention.next() {
                self.channel.tx.resend = None;
                self.channel.tx.limit_window();
            } else if self.send_again(ssn) {
                self.channel.tx.resend = Some(ssn.next());
            } else {
                return;
            }
        }
    }

    /// Plans a frame again. False if it must wait for the window.
    fn send_again(&mut self, ssn: Ssn) -> bool {
        let retained = self.channel.tx.retention.header::<HEADER_LEN>(ssn);
        let Some(Ok(mut header)) = retained.map(|bytes| Header::decode(&bytes)) else {
            debug_assert!(false, "a frame that was not released has a header");
            return true;
        };
        let Some(flags) = self.charge_again(&mut header) else {
            return false;
        };
        let fresh = self.channel.header(header.kind, ssn);
        header.flags = flags;
        (header.epoch, header.ack, header.credit) = (fresh.epoch, fresh.ack, fresh.credit);
        if self.channel.across && !self.core.omits(Omission::ForgottenAddress) {
            header.aux = 0;
        }
        if self.channel.across {
            self.wait_anew(ssn, header.kind);
        }
        let tx = &mut self.channel.tx;
        if header.kind == FrameKind::Rts && tx.open.find(ssn).is_none() {
            tx.owed.push(ssn);
        }
        tx.retention.replace_header(ssn, &header.encode());
        let Some(frame) = tx.retention.frame(ssn) else {
            return true;
        };
        if header.kind == FrameKind::Eager {
            tx.plan.push_frames(frame);
            if let Some(len) = tx.retention.body(ssn).map(SentBody::len) {
                tx.plan.push_body(ssn, len);
            }
        } else {
            tx.plan
                .push_frames(frame.start..frame.start + ENVELOPE_COST);
        }
        self.channel.mark_ready(self.core);
        true
    }

    /// Takes room for a frame, or a grant; `None` if there is neither. Between groups a body that
    /// no grant covers goes by rendezvous: a receiver of the past may need the envelopes behind it.
    fn charge_again(&mut self, header: &mut Header) -> Option<Flags> {
        let window = &mut self.channel.tx.window;
        let flags = header.flags.without(Flags::GRANTED);
        let granted = flags.with(Flags::GRANTED);
        if header.flags.has(Flags::GRANTED) && window.use_grant() {
            return Some(granted);
        }
        let fits = window.charge_again(ENVELOPE_COST + header.body_len());
        if fits || self.core.omits(Omission::PacedResend) {
            return Some(flags);
        }
        if !self.channel.across || !window.use_grant() {
            return None;
        }
        if header.body_len() > GRANTED_LIMIT {
            header.kind = FrameKind::Rts;
        }
        Some(granted)
    }

    /// Between groups, a send that is not over waits for what its frame leads to now. The peer may
    /// have had the message in another way before it came back.
    fn wait_anew(&mut self, ssn: Ssn, kind: FrameKind) {
        let Some(request) = self.live_request(ssn) else {
            return;
        };
        let body = self.channel.tx.retention.body(ssn);
        let user = matches!(body, Some(SentBody::User(..)));
        let Some(send) = self.core.send_of(request) else {
            return;
        };
        let eager = kind == FrameKind::Eager;
        let needs_match = eager && send.sync;
        if !eager || needs_match || send.cancel.is_some() {
            self.channel.tx.open.insert(ssn, request);
        } else {
            self.channel.tx.open.remove(ssn);
        }
        self.core.update_send(request, |send| {
            send.rendezvous = !eager;
            send.needs_finish = !eager;
            send.needs_match = needs_match;
            send.needs_ack = eager && user;
        });
    }
}
