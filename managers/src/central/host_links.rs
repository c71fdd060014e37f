//! Central's links to the local managers, by the number of their host.
//!
//! Local managers dial, also those of this host. A restarted central manager has the listening
//! sockets from mpirun, so it has the same addresses. Its links begin anew; a local manager learns
//! that from the handshake ([`rejoin_managers_net::auth`]). A broken connection proves nothing.
//! mpirun reports managers that have ended, and leases detect silence.

use super::requested_places::RequestedPlaces;
use super::tree_top::{Outgoing, TREES, Top};
use crate::launch::local_messages::{CentralToLocal, LocalToCentral};
use crate::launch::tree::{JobTree, goes_down};
use rejoin_channel_table::{JobId, JobKey, LanId};
use rejoin_managers_host::error::Result;
use rejoin_managers_host::host_clocks::now;
use rejoin_managers_host::host_limits;
use rejoin_managers_net::address::ManagerReach;
use rejoin_managers_net::auth::central_key;
use rejoin_managers_net::local_link::Filled;
use rejoin_managers_net::manager_listener::{Listener, ListeningSockets, ProvedManager};
use rejoin_managers_net::reactor::{Reactor, Token};
use rejoin_managers_net::session_link::SessionLink;
use rejoin_managers_protocol::central::{HostIndex, Job};
use rejoin_managers_protocol::detector::{WatchOrder, WatchReport};
use rejoin_managers_protocol::manager_messages::{HostMessage, ToCentral, ToLocal};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// The setup of the links of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkPlan {
    /// The job.
    pub id: JobId,
    /// The job's key.
    #[serde(with = "rejoin_channel_table::ids::job_key")]
    pub key: JobKey,
    /// How often local managers were launched for the job before.
    pub launch: u32,
    /// How often a central manager was started for this launch before.
    pub restarts: u32,
    /// The tree, if there is one.
    pub tree: Option<JobTree>,
    /// Ranks look cards up.
    pub lookups: bool,
}

/// Kinds of the events in a central manager's process.
pub mod kind {
    /// Of the link to mpirun.
    pub const MPIRUN: u8 = 0;
    /// Of the link to a local manager; the index is its host.
    pub const HOST: u8 = 1;
    /// Of a caller that has not proved itself.
    pub const CALLER: u8 = 2;
}

/// One local manager.
struct HostLink {
    link: SessionLink,
    open: bool,
}

/// All links; a host that can't have ranks has none.
pub struct HostLinks {
    links: Vec<Option<HostLink>>,
    listener: Listener,
    launch: u32,
    /// The site of each host.
    lans: Vec<LanId>,
    /// Of a job on many hosts, or at several sites.
    top: Option<Top>,
    /// Where the files of hosts' images are copied.
    image_places: RequestedPlaces,
    /// Where local managers reach each other.
    peer_places: RequestedPlaces,
}

impl HostLinks {
    /// Links without connections, for the hosts that have ranks, or may have some later.
    ///
    /// # Errors
    /// The system refuses to watch the listening sockets.
    pub fn new(
        job: &Job,
        plan: &LinkPlan,
        sockets: ListeningSockets,
        reactor: &Reactor,
    ) -> Result<HostLinks> {
        let hosts = job.hosts.len();
        let used: Vec<HostIndex> = (0..hosts)
            .filter(|host| job.placement.contains(host))
            .collect();
        // Others may take in ranks of a lost host: what they are told then waits for their calls.
        let takes_in = job.failover.as_ref().filter(|failover| failover.takes_in);
        let may_join = |host: &HostIndex| takes_in.is_some_and(|f| !f.lost.contains(host));
        let link = |host: HostIndex| {
            let has_link = used.contains(&host) || may_join(&host);
            let token = Token::indexed(kind::HOST, u32::try_from(host).unwrap_or(u32::MAX));
            let link = has_link.then(|| SessionLink::new(token));
            link.map(|link| HostLink { link, open: true })
        };
        let links = (0..hosts).map(link).collect();
        let most = host_limits::callers(host_limits::launcher(hosts));
        let key = central_key(&plan.key, plan.launch);
        let instance = u64::from(plan.restarts);
        let callers = (kind::CALLER, most);
        let listener = Listener::new(plan.id, key, sockets, callers, instance, reactor)?;
        let run = (u64::from(plan.launch) << 48) | (instance * TREES);
        let top = |tree| Top::new(tree, run, &job.placement, plan.lookups);
        Ok(HostLinks {
            links,
            listener,
            launch: plan.launch,
            lans: (0..hosts)
                .map(|host| job.lans.get(host).cloned().unwrap_or_default())
                .collect(),
            top: plan.tree.as_ref().map(top),
            image_places: RequestedPlaces::default(),
            peer_places: RequestedPlaces::default(),
        })
    }

    /// The job has one more host, at this site.
    pub fn add_host(&mut self, lan: LanId) {
        self.lans.push(lan);
        let host = u32::try_from(self.links.len()).unwrap_or(u32::MAX);
        let link = SessionLink::new(Token::indexed(kind::HOST, host));
        self.links.push(Some(HostLink { link, open: true }));
    }

    fn open(&mut self, host: HostIndex) -> Option<&mut SessionLink> {
        let link = self.links.get_mut(host)?.as_mut();
        link.filter(|l| l.open).map(|l| &mut l.link)
    }

    fn queue(&mut self, host: HostIndex, message: &CentralToLocal) -> Result<()> {
        match self.open(host) {
            Some(link) => Ok(link.queue(message)?),
            None => Ok(()),
        }
    }

    /// Queues an order to a host; nothing is said to one whose link is closed.
    ///
    /// # Errors
    /// The order is above the limit of messages.
    pub fn order(&mut self, host: HostIndex, order: ToLocal) -> Result<()> {
        let order = match order {
            ToLocal::Watch(order) => ToLocal::Watch(self.with_peers(order)),
            order => order,
        };
        let begin = self.top.as_mut().and_then(|top| top.without_table(&order));
        self.queue(host, &CentralToLocal::Order(begin.unwrap_or(order)))
    }

    /// From now on the ranks are on these hosts: so an order to start says.
    pub fn place(&mut self, placement: &[HostIndex]) {
        if let Some(top) = &mut self.top {
            top.place(placement);
        }
    }

    /// The order with the numbers by which local managers know each other.
    fn with_peers(&self, order: WatchOrder) -> WatchOrder {
        let peer = |host: HostIndex| self.peer_of(host);
        match order {
            WatchOrder::Watch(hosts) => WatchOrder::Watch(hosts.into_iter().map(peer).collect()),
            WatchOrder::RankOn(rank, host) => WatchOrder::RankOn(rank, peer(host)),
            order @ WatchOrder::Ask { .. } => order,
        }
    }

    /// The number of a host's manager among the local managers: its position in the tree, if there
    /// is one.
    fn peer_of(&self, host: HostIndex) -> usize {
        let top = self.top.as_ref();
        // Positions are those of all hosts but the added ones.
        top.map_or(host, |top| top.position(host).unwrap_or(host))
    }

    /// The host whose manager has this number.
    fn host_of_peer(&self, peer: usize) -> HostIndex {
        let top = self.top.as_ref();
        top.map_or(peer, |top| top.host_at(peer).unwrap_or(peer))
    }

    /// Queues an order to several hosts. The table of ranks, updates of it and requests for
    /// checkpoints go down the tree, if there is one.
    ///
    /// # Errors
    /// The order is above the limit of messages.
    pub fn spread(&mut self, hosts: &[HostIndex], order: ToLocal) -> Result<()> {
        if let (Some(generation), Some(top)) = (goes_down(&order), &mut self.top)
            && let Some(outgoing) = top.cast(now(), generation, &order)?
        {
            self.go_down(outgoing)?;
            let reaches =
                |host: &HostIndex| self.top.as_ref().is_some_and(|top| top.reaches(*host));
            let apart: Vec<HostIndex> = hosts.iter().filter(|h| !reaches(h)).copied().collect();
            return apart
                .into_iter()
                .try_for_each(|host| self.order(host, order.clone()));
        }
        hosts
            .iter()
            .try_for_each(|host| self.order(*host, order.clone()))
    }

    fn go_down(&mut self, outgoing: Outgoing) -> Result<()> {
        for (host, message) in outgoing {
            self.queue(host, &CentralToLocal::Tree(message))?;
        }
        Ok(())
    }

    /// Writes as much as the links take, and watches those that did not take all. Returns whether
    /// some host may not have everything.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<bool> {
        let mut left = false;
        for host in self.links.iter_mut().flatten().filter(|l| l.open) {
            left |= host.link.flush(reactor)?;
        }
        Ok(left)
    }

    /// Reads once from a host. Returns its messages to the core; `None`: there was nothing to read.
    ///
    /// # Errors
    /// The bytes are no message.
    pub fn read(&mut self, host: HostIndex, reactor: &Reactor) -> Result<Option<Vec<ToCentral>>> {
        let Some(link) = self.open(host) else {
            return Ok(None);
        };
        match link.fill(reactor) {
            // The local manager calls again, if it lives.
            Filled::Nothing | Filled::Broken => return Ok(None),
            Filled::Closed => {
                self.close(host, reactor);
                return Ok(None);
            }
            Filled::Some => {}
        }
        let mut news = Vec::new();
        while let Some(link) = self.open(host)
            && let Some(message) = link.next()?
        {
            match message {
                LocalToCentral::News(one) => news.push(self.with_hosts(one)),
                LocalToCentral::Listens(addresses) => self.listens(host, addresses)?,
                LocalToCentral::GivesImages(addresses) => self.gives_images(host, addresses)?,
                LocalToCentral::RequestImages(about) => self.on_images_request(host, about)?,
                LocalToCentral::RequestPeer(peer) => {
                    let about = self.host_of_peer(peer as usize);
                    if let Some(reach) = self.peer_places.request(host, about) {
                        let addresses = self.seen_from(host, about, &reach);
                        self.queue(host, &CentralToLocal::PeerAt { peer, addresses })?;
                    }
                }
                LocalToCentral::Tree(message) => {
                    if let Some(top) = &mut self.top {
                        let outgoing = top.on_report(now(), host, message)?;
                        self.go_down(outgoing)?;
                    }
                }
                LocalToCentral::LookUp(question) => {
                    let top = self.top.as_mut();
                    let answer = top.and_then(|top| top.answer_lookup(now(), host, question));
                    if let Some(answer) = answer {
                        self.queue(host, &CentralToLocal::LookUp(answer))?;
                    }
                }
            }
        }
        Ok(Some(news))
    }

    /// The addresses of a local manager. That from which it called comes first: of its other
    /// addresses some may mean nothing elsewhere, or another machine.
    fn sorted(&mut self, host: HostIndex, reach: ManagerReach) -> ManagerReach {
        let seen = self.open(host).and_then(|link| link.peer());
        reach.with_first(seen)
    }

    /// The addresses at which a host dials another.
    fn seen_from(&self, from: HostIndex, to: HostIndex, reach: &ManagerReach) -> Vec<SocketAddr> {
        reach.seen_from(self.lans.get(from) == self.lans.get(to))
    }

    /// A host asks where the files of another one's images are copied. One that takes no part has
    /// no address.
    fn on_images_request(&mut self, host: HostIndex, about: u32) -> Result<()> {
        let other = about as usize;
        let addresses = match self.image_places.request(host, other) {
            Some(reach) => self.seen_from(host, other, &reach),
            None if self.open(other).is_none() => Vec::new(),
            None => return Ok(()),
        };
        let answer = CentralToLocal::ImagesAt {
            host: about,
            addresses,
        };
        self.queue(host, &answer)
    }

    /// Nobody asks a host for files any more that takes no part.
    fn images_gone(&mut self, host: HostIndex) -> Result<()> {
        let links = self.links.iter().enumerate();
        let open = links.filter(|(_, link)| link.as_ref().is_some_and(|link| link.open));
        let others: Vec<HostIndex> = open.map(|(other, _)| other).collect();
        if !self.image_places.forget(host, others.iter().copied()) {
            return Ok(());
        }
        let gone = CentralToLocal::ImagesAt {
            host: u32::try_from(host).unwrap_or(u32::MAX),
            addresses: Vec::new(),
        };
        others
            .into_iter()
            .try_for_each(|other| self.queue(other, &gone))
    }

    /// A local manager says where others copy the files of its images.
    fn gives_images(&mut self, host: HostIndex, reach: ManagerReach) -> Result<()> {
        let reach = self.sorted(host, reach);
        let askers = self.image_places.learn(host, reach.clone());
        let number = u32::try_from(host).unwrap_or(u32::MAX);
        askers.into_iter().try_for_each(|to| {
            let answer = CentralToLocal::ImagesAt {
                host: number,
                addresses: self.seen_from(to, host, &reach),
            };
            self.queue(to, &answer)
        })
    }

    /// A local manager says where others reach it.
    fn listens(&mut self, host: HostIndex, reach: ManagerReach) -> Result<()> {
        let reach = self.sorted(host, reach);
        if let Some(top) = &mut self.top {
            top.listens(host, reach.clone());
        }
        let askers = self.peer_places.learn(host, reach.clone());
        let peer = u32::try_from(self.peer_of(host)).unwrap_or(u32::MAX);
        askers.into_iter().try_for_each(|to| {
            let answer = CentralToLocal::PeerAt {
                peer,
                addresses: self.seen_from(to, host, &reach),
            };
            self.queue(to, &answer)
        })
    }

    /// The message with the numbers of hosts.
    fn with_hosts(&self, message: ToCentral) -> ToCentral {
        match message {
            ToCentral::Host(HostMessage::Watch(WatchReport::Suspect { host, failure })) => {
                let host = self.host_of_peer(host);
                ToCentral::Host(HostMessage::Watch(WatchReport::Suspect { host, failure }))
            }
            other => other,
        }
    }

    /// An event of a caller: a new connection, or the next step of its proof.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    pub fn called(&mut self, index: u32, reactor: &Reactor) -> Result<()> {
        match self.listener.ready(index, reactor)? {
            Some(arrival) => self.arrived(arrival, reactor),
            None => Ok(()),
        }
    }

    fn arrived(&mut self, arrival: ProvedManager, reactor: &Reactor) -> Result<()> {
        let (whose, theirs) = (arrival.whose, arrival.theirs);
        let host = whose.host as usize;
        let link = self.links.get_mut(host).and_then(Option::as_mut);
        let wanted = link.filter(|l| l.open && whose.launch == self.launch);
        let Some(HostLink { link, .. }) = wanted else {
            tracing::info!(host, "a manager that is not wanted is sent away");
            let _ = self.listener.answer(arrival, None);
            return Ok(());
        };
        if let Some(socket) = self.listener.answer(arrival, Some(link.received())) {
            tracing::debug!(host, "a local manager has called");
            link.attach(socket.into(), theirs, reactor)?;
        }
        Ok(())
    }

    /// Does the due work.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    pub fn run_timers(&mut self, reactor: &Reactor) -> Result<()> {
        self.listener.drop_late(reactor)?;
        let outgoing = self.top.as_mut().map(|top| top.tick(now())).transpose()?;
        self.go_down(outgoing.unwrap_or_default())
    }

    /// When [`HostLinks::run_timers`] is due.
    #[must_use]
    pub fn wait_limit(&self) -> Option<Duration> {
        let tree = self.top.as_ref().and_then(Top::deadline);
        let tree = tree.map(|at| Duration::from_nanos(at.0.saturating_sub(now().0)));
        self.listener.wait_limit().into_iter().chain(tree).min()
    }

    /// Closes a host's link: it takes no part any more, and is sent away when it calls.
    pub fn close(&mut self, host: HostIndex, reactor: &Reactor) {
        let Some(link) = self.open(host) else {
            return;
        };
        link.send_bye();
        // A manager that does not take it learns of the end when it dials again.
        let _ = link.flush(reactor);
        link.detach(reactor);
        if let Some(Some(link)) = self.links.get_mut(host) {
            link.open = false;
        }
        if let Err(error) = self.images_gone(host) {
            tracing::warn!(%error, "hosts may ask a lost one for files");
        }
        let Some(top) = &mut self.top else {
            return;
        };
        let outgoing = top.lost(now(), host);
        if let Err(error) = outgoing.and_then(|outgoing| self.go_down(outgoing)) {
            tracing::warn!(%error, "the table is not passed on");
        }
    }
}
