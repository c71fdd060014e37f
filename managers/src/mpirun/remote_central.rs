//! The central manager as a process of its own: start, messages, and restart when it ends before
//! the job.
//!
//! Messages of local managers do not pass through mpirun: central asks those for reports.

use super::repeated_inputs::{RepeatedInputs, Way};
use super::watchdog::{Activity, Duty, Watchdog};
use crate::CENTRAL_MANAGER;
use crate::central::central_messages::{Begin, CentralToMpirun, MpirunToCentral, StatusRequest};
use crate::central::host_links::LinkPlan;
use crate::launch::child_manager::start_manager;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::{Context, Result};
use rejoin_managers_net::local_link::{Filled, LocalLink};
use rejoin_managers_net::manager_listener::ListeningSockets;
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::central::{Central, CentralInput, Course, Job, JobView};
use rejoin_managers_protocol::manager_messages::Time;
use rejoin_managers_protocol::policy::{History, RecoveryLimit};
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_wire::codec::MANAGER_LIMIT;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a central manager may end before the job.
const LIMIT: RecoveryLimit = RecoveryLimit {
    restarts: 20,
    within: 600_000,
};

/// The setup with which every central manager of a launch starts.
pub(super) struct CentralSetup {
    pub job: Job,
    pub links: LinkPlan,
    /// Where its journal belongs, if there is a place for it.
    pub journal: Option<PathBuf>,
    /// The sockets that listen for local managers.
    pub sockets: ListeningSockets,
    /// Tell the user what happens; and since when times count.
    pub verbose: Option<Time>,
}

/// Starts one. Returns the link to it and its process id.
fn start(setup: &CentralSetup) -> Result<(OwnedFd, u32)> {
    let inherited = setup.sockets.numbers();
    let what = "the central manager";
    start_manager("rejoin-central", CENTRAL_MANAGER, what, inherited)
}

/// How a central manager ended, and when that was noticed.
#[derive(Debug, Clone)]
pub(super) struct Gone {
    pub how: String,
    pub since: Instant,
}

/// The process, and the inputs that must be repeated to its successor.
pub(super) struct RemoteCentral {
    setup: CentralSetup,
    link: LocalLink,
    pid: u32,
    status: Option<i32>,
    /// The last one has ended, and none takes over.
    over: bool,
    token: Token,
    /// All ranks have called `MPI_Init`.
    has_run: bool,
    /// There is no journal, for this reason: no successor can continue the job.
    unjournaled: Option<String>,
    /// The process can't read the journal, for this reason.
    unread: Option<String>,
    /// No process can continue the job, and the present one ends it with this verdict.
    verdict: Option<Verdict>,
    inputs: RepeatedInputs,
    /// Clients that wait for the state of the job.
    asking: BTreeSet<StatusRequest>,
    history: History,
    watchdog: Watchdog,
    /// Why this process has killed it, if it has.
    killed: Option<String>,
    /// When it got the first signal to end that it has not taken.
    asked_to_end: Option<Instant>,
    /// The one before, until its successor speaks.
    pub gone: Option<Gone>,
    /// The job at the last report.
    pub view: JobView,
}

impl RemoteCentral {
    /// Starts the first one, whose events are of this kind.
    pub fn start(setup: CentralSetup, kind: u8, reactor: &Reactor) -> Result<RemoteCentral> {
        let token = Token::single(kind);
        let (socket, pid) = start(&setup)?;
        let mut remote = RemoteCentral {
            view: Central::new(setup.job.clone()).view(),
            has_run: false,
            unjournaled: None,
            setup,
            link: LocalLink::new(socket, MANAGER_LIMIT, MANAGER_LIMIT),
            pid,
            status: None,
            over: false,
            unread: None,
            verdict: None,
            token,
            inputs: RepeatedInputs::default(),
            asking: BTreeSet::new(),
            history: History::new(LIMIT),
            watchdog: Watchdog::new(Instant::now()),
            killed: None,
            asked_to_end: None,
            gone: None,
        };
        reactor.add(&remote.link, token, Interest::READ)?;
        remote.begin()?;
        Ok(remote)
    }

    /// A request for moves is carried out as far as possible.
    pub fn moves_over(&mut self, request: u64) {
        self.inputs.moves_over(request);
    }

    /// Tells it all that it must know.
    fn begin(&mut self) -> Result<()> {
        let inputs = self.inputs.numbered();
        self.link.queue(&MpirunToCentral::Begin(Box::new(Begin {
            job: self.setup.job.clone(),
            links: self.setup.links.clone(),
            listening: self.setup.sockets.numbers(),
            journal: self.setup.journal.clone(),
            verdict: self.verdict.clone(),
            began: self.inputs.began(),
            inputs,
            verbose: self.setup.verbose,
        })))?;
        for input in self.inputs.of_hosts() {
            self.link.queue(&MpirunToCentral::Input(None, input))?;
        }
        for request in &self.asking {
            self.link.queue(&MpirunToCentral::Status(*request))?;
        }
        Ok(())
    }

    /// Ends it. After it was reaped, its number may belong to another process.
    pub fn kill(&self) {
        if self.status.is_none() {
            descendants::send(self.pid, libc::SIGKILL);
        }
    }

    /// Suspends it, and continues it.
    pub fn pause(&self, pause: bool) {
        if self.status.is_none() {
            let signal = if pause { libc::SIGSTOP } else { libc::SIGCONT };
            descendants::send(self.pid, signal);
        }
    }

    /// Waits for its next word, if it has not taken everything. Returns whether there may be one.
    pub fn wait(&self, limit: Duration) -> bool {
        if self.over || self.inputs.all_stored() {
            return false;
        }
        let mut fds = [PollFd::new(self.link.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
        poll(&mut fds, limit).is_ok_and(|ready| ready > 0)
    }

    /// Process id of the central manager.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How often another one took over.
    pub fn restarts(&self) -> u64 {
        self.history.total()
    }

    /// All ranks have called `MPI_Init`.
    pub fn has_run(&self) -> bool {
        self.has_run
    }

    /// Removes the journal: its records are of no use any more.
    pub fn remove_journal(&self) {
        if let Some(journal) = &self.setup.journal {
            // It may be removed already, which is just as good.
            let _ = std::fs::remove_file(journal);
        }
    }

    /// Passes on an input.
    pub fn send(&mut self, input: CentralInput) -> Result<()> {
        if input.end_signal().is_some() {
            let first = self.asked_to_end.filter(|_| self.inputs.has_end());
            // It does not even take the first one. Two at once (timeout(1) sends them) prove
            // nothing.
            if first.is_some_and(|at| at.elapsed() > Duration::from_millis(500)) {
                self.kill();
            }
            self.asked_to_end = first.or(Some(Instant::now()));
        }
        let number = match self.inputs.add(&input) {
            Way::Nowhere => return Ok(()),
            Way::Unnumbered => None,
            Way::Numbered(number) => Some(number),
        };
        Ok(self.link.queue(&MpirunToCentral::Input(number, input))?)
    }

    /// Asks how everything is, for a client.
    pub fn request_status(&mut self, request: StatusRequest) -> Result<()> {
        self.asking.insert(request);
        Ok(self.link.queue(&MpirunToCentral::Status(request))?)
    }

    /// Makes sure that it answers; one that does not for long is killed, and another takes over.
    pub fn watch(&mut self) -> Result<()> {
        if self.over || self.status.is_some() {
            return Ok(());
        }
        let pid = self.pid;
        match self.watchdog.check(Instant::now(), || Activity::of(pid)) {
            Duty::Nothing => Ok(()),
            Duty::Ask => Ok(self.link.queue(&MpirunToCentral::Ping)?),
            Duty::End(silent) => {
                self.killed = Some(format!("did not answer for {silent} s and was killed"));
                self.kill();
                Ok(())
            }
        }
    }

    /// How long until [`RemoteCentral::watch`], if there is one to watch.
    pub fn wait_limit(&self) -> Option<Duration> {
        (!self.over).then(|| self.watchdog.wait_limit(Instant::now()))
    }

    /// Writes as much as the link takes.
    pub fn flush(&mut self, reactor: &Reactor) -> Result<()> {
        if self.over {
            return Ok(());
        }
        let write = self.link.flush();
        let interest = Interest { read: true, write };
        reactor.change(&self.link, self.token, interest)
    }

    /// A child was reaped.
    pub fn reaped(&mut self, pid: u32, status: Option<i32>) {
        if pid == self.pid {
            self.status = status;
        }
    }

    /// Reads once. `over`: no central manager is needed any more. `decided`: the verdict, if there
    /// is one. Returns its messages.
    pub fn read(
        &mut self,
        over: bool,
        decided: Option<&Verdict>,
        reactor: &Reactor,
    ) -> Result<Vec<CentralToMpirun>> {
        let mut ends = self.link.fill()? == Filled::Closed;
        let mut told = Vec::new();
        while !ends {
            match self.link.next::<CentralToMpirun>() {
                Ok(None) => return Ok(told),
                Ok(Some(one)) => {
                    self.note(&one);
                    told.push(one);
                }
                Err(error) => {
                    tracing::warn!(%error, "the central manager can't be understood");
                    ends = true;
                }
            }
        }
        self.ended(over, decided, reactor)?;
        Ok(told)
    }

    fn note(&mut self, told: &CentralToMpirun) {
        self.watchdog.answered(Instant::now());
        match told {
            CentralToMpirun::Step { took, view, .. } => {
                self.inputs.stored(took);
                if let Some(view) = view {
                    self.has_run |= matches!(view.course, Course::Running | Course::Finalizing);
                    self.view.clone_from(view);
                }
            }
            CentralToMpirun::Status { client, .. } => {
                self.asking.retain(|request| request.client != *client);
            }
            CentralToMpirun::JournalFailed(why) => {
                // Its records are obsolete from here on.
                self.remove_journal();
                self.unjournaled = Some(why.clone());
            }
            CentralToMpirun::NoJournal(why) => self.unread = Some(why.clone()),
            CentralToMpirun::Alive => {}
        }
    }

    /// The process is gone: its end is waited for, and another one takes over.
    fn ended(&mut self, over: bool, decided: Option<&Verdict>, reactor: &Reactor) -> Result<()> {
        let since = Instant::now();
        reactor.remove(&self.link);
        // Whatever it does without its link, it does no more.
        self.kill();
        let how = self.how();
        let how = self.killed.take().unwrap_or(how);
        if over {
            self.over = true;
            return Ok(());
        }
        tracing::warn!(pid = self.pid, how, "the central manager ended");
        match self.refusal(&how) {
            // Reported from the first one on, if they fall one after the other.
            None => {
                self.gone.get_or_insert(Gone { how, since });
            }
            Some(why) => self.end_job(why, decided)?,
        }
        self.setup.links.restarts += 1;
        let (socket, pid) = start(&self.setup)?;
        self.link = LocalLink::new(socket, MANAGER_LIMIT, MANAGER_LIMIT);
        (self.pid, self.status) = (pid, None);
        self.watchdog = Watchdog::new(Instant::now());
        reactor.add(&self.link, self.token, Interest::READ)?;
        self.begin()
    }

    /// Why no other one can continue the job of this one, which ended `how`.
    fn refusal(&mut self, how: &str) -> Option<String> {
        if let Some(why) = self.unread.take() {
            return Some(why);
        }
        if let Some(failed) = &self.unjournaled {
            return Some(format!("it {how}, after {failed}"));
        }
        let refusal = self
            .history
            .admit(rejoin_managers_host::host_clocks::now())
            .err()?;
        tracing::warn!(%refusal, "no other takes over");
        Some(format!(
            "it ended more than {} times in {} s, the last one {how}",
            LIMIT.restarts,
            LIMIT.within / 1000
        ))
    }

    /// The next process only ends the job: with this verdict if one is decided, otherwise because
    /// central is lost.
    fn end_job(&mut self, why: String, decided: Option<&Verdict>) -> Result<()> {
        if self.verdict.is_some() {
            return Err(std::io::Error::other(why)).context("replace the central manager");
        }
        self.remove_journal();
        let lost = Verdict::CentralLost { why };
        self.verdict = Some(decided.cloned().unwrap_or(lost));
        // Which generations have begun is not known to it, so none can be begun.
        self.setup.job.failover = None;
        self.gone = None;
        Ok(())
    }

    /// How it ended, which it has, or is about to.
    fn how(&mut self) -> String {
        let begun = Instant::now();
        while self.status.is_none() && begun.elapsed() < Duration::from_secs(2) {
            self.status = descendants::reap(self.pid);
            if self.status.is_none() {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        match self.status {
            Some(status) if libc::WIFSIGNALED(status) => {
                format!("was killed by signal {}", libc::WTERMSIG(status))
            }
            Some(status) => format!("exited with code {}", libc::WEXITSTATUS(status)),
            None => "ended".into(),
        }
    }
}
