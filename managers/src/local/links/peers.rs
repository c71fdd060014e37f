//! Links to local managers of other hosts. A manager makes them when it has something to send: the
//! table, which each manager forwards to its children, and look-ups of ranks.
//!
//! A link that breaks is not resumed. The core waits for an answer, and without one it tries
//! another way.

use crate::launch::launch_plan::LaunchPlan;
use crate::launch::local_messages::PeerMessage;
use crate::launch::tree::{TreeOrder, TreePlace, goes_down};
use crate::local::kind;
use peer_probes::Probing;
use rejoin_channel_table::{JobId, JobKey};
use rejoin_managers_host::error::Result;
use rejoin_managers_host::host_clocks;
use rejoin_managers_host::host_limits;
use rejoin_managers_net::address::{ListenAt, ManagerReach};
use rejoin_managers_net::auth::{Whose, peer_key};
use rejoin_managers_net::dial::{Dialed, ManagerDialer};
use rejoin_managers_net::local_link::Filled;
use rejoin_managers_net::manager_listener::{Listener, ProvedManager};
use rejoin_managers_net::reactor::{Reactor, Token};
use rejoin_managers_net::session_link::SessionLink;
use rejoin_managers_protocol::broadcast::{BroadcastEffect, BroadcastMessage, Member};
use rejoin_managers_protocol::detector::ProbeFailure;
use rejoin_managers_protocol::lookup;
use rejoin_managers_protocol::manager_messages::ToLocal;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time limit to reach a host, which covers attempts at a few addresses. After it the manager
/// continues without the host.
const DIAL_LIMIT: Duration = Duration::from_secs(3);

/// A link over which nothing has come for so long is closed; the next message makes a new one.
const IDLE: Duration = Duration::from_secs(30);

/// A link that was dialed here, or is being dialed.
struct Dialing {
    link: SessionLink,
    dialer: ManagerDialer,
    number: u32,
    connected: bool,
    until: Instant,
}

/// A link that another manager has dialed.
struct Caller {
    link: SessionLink,
    number: u32,
}

/// A local manager's links to other local managers.
pub struct Peers {
    member: Member<TreeOrder>,
    /// The table goes down a tree; otherwise peers only probe each other.
    has_tree: bool,
    place: TreePlace,
    job: JobId,
    key: JobKey,
    /// `None`: this host cannot be reached.
    listener: Option<Listener>,
    /// Where each manager listens, by position, as the last message with addresses has said.
    addresses: Vec<ManagerReach>,
    dialing: BTreeMap<u32, Dialing>,
    callers: BTreeMap<u32, Caller>,
    /// Of links, to tell an old one's events.
    number: u32,
    /// Messages for central.
    up: Vec<BroadcastMessage<TreeOrder>>,
    /// Orders for this manager's own core.
    orders: Vec<ToLocal>,
    /// Look-up messages for this manager's own core, with their senders.
    lookups: Vec<(u32, lookup::LookupMessage)>,
    probing: Probing,
}

impl Peers {
    /// A manager without links, whose listener takes calls from now on.
    pub fn new(plan: &LaunchPlan, place: TreePlace, reactor: &Reactor) -> Peers {
        let key = peer_key(&plan.key, place.launch, place.position);
        let at = ListenAt::of(&plan.options);
        let most = host_limits::callers(host_limits::local(
            plan.ranks.len() as u64,
            plan.options.images.is_some(),
        ));
        let listener = Listener::open(plan.job, key, &at, (kind::PEERS, most), reactor);
        Peers {
            member: Member::new(Some(place.position as usize), place.tree()),
            // Probes alone need none.
            has_tree: plan.tree.is_some() || plan.probes.is_none(),
            place,
            job: plan.job,
            key: plan.key.clone(),
            listener: listener
                .inspect_err(|error| tracing::warn!(%error, "other hosts can't call"))
                .ok(),
            addresses: Vec::new(),
            dialing: BTreeMap::new(),
            callers: BTreeMap::new(),
            number: 0,
            up: Vec::new(),
            orders: Vec::new(),
            lookups: Vec::new(),
            probing: Probing::default(),
        }
    }

    /// Addresses at which other local managers reach this one; none if they can't.
    pub fn reach(&self) -> ManagerReach {
        let listener = self.listener.as_ref();
        listener.map_or_else(ManagerReach::default, |l| l.reach().clone())
    }

    /// An event of the listener, of a dial or of a link.
    pub fn event(&mut self, token: Token, reactor: &Reactor) -> Result<()> {
        match token.kind {
            kind::PEERS => self.called(token.index, reactor),
            kind::PEER_DIAL => self.dialed(token, reactor),
            _ => self.read(token, reactor),
        }
    }

    /// Takes the messages for central.
    pub fn take_for_central(&mut self) -> Vec<BroadcastMessage<TreeOrder>> {
        std::mem::take(&mut self.up)
    }

    /// Takes the orders for this manager's own core.
    pub fn take_orders(&mut self) -> Vec<ToLocal> {
        std::mem::take(&mut self.orders)
    }

    /// Takes the look-up messages for this manager's own core, with their senders.
    pub fn take_lookups(&mut self) -> Vec<(u32, lookup::LookupMessage)> {
        std::mem::take(&mut self.lookups)
    }

    fn token(&mut self, kind: u8, index: u32) -> Token {
        self.number = self.number.wrapping_add(1);
        Token {
            kind,
            incarnation: self.number,
            index,
        }
    }

    /// A manager says this: central (`None`) or the one at a position.
    pub fn on_message(
        &mut self,
        from: Option<u32>,
        message: BroadcastMessage<TreeOrder>,
        reactor: &Reactor,
    ) -> Result<()> {
        let mut effects = Vec::new();
        let from = from.map(|position| position as usize);
        self.member
            .on_message(host_clocks::now(), from, message, &mut effects);
        // A message that comes late, or a second time, may name hosts that are others by now.
        let addresses = effects.iter().find_map(|effect| match effect {
            BroadcastEffect::Deliver(payload) => Some(payload.addresses()),
            BroadcastEffect::Send(..) | BroadcastEffect::Complete(_) => None,
        });
        if let Some(addresses) = addresses.filter(|addresses| !addresses.is_empty()) {
            self.addresses = addresses.to_vec();
        }
        self.perform(effects, reactor)
    }

    /// The host at a position can't be reached.
    fn lost(&mut self, position: u32, reactor: &Reactor) -> Result<()> {
        if !self.has_tree {
            return Ok(());
        }
        let mut effects = Vec::new();
        self.member
            .lost(host_clocks::now(), position as usize, &mut effects);
        self.perform(effects, reactor)
    }

    fn perform(
        &mut self,
        mut effects: Vec<BroadcastEffect<TreeOrder>>,
        reactor: &Reactor,
    ) -> Result<()> {
        while !effects.is_empty() {
            let mut more = Vec::new();
            for effect in effects {
                match effect {
                    BroadcastEffect::Send(None, message) => self.up.push(message),
                    BroadcastEffect::Send(Some(position), message) => {
                        let narrow = u32::try_from(position).unwrap_or(u32::MAX);
                        if !self.send(narrow, &PeerMessage::Tree(message), reactor)? {
                            self.member.lost(host_clocks::now(), position, &mut more);
                        }
                    }
                    BroadcastEffect::Deliver(payload) => match payload.order() {
                        Ok(order) if goes_down(&order).is_some() => self.orders.push(order),
                        Ok(_) => tracing::warn!("an order that came by the wrong way"),
                        Err(error) => tracing::warn!(%error, "a malformed order"),
                    },
                    BroadcastEffect::Complete(_) => {}
                }
            }
            effects = more;
        }
        Ok(())
    }

    /// Queues a message. Returns whether there is a way.
    pub fn send(&mut self, to: u32, message: &PeerMessage, reactor: &Reactor) -> Result<bool> {
        let caller = self.callers.get_mut(&to);
        if let Some(caller) = caller.filter(|caller| caller.link.is_connected()) {
            caller.link.queue(message)?;
            return Ok(true);
        }
        if !self.dialing.contains_key(&to) && !self.dial(to, reactor)? {
            return Ok(false);
        }
        if let Some(dialing) = self.dialing.get_mut(&to) {
            dialing.link.queue(message)?;
        }
        Ok(true)
    }

    fn dial(&mut self, to: u32, reactor: &Reactor) -> Result<bool> {
        let reach = self.addresses.get(to as usize);
        let seen = || reach.map(|reach| reach.seen_from(self.place.shares_site(to)));
        let known = self.probing.addresses(to).map(<[SocketAddr]>::to_vec);
        let addresses = known.or_else(seen).unwrap_or_default();
        if addresses.is_empty() || to == self.place.position {
            return Ok(false);
        }
        let addresses = addresses.into_iter().map(Into::into).collect();
        let key = peer_key(&self.key, self.place.launch, to);
        let whose = Whose {
            job: self.job,
            launch: self.place.launch,
            host: self.place.position,
        };
        let token = self.token(kind::PEER_DIAL, to);
        let number = token.incarnation;
        let link = Token {
            kind: kind::PEER_OUT,
            ..token
        };
        let mut dialer = ManagerDialer::new(key, whose, addresses, token);
        dialer.poll(true, reactor)?;
        tracing::debug!(position = to, "a link to another local manager");
        let dialing = Dialing {
            link: SessionLink::new(link),
            dialer,
            number,
            connected: false,
            until: Instant::now() + DIAL_LIMIT,
        };
        self.dialing.insert(to, dialing);
        Ok(true)
    }

    /// A dial continues.
    fn dialed(&mut self, token: Token, reactor: &Reactor) -> Result<()> {
        let dialing = self.dialing.get_mut(&token.index);
        let Some(dialing) = dialing.filter(|d| d.number == token.incarnation) else {
            return Ok(());
        };
        match dialing.dialer.ready(&mut dialing.link, reactor)? {
            Dialed::Nothing => Ok(()),
            Dialed::Connected => {
                dialing.connected = true;
                Ok(())
            }
            Dialed::Dismissed => self.drop_dialed(token.index, reactor),
        }
    }

    /// Drops a link that was dialed here.
    fn drop_dialed(&mut self, position: u32, reactor: &Reactor) -> Result<()> {
        if let Some(mut dialing) = self.dialing.remove(&position) {
            let is_refused = dialing.dialer.is_refused();
            self.probing
                .is_down(position, dialing.connected, is_refused);
            dialing.dialer.cancel(reactor);
            dialing.link.detach(reactor);
        }
        self.lost(position, reactor)
    }

    /// An event of a caller: a new connection, or the next step of its proof.
    fn called(&mut self, index: u32, reactor: &Reactor) -> Result<()> {
        let Some(listener) = &mut self.listener else {
            return Ok(());
        };
        let Some(arrival) = listener.ready(index, reactor)? else {
            return Ok(());
        };
        let ProvedManager { whose, theirs, .. } = arrival;
        let from = whose.host;
        let right = whose.launch == self.place.launch && from != self.place.position;
        let Some(socket) = listener.answer(arrival, right.then_some(0)) else {
            return Ok(());
        };
        if let Some(mut old) = self.callers.remove(&from) {
            old.link.detach(reactor);
        }
        let token = self.token(kind::PEER_IN, from);
        let mut link = SessionLink::new(token);
        link.attach(socket.into(), theirs, reactor)?;
        let number = token.incarnation;
        self.callers.insert(from, Caller { link, number });
        Ok(())
    }

    fn read(&mut self, token: Token, reactor: &Reactor) -> Result<()> {
        let position = token.index;
        let outward = token.kind == kind::PEER_OUT;
        let dialing = self.dialing.get_mut(&position).filter(|_| outward);
        let dialing = dialing.filter(|d| d.number == token.incarnation);
        let caller = self.callers.get_mut(&position).filter(|_| !outward);
        let caller = caller.filter(|c| c.number == token.incarnation);
        let link = dialing.map(|d| &mut d.link).or(caller.map(|c| &mut c.link));
        let Some(link) = link else {
            return Ok(());
        };
        let mut messages = Vec::new();
        let mut over = !matches!(link.fill(reactor), Filled::Some | Filled::Nothing);
        loop {
            match link.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => {
                    // One that proved itself, but of no use.
                    tracing::warn!(%error, position, "a local manager's link is dropped");
                    over = true;
                    break;
                }
            }
        }
        over |= link.has_received_bye();
        for message in messages {
            match message {
                PeerMessage::Tree(message) => self.on_message(Some(position), message, reactor)?,
                PeerMessage::LookUp(message) => self.lookups.push((position, message)),
                PeerMessage::Probe(message) => self.probing.on_message(position, message),
            }
        }
        if over && outward {
            self.drop_dialed(position, reactor)?;
        } else if over {
            if let Some(mut caller) = self.callers.remove(&position) {
                caller.link.detach(reactor);
            }
            self.lost(position, reactor)?;
        }
        Ok(())
    }

    /// Does the due work, and writes as much as the links take.
    pub fn run_timers(&mut self, reactor: &Reactor) -> Result<()> {
        if let Some(listener) = &mut self.listener {
            listener.drop_late(reactor)?;
        }
        let mut effects = Vec::new();
        let now = host_clocks::now();
        if self.member.deadline().is_some_and(|at| at <= now) {
            self.member.tick(now, &mut effects);
        }
        self.perform(effects, reactor)?;
        let mut over = Vec::new();
        for (position, dialing) in &mut self.dialing {
            if dialing.connected {
                if dialing.link.last_received().elapsed() > IDLE {
                    dialing.link.send_bye();
                    dialing.link.flush(reactor)?;
                    over.push(*position);
                }
            } else if dialing.until <= Instant::now() {
                tracing::info!(position, why = dialing.dialer.trouble(), "out of reach");
                over.push(*position);
            } else {
                dialing.dialer.poll(true, reactor)?;
            }
        }
        self.note_refusals();
        over.into_iter()
            .try_for_each(|position| self.drop_dialed(position, reactor))?;
        for dialing in self.dialing.values_mut() {
            dialing.link.flush(reactor)?;
        }
        for caller in self.callers.values_mut() {
            caller.link.flush(reactor)?;
        }
        Ok(())
    }

    /// Notes connections that are refused while they are tried again.
    fn note_refusals(&mut self) {
        let refused = self
            .dialing
            .iter()
            .filter(|(_, d)| !d.connected && d.dialer.is_refused());
        let refused = refused.map(|(peer, _)| (*peer, ProbeFailure::Refused));
        self.probing.failures.extend(refused);
    }

    /// Time until [`Peers::run_timers`] is due.
    pub fn wait_limit(&self) -> Option<Duration> {
        let strangers = self.listener.as_ref().and_then(Listener::wait_limit);
        let due = self.member.deadline();
        let due = due.map(|at| Duration::from_nanos(at.0.saturating_sub(host_clocks::now().0)));
        let links = self.dialing.values().map(|dialing| {
            let at = match dialing.connected {
                true => dialing.link.last_received() + IDLE + Duration::from_millis(1),
                false => dialing.until,
            };
            let left = at.saturating_duration_since(Instant::now());
            let dial = dialing.dialer.wait_limit(!dialing.connected);
            dial.map_or(left, |dial| dial.min(left))
        });
        strangers.into_iter().chain(due).chain(links).min()
    }
}

mod peer_probes;
mod probe_calls;
#[cfg(test)]
mod tests;
