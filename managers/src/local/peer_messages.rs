//! Messages of other hosts' local managers, and to them.

use super::manager_parts::{ManagerParts, handler, keys};
use crate::launch::local_messages::{LocalToCentral, PeerMessage};
use crate::launch::tree::TreeOrder;
use rejoin_managers_host::error::Result;
use rejoin_managers_net::reactor::Token;
use rejoin_managers_protocol::broadcast::{BroadcastMessage, Peer};
use rejoin_managers_protocol::detector::ProbeMessage;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::lookup::LookupMessage;
use std::net::SocketAddr;

handler! {
    /// Passes messages on between the core, central and other local managers.
    pub(super) PeerHandler of ManagerParts {
        changes { peers, central, inputs }
        reads { reactor }
    }
}

impl PeerHandler<'_> {
    /// Queues a message for central; before there is a plan, there is nothing to say.
    pub fn report_to_central(&mut self, message: &LocalToCentral) -> Result<()> {
        match &mut self.central {
            Some(central) => central.notify(message),
            None => Ok(()),
        }
    }

    /// A tree message from central.
    pub fn on_tree_message(&mut self, message: BroadcastMessage<TreeOrder>) -> Result<()> {
        if let Some(peers) = &mut self.peers {
            peers.on_message(None, message, self.reactor)?;
        }
        self.take_deliveries()
    }

    /// An event of the links to other local managers.
    pub fn event(&mut self, token: Token) -> Result<()> {
        if let Some(peers) = &mut self.peers {
            peers.event(token, self.reactor)?;
        }
        self.take_deliveries()
    }

    /// Sends a look-up question or answer. An unreachable peer counts as one that does not know.
    pub fn send_lookup(&mut self, to: Peer, message: LookupMessage) -> Result<()> {
        let Some(position) = to else {
            return self.report_to_central(&LocalToCentral::LookUp(message));
        };
        let narrow = u32::try_from(position).unwrap_or(u32::MAX);
        let across = PeerMessage::LookUp(message.clone());
        let sent = match &mut self.peers {
            Some(peers) => peers.send(narrow, &across, self.reactor)?,
            None => false,
        };
        if let (
            LookupMessage::Where {
                generation, rank, ..
            },
            false,
        ) = (message, sent)
        {
            let unknown = LookupMessage::Unknown { generation, rank };
            self.inputs.push_back(LocalInput::LookedUp(to, unknown));
        }
        Ok(())
    }

    /// Sends a probe or its answer to another local manager.
    pub fn send_probe(&mut self, to: usize, message: ProbeMessage) -> Result<()> {
        let narrow = u32::try_from(to).unwrap_or(u32::MAX);
        match &mut self.peers {
            Some(peers) => peers.send_probe(narrow, message, self.reactor),
            None => Ok(()),
        }
    }

    /// Central says where another local manager is reached.
    pub fn learn(&mut self, peer: u32, addresses: Vec<SocketAddr>) -> Result<()> {
        match &mut self.peers {
            Some(peers) => peers.learn(peer, addresses, self.reactor),
            None => Ok(()),
        }
    }

    /// Does the due work for other hosts' managers, and writes as much as their links take.
    pub fn run_timers(&mut self) -> Result<()> {
        if let Some(peers) = &mut self.peers {
            peers.run_timers(self.reactor)?;
        }
        self.take_deliveries()
    }

    /// Passes on what the links to other local managers have brought.
    fn take_deliveries(&mut self) -> Result<()> {
        let Some(peers) = &mut self.peers else {
            return Ok(());
        };
        if let Some(central) = &mut self.central {
            let mut up = peers.take_for_central().into_iter();
            up.try_for_each(|message| central.notify(&LocalToCentral::Tree(message)))?;
            let mut asks = peers.take_requests().into_iter();
            asks.try_for_each(|peer| central.request_peer(peer))?;
        }
        let orders = peers.take_orders().into_iter();
        self.inputs.extend(orders.map(LocalInput::Central));
        let probes = peers.take_probes().into_iter();
        self.inputs
            .extend(probes.map(|(by, message)| LocalInput::Probed(by as usize, message)));
        let failures = peers.take_failures().into_iter();
        self.inputs
            .extend(failures.map(|(to, why)| LocalInput::NoConnection(to as usize, why)));
        let from = |position: u32| Some(position as usize);
        let lookups = peers.take_lookups().into_iter();
        self.inputs
            .extend(lookups.map(|(by, message)| LocalInput::LookedUp(from(by), message)));
        Ok(())
    }
}
