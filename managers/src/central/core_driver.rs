//! Drives the core of the central manager. Passes messages of local managers and of mpirun to the
//! core, stores its records, and sends its orders. Reports the other effects to mpirun.

use super::central_messages::{CentralToMpirun, StatusRequest};
use super::host_links::{HostLinks, kind};
use super::journal::Journal;
use crate::fault;
use rejoin_managers_host::error::Result;
use rejoin_managers_host::host_clocks::now;
use rejoin_managers_net::reactor::{Reactor, Token};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Course, HostIndex, JobView, Record,
};
use rejoin_managers_protocol::manager_messages::{ToCentral, ToLocal};
use rejoin_managers_report::verbose_log::VerboseLog;
use std::time::{Duration, Instant};

/// How long [`CoreDriver::await_orders`] may take before mpirun suspends itself.
pub const ORDERS_LIMIT: Duration = Duration::from_millis(500);

/// The core of a job that has begun or was taken up, and its links to the local managers.
pub struct CoreDriver {
    core: Central,
    /// None if it can't be made or written: the job is not to end for that, but ends with this
    /// process.
    journal: Option<Journal>,
    hosts: HostLinks,
    /// The hosts' names.
    names: Vec<String>,
    verbose_log: VerboseLog,
    /// The last that was passed on.
    view: Option<JobView>,
    /// Numbers of inputs that wait until the hosts have reported: the next one must be told them
    /// again. With those of signals that ask programs or the job to end, the signals.
    waiting: Vec<(u64, Option<i32>)>,
}

impl CoreDriver {
    /// A driver of this core, which stores its records in this journal. Its hosts have these names.
    #[must_use]
    pub fn new(
        core: Central,
        journal: Option<Journal>,
        mut hosts: HostLinks,
        mut names: Vec<String>,
        verbose_log: VerboseLog,
    ) -> CoreDriver {
        // Those that an earlier central manager has added.
        for added in core.host_views().into_iter().skip(names.len()) {
            hosts.add_host(added.lan);
            names.push(added.name);
        }
        CoreDriver {
            core,
            journal,
            hosts,
            names,
            verbose_log,
            view: None,
            waiting: Vec::new(),
        }
    }

    /// How long until [`CoreDriver::run_timers`] is due.
    #[must_use]
    pub fn wait_limit(&self) -> Option<Duration> {
        let due = self.core.deadline();
        let due = due.map(|at| Duration::from_nanos(at.0.saturating_sub(now().0)));
        due.into_iter().chain(self.hosts.wait_limit()).min()
    }

    /// How everything is, for a client.
    #[must_use]
    pub fn status(&self, request: StatusRequest) -> CentralToMpirun {
        let StatusRequest { client, with_ranks } = request;
        let now = now();
        let ranks = with_ranks.then(|| self.core.ranks());
        CentralToMpirun::Status {
            client,
            view: self.core.view(),
            ranks: ranks.into_iter().flatten().collect(),
            hosts: self.core.host_views(),
            moves: self.core.move_views(now),
            now,
        }
    }

    /// Handles an event of a local manager's link or of a caller. Appends messages for mpirun to
    /// `out`, like all functions that pass inputs to the core.
    ///
    /// # Errors
    /// A malformed message, or an error of the system.
    pub fn event(
        &mut self,
        token: Token,
        reactor: &Reactor,
        out: &mut Vec<CentralToMpirun>,
    ) -> Result<()> {
        if token.kind == kind::CALLER {
            return self.hosts.called(token.index, reactor);
        }
        self.read(token.index as HostIndex, reactor, out)
            .map(|_| ())
    }

    /// Reads once from a host. Whether there may be more.
    fn read(
        &mut self,
        host: HostIndex,
        reactor: &Reactor,
        out: &mut Vec<CentralToMpirun>,
    ) -> Result<bool> {
        let Some(news) = self.hosts.read(host, reactor)? else {
            return Ok(false);
        };
        for news in news {
            self.note(host, &news);
            self.feed(None, CentralInput::Local(host, news), reactor, out)?;
        }
        Ok(true)
    }

    fn note(&mut self, host: HostIndex, news: &ToCentral) {
        fault::at_report(news);
        if let Some(name) = self.names.get(host) {
            self.verbose_log.report(name, news);
        }
    }

    /// Passes an input of mpirun to the core. `out` names an input with a number when it was taken
    /// and its records are stored.
    ///
    /// # Errors
    /// An order is above the limit of messages, or the system refuses.
    pub fn step(
        &mut self,
        number: Option<u64>,
        input: CentralInput,
        reactor: &Reactor,
        out: &mut Vec<CentralToMpirun>,
    ) -> Result<()> {
        if let CentralInput::HostLost(host)
        | CentralInput::HostGone(host, _)
        | CentralInput::HostEnded(host, _) = input
        {
            // Its earlier messages come first.
            while self.read(host, reactor, out)? {}
            self.hosts.close(host, reactor);
        }
        self.feed(number, input, reactor, out)
    }

    /// Does the due work.
    ///
    /// # Errors
    /// An order is above the limit of messages, or the system refuses.
    pub fn run_timers(&mut self, reactor: &Reactor, out: &mut Vec<CentralToMpirun>) -> Result<()> {
        self.hosts.run_timers(reactor)?;
        match self.core.deadline() {
            Some(at) if at <= now() => self.feed(None, CentralInput::Tick, reactor, out),
            _ => Ok(()),
        }
    }

    /// Writes as much as the links to the local managers take.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<()> {
        self.hosts.flush(reactor).map(|_| ())
    }

    /// Waits until the hosts have all orders, at most for `limit`: this process is about to be
    /// suspended. Meanwhile it reads their messages, which acknowledge orders.
    ///
    /// # Errors
    /// A malformed message, or an error of the system.
    pub fn await_orders(
        &mut self,
        limit: Duration,
        reactor: &Reactor,
        out: &mut Vec<CentralToMpirun>,
    ) -> Result<()> {
        let begun = Instant::now();
        while self.hosts.flush(reactor)? && begun.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(1));
            for host in 0..self.names.len() {
                self.read(host, reactor, out)?;
            }
        }
        Ok(())
    }

    fn feed(
        &mut self,
        number: Option<u64>,
        input: CentralInput,
        reactor: &Reactor,
        out: &mut Vec<CentralToMpirun>,
    ) -> Result<()> {
        tracing::debug!(?input, "central");
        let ends = input.end_signal();
        self.waiting.extend(number.map(|number| (number, ends)));
        let mut effects = Vec::new();
        self.core.step(now(), input, &mut effects);
        let mut others = Vec::new();
        for effect in effects {
            let point = fault::before_central(&effect, || self.core.view().course);
            match effect {
                CentralEffect::Persist(record) => self.store(record, out),
                CentralEffect::Send(host, order) => {
                    self.verbose_log.ordered(&order);
                    self.place_before(&order);
                    self.hosts.order(host, order)?;
                }
                CentralEffect::SendAll(hosts, order) => {
                    self.verbose_log.ordered(&order);
                    self.place_before(&order);
                    self.hosts.spread(&hosts, order)?;
                }
                CentralEffect::Drop(host) => {
                    self.hosts.close(host, reactor);
                    others.push(CentralEffect::Drop(host));
                }
                CentralEffect::HostAdded { host, added } => {
                    if host == self.names.len() {
                        self.hosts.add_host(added.lan.clone());
                        self.names.push(added.name.clone());
                    }
                    others.push(CentralEffect::HostAdded { host, added });
                }
                CentralEffect::Over(verdict) => {
                    self.verbose_log.over(&verdict);
                    others.push(CentralEffect::Over(verdict));
                }
                effect => others.push(effect),
            }
            fault::after_central(point);
        }
        let view = self.core.view();
        let took: Vec<u64> = match view.course {
            Course::Resuming => Vec::new(),
            _ => self.waiting.drain(..).map(|(number, _)| number).collect(),
        };
        let changed = self.view.as_ref() != Some(&view);
        if changed || !took.is_empty() || !others.is_empty() {
            self.view = Some(view.clone());
            out.push(CentralToMpirun::Step {
                took,
                view: changed.then_some(view),
                effects: others,
            });
        }
        Ok(())
    }

    /// Ranks that start may be on other hosts than before.
    fn place_before(&mut self, order: &ToLocal) {
        if matches!(order, ToLocal::Start { .. }) {
            let placement: Vec<HostIndex> = self.core.ranks().map(|rank| rank.host).collect();
            self.hosts.place(&placement);
        }
    }

    fn store(&mut self, mut record: Record, out: &mut Vec<CentralToMpirun>) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let signal = match &record {
            Record::Interrupted { signal, .. } => Some(*signal),
            Record::Stopping { request, .. } => request.and_then(|stop| stop.signal_number()),
            _ => None,
        };
        if let Record::Interrupted { input, .. } | Record::Stopping { input, .. } = &mut record {
            let mut waiting = self.waiting.iter();
            let it = waiting.find(|(_, other)| other.is_some() && *other == signal);
            *input = it.map(|(number, _)| *number);
        }
        tracing::debug!(?record, "a point of no return");
        if let Err(error) = journal.append(&record) {
            // Reported before its effects.
            out.push(CentralToMpirun::JournalFailed(error.to_string()));
            self.journal = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::host_links::LinkPlan;
    use crate::launch::local_messages::CentralToLocal;
    use rejoin_channel_table::{JobId, JobKey};
    use rejoin_managers_net::address::ManagerAddress;
    use rejoin_managers_net::auth::{Whose, central_key};
    use rejoin_managers_net::dial::{Dialed, ManagerDialer};
    use rejoin_managers_net::local_link::Filled;
    use rejoin_managers_net::manager_listener::ListeningSockets;
    use rejoin_managers_net::session_link::SessionLink;
    use rejoin_managers_protocol::central::Job;
    use rejoin_managers_protocol::manager_messages::ToLocal;
    use rejoin_managers_protocol::signal_numbers;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    const JOB: JobId = JobId(5);

    fn key() -> JobKey {
        JobKey::new([1; 32])
    }

    /// The driver of a job with a rank on each of two hosts, which call at this name.
    fn driver(name: &str, reactor: &Reactor) -> CoreDriver {
        let job = Job {
            hosts: vec!["a".into(), "b".into()],
            placement: vec![0, 1],
            ..Job::default()
        };
        let plan = LinkPlan {
            id: JOB,
            key: key(),
            launch: 0,
            restarts: 0,
            tree: None,
            lookups: false,
        };
        let mut sockets = ListeningSockets::default();
        sockets.add_local(name).unwrap();
        let hosts = HostLinks::new(&job, &plan, sockets, reactor).unwrap();
        let names = job.hosts.clone();
        let log = VerboseLog::new(None);
        CoreDriver::new(Central::new(job), None, hosts, names, log)
    }

    /// Connects the local manager of a host.
    fn connected(host: u32, name: &str, reactor: &mut Reactor) -> SessionLink {
        let (launch, token) = (0, Token::single(1));
        let whose = Whose {
            job: JOB,
            launch,
            host,
        };
        let place = vec![ManagerAddress::Local(name.into())];
        let mut dialer = ManagerDialer::new(central_key(&key(), launch), whose, place, token);
        let mut link = SessionLink::new(token);
        let mut dialed = Dialed::Nothing;
        while dialed != Dialed::Connected {
            dialer.poll(true, reactor).unwrap();
            let limit = Some(Duration::from_millis(10));
            reactor.wait(limit, &mut Vec::new()).unwrap();
            dialed = dialer.ready(&mut link, reactor).unwrap();
        }
        link
    }

    /// Reads orders until the one to suspend the ranks, and acknowledges them.
    fn read_suspension(mut link: SessionLink, reactor: &Reactor) {
        let suspension = ToLocal::Signal {
            signal: signal_numbers::TSTP,
        };
        loop {
            if link.fill(reactor) == Filled::Nothing {
                std::thread::sleep(Duration::from_millis(1));
            }
            while let Some(message) = link.next().unwrap() {
                if matches!(message, CentralToLocal::Order(order) if order == suspension) {
                    link.flush(reactor).unwrap();
                    return;
                }
            }
        }
    }

    #[test]
    fn a_suspension_waits_for_every_host_but_not_longer_than_its_limit() {
        let name = format!("rejoin-test-orders-{}", std::process::id());
        let (calls, reads, has) = (AtomicU32::new(0), AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            let mut reactor = Reactor::new().unwrap();
            let mut driver = driver(&name, &reactor);
            for host in 0..2 {
                let (name, calls, reads, has) = (&name, &calls, &reads, &has);
                scope.spawn(move || {
                    let mut reactor = Reactor::new().unwrap();
                    let link = connected(host, name, &mut reactor);
                    calls.fetch_add(1, Ordering::SeqCst);
                    while !reads.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    // One of them is slow.
                    std::thread::sleep(Duration::from_millis(100 * u64::from(host)));
                    has.fetch_add(1, Ordering::SeqCst);
                    read_suspension(link, &reactor);
                });
            }
            let (mut tokens, mut out) = (Vec::new(), Vec::new());
            while calls.load(Ordering::SeqCst) < 2 {
                let limit = Some(Duration::from_millis(10));
                reactor.wait(limit, &mut tokens).unwrap();
                for token in &tokens {
                    driver.event(*token, &reactor, &mut out).unwrap();
                }
            }
            let suspension = CentralInput::Signal(signal_numbers::TSTP);
            for input in [CentralInput::Begin, suspension] {
                driver.step(None, input, &reactor, &mut out).unwrap();
            }
            let (begun, limit) = (Instant::now(), Duration::from_millis(50));
            driver.await_orders(limit, &reactor, &mut out).unwrap();
            assert!(begun.elapsed() >= limit, "no host has read anything");
            reads.store(true, Ordering::SeqCst);
            let limit = Duration::from_secs(30);
            driver.await_orders(limit, &reactor, &mut out).unwrap();
            assert_eq!(has.load(Ordering::SeqCst), 2);
        });
    }
}
