//! Handshakes over sockets: answering, and turning a connection into a link.

use std::io;
use std::time::Duration;

use rejoin_channel_table::ids::{Attempt, Rank};
use rejoin_channel_table::{Established, HandshakeRefusal, Proved, Resume};

use super::dialing::DialHandler;
use super::link_handler::LinkHandler;
use crate::error::Result;
use crate::events::PollToken;
use crate::links::{HandshakeRequest, Live, PendingConnection, RankListeners};
use crate::transport::{Copies, Endpoint, TransportId};

/// Pause after a refusal that asks for one: the peer is behind, or wins with its own attempt.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// The state of a connection in its handshake after an event.
enum Next {
    /// The handshake continues over this connection.
    Stay(Box<PendingConnection>),
    /// The connection is a link now; bytes behind the handshake lie at this place of the staging.
    Live {
        pending: Box<PendingConnection>,
        rank: Rank,
        from: usize,
        until: usize,
    },
    /// The handshake failed, for this reason.
    Fail(Box<PendingConnection>, String),
}

impl Next {
    /// The connection broke.
    fn broke(mut pending: Box<PendingConnection>, error: &io::Error) -> Self {
        let why = pending.connection_broke(error);
        Self::Fail(pending, why)
    }
}

/// Makes links of connections, and drops those that they replace.
pub(super) struct HandshakeHandler<'a, 'b> {
    pub(super) link: &'a mut LinkHandler<'b>,
    /// For the next attempt, if this one fails.
    pub(super) listeners: &'a RankListeners,
}

impl HandshakeHandler<'_, '_> {
    fn dials(&mut self) -> DialHandler<'_> {
        dial_handler!(self.link, self.listeners)
    }

    /// Continues a handshake as far as it can go now; true if it moved. What the engine has matched
    /// must be stored: a resume tells the peer about that.
    pub(super) fn continue_handshake(&mut self, token: PollToken) -> Result<bool> {
        let Some(pending) = self.link.links.lift(token) else {
            return Ok(false);
        };
        match self.advance(token, pending) {
            Next::Stay(pending) => {
                self.link.links.put_back(token, pending);
                Ok(false)
            }
            Next::Live {
                pending,
                rank,
                from,
                until,
            } => {
                self.go_live(token, pending, rank, from, until)?;
                Ok(true)
            }
            Next::Fail(pending, why) => {
                self.link.links.put_back(token, pending);
                self.dials().attempt_ended(token, &why, true)?;
                Ok(true)
            }
        }
    }

    fn advance(&mut self, token: PollToken, mut pending: Box<PendingConnection>) -> Next {
        let was_connected = pending.is_connected();
        match pending.connect() {
            Ok(true) => {}
            Ok(false) => return Next::Stay(pending),
            Err(error) => return Next::broke(pending, &error),
        }
        if let (false, Some((rank, _))) = (was_connected, pending.dials()) {
            pending.wait_for_answer(self.link.links.dial(rank).answer_patience());
        }
        loop {
            match pending.flush() {
                Ok(true) if pending.is_closing() => {
                    return Next::Fail(pending, "refused".to_owned());
                }
                Ok(_) => {}
                Err(error) => return Next::broke(pending, &error),
            }
            if pending.is_closing() {
                return Next::Stay(pending);
            }
            let count = match pending.read(self.link.progress.staging()) {
                Ok(Some(count)) => count,
                Ok(None) => return Next::Stay(pending),
                Err(error) => return Next::broke(pending, &error),
            };
            let mut at = 0;
            while at < count {
                let (taken, step) = self.feed(token, &mut pending, at, count);
                at += taken;
                match step {
                    Step::More => {}
                    Step::Live(rank) => {
                        return Next::Live {
                            pending,
                            rank,
                            from: at,
                            until: count,
                        };
                    }
                    Step::Fail(why) => return Next::Fail(pending, why),
                    Step::Close => {
                        pending.close_when_sent();
                        break;
                    }
                }
                if taken == 0 && at < count {
                    break;
                }
            }
        }
    }

    /// Passes staged bytes to the handshake and makes the steps that it requests.
    fn feed(
        &mut self,
        token: PollToken,
        pending: &mut PendingConnection,
        at: usize,
        end: usize,
    ) -> (usize, Step) {
        let bytes = &self.link.progress.staging()[at..end];
        let (taken, said) = pending.feed(self.link.manager.key(), self.link.links.book(), bytes);
        let step = match said {
            HandshakeRequest::Nothing => Step::More,
            HandshakeRequest::Prove(rank, attempt) => self.prove(pending, rank, attempt),
            HandshakeRequest::Established(opened) => self.established(token, pending, &opened),
            HandshakeRequest::Admit(proved) => self.admit(token, pending, &proved),
            HandshakeRequest::Refused(refusal) => self.refused(pending, refusal),
        };
        (taken, step)
    }

    fn prove(&mut self, pending: &mut PendingConnection, rank: Rank, attempt: Attempt) -> Step {
        let seen = match self.link.links.prove(rank, attempt) {
            Ok(seen) => seen,
            Err(error) => return Step::Fail(error.to_string()),
        };
        let resume = self.link.engine.resume(rank);
        let local_size = self.link.member.settings().local_size;
        match pending.prove(self.link.manager.key(), seen, &resume, local_size) {
            Ok(()) => Step::More,
            Err(why) => Step::Fail(why),
        }
    }

    fn established(
        &mut self,
        token: PollToken,
        pending: &mut PendingConnection,
        opened: &Established,
    ) -> Step {
        let rank = opened.peer.rank;
        if let Err(why) = pending.agree() {
            return Step::Fail(why);
        }
        if let Some(later) = self.later(&opened.resume) {
            return later;
        }
        if let Err(error) = self.link.links.accepted(opened, token) {
            return Step::Fail(error.to_string());
        }
        self.link_up(rank, &opened.resume)
    }

    fn admit(
        &mut self,
        token: PollToken,
        pending: &mut PendingConnection,
        proved: &Proved,
    ) -> Step {
        let rank = proved.peer.rank;
        if let Some(later) = self.later(&proved.resume) {
            return later;
        }
        if let Err(error) = pending.take_over() {
            tracing::warn!("rank {}: link to {rank}: {error}", self.link.member.rank());
            return Step::Fail(error.to_string());
        }
        let admission = match self.link.links.admit(proved, token) {
            Ok(admission) => admission,
            Err(refusal) => {
                pending.refuse(self.link.manager.key(), refusal);
                return Step::Close;
            }
        };
        if let Some(old) = admission.closes {
            let closed = self.link.links.close(old);
            self.link.engine.link_down(rank);
            if let Some(closed) = closed {
                self.link.meter.stats.doorbells += closed.doorbells;
                // The next loss reports an error if there were too many: here the peer is back.
                self.link.count_link(&closed);
            }
            self.link.meter.stats.links_lost += 1;
        }
        if admission.abandons.is_some() {
            self.link.links.abandon_dial(rank);
        }
        let resume = self.link.engine.resume(rank);
        if let Err(why) = pending.accept(self.link.manager.key(), admission.renounced, &resume) {
            self.link.links.null(rank);
            return Step::Fail(why);
        }
        self.link_up(rank, &proved.resume)
    }

    /// A resume is an ack: one of a later epoch ends the attempt before anything has moved. The
    /// next attempt comes after this rank's safe point.
    fn later(&mut self, resume: &Resume) -> Option<Step> {
        let refused = self.link.engine.accepts_epoch(resume.epoch).err()?;
        self.link.recovery.checkpoint().request(resume.epoch);
        Some(Step::Fail(refused.to_string()))
    }

    /// Passes the peer's resume to the engine.
    fn link_up(&mut self, rank: Rank, resume: &Resume) -> Step {
        self.link.begin_link(rank, resume);
        match self.link.engine.link_up(rank, resume) {
            Ok(()) => Step::Live(rank),
            Err(error) => {
                self.link.links.null(rank);
                self.link.engine.link_down(rank);
                Step::Fail(error.to_string())
            }
        }
    }

    fn refused(&mut self, pending: &mut PendingConnection, refusal: HandshakeRefusal) -> Step {
        if let (Some((rank, _)), HandshakeRefusal::Yield | HandshakeRefusal::PeerIsOlder { .. }) =
            (pending.dials(), refusal)
        {
            self.link.links.redial_after(rank, REFUSED_PAUSE);
        }
        if pending.has_sent_all() {
            Step::Fail(refusal.to_string())
        } else {
            Step::Close
        }
    }

    /// The handshake is over: frames may flow.
    fn go_live(
        &mut self,
        token: PollToken,
        pending: Box<PendingConnection>,
        rank: Rank,
        from: usize,
        until: usize,
    ) -> Result<()> {
        let copies = Copies {
            single: self.link.member.options().single_copy,
            min_get: self.link.member.options().single_copy_min,
            shared_cores: self.link.progress.spin.is_never(),
        };
        let (mut endpoint, ahead) = pending.into_endpoint(copies);
        let transport = endpoint.transport();
        // Its end may have come with the last bytes of the handshake, and is not announced again.
        endpoint.note_event();
        self.link
            .links
            .establish(token, Live::new(endpoint, rank, ahead));
        if transport == TransportId::SharedMemory {
            let bytes = self.link.links.shared_bytes() as u64;
            let stats = &mut self.link.meter.stats;
            stats.rings_made += 1;
            stats.ring_bytes = stats.ring_bytes.max(bytes);
            self.link.learn_access(rank);
        }
        self.link.meter.stats.links_made += 1;
        self.dials().dial_succeeded(rank, transport)?;
        // The socket beside shared memory brings wake-ups, and no frames.
        if until > from && transport != TransportId::SharedMemory {
            self.link.progress.staging().copy_within(from..until, 0);
            self.link.ingest(token, Some(until - from))?;
        }
        self.link.links.list_readable(token);
        self.link.flush_link(rank)?;
        Ok(())
    }
}

/// The step of the device in a handshake.
enum Step {
    More,
    Live(Rank),
    Fail(String),
    Close,
}
