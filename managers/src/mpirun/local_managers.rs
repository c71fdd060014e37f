//! mpirun's handle of the local managers, by the number of their host. mpirun starts them. Its
//! links to them carry streams and messages for the user. Central has links of its own.
//!
//! mpirun starts the local manager of this host at the other end of a socket pair. A launch agent
//! starts those of other hosts, which connect back ([`rejoin_managers_net`]). This module decides
//! from the connections when such a manager is lost. Central decides it after silence.

use super::watchdog::{Activity, Duty, Watchdog};
use crate::LOCAL_MANAGER;
use crate::launch::child_manager::start_manager;
use crate::launch::launch_agent::LaunchAgent;
use crate::launch::launch_plan::{CentralPlace, LaunchPlan};
use crate::launch::local_messages::{LocalToMpirun, MpirunToLocal};
use crate::launch::machines::Machines;
use crate::launch::tree::{JobTree, TreePlace};
use rejoin_channel_table::JobKey;
use rejoin_managers_host::error::Result;
use rejoin_managers_host::{descendants, host_limits};
use rejoin_managers_net::address::{ManagerAddress, ManagerReach};
use rejoin_managers_net::auth::Whose;
use rejoin_managers_net::invite::Invitation;
use rejoin_managers_net::local_link::{Filled, LocalLink};
use rejoin_managers_net::manager_link::ManagerLink;
use rejoin_managers_net::manager_listener::{Listener, ProvedManager};
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_net::session_link::SessionLink;
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_report::user_log;
use rejoin_wire::codec::MANAGER_LIMIT;
use std::time::{Duration, Instant};

/// A manager on another host that does not call in this time does not come.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// A manager that has taken its leave ends its ranks, and its supervisor reports the end, within
/// this time.
const REPORT_LIMIT: Duration = Duration::from_secs(5);

/// One local manager.
struct ManagerEntry {
    link: ManagerLink,
    open: bool,
    /// Of one on this host: its process id, and whether it answers.
    own: Option<(u32, Watchdog)>,
    /// Of one on another host.
    remote: Option<RemoteManager>,
}

/// A local manager on another host.
struct RemoteManager {
    name: String,
    agent: LaunchAgent,
    /// The manager has called.
    called: bool,
    /// The manager is lost if no message comes from it until then; `None` while it is connected.
    /// The lease covers other silence.
    until: Option<Instant>,
    /// The user knows that its agent has ended without a report.
    told: bool,
}

/// All local managers; a host without ranks has none.
pub(super) struct LocalManagers {
    locals: Vec<Option<ManagerEntry>>,
    listener: Option<Listener>,
    launch: u32,
    /// For how long one whose connection broke is waited for.
    patience: Duration,
    /// Managers that have called for the first time, and were not reported yet.
    called: Vec<HostIndex>,
    /// Lost ones that were not reported yet.
    gone: Vec<LostManager>,
    /// Managers that have taken their leave, until their supervisors report, or this time.
    leaving: Vec<(HostIndex, Instant)>,
    central: CentralAddresses,
    /// The tree that orders go down, if there is one.
    tree: Option<JobTree>,
    /// Kind of the events of links.
    link_kind: u8,
}

/// A local manager that is lost.
pub(super) struct LostManager {
    /// Number of its host.
    pub host: HostIndex,
    /// Why it counts as lost, one line.
    pub why: String,
    /// The manager has ended, and every process below it.
    pub has_ended: bool,
}

/// Where central listens for local managers.
pub(super) struct CentralAddresses {
    /// For other hosts.
    pub net: ManagerReach,
    /// For this host.
    pub local: String,
}

impl CentralAddresses {
    /// For a host, which is this one or another.
    fn of(&self, machines: &Machines, host: HostIndex) -> Vec<ManagerAddress> {
        let net = || self.net.seen_from(machines.is_near(host));
        match machines.is_remote(host) {
            true => net().into_iter().map(Into::into).collect(),
            false => vec![ManagerAddress::Local(self.local.clone())],
        }
    }
}

/// Kinds of events: of links, and of callers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kinds {
    pub link: u8,
    pub net: u8,
}

impl LocalManagers {
    /// Starts a local manager for each host that has ranks, and gives it its part of the plan. The
    /// index of a link's events is the host. `launch` counts how often that was done for this job
    /// before, `tree` is the tree that orders go down.
    pub fn start(
        plan: &LaunchPlan,
        machines: &Machines,
        (launch, tree): (u32, Option<JobTree>),
        central: CentralAddresses,
        kinds: Kinds,
        reactor: &Reactor,
    ) -> Result<LocalManagers> {
        let at = machines.listen_at(&plan.options);
        let listener = machines
            .is_networked()
            .then(|| {
                let kind = (
                    kinds.net,
                    host_limits::callers(host_limits::launcher(machines.hosts.len())),
                );
                Listener::open(plan.job, plan.key.clone(), &at, kind, reactor)
            })
            .transpose()?;
        let mut hosts = LocalManagers {
            locals: Vec::with_capacity(machines.hosts.len()),
            listener,
            launch,
            patience: machines.terms.lost_after(),
            called: Vec::new(),
            gone: Vec::new(),
            leaving: Vec::new(),
            central,
            tree,
            link_kind: kinds.link,
        };
        for host in 0..machines.hosts.len() {
            let part = plan.part(&machines.placement, host);
            let local = match part.ranks.is_empty() {
                true => None,
                false => Some(hosts.start_one(part, machines, host, reactor)?),
            };
            hosts.locals.push(local);
        }
        Ok(hosts)
    }

    /// Starts a local manager on a host that has none, because it takes in ranks of a lost one.
    ///
    /// # Errors
    /// Why there is none.
    pub fn join(
        &mut self,
        host: HostIndex,
        plan: &LaunchPlan,
        machines: &Machines,
        reactor: &Reactor,
    ) -> Result<()> {
        if self.locals.get(host).is_some_and(Option::is_none) {
            let local = self.start_one(plan.part_without_ranks(), machines, host, reactor)?;
            self.locals[host] = Some(local);
        }
        Ok(())
    }

    /// The job has one more host, which has no local manager.
    pub fn add_host(&mut self) {
        self.locals.push(None);
    }

    fn start_one(
        &self,
        mut part: LaunchPlan,
        machines: &Machines,
        host: HostIndex,
        reactor: &Reactor,
    ) -> Result<ManagerEntry> {
        let number = u32::try_from(host).unwrap_or(u32::MAX);
        part.tree = self.tree.as_ref().and_then(|tree| tree.place(host));
        part.central = Some(CentralPlace {
            addresses: self.central.of(machines, host),
            launch: self.launch,
            host: number,
        });
        let machine = &machines.hosts[host];
        part.options.lan.clone_from(&machine.lan);
        if let Some((address, ports)) = machine.advertised {
            part.options.advertised = Some(address);
            part.options.port_range = Some(ports);
        }
        let detection = machines.terms.detection;
        if machines.is_networked() && detection.probes() {
            let place = || TreePlace::of_peer(number, self.launch);
            part.probes = Some((detection, part.tree.clone().unwrap_or_else(place)));
        }
        let token = Token::indexed(self.link_kind, number);
        match machines.is_remote(host) {
            true => self.invite(part, machines, host, token),
            false => start_here(part, token, reactor),
        }
    }

    /// Makes an agent start a local manager on another host. Queued messages wait until it
    /// connects.
    fn invite(
        &self,
        part: LaunchPlan,
        machines: &Machines,
        host: HostIndex,
        token: Token,
    ) -> Result<ManagerEntry> {
        let whose = Whose {
            job: part.job,
            launch: self.launch,
            host: u32::try_from(host).unwrap_or(u32::MAX),
        };
        let reach = self.listener.as_ref().map(Listener::reach);
        let addresses = reach.map(|reach| reach.seen_from(machines.is_near(host)));
        let key = part.key.clone();
        let invitation = Invitation::new(whose, key, addresses.unwrap_or_default());
        let agent = LaunchAgent::start(&machines.command(host), &invitation)?;
        let mut link = SessionLink::new(token);
        // The key goes with the invitation only.
        let key = JobKey::new([0; 32]);
        let lease = Some(machines.terms);
        link.queue(&MpirunToLocal::Launch(Box::new(LaunchPlan {
            key,
            lease,
            ..part
        })))?;
        Ok(ManagerEntry {
            link: ManagerLink::Net(link),
            open: true,
            own: None,
            remote: Some(RemoteManager {
                name: machines.hosts[host].name.clone(),
                agent,
                called: false,
                until: Some(Instant::now() + CALL_LIMIT),
                told: false,
            }),
        })
    }

    /// Queues a message to a host; nothing is said to one whose link is closed.
    pub fn queue(&mut self, host: HostIndex, message: &MpirunToLocal) -> Result<()> {
        match self.open(host) {
            Some(local) => local.link.queue(message),
            None => Ok(()),
        }
    }

    /// Queues a message to every host.
    pub fn queue_all(&mut self, message: &MpirunToLocal) -> Result<()> {
        (0..self.locals.len()).try_for_each(|host| self.queue(host, message))
    }

    /// Writes as much as the links take, and watches those that did not take all.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<()> {
        for local in self.locals.iter_mut().flatten().filter(|l| l.open) {
            local.link.flush(reactor)?;
        }
        Ok(())
    }

    /// Reads once from a host.
    pub fn fill(&mut self, host: HostIndex, reactor: &Reactor) -> Result<Filled> {
        let patience = self.patience;
        let Some(local) = self.open(host) else {
            return Ok(Filled::Nothing);
        };
        let filled = local.link.fill(reactor)?;
        match (filled, &mut local.remote, &mut local.own) {
            (Filled::Some, _, Some((_, watchdog))) => watchdog.answered(Instant::now()),
            (Filled::Some, Some(remote), _) => remote.until = None,
            (Filled::Broken, Some(remote), _) => {
                // It calls again at once, if it can. A firewall that resets connections proves no
                // end.
                tracing::info!(host = remote.name, "a manager's connection broke");
                remote.until = Some(Instant::now() + patience);
            }
            _ => {}
        }
        Ok(filled)
    }

    /// The next message of a host, from the bytes already read.
    pub fn next(&mut self, host: HostIndex) -> Result<Option<LocalToMpirun>> {
        match self.open(host) {
            Some(local) => local.link.next(),
            None => Ok(None),
        }
    }

    /// An event of a caller: a new connection, or the next step of its proof.
    pub fn called(&mut self, index: u32, reactor: &Reactor) -> Result<()> {
        let Some(listener) = &mut self.listener else {
            return Ok(());
        };
        match listener.ready(index, reactor)? {
            Some(arrival) => self.arrived(arrival, reactor),
            None => Ok(()),
        }
    }

    fn arrived(&mut self, arrival: ProvedManager, reactor: &Reactor) -> Result<()> {
        let (whose, theirs) = (arrival.whose, arrival.theirs);
        let Some(listener) = &self.listener else {
            return Ok(());
        };
        let local = self.locals.get_mut(whose.host as usize);
        let wanted = local
            .and_then(Option::as_mut)
            .filter(|l| l.open && whose.launch == self.launch);
        let Some((link, remote)) = wanted.and_then(|l| l.link.net().zip(l.remote.as_mut())) else {
            tracing::info!(
                host = whose.host,
                "a manager that is not wanted is sent away"
            );
            let _ = listener.answer(arrival, None);
            return Ok(());
        };
        if let Some(socket) = listener.answer(arrival, Some(link.received())) {
            tracing::info!(
                host = remote.name,
                again = remote.called,
                "a manager has called"
            );
            if !std::mem::replace(&mut remote.called, true) {
                self.called.push(whose.host as HostIndex);
            }
            link.attach(socket.into(), theirs, reactor)?;
            // Until it says something.
            remote.until = Some(Instant::now() + self.patience);
        }
        Ok(())
    }

    /// A child of this process has ended; it may be an agent.
    pub fn child_ended(&mut self, pid: u32, status: Option<i32>) {
        for local in self.locals.iter_mut().flatten() {
            if let Some(remote) = &mut local.remote {
                remote.agent.ended(pid, status);
            }
        }
    }

    /// Looks who is late, and moves on what waits.
    ///
    /// # Errors
    /// What waits is no message.
    pub fn run_timers(&mut self, reactor: &Reactor) -> Result<()> {
        if let Some(listener) = &mut self.listener {
            listener.drop_late(reactor)?;
        }
        let now = Instant::now();
        self.look_at_leaving(now);
        for (host, local) in self.locals.iter_mut().enumerate() {
            let Some(local) = local.as_mut().filter(|l| l.open) else {
                continue;
            };
            if let Some(remote) = &mut local.remote
                && let Some((why, has_ended)) = remote.lost(now)
            {
                remote.until = None;
                self.gone.push(LostManager {
                    host,
                    why,
                    has_ended,
                });
            }
            let duty = local.own.as_mut().map(|(pid, watchdog)| {
                let pid = *pid;
                watchdog.check(now, || Activity::of(pid))
            });
            match (duty, &local.own) {
                (Some(Duty::Ask), _) => local.link.queue(&MpirunToLocal::Ping)?,
                (Some(Duty::End(silent)), Some((pid, _))) => {
                    // Its ranks end with it.
                    descendants::send(*pid, libc::SIGKILL);
                    let why =
                        format!("its local manager did not answer for {silent} s and was killed");
                    self.gone.push(LostManager {
                        host,
                        why,
                        has_ended: false,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A manager on another host has taken its leave: it is lost once its supervisor has reported
    /// that nothing is left, or after a while.
    pub fn has_left(&mut self, host: HostIndex) {
        self.leaving.push((host, Instant::now() + REPORT_LIMIT));
    }

    /// Looks which of them have ended.
    fn look_at_leaving(&mut self, now: Instant) {
        let locals = &self.locals;
        let ended = |host: HostIndex| {
            let remote = locals.get(host)?.as_ref()?.remote.as_ref()?;
            remote.agent.has_ended().then(|| remote.agent.ended_there())
        };
        let left = self
            .leaving
            .extract_if(.., |(host, until)| ended(*host).is_some() || *until <= now);
        self.gone.extend(left.map(|(host, _)| LostManager {
            host,
            why: "its local manager ended".into(),
            has_ended: ended(host).flatten().is_some(),
        }));
    }

    /// When [`LocalManagers::run_timers`] is due.
    pub fn wait_limit(&self) -> Option<Duration> {
        let now = Instant::now();
        let left = self.leaving.iter().map(|(_, until)| *until).min();
        let left = left.map(|at| at.saturating_duration_since(now));
        let open = || self.locals.iter().flatten().filter(|l| l.open);
        let first = open().filter_map(|l| l.remote.as_ref()?.until).min();
        let first = first.map(|at| at.saturating_duration_since(now));
        let answers = open().filter_map(|l| Some(l.own.as_ref()?.1.wait_limit(now)));
        let callers = self.listener.as_ref().and_then(Listener::wait_limit);
        let all = first.into_iter().chain(answers).chain(callers);
        all.chain(left).min()
    }

    /// The managers that have called since the last call of this function, for the first time.
    pub fn called_first(&mut self) -> Vec<HostIndex> {
        std::mem::take(&mut self.called)
    }

    /// The managers that were lost since the last call.
    pub fn gone(&mut self) -> Vec<LostManager> {
        std::mem::take(&mut self.gone)
    }

    /// Closes a host's link.
    pub fn close(&mut self, host: HostIndex, reactor: &Reactor) {
        if let Some(local) = self.open(host) {
            local.open = false;
            local.link.close(reactor);
        }
    }

    /// Closes all links.
    pub fn close_all(&mut self, reactor: &Reactor) {
        (0..self.locals.len()).for_each(|host| self.close(host, reactor));
    }

    /// Kills a local manager and closes its link. The kernel ends its ranks. A manager on another
    /// host learns that its link was closed, or that its lease is over.
    pub fn kill(&mut self, host: HostIndex, reactor: &Reactor) {
        if let Some(local) = self.open(host)
            && let Some((pid, _)) = &local.own
        {
            descendants::send(*pid, libc::SIGKILL);
        }
        self.close(host, reactor);
    }

    /// The link to this host is open.
    pub fn is_open(&self, host: HostIndex) -> bool {
        let local = self.locals.get(host).and_then(Option::as_ref);
        local.is_some_and(|local| local.open)
    }

    /// The host is this one.
    pub fn is_here(&self, host: HostIndex) -> bool {
        let local = self.locals.get(host).and_then(Option::as_ref);
        local.is_some_and(|local| local.own.is_some())
    }

    /// Some link is open.
    pub fn any_open(&self) -> bool {
        self.locals.iter().flatten().any(|l| l.open)
    }

    fn open(&mut self, host: HostIndex) -> Option<&mut ManagerEntry> {
        self.locals.get_mut(host)?.as_mut().filter(|l| l.open)
    }
}

impl RemoteManager {
    /// Why it counts as lost, if it does, and whether it has ended with all its processes.
    fn lost(&mut self, now: Instant) -> Option<(String, bool)> {
        let until = self.until?;
        if !self.called {
            return Some((self.not_called(until, now)?, false));
        }
        if let Some(how) = self.agent.ended_there() {
            return Some((format!("its local manager ended: {how}"), true));
        }
        if let Some(how) = self.agent.ended_otherwise() {
            return Some((format!("its launch agent ended: {how}"), false));
        }
        let why = "it has been out of reach for too long (--host-patience)";
        (until <= now).then(|| (why.to_string(), false))
    }

    /// Why one that has not called does not come, if that is so.
    fn not_called(&mut self, until: Instant, now: Instant) -> Option<String> {
        if self.agent.ended_well() && !std::mem::replace(&mut self.told, true) {
            user_log::say(&format!(
                "host {}: `{}` has ended, and no local manager has called yet; it is waited for",
                self.name,
                self.agent.command()
            ));
        }
        if let Some(how) = self.agent.failed() {
            return Some(format!(
                "its local manager was not started: `{}` {how}",
                self.agent.command()
            ));
        }
        (until <= now).then(|| {
            format!(
                "its local manager has not called within {} s (started by `{}`)",
                CALL_LIMIT.as_secs(),
                self.agent.command()
            )
        })
    }
}

/// Starts this host's local manager: this program again, with its link as standard input. It has a
/// process group of its own, so that the terminal's signals reach only mpirun.
fn start_here(part: LaunchPlan, token: Token, reactor: &Reactor) -> Result<ManagerEntry> {
    let (socket, pid) = start_manager(
        "rejoin-local",
        LOCAL_MANAGER,
        "the local manager",
        Vec::new(),
    )?;
    let mut link = LocalLink::new(socket, MANAGER_LIMIT, MANAGER_LIMIT);
    reactor.add(&link, token, Interest::READ)?;
    link.queue(&MpirunToLocal::Launch(Box::new(part)))?;
    Ok(ManagerEntry {
        link: ManagerLink::Pair(link, token),
        open: true,
        own: Some((pid, Watchdog::new(Instant::now()))),
        remote: None,
    })
}
