//! The link to the central manager, which this manager dials. A restarted central manager listens
//! at the same address. Bytes retained for its predecessor are dropped, since the new one asks for
//! a report.

use crate::launch::launch_plan::CentralPlace;
use crate::launch::local_messages::{CentralToLocal, LocalToCentral};
use crate::local::kind;
use rejoin_channel_table::{JobId, JobKey};
use rejoin_managers_host::error::Result;
use rejoin_managers_net::address::ManagerReach;
use rejoin_managers_net::auth::{Whose, central_key};
use rejoin_managers_net::local_link::Filled;
use rejoin_managers_net::reactor::{Reactor, Token};
use rejoin_managers_net::redial::{Called, Redial};
use rejoin_managers_net::session_link::SessionLink;
use rejoin_managers_protocol::lease::Terms;
use std::collections::BTreeSet;
use std::time::Duration;

/// A local manager's link to the central manager.
pub struct CentralLink {
    link: SessionLink,
    redial: Redial,
    open: bool,
    /// The first message to each central manager: the addresses at which other local managers reach
    /// this one.
    listens: Option<ManagerReach>,
    /// Then those at which they copy the files of images.
    gives_images: Option<ManagerReach>,
    /// The hosts whose such addresses are asked for.
    asks_images: BTreeSet<u32>,
    /// The local managers whose addresses are asked for.
    asks_peers: BTreeSet<u32>,
}

impl CentralLink {
    /// A link without a connection, to the central manager of this job.
    pub fn new(job: JobId, key: &JobKey, place: &CentralPlace, remote: bool) -> CentralLink {
        let whose = Whose {
            job,
            launch: place.launch,
            host: place.host,
        };
        let key = central_key(key, place.launch);
        let token = Token::single(kind::CENTRAL_DIAL);
        let addresses = place.addresses.clone();
        CentralLink {
            link: SessionLink::new(Token::single(kind::CENTRAL)),
            redial: Redial::new("the central manager", key, whose, addresses, token, remote),
            open: true,
            listens: None,
            gives_images: None,
            asks_images: BTreeSet::new(),
            asks_peers: BTreeSet::new(),
        }
    }

    /// This host is reached over a network.
    pub fn use_leases(&mut self, terms: Terms) {
        self.redial.set_limits(terms.silence(), terms.lost_after());
    }

    /// Has each central manager told where other local managers reach this one.
    pub fn listens(&mut self, reach: ManagerReach) {
        self.listens = Some(reach);
    }

    /// Has each central manager told where other local managers copy the files of this host's
    /// images.
    pub fn gives_images(&mut self, reach: ManagerReach) {
        self.gives_images = Some(reach);
    }

    /// Asks each central manager where the files of a host's images are copied, until one has
    /// answered.
    pub fn request_images_of(&mut self, host: u32) -> Result<()> {
        match self.asks_images.insert(host) {
            true => self.notify(&LocalToCentral::RequestImages(host)),
            false => Ok(()),
        }
    }

    /// Asks each central manager where a local manager is reached, until one has answered.
    pub fn request_peer(&mut self, peer: u32) -> Result<()> {
        match self.asks_peers.insert(peer) {
            true => self.notify(&LocalToCentral::RequestPeer(peer)),
            false => Ok(()),
        }
    }

    /// Queues a message.
    pub fn notify(&mut self, message: &LocalToCentral) -> Result<()> {
        Ok(self.link.queue(message)?)
    }

    /// Reads once.
    pub fn fill(&mut self, reactor: &Reactor) -> Filled {
        self.link.fill(reactor)
    }

    /// The next whole message of the received bytes.
    pub fn next(&mut self) -> Result<Option<CentralToLocal>> {
        let message = self.link.next()?;
        match &message {
            Some(CentralToLocal::ImagesAt { host, .. }) => _ = self.asks_images.remove(host),
            Some(CentralToLocal::PeerAt { peer, .. }) => _ = self.asks_peers.remove(peer),
            Some(
                CentralToLocal::Order(_) | CentralToLocal::Tree(_) | CentralToLocal::LookUp(_),
            )
            | None => {}
        }
        Ok(message)
    }

    /// Writes as much as the link takes.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<()> {
        if self.open {
            self.link.flush(reactor)?;
        }
        Ok(())
    }

    /// Ends the link.
    pub fn close(&mut self, reactor: &Reactor) -> Result<()> {
        if std::mem::take(&mut self.open) {
            self.link.send_bye();
            self.link.flush(reactor)?;
            self.link.detach(reactor);
            self.redial.cancel(reactor);
        }
        Ok(())
    }

    /// Calls central, if there is need. Whether central dismisses this host.
    pub fn call(&mut self, reactor: &Reactor) -> Result<bool> {
        if !self.open {
            return Ok(false);
        }
        let called = self.redial.call(&mut self.link, reactor)?;
        self.called(called)
    }

    /// A call continues. Whether central dismisses this host.
    pub fn answered(&mut self, reactor: &Reactor) -> Result<bool> {
        let called = self.redial.ready(&mut self.link, reactor)?;
        self.called(called)
    }

    fn called(&mut self, called: Called) -> Result<bool> {
        if called == Called::NewPeer {
            let listens = self.listens.clone().map(LocalToCentral::Listens);
            let gives = self.gives_images.clone().map(LocalToCentral::GivesImages);
            let asks = self.asks_images.iter().copied();
            let asks = asks.map(LocalToCentral::RequestImages);
            let peers = self.asks_peers.iter().copied();
            let asks = asks.chain(peers.map(LocalToCentral::RequestPeer));
            for message in listens.into_iter().chain(gives).chain(asks) {
                self.link.queue(&message)?;
            }
        }
        Ok(called == Called::Dismissed)
    }

    /// When [`CentralLink::call`] is due.
    pub fn wait_limit(&self) -> Option<Duration> {
        self.redial.wait_limit(&self.link).filter(|_| self.open)
    }
}
