//! The central manager as mpirun has it: in this process, or, for a job that can go back, in one of
//! its own ([`super::remote_central`]). Here is what both have in common: what is said to the local
//! managers, and what is informed of the job. Streams are none of its business.

use super::local_managers::LocalManagers;
use super::remote_central::{Gone, Heard, RemoteCentral};
use crate::central::central_messages::CentralToMpirun;
use crate::central::core_driver::CoreDriver;
use crate::clock::now;
use crate::error::Result;
use crate::launch::local_messages::{CentralToLocal, Down};
use crate::net::reactor::Reactor;
use crate::report::query::Status;
use crate::report::status_board::StatusBoard;
use crate::report::verbose_log::VerboseLog;
use rejoin_channel_table::{Epoch, Generation, Incarnation, JobId, Rank};
use rejoin_managers_protocol::central::{
    Central, Effect, Event, HostIndex, Input, Job, Record, Relaunch, View,
};
use rejoin_managers_protocol::control::ToCentral;
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

/// What is to be told.
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
    job: Job,
    verbose_log: VerboseLog,
    board: StatusBoard,
    begun: Instant,
    queue: VecDeque<Input>,
    /// What ranks reported.
    counters: BTreeMap<Rank, Counters>,
    /// The verdict of a job that is over, and since when it is.
    over: Option<(Verdict, Instant)>,
    asks_stored: bool,
    /// The next launch.
    relaunch: Option<Relaunch>,
    news: Vec<News>,
    /// Losses, and the last recovery, that were told: after a resumption they may come again.
    lost: BTreeSet<(Generation, Rank, u32)>,
    recovered: Option<Generation>,
    /// Who came back alone.
    returned: BTreeSet<(Rank, Incarnation)>,
    /// The last checkpoint that was ordered, and when; the last that was committed.
    ordered: Option<(Epoch, Instant)>,
    committed: Option<Epoch>,
    verdict: Option<Verdict>,
    /// The verdict, until it is told.
    decided: Option<Verdict>,
    looked: Vec<(u32, Status)>,
    /// Clients that asked a central manager which is no more.
    asked: Vec<u32>,
}

impl CentralHandle {
    /// A driver whose first step begins the job, and which says what happens if that is wanted.
    /// With a place for a journal, the core is in a process of its own, whose events are of this
    /// kind.
    pub fn new(
        job: Job,
        (board, verbose): (StatusBoard, bool),
        remote: Option<(JobId, PathBuf)>,
        kind: u8,
        reactor: &Reactor,
    ) -> Result<CentralHandle> {
        let verbose_log = VerboseLog::new(verbose);
        verbose_log.job(job.placement.len(), &job.hosts);
        let central = Central::new(job.clone());
        let mut queue = VecDeque::new();
        let core = match remote {
            Some((id, journal)) => {
                let view = central.view();
                let remote = RemoteCentral::start(job.clone(), id, journal, view, kind, reactor)?;
                Core::Remote(Box::new(remote))
            }
            None => {
                queue.push_back(Input::Begin);
                Core::InProcess(Box::new(CoreDriver::new(central, None)))
            }
        };
        Ok(CentralHandle {
            core,
            job,
            verbose_log,
            board,
            begun: Instant::now(),
            queue,
            counters: BTreeMap::new(),
            over: None,
            asks_stored: false,
            relaunch: None,
            news: Vec::new(),
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
        self.job.hosts.get(host).map_or("?", String::as_str)
    }

    /// Queues an input for [`CentralHandle::steps`].
    pub fn tell(&mut self, input: Input) {
        self.queue.push_back(input);
    }

    /// Suspends it with mpirun, and continues it: what it hears of hosts comes through us.
    pub fn pause(&self, pause: bool) {
        if let Core::Remote(remote) = &self.core {
            remote.pause(pause);
        }
    }

    /// Queues a tick if it is time, or sees to it that whose clock it is answers.
    pub fn tick_if_due(&mut self) -> Result<()> {
        match &mut self.core {
            Core::InProcess(driver) if driver.deadline().is_some_and(|at| at <= now()) => {
                self.tell(Input::Tick);
            }
            Core::InProcess(_) => {}
            Core::Remote(remote) => remote.watch()?,
        }
        Ok(())
    }

    /// How long until the core must see a tick.
    pub fn wait_limit(&self) -> Option<Duration> {
        if !self.queue.is_empty() {
            return Some(Duration::ZERO);
        }
        let driver = match &self.core {
            Core::InProcess(driver) => driver,
            Core::Remote(remote) => return remote.wait_limit(),
        };
        let at = driver.deadline()?;
        Some(Duration::from_nanos(at.0.saturating_sub(now().0)))
    }

    /// Feeds the core all there is, and does what it says.
    pub fn steps(&mut self, hosts: &mut LocalManagers, reactor: &Reactor) -> Result<()> {
        while let Some(input) = self.queue.pop_front() {
            self.heard(&input);
            match &mut self.core {
                Core::Remote(remote) => remote.say(input)?,
                Core::InProcess(driver) => {
                    let mut out = Vec::new();
                    driver.step(None, input, &mut out);
                    out.into_iter()
                        .try_for_each(|message| self.take(message, hosts, reactor))?;
                }
            }
        }
        if let Core::Remote(remote) = &mut self.core {
            remote.flush(reactor)?;
        }
        let asked = std::mem::take(&mut self.asked);
        asked
            .into_iter()
            .try_for_each(|client| self.look(client, hosts, reactor))
    }

    fn heard(&mut self, input: &Input) {
        let Input::Local(host, news) = input else {
            return;
        };
        if let Some(name) = self.job.hosts.get(*host) {
            self.verbose_log.heard(name, news);
            self.board.heard(news);
        }
        if let ToCentral::Counters { instance, counters } = news {
            self.counters.insert(instance.rank, counters.clone());
        }
    }

    /// Something came from the central manager's process.
    pub fn read(&mut self, hosts: &mut LocalManagers, reactor: &Reactor) -> Result<()> {
        let over = self.over.is_some() || self.relaunch.is_some();
        let Core::Remote(remote) = &mut self.core else {
            return Ok(());
        };
        match remote.read(over, reactor)? {
            Heard::FromCentral(told) => {
                for told in told {
                    self.take(told, hosts, reactor)?;
                }
            }
            Heard::Ended(None) => {}
            Heard::Ended(Some(why)) => self.without(why, true),
        }
        Ok(())
    }

    fn take(
        &mut self,
        told: CentralToMpirun,
        hosts: &mut LocalManagers,
        reactor: &Reactor,
    ) -> Result<()> {
        match told {
            CentralToMpirun::Send(host, order) => {
                self.perform(Effect::Send(host, order), hosts, reactor)?
            }
            CentralToMpirun::SendAll(all, order) => {
                self.perform(Effect::SendAll(all, order), hosts, reactor)?;
            }
            CentralToMpirun::Step { effects, .. } => {
                for effect in effects {
                    self.perform(effect, hosts, reactor)?;
                }
            }
            CentralToMpirun::Status {
                client,
                view,
                ranks,
                now,
            } => {
                let central = self.central();
                let hosts = &self.job.hosts;
                let ranks = ranks.into_iter();
                let status = self.board.status(&view, ranks, hosts, now, central);
                self.looked.push((client, status));
            }
            CentralToMpirun::Alive => {}
            CentralToMpirun::NoJournal(why) => {
                // What has begun could not be taken up again; what has not does without, as one
                // without a place for its journal.
                let began = matches!(&self.core, Core::Remote(remote) if remote.began());
                tracing::warn!(why, began, "no journal");
                if !began {
                    let why = why.clone();
                    self.news.push(News::Unjournaled { why, remote: false });
                }
                self.without(why, began);
            }
            CentralToMpirun::JournalFailed(why) => {
                // What is in it is of the past from here on.
                self.remove_journal();
                self.news.push(News::Unjournaled { why, remote: true });
            }
        }
        Ok(())
    }

    /// There is no process for the core: it continues here, which, once the job has begun, is its
    /// end.
    fn without(&mut self, why: String, began: bool) {
        let Core::Remote(remote) = &self.core else {
            return;
        };
        let said: Vec<Input> = remote.last_words().chain(remote.untaken()).collect();
        let clients: Vec<u32> = remote.clients().collect();
        remote.kill();
        self.remove_journal();
        let mut records = Vec::new();
        if began {
            let lost = Verdict::CentralLost { why };
            records.push(Record::Decided(self.verdict.clone().unwrap_or(lost)));
        }
        // Which generations have begun is not known here, so none can be begun.
        let failover = None;
        let job = Job {
            failover,
            ..self.job.clone()
        };
        let central = Central::resume(job, records);
        self.core = Core::InProcess(Box::new(CoreDriver::new(central, None)));
        self.queue.push_front(Input::Begin);
        self.queue.extend(said);
        self.asked.extend(clients);
    }

    fn perform(
        &mut self,
        effect: Effect,
        hosts: &mut LocalManagers,
        reactor: &Reactor,
    ) -> Result<()> {
        match effect {
            // What ends with this process needs no journal.
            Effect::Persist(_) | Effect::Counters(..) => {}
            Effect::Send(host, order) => {
                self.verbose_log.ordered(&order);
                hosts.queue(host, &Down::Central(CentralToLocal::Order(order)))?;
            }
            Effect::SendAll(all, order) => {
                self.verbose_log.ordered(&order);
                hosts.spread(&all, order)?;
            }
            Effect::Drop(host) => {
                tracing::warn!(host, "the local manager does not end: it is killed");
                hosts.kill(host, reactor);
            }
            Effect::Event(event) => self.event(event),
            Effect::Resumed {
                committed,
                abandoned,
            } => self.resumed(committed, abandoned),
            Effect::Decided(verdict) => {
                if self.verdict.is_none() {
                    tracing::info!(%verdict, "decided");
                    self.verdict = Some(verdict.clone());
                    self.decided = Some(verdict);
                }
            }
            Effect::AskStored => self.asks_stored = true,
            Effect::Relaunch(next) => self.relaunch = Some(next),
            Effect::Over(verdict) => {
                self.verbose_log.over(&verdict);
                self.over = Some((verdict, Instant::now()));
            }
        }
        Ok(())
    }

    /// Something happened, or is told again.
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

    /// Another central manager continues: what became of checkpoints may not have been told.
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
            // Who removed it before us did what we want.
            let _ = std::fs::remove_file(remote.journal());
        }
    }

    /// What happened since the last call.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// The verdict, once.
    pub fn decided(&mut self) -> Option<Verdict> {
        self.decided.take()
    }

    /// The job as it is now, or was when it was last heard of.
    pub fn view(&self) -> View {
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
    pub fn look(
        &mut self,
        client: u32,
        hosts: &mut LocalManagers,
        reactor: &Reactor,
    ) -> Result<()> {
        match &mut self.core {
            Core::Remote(remote) => remote.look(client),
            Core::InProcess(driver) => {
                let status = driver.status(client);
                self.take(status, hosts, reactor)
            }
        }
    }

    /// The job as it is, for clients who wanted to know.
    pub fn looked(&mut self) -> Vec<(u32, Status)> {
        std::mem::take(&mut self.looked)
    }

    /// A child was reaped.
    pub fn reaped(&mut self, pid: u32, status: Option<i32>) {
        if let Core::Remote(remote) = &mut self.core {
            remote.reaped(pid, status);
        }
    }

    /// Waits until what was told is done, within a second.
    pub fn await_taken(&mut self, hosts: &mut LocalManagers, reactor: &Reactor) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(1);
        while let Core::Remote(remote) = &self.core
            && remote.wait(until.saturating_duration_since(Instant::now()))
        {
            self.read(hosts, reactor)?;
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
        self.tell(Input::Stored(state));
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

    /// One line per rank of a job of `size` ranks: what it counted.
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

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
