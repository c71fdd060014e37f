//! mpirun: it starts the managers of the job, and is the sink of its streams.
//!
//! [`central_handle`] has central, and [`local_managers`] mpirun's own links to the local managers.
//! [`job_streams`] has the ranks' output and mpirun's standard input.
//! [`rejoin_managers_report::query_server`] answers clients. This module has the loop around them;
//! [`launch_setup`] begins a launch, [`job_reports`] passes messages on, and [`launch_end`] ends
//! it.

mod central_handle;
mod central_notices;
mod job_reports;
mod job_stop;
mod job_streams;
mod kept_logs;
mod launch_end;
mod launch_order;
mod launch_setup;
mod local_managers;
mod observers;
mod placed_ranks;
mod rank_counters;
mod remote_central;
mod repeated_inputs;
mod state_folder;
mod stop_plan;
mod watchdog;

use crate::launch::named_job::NamedJob;
use central_handle::CentralHandle;
pub use job_streams::Show;
use job_streams::Streams;
use kept_logs::KeptLogs;
pub use launch_order::Launch;
use local_managers::{LocalManagers, LostManager};
use nix::sys::signal::{Signal, raise};
use observers::Observers;
use rejoin_channel_table::Epoch;
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::Result;
use rejoin_managers_host::signal_reader::Signals;
use rejoin_managers_net::local_link::Filled;
use rejoin_managers_net::reactor::Reactor;
use rejoin_managers_protocol::central::{CentralInput, HostIndex};
use rejoin_managers_protocol::region_commits::RegionEpochs;
use rejoin_managers_protocol::signal_numbers;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_managers_report::progress_line::ProgressLine;
use rejoin_managers_report::query_server::QueryServer;
use rejoin_managers_report::user_log::{self, UserLog};
use state_folder::{SharedImages, StateFolder};
use std::time::{Duration, Instant};
pub use stop_plan::{StopPlan, StopTime};

/// Kinds of events.
mod kind {
    pub const LINK: u8 = 0;
    pub const SIGNALS: u8 = 1;
    pub const SINK: u8 = 2;
    pub const STDIN: u8 = 3;
    pub const CONTROL: u8 = 4;
    pub const NET: u8 = 5;
    pub const CENTRAL: u8 = 6;
    pub const METRICS: u8 = 7;
}

/// Checkpoints of this job get higher numbers than those of registered memory in its folder. And
/// the job continues from none of its own, so that a rollback to its beginning finds the same.
fn begin_above_stored(launch: &mut Launch) {
    let highest = state_folder::highest(launch);
    launch.requested = launch.requested.max(highest);
    let options = &mut launch.plan.options;
    if options.restart && highest > Epoch(0) {
        options.newest.get_or_insert(highest.0);
    }
}

/// Runs a job to its end. Returns the exit code.
#[must_use]
pub fn run(mut launch: Launch) -> i32 {
    let _claim = match state_folder::claim(&launch) {
        Ok(claim) => claim,
        Err(error) => {
            say_line!("mpirun: {error}");
            return 2;
        }
    };
    if let Some(named) = NamedJob::of(&launch.plan, launch.generation, launch.before)
        && let Err(why) = named.begin(launch.plan.from)
    {
        say_line!("mpirun: {why}");
        return 2;
    }
    let _images = SharedImages::of(&mut launch);
    let mut observers = match Observers::new(&launch, kind::METRICS) {
        Ok(observers) => observers,
        Err(error) => {
            say_line!("mpirun: {error}");
            return 1;
        }
    };
    begin_above_stored(&mut launch);
    let (result, damaged) = loop {
        let (result, next) = run_once(&launch, observers);
        // Whatever happened, nothing of the job stays behind.
        let left = descendants::sweep(descendants::SWEEP_LIMIT);
        if !left.is_empty() {
            user_log::say(&format!(
                "processes of the job on this host do not end after SIGKILL: {}",
                left.join(", ")
            ));
        }
        match next {
            Next::Launch(next) => (launch, observers) = *next,
            Next::Ends { damaged } => break (result, damaged),
        }
    };
    let is_bad = !matches!(result, Ok(Verdict::Success));
    if is_bad && let Some(named) = NamedJob::of(&launch.plan, launch.generation, launch.before) {
        say_line!("mpirun: {}", damaged.unwrap_or_else(|| named.ended_badly()));
    }
    match result {
        Ok(Verdict::Success) => 0,
        Ok(verdict) => {
            let code = verdict.exit_code();
            say_line!("mpirun: {verdict}; the job has ended with exit code {code}");
            code
        }
        Err(error) => {
            say_line!("mpirun: {error}");
            1
        }
    }
}

/// What follows a launch.
enum Next {
    /// Another launch of the job.
    Launch(Box<NextLaunch>),
    /// The job has ended.
    Ends {
        /// Why the job can't be continued, if the checkpoint to continue from is damaged.
        damaged: Option<String>,
    },
}

/// Runs a job to its end on these hosts, or until it is launched again because the checkpoint to
/// begin from is damaged.
fn run_once(launch: &Launch, observers: Observers) -> (Result<Verdict>, Next) {
    let mut launcher = match Launcher::new(launch.clone(), observers) {
        Ok(launcher) => launcher,
        Err(error) => return (Err(error), Next::Ends { damaged: None }),
    };
    if let Some(checkpoint) = launch.plan.from {
        launcher.load_shown(checkpoint);
    }
    let verdict = launcher.run();
    let ended = verdict.as_ref().ok();
    let damage = ended.and_then(|verdict| launcher.damage(verdict));
    let next = ended
        .zip(damage.as_ref())
        .and_then(|(verdict, damage)| launcher.fall_back(verdict, damage));
    launcher.central.forget();
    if next.is_none() {
        launcher.report();
        if let Ok(verdict) = &verdict {
            launcher.say_missing(verdict);
            if *verdict == Verdict::Success {
                launcher.say_unused();
            }
            let generation = launcher.central.view().generation;
            launcher
                .observers
                .events
                .verdict("ended", generation.0, verdict);
        }
        match (&verdict, &launcher.named) {
            (Ok(Verdict::Success), Some(named)) => named.remove(),
            (Ok(Verdict::Stopped { epoch }), _) => launcher.store_shown(*epoch),
            _ => {}
        }
    }
    let Launcher { observers, .. } = launcher;
    let Some(next) = next else {
        let damaged = damage.map(|(from, why)| {
            format!(
                "the job can't be continued: checkpoint {from} can't be used ({why}), and no earlier one is kept"
            )
        });
        return (verdict, Next::Ends { damaged });
    };
    (verdict, Next::Launch(Box::new((next, observers))))
}

/// The next launch of a job, and what it takes over from the one before.
type NextLaunch = (Launch, Observers);

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
    observers: Observers,
    progress: ProgressLine,
    checkpoint_signal: Option<i32>,
    launch: Launch,
    state_folder: StateFolder,
    logs: KeptLogs,
    /// The checkpoints of registered memory that count, as far as central has reported them.
    regions: RegionEpochs,
    /// Of a job that can be restarted.
    named: Option<NamedJob>,
    /// A signal came that ends the job.
    is_interrupted: bool,
}

impl Launcher {
    fn run(&mut self) -> Result<Verdict> {
        let mut tokens = Vec::new();
        self.continue_stop();
        loop {
            self.run_stop_timer();
            self.central.steps(&self.reactor)?;
            for host in self.central.dropped() {
                tracing::warn!(host, "the local manager does not end: it is killed");
                self.hosts.kill(host, &self.reactor);
            }
            // What came of a placement and of commits is the basis of the answer.
            self.reply_events();
            self.answer_stored();
            self.streams.arrange(&mut self.hosts, &self.reactor)?;
            self.streams.flush(&mut self.hosts, &self.reactor)?;
            // Decided before the ranks notice that their pipes are closed. The cause is mpirun's
            // own error, not the signal that ranks get from it.
            while let Some(lost) = self.streams.lost() {
                self.output_lost(lost)?;
            }
            let hosts = &mut self.hosts;
            self.logs.answer(|host, answer| hosts.queue(host, answer))?;
            self.hosts.flush(&self.reactor)?;
            self.control.flush(&self.reactor);
            if let Some(verdict) = self.finished() {
                self.progress.end();
                return Ok(verdict);
            }
            let progress = self.central.view().progress;
            self.progress.update(progress, Instant::now());
            self.reactor.wait(self.wait_limit(), &mut tokens)?;
            for token in &tokens {
                match token.kind {
                    kind::LINK => self.read_link(token.index as HostIndex)?,
                    kind::SIGNALS => self.read_signals()?,
                    kind::STDIN => self.streams.read(&mut self.hosts)?,
                    kind::CONTROL => self.on_request(token.index)?,
                    kind::CENTRAL => self.central.read(&self.reactor)?,
                    kind::METRICS => {
                        let view = self.central.view();
                        self.observers
                            .on_metrics_request(token.index, view, &self.reactor);
                    }
                    kind::NET => self.manager_called(token.index)?,
                    // Sinks are flushed each time round.
                    _ => {}
                }
            }
            self.observers.run_timers(&self.reactor);
            self.run_host_timers()?;
            self.central.run_timers()?;
        }
    }

    /// An event of a caller, which may be a new local manager on another host.
    fn manager_called(&mut self, caller: u32) -> Result<()> {
        self.hosts.called(caller, &self.reactor)?;
        for host in self.hosts.called_first() {
            self.central.notify(CentralInput::HostCalled(host));
        }
        Ok(())
    }

    /// Local managers on other hosts may be lost.
    fn run_host_timers(&mut self) -> Result<()> {
        self.hosts.run_timers(&self.reactor)?;
        for lost in self.hosts.gone() {
            let LostManager {
                host,
                why,
                has_ended,
            } = lost;
            self.hosts.close(host, &self.reactor);
            self.central.notify(match has_ended {
                true => CentralInput::HostEnded(host, why),
                false => CentralInput::HostGone(host, why),
            });
        }
        Ok(())
    }

    fn wait_limit(&self) -> Option<Duration> {
        let over = self.central.over().is_some();
        let reader = over.then_some(Duration::from_millis(50));
        let limits = [
            self.central.wait_limit(),
            self.streams.wait_limit(),
            self.control.wait_limit(),
            self.observers.wait_limit(),
            self.progress.wait_limit(),
            self.hosts.wait_limit(),
            self.launch.stop.wait_limit(self.launch.begun),
            reader,
        ];
        limits.into_iter().flatten().min()
    }

    fn read_link(&mut self, host: HostIndex) -> Result<()> {
        match self.hosts.fill(host, &self.reactor)? {
            Filled::Nothing | Filled::Broken => {}
            Filled::Closed => {
                self.hosts.close(host, &self.reactor);
                match self.hosts.is_here(host) {
                    true => self.central.notify(CentralInput::HostLost(host)),
                    // It may still be ending its ranks.
                    false => self.hosts.has_left(host),
                }
            }
            Filled::Some => {
                while let Some(message) = self.hosts.next(host)? {
                    self.on_message(host, message);
                }
            }
        }
        Ok(())
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
                    self.central.notify(CentralInput::Signal(signal));
                    self.central.steps(&self.reactor)?;
                    self.central.await_taken(&self.reactor)?;
                    self.central.pause(true);
                    self.progress.end();
                    // Until SIGCONT comes.
                    let _ = raise(Signal::SIGSTOP);
                    self.central.notify(CentralInput::Suspended);
                    self.central.steps(&self.reactor)?;
                    self.central.pause(false);
                }
                _ if self.checkpoint_signal == Some(signal) => {
                    self.central.notify(CentralInput::Checkpoint);
                }
                _ if self.central.over().is_some() && signal != libc::SIGCONT => {
                    // Only a slow reader keeps us: it is not waited for any longer.
                    self.central.overrule(Verdict::Interrupted { signal });
                    self.hosts.close_all(&self.reactor);
                    self.streams.discard();
                }
                _ if self.stops_by(signal) => {}
                _ => {
                    self.is_interrupted |= signal_numbers::ends(signal);
                    self.central.notify(CentralInput::Signal(signal));
                }
            }
        }
        Ok(())
    }
}
