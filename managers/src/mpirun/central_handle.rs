//! The central manager as mpirun has it: its process ([`super::remote_central`]), and what comes of
//! what central does for mpirun and the user. It does not concern streams.

use super::central_notices::{CentralNotices, Notice, Placing};
use super::rank_counters::RankCounters;
use super::remote_central::{CentralSetup, Gone, RemoteCentral};
use crate::central::central_messages::{CentralToMpirun, StatusRequest};
use crate::central::core_driver::ORDERS_LIMIT;
use rejoin_channel_table::Epoch;
use rejoin_managers_host::error::Result;
use rejoin_managers_net::reactor::Reactor;
use rejoin_managers_protocol::central::{CentralEffect, CentralInput, Event, HostIndex, JobView};
use rejoin_managers_protocol::levels::CommittedEpochs;
use rejoin_managers_protocol::region_commits::RegionEpochs;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_managers_report::query::JobStatus;
use rejoin_managers_report::status_summary::StatusSummary;
use rejoin_managers_report::verbose_log::VerboseLog;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Speaks with the central manager's process.
pub(super) struct CentralHandle {
    process: RemoteCentral,
    /// The hosts' names.
    hosts: Vec<String>,
    begun: Instant,
    queue: VecDeque<CentralInput>,
    /// The reported counters of ranks.
    counters: RankCounters,
    notices: CentralNotices,
    /// The verdict of a job that is over, and since when it is.
    over: Option<(Verdict, Instant)>,
    /// The verdict on output that could not be written.
    lost_output: Option<Verdict>,
    /// The checkpoints of registered memory that count, if central has sent
    /// [`CentralEffect::RequestStored`].
    wants_stored: Option<RegionEpochs>,
    /// Hosts whose local managers do not end.
    dropped: Vec<HostIndex>,
    statuses: Vec<(u32, JobStatus)>,
}

impl CentralHandle {
    /// Starts the process, which begins the job. Its events are of this kind.
    pub fn new(
        setup: CentralSetup,
        summary: StatusSummary,
        kind: u8,
        reactor: &Reactor,
    ) -> Result<CentralHandle> {
        let hosts = setup.job.hosts.clone();
        VerboseLog::new(setup.verbose).job(setup.job.placement.len(), &hosts);
        Ok(CentralHandle {
            process: RemoteCentral::start(setup, kind, reactor)?,
            hosts,
            begun: Instant::now(),
            queue: VecDeque::new(),
            counters: RankCounters::default(),
            notices: CentralNotices::new(summary),
            over: None,
            lost_output: None,
            wants_stored: None,
            dropped: Vec::new(),
            statuses: Vec::new(),
        })
    }

    /// A host's name.
    pub fn host(&self, host: HostIndex) -> &str {
        self.hosts.get(host).map_or("?", String::as_str)
    }

    /// Queues an input for [`CentralHandle::steps`].
    pub fn notify(&mut self, input: CentralInput) {
        self.queue.push_back(input);
    }

    /// Suspends it with mpirun, and continues it.
    pub fn pause(&self, pause: bool) {
        self.process.pause(pause);
    }

    /// Sees to it that the process answers.
    pub fn run_timers(&mut self) -> Result<()> {
        self.process.watch()
    }

    /// How long until [`CentralHandle::run_timers`] is due.
    pub fn wait_limit(&self) -> Option<Duration> {
        if !self.queue.is_empty() {
            return Some(Duration::ZERO);
        }
        self.process.wait_limit()
    }

    /// Passes on all inputs.
    pub fn steps(&mut self, reactor: &Reactor) -> Result<()> {
        while let Some(input) = self.queue.pop_front() {
            self.process.send(input)?;
        }
        self.process.flush(reactor)
    }

    /// Something came from the process.
    pub fn read(&mut self, reactor: &Reactor) -> Result<()> {
        let told = self
            .process
            .read(self.over.is_some(), self.notices.verdict(), reactor)?;
        told.into_iter().for_each(|told| self.take(told));
        Ok(())
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
                let central = (self.process.pid(), self.process.restarts());
                let summary = self.notices.summary();
                let status =
                    summary.status(&view, ranks.into_iter(), (&hosts, &moves), now, central);
                self.statuses.push((client, status));
            }
            CentralToMpirun::JournalFailed(why) => self.notices.unjournaled(why),
            CentralToMpirun::Alive | CentralToMpirun::NoJournal(_) => {}
        }
    }

    fn perform(&mut self, effect: CentralEffect) {
        match effect {
            // The process has done these.
            CentralEffect::Persist(_) | CentralEffect::Send(..) | CentralEffect::SendAll(..) => {}
            CentralEffect::Counters(rank, counters) => {
                self.counters.insert(rank, counters);
            }
            CentralEffect::Drop(host) => self.dropped.push(host),
            CentralEffect::Event(event) => {
                if let Event::MovesOver { request, .. } = &event {
                    self.process.moves_over(*request);
                }
                self.notices.event(event);
            }
            CentralEffect::Resumed {
                committed,
                abandoned,
            } => self.resumed(committed, abandoned),
            CentralEffect::Decided(verdict) => self.notices.decide(verdict),
            CentralEffect::RequestStored { regions } => self.wants_stored = Some(regions),
            CentralEffect::Placed(placement) => self.notices.placed(placement),
            CentralEffect::HostAdded { host, added } => {
                if host == self.hosts.len() {
                    self.hosts.push(added.name.clone());
                }
                self.notices.placing(Placing::Added(host, added));
            }
            CentralEffect::Join(host) => self.notices.placing(Placing::Join(host)),
            CentralEffect::Moved { number, rank, to } => {
                self.notices.placing(Placing::Moved { number, rank, to });
            }
            CentralEffect::MovedBack(epoch, ranks) => {
                self.notices.placing(Placing::MovedBack(epoch, ranks));
            }
            CentralEffect::Over(verdict) => {
                // Central may have decided before it was told. No restart writes that output again.
                let lost = self.lost_output.take();
                let is_good = matches!(verdict, Verdict::Success | Verdict::Stopped { .. });
                let lost = lost.filter(|_| is_good);
                self.over = Some((lost.unwrap_or(verdict), Instant::now()));
            }
        }
    }

    /// Another central manager continues: the results of checkpoints may not have been reported.
    fn resumed(&mut self, committed: CommittedEpochs, abandoned: Epoch) {
        if let Some(Gone { how, since }) = self.process.gone.take() {
            let pid = self.process.pid();
            self.notices.resumed_by(pid, how, since.elapsed());
        }
        self.notices.resumed(committed, abandoned);
    }

    /// The job needs its journal and its central manager no more.
    pub fn forget(&mut self) {
        self.process.kill();
        self.process.remove_journal();
    }

    /// Hosts whose local managers do not end: they are to be killed.
    pub fn dropped(&mut self) -> Vec<HostIndex> {
        std::mem::take(&mut self.dropped)
    }

    /// The news since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.notices.take()
    }

    /// The verdict, once.
    pub fn decided(&mut self) -> Option<Verdict> {
        self.notices.take_decided()
    }

    /// The job at the last report.
    pub fn view(&self) -> &JobView {
        &self.process.view
    }

    /// All ranks have called `MPI_Init`.
    pub fn has_run(&self) -> bool {
        self.process.has_run()
    }

    /// A client wants to know how the job is: [`CentralHandle::take_statuses`] will say.
    pub fn request_status(&mut self, request: StatusRequest) -> Result<()> {
        self.process.request_status(request)
    }

    /// The job as it is, for clients who wanted to know.
    pub fn take_statuses(&mut self) -> Vec<(u32, JobStatus)> {
        std::mem::take(&mut self.statuses)
    }

    /// A child was reaped.
    pub fn reaped(&mut self, pid: u32, status: Option<i32>) {
        self.process.reaped(pid, status);
    }

    /// Waits until the last inputs are taken and the hosts have their orders, at most a second:
    /// mpirun is about to suspend itself.
    pub fn await_taken(&mut self, reactor: &Reactor) -> Result<()> {
        let until = Instant::now() + 2 * ORDERS_LIMIT;
        while (self.process).wait(until.saturating_duration_since(Instant::now())) {
            self.read(reactor)?;
        }
        Ok(())
    }

    /// The verdict and since when the job is over.
    pub fn over(&self) -> Option<(&Verdict, Instant)> {
        self.over.as_ref().map(|(verdict, since)| (verdict, *since))
    }

    /// Central has asked, since the last call, from which states the job can continue. The
    /// checkpoints of registered memory that count.
    pub fn wants_stored(&mut self) -> Option<RegionEpochs> {
        self.wants_stored.take()
    }

    /// Output can't be written, with this verdict for a job that is about to end well.
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
