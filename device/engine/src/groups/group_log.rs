//! What recovery groups add: the channel between two of them retains a message until an image of
//! the receiver's group that holds it is committed. Bodies in user memory are copied for that.

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};
use rejoin_logging::Horizon;
use rejoin_logging::determinants::LogUsage;

use crate::channel_state::{Channel, SentBody};
use crate::core_state::Core;
use crate::engine::Engine;
use crate::groups::log_space::LogSpace;
use crate::omission::Omission;
use crate::requests::HeldBody;
use crate::tx::SendContext;

/// What the log of a rank holds at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogLook {
    /// What is retained in which room, and for whom. The engine knows none of the other figures.
    pub usage: LogUsage,
    /// Bytes of retained messages that are in memory, not in the file into which the log spills.
    pub in_memory: u64,
    /// For each peer with retained messages, there is a time when it released some last, or when
    /// the first was retained after none was. The earliest of these times, as looks have noticed
    /// it; `None`: no message is retained.
    pub waits_since: Option<u64>,
}

impl Engine {
    /// Divides the ranks into recovery groups: the number of each rank's group. To be called before
    /// the first message; without it the job is one group. Ranks of a group return to an image
    /// together. Between groups, either side may return alone.
    ///
    /// # Panics
    /// When there is not one number per rank.
    pub fn set_groups(&mut self, groups: &[u32]) {
        assert_eq!(groups.len(), self.channels.len(), "one group per rank");
        self.groups = Some(groups.into());
        self.core.matching.number_wild();
    }

    /// Whether a rank is of another recovery group, which comes back alone.
    pub fn is_across(&self, peer: Rank) -> bool {
        self.groups
            .as_ref()
            .is_some_and(|groups| groups.get(peer.index()) != groups.get(self.me.index()))
    }

    /// Gives the log memory for bodies, which images of this process share. Without it, or where it
    /// is full, they take other memory. A file backs it but for the first `in_memory` bytes.
    pub fn set_log_memory(&mut self, memory: &'static mut [u8], in_memory: usize) {
        *self.core.pool.log() = LogSpace::new(memory, in_memory);
    }

    /// A file backs the log's memory but for the first `in_memory` bytes from now on: the process
    /// was restored on another host.
    pub fn set_log_in_memory(&mut self, in_memory: usize) {
        self.core.pool.log().set_in_memory(in_memory);
    }

    /// The addresses of that memory; empty without it.
    pub fn log_memory(&self) -> std::ops::Range<usize> {
        self.core.pool.log_ref().all()
    }

    /// Bytes of that memory that are in use, or were at any time.
    pub fn log_memory_used(&self) -> u64 {
        self.core.pool.log_ref().ever_used() as u64
    }

    /// The image of this epoch is committed: peers of other groups need not retain what it holds.
    pub fn image_committed(&mut self, epoch: Epoch) {
        self.core.pool.log().image_committed(epoch);
        for channel in self.channels.iter_mut().flatten() {
            let images = &mut channel.rx.images;
            let Some(at) = images.iter().position(|(of, _)| *of == epoch) else {
                continue;
            };
            let held = images[at].1;
            images.drain(..=at);
            channel.rx.commit_image(held);
            if channel.rx.has_kept_to_notify() && channel.up {
                channel.ack_soon(&mut self.core);
            }
        }
    }

    /// The peer has a new incarnation, which may have come back from the past. The link to the
    /// earlier one is lost.
    pub fn peer_returned(&mut self, peer: Rank) {
        self.link_down(peer);
        if let Some(Some(channel)) = self.channels.get_mut(peer.index())
            && channel.across
        {
            let retention = &channel.tx.retention;
            channel.tx.may_lack = retention.first() < retention.next();
            channel.mark_ready(&mut self.core);
        }
    }

    /// This rank was restored from an image, and its peers of other groups may have continued. The
    /// clock of [`Engine::look_at_log`] may be another one.
    pub fn returned(&mut self) {
        for channel in self.channels.iter_mut().flatten() {
            channel.tx.waits_since = 0;
        }
        for peer in (0..self.channels.len() as u32).map(Rank) {
            self.peer_returned(peer);
        }
    }

    /// Bytes that this rank retains for other recovery groups.
    pub fn logged_bytes(&self) -> u64 {
        let across = self.channels.iter().flatten().filter(|c| c.across);
        across.map(|channel| channel.logged_bytes()).sum()
    }

    /// What the log holds now. `clock` never gives 0.
    pub fn look_at_log(&mut self, clock: impl Fn() -> u64) -> LogLook {
        let space = self.core.pool.log_ref();
        let spilled = space.spilled() as u64;
        let mut look = LogLook::default();
        let LogUsage { figures, most_for } = &mut look.usage;
        [figures.memory_bytes, figures.file_bytes] = space.used().map(|bytes| bytes as u64);
        let mut now = None;
        for channel in self.channels.iter_mut().flatten().filter(|c| c.across) {
            let retained = channel.logged_bytes();
            figures.retained_bytes += retained;
            if retained > most_for.map_or(0, |(_, most)| most) {
                *most_for = Some((channel.peer, retained));
            }
            let retention = &channel.tx.retention;
            if retention.first() == retention.next() {
                channel.tx.waits_since = 0;
                continue;
            }
            if channel.tx.waits_since == 0 {
                channel.tx.waits_since = *now.get_or_insert_with(&clock);
            }
            let since = channel.tx.waits_since;
            look.waits_since = Some(look.waits_since.map_or(since, |other| other.min(since)));
        }
        look.in_memory = figures.retained_bytes.saturating_sub(spilled);
        look
    }

    /// The log is full, or not any more. Meanwhile no new message is sent to another group.
    pub fn hold_sends(&mut self, held: bool) {
        let config = self.config;
        let core = &mut self.core;
        for channel in self.channels.iter_mut().flatten() {
            if !channel.across || channel.tx.held == held {
                continue;
            }
            channel.tx.held = held;
            channel.tx.limit_window();
            if !held {
                let mut tx = SendContext {
                    channel,
                    core,
                    config: &config,
                };
                tx.drain_queues();
            }
        }
    }

    /// Whether the ranks are several recovery groups.
    #[inline(always)]
    pub fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Notes what the image that was taken for an epoch holds of each peer of another group.
    pub(crate) fn note_image(&mut self, epoch: Epoch) {
        self.core.pool.log().note_image(epoch);
        let mut pending = vec![None; self.channels.len()];
        for (_, message) in self.core.messages.iter() {
            if matches!(message.body, HeldBody::Remote(_)) && message.bound.is_none() {
                let first: &mut Option<Ssn> = &mut pending[message.peer.index()];
                *first = Some(first.map_or(message.ssn, |ssn| ssn.min(message.ssn)));
            }
        }
        for channel in self.channels.iter_mut().flatten() {
            if channel.across {
                let held = channel.whole_below(pending[channel.peer.index()]);
                channel.rx.images.push((epoch, held));
                channel.notify_image(&mut self.core, epoch, held);
            }
        }
    }
}

impl Channel {
    /// Bytes that are retained for the peer, if it is of another group.
    fn logged_bytes(&self) -> u64 {
        self.tx.retention.bytes() as u64 + self.tx.logged
    }

    /// The message below which all have come with their bodies.
    fn whole_below(&self, first_pending: Option<Ssn>) -> Ssn {
        let partial = self.rx.partial.iter().next().map(|partial| partial.ssn);
        let firsts = [partial, first_pending].into_iter().flatten();
        firsts.fold(self.ack(), Ssn::min)
    }

    /// Addresses in the memory of a peer that may have come back say nothing any more.
    pub(crate) fn forget_addresses(&self, core: &mut Core) {
        let peer = self.peer;
        let of_peer: Vec<u32> = core
            .messages
            .iter()
            .filter(|(_, message)| message.peer == peer)
            .filter(|(_, message)| matches!(message.body, HeldBody::Remote(_)))
            .map(|(at, _)| at)
            .collect();
        for at in of_peer {
            core.messages[at].body = HeldBody::Remote(0);
        }
    }
}

impl Core {
    /// The peer has an eager body, which is still in user memory.
    pub(crate) fn log_eager(&mut self, request: u32, peer: Rank, ssn: Ssn) {
        if self.send_of(request).is_some_and(|send| !send.rendezvous) {
            self.log_queue.push_due(peer, ssn);
        }
    }
}

/// The bodies in user memory that the log takes.
pub(crate) struct LoggedBodies {
    eager: bool,
    rendezvous: bool,
}

impl LoggedBodies {
    /// Whether it takes the body of an eager or of a rendezvous message, which may be elsewhere.
    pub(crate) fn takes(&self, eager: bool, in_user_memory: bool) -> bool {
        in_user_memory && if eager { self.eager } else { self.rendezvous }
    }
}

impl SendContext<'_> {
    /// The bodies that the log takes of this channel.
    pub(crate) fn bodies_to_log(&self) -> LoggedBodies {
        let takes = |omission| self.channel.across && !self.core.omits(omission);
        LoggedBodies {
            eager: takes(Omission::EagerCopy),
            rendezvous: takes(Omission::RendezvousCopy),
        }
    }

    /// The peer has the body of a rendezvous message. Between groups the log takes it before the
    /// send is complete.
    pub(crate) fn body_received(&mut self, request: u32, ssn: Ssn) {
        let user = matches!(
            self.channel.tx.retention.body(ssn),
            Some(SentBody::User(..))
        );
        self.settle(request, ssn, |send| {
            send.needs_finish = false;
            send.needs_ack |= user;
        });
        if user {
            self.core.log_queue.push_due(self.channel.peer, ssn);
        }
    }

    /// A committed image of the peer holds all messages below `ssn`.
    pub(crate) fn peer_committed(&mut self, ssn: Ssn) {
        let retention = &mut self.channel.tx.retention;
        if let Horizon::Committed(before) = retention.horizon()
            && ssn > before
        {
            retention.set_horizon(Horizon::Committed(ssn));
            self.channel.tx.waits_since = 0;
            self.release();
        }
    }

    /// Drops what no failure can require again.
    pub(crate) fn release(&mut self) {
        let (across, core) = (self.channel.across, &mut *self.core);
        let (retention, logged) = (&mut self.channel.tx.retention, &mut self.channel.tx.logged);
        retention.release(|_, body| match body {
            SentBody::Kept(buf) => core.pool.put(buf),
            SentBody::Logged(buf) => {
                *logged = logged.saturating_sub(buf.len() as u64);
                core.pool.put(buf);
            }
            // It need not be logged any more.
            SentBody::User(_, request) if across => {
                core.update_send(request, |send| send.needs_ack = false);
            }
            // Its ack has told the send.
            SentBody::User(..) => (),
        });
    }
}
