//! Counters and gauges of a job for Prometheus, in the OpenMetrics text format.

use super::log_metrics::LogMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use rejoin_managers_protocol::central::{Event, HostCondition, HostView, JobView};
use rejoin_managers_protocol::manager_messages::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;

type Seconds = Counter<f64, AtomicU64>;
type GaugeOfSeconds = Gauge<f64, AtomicU64>;

/// The level of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabel {
    level: String,
}

/// The state of a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: String,
}

/// The metrics of a job.
pub struct JobMetrics {
    registry: Registry,
    begun: Time,
    committed: Family<LevelLabel, Counter>,
    checkpoint_time: Family<LevelLabel, Seconds>,
    aborted: Counter,
    images_lost: Counter,
    copied: Counter,
    stall: GaugeOfSeconds,
    failures: Counter,
    recoveries: Counter,
    recovery_time: Seconds,
    repeated: Seconds,
    hosts_silent: Gauge,
    hosts: Family<StateLabel, Gauge>,
    /// The condition of each host.
    conditions: BTreeMap<String, HostCondition>,
    /// Names of the silent hosts.
    silent: BTreeSet<String>,
    central_restarts: Counter,
    ranks: Gauge,
    generation: Gauge,
    epoch: Gauge,
    file_epoch: Gauge,
    partner_epoch: Gauge,
    regions_epoch: Gauge,
    age: GaugeOfSeconds,
    running: GaugeOfSeconds,
    log: LogMetrics,
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// A value of a label, as the text format wants it. The encoder writes values as they are.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

impl JobMetrics {
    /// Of a job that begins now, with its name and its first program. One that logs messages has
    /// metrics about that, too.
    #[must_use]
    pub fn new(
        (job, program): (&str, &str),
        ranks: usize,
        logs_messages: bool,
        now: Time,
    ) -> JobMetrics {
        let mut metrics = JobMetrics {
            registry: Registry::with_prefix("rejoin"),
            begun: now,
            committed: Family::default(),
            checkpoint_time: Family::default(),
            aborted: Counter::default(),
            images_lost: Counter::default(),
            copied: Counter::default(),
            stall: GaugeOfSeconds::default(),
            failures: Counter::default(),
            recoveries: Counter::default(),
            recovery_time: Seconds::default(),
            repeated: Seconds::default(),
            hosts_silent: Gauge::default(),
            hosts: Family::default(),
            conditions: BTreeMap::new(),
            silent: BTreeSet::new(),
            central_restarts: Counter::default(),
            ranks: Gauge::default(),
            generation: Gauge::default(),
            epoch: Gauge::default(),
            file_epoch: Gauge::default(),
            partner_epoch: Gauge::default(),
            regions_epoch: Gauge::default(),
            age: GaugeOfSeconds::default(),
            running: GaugeOfSeconds::default(),
            log: LogMetrics::default(),
        };
        metrics.ranks.set(i64::try_from(ranks).unwrap_or(i64::MAX));
        let labels = [("job", job), ("program", program)];
        let labels = labels.map(|(name, value)| (name.to_owned(), escaped(value)));
        let info = Info::new(labels.to_vec());
        metrics.registry.register("job", "The job", info);
        metrics.register_checkpoints();
        metrics.register_failures();
        metrics.register_state();
        if logs_messages {
            metrics.log.register(&mut metrics.registry);
        }
        metrics
    }

    fn register_checkpoints(&mut self) {
        let all = &mut self.registry;
        let help = "Checkpoints that were committed, by the level of their images";
        all.register("checkpoints_committed", help, self.committed.clone());
        let help = "Time to the commits of checkpoints, from their requests, or from the orders to \
                    write or to copy their files";
        let time = self.checkpoint_time.clone();
        all.register_with_unit("checkpoint_duration", help, Unit::Seconds, time);
        let help = "Checkpoints that were aborted";
        all.register("checkpoints_aborted", help, self.aborted.clone());
        let help = "Images of ranks that were killed, and not by a manager";
        all.register("images_lost", help, self.images_lost.clone());
        let help = "Memory that ranks copied because they wrote to it after an image, at most";
        all.register_with_unit("checkpoint_copied", help, Unit::Bytes, self.copied.clone());
        let help = "Longest stall of a rank for the last checkpoint";
        all.register_with_unit("checkpoint_stall", help, Unit::Seconds, self.stall.clone());
        let help = "Number of the newest committed checkpoint; 0 if there is none";
        all.register("checkpoint_epoch", help, self.epoch.clone());
        let help = "Time since the last commit in memory, or since the start if there is none";
        all.register_with_unit("checkpoint_age", help, Unit::Seconds, self.age.clone());
        let help =
            "Number of the newest checkpoint of which every rank has a file; 0 if there is none";
        all.register("checkpoint_file_epoch", help, self.file_epoch.clone());
        let help =
            "Number of the newest checkpoint whose files are on partner hosts; 0 if there is none";
        let epoch = self.partner_epoch.clone();
        all.register("checkpoint_partner_epoch", help, epoch);
        let help = "Number of the newest checkpoint of registered memory; 0 if there is none";
        let epoch = self.regions_epoch.clone();
        all.register("checkpoint_regions_epoch", help, epoch);
    }

    fn register_failures(&mut self) {
        let all = &mut self.registry;
        let help = "Ranks that failed";
        all.register("rank_failures", help, self.failures.clone());
        let help = "Recoveries of all ranks, or of one alone";
        all.register("recoveries", help, self.recoveries.clone());
        let help =
            "Time from the first failure to the end of the recovery, all recoveries together";
        let time = self.recovery_time.clone();
        all.register_with_unit("recovery_duration", help, Unit::Seconds, time);
        let help = "Work that was repeated after recoveries";
        all.register_with_unit("repeated_work", help, Unit::Seconds, self.repeated.clone());
        let help = "Hosts that are silent, whose ranks are suspended";
        all.register("hosts_silent", help, self.hosts_silent.clone());
        let help = "Hosts, by their state";
        all.register("hosts", help, self.hosts.clone());
        let help = "Times that another central manager took over";
        all.register("central_restarts", help, self.central_restarts.clone());
    }

    fn register_state(&mut self) {
        let all = &mut self.registry;
        all.register("ranks", "Ranks of the job", self.ranks.clone());
        let help = "Rollbacks of the job";
        all.register("generation", help, self.generation.clone());
        let help = "Time since the job began";
        all.register_with_unit("running", help, Unit::Seconds, self.running.clone());
    }

    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Committed {
                level, took, cost, ..
            } => {
                let level = LevelLabel {
                    level: level.to_string(),
                };
                self.committed.get_or_create(&level).inc();
                let time = self.checkpoint_time.get_or_create(&level);
                time.inc_by(seconds(*took));
                if let Some(cost) = cost {
                    self.stall.set(cost.stall as f64 / 1e6);
                    let bytes = cost.copied.saturating_mul(procfs::page_size());
                    self.copied.inc_by(bytes);
                }
            }
            Event::Aborted { .. } => {
                self.aborted.inc();
            }
            Event::ImageLost { .. } => {
                self.images_lost.inc();
            }
            Event::Lost { .. } => {
                self.failures.inc();
            }
            Event::Recovered { took, repeated, .. } => {
                self.recoveries.inc();
                self.recovery_time.inc_by(seconds(*took));
                self.repeated.inc_by(seconds(*repeated));
            }
            Event::HostSilent { name, .. } => {
                self.silent.insert(name.clone());
                self.count_silent();
            }
            Event::HostChanged(host) => {
                self.conditions.insert(host.name.clone(), host.condition);
                self.count_hosts();
            }
            Event::HostHeard { name } | Event::HostReplaced { name, .. } => {
                self.silent.remove(name);
                self.count_silent();
            }
            _ => {}
        }
    }

    /// Another central manager took over.
    pub fn central_restarted(&mut self) {
        self.central_restarts.inc();
    }

    /// The job is launched, perhaps again on other hosts: none of those is silent.
    pub fn launched(&mut self) {
        self.silent.clear();
        self.count_silent();
    }

    /// The launch has these hosts, as they are at first.
    pub fn hosts(&mut self, hosts: &[HostView]) {
        let hosts = hosts.iter().map(|host| (host.name.clone(), host.condition));
        self.conditions = hosts.collect();
        self.count_hosts();
    }

    fn count_hosts(&self) {
        for state in HostCondition::NAMES {
            let conditions = self.conditions.values();
            let count = conditions.filter(|one| one.name() == state).count();
            let label = StateLabel {
                state: state.to_owned(),
            };
            let gauge = self.hosts.get_or_create(&label);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    fn count_silent(&self) {
        let count = i64::try_from(self.silent.len()).unwrap_or(i64::MAX);
        self.hosts_silent.set(count);
    }

    /// All metrics, as text.
    #[must_use]
    pub fn text(&self, view: &JobView, now: Time) -> String {
        let since = |then: Time| seconds(now.0.saturating_sub(then.0));
        self.generation.set(i64::from(view.generation.0));
        let epoch = view.committed.map_or(0, |(epoch, _)| epoch.0);
        self.epoch.set(i64::from(epoch));
        let in_files = view.in_files.map_or(0, |(epoch, _)| epoch.0);
        self.file_epoch.set(i64::from(in_files));
        let on_partners = view.on_partners.map_or(0, |(epoch, _)| epoch.0);
        self.partner_epoch.set(i64::from(on_partners));
        let regions = view.regions.map_or(0, |epoch| epoch.0);
        self.regions_epoch.set(i64::from(regions));
        let last = view.committed.map_or(self.begun, |(_, at)| at);
        self.age.set(since(last));
        self.running.set(since(self.begun));
        if let Some(log) = &view.log {
            self.log.set(&log.at(now));
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::{Epoch, Generation, LanId};
    use rejoin_managers_protocol::central::Course;
    use rejoin_managers_protocol::checkpoint::CheckpointCost;
    use rejoin_managers_protocol::levels::{CommittedEpochs, Level};

    fn host(name: &str, condition: HostCondition) -> HostView {
        HostView {
            name: name.into(),
            condition,
            why: None,
            lan: LanId::default(),
        }
    }

    #[test]
    fn metrics_count_events_and_have_units_in_their_names() {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let mut metrics = JobMetrics::new(("ab", "a \"b\"\n\\"), 4, false, at(1));
        let cost = CheckpointCost {
            stall: 1500,
            copied: 2,
            ..CheckpointCost::default()
        };
        let commit = |epoch, level, took, cost| Event::Committed {
            epoch: Epoch(epoch),
            level,
            took,
            cost,
            counted: CommittedEpochs::default(),
        };
        metrics.event(&commit(2, Level::Memory, 200_000_000, None));
        metrics.event(&commit(3, Level::Memory, 50_000_000, Some(cost)));
        metrics.event(&commit(2, Level::File, 500_000_000, None));
        metrics.event(&Event::HostHeard { name: "a".into() });
        let spare = host("c", HostCondition::Spare);
        metrics.launched();
        metrics.hosts(&["a", "b"].map(|name| host(name, HostCondition::Active)));
        metrics.event(&Event::HostChanged(spare));
        metrics.event(&Event::HostChanged(host("b", HostCondition::Lost)));
        let view = JobView {
            generation: Generation(2),
            course: Course::Running,
            recovers: true,
            pending: None,
            committed: Some((Epoch(3), at(5))),
            in_files: Some((Epoch(2), at(4))),
            on_partners: Some((Epoch(1), at(2))),
            regions: Some(Epoch(4)),
            progress: None,
            log: None,
        };
        let text = metrics.text(&view, at(9));
        let copied = 2 * procfs::page_size();
        for line in [
            "rejoin_job_info{job=\"ab\",program=\"a \\\"b\\\"\\n\\\\\"} 1",
            "rejoin_checkpoints_committed_total{level=\"memory\"} 2",
            "rejoin_checkpoints_committed_total{level=\"file\"} 1",
            "rejoin_checkpoint_duration_seconds_total{level=\"file\"} 0.5",
            "rejoin_checkpoint_duration_seconds_total{level=\"memory\"} 0.25",
            &format!("rejoin_checkpoint_copied_bytes_total {copied}"),
            "rejoin_checkpoint_stall_seconds 0.0015",
            "rejoin_checkpoint_epoch 3",
            "rejoin_checkpoint_file_epoch 2",
            "rejoin_checkpoint_partner_epoch 1",
            "rejoin_checkpoint_regions_epoch 4",
            "rejoin_checkpoint_age_seconds 4.0",
            "rejoin_running_seconds 8.0",
            "rejoin_rank_failures_total 0",
            "rejoin_hosts_silent 0",
            "rejoin_hosts{state=\"active\"} 1",
            "rejoin_hosts{state=\"spare\"} 1",
            "rejoin_hosts{state=\"draining\"} 0",
            "rejoin_hosts{state=\"inactive\"} 1",
            "rejoin_generation 2",
            "rejoin_ranks 4",
            "# UNIT rejoin_running_seconds seconds",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}:\n{text}");
        }
        assert!(text.ends_with("# EOF\n") && !text.contains("rejoin_log"));
    }
}
