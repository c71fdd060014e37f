//! The central manager's state. Each part has its own fields; handlers of events get references to
//! the parts that they may touch ([`JobParts`]).

#[cfg(feature = "omissions")]
use super::central_omission::CentralOmission;
use super::cluster::Cluster;
use super::commits::Commits;
use super::host_views::host_views;
use super::interface::{Job, Record};
use super::job_clock::JobClock;
use super::job_course::JobCourse;
use super::job_parts::JobParts;
use super::job_terms::JobTerms;
use super::moves::MoveTable;
use super::out::Out;
use super::phase::CentralPhase;
use super::resume::{Recall, Resuming};
use super::return_state::ReturnState;
use super::watch_steps::WatchHandler;
use crate::detector::HostWatch;

/// State of the job's central manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Central {
    pub(super) terms: JobTerms,
    pub(super) course: JobCourse,
    pub(super) cluster: Cluster,
    pub(super) commits: Commits,
    pub(super) returns: ReturnState,
    /// Ranks that move to other hosts.
    pub(super) moves: MoveTable,
    /// Of a job whose local managers probe each other.
    pub(super) watch: Option<HostWatch>,
}

impl Central {
    /// Central of a job that has not begun.
    #[must_use]
    pub fn new(job: Job) -> Self {
        let cluster = Cluster::new(&job);
        let mut central = Central {
            watch: watch_of(&job),
            commits: Commits::new(&job, cluster.has_partners()),
            course: JobCourse::new(JobClock::new(job.limit, job.spent)),
            returns: ReturnState::default(),
            moves: MoveTable::default(),
            terms: JobTerms::new(job.failover, job.from),
            cluster,
        };
        // The driver shows them before the first step.
        let views = host_views(&central.cluster, &central.terms);
        for (host, view) in views.into_iter().enumerate() {
            central.cluster.hosts.report_condition(host, view.condition);
        }
        central
    }

    /// Central of a job that another central manager has begun and recorded.
    /// [`CentralInput::Begin`](crate::central::CentralInput::Begin) comes first, then
    /// [`CentralInput::HostLost`](crate::central::CentralInput::HostLost) or
    /// [`CentralInput::HostGone`](crate::central::CentralInput::HostGone) for each host that the
    /// driver knows to be lost.
    #[must_use]
    pub fn resume(job: Job, records: Vec<Record>) -> Self {
        let mut central = Central::new(job);
        let recall = Recall {
            course: &mut central.course,
            cluster: &mut central.cluster,
            commits: &mut central.commits,
            returns: &mut central.returns,
            moves: &mut central.moves,
            terms: &central.terms,
        };
        let past = recall.all(records);
        if past.decided {
            central.course.phase = CentralPhase::Ending;
        } else if past.began {
            let resuming = Resuming::new(past, central.cluster.hosts.len());
            central.course.phase = CentralPhase::Resuming(Box::new(resuming));
        }
        central
    }

    /// Leaves this part out from now on.
    #[cfg(feature = "omissions")]
    pub fn omit(&mut self, part: CentralOmission) {
        self.terms.omit(part);
    }

    /// The parts of the job's state, for handlers.
    pub(super) fn parts<'a>(&'a mut self, out: &'a mut Out) -> JobParts<'a> {
        JobParts {
            terms: &self.terms,
            course: &mut self.course,
            cluster: &mut self.cluster,
            commits: &mut self.commits,
            returns: &mut self.returns,
            moves: &mut self.moves,
            out,
        }
    }

    /// The watch of local managers over each other.
    pub(super) fn watch<'a>(&'a mut self, out: &'a mut Out) -> WatchHandler<'a> {
        WatchHandler {
            phase: &self.course.phase,
            cluster: &mut self.cluster,
            watch: &mut self.watch,
            out,
        }
    }
}

fn watch_of(job: &Job) -> Option<HostWatch> {
    let detection = job.leases.as_ref()?.terms.detection;
    detection.probes().then(|| HostWatch::new(detection))
}
