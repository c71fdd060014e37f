//! The central manager as mpirun has it: in this process, or, for a job with recovery, in one of
//! its own ([`super::remote_central`]). Here is what both have in common: what comes of what
//! central does for mpirun and the user. It does not concern streams.

use super::central_core::CentralCore;
use super::central_news::{CentralNews, News, Placing};
use super::rank_counters::RankCounters;
use super::remote_central::{CentralSetup, Gone, Heard};
use crate::central::central_messages::{CentralToMpirun, StatusRequest};
use crate::central::core_driver::{CoreDriver, ORDERS_LIMIT};
use crate::central::host_links::LinkKinds;
use crate::error::Result;
use crate::net::reactor::{Reactor, Token};
use crate::report::query::JobStatus;
use crate::report::status_summary::StatusSummary;
use crate::report::verbose_log::VerboseLog;
use rejoin_channel_table::Epoch;
use rejoin_managers_protocol::central::{
    CentralEffect, CentralInput, Event, HostIndex, JobView, Relaunch, StoredState,
};
use rejoin_managers_protocol::levels::CommittedEpochs;
use rejoin_managers_protocol::region_commits::RegionEpochs;
use rejoin_managers_protocol::verdict::Verdict;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Drives the core, or speaks with the process that does.
pub(super) struct CentralHandle {
    core: CentralCore,
    /// Kinds of the events of its links, where the core is in this process.
    kinds: LinkKinds,
    /// The hosts' names.
    hosts: Vec<String>,
    begun: Instant,
    queue: VecDeque<CentralInput>,
    /// The reported counters of ranks.
    counters: RankCounters,
    news: CentralNews,
    /// The verdict of a job that is over, and since when it is.
    over: Option<(Verdict, Instant)>,
    /// The verdict on output that could not be written.
    lost_output: Option<Verdict>,
    /// Central has asked which states are stored; the checkpoints of registered memory that count.
    asks_stored: Option<RegionEpochs>,
    /// The checkpoints that count, if central has sent [`CentralEffect::AskRelaunchable`].
    asks_relaunchable: Option<RegionEpochs>,
    /// The next launch.
    relaunch: Option<Relaunch>,
    /// Hosts whose local managers do not end.
    dropped: Vec<HostIndex>,
    /// There is no process for the core, for this reason; whether the job has begun.
    unmanaged: Option<(String, bool)>,
    statuses: Vec<(u32, JobStatus)>,
    /// Clients that asked a central manager which is no more.
    asked: Vec<StatusRequest>,
}

impl CentralHandle {
    /// A driver whose first step begins the job. With a place for a journal, the core is in a
    /// process of its own, and its events are of `kind`. Otherwise the core is in this process, and
    /// the events of its links to local managers are of `kinds`.
    pub fn new(
        setup: CentralSetup,
        summary: StatusSummary,
        journal: Option<PathBuf>,
        (kind, kinds): (u8, LinkKinds),
        reactor: &Reactor,
    ) -> Result<CentralHandle> {
        let hosts = setup.job.hosts.clone();
        VerboseLog::new(setup.verbose).job(setup.job.placement.len(), &hosts);
        let core = CentralCore::start(setup, journal, (kind, kinds), reactor)?;
        let first = core.is_here().then_some(CentralInput::Begin);
        Ok(CentralHandle {
            core,
            kinds,
            hosts,
            begun: Instant::now(),
            queue: first.into_iter().collect(),
            counters: RankCounters::default(),
            news: CentralNews::new(summary),
            over: None,
            lost_output: None,
            asks_stored: None,
            asks_relaunchable: None,
            relaunch: None,
            dropped: Vec::new(),
            unmanaged: None,
            statuses: Vec::new(),
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
        if let Some(remote) = self.core.remote() {
            remote.pause(pause);
        }
    }

    /// mpirun was suspended: a core in this process could receive no message of a host.
    pub fn was_suspended(&mut self) {
        if self.core.is_here() {
            self.tell(CentralInput::Suspended);
        }
    }

    /// Does what is due: of the core in this process, or sees to it that its process answers.
    pub fn run_timers(&mut self, reactor: &Reactor) -> Result<()> {
        match &mut self.core {
            CentralCore::InProcess(_) => self.drive(|core, out| core.run_timers(reactor, out)),
            CentralCore::Remote(remote) => remote.watch(),
        }
    }

    /// How long until [`CentralHandle::run_timers`] is due.
    pub fn wait_limit(&self) -> Option<Duration> {
        if !self.queue.is_empty() {
            return Some(Duration::ZERO);
        }
        self.core.wait_limit()
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
        if let CentralCore::InProcess(driver) = &mut self.core {
            act(driver, &mut out)?;
        }
        out.into_iter().for_each(|message| self.take(message));
        Ok(())
    }

    /// Passes all inputs to the core, and carries out its effects.
    pub fn steps(&mut self, reactor: &Reactor) -> Result<()> {
        while let Some(input) = self.queue.pop_front() {
            match &mut self.core {
                CentralCore::Remote(remote) => remote.say(input)?,
                CentralCore::InProcess(_) => {
                    self.drive(|core, out| core.step(None, input, reactor, out))?;
                }
            }
        }
        for request in std::mem::take(&mut self.asked) {
            self.ask_status(request)?;
        }
        self.core.flush(reactor)
    }

    /// Something came from the central manager's process.
    pub fn read(&mut self, reactor: &Reactor) -> Result<()> {
        let over = self.over.is_some() || self.relaunch.is_some();
        let Some(remote) = self.core.remote_mut() else {
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
                hosts,
                moves,
                now,
            } => {
                let central = self.core.process();
                let summary = self.news.summary();
                let status =
                    summary.status(&view, ranks.into_iter(), (&hosts, &moves), now, central);
                self.statuses.push((client, status));
            }
            CentralToMpirun::Alive => {}
            CentralToMpirun::NoJournal(why) => {
                // A job that has begun could not be continued. A job that has not begun runs
                // without it, like a job without a place for its journal.
                let began = self.core.remote().is_some_and(|remote| remote.began());
                tracing::warn!(why, began, "no journal");
                if !began {
                    self.news.unjournaled(why.clone(), false);
                }
                self.unmanaged = Some((why, began));
            }
            CentralToMpirun::JournalFailed(why) => {
                // Its records are obsolete from here on.
                self.core.remove_journal();
                self.news.unjournaled(why, true);
            }
        }
    }

    /// There is no process for the core: it continues here, which, once the job has begun, is its
    /// end.
    fn without(&mut self, why: String, began: bool, reactor: &Reactor) -> Result<()> {
        let Some(remote) = self.core.remote() else {
            return Ok(());
        };
        let said: Vec<CentralInput> = remote.to_repeat().collect();
        let clients: Vec<StatusRequest> = remote.clients().collect();
        remote.kill();
        self.core.remove_journal();
        let decided = || self.news.verdict().cloned();
        let verdict = began.then(|| decided().unwrap_or(Verdict::CentralLost { why }));
        self.core = CentralCore::after(remote, verdict, self.kinds, reactor)?;
        self.queue.push_front(CentralInput::Begin);
        self.queue.extend(said);
        self.asked.extend(clients);
        Ok(())
    }

    fn perform(&mut self, effect: CentralEffect) {
        match effect {
            // The process with the core has done these.
            CentralEffect::Persist(_) | CentralEffect::Send(..) | CentralEffect::SendAll(..) => {}
            CentralEffect::Counters(rank, counters) => {
                self.counters.insert(rank, counters);
            }
            CentralEffect::Drop(host) => self.dropped.push(host),
            CentralEffect::Event(event) => {
                if let (Event::MovesOver { request, .. }, Some(remote)) =
                    (&event, self.core.remote_mut())
                {
                    remote.moves_over(*request);
                }
                self.news.event(event);
            }
            CentralEffect::Resumed {
                committed,
                abandoned,
            } => self.resumed(committed, abandoned),
            CentralEffect::Decided(verdict) => self.news.decide(verdict),
            CentralEffect::AskStored { regions } => self.asks_stored = Some(regions),
            CentralEffect::AskRelaunchable { regions } => self.asks_relaunchable = Some(regions),
            CentralEffect::Placed(placement) => self.news.placed(placement),
            CentralEffect::HostAdded { host, added } => {
                if host == self.hosts.len() {
                    self.hosts.push(added.name.clone());
                }
                self.news.placing(Placing::Added(host, added));
            }
            CentralEffect::Join(host) => self.news.placing(Placing::Join(host)),
            CentralEffect::Moved { number, rank, to } => {
                self.news.placing(Placing::Moved { number, rank, to });
            }
            CentralEffect::MovedBack(epoch, ranks) => {
                self.news.placing(Placing::MovedBack(epoch, ranks));
            }
            CentralEffect::Relaunch(next) => self.relaunch = Some(next),
            CentralEffect::Over(verdict) => {
                // No restart writes again what was written before the last checkpoint.
                let lost = self.lost_output.take();
                let lost = lost.filter(|_| matches!(verdict, Verdict::Stopped { .. }));
                self.over = Some((lost.unwrap_or(verdict), Instant::now()));
            }
        }
    }

    /// Another central manager continues: the results of checkpoints may not have been reported.
    fn resumed(&mut self, committed: CommittedEpochs, abandoned: Epoch) {
        if let Some(remote) = self.core.remote_mut()
            && let Some(Gone { how, since }) = remote.gone.take()
        {
            self.news.resumed_by(remote.pid(), how, since.elapsed());
        }
        self.news.resumed(committed, abandoned);
    }

    /// The job needs its journal and its central manager no more.
    pub fn forget(&mut self) {
        if let Some(remote) = self.core.remote() {
            remote.kill();
        }
        self.core.remove_journal();
    }

    /// Hosts whose local managers do not end: they are to be killed.
    pub fn dropped(&mut self) -> Vec<HostIndex> {
        std::mem::take(&mut self.dropped)
    }

    /// The news since the last call.
    pub fn news(&mut self) -> Vec<News> {
        self.news.take()
    }

    /// The verdict, once.
    pub fn decided(&mut self) -> Option<Verdict> {
        self.news.take_decided()
    }

    /// The job as it is now, or at the last report.
    pub fn view(&self) -> JobView {
        self.core.view()
    }

    /// A client wants to know how the job is: [`CentralHandle::take_statuses`] will say.
    pub fn ask_status(&mut self, request: StatusRequest) -> Result<()> {
        match &mut self.core {
            CentralCore::Remote(remote) => remote.ask_status(request),
            CentralCore::InProcess(driver) => {
                let status = driver.status(request);
                self.take(status);
                Ok(())
            }
        }
    }

    /// The job as it is, for clients who wanted to know.
    pub fn take_statuses(&mut self) -> Vec<(u32, JobStatus)> {
        std::mem::take(&mut self.statuses)
    }

    /// A child was reaped.
    pub fn reaped(&mut self, pid: u32, status: Option<i32>) {
        if let Some(remote) = self.core.remote_mut() {
            remote.reaped(pid, status);
        }
    }

    /// Waits until the last inputs are taken and the hosts have their orders, at most a second:
    /// mpirun is about to suspend itself.
    pub fn await_taken(&mut self, reactor: &Reactor) -> Result<()> {
        if self.core.is_here() {
            return self.drive(|core, out| core.await_orders(ORDERS_LIMIT, reactor, out));
        }
        let until = Instant::now() + 2 * ORDERS_LIMIT;
        while let Some(remote) = self.core.remote()
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

    /// Central has asked which state every rank has stored. The checkpoints of registered memory
    /// that count.
    pub fn asks_stored(&self) -> Option<RegionEpochs> {
        self.asks_stored
    }

    /// Answers that.
    pub fn tell_stored(&mut self, states: Vec<StoredState>) {
        self.asks_stored = None;
        self.tell(CentralInput::Stored(states));
    }

    /// Central has asked, since the last call, whether the job can be launched again.
    pub fn asks_relaunchable(&mut self) -> Option<RegionEpochs> {
        self.asks_relaunchable.take()
    }

    /// The next launch of the job, and the verdict for which this one has ended.
    pub fn relaunch(&self) -> Option<(&Relaunch, &Verdict)> {
        self.relaunch.as_ref().zip(self.news.verdict())
    }

    /// Output can't be written, with this verdict for a job that is about to stop well.
    pub fn note_lost_output(&mut self, verdict: Verdict) {
        self.lost_output = Some(verdict);
    }

    /// Something went wrong after the job's end, when only its output kept us: that is the verdict
    /// now.
    pub fn overrule(&mut self, verdict: Verdict) {
        self.over = Some((verdict, self.begun));
    }

    /// One line per rank of a job of `size` ranks, with its counters.
    pub fn report(&self, size: u32) -> String {
        self.counters.report(size)
    }
}
