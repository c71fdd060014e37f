//! Establishment and loss of links: the content of a resume, and the frames that are sent again.

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};
use rejoin_channel_table::resume::Resume;
use rejoin_logging::WindowTotals;

use crate::channel_state::{Channel, RemoteAccess};
use crate::core_state::Core;
use crate::engine::Engine;
use crate::error::ProtocolError;
use crate::frame::FrameKind;
use crate::omission::Omission;
use crate::peer_view::{Lack, PeerView};
use crate::requests::HeldBody;
use crate::tx::SendContext;

impl Engine {
    /// This rank's resume for a handshake: the state of the peer's messages. The peer's old link,
    /// if any, must be down.
    pub fn resume(&self, peer: Rank) -> Resume {
        let Some(channel) = self.peer(peer) else {
            let epoch = if self.is_across(peer) {
                Epoch(0)
            } else {
                self.epoch
            };
            return Resume {
                epoch,
                ..Resume::default()
            };
        };
        let totals = channel.rx.window.totals();
        let mut resume = Resume {
            epoch: channel.epoch,
            next_envelope: channel.rx.order.next(),
            taken: totals.taken,
            credit: totals.returned,
            granted: totals.granted,
            used: totals.used,
            committed: channel.rx.kept_below(),
            ..Resume::default()
        };
        for partial in channel.rx.partial.iter() {
            let list = if partial.eager {
                &mut resume.incomplete_eager
            } else {
                &mut resume.clear
            };
            list.push(partial.ssn);
        }
        for (_, message) in self.core.messages.iter() {
            if message.peer != peer || message.bound.is_some() {
                continue;
            }
            if matches!(message.body, HeldBody::Remote(_)) {
                resume.pending_rts.push(message.ssn);
            } else if message.sync {
                resume.unmatched_sync.push(message.ssn);
            }
        }
        resume.pending_rts.sort_unstable();
        resume.unmatched_sync.sort_unstable();
        resume
    }

    /// A link to the peer is open, and `resume` is the peer's resume: queues the frames that the
    /// peer lacks.
    ///
    /// # Errors
    /// The resume is impossible: close the link. [`ProtocolError::LaterEpoch`] changes nothing and
    /// is no fault of the peer. A resume is an ack, which this rank may accept only after it has
    /// taken its image and called [`Engine::set_epoch`].
    pub fn link_up(&mut self, peer: Rank, resume: &Resume) -> Result<(), ProtocolError> {
        if peer == self.me {
            return Err(ProtocolError::NotAPeer(peer));
        }
        self.accepts_epoch(resume.epoch)?;
        if self.is_up(peer) {
            self.link_down(peer);
        }
        let config = self.config;
        let (channel, core) = self
            .channel(peer)
            .map_err(|_| ProtocolError::NotAPeer(peer))?;
        let mut link = SendContext {
            channel,
            core,
            config: &config,
        };
        let done = link.resumed(resume);
        if done.is_err() {
            self.link_down(peer);
        }
        done
    }

    /// Whether a resume or frame of `epoch` may be accepted now.
    ///
    /// # Errors
    /// [`ProtocolError::LaterEpoch`]: take the image first. A device that asks before it lets the
    /// table admit or establish a link need not undo that.
    #[inline]
    pub fn accepts_epoch(&self, epoch: Epoch) -> Result<(), ProtocolError> {
        if epoch > self.epoch {
            return Err(ProtocolError::LaterEpoch(epoch));
        }
        Ok(())
    }

    /// The link to the peer is lost. Incomplete frames are sent again on the next one.
    pub fn link_down(&mut self, peer: Rank) {
        if let Some(Some(channel)) = self.channels.get_mut(peer.index()) {
            let open: Vec<u32> = channel.tx.open.iter().map(|(_, request)| request).collect();
            channel.lose_link(&mut self.core);
            // They are sent on the next link, which the resume asks for.
            self.core.gets.retain(|get| get.peer != peer);
            for request in open {
                self.core.update_send(request, |send| send.clear = false);
            }
            // Whatever is still to be sent asks for a new link.
            channel.mark_ready(&mut self.core);
        }
    }

    /// Whether the peer has a link.
    pub fn is_up(&self, peer: Rank) -> bool {
        self.peer(peer).is_some_and(|channel| channel.up)
    }
}

impl Channel {
    fn lose_link(&mut self, core: &mut Core) {
        self.up = false;
        (self.tx.interval, self.rx.interval) = (0, 0);
        self.access = RemoteAccess::default();
        // Nobody waits for a logged body whose send is over, except for the receiver.
        self.tx.may_lack |= !(self.tx.served.is_empty() && self.tx.owed.is_empty());
        self.tx.plan.clear();
        self.tx.bulk.clear();
        self.tx.unasked = self.tx.retention.unacked();
        self.tx.resend = None;
        self.tx.served.clear();
        self.tx.owed.clear();
        self.tx.peer_image = (Epoch(0), Ssn(0));
        self.tx.ahead = None;
        self.tx.limit_window();
        self.interrupt();
        if self.across && !core.omits(Omission::ForgottenAddress) {
            self.forget_addresses(core);
        }
    }
}

impl SendContext<'_> {
    fn resumed(&mut self, resume: &Resume) -> Result<(), ProtocolError> {
        let across = self.channel.across && !self.core.omits(Omission::AheadResume);
        let tx = &mut self.channel.tx;
        if resume.next_envelope > tx.retention.next() && !across {
            return Err(ProtocolError::FalseAck(resume.next_envelope));
        }
        let first_lacking = resume.incomplete_eager.first();
        let ack = first_lacking.map_or(resume.next_envelope, |ssn| resume.next_envelope.min(*ssn));
        if ack < tx.retention.first() {
            return Err(ProtocolError::FalseAck(ack));
        }
        self.has_bodies_for(resume, ack)?;
        let tx = &mut self.channel.tx;
        // No message is sent before the window is what the peer has counted.
        tx.resend = Some(resume.next_envelope);
        tx.told_ack = ack;
        tx.retention.take_back_acks(ack);
        tx.unasked = tx.retention.unacked();
        // Without a link the plan holds only control frames: they stay.
        self.acknowledged(ack.min(self.channel.tx.retention.next()))?;
        self.peer_committed(resume.committed);
        if !self.core.omits(Omission::RestartedWindow) {
            self.channel.tx.window.restart(&WindowTotals {
                taken: resume.taken,
                returned: resume.credit,
                granted: resume.granted,
                used: resume.used,
            });
        }
        let view = PeerView::of(resume);
        self.supply_all(&view)?;
        let tx = &mut self.channel.tx;
        tx.may_lack = false;
        tx.limit_window();
        let is_behind = view.next > tx.retention.next() && !self.core.omits(Omission::Unwritten);
        tx.ahead = is_behind.then(|| Box::new(view));
        self.channel.plan_ack(self.core);
        self.channel.up = true;
        self.drain_queues();
        for (number, ssn) in self.channel.tx.cancels.unanswered() {
            self.request_cancel(number, ssn);
        }
        self.channel.mark_ready(self.core);
        Ok(())
    }

    /// Finishes, matches, clears and sends again what was sent, according to the peer's view.
    fn supply_all(&mut self, view: &PeerView) -> Result<(), ProtocolError> {
        let sent = self.channel.tx.retention.next().min(view.next);
        let open: Vec<Ssn> = self.channel.tx.open.iter().map(|(ssn, _)| ssn).collect();
        // Eager bodies that were cut go before any other.
        for &ssn in view.cut.iter().filter(|ssn| **ssn < sent) {
            if self.channel.tx.body_len(ssn).is_none_or(|len| len == 0) {
                return Err(pointless(FrameKind::Data, ssn));
            }
            self.supply(ssn, None, Lack::EagerBody, view.is_unmatched(ssn));
        }
        let listed = view
            .clear
            .iter()
            .chain(&view.pending)
            .filter(|ssn| **ssn < sent);
        for &ssn in listed {
            if open.binary_search(&ssn).is_err() && !self.channel.across {
                return Err(pointless(FrameKind::Cts, ssn));
            }
            self.supply(ssn, None, view.lack(ssn), false);
        }
        for ssn in open.into_iter().filter(|ssn| *ssn < sent) {
            if view.lack(ssn) == Lack::Nothing {
                self.supply(ssn, None, Lack::Nothing, view.is_unmatched(ssn));
            }
        }
        Ok(())
    }
}

fn pointless(kind: FrameKind, ssn: Ssn) -> ProtocolError {
    ProtocolError::Pointless { kind, ssn }
}
