//! The journal of events: `mpirun --events FILE` appends a line of JSON for each, as it happens.
//! `docs/events.md` says what the fields mean.

use crate::history::{EventLine, PlacedRanks};
use crate::recent_events::RecentEvents;
use rejoin_logging::determinants::LogFigures;
use rejoin_managers_host::error::{Context, Result, system_text};
use rejoin_managers_protocol::central::Event;
use rejoin_managers_protocol::checkpoint::CheckpointCost;
use rejoin_managers_protocol::verdict::{Described, SignalName, Verdict};
use rejoin_managers_stdio::say_line;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The file of `--events`.
struct EventFile {
    file: File,
    path: PathBuf,
    failed: bool,
}

/// The events of a job: the last ones, the file if the user wants one, and the fields of each line.
pub struct EventLog {
    file: Option<EventFile>,
    recent: RecentEvents,
    job: String,
    begun: Instant,
}

impl EventLog {
    /// Of a job that has begun then. With a path, lines are appended to this file, which is made if
    /// it is not there.
    pub fn new(path: Option<PathBuf>, job: String, begun: Instant) -> Result<EventLog> {
        Ok(EventLog {
            file: path.map(EventFile::open).transpose()?,
            recent: RecentEvents::default(),
            job,
            begun,
        })
    }

    /// The last lines, for clients.
    pub fn recent(&self) -> &RecentEvents {
        &self.recent
    }

    /// A launch of the job begins in this generation, with this mode of recovery and these ranks.
    pub fn began(
        &mut self,
        generation: u32,
        program: &str,
        recovery: &str,
        hosts: Vec<PlacedRanks>,
    ) {
        let mut line = self.line("began", generation);
        let runs = hosts.iter().flat_map(|host| &host.ranks);
        line.ranks = Some(runs.map(|(first, last)| last - first + 1).sum());
        line.pid = Some(std::process::id());
        line.program = Some(program.into());
        line.recovery = Some(recovery.into());
        line.hosts = Some(hosts);
        self.append(&line);
    }

    /// Something happened in this generation.
    pub fn event(&mut self, generation: u32, event: &Event) {
        let mut line = self.line(name(event), generation);
        match event {
            Event::Requested(_)
            | Event::Committed { .. }
            | Event::RegionsCommitted { .. }
            | Event::Aborted { .. }
            | Event::NotStored { .. }
            | Event::NotCopied { .. }
            | Event::FallsBack { .. }
            | Event::ImageLost { .. }
            | Event::Stretched { .. }
            | Event::Stopping { .. }
            | Event::StopGivenUp { .. } => of_checkpoint(event, &mut line),
            Event::Lost {
                rank,
                host,
                pid,
                cause,
                generation,
                ..
            } => {
                line.generation = generation.0;
                line.rank = Some(rank.0);
                line.host = Some(host.clone());
                line.pid = (*pid != 0).then_some(*pid);
                line.cause = Some(Described(cause).to_string());
            }
            Event::HostSilent { .. }
            | Event::HostHeard { .. }
            | Event::HostAnswers { .. }
            | Event::HostSuspected { .. }
            | Event::HostLinkLost { .. }
            | Event::HostDrains { .. }
            | Event::HostStays { .. }
            | Event::NoHealth { .. }
            | Event::EmptyHostLost { .. }
            | Event::HostAdded { .. }
            | Event::HostChanged(_)
            | Event::HostReplaced { .. } => of_host(event, &mut line),
            Event::HostsAdded { .. }
            | Event::Moving { .. }
            | Event::Moved { .. }
            | Event::NotMoved { .. }
            | Event::MovesOver { .. } => of_move(event, &mut line),
            Event::Recovered {
                generation,
                alone,
                epoch,
                took,
                repeated,
            } => {
                line.generation = generation.0;
                line.rank = alone.map(|(rank, _)| rank.0);
                line.epoch = epoch.map(|epoch| epoch.0);
                line.took_ns = Some(*took);
                line.repeated_ns = Some(*repeated);
            }
        }
        self.append(&line);
    }

    /// The central manager ended like this, and another one took over after so many nanoseconds.
    pub fn again(&mut self, generation: u32, how: &str, pid: u32, took: u64) {
        let mut line = self.line("central-again", generation);
        line.cause = Some(how.to_owned());
        line.pid = Some(pid);
        line.took_ns = Some(took);
        self.append(&line);
    }

    /// The logs of all ranks hold this together.
    pub fn message_log(&mut self, generation: u32, log: LogFigures) {
        let mut line = self.line("message-log", generation);
        line.log = Some(log);
        self.append(&line);
    }

    /// The job is decided (`decided`), or over (`ended`).
    pub fn verdict(&mut self, event: &'static str, generation: u32, verdict: &Verdict) {
        let mut line = self.line(event, generation);
        line.cause = Some(verdict.to_string());
        line.code = Some(verdict.exit_code());
        if let Verdict::Failed {
            rank, host, pid, ..
        } = verdict
        {
            line.rank = Some(rank.0);
            line.host = Some(host.clone());
            line.pid = (*pid != 0).then_some(*pid);
        }
        self.append(&line);
    }

    fn line(&self, event: &str, generation: u32) -> EventLine {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        EventLine {
            // To the microsecond, which is what such a number can hold.
            time: Some((since.unwrap_or_default().as_secs_f64() * 1e6).round() / 1e6),
            at_ns: Some(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            job: Some(self.job.clone()),
            event: Some(event.into()),
            generation,
            ..EventLine::default()
        }
    }

    fn append(&mut self, line: &EventLine) {
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        self.recent.push(&text);
        if let Some(file) = &mut self.file {
            file.append(&text);
        }
    }
}

impl EventFile {
    fn open(path: PathBuf) -> Result<EventFile> {
        let shown = path.display();
        let file = File::options()
            .append(true)
            .create(true)
            // A pipe without a reader must not delay the job.
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .context(&format!("write events to {shown}"))?;
        Ok(EventFile {
            file,
            path,
            failed: false,
        })
    }

    /// In one call, so that lines of several jobs in one file stay whole.
    fn append(&mut self, text: &[u8]) {
        let written = self.file.write(text);
        let why = match written {
            Ok(count) if count == text.len() => return,
            Ok(_) => "there is no room".into(),
            Err(error) => system_text(&error),
        };
        if !std::mem::replace(&mut self.failed, true) {
            let shown = self.path.display();
            // A reader that went away misses it.
            say_line!("mpirun: an event can't be written to {shown}: {why}; the job continues");
        }
    }
}

fn add_cost(line: &mut EventLine, cost: Option<&CheckpointCost>) {
    let Some(cost) = cost else {
        return;
    };
    line.stall_ns = Some(cost.stall.saturating_mul(1000));
    // The rank that was suspended for this time.
    line.rank = (cost.stall > 0).then_some(cost.slowest.0);
    line.copied_bytes = Some(cost.copied.saturating_mul(procfs::page_size()));
}

/// The fields of an event that concerns a checkpoint.
fn of_checkpoint(event: &Event, line: &mut EventLine) {
    match event {
        Event::Requested(epoch) => line.epoch = Some(epoch.0),
        Event::RegionsCommitted { epochs } => line.epoch = epochs.newest.map(|epoch| epoch.0),
        Event::Committed {
            epoch,
            level,
            took,
            cost,
            ..
        } => {
            line.epoch = Some(epoch.0);
            line.level = Some(level.to_string());
            line.took_ns = Some(*took);
            add_cost(line, cost.as_ref());
        }
        Event::NotStored {
            epoch,
            rank,
            host,
            why,
            ..
        }
        | Event::NotCopied {
            epoch,
            rank,
            host,
            why,
            ..
        }
        | Event::FallsBack {
            from: epoch,
            rank,
            host,
            why,
            ..
        } => {
            line.epoch = Some(epoch.0);
            line.rank = Some(rank.0);
            line.host = Some(host.clone());
            line.cause = Some(why.clone());
        }
        Event::Aborted { .. } | Event::ImageLost { .. } => of_lost_image(event, line),
        Event::Stretched { interval, cost, .. } => {
            line.interval_ms = Some(*interval);
            line.took_ns = Some(cost.saturating_mul(1000));
        }
        Event::Stopping { from, signal } => {
            line.epoch = Some(from.0);
            line.cause = signal.map(|signal| SignalName(signal.number).to_string());
        }
        Event::StopGivenUp { signal, file } => {
            line.epoch = file.map(|epoch| epoch.0);
            line.cause = Some(SignalName(signal.number).to_string());
        }
        _ => {}
    }
}

/// The fields of an event that concerns an image which is not there.
fn of_lost_image(event: &Event, line: &mut EventLine) {
    let (epoch, rank, host, why) = match event {
        Event::Aborted {
            epoch, rank, why, ..
        } => (epoch, rank, None, Some(why)),
        Event::ImageLost {
            epoch,
            rank,
            host,
            why,
            ..
        } => (epoch, rank, Some(host), why.as_ref()),
        _ => return,
    };
    line.epoch = Some(epoch.0);
    line.rank = Some(rank.0);
    line.host = host.cloned();
    line.cause = why.cloned();
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Requested(_) => "requested",
        Event::Committed { .. } => "committed",
        Event::RegionsCommitted { .. } => "regions-committed",
        Event::Aborted { .. } => "aborted",
        Event::ImageLost { .. } => "image-lost",
        Event::NotStored { .. } => "not-stored",
        Event::NotCopied { .. } => "not-copied",
        Event::FallsBack { .. } => "falls-back",
        Event::Stretched { .. } => "stretched",
        Event::Stopping { .. } => "stopping",
        Event::StopGivenUp { .. } => "stop-given-up",
        Event::Lost { .. } => "lost",
        Event::Recovered { .. } => "recovered",
        Event::HostSilent { .. } => "host-silent",
        Event::HostHeard { .. } => "host-heard",
        Event::HostSuspected { .. } => "host-suspected",
        Event::HostAnswers { .. } => "host-answers",
        Event::HostLinkLost { .. } => "host-link-lost",
        Event::HostReplaced { .. } => "host-replaced",
        Event::HostDrains { .. } => "host-drains",
        Event::EmptyHostLost { .. } => "empty-host-lost",
        Event::HostChanged(_) => "host-state",
        Event::HostAdded { .. } => "host-added",
        Event::HostsAdded { .. } => "hosts-added",
        Event::HostStays { .. } => "host-stays",
        Event::NoHealth { .. } => "no-health",
        Event::Moving { .. } => "moving",
        Event::Moved { .. } => "moved",
        Event::NotMoved { .. } => "not-moved",
        Event::MovesOver { .. } => "moves-over",
    }
}

/// The fields of an event about a host.
fn of_host(event: &Event, line: &mut EventLine) {
    match event {
        Event::HostSilent { name, .. }
        | Event::HostHeard { name }
        | Event::HostAdded { name }
        | Event::HostAnswers { name } => line.host = Some(name.clone()),
        Event::HostDrains { name, why } => {
            line.host = Some(name.clone());
            line.cause.clone_from(why);
        }
        Event::EmptyHostLost { name, why } | Event::NoHealth { name, why } => {
            line.host = Some(name.clone());
            line.cause = Some(why.clone());
        }
        Event::HostStays { name, why, refusal } => {
            line.host = Some(name.clone());
            line.cause = Some(format!("{why}; {refusal}"));
        }
        Event::HostChanged(view) => {
            line.host = Some(view.name.clone());
            line.state = Some(view.condition.name().into());
            line.site = Some(view.lan.0.clone()).filter(|site| !site.is_empty());
            line.cause.clone_from(&view.why);
        }
        Event::HostReplaced {
            name,
            why,
            to,
            generation,
            epoch,
            regions,
        } => {
            line.generation = generation.0;
            line.host = Some(name.clone());
            line.to = Some(to.clone());
            line.cause = Some(why.clone());
            line.epoch = epoch.or(*regions).map(|epoch| epoch.0);
            line.level = match (epoch, regions) {
                (Some(_), _) => Some("file".into()),
                (None, Some(_)) => Some("registered".into()),
                (None, None) => None,
            };
        }
        Event::HostSuspected { name, by, failure } => {
            line.host = Some(name.clone());
            line.cause = Some(format!("host {by} has probed it: {failure}"));
        }
        Event::HostLinkLost { from, to, failure } => {
            line.host = Some(from.clone());
            line.cause = Some(format!("it can't reach host {to}: {failure}"));
        }
        _ => {}
    }
}

/// The fields of an event about a rank that moves.
fn of_move(event: &Event, line: &mut EventLine) {
    match event {
        Event::Moving { rank, from, to } => {
            line.rank = Some(rank.0);
            (line.host, line.to) = (Some(from.clone()), Some(to.clone()));
        }
        Event::Moved {
            rank,
            from,
            to,
            took,
            pause,
            copies,
            copied,
            ..
        } => {
            line.rank = Some(rank.0);
            (line.host, line.to) = (Some(from.clone()), Some(to.clone()));
            (line.took_ns, line.pause_ns) = (Some(*took), Some(*pause));
            (line.copies, line.copied_bytes) = (Some(*copies), Some(*copied));
        }
        Event::NotMoved {
            rank,
            host,
            to,
            why,
        } => {
            line.rank = Some(rank.0);
            (line.host, line.to) = (Some(host.clone()), Some(to.clone()));
            line.cause = Some(why.clone());
        }
        Event::HostsAdded { why, .. } => line.cause.clone_from(why),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::{Epoch, Generation, Rank};
    use rejoin_managers_protocol::levels::Level;
    use rejoin_managers_protocol::manager_messages::{Cause, End, Stage};

    fn all() -> [Event; 5] {
        let cause = Cause::Ended {
            end: End::Signaled(9),
            stage: Stage::Registered,
        };
        [
            Event::Requested(Epoch(1)),
            Event::Committed {
                epoch: Epoch(1),
                level: Level::Memory,
                took: 5,
                cost: Some(CheckpointCost {
                    stall: 2,
                    slowest: Rank(3),
                    copied: 1,
                }),
                counted: Default::default(),
            },
            Event::Aborted {
                epoch: Epoch(2),
                rank: Rank(3),
                why: "a \"reason\"".into(),
                again: false,
            },
            Event::Lost {
                rank: Rank(2),
                host: "a".into(),
                pid: 77,
                cause,
                generation: Generation(1),
                alone: false,
            },
            Event::Recovered {
                generation: Generation(1),
                alone: None,
                epoch: Some(Epoch(1)),
                took: 31,
                repeated: 1200,
            },
        ]
    }

    fn placed() -> Vec<PlacedRanks> {
        vec![PlacedRanks {
            host: Some("here".into()),
            site: None,
            ranks: vec![(0, 3)],
        }]
    }

    #[test]
    fn each_event_is_one_line_with_its_fields() {
        let path = std::env::temp_dir().join(format!("rejoin-events-{}", std::process::id()));
        let mut journal = EventLog::new(Some(path.clone()), "ab".into(), Instant::now()).unwrap();
        journal.began(0, "./app", "coordinated", placed());
        let events = all();
        events.iter().for_each(|event| journal.event(0, event));
        journal.verdict("ended", 1, &Verdict::Success);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(journal.recent().text(), text.as_bytes());
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let names: Vec<_> = lines.iter().map(|l| l["event"].as_str().unwrap()).collect();
        let want = [
            "began",
            "requested",
            "committed",
            "aborted",
            "lost",
            "recovered",
            "ended",
        ];
        assert_eq!(names, want);
        assert!(lines.iter().all(|l| l["job"] == "ab"));
        assert!(lines.iter().all(|l| l["time"].as_f64().unwrap() > 1.6e9));
        let has = |line: usize, fields: &[(&str, serde_json::Value)]| {
            for (field, value) in fields {
                assert_eq!(lines[line][field], *value, "{}", lines[line]);
            }
        };
        has(
            0,
            &[("ranks", 4.into()), ("pid", std::process::id().into())],
        );
        let hosts = serde_json::json!([{"host": "here", "ranks": [[0, 3]]}]);
        let program = ("program", "./app".into());
        has(
            0,
            &[
                program,
                ("recovery", "coordinated".into()),
                ("hosts", hosts),
            ],
        );
        let level = ("level", "memory".into());
        has(2, &[level, ("epoch", 1.into()), ("took_ns", 5.into())]);
        has(2, &[("stall_ns", 2000.into()), ("rank", 3.into())]);
        has(2, &[("copied_bytes", procfs::page_size().into())]);
        has(3, &[("rank", 3.into()), ("cause", "a \"reason\"".into())]);
        has(
            4,
            &[
                ("generation", 1.into()),
                ("host", "a".into()),
                ("pid", 77.into()),
                ("cause", "was killed by signal 9 (SIGKILL)".into()),
            ],
        );
        has(5, &[("epoch", 1.into()), ("repeated_ns", 1200.into())]);
        has(6, &[("code", 0.into())]);
        assert!(lines[1].get("rank").is_none());
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let mut journal = EventLog::new(None, "ab".into(), Instant::now()).expect("no file");
        journal.began(0, "./app", "coordinated", placed());
        all().iter().for_each(|event| journal.event(0, event));
        let text = String::from_utf8(journal.recent().text()).expect("a text");
        for line in text.lines() {
            let mut read: EventLine = serde_json::from_str(line).expect("a line");
            assert_eq!(read.log.take(), Some(LogFigures::default()), "none there");
            assert_eq!(serde_json::to_string(&read).expect("JSON"), line);
        }
    }

    #[test]
    fn what_logs_hold_are_fields_of_a_line_of_its_own() {
        let mut journal = EventLog::new(None, "ab".into(), Instant::now()).expect("no file");
        let figures = LogFigures {
            retained_bytes: 5,
            most_retained_bytes: 6,
            memory_bytes: 4096,
            file_bytes: 0,
            determinants: 77,
            determinants_per_second: 7,
            lag_ns: 9,
        };
        journal.message_log(1, figures);
        journal.verdict("ended", 1, &Verdict::Success);
        let text = journal.recent().text();
        let mut lines = serde_json::Deserializer::from_slice(&text).into_iter();
        let mut next = || -> serde_json::Value { lines.next().expect("a line").expect("JSON") };
        let (log, end) = (next(), next());
        assert_eq!(log["event"], "message-log");
        assert_eq!(
            (&log["determinants"], &log["lag_ns"]),
            (&77.into(), &9.into())
        );
        let read: EventLine = serde_json::from_value(log).expect("a line");
        assert_eq!(read.log, Some(figures));
        assert!(end.get("lag_ns").is_none() && end.get("log").is_none());
    }
}
