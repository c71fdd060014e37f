//! What outlives a launch of the job for those who watch it: the events, and the metrics.

use super::launch_order::Launch;
use rejoin_managers_host::error::Result;
use rejoin_managers_host::host_clocks::now;
use rejoin_managers_host::run_dir;
use rejoin_managers_net::reactor::Reactor;
use rejoin_managers_protocol::central::{Event, HostView, JobView, LogView};
use rejoin_managers_report::event_log::EventLog;
use rejoin_managers_report::job_metrics::JobMetrics;
use rejoin_managers_report::metrics_server::MetricsServer;
use rejoin_managers_report::user_log;
use std::time::{Duration, Instant};

/// Time between two events about the logs of messages.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The events and the metrics of a job.
pub(super) struct Observers {
    pub events: EventLog,
    metrics: Option<(MetricsServer, JobMetrics)>,
    /// The last event about the logs of messages: when it was written, and what they held.
    log: Option<(Instant, LogView)>,
}

impl Observers {
    /// Of a job that begins. The events of the metrics' socket are of this kind.
    pub fn new(launch: &Launch, kind: u8) -> Result<Observers> {
        let name = run_dir::name(launch.plan.job);
        let mut metrics = None;
        if let Some(address) = launch.metrics {
            let server = MetricsServer::new(address, kind)?;
            if let Some(chosen) = server.address().filter(|_| address.port() == 0) {
                user_log::say(&format!("metrics are at http://{chosen}/metrics"));
            }
            let ranks = launch.machines.placement.len();
            let logs_messages = launch.plan.options.recovery.log().is_some();
            let names = (name.as_str(), &*launch.program());
            let page = JobMetrics::new(names, ranks, logs_messages, now());
            metrics = Some((server, page));
        }
        Ok(Observers {
            events: EventLog::new(launch.events.clone(), name, launch.begun)?,
            metrics,
            log: None,
        })
    }

    /// A launch begins, with this reactor.
    pub fn begin(&mut self, launch: &Launch, reactor: &Reactor) -> Result<()> {
        let recovery = launch.plan.options.recovery.name();
        let generation = launch.generation.0;
        let placed = launch.machines.placed_ranks();
        self.events
            .began(generation, &launch.program(), recovery, placed);
        if let Some((server, metrics)) = &mut self.metrics {
            metrics.launched();
            server.watch(reactor)?;
        }
        Ok(())
    }

    /// The hosts of a launch, as they are at first.
    pub fn hosts(&mut self, hosts: &[HostView]) {
        if let Some((_, metrics)) = &mut self.metrics {
            metrics.hosts(hosts);
        }
    }

    /// Something happened in this generation.
    pub fn event(&mut self, generation: u32, event: &Event) {
        self.events.event(generation, event);
        if let Some((_, metrics)) = &mut self.metrics {
            metrics.event(event);
        }
    }

    /// The job is like this now: what its logs hold is an event now and then, and when the job is
    /// decided.
    pub fn note_logs(&mut self, view: &JobView, is_decided: bool) {
        let Some(log) = view.log else {
            return;
        };
        let is_due = self.log.is_none_or(|(at, last)| {
            let is_new = last.at(log.told_at) != log.told;
            is_new && (is_decided || at.elapsed() >= LOG_INTERVAL)
        });
        if is_due {
            self.log = Some((Instant::now(), log));
            self.events.message_log(view.generation.0, log.at(now()));
        }
    }

    /// The central manager ended like this, and another one took over after so many nanoseconds.
    pub fn again(&mut self, generation: u32, how: &str, pid: u32, took: u64) {
        self.events.again(generation, how, pid, took);
        if let Some((_, metrics)) = &mut self.metrics {
            metrics.central_restarted();
        }
    }

    /// Something came for the socket of the metrics, or for a client.
    pub fn on_metrics_request(&mut self, index: u32, view: &JobView, reactor: &Reactor) {
        if let Some((server, metrics)) = &mut self.metrics {
            server.ready(index, reactor, || metrics.text(view, now()));
        }
    }

    /// Does what is due with clients of the metrics.
    pub fn run_timers(&mut self, reactor: &Reactor) {
        if let Some((server, _)) = &mut self.metrics {
            server.run_timers(reactor);
        }
    }

    /// How long a wait may last for the clients' sake.
    pub fn wait_limit(&self) -> Option<Duration> {
        self.metrics
            .as_ref()
            .and_then(|(server, _)| server.wait_limit())
    }
}
