//! The central manager as mpirun has it: in this process, or, for a job with recovery, in one of
//! its own ([`super::remote_central`]). Here is what both have in common: what comes of what
//! central does for mpirun and the user. It does not concern streams.

use super::remote_central::{CentralSetup, Gone, Heard, RemoteCentral};
use crate::central::central_messages::CentralToMpirun;
use crate::central::core_driver::CoreDriver;
use crate::central::host_links::{HostLinks, LinkKinds, LinkPlan};
use crate::error::Result;
use crate::net::reactor::{Reactor, Token};
use crate::report::query::JobStatus;
use crate::report::status_board::StatusBoard;
use crate::report::verbose_log::VerboseLog;
use rejoin_channel_table::{Epoch, Generation, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Event, HostIndex, Job, JobView, Record, Relaunch,
};
use rejoin_managers_protocol::verdict::Verdict;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Names and values.
type Counters = Vec<(String, u64)>;

/// Where the core is.
enum Core {
    InProcess(Box<CoreDriver>),
    Remote(Box<RemoteCentral>),
}

/// News to report.
#[derive(Debug, Clone)]
pub(super) enum News {
    /// Something happened in the job.
    Event(Event),
    /// The central manager's process ended, and this other one took over after so many nanoseconds.
    Again { how: String, pid: u32, took: u64 },
    /// The highest number of a checkpoint that will come to nothing, after it ended.
    Abandoned(Epoch),
    /// There is no journal for this reason; the central manager's process continues without it, or
    /// there is none.
    Unjournaled { why: String, remote: bool },
}

/// Drives the core, or speaks with the process that does.
pub(super) struct CentralHandle {
    core: Core,
    /// Kinds of the events of its links, where the core is in this process.
    kinds: LinkKinds,
    /// The hosts' names.
    hosts: Vec<String>,
    board: StatusBoard,
    begun: Instant,
    queue: VecDeque<CentralInput>,
    /// The reported counters of ranks.
    counters: BTreeMap<Rank, Counters>,
    /// The verdict of a job that is over, and since when it is.
    over: Option<(Verdict, Instant)>,
    asks_stored: bool,
    asks_relaunchable: bool,
    /// The next launch.
    relaunch: Option<Relaunch>,
    news: Vec<News>,
    /// Hosts whose local managers do not end.
    dropped: Vec<HostIndex>,
    /// There is no process for the core, for this reason; whether the job has begun.
    unmanaged: Option<(String, bool)>,
    /// Losses, and the last recovery, that were told: after a resumption they may come again.
    lost: BTreeSet<(Generation, Rank, u32)>,
    recovered: Option<Generation>,
    /// Ranks that were restored alone.
    returned: BTreeSet<(Rank, Incarnation)>,
    /// The last checkpoint that was ordered, and when; the last that was committed.
    ordered: Option<(Epoch, Instant)>,
    committed: Option<Epoch>,
    verdict: Option<Verdict>,
    /// The verdict, until it is reported.
    decided: Option<Verdict>,
    looked: Vec<(u32, JobStatus)>,
    /// Clients that asked a central manager which is no more.
    asked: Vec<u32>,
}

impl CentralHandle {
    /// A driver whose first step begins the job. With a place for a journal, the core is in a
    /// process of its own, and its events are of `kind`. Otherwise the core is in this process, and
    /// the events of its links to local managers are of `kinds`.
    pub fn new(
        setup: CentralSetup,
        board: StatusBoard,
        journal: Option<PathBuf>,
        (kind, kinds): (u8, LinkKinds),
        reactor: &Reactor,
    ) -> Result<CentralHandle> {
        let hosts = setup.job.hosts.clone();
        VerboseLog::new(setup.verbose).job(setup.job.placement.len(), &hosts);
        let central = Central::new(setup.job.clone());
        let mut queue = VecDeque::new();
        let core = match journal {
            Some(journal) => {
                let view = central.view();
                let remote = RemoteCentral::start(setup, journal, view, kind, reactor)?;
                Core::Remote(Box::new(remote))
            }
            None => {
                queue.push_back(CentralInput::Begin);
                Core::InProcess(Box::new(driver(central, &setup, kinds, reactor)?))
            }
        };
        Ok(CentralHandle {
            core,
            kinds,
            hosts,
            board,
            begun: Instant::now(),
            queue,
            counters: BTreeMap::new(),
            over: None,
            asks_stored: false,
            asks_relaunchable: false,
            relaunch: None,
            news: Vec::new(),
            dropped: Vec::new(),
            unmanaged: None,
            lost: BTreeSet::new(),
            recovered: None,
            returned: BTreeSet::new(),
            ordered: None,
            committed: None,
            verdict: None,
            decided: None,
            looked: Vec::new(),
            asked: Vec::new(),
        })
    }

    /// A host's name.
    pub fn host(&self, host: HostIndex) -> &str {
        self.hosts.get(host).map_or("?", String::as_str)
    }

    /// Queues an input for [`CentralHandle::steps`].
    pub fn tell(&mut self, input: CentralInput) {
        self.queue.push_back(input);
    }

    /// Suspends it with mpirun, and continues it.
    pub fn pause(&self, pause: bool) {
        if let Core::Remote(remote) = &self.core {
            remote.pause(pause);
        }
    }

    /// mpirun was suspended: a core in this process could receive no message of a host.
    pub fn slept(&mut self) {
        if matches!(self.core, Core::InProcess(_)) {
            self.tell(CentralInput::Slept);
        }
    }

    /// Does what is due: of the core in this process, or sees to it that its process answers.
    pub fn tend(&mut self, reactor: &Reactor) -> Result<()> {
        match &mut self.core {
            Core::InProcess(_) => self.drive(|core, out| core.tend(reactor, out)),
            Core::Remote(remote) => remote.watch(),
        }
    }

    /// How long until [`CentralHandle::tend`] is due.
    pub fn wait_limit(&self) -> Option<Duration> {
        if !self.queue.is_empty() {
            return Some(Duration::ZERO);
        }
        match &self.core {
            Core::InProcess(driver) => driver.wait_limit(),
            Core::Remote(remote) => remote.wait_limit(),
        }
    }

    /// Something came from a local manager, or one calls, for a core in this process.
    pub fn host_event(&mut self, token: Token, reactor: &Reactor) -> Result<()> {
        self.drive(|core, out| core.event(token, reactor, out))
    }

    /// Drives the core, if it is in this process, and carries out its effects.
    fn drive(
        &mut self,
        act: impl FnOnce(&mut CoreDriver, &mut Vec<CentralToMpirun>) -> Result<()>,
    ) -> Result<()> {
        let mut out = Vec::new();
        if let Core::InProcess(driver) = &mut self.core {
            act(driver, &mut out)?;
        }
        out.into_iter().for_each(|message| self.take(message));
        Ok(())
    }

    /// Passes all inputs to the core, and carries out its effects.
    pub fn steps(&mut self, reactor: &Reactor) -> Result<()> {
        while let Some(input) = self.queue.pop_front() {
            match &mut self.core {
                Core::Remote(remote) => remote.say(input)?,
                Core::InProcess(_) => {
                    self.drive(|core, out| core.step(None, input, reactor, out))?;
                }
            }
        }
        for client in std::mem::take(&mut self.asked) {
            self.look(client)?;
        }
        match &mut self.core {
            Core::Remote(remote) => remote.flush(reactor),
            Core::InProcess(driver) => driver.flush(reactor),
        }
    }

    /// Something came from the central manager's process.
    pub fn read(&mut self, reactor: &Reactor) -> Result<()> {
        let over = self.over.is_some() || self.relaunch.is_some();
        let Core::Remote(remote) = &mut self.core else {
            return Ok(());
        };
        match remote.read(over, reactor)? {
            Heard::FromCentral(told) => told.into_iter().for_each(|told| self.take(told)),
            Heard::Ended(None) => {}
            Heard::Ended(Some(why)) => self.unmanaged = Some((why, true)),
        }
        match self.unmanaged.take() {
            Some((why, began)) => self.without(why, began, reactor),
            None => Ok(()),
        }
    }

    fn take(&mut self, told: CentralToMpirun) {
        match told {
            CentralToMpirun::Step { effects, .. } => {
                effects.into_iter().for_each(|effect| self.perform(effect));
            }
            CentralToMpirun::Status {
                client,
                view,
                ranks,
                images,
                now,
            } => {
                let central = self.central();
                let (hosts, ranks) = (&self.hosts, ranks.into_iter());
                let board = &self.board;
                let status = board.status(&view, ranks, &images, hosts, now, central);
                self.looked.push((client, status));
            }
            CentralToMpirun::Alive => {}
            CentralToMpirun::NoJournal(why) => {
                // A job that has begun could not be continued. A job that has not begun runs
                // without it, like a job without a place for its journal.
                let began = matches!(&self.core, Core::Remote(remote) if remote.began());
                tracing::warn!(why, began, "no journal");
                if !began {
                    let why = why.clone();
                    self.news.push(News::Unjournaled { why, remote: false });
                }
                self.unmanaged = Some((why, began));
            }
            CentralToMpirun::JournalFailed(why) => {
                // Its records are obsolete from here on.
                self.remove_journal();
                self.news.push(News::Unjournaled { why, remote: true });
            }
        }
    }

    /// There is no process for the core: it continues here, which, once the job has begun, is its
    /// end.
    fn without(&mut self, why: String, began: bool, reactor: &Reactor) -> Result<()> {
        let Core::Remote(remote) = &self.core else {
            return Ok(());
        };
        let said: Vec<CentralInput> = remote.last_words().chain(remote.untaken()).collect();
        let clients: Vec<u32> = remote.clients().collect();
        remote.kill();
        self.remove_journal();
        let mut records = Vec::new();
        if began {
            let lost = Verdict::CentralLost { why };
            records.push(Record::Decided(self.verdict.clone().unwrap_or(lost)));
        }
        // Which generations have begun is not known here, so none can be begun.
        let setup = remote.setup();
        let failover = None;
        let job = Job {
            failover,
            ..setup.job.clone()
        };
        let links = LinkPlan {
            restarts: setup.links.restarts + 1,
            ..setup.links.clone()
        };
        let setup = CentralSetup {
            job,
            links,
            sockets: setup.sockets.try_clone()?,
            verbose: setup.verbose,
        };
        let central = Central::resume(setup.job.clone(), records);
        let driver = driver(central, &setup, self.kinds, reactor)?;
        self.core = Core::InProcess(Box::new(driver));
        self.queue.push_front(CentralInput::Begin);
        self.queue.extend(said);
        self.asked.extend(clients);
        Ok(())
    }

    fn perform(&mut self, effect: CentralEffect) {
        match effect {
            // Done where the core is.
            CentralEffect::Persist(_) | CentralEffect::Send(..) | CentralEffect::SendAll(..) => {}
            CentralEffect::Counters(rank, counters) => {
                self.counters.insert(rank, counters);
            }
            CentralEffect::Drop(host) => self.dropped.push(host),
            CentralEffect::Event(event) => self.event(event),
            CentralEffect::Resumed {
                committed,
                abandoned,
            } => self.resumed(committed, abandoned),
            CentralEffect::Decided(verdict) => {
                if self.verdict.is_none() {
                    tracing::info!(%verdict, "decided");
                    self.verdict = Some(verdict.clone());
                    self.decided = Some(verdict);
                }
            }
            CentralEffect::AskStored => self.asks_stored = true,
            CentralEffect::AskRelaunchable => self.asks_relaunchable = true,
            CentralEffect::Relaunch(next) => self.relaunch = Some(next),
            CentralEffect::Over(verdict) => self.over = Some((verdict, Instant::now())),
        }
    }

    /// An event, which may be a repeated one.
    fn event(&mut self, event: Event) {
        let fresh = match &event {
            Event::Ordered(epoch) => {
                self.ordered = Some((*epoch, Instant::now()));
                true
            }
            Event::Committed { epoch, .. } => {
                self.committed = Some(*epoch);
                true
            }
            Event::GivenUp { .. }
            | Event::ImageLost { .. }
            | Event::Stretched { .. }
            | Event::HostSilent { .. }
            | Event::HostHeard { .. } => true,
            Event::Lost {
                rank,
                generation,
                pid,
                ..
            } => self.lost.insert((*generation, *rank, *pid)),
            Event::Recovered {
                alone: Some(who), ..
            } => self.returned.insert(*who),
            Event::Recovered { generation, .. } => {
                self.recovered.replace(*generation) < Some(*generation)
            }
        };
        if fresh {
            self.board.event(&event);
            self.news.push(News::Event(event));
        }
    }

    /// Another central manager continues: the results of checkpoints may not have been reported.
    fn resumed(&mut self, committed: Option<Epoch>, abandoned: Epoch) {
        if let Core::Remote(remote) = &mut self.core
            && let Some(Gone { how, since }) = remote.gone.take()
        {
            self.news.push(News::Again {
                how,
                pid: remote.pid(),
                took: nanos(since.elapsed()),
            });
        }
        if let Some(epoch) = committed.filter(|_| committed > self.committed) {
            let took = match self.ordered {
                Some((ordered, at)) if ordered == epoch => nanos(at.elapsed()),
                _ => 0,
            };
            self.event(Event::Committed { epoch, took });
        }
        if Some(abandoned) > committed.max(Some(Epoch(0))) {
            self.news.push(News::Abandoned(abandoned));
        }
    }

    /// The job needs its journal and its central manager no more.
    pub fn forget(&mut self) {
        if let Core::Remote(remote) = &self.core {
            remote.kill();
        }
        self.remove_journal();
    }

    fn remove_journal(&self) {
        if let Core::Remote(remote) = &self.core {
            // It may be removed already, which is just as good.
            let _ = std::fs::remove_file(remote.journal());
        }
    }

    /// Hosts whose local managers do not end: they are to be killed.
    pub fn dropped(&mut self) -> Vec<HostIndex> {
        std::mem::take(&mut self.dropped)
    }

    /// The news since the last call.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// The verdict, once.
    pub fn decided(&mut self) -> Option<Verdict> {
        self.decided.take()
    }

    /// The job as it is now, or at the last report.
    pub fn view(&self) -> JobView {
        match &self.core {
            Core::InProcess(driver) => driver.view(),
            Core::Remote(remote) => remote.view.clone(),
        }
    }

    /// Process id of the central manager, and how often it was started again.
    fn central(&self) -> (u32, u64) {
        match &self.core {
            Core::InProcess(_) => (std::process::id(), 0),
            Core::Remote(remote) => (remote.pid(), remote.restarts()),
        }
    }

    /// A client wants to know how the job is: [`CentralHandle::looked`] will say.
    pub fn look(&mut self, client: u32) -> Result<()> {
        match &mut self.core {
            Core::Remote(remote) => remote.look(client),
            Core::InProcess(driver) => {
                let status = driver.status(client);
                self.take(status);
                Ok(())
            }
        }
    }

    /// The job as it is, for clients who wanted to know.
    pub fn looked(&mut self) -> Vec<(u32, JobStatus)> {
        std::mem::take(&mut self.looked)
    }

    /// A child was reaped.
    pub fn reaped(&mut self, pid: u32, status: Option<i32>) {
        if let Core::Remote(remote) = &mut self.core {
            remote.reaped(pid, status);
        }
    }

    /// Waits until the last inputs are taken, at most a second.
    pub fn await_taken(&mut self, reactor: &Reactor) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(1);
        while let Core::Remote(remote) = &self.core
            && remote.wait(until.saturating_duration_since(Instant::now()))
        {
            self.read(reactor)?;
        }
        Ok(())
    }

    /// The verdict and since when the job is over.
    pub fn over(&self) -> Option<(&Verdict, Instant)> {
        self.over.as_ref().map(|(verdict, since)| (verdict, *since))
    }

    /// Central has asked which state every rank has stored.
    pub fn asks_stored(&self) -> bool {
        self.asks_stored
    }

    /// Answers that.
    pub fn tell_stored(&mut self, state: Option<u32>) {
        self.asks_stored = false;
        self.tell(CentralInput::Stored(state));
    }

    /// Central has asked, since the last call, whether the job can be launched again.
    pub fn asks_relaunchable(&mut self) -> bool {
        std::mem::take(&mut self.asks_relaunchable)
    }

    /// The next launch of the job, and the verdict for which this one has ended.
    pub fn relaunch(&self) -> Option<(&Relaunch, &Verdict)> {
        self.relaunch.as_ref().zip(self.verdict.as_ref())
    }

    /// Something went wrong after the job's end, when only its output kept us: that is the verdict
    /// now.
    pub fn overrule(&mut self, verdict: Verdict) {
        self.over = Some((verdict, self.begun));
    }

    /// One line per rank of a job of `size` ranks, with its counters.
    pub fn report(&self, size: u32) -> String {
        let mut text = String::new();
        for rank in (0..size).map(Rank) {
            text += &format!("mpirun: stats: rank {}:", rank.0);
            match self.counters.get(&rank) {
                Some(counters) => {
                    for (name, value) in counters {
                        text += &format!(" {name}={value}");
                    }
                }
                None => text += " nothing reported, it did not come to the end of MPI_Finalize",
            }
            text.push('\n');
        }
        text
    }
}

/// Drives this core in this process.
fn driver(
    core: Central,
    setup: &CentralSetup,
    kinds: LinkKinds,
    reactor: &Reactor,
) -> Result<CoreDriver> {
    let sockets = setup.sockets.try_clone()?;
    let hosts = HostLinks::new(&setup.job, &setup.links, sockets, kinds, reactor)?;
    let names = setup.job.hosts.clone();
    let verbose_log = VerboseLog::new(setup.verbose);
    Ok(CoreDriver::new(
        core,
        None,
        (hosts, kinds),
        names,
        verbose_log,
    ))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
