//! Establishment and loss of links: the content of a resume, and the frames that are sent again.

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};
use rejoin_channel_table::resume::Resume;

use crate::channel_state::{Bulk, Channel, RemoteAccess, SentBody};
use crate::engine::Engine;
use crate::error::ProtocolError;
use crate::frame::FrameKind;
use crate::requests::HeldBody;
use crate::tx::{ENVELOPE_COST, SendContext};

impl Engine {
    /// This rank's resume for a handshake: the state of the peer's messages. The peer's old link,
    /// if any, must be down.
    pub fn resume(&self, peer: Rank) -> Resume {
        let Some(channel) = self.peer(peer) else {
            return Resume {
                epoch: self.epoch,
                ..Resume::default()
            };
        };
        let mut resume = Resume {
            epoch: self.epoch,
            next_envelope: channel.rx.order.next(),
            credit: channel.rx.window.returned(),
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
        let (epoch, config) = (self.epoch, self.config);
        let (channel, core) = self
            .channel(peer)
            .map_err(|_| ProtocolError::NotAPeer(peer))?;
        let mut link = SendContext {
            channel,
            core,
            config: &config,
            epoch,
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
            channel.lose_link();
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
    fn lose_link(&mut self) {
        self.up = false;
        self.access = RemoteAccess::default();
        self.tx.plan.clear();
        self.tx.bulk.clear();
        self.tx.unasked = self.tx.retention.unacked();
        self.interrupt();
    }
}

impl SendContext<'_> {
    fn resumed(&mut self, resume: &Resume) -> Result<(), ProtocolError> {
        let retention = &self.channel.tx.retention;
        if resume.next_envelope > retention.next() {
            return Err(ProtocolError::FalseAck(resume.next_envelope));
        }
        let first_lacking = resume.incomplete_eager.first();
        let ack = first_lacking.map_or(resume.next_envelope, |ssn| resume.next_envelope.min(*ssn));
        if ack < retention.first() {
            return Err(ProtocolError::FalseAck(ack));
        }
        // Without a link the plan holds only control frames: they stay.
        self.acknowledged(ack)?;
        self.credited(resume.credit)?;
        self.resend_bodies(&resume.incomplete_eager)?;
        self.settle_open(resume)?;
        self.channel.plan_ack(self.core, self.epoch);
        for ssn in resume.next_envelope.0..self.channel.tx.retention.next().0 {
            self.plan_again(Ssn(ssn));
        }
        self.channel.up = true;
        for (number, ssn) in self.channel.tx.cancels.unanswered() {
            self.request_cancel(number, ssn);
        }
        self.channel.mark_ready(self.core);
        Ok(())
    }

    /// Eager bodies that were cut go again as data frames, before any other.
    fn resend_bodies(&mut self, lacking: &[Ssn]) -> Result<(), ProtocolError> {
        for &ssn in lacking {
            let tx = &mut self.channel.tx;
            let in_ring = tx
                .retention
                .frame(ssn)
                .map(|f| f.end - f.start - ENVELOPE_COST);
            let len = match (tx.retention.body(ssn), in_ring) {
                (Some(SentBody::User(seg, _)), _) => seg.len,
                (Some(SentBody::Kept(buf)), _) => buf.len(),
                (None, Some(len)) if len > 0 => len as usize,
                _ => {
                    return Err(ProtocolError::Pointless {
                        kind: FrameKind::Data,
                        ssn,
                    });
                }
            };
            tx.bulk.push_back(Bulk {
                ssn,
                eager: true,
                offset: 0,
                len,
            });
        }
        Ok(())
    }

    /// Finishes, matches and clears open sends according to the resume.
    fn settle_open(&mut self, resume: &Resume) -> Result<(), ProtocolError> {
        let known = |list: &[Ssn], ssn: Ssn| list.binary_search(&ssn).is_ok();
        let open: Vec<(Ssn, u32)> = self.channel.tx.open.iter().collect();
        let mut cleared = 0;
        for (ssn, request) in open {
            if ssn >= resume.next_envelope {
                continue;
            }
            let Some(send) = self.core.send_of(request) else {
                continue;
            };
            if send.needs_finish {
                if known(&resume.clear, ssn) {
                    cleared += 1;
                    self.start_body(request, ssn);
                } else if !known(&resume.pending_rts, ssn) {
                    self.settle(request, ssn, |send| send.needs_finish = false);
                }
            } else if send.needs_match && !known(&resume.unmatched_sync, ssn) {
                self.settle(request, ssn, |send| send.needs_match = false);
            }
        }
        match resume.clear.last() {
            Some(&ssn) if cleared < resume.clear.len() => Err(ProtocolError::Pointless {
                kind: FrameKind::Cts,
                ssn,
            }),
            _ => Ok(()),
        }
    }

    fn plan_again(&mut self, ssn: Ssn) {
        let tx = &mut self.channel.tx;
        let Some(frame) = tx.retention.frame(ssn) else {
            return;
        };
        tx.plan.push_frames(frame);
        let len = match tx.retention.body(ssn) {
            Some(SentBody::User(seg, _)) => seg.len,
            Some(SentBody::Kept(buf)) => buf.len(),
            None => return,
        };
        tx.plan.push_body(ssn, len);
    }
}
