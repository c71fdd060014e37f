//! Messages over the links to mpirun, to the central manager and to other local managers, and the
//! ends of these links.

use super::LocalManager;
use crate::error::Result;
use crate::launch::local_messages::{
    CentralToLocal, LocalToCentral, LocalToMpirun, MpirunToLocal, PeerMessage,
};
use crate::launch::tree::TreeOrder;
use crate::net::local_link::Filled;
use crate::net::reactor::Token;
use crate::net::redial::Called;
use rejoin_managers_protocol::broadcast::{BroadcastMessage, Peer};
use rejoin_managers_protocol::detector::ProbeMessage;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::lookup::LookupMessage;
use rejoin_managers_protocol::manager_messages::ToLocal;
use std::time::Duration;

impl LocalManager {
    pub(super) fn read_mpirun(&mut self) -> Result<()> {
        match self.mpirun.fill(&self.reactor)? {
            // Called again when the timers are looked at.
            Filled::Nothing | Filled::Broken => {}
            Filled::Closed => self.job_ended(),
            Filled::Some => {
                while let Some(message) = self.mpirun.next()? {
                    self.mpirun_said(message)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn read_central(&mut self) -> Result<()> {
        let Some(central) = &mut self.central else {
            return Ok(());
        };
        match central.fill(&self.reactor) {
            Filled::Nothing | Filled::Broken => {}
            Filled::Closed => self.job_ended(),
            Filled::Some => {
                while let Some(central) = &mut self.central
                    && let Some(message) = central.next()?
                {
                    self.central_said(message)?;
                }
            }
        }
        Ok(())
    }

    fn mpirun_said(&mut self, message: MpirunToLocal) -> Result<()> {
        match message {
            MpirunToLocal::Launch(plan) => self.take_plan(plan)?,
            MpirunToLocal::Input(bytes) => {
                if let Some(input) = &mut self.input {
                    input.push(&bytes);
                }
                self.write_input()?;
            }
            MpirunToLocal::DeterminantsStored(stored) => self.determinants_stored(stored)?,
            MpirunToLocal::Determinants {
                rank,
                incarnation,
                part,
                last,
            } => self.take_determinants((rank, incarnation), part, last)?,
            MpirunToLocal::ReceivedStored(stored) => self.received_stored(stored)?,
            MpirunToLocal::Received {
                rank,
                incarnation,
                part,
            } => self.take_received((rank, incarnation), part)?,
            MpirunToLocal::OutputCredit(count) => {
                self.outputs.credit(count, &self.reactor)?;
            }
            MpirunToLocal::SinkClosed(stream) => {
                self.outputs.close_sink(stream, &self.reactor);
            }
            MpirunToLocal::Ping => self.mpirun.tell(&LocalToMpirun::Alive)?,
        }
        Ok(())
    }

    fn central_said(&mut self, message: CentralToLocal) -> Result<()> {
        match message {
            CentralToLocal::Order(order) => {
                match &order {
                    ToLocal::Commit { epochs, .. } => self.committed(*epochs),
                    ToLocal::Restore { ranks, .. } => self.logs_continue(ranks),
                    ToLocal::Stay { instance, .. } => self.log_stays(instance.rank),
                    ToLocal::Report => self.log_reports.forget(),
                    _ => {}
                }
                // At once, because the next message on the link may be for a rank that this starts.
                self.queue.push_back(LocalInput::Central(order));
                self.steps()
            }
            CentralToLocal::Tree(message) => self.tree_said(message),
            CentralToLocal::LookUp(message) => {
                self.queue.push_back(LocalInput::LookedUp(None, message));
                Ok(())
            }
            CentralToLocal::PeerAt { peer, addresses } => match &mut self.peers {
                Some(peers) => peers.learn(peer, addresses, &self.reactor),
                None => Ok(()),
            },
            CentralToLocal::ImagesAt { host, addresses } => {
                if let Some(copies) = &mut self.copies {
                    copies.learn(host, addresses);
                }
                Ok(())
            }
        }
    }

    /// mpirun or central is gone, or wants no more of this host.
    pub(super) fn job_ended(&mut self) {
        if self.mpirun.close(&self.reactor) {
            if let Some(central) = &mut self.central
                && let Err(error) = central.close(&self.reactor)
            {
                tracing::debug!(%error, "central does not hear that this host leaves");
            }
            self.queue.push_back(LocalInput::CentralLost);
        }
    }

    pub(super) fn flush_links(&mut self) -> Result<()> {
        self.mpirun.flush(&self.reactor)?;
        match &mut self.central {
            Some(central) => central.flush(&self.reactor),
            None => Ok(()),
        }
    }

    /// Calls mpirun and central, if there is need.
    pub(super) fn call(&mut self) -> Result<()> {
        let mut dismissed = self.mpirun.call(&self.reactor)? == Called::Dismissed;
        if let Some(central) = &mut self.central {
            dismissed |= central.call(&self.reactor)?;
        }
        self.called(dismissed);
        Ok(())
    }

    /// A call to mpirun continues.
    pub(super) fn mpirun_answered(&mut self) -> Result<()> {
        let called = self.mpirun.answered(&self.reactor)?;
        self.called(called == Called::Dismissed);
        Ok(())
    }

    /// A call to central continues.
    pub(super) fn central_answered(&mut self) -> Result<()> {
        if let Some(central) = &mut self.central {
            let dismissed = central.answered(&self.reactor)?;
            self.called(dismissed);
        }
        Ok(())
    }

    fn called(&mut self, dismissed: bool) {
        if dismissed {
            tracing::warn!("this host's manager is not wanted any more");
            self.job_ended();
        }
    }

    /// When [`LocalManager::call`] is due.
    pub(super) fn call_limit(&mut self) -> Option<Duration> {
        let central = self.central.as_ref().and_then(|c| c.wait_limit());
        self.mpirun.wait_limit().into_iter().chain(central).min()
    }

    /// A tree message from central.
    fn tree_said(&mut self, message: BroadcastMessage<TreeOrder>) -> Result<()> {
        if let Some(peers) = &mut self.peers {
            peers.hear(None, message, &self.reactor)?;
        }
        self.take_deliveries()
    }

    pub(super) fn peer_event(&mut self, token: Token) -> Result<()> {
        if let Some(peers) = &mut self.peers {
            peers.event(token, &self.reactor)?;
        }
        self.take_deliveries()
    }

    /// Sends a look-up question or answer. An unreachable peer counts as one that does not know.
    pub(super) fn send_lookup(&mut self, to: Peer, message: LookupMessage) -> Result<()> {
        let Some(position) = to else {
            return self.tell_central(LocalToCentral::LookUp(message));
        };
        let narrow = u32::try_from(position).unwrap_or(u32::MAX);
        let across = PeerMessage::LookUp(message.clone());
        let sent = match &mut self.peers {
            Some(peers) => peers.send(narrow, &across, &self.reactor)?,
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
            self.queue.push_back(LocalInput::LookedUp(to, unknown));
        }
        Ok(())
    }

    /// Sends a probe or its answer to another local manager.
    pub(super) fn send_probe(&mut self, to: usize, message: ProbeMessage) -> Result<()> {
        let narrow = u32::try_from(to).unwrap_or(u32::MAX);
        match &mut self.peers {
            Some(peers) => peers.send_probe(narrow, message, &self.reactor),
            None => Ok(()),
        }
    }

    /// Does the due work for other hosts' managers, and writes as much as their links take.
    pub(super) fn run_peer_timers(&mut self) -> Result<()> {
        if let Some(peers) = &mut self.peers {
            peers.run_timers(&self.reactor)?;
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
            up.try_for_each(|message| central.tell(&LocalToCentral::Tree(message)))?;
            let mut asks = peers.take_asks().into_iter();
            asks.try_for_each(|peer| central.ask_peer(peer))?;
        }
        let orders = peers.take_orders().into_iter();
        self.queue.extend(orders.map(LocalInput::Central));
        let probes = peers.take_probes().into_iter();
        self.queue
            .extend(probes.map(|(by, message)| LocalInput::Probed(by as usize, message)));
        let failures = peers.take_failures().into_iter();
        self.queue
            .extend(failures.map(|(to, why)| LocalInput::NoConnection(to as usize, why)));
        let from = |position: u32| Some(position as usize);
        let lookups = peers.take_lookups().into_iter();
        self.queue
            .extend(lookups.map(|(by, message)| LocalInput::LookedUp(from(by), message)));
        Ok(())
    }
}
