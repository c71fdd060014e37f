//! The local manager: starts one host's ranks, watches them, passes their output on.

mod carry_out;
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
mod manager_links;
mod manager_parts;
mod memory_guard;
mod moved_ranks;
mod new_images;
mod peer_messages;
mod rank_arrivals;
mod rank_events;
mod rank_sender;
mod rank_slots;
mod rank_socket;
mod report_logs;
mod report_moves;
mod report_pace;
mod restore_process;
mod retire;
mod start;
mod start_ranks;
mod stored_logs;
mod streams;
mod sweep;
mod take_plan;

use crate::launch::fence_link::LeaseSender;
use crate::launch::local_messages::LocalToMpirun;
use crate::launch::supervisor;
use crate::logs;
use health_command::HealthCommand;
pub(crate) use images::ImageNote;
use lease_duties::SuspendHandler;
use links::MpirunLink;
use load_ahead::LoadHandler;
use local_rank::LocalRank;
use manager_links::ManagerLinks;
use manager_parts::ManagerParts;
use memory_guard::MemoryGuard;
use new_images::ImageFileHandler;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use peer_messages::PeerHandler;
use rank_events::RankEventHandler;
use rank_sender::RequestRetries;
use rejoin_channel_table::Rank;
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::{Context, Error, Result};
use rejoin_managers_host::host_clocks;
use rejoin_managers_host::signal_reader::Signals;
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::local::{Local, LocalInput};
use rejoin_managers_stdio::Stream;
use report_logs::LogReporter;
use report_moves::MoveReporter;
use restore_process::RestoreHandler;
use retire::RetireHandler;
use start_ranks::SpawnHandler;
use std::time::{Duration, Instant};
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

/// The local manager: its core, the parts of its state, and the loop, which passes what happens to
/// handlers of these parts.
struct LocalManager {
    core: Local,
    parts: ManagerParts,
    signals: Signals,
    sweep: Sweep,
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
            parts: ManagerParts::new(reactor, mpirun, fence),
            signals,
            sweep: Sweep::default(),
            has_abandoned: false,
        })
    }

    /// Runs to the end of the job on this host. Returns whether the manager has ended it.
    fn run(&mut self) -> Result<bool> {
        let mut tokens = Vec::new();
        loop {
            self.steps()?;
            let parts = &mut self.parts;
            if parts.over {
                let written = parts.outputs.drain_all(&mut parts.mpirun, &parts.reactor);
                if parts.mpirun.has_sent_all(written, &parts.reactor)? {
                    ManagerLinks::of(parts).job_ended();
                    return Ok(self.has_abandoned);
                }
            }
            SpawnHandler::of(parts).start_some();
            PeerHandler::of(parts).run_timers()?;
            ManagerLinks::of(parts).flush()?;
            MoveReporter::of(parts).report(&self.core, Instant::now());
            LogReporter::of(parts).report();
            let limit = self.wait_limit();
            self.parts.reactor.wait(limit, &mut tokens)?;
            for token in &tokens {
                self.handle(*token)?;
            }
            self.timers()?;
            ManagerLinks::of(&mut self.parts).call()?;
        }
    }

    fn wait_limit(&mut self) -> Option<Duration> {
        let due = self.core.deadline();
        let parts = &mut self.parts;
        let now = host_clocks::now();
        let core = due.map(|at| Duration::from_nanos(at.0.saturating_sub(now.0)));
        let starter = parts.starter.as_ref();
        let starting = starter.is_some_and(|starter| starter.is_starting());
        // Inputs from the start of processes are due, too. The limit only matters if the kernel
        // does not report an end.
        let retiring = parts.ranks.any_retiring();
        let guarded = parts.images.are_in_memory();
        [
            ManagerLinks::of(parts).call_limit(),
            LogReporter::of(parts).wait_limit(),
            core,
            self.sweep.wait_limit(),
            parts.outputs.prompt_limit(),
            starting.then_some(Duration::ZERO),
            retiring.then_some(Duration::from_millis(1)),
            (!parts.inputs.is_empty()).then_some(Duration::ZERO),
            parts.restores.is_any().then_some(Duration::from_secs(1)),
            parts.images.prepare_limit(),
            parts.report_pace.wait_limit(Instant::now()),
            parts.requests.wait_limit(),
            parts.peers.as_ref().and_then(|peers| peers.wait_limit()),
            parts.copies.as_ref().and_then(|copies| copies.wait_limit()),
            parts.health.as_ref().and_then(HealthCommand::wait_limit),
            guarded.then(|| parts.memory_at.saturating_duration_since(Instant::now())),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn timers(&mut self) -> Result<()> {
        let parts = &mut self.parts;
        RetireHandler::of(parts).check_all();
        RestoreHandler::of(parts).check_restores();
        let recovering = parts.restores.is_any() || parts.ranks.any_retiring();
        parts.images.prepare(recovering, &parts.reactor);
        RequestRetries::of(parts).retry();
        MemoryGuard::of(parts).guard(Instant::now());
        // The health command runs as long as the job does.
        let idle = parts.over || self.core.is_suspended();
        if let Some(health) = parts.health.as_mut().filter(|_| !idle) {
            let news = health.run_timers(&parts.reactor);
            parts.inputs.extend(news.map(LocalInput::Health));
        }
        if (self.core.deadline()).is_some_and(|at| at <= host_clocks::now()) {
            parts.inputs.push_back(LocalInput::Tick);
        }
        if let Some(copies) = &mut parts.copies {
            copies.run_timers(&parts.reactor)?;
        }
        parts
            .outputs
            .pass_prompts(&mut parts.mpirun, &parts.reactor);
        if self.sweep.is_running() && self.sweep.advance(&parts.ranks.tracked()) {
            parts.inputs.push_back(LocalInput::Swept);
            // mpirun looks itself on its own host.
            let left = self.sweep.take_left();
            if !left.is_empty() && parts.mpirun.is_remote() {
                parts.mpirun.notify(&LocalToMpirun::LeftBehind(left))?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, token: Token) -> Result<()> {
        let slot = token.index as usize;
        let parts = &mut self.parts;
        match token.kind {
            kind::LINK => self.read_mpirun()?,
            kind::CENTRAL => self.read_central()?,
            kind::SIGNALS => self.read_signals(),
            kind::FAILURES => RankEventHandler::of(parts).read_failures(),
            kind::INPUT => parts.input.write(&mut parts.mpirun, &parts.reactor)?,
            kind::IMAGE => RestoreHandler::of(parts).image_event(token)?,
            kind::WATCH => RankEventHandler::of(parts).ends_noticed(),
            kind::DIAL => ManagerLinks::of(parts).mpirun_answered()?,
            kind::CENTRAL_DIAL => ManagerLinks::of(parts).central_answered()?,
            kind::SUPERVISOR => SuspendHandler::of(parts).read_supervisor(),
            kind::NAMED_FILES => ImageFileHandler::of(parts).take_named_files(),
            kind::LOADER => LoadHandler::of(parts).loader_event(Rank(token.index)),
            kind::COPY_ENDS => RestoreHandler::of(parts).take_copy_ends()?,
            kind::HEALTH => {
                if let Some(health) = &mut parts.health {
                    health.read(&parts.reactor);
                }
            }
            kind::COPY_CALLS => {
                if let Some(copies) = &mut parts.copies {
                    copies.called(token.index, &parts.reactor)?;
                }
            }
            kind::PEERS | kind::PEER_DIAL | kind::PEER_OUT | kind::PEER_IN => {
                PeerHandler::of(parts).event(token)?;
            }
            _ if parts.ranks.get(slot).is_none_or(|r| r.is_stale(token)) => {}
            kind::SOCKET => RankEventHandler::of(parts).read_socket(slot),
            kind::OUT | kind::ERR => {
                let is_error = token.kind == kind::ERR;
                let stream = if is_error { Stream::Err } else { Stream::Out };
                let (mpirun, reactor) = (&mut parts.mpirun, &parts.reactor);
                parts.outputs.read(slot, stream, mpirun, reactor);
            }
            kind::CHILD => RankEventHandler::of(parts).child_ended(slot),
            kind::CALLER => RankEventHandler::of(parts).caller_ended(slot),
            _ => {}
        }
        Ok(())
    }

    fn read_signals(&mut self) {
        while let Some(signal) = self.signals.take() {
            let deadline = self.parts.leave_deadline;
            match deadline.filter(|_| signal == libc::SIGTERM) {
                _ if signal == libc::SIGCHLD => {}
                // The host ends soon. Its ranks may have time to leave it.
                Some(millis) => self.parts.inputs.push_back(LocalInput::Leave(millis)),
                None => {
                    // Someone ends the manager itself: its ranks end with it, in order.
                    tracing::warn!(signal, "the local manager is told to end");
                    self.abandon();
                }
            }
        }
        // Orphans that came to us are reaped; ranks are reaped where their end is noticed.
        while let Some(pid) = descendants::ended_child() {
            self.child_ended(pid);
        }
    }

    fn child_ended(&mut self, pid: u32) {
        let parts = &mut self.parts;
        let is_caller = |r: &LocalRank| r.caller_pid() == Some(pid);
        if let Some(slot) = parts.ranks.iter().position(|r| r.child_pid() == Some(pid)) {
            RankEventHandler::of(parts).child_ended(slot);
        } else if let Some(slot) = parts.ranks.iter().position(is_caller) {
            RankEventHandler::of(parts).caller_ended(slot);
            // If the kernel told its status before, it is still to be reaped.
            descendants::reap(pid);
        } else {
            let status = descendants::reap(pid);
            match &mut parts.health {
                Some(health) if health.is_child(pid) => {
                    let news = health.ended(status, &parts.reactor);
                    parts.inputs.extend(news.map(LocalInput::Health));
                }
                _ => RestoreHandler::of(parts).forget(pid, status),
            }
        }
    }
}
