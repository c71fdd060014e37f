//! The local manager: starts one host's ranks, watches them, passes their output on.

mod copies;
mod health_command;
mod image_copying;
mod image_events;
mod images;
mod kind;
mod lease_duties;
mod link_messages;
mod links;
mod load_ahead;
mod local_rank;
mod log_reports;
mod memory_guard;
mod moved_ranks;
mod rank_arrivals;
mod rank_events;
mod rank_socket;
mod report_logs;
mod report_moves;
mod report_pace;
mod restore_process;
mod retire;
mod start;
mod start_ranks;
mod stored_determinants;
mod stored_receives;
mod streams;
mod sweep;

use crate::error::{Context, Error, Result};
use crate::host::signal_reader::Signals;
use crate::host::{descendants, host_limits};
use crate::launch::fence_link::LeaseSender;
use crate::launch::local_messages::{LocalToCentral, LocalToMpirun};
use crate::launch::supervisor;
use crate::net::reactor::{Interest, Reactor, Token};
use crate::stdio::Stream;
use crate::{fault, host_clocks, logs};
use copies::ImageCopies;
use health_command::HealthCommand;
pub(crate) use images::ImageNote;
use images::{CheckpointRequests, IncomingRanks, PendingRestores, RankImages};
use links::{CentralLink, MpirunLink, Peers};
use local_rank::LocalRank;
use log_reports::LogReports;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use rank_arrivals::RankArrivals;
use rejoin_channel_table::{ImageId, Incarnation, Rank};
use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::Time;
use rejoin_wire::FromManager;
use rejoin_wire::codec::{MANAGER_LIMIT, encode};
use report_pace::ReportPace;
use start::ProcessStarter;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use streams::{RankInput, RankOutputs};
use sweep::Sweep;

/// Runs a local manager whose link to mpirun is its standard input. Returns its exit code.
#[must_use]
pub fn run() -> i32 {
    run_with(MpirunLink::inherited, None)
}

/// Runs a local manager that finds an invitation on its standard input and calls mpirun back.
/// Returns its exit code.
#[must_use]
pub fn run_invited() -> i32 {
    match supervisor::supervise() {
        Ok(fence) => run_with(|_| MpirunLink::invited(), Some(fence)),
        Err(error) => {
            say_line!("rejoin: local manager: {error}");
            1
        }
    }
}

fn run_with(link: impl FnOnce(&Reactor) -> Result<MpirunLink>, fence: Option<LeaseSender>) -> i32 {
    logs::init("rejoin-local");
    let say = |error: &Error| say_line!("rejoin: local manager: {error}");
    let made = LocalManager::new(link, fence).inspect_err(say);
    // Said before the links close: mpirun ends this process then.
    match made.and_then(|mut driver| driver.run().inspect_err(say)) {
        // The supervisor reports by this code that nothing is left here: ranks need not wait for
        // the end of the lease.
        Ok(has_abandoned) => i32::from(has_abandoned),
        Err(_) => {
            let left = descendants::sweep(descendants::SWEEP_LIMIT);
            if !left.is_empty() {
                say_line!(
                    "rejoin: processes do not end after SIGKILL: {}",
                    left.join(", ")
                );
            }
            1
        }
    }
}

/// The local manager: the parts of its state, and the inputs that wait for its core. A slot is a
/// rank's position among the ranks of this host, and its local rank. It never changes.
struct LocalManager {
    core: Local,
    /// Inputs that the core has not taken yet.
    queue: VecDeque<LocalInput>,
    over: bool,
    reactor: Reactor,
    signals: Signals,
    /// The limit of open files before the manager raised its own.
    open_files: Option<libc::rlimit>,
    mpirun: MpirunLink,
    /// To the supervisor, which suspends the ranks of another host than mpirun's.
    fence: Option<LeaseSender>,
    /// Ranks are suspended, and the supervisor may not know that.
    stopped_here: bool,
    /// From the plan on.
    central: Option<CentralLink>,
    /// Of a job on many hosts.
    peers: Option<Box<Peers>>,
    /// From the plan on.
    starter: Option<ProcessStarter>,
    /// By slot: in rank order those with which the manager was launched, then those that have come
    /// from other hosts. Those that have left keep their slots.
    ranks: Vec<LocalRank>,
    /// How many ranks it was launched with.
    launched: usize,
    outputs: RankOutputs,
    input: Option<RankInput>,
    /// The checkpoint from whose file the rank that reads it begins (`None`: not known yet), and
    /// whether what it had read is given again.
    input_from: Option<(Option<ImageId>, bool)>,
    /// The rank that reads it has moved to another host.
    input_left: bool,
    requests: CheckpointRequests,
    images: RankImages,
    /// Of a job whose hosts copy each other's files of images.
    copies: Option<Box<ImageCopies>>,
    /// When to look at the memory of this host again.
    memory_at: Instant,
    restores: PendingRestores,
    arrivals: RankArrivals,
    incoming: IncomingRanks,
    report_pace: ReportPace,
    /// Of ranks that have logs.
    log_reports: LogReports,
    sweep: Sweep,
    /// Of a job whose hosts have one.
    health: Option<HealthCommand>,
    /// Milliseconds from SIGTERM to the end of this host.
    leave_deadline: Option<u64>,
    /// The manager ends before the job does.
    has_abandoned: bool,
}

impl LocalManager {
    fn new(
        link: impl FnOnce(&Reactor) -> Result<MpirunLink>,
        fence: Option<LeaseSender>,
    ) -> Result<Self> {
        // For `ps`.
        let _ = prctl::set_name(c"rejoin-local");
        descendants::become_subreaper();
        let reactor = Reactor::new()?;
        let mpirun = link(&reactor)?;
        let null = std::fs::File::open("/dev/null").context("open /dev/null")?;
        // Ranks must not find the link as their standard input.
        nix::unistd::dup2_stdin(&null).context("replace standard input")?;
        if mpirun.is_remote() {
            nix::unistd::dup2_stdout(&null).context("replace standard output")?;
        }
        let signals = Signals::new(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])?;
        reactor.add(&signals, Token::single(kind::SIGNALS), Interest::READ)?;
        if let Some(fence) = &fence {
            reactor.add(fence, Token::single(kind::SUPERVISOR), Interest::READ)?;
        }
        Ok(LocalManager {
            core: Local::new(),
            queue: VecDeque::new(),
            over: false,
            reactor,
            signals,
            open_files: host_limits::raise_open_files(),
            mpirun,
            fence,
            stopped_here: false,
            central: None,
            peers: None,
            starter: None,
            ranks: Vec::new(),
            launched: 0,
            outputs: RankOutputs::new(),
            input: None,
            input_from: None,
            input_left: false,
            requests: CheckpointRequests::default(),
            images: RankImages::default(),
            copies: None,
            memory_at: Instant::now(),
            restores: PendingRestores::default(),
            arrivals: RankArrivals::default(),
            incoming: IncomingRanks::default(),
            report_pace: ReportPace::default(),
            log_reports: LogReports::default(),
            sweep: Sweep::default(),
            health: None,
            leave_deadline: None,
            has_abandoned: false,
        })
    }

    /// Runs to the end of the job on this host. Returns whether the manager has ended it.
    fn run(&mut self) -> Result<bool> {
        let mut tokens = Vec::new();
        loop {
            self.steps()?;
            if self.over {
                let written = self.outputs.drain_all(&mut self.mpirun, &self.reactor);
                if self.mpirun.has_said_all(written, &self.reactor)? {
                    self.job_ended();
                    return Ok(self.has_abandoned);
                }
            }
            self.start_some();
            self.run_peer_timers()?;
            self.flush_links()?;
            self.report_moves(Instant::now());
            self.report_logs();
            let limit = self.call_limit().into_iter().chain(self.wait_limit()).min();
            self.reactor.wait(limit, &mut tokens)?;
            for token in &tokens {
                self.handle(*token)?;
            }
            self.timers()?;
            self.call()?;
        }
    }

    fn now(&self) -> Time {
        host_clocks::now()
    }

    fn wait_limit(&self) -> Option<Duration> {
        let now = self.now();
        let core = self
            .core
            .deadline()
            .map(|at| Duration::from_nanos(at.0.saturating_sub(now.0)));
        let starting = self.is_starting().then_some(Duration::ZERO);
        // Inputs from the start of processes are due, too. The limit only matters if the kernel
        // does not report an end.
        let retiring = self.any_retiring().then_some(Duration::from_millis(1));
        let restoring = self.restores.is_any().then_some(Duration::from_secs(1));
        let queued = (!self.queue.is_empty()).then_some(Duration::ZERO);
        let guarded = self.images.are_in_memory();
        [
            core,
            self.sweep.wait_limit(),
            self.outputs.prompt_limit(),
            starting,
            retiring,
            queued,
            restoring,
            self.images.prepare_limit(),
            self.report_pace.wait_limit(Instant::now()),
            self.log_reports_limit(),
            self.requests.wait_limit(),
            self.peers.as_ref().and_then(|peers| peers.wait_limit()),
            self.copies.as_ref().and_then(|copies| copies.wait_limit()),
            self.health.as_ref().and_then(HealthCommand::wait_limit),
            guarded.then(|| self.memory_at.saturating_duration_since(Instant::now())),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn timers(&mut self) -> Result<()> {
        self.check_all_retiring();
        self.check_restores();
        let recovering = self.restores.is_any() || self.any_retiring();
        self.images.prepare(recovering, &self.reactor);
        self.retry_requests();
        self.guard_memory(Instant::now());
        self.check_health();
        if self.core.deadline().is_some_and(|at| at <= self.now()) {
            self.queue.push_back(LocalInput::Tick);
        }
        if let Some(copies) = &mut self.copies {
            copies.run_timers(&self.reactor)?;
        }
        self.outputs.pass_prompts(&mut self.mpirun, &self.reactor);
        if self.sweep.is_running() && self.sweep.advance(&self.tracked()) {
            self.queue.push_back(LocalInput::Swept);
            self.tell_left()?;
        }
        Ok(())
    }

    /// Tells of processes that the sweep has left on another host than mpirun's, where mpirun
    /// looks itself.
    fn tell_left(&mut self) -> Result<()> {
        let left = self.sweep.take_left();
        if !left.is_empty() && self.mpirun.is_remote() {
            self.mpirun.tell(&LocalToMpirun::LeftBehind(left))?;
        }
        Ok(())
    }

    /// Passes all inputs to the core, and carries out its effects.
    fn steps(&mut self) -> Result<()> {
        while let Some(input) = self.queue.pop_front() {
            tracing::debug!(?input, "local");
            fault::said(&input);
            let mut effects = Vec::new();
            self.core.step(self.now(), input, &mut effects);
            for effect in effects {
                let first = || !self.restores.is_any();
                let point = fault::before_local(&effect, first);
                self.perform(effect)?;
                fault::after_local(point);
            }
        }
        Ok(())
    }

    fn perform(&mut self, effect: LocalEffect) -> Result<()> {
        match effect {
            LocalEffect::Spawn(instance) => self.order_process(instance)?,
            LocalEffect::Central(news) => self.tell_central(LocalToCentral::News(news))?,
            LocalEffect::Ranks(ranks, message) => {
                let mut frame = Vec::new();
                encode(&message, MANAGER_LIMIT, &mut frame)?;
                for (told, rank) in ranks.iter().enumerate() {
                    fault::halfway(&message, told, ranks.len());
                    if let Some(slot) = self.slot(*rank) {
                        self.send_to_rank(slot, &message, &frame)?;
                    }
                }
                if let FromManager::Checkpoint { .. } | FromManager::Move { .. } = message {
                    self.requests.sent();
                }
            }
            LocalEffect::Watch(rank, incarnation, pid) => {
                self.watch_caller(rank, incarnation, pid)?;
            }
            LocalEffect::Abandon => {
                tracing::warn!("this host is told to end, and its ranks with it");
                self.has_abandoned = true;
                self.job_ended();
            }
            LocalEffect::SignalGroup(rank, signal) => self.signal_group(rank, signal),
            LocalEffect::SignalAll(signal) => {
                self.start_no_more();
                let count = descendants::signal_all(signal);
                tracing::info!(signal, count, "signal to every process of the job");
                self.sweep.signalled(signal);
            }
            LocalEffect::Sweep => {
                self.drop_all_images();
                if self.sweep.begin(&self.tracked()) {
                    self.queue.push_back(LocalInput::Swept);
                }
            }
            LocalEffect::Exit { keeps_files } => {
                self.over = true;
                self.start_no_more();
                self.copies.iter_mut().for_each(|copies| copies.close());
                self.images.leave_folder(keeps_files);
                self.outputs.job_over();
            }
            other => self.perform_on_images(other)?,
        }
        Ok(())
    }

    /// Effects that concern images, recoveries, and look-ups.
    fn perform_on_images(&mut self, effect: LocalEffect) -> Result<()> {
        match effect {
            LocalEffect::SignalCaller(rank, signal) => {
                let slot = self.slot(rank);
                if let Some(pid) = slot.and_then(|slot| self.ranks[slot].caller_pid()) {
                    descendants::send(pid, signal);
                }
            }
            LocalEffect::Retire(rank, incarnation) => self.retire(rank, incarnation),
            LocalEffect::LookUp(to, message) => self.send_lookup(to, message)?,
            LocalEffect::Probe(to, message) => self.send_probe(to, message)?,
            LocalEffect::TakeIn(moved, from) => self.take_in(moved, from)?,
            LocalEffect::Restore(instance, image) => self.restore_process(instance, image)?,
            LocalEffect::Discard(rank, incarnation) => self.discard(rank, incarnation),
            LocalEffect::HasLeft(rank) => self.has_left(rank),
            LocalEffect::DropImage(rank, image) => self.drop_image(rank, image),
            LocalEffect::DropFromMemory(rank, image) => self.drop_from_memory(rank, image),
            LocalEffect::WriteImage(rank, epoch) => {
                self.write_image(rank, ImageId::Checkpoint(epoch), None);
            }
            LocalEffect::WriteImageOfMove(rank, number, base) => {
                self.write_image(rank, ImageId::Move(number), base);
            }
            LocalEffect::Load(rank, number, holder) => self.load_ahead(rank, number, holder)?,
            LocalEffect::Unload(rank) => self.unload(rank),
            LocalEffect::CopyImage(members, epoch) => {
                self.copy_image(members, ImageId::Checkpoint(epoch))?;
            }
            LocalEffect::DropCopy(file) => self.drop_copy(file),
            LocalEffect::StopAll => self.stop_all(),
            LocalEffect::RunUntil(until) => self.run_until(until),
            LocalEffect::Caveats(rank, lines) => {
                self.mpirun.tell(&LocalToMpirun::Caveats { rank, lines })?
            }
            LocalEffect::Waits(rank, text) => {
                self.mpirun.tell(&LocalToMpirun::Waits { rank, text })?;
            }
            LocalEffect::Note(rank, important, text) => self.mpirun.tell(&LocalToMpirun::Note {
                rank,
                important,
                text,
            })?,
            _ => {}
        }
        Ok(())
    }

    fn handle(&mut self, token: Token) -> Result<()> {
        let slot = token.index as usize;
        match token.kind {
            kind::LINK => self.read_mpirun()?,
            kind::CENTRAL => self.read_central()?,
            kind::SIGNALS => self.read_signals(),
            kind::FAILURES => self.read_failures(),
            kind::INPUT => self.write_input()?,
            kind::IMAGE => self.image_event(token)?,
            kind::WATCH => self.ends_noticed(),
            kind::DIAL => self.mpirun_answered()?,
            kind::CENTRAL_DIAL => self.central_answered()?,
            kind::SUPERVISOR => self.read_supervisor(),
            kind::NAMED_FILES => self.take_named_files(),
            kind::LOADER => self.loader_event(token),
            kind::COPY_ENDS => self.take_copy_ends()?,
            kind::HEALTH => {
                if let Some(health) = &mut self.health {
                    health.read(&self.reactor);
                }
            }
            kind::COPY_CALLS => {
                if let Some(copies) = &mut self.copies {
                    copies.called(token.index, &self.reactor)?;
                }
            }
            kind::PEERS | kind::PEER_DIAL | kind::PEER_OUT | kind::PEER_IN => {
                self.peer_event(token)?;
            }
            _ if self.ranks.get(slot).is_none_or(|r| r.is_stale(token)) => {}
            kind::SOCKET => self.read_socket(slot),
            kind::OUT => {
                self.outputs
                    .read(slot, Stream::Out, &mut self.mpirun, &self.reactor);
            }
            kind::ERR => {
                self.outputs
                    .read(slot, Stream::Err, &mut self.mpirun, &self.reactor);
            }
            kind::CHILD => self.child_ended(slot),
            kind::CALLER => self.caller_ended(slot),
            _ => {}
        }
        Ok(())
    }

    fn read_signals(&mut self) {
        while let Some(signal) = self.signals.take() {
            match self.leave_deadline.filter(|_| signal == libc::SIGTERM) {
                _ if signal == libc::SIGCHLD => {}
                // The host ends soon. Its ranks may have time to leave it.
                Some(millis) => self.queue.push_back(LocalInput::Leave(millis)),
                None => {
                    // Someone ends the manager itself: its ranks end with it, in order.
                    tracing::warn!(signal, "the local manager is told to end");
                    self.has_abandoned = true;
                    self.job_ended();
                }
            }
        }
        // Orphans that came to us are reaped; ranks are reaped where their end is noticed.
        while let Some(pid) = descendants::ended_child() {
            let is_caller = |r: &LocalRank| r.caller_pid() == Some(pid);
            if let Some(slot) = self.ranks.iter().position(|r| r.child_pid() == Some(pid)) {
                self.child_ended(slot);
            } else if let Some(slot) = self.ranks.iter().position(is_caller) {
                self.caller_ended(slot);
                // If the kernel told its status before, it is still to be reaped.
                descendants::reap(pid);
            } else {
                let status = descendants::reap(pid);
                match &mut self.health {
                    Some(health) if health.is_child(pid) => {
                        let news = health.ended(status, &self.reactor);
                        self.queue.extend(news.map(LocalInput::Health));
                    }
                    _ => self.forget(pid, status),
                }
            }
        }
    }

    /// Runs the health command when it is due, as long as the job runs.
    fn check_health(&mut self) {
        let idle = self.over || self.core.is_suspended();
        if let Some(health) = self.health.as_mut().filter(|_| !idle) {
            let news = health.run_timers(&self.reactor);
            self.queue.extend(news.map(LocalInput::Health));
        }
    }

    /// Queues a message for central; before there is a plan, there is nothing to say.
    fn tell_central(&mut self, message: LocalToCentral) -> Result<()> {
        match &mut self.central {
            Some(central) => central.tell(&message),
            None => Ok(()),
        }
    }

    /// Pids of ranks' processes that are not reaped yet.
    fn tracked(&self) -> Vec<u32> {
        self.ranks.iter().filter_map(LocalRank::child_pid).collect()
    }

    fn slot(&self, rank: Rank) -> Option<usize> {
        let (launched, moved) = self.ranks.split_at(self.launched);
        let found = launched.binary_search_by_key(&rank, LocalRank::rank).ok();
        let is_same = |other: &LocalRank| other.rank() == rank;
        found.or_else(|| Some(self.launched + moved.iter().position(is_same)?))
    }

    fn told(&mut self, slot: usize, input: impl FnOnce(Rank, Incarnation) -> LocalInput) {
        let rank = &self.ranks[slot];
        self.queue.push_back(input(rank.rank(), rank.incarnation()));
    }
}
