//! Connections that begin: accepted ones, and those that this rank dials when their time has come.

use std::time::Instant;

use rejoin_channel_table::Acceptor;
use rejoin_channel_table::ids::Rank;

use super::dialing::DialHandler;
use super::handshakes::HandshakeHandler;
use super::passes::ProgressHandler;
use crate::error::{Result, text_of};
use crate::events::PollToken;
use crate::links::{PendingConnection, sooner};
use crate::os;
use crate::transport::Accepted;

impl ProgressHandler<'_> {
    fn dials(&mut self) -> DialHandler<'_> {
        dial_handler!(self.link, self.listeners)
    }

    /// Has a link to `rank` established.
    pub(super) fn want_link(&mut self, rank: Rank) -> Result<()> {
        let begun = self.dials().want_link(rank)?;
        self.shake_hands(begun)
    }

    /// Continues a handshake as far as it can go now; true if it moved.
    pub(super) fn continue_handshake(&mut self, token: PollToken) -> Result<bool> {
        // A resume tells the peer which of its messages were matched.
        self.manager().await_stable_determinants()?;
        let mut handler = HandshakeHandler {
            link: &mut self.link,
            listeners: self.listeners,
        };
        handler.continue_handshake(token)
    }

    /// Takes all connections that wait at a listener.
    pub(super) fn accept_all(&mut self, number: u32) -> Result<bool> {
        let mut any = false;
        loop {
            if !self.link.links.may_accept() && !self.make_room() {
                self.listeners.accept_later();
                break;
            }
            let Some(accepted) = self.listeners.accept(number) else {
                break;
            };
            any = true;
            let Accepted { socket, local } = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // For example, no descriptors are left. The listener is polled again in a
                    // while, because its edge has passed.
                    self.listeners.accept_later();
                    let (me, why) = (self.link.member.rank(), text_of(&error));
                    tracing::warn!("rank {me}: accept: {why}");
                    break;
                }
            };
            let mut nonce = [0; 32];
            os::random(&mut nonce)?;
            let acceptor = Acceptor::new(self.link.member.identity(), nonce);
            let pending = PendingConnection::accepted(socket, local, acceptor);
            let token = self.link.links.add_pending(pending)?;
            self.continue_handshake(token)?;
        }
        Ok(any)
    }

    /// With too many incoming connections: drops the oldest that has been silent for a while. A
    /// dialing rank identifies itself at once.
    fn make_room(&mut self) -> bool {
        let dropped = self.link.links.drop_silent();
        self.link.meter.stats.strangers += u64::from(dropped);
        dropped
    }

    /// Dials every peer whose time has come, and gives up connections whose time is over. Returns
    /// the time of the next call.
    pub(super) fn run_timers(&mut self) -> Result<Option<Instant>> {
        if !self.link.links.has_timers() {
            return Ok(None);
        }
        let now = Instant::now();
        let mut next = None;
        let mut first = Ok(());
        for rank in self.link.links.take_redials() {
            match self.link.links.dial(rank).not_before() {
                Some(due) if due > now => {
                    next = sooner(next, Some(due));
                    self.link.links.list_redial(rank);
                }
                _ if self.link.links.is_null(rank) => {
                    let begun = self.dials().dial(rank);
                    first = first.and(begun.and_then(|begun| self.shake_hands(begun)));
                    next = sooner(next, self.link.links.dial(rank).not_before());
                }
                _ => {}
            }
        }
        let (late, due) = self.link.links.late(now);
        next = sooner(next, due);
        for token in late {
            let Some(pending) = self.link.links.pending_at(token) else {
                continue;
            };
            // A peer that took the connection and is silent computes: no failure.
            let counts = !pending.is_connected();
            let why = format!("no sign of {} in time", pending.waiting_for());
            first = first.and(self.dials().attempt_ended(token, &why, counts));
        }
        first.map(|()| next)
    }

    /// Begins the handshake of a connection that was dialed, if there is one: over loopback it is
    /// established at once.
    fn shake_hands(&mut self, begun: Option<PollToken>) -> Result<()> {
        begun.map_or(Ok(()), |token| self.continue_handshake(token).map(drop))
    }
}
