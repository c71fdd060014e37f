//! mpirun: it starts the managers of the job, and is the sink of its streams.
//!
//! [`central_handle`] has central, and [`local_managers`] mpirun's own links to the local managers.
//! [`streams`] has the ranks' output and mpirun's standard input. [`crate::report::query_server`]
//! answers clients. This module has the loop around them.

mod central_handle;
mod launch_order;
mod local_managers;
mod remote_central;
mod state_folder;
mod streams;
mod watchdog;

use crate::central::OVERSLEPT;
use crate::central::host_links::{LinkKinds, LinkPlan};
use crate::clock;
use crate::error::{Error, Result, plain};
use crate::fault;
use crate::host::descendants;
use crate::host::limits::{self, HostLimits};
use crate::host::run_dir;
use crate::host::signals::{FORWARDED, Signals};
use crate::launch::local_messages::LocalToMpirun;
use crate::launch::machines::Machines;
use crate::launch::tree::TreePlace;
use crate::net::listen::ListeningSockets;
use crate::net::local_link::Filled;
use crate::net::reactor::{Interest, Reactor, Token};
use crate::report::event_log::EventLog;
use crate::report::query::Answer;
use crate::report::query_server::{Asked, QueryServer};
use crate::report::status_board::StatusBoard;
use crate::report::user_log::{self, UserLog};
use crate::stdio::commit_order::Settled;
use crate::stdio::sink::SinkLost;
use central_handle::{CentralHandle, News};
pub use launch_order::Launch;
use local_managers::{CentralAddresses, Kinds, LocalManagers};
use rejoin_channel_table::Rank;
use rejoin_managers_protocol::central::{CentralInput, Event, HostIndex, Job};
use rejoin_managers_protocol::verdict::Verdict;
use remote_central::CentralSetup;
use state_folder::StateFolder;
use std::io::Write;
use std::time::{Duration, Instant};
pub use streams::Show;
use streams::{Setup, Streams};

/// Kinds of events.
mod kind {
    pub const LINK: u8 = 0;
    pub const SIGNALS: u8 = 1;
    pub const SINK: u8 = 2;
    pub const STDIN: u8 = 3;
    pub const CONTROL: u8 = 4;
    pub const NET: u8 = 5;
    pub const CENTRAL: u8 = 6;
    /// Of central's links, where its core is in this process.
    pub const CENTRAL_HOST: u8 = 7;
    pub const CENTRAL_CALLER: u8 = 8;
}

/// After the job has ended by time limit or signal, mpirun waits this long for a reader of its
/// output that takes nothing more. After other ends it waits without limit.
const READER_LIMIT: Duration = Duration::from_secs(2);

/// Runs a job to its end. Returns the exit code.
#[must_use]
pub fn run(mut launch: Launch) -> i32 {
    let _claim = match state_folder::claim(&launch) {
        Ok(claim) => claim,
        Err(error) => {
            eprintln!("mpirun: {error}");
            return 2;
        }
    };
    let result = loop {
        let (result, next) = run_once(&launch);
        // Whatever happened, nothing of the job stays behind.
        let clean = descendants::sweep(Duration::from_secs(1));
        if !clean {
            eprintln!("mpirun: some processes of the job do not end");
        }
        match next {
            Some(next) => launch = next,
            None => break result,
        }
    };
    match result {
        Ok(Verdict::Success) => 0,
        Ok(verdict) => {
            let code = verdict.exit_code();
            eprintln!("mpirun: {verdict}; the job has ended with exit code {code}");
            code
        }
        Err(error) => {
            eprintln!("mpirun: {error}");
            1
        }
    }
}

/// Runs a job to its end on these hosts. When it has lost one and can continue elsewhere, that is
/// the next launch.
fn run_once(launch: &Launch) -> (Result<Verdict>, Option<Launch>) {
    let mut launcher = match Launcher::new(launch.clone()) {
        Ok(launcher) => launcher,
        Err(error) => return (Err(error), None),
    };
    let verdict = launcher.run();
    let next = verdict.is_ok().then(|| launcher.relaunch()).flatten();
    launcher.central.forget();
    if next.is_none() {
        launcher.report();
        if let (Ok(verdict), Some(journal)) = (&verdict, &mut launcher.events) {
            let generation = launcher.central.view().generation;
            journal.verdict("ended", generation.0, verdict);
        }
    }
    (verdict, next)
}

struct Launcher {
    central: CentralHandle,
    hosts: LocalManagers,
    streams: Streams,
    reactor: Reactor,
    signals: Signals,
    /// Number of ranks whose counters are to be shown.
    counted: Option<u32>,
    user_log: UserLog,
    control: QueryServer,
    events: Option<EventLog>,
    checkpoint_signal: Option<i32>,
    launch: Launch,
    state_folder: StateFolder,
}

/// Whether the limits suffice for mpirun and the local manager of its host; others look for
/// themselves.
fn check_limits(machines: &Machines, come_back: bool) -> Result<()> {
    let own = (0..machines.hosts.len()).filter(|&host| !machines.is_away(host));
    let ranks = own.map(|host| machines.ranks_on(host) as u64).sum();
    let limits = HostLimits::here(ranks);
    limits.allow(ranks, come_back).map_err(Error::Usage)?;
    if come_back && ranks > 0 {
        limits::allow_watching().map_err(Error::Usage)?;
    }
    if machines.is_networked() {
        // Without recovery, central's links are in this process, too.
        let each = if come_back { 1 } else { 2 };
        limits::allow_hosts(machines.hosts.len(), each).map_err(Error::Usage)?;
    }
    Ok(())
}

/// The setup of the streams for a launch.
fn setup(launch: &Launch, elsewhere: Option<bool>) -> Setup {
    let (plan, machines) = (&launch.plan, &launch.machines);
    let host_of = |rank: Rank| machines.placement.get(rank.0 as usize).copied();
    Setup {
        hosts: machines.hosts.len(),
        ranks: plan.size,
        reader: plan.stdin.and_then(host_of),
        tag: launch.tag,
        recovers: launch.recovery.is_some(),
        show: launch.show,
        elsewhere,
        consumed: launch.consumed.clone(),
    }
}

/// The central manager's data about a launch.
fn job(launch: &Launch, failover: bool) -> Job {
    let spent = u64::try_from(launch.begun.elapsed().as_millis());
    Job {
        generation: launch.generation,
        hosts: launch.machines.names(),
        placement: launch.machines.placement.clone(),
        limit: launch.limit,
        spent: match launch.launch {
            0 => 0,
            _ => spent.unwrap_or(u64::MAX),
        },
        recovery: launch.recovery,
        leases: launch.machines.leases(),
        failover: failover.then(|| launch.machines.failover()),
    }
}

/// The listening sockets of central, and their addresses for local managers. The name of the socket
/// for this host is unique: it has the number of the job.
fn listen_for_central(launch: &Launch) -> Result<(ListeningSockets, CentralAddresses)> {
    let plan = &launch.plan;
    let mut sockets = match launch.machines.is_networked() {
        true => ListeningSockets::open(plan.options.interface.as_deref())?,
        false => ListeningSockets::default(),
    };
    let local = format!("rejoin-{}-{}", run_dir::name(plan.job), launch.launch);
    sockets.add_local(&local)?;
    let net = sockets.addresses().to_vec();
    Ok((sockets, CentralAddresses { net, local }))
}

/// The setup with which every central manager of a launch starts.
fn central_setup(
    launch: &Launch,
    failover: bool,
    sockets: ListeningSockets,
    tree: Option<TreePlace>,
) -> CentralSetup {
    let plan = &launch.plan;
    CentralSetup {
        job: job(launch, failover),
        links: LinkPlan {
            id: plan.job,
            key: plan.key.clone(),
            launch: launch.launch,
            restarts: 0,
            tree,
            lookups: plan.lookups,
        },
        sockets,
        verbose: launch.verbose.then(clock::now),
    }
}

impl Launcher {
    fn new(launch: Launch) -> Result<Self> {
        let state_folder = StateFolder::of(&launch);
        let machines = &launch.machines;
        check_limits(machines, launch.recovery.is_some())?;
        let name = run_dir::name(launch.plan.job);
        let events = launch
            .events
            .clone()
            .map(|path| EventLog::open(path, name.clone()));
        let mut events = events.transpose()?;
        if let Some(journal) = &mut events {
            journal.began(launch.plan.size);
        }
        descendants::become_subreaper();
        let signals = Signals::new(&FORWARDED)?;
        let reactor = Reactor::new()?;
        let plan = &launch.plan;
        let kinds = Kinds {
            link: kind::LINK,
            net: kind::NET,
        };
        let used = (0..machines.hosts.len()).filter(|&host| machines.ranks_on(host) > 0);
        let tree = TreePlace::first(used.count(), plan.size, launch.launch)?;
        let (sockets, addresses) = listen_for_central(&launch)?;
        let launched = (launch.launch, tree);
        let hosts = LocalManagers::start(plan, machines, launched, &addresses, kinds, &reactor)?;
        reactor.add(&signals, Token::single(kind::SIGNALS), Interest::READ)?;
        let failover = state_folder.is_prepared();
        let setup = setup(&launch, failover);
        let streams = Streams::new(setup, [kind::SINK, kind::STDIN])?;
        let program = plan.programs.first().and_then(|p| p.argv.first());
        let program = program.map_or_else(String::new, |name| {
            String::from_utf8_lossy(name).into_owned()
        });
        let board = StatusBoard::new(name, program);
        let control = QueryServer::new(plan.job, kind::CONTROL, &reactor);
        let journal = control.journal().filter(|_| launch.recovery.is_some());
        let setup = central_setup(&launch, failover.is_some(), sockets, tree);
        let links = LinkKinds {
            link: kind::CENTRAL_HOST,
            caller: kind::CENTRAL_CALLER,
        };
        let kinds = (kind::CENTRAL, links);
        let central = CentralHandle::new(setup, board, journal, kinds, &reactor)?;
        Ok(Launcher {
            counted: plan.options.stats.then_some(plan.size),
            central,
            hosts,
            streams,
            reactor,
            signals,
            user_log: UserLog::new(launch.verbose),
            control,
            events,
            checkpoint_signal: launch.checkpoint_signal,
            state_folder,
            launch,
        })
    }

    fn run(&mut self) -> Result<Verdict> {
        let mut tokens = Vec::new();
        loop {
            self.central.steps(&self.reactor)?;
            for host in self.central.dropped() {
                tracing::warn!(host, "the local manager does not end: it is killed");
                self.hosts.kill(host, &self.reactor);
            }
            self.answer_stored();
            self.tell_events();
            self.streams.arrange(&mut self.hosts, &self.reactor)?;
            self.streams.flush(&mut self.hosts, &self.reactor)?;
            // Decided before the ranks notice that their pipes are closed. The cause is mpirun's
            // own error, not the signal that ranks get from it.
            while let Some(lost) = self.streams.lost() {
                self.output_lost(lost)?;
            }
            self.hosts.flush(&self.reactor)?;
            fault::sent();
            self.control.flush(&self.reactor);
            if let Some(verdict) = self.finished() {
                return Ok(verdict);
            }
            let limit = self.wait_limit();
            let asleep = Instant::now();
            self.reactor.wait(limit, &mut tokens)?;
            if limit.is_some_and(|limit| asleep.elapsed() > limit + OVERSLEPT) {
                // The machine or mpirun was suspended: hosts without a message did not fall silent.
                self.central.slept();
            }
            for token in &tokens {
                match token.kind {
                    kind::LINK => self.read_link(token.index as HostIndex)?,
                    kind::SIGNALS => self.read_signals()?,
                    kind::STDIN => self.streams.read(&mut self.hosts)?,
                    kind::CONTROL => self.asked(token.index)?,
                    kind::CENTRAL => self.central.read(&self.reactor)?,
                    kind::CENTRAL_HOST | kind::CENTRAL_CALLER => {
                        self.central.host_event(*token, &self.reactor)?;
                    }
                    kind::NET => self.hosts.called(token.index, &self.reactor)?,
                    // Sinks are flushed each time round.
                    _ => {}
                }
            }
            self.tend_hosts()?;
            self.central.tend(&self.reactor)?;
        }
    }

    /// Local managers on other hosts may be lost.
    fn tend_hosts(&mut self) -> Result<()> {
        self.hosts.tend(&self.reactor)?;
        for (host, why) in self.hosts.gone() {
            self.hosts.close(host, &self.reactor);
            self.central.tell(CentralInput::HostGone(host, why));
        }
        Ok(())
    }

    /// Tells everyone what happened.
    fn tell_events(&mut self) {
        for (client, status) in self.central.looked() {
            self.control
                .answer(client, &Answer::Status(Box::new(status)));
        }
        for news in self.central.news() {
            let event = match news {
                News::Event(event) => event,
                News::Again { how, pid, took } => {
                    self.user_log.again(&how, took);
                    let generation = self.central.view().generation;
                    if let Some(journal) = &mut self.events {
                        journal.again(generation.0, &how, pid, took);
                    }
                    continue;
                }
                News::Unjournaled { why, remote } => {
                    self.user_log.unjournaled(&why, remote);
                    continue;
                }
                News::Abandoned(epoch) => {
                    self.streams.settled(Settled::GivenUp(epoch));
                    if self.control.abandoned() {
                        self.central.tell(CentralInput::Checkpoint);
                    }
                    continue;
                }
            };
            match event {
                Event::Committed { epoch, .. } => {
                    self.streams.settled(Settled::Committed(epoch));
                }
                Event::GivenUp { epoch, .. } => {
                    self.streams.settled(Settled::GivenUp(epoch));
                }
                _ => {}
            }
            self.user_log.event(&event);
            self.control.event(&event);
            if let Some(journal) = &mut self.events {
                let generation = self.central.view().generation;
                journal.event(generation.0, &event);
            }
        }
        self.user_log.tell_lost();
        let decided = self.central.decided();
        let decided = decided
            .filter(|verdict| !matches!(verdict, Verdict::HostLost { .. }) || !self.may_go_on());
        if let (Some(verdict), Some(journal)) = (decided, &mut self.events) {
            let generation = self.central.view().generation;
            journal.verdict("decided", generation.0, &verdict);
        }
        self.control.settle(&self.central.view());
    }

    /// A lost host would not end the job.
    fn may_go_on(&self) -> bool {
        let stored = self.streams.newest_state();
        self.state_folder.state(stored).is_some()
    }

    /// A client has a question, or connects.
    fn asked(&mut self, client: u32) -> Result<()> {
        let view = self.central.view();
        match self.control.ready(client, &view, &self.reactor) {
            None => {}
            Some(Asked::Checkpoint) => self.central.tell(CentralInput::Checkpoint),
            Some(Asked::Status(client)) => self.central.look(client)?,
        }
        Ok(())
    }

    fn wait_limit(&self) -> Option<Duration> {
        let over = self.central.over().is_some() || self.central.relaunch().is_some();
        let reader = over.then_some(Duration::from_millis(50));
        let limits = [
            self.central.wait_limit(),
            self.streams.wait_limit(),
            self.control.wait_limit(),
            self.hosts.wait_limit(),
            reader,
        ];
        limits.into_iter().flatten().min()
    }

    /// The job is over, its last output has come and was written.
    fn finished(&mut self) -> Option<Verdict> {
        let open = self.hosts.any_open();
        if let Some((_, verdict)) = self.central.relaunch() {
            return self.streams.is_written().then(|| verdict.clone());
        }
        let (verdict, since) = self.central.over()?;
        let impatient = matches!(
            verdict,
            Verdict::TimedOut { .. } | Verdict::Interrupted { .. }
        );
        let given_up = impatient && since.elapsed() > READER_LIMIT;
        if !open {
            self.streams.release();
        }
        let done = !open && self.streams.is_written();
        (done || given_up).then(|| verdict.clone())
    }

    /// Central has asked whether the job can be launched again, or from which state: that is
    /// certain once no host has a link.
    fn answer_stored(&mut self) {
        if self.central.asks_relaunchable() && self.may_go_on() {
            self.central.tell(CentralInput::Relaunchable);
        }
        if self.central.asks_stored() && !self.hosts.any_open() {
            let stored = self.streams.newest_state();
            self.central.tell_stored(self.state_folder.state(stored));
        }
    }

    /// Reports that the job is launched again. Returns the data of this launch that the next one
    /// needs.
    fn relaunch(&mut self) -> Option<Launch> {
        let (relaunch, verdict) = self.central.relaunch()?;
        let mut next = state_folder::after(&self.launch, relaunch);
        if let Some(begun) = self.streams.begun(relaunch.state) {
            next.plan.begun = begun;
        }
        let mut text = format!("{verdict}; the job goes on elsewhere from what it has stored");
        next.consumed = self.streams.consumed();
        if next.consumed.is_lost() {
            text += ". What was read of standard input is too much to be given again: only the rest of it is";
        }
        user_log::say(&text);
        if let Some(journal) = &mut self.events {
            journal.verdict("relaunched", next.generation.0, verdict);
        }
        Some(next)
    }

    fn output_lost(&mut self, lost: SinkLost) -> Result<()> {
        let why = match lost {
            SinkLost::Unread => None,
            SinkLost::Error(error) => Some(plain(&error)),
        };
        if matches!(self.central.over(), Some((Verdict::Success, _))) {
            // The last output of ranks that had all ended well.
            let verdict = why.map_or(Verdict::Unread, |why| Verdict::OutputLost { why });
            self.central.overrule(verdict);
            return Ok(());
        }
        self.central.tell(CentralInput::OutputLost(why));
        self.central.steps(&self.reactor)
    }

    /// Shows the counters of the ranks, if that is wanted.
    fn report(&self) {
        if let Some(size) = self.counted {
            // A reader that went away misses it.
            let _ = std::io::stderr().write_all(self.central.report(size).as_bytes());
        }
    }

    fn read_link(&mut self, host: HostIndex) -> Result<()> {
        match self.hosts.fill(host, &self.reactor)? {
            Filled::Nothing | Filled::Broken => {}
            Filled::Closed => {
                self.hosts.close(host, &self.reactor);
                self.central.tell(CentralInput::HostLost(host));
            }
            Filled::Some => {
                while let Some(message) = self.hosts.next(host)? {
                    self.told(host, message);
                }
            }
        }
        Ok(())
    }

    /// A local manager says this.
    fn told(&mut self, host: HostIndex, message: LocalToMpirun) {
        match message {
            LocalToMpirun::Output {
                rank,
                stream,
                bytes,
                last,
            } => {
                let bytes = bytes.into_vec();
                if self.streams.push(host, rank, stream, bytes, last).is_some() {
                    self.user_log.diverged(rank);
                }
            }
            LocalToMpirun::Mark { rank, epoch } => self.streams.mark(rank, epoch),
            LocalToMpirun::Rewound { rank, epoch } => self.streams.rewind(rank, epoch),
            LocalToMpirun::Stored {
                rank,
                number,
                begun,
            } => self.streams.has_stored(rank, number, begun),
            LocalToMpirun::InputCredit(count) => self.streams.input_credit(count),
            LocalToMpirun::InputClosed => self.streams.input_closed(),
            LocalToMpirun::Caveats { rank, lines } => self.user_log.caveats(rank, lines),
            LocalToMpirun::Note {
                rank,
                important,
                text,
            } => self.user_log.note(rank, important, &text),
            LocalToMpirun::Bound { lines, crowded } => {
                let name = self.central.host(host);
                self.user_log.bound(name, &lines, crowded);
            }
            LocalToMpirun::Unbound(rank, errno) => self.user_log.unbound(rank, errno),
            LocalToMpirun::Alive => {}
        }
    }

    fn read_signals(&mut self) -> Result<()> {
        while let Some(signal) = self.signals.take() {
            match signal {
                libc::SIGCHLD => {
                    // The local manager's end is seen on its link; orphans only need reaping.
                    while let Some(pid) = descendants::ended_child() {
                        let status = descendants::reap(pid);
                        self.hosts.child_ended(pid, status);
                        self.central.reaped(pid, status);
                    }
                }
                libc::SIGTSTP => {
                    self.central.tell(CentralInput::Signal(signal));
                    self.central.steps(&self.reactor)?;
                    self.central.await_taken(&self.reactor)?;
                    self.central.pause(true);
                    // SAFETY: plain number; stops this process until SIGCONT comes.
                    unsafe {
                        libc::raise(libc::SIGSTOP);
                    }
                    self.central.tell(CentralInput::Slept);
                    self.central.steps(&self.reactor)?;
                    self.central.pause(false);
                }
                _ if self.checkpoint_signal == Some(signal) => {
                    self.central.tell(CentralInput::Checkpoint);
                }
                _ if self.central.over().is_some() && signal != libc::SIGCONT => {
                    // Only a slow reader keeps us: it is not waited for any longer.
                    self.central.overrule(Verdict::Interrupted { signal });
                    self.hosts.close_all(&self.reactor);
                    self.streams.give_up();
                }
                _ => self.central.tell(CentralInput::Signal(signal)),
            }
        }
        Ok(())
    }
}
