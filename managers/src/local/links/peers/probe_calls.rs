//! Probes over the links to other local managers. A manager learns from central where the others
//! listen when it probes them for the first time.

use super::Peers;
use crate::launch::local_messages::PeerMessage;
use rejoin_managers_host::error::Result;
use rejoin_managers_net::reactor::Reactor;
use rejoin_managers_protocol::detector::{ProbeFailure, ProbeMessage};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Instant;

impl Peers {
    /// Sends a probe or an answer. A probe that follows one without an answer goes over a new
    /// connection, because the present one may be dead.
    pub fn send_probe(&mut self, to: u32, message: ProbeMessage, reactor: &Reactor) -> Result<()> {
        if let ProbeMessage::Probe { .. } = message {
            self.drop_stale(to, reactor)?;
            self.probing.sent.insert(to, Instant::now());
        }
        if !self.send(to, &PeerMessage::Probe(message), reactor)?
            && !self.probing.known.contains_key(&to)
        {
            self.probing.waiting.insert(to, message);
            self.probing.asks.insert(to);
        }
        Ok(())
    }

    /// Drops the links to a host over which nothing has come since the last probe.
    fn drop_stale(&mut self, to: u32, reactor: &Reactor) -> Result<()> {
        let Some(sent) = self.probing.sent.get(&to).copied() else {
            return Ok(());
        };
        if self
            .callers
            .get(&to)
            .is_some_and(|caller| caller.link.last_received() < sent)
            && let Some(mut caller) = self.callers.remove(&to)
        {
            caller.link.detach(reactor);
        }
        match self.dialing.get(&to) {
            Some(dialing) if dialing.link.last_received() < sent => self.drop_dialed(to, reactor),
            _ => Ok(()),
        }
    }

    /// Central says where a manager listens.
    pub fn learn(
        &mut self,
        peer: u32,
        addresses: Vec<SocketAddr>,
        reactor: &Reactor,
    ) -> Result<()> {
        self.probing.known.insert(peer, addresses);
        match self.probing.waiting.remove(&peer) {
            Some(message) => self.send_probe(peer, message, reactor),
            None => Ok(()),
        }
    }

    /// Takes the managers whose addresses central is to be asked for.
    pub fn take_requests(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.probing.asks)
    }

    /// Takes probes and answers for this manager's own core, with their senders.
    pub fn take_probes(&mut self) -> Vec<(u32, ProbeMessage)> {
        std::mem::take(&mut self.probing.heard)
    }

    /// Takes the hosts to which there is no connection.
    pub fn take_failures(&mut self) -> Vec<(u32, ProbeFailure)> {
        std::mem::take(&mut self.probing.failures)
    }
}
