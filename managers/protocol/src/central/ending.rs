//! The verdict, and the end of all processes.

use super::cluster::Cluster;
use super::interface::CentralEffect;
use super::job_course::JobCourse;
use super::job_parts::JobParts;
use super::out::Out;
use super::phase::CentralPhase;
use super::recovery::LostHosts;
use crate::manager_messages::ToLocal;
use crate::verdict::Verdict;

/// Gives the verdict and ends everything.
pub(in crate::central) struct EndHandler<'a> {
    pub(in crate::central) course: &'a mut JobCourse,
    pub(in crate::central) cluster: &'a Cluster,
    pub(in crate::central) lost_hosts: &'a mut LostHosts,
    pub(in crate::central) out: &'a mut Out,
}

impl<'a> EndHandler<'a> {
    /// The handler of a step.
    pub(in crate::central) fn of(job: &'a mut JobParts<'_>) -> Self {
        EndHandler {
            course: job.course,
            cluster: job.cluster,
            lost_hosts: &mut job.returns.lost_hosts,
            out: job.out,
        }
    }
}

impl EndHandler<'_> {
    /// Gives the verdict, unless there is one, and ends everything.
    pub(in crate::central) fn decide(&mut self, verdict: Verdict) {
        if self.course.phase == CentralPhase::Ending {
            return;
        }
        self.course.end.decide(verdict, self.out);
        self.course.phase = CentralPhase::Ending;
        self.lost_hosts.take_hosts();
        self.end_all();
    }

    /// Tells every host to end. The ranks of a job that stops do nothing more: what they do after
    /// the checkpoint is done again.
    pub(in crate::central) fn end_all(&mut self) {
        let why = self.course.end.begin(self.out.now);
        if let Some(Verdict::Stopped { .. }) = self.course.end.verdict() {
            return self.kill_all();
        }
        let end = || ToLocal::End { why: why.clone() };
        self.cluster.hosts.send_all(end, self.out);
    }

    /// Tells every host to kill all processes at once.
    pub(in crate::central) fn kill_all(&mut self) {
        let kill = || ToLocal::Kill;
        self.cluster.hosts.send_all(kill, self.out);
    }

    /// The job is over once every host is done.
    pub(in crate::central) fn close(&mut self) {
        let is_over = self.course.phase == CentralPhase::Over;
        if is_over || !self.cluster.hosts.all_done() || self.lost_hosts.is_pending() {
            return;
        }
        let verdict = self.course.end.conclude(self.out);
        self.course.phase = CentralPhase::Over;
        self.out.push(CentralEffect::Over(verdict));
    }
}
