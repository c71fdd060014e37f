//! The history of one job, from its events. All times are nanoseconds since mpirun started.

use super::event_line::EventLine;
use rejoin_logging::determinants::LogFigures;
use std::collections::BTreeMap;

/// How a checkpoint ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointEnd {
    /// The checkpoint was under way at the last event.
    UnderWay,
    /// The checkpoint is committed.
    Committed,
    /// The checkpoint was aborted, for this reason.
    Aborted(String),
    /// A failure of a rank or of the central manager has aborted it.
    Abandoned,
}

/// A checkpoint, or the files of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointSpan {
    /// Number of the checkpoint.
    pub epoch: u32,
    /// Where its images are: `memory`, `file` or `partner`, or a level of a later version.
    pub level: String,
    /// When it was requested.
    pub from: u64,
    /// When it ended, or the time of the last event.
    pub to: u64,
    /// How it ended.
    pub outcome: CheckpointEnd,
    /// Nanoseconds of the longest stall of a rank.
    pub stall: Option<u64>,
    /// The rank with that stall, or the rank that took no image.
    pub rank: Option<u32>,
    /// Bytes that ranks copied because they wrote to them after their images, at most.
    pub copied: Option<u64>,
    /// Bytes of its files.
    pub bytes: Option<u64>,
}

/// A failed rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureMark {
    /// When its end was known.
    pub at: u64,
    /// The rank.
    pub rank: u32,
    /// Name of its host.
    pub host: String,
    /// Process id of the rank.
    pub pid: Option<u32>,
    /// How it ended.
    pub cause: String,
}

/// A recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoverySpan {
    /// When the first failure was noticed.
    pub from: u64,
    /// When the ranks ran again.
    pub to: u64,
    /// The rank that was restored alone; `None`: all were.
    pub rank: Option<u32>,
    /// The checkpoint; `None`: the job started anew.
    pub epoch: Option<u32>,
    /// Nanoseconds of work that was repeated.
    pub repeated: u64,
}

/// A time in which a host sent nothing, and its ranks were suspended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOutage {
    /// Name of the host.
    pub host: String,
    /// When it counted as silent.
    pub from: u64,
    /// When it was heard again, lost, or the time of the last event.
    pub to: u64,
    /// The host was heard again.
    pub heard: bool,
}

/// Anything else that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// When it happened.
    pub at: u64,
    /// What happened, one line.
    pub text: String,
    /// The rank that it concerns.
    pub rank: Option<u32>,
    /// The host that it concerns.
    pub host: Option<String>,
}

/// Consecutive ranks on one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankRun {
    /// The first rank.
    pub first: u32,
    /// The last rank.
    pub last: u32,
    /// Name of the host.
    pub host: String,
}

/// A job.
#[derive(Debug, Clone, Default)]
pub struct JobHistory {
    job: String,
    /// The first program.
    pub program: Option<String>,
    /// Number of ranks, if a line says so.
    pub ranks: Option<u32>,
    /// The hosts of the ranks at the first launch, in the order of the ranks.
    pub placement: Vec<RankRun>,
    /// When mpirun started, in seconds since 1970.
    pub began: Option<f64>,
    /// The time of the last event.
    pub last: u64,
    /// Checkpoints, in the order in which they ended.
    pub checkpoints: Vec<CheckpointSpan>,
    /// Failed ranks.
    pub failures: Vec<FailureMark>,
    /// Recoveries.
    pub recoveries: Vec<RecoverySpan>,
    /// Outages of hosts.
    pub outages: Vec<HostOutage>,
    /// What the logs of messages held together, and when, with message logging.
    pub log: Vec<(u64, LogFigures)>,
    /// Everything else.
    pub incidents: Vec<Incident>,
    /// How it ended, and its exit code.
    pub end: Option<(String, i32)>,
    /// Kinds of events that this version does not know, with their numbers.
    pub unknown: BTreeMap<String, u64>,
    /// The request whose result has not come.
    requested: Option<(u32, u64)>,
    /// Hosts that are silent, and since when.
    silent: BTreeMap<String, u64>,
}

impl JobHistory {
    /// Of a job without events.
    pub(super) fn new(job: String) -> JobHistory {
        JobHistory {
            job,
            ..JobHistory::default()
        }
    }

    /// Name of the job.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Takes a line of this job.
    pub(super) fn add(&mut self, line: EventLine) {
        let at = line.at_ns.unwrap_or_default();
        self.last = self.last.max(at);
        if self.began.is_none() {
            self.began = line.time.map(|time| time - at as f64 / 1e9);
        }
        match line.event.as_deref().unwrap_or_default() {
            "began" => self.begin(line),
            "requested" => self.request(line.epoch.unwrap_or_default(), at),
            "committed" | "aborted" => self.end_checkpoint(line, at),
            "lost" => self.failures.push(FailureMark {
                at,
                rank: line.rank.unwrap_or_default(),
                host: line.host.unwrap_or_default(),
                pid: line.pid,
                cause: line.cause.unwrap_or_default(),
            }),
            "recovered" => self.recoveries.push(RecoverySpan {
                from: at.saturating_sub(line.took_ns.unwrap_or_default()),
                to: at,
                rank: line.rank,
                epoch: line.epoch,
                repeated: line.repeated_ns.unwrap_or_default(),
            }),
            "host-silent" => {
                self.silent
                    .entry(line.host.unwrap_or_default())
                    .or_insert(at);
            }
            "host-heard" => self.end_outage(&line.host.unwrap_or_default(), at, true),
            "message-log" => self.log.push((at, line.log.unwrap_or_default())),
            "decided" => {}
            "ended" => self.end = Some((line.cause.unwrap_or_default(), line.code.unwrap_or(1))),
            _ => self.other(line, at),
        }
    }

    fn begin(&mut self, line: EventLine) {
        // Later launches have other hosts; the page shows the ranks where they began.
        if self.ranks.is_some() {
            return;
        }
        self.ranks = line.ranks;
        self.program = line.program;
        for placed in line.hosts.into_iter().flatten() {
            let host = placed.host.unwrap_or_default();
            let runs = placed.ranks.into_iter().map(|(first, last)| RankRun {
                first,
                last,
                host: host.clone(),
            });
            self.placement.extend(runs);
        }
        self.placement.sort_by_key(|run| run.first);
    }

    fn request(&mut self, epoch: u32, at: u64) {
        self.abandon(at);
        self.requested = Some((epoch, at));
    }

    /// The request under way will have no result.
    fn abandon(&mut self, at: u64) {
        if let Some((epoch, from)) = self.requested.take() {
            let failures = self.failures.iter().rev().map(|failure| failure.at);
            let to = failures.take_while(|to| *to >= from).min();
            let to = to.unwrap_or(at);
            self.checkpoints
                .push(unfinished(epoch, from, to, CheckpointEnd::Abandoned));
        }
    }

    fn end_checkpoint(&mut self, line: EventLine, at: u64) {
        let epoch = line.epoch.unwrap_or_default();
        let level = line.level.unwrap_or_else(|| "memory".into());
        let request = match level.as_str() {
            "memory" => self.requested.take_if(|(requested, _)| *requested == epoch),
            _ => None,
        };
        let is_committed = line.event.as_deref() == Some("committed");
        let took = line.took_ns.unwrap_or_default();
        self.checkpoints.push(CheckpointSpan {
            epoch,
            level,
            from: request.map_or(at.saturating_sub(took), |(_, from)| from),
            to: at,
            outcome: match is_committed {
                true => CheckpointEnd::Committed,
                false => CheckpointEnd::Aborted(line.cause.unwrap_or_default()),
            },
            stall: line.stall_ns,
            rank: line.rank,
            copied: line.copied_bytes,
            bytes: line.bytes,
        });
    }

    fn end_outage(&mut self, host: &str, at: u64, heard: bool) {
        if let Some(from) = self.silent.remove(host) {
            self.outages.push(HostOutage {
                host: host.to_owned(),
                from,
                to: at,
                heard,
            });
        }
    }

    fn other(&mut self, line: EventLine, at: u64) {
        let event = line.event.unwrap_or_default();
        let cause = line.cause.unwrap_or_default();
        let epoch = line.epoch.unwrap_or_default();
        let millis = line.took_ns.unwrap_or_default() / 1_000_000;
        let text = match event.as_str() {
            "image-lost" => format!("the image of checkpoint {epoch} was killed"),
            "not-stored" => {
                format!("the image of checkpoint {epoch} could not be written to a file: {cause}")
            }
            "not-copied" => {
                format!(
                    "the file of checkpoint {epoch} could not be copied to another host: {cause}"
                )
            }
            "falls-back" => {
                format!("checkpoint {epoch} could not be restored, and an earlier one was: {cause}")
            }
            "stretched" => {
                let interval = line.interval_ms.unwrap_or_default();
                format!("the time between checkpoints was lengthened to {interval} ms")
            }
            "stopping" if cause.is_empty() => {
                "the time came for the job to stop with a checkpoint in files".to_string()
            }
            "stopping" => format!("{cause}: the job was to stop with a checkpoint in files"),
            "stop-given-up" => {
                "the grace time was over before a last checkpoint was in files".to_string()
            }
            "central-again" => {
                format!("the central manager {cause}, and another one took over after {millis} ms")
            }
            "host-replaced" => {
                let host = line.host.as_deref().unwrap_or_default();
                self.end_outage(host, at, false);
                let to = line.to.as_deref().unwrap_or_default();
                format!(
                    "the host was lost: {cause}; its ranks continued on host {to} from checkpoint {epoch}"
                )
            }
            "relaunched" => {
                for host in self.silent.keys().cloned().collect::<Vec<_>>() {
                    self.end_outage(&host, at, false);
                }
                format!("{cause}; all ranks were launched again")
            }
            _ => {
                *self.unknown.entry(event).or_default() += 1;
                return;
            }
        };
        self.incidents.push(Incident {
            at,
            text,
            rank: line.rank,
            host: line.host,
        });
    }

    /// There are no more lines.
    pub(super) fn close(&mut self) {
        let last = self.last;
        if self.end.is_some() {
            self.abandon(last);
        } else if let Some((epoch, from)) = self.requested.take() {
            self.checkpoints
                .push(unfinished(epoch, from, last, CheckpointEnd::UnderWay));
        }
        for host in self.silent.keys().cloned().collect::<Vec<_>>() {
            self.end_outage(&host, last, false);
        }
    }

    /// The committed checkpoints, files among them.
    pub fn committed(&self) -> impl Iterator<Item = &CheckpointSpan> {
        let all = self.checkpoints.iter();
        all.filter(|checkpoint| checkpoint.outcome == CheckpointEnd::Committed)
    }
}

fn unfinished(epoch: u32, from: u64, to: u64, outcome: CheckpointEnd) -> CheckpointSpan {
    CheckpointSpan {
        epoch,
        level: "memory".into(),
        from,
        to,
        outcome,
        stall: None,
        rank: None,
        copied: None,
        bytes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::read;

    fn history(lines: &[&str]) -> JobHistory {
        let text = (1u64..).zip(lines).map(|(at, fields)| {
            let at = at * 1000;
            format!("{{\"job\":\"j\",\"time\":1.5e9,\"at_ns\":{at},{fields}}}\n")
        });
        let read = read(text.collect::<String>().as_bytes()).expect("a text");
        assert_eq!(read.bad, []);
        read.jobs.into_iter().next().expect("one job")
    }

    #[test]
    fn checkpoints_end_in_every_way() {
        let job = history(&[
            r#""event":"began","ranks":4,"hosts":[{"host":"b","ranks":[[2,3]]},{"host":"a","ranks":[[0,1]]}]"#,
            r#""event":"requested","epoch":1"#,
            r#""event":"committed","epoch":1,"took_ns":900,"stall_ns":70,"rank":2,"copied_bytes":4096"#,
            r#""event":"committed","epoch":1,"level":"file","took_ns":1500,"bytes":9000"#,
            r#""event":"requested","epoch":2"#,
            r#""event":"aborted","epoch":2,"rank":3,"cause":"a pipe""#,
            r#""event":"requested","epoch":3"#,
            r#""event":"lost","rank":1,"host":"a","cause":"was killed""#,
            r#""event":"recovered","epoch":1,"took_ns":800,"repeated_ns":5"#,
            r#""event":"requested","epoch":4"#,
        ]);
        let spans: Vec<_> = job
            .checkpoints
            .iter()
            .map(|c| (c.epoch, c.from, c.to, c.outcome.clone()))
            .collect();
        let wanted = [
            (1, 2000, 3000, CheckpointEnd::Committed),
            (1, 2500, 4000, CheckpointEnd::Committed),
            (2, 5000, 6000, CheckpointEnd::Aborted("a pipe".into())),
            (3, 7000, 8000, CheckpointEnd::Abandoned),
            (4, 10_000, 10_000, CheckpointEnd::UnderWay),
        ];
        assert_eq!(spans, wanted);
        let first = &job.checkpoints[0];
        assert_eq!((first.stall, first.rank), (Some(70), Some(2)));
        assert_eq!(job.checkpoints[1].bytes, Some(9000));
        assert_eq!(job.recoveries[0].from, 8200);
        let hosts: Vec<_> = job.placement.iter().map(|r| r.host.as_str()).collect();
        assert_eq!((job.ranks, hosts), (Some(4), vec!["a", "b"]));
        assert_eq!(job.end, None);
    }

    #[test]
    fn hosts_are_silent_until_they_are_heard_or_lost_and_unknown_events_are_counted() {
        let job = history(&[
            r#""event":"host-silent","host":"a""#,
            r#""event":"host-heard","host":"a""#,
            r#""event":"host-silent","host":"b""#,
            r#""event":"relaunched","cause":"host b is lost","generation":1"#,
            r#""event":"teleported""#,
            r#""event":"host-silent","host":"d""#,
            r#""event":"host-replaced","host":"d","to":"a","cause":"it is silent","epoch":3"#,
            r#""event":"host-silent","host":"c""#,
            r#""event":"ended","cause":"rank 0 failed","code":9"#,
        ]);
        let outages: Vec<_> = job
            .outages
            .iter()
            .map(|o| (o.host.as_str(), o.from, o.to, o.heard))
            .collect();
        let wanted = [
            ("a", 1000, 2000, true),
            ("b", 3000, 4000, false),
            ("d", 6000, 7000, false),
            ("c", 8000, 9000, false),
        ];
        assert_eq!(outages, wanted);
        assert_eq!(job.unknown.get("teleported"), Some(&1));
        let said: Vec<_> = job.incidents.iter().map(|i| i.text.as_str()).collect();
        let replaced =
            "the host was lost: it is silent; its ranks continued on host a from checkpoint 3";
        assert_eq!(said[1..], [replaced]);
        assert_eq!(job.end, Some(("rank 0 failed".into(), 9)));
    }
}
