//! What `rejoin status` shows of a job: its counts of events, and its state at one moment.

use crate::query::{Checkpoint, HostStatus, JobStatus, LastCost, MoveStatus, RankStatus};
use rejoin_channel_table::Epoch;
use rejoin_managers_host::host_clocks::now;
use rejoin_managers_protocol::central::{
    Course, Event, HostIndex, HostView, JobView, MovePhase, MoveView, RankView,
};
use rejoin_managers_protocol::checkpoint::CheckpointCost;
use rejoin_managers_protocol::levels::Level;
use rejoin_managers_protocol::manager_messages::{Stage, Time};
use rejoin_managers_protocol::verdict::Described;

/// Counts of events, and the last failure.
#[derive(Debug, Default)]
pub struct StatusSummary {
    name: String,
    program: String,
    /// The mode of recovery.
    recovery: &'static str,
    /// When it was made.
    since: Time,
    committed: u64,
    aborted: u64,
    failures: u64,
    recoveries: u64,
    /// Nanoseconds from the last request to its commit in memory.
    took: u64,
    /// Nanoseconds in which the last files were written.
    files_took: u64,
    /// Nanoseconds in which the last files were copied.
    copies_took: u64,
    last_failure: Option<String>,
    cost: Option<LastCost>,
    longest_stall: u64,
}

impl StatusSummary {
    /// Of a job that has not begun.
    pub fn new(name: String, program: String, recovery: &'static str) -> StatusSummary {
        StatusSummary {
            name,
            program,
            recovery,
            since: now(),
            ..StatusSummary::default()
        }
    }

    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Requested(_)
            | Event::RegionsCommitted { .. }
            | Event::ImageLost { .. }
            | Event::NotStored { .. }
            | Event::NotCopied { .. }
            | Event::FallsBack { .. }
            | Event::Stretched { .. }
            | Event::Stopping { .. }
            | Event::StopGivenUp { .. }
            | Event::HostSilent { .. }
            | Event::HostSuspected { .. }
            | Event::HostAnswers { .. }
            | Event::HostLinkLost { .. }
            | Event::HostReplaced { .. }
            | Event::HostHeard { .. }
            | Event::HostDrains { .. }
            | Event::EmptyHostLost { .. }
            | Event::HostChanged(_)
            | Event::HostAdded { .. }
            | Event::HostsAdded { .. }
            | Event::HostStays { .. }
            | Event::NoHealth { .. }
            | Event::Moving { .. }
            | Event::Moved { .. }
            | Event::NotMoved { .. }
            | Event::MovesOver { .. } => {}
            Event::Committed {
                level: Level::Memory,
                took,
                cost,
                ..
            } => {
                self.committed += 1;
                self.took = *took;
                self.note_cost(cost.as_ref());
            }
            Event::Committed {
                level: Level::File,
                took,
                ..
            } => self.files_took = *took,
            Event::Committed { took, .. } => self.copies_took = *took,
            Event::Aborted { .. } => self.aborted += 1,
            Event::Lost {
                rank, host, cause, ..
            } => {
                self.failures += 1;
                let how = Described(cause);
                self.last_failure = Some(format!("rank {} on host {host} {how}", rank.0));
            }
            Event::Recovered { .. } => self.recoveries += 1,
        }
    }

    fn note_cost(&mut self, cost: Option<&CheckpointCost>) {
        self.cost = cost.map(|cost| LastCost {
            stall_ns: cost.stall.saturating_mul(1000),
            rank: cost.slowest.0,
            copied_bytes: cost.copied.saturating_mul(procfs::page_size()),
        });
        let stall = self.cost.map_or(0, |cost| cost.stall_ns);
        self.longest_stall = self.longest_stall.max(stall);
    }

    /// The job as it is now.
    /// `central`: the central manager's process id, and how often it was started again.
    pub fn status(
        &self,
        view: &JobView,
        ranks: impl Iterator<Item = RankView>,
        (hosts, moves): (&[HostView], &[MoveView]),
        now: Time,
        central: (u32, u64),
    ) -> JobStatus {
        let mut hosts: Vec<HostStatus> = hosts.iter().map(host_status).collect();
        let mut counted = Vec::new();
        for (rank, view) in (0u32..).zip(ranks) {
            let host = hosts.get_mut(view.host);
            counted.push(RankStatus {
                rank,
                host: host.as_ref().map_or_else(String::new, |h| h.host.clone()),
                pid: view.pid,
                incarnation: view.incarnation.0,
                state: state(&view).into(),
                epoch: view.image.map(|epoch| epoch.0),
                log: view.log.map(|log| log.at(now)),
            });
            if let Some(host) = host {
                host.ranks += 1;
            }
        }
        let moves = moves.iter().map(|view| move_status(view, &hosts)).collect();
        let checkpoint = |(epoch, at): (Epoch, Time), took_ns| Checkpoint {
            epoch: epoch.0,
            age_ns: now.0.saturating_sub(at.0),
            took_ns,
        };
        JobStatus {
            job: self.name.clone(),
            mpirun: std::process::id(),
            program: self.program.clone(),
            central: central.0,
            central_restarts: central.1,
            running_ns: now.0.saturating_sub(self.since.0),
            recovery: self.recovery.into(),
            course: course(view.course).into(),
            generation: view.generation.0,
            pending: view.pending.map(|epoch| epoch.0),
            checkpoint: view.committed.map(|c| checkpoint(c, self.took)),
            in_files: view.in_files.map(|c| checkpoint(c, self.files_took)),
            on_partners: view.on_partners.map(|c| checkpoint(c, self.copies_took)),
            regions: view.regions.map(|epoch| epoch.0),
            committed: self.committed,
            aborted: self.aborted,
            failures: self.failures,
            recoveries: self.recoveries,
            last_failure: self.last_failure.clone(),
            cost: self.cost,
            longest_stall_ns: self.longest_stall,
            log: view.log.map(|log| log.at(now)),
            hosts,
            moves,
            ranks: counted,
        }
    }
}

/// A host that no rank is counted on yet.
fn host_status(view: &HostView) -> HostStatus {
    HostStatus {
        host: view.name.clone(),
        site: (!view.lan.0.is_empty()).then(|| view.lan.0.clone()),
        state: view.condition.name().into(),
        cause: view.why.clone(),
        ranks: 0,
    }
}

fn move_status(view: &MoveView, hosts: &[HostStatus]) -> MoveStatus {
    let name = |host: HostIndex| hosts.get(host).map_or_else(String::new, |h| h.host.clone());
    let seconds = view.took as f64 / 1e9;
    MoveStatus {
        rank: view.rank.0,
        host: name(view.from),
        to: name(view.to),
        phase: match view.phase {
            MovePhase::Writing => "writing",
            MovePhase::Copying => "copying",
            MovePhase::Waiting => "waiting",
            MovePhase::Stopping => "stopping",
            MovePhase::Restoring => "restoring",
        }
        .into(),
        copy: view.copy,
        done_bytes: view.done,
        of_bytes: view.of,
        rate: match view.took {
            0 => 0,
            _ => (view.done as f64 / seconds) as u64,
        },
        since_ns: view.since,
    }
}

fn course(course: Course) -> &'static str {
    match course {
        Course::Starting => "starting",
        Course::Restoring => "restoring",
        Course::Running => "running",
        Course::Finalizing => "finalizing",
        Course::Ending => "ending",
        Course::Resuming => "resuming",
    }
}

fn state(rank: &RankView) -> &'static str {
    match rank.stage {
        _ if rank.ended => "ended",
        Stage::Spawned => "started",
        Stage::Registered => "running",
        Stage::Finalizing => "finalizing",
        Stage::Finalized | Stage::Left => "finalized",
    }
}
