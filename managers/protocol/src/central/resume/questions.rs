//! The questions of a restarted central manager to the hosts, until all have answered.

use crate::central::added_hosts::AddedHostsHandler;
use crate::central::ending::EndHandler;
use crate::central::event::Event;
use crate::central::interface::{CentralEffect, CentralInput};
use crate::central::job_parts::JobParts;
use crate::central::phase::CentralPhase;
use crate::central::recovery::HostLossHandler;
use crate::manager_messages::{HostMessage, ToCentral, ToLocal};
use crate::verdict::Verdict;

/// Asks all hosts how everything is, and continues the job.
pub(in crate::central) struct ResumeHandler<'a> {
    /// All parts: what it does can touch each of them.
    pub(in crate::central) job: JobParts<'a>,
}

impl<'a> ResumeHandler<'a> {
    /// The handler of a step.
    pub(in crate::central) fn of(job: &'a mut JobParts<'_>) -> Self {
        ResumeHandler { job: job.all() }
    }
}

impl ResumeHandler<'_> {
    /// Tells observers where the job stands, and prepares the hosts' state.
    fn prepare_hosts(&mut self) {
        let now = self.job.out.now;
        self.job.out.push(self.job.commits.resumed());
        AddedHostsHandler::of(&mut self.job).notify_added();
        let epochs = self.job.commits.regions.epochs();
        if epochs.newest.is_some() {
            self.job.out.event(Event::RegionsCommitted { epochs });
        }
        self.job.course.end.notify_again(self.job.out);
        let by_host = self.job.cluster.ranks.by_host(self.job.cluster.hosts.len());
        self.job.cluster.hosts.with_ranks_take_part(&by_host);
        for host in self.job.cluster.departures.visited() {
            self.job.cluster.hosts.join(host);
            self.job.out.push(CentralEffect::Join(host));
        }
        // Any of them may have a lease of the last central manager.
        self.job.cluster.hosts.count_leases_from(now);
        self.job.out.effects.extend(
            self.job
                .cluster
                .placement()
                .cloned()
                .map(CentralEffect::Placed),
        );
    }

    /// The end of the job was already decided: sends the order to all hosts once more.
    pub(in crate::central) fn end_again(&mut self) {
        self.prepare_hosts();
        EndHandler::of(&mut self.job).end_all();
    }

    /// One step while hosts are asked. Returns the inputs that are to be handled as in a job that
    /// was not taken up again.
    pub(in crate::central) fn resuming(&mut self, input: CentralInput) -> Vec<CentralInput> {
        let now = self.job.out.now;
        let CentralPhase::Resuming(resuming) = &mut self.job.course.phase else {
            return vec![input];
        };
        match input {
            CentralInput::Begin => {
                resuming.request(now);
                self.prepare_hosts();
                self.job
                    .cluster
                    .hosts
                    .send_all(|| ToLocal::Report, self.job.out);
            }
            CentralInput::Local(host, ToCentral::Report(report)) => resuming.reported(host, report),
            CentralInput::Local(host, ToCentral::Host(HostMessage::Done)) => {
                self.job.cluster.hosts.done(host, self.job.out);
            }
            CentralInput::Local(_, ToCentral::Host(HostMessage::Renew { .. }))
            | CentralInput::HostCalled(_)
            | CentralInput::HostLost(_)
            | CentralInput::HostGone(..)
            | CentralInput::HostEnded(..) => return vec![input],
            // A host that does not report may be replaced. What becomes of lost ones is asked again
            // when the others have reported.
            CentralInput::Stored(states) => HostLossHandler::of(&mut self.job).drop_silent(&states),
            // The report of a host includes its earlier messages.
            CentralInput::Local(host, _) => {
                if resuming.has_reported(host) {
                    resuming.postpone(input);
                }
            }
            CentralInput::Suspended => {
                resuming.was_suspended(now);
                return vec![input];
            }
            CentralInput::Tick => {
                if !resuming.is_overdue(now) {
                    return vec![input];
                }
                self.unanswered();
                return Vec::new();
            }
            input => resuming.postpone(input),
        }
        self.continue_when_complete()
    }

    /// A host that does not answer in time is lost.
    fn unanswered(&mut self) {
        let CentralPhase::Resuming(resuming) = &self.job.course.phase else {
            return;
        };
        let answered = |host| resuming.has_reported(host);
        if let Some(host) = self
            .job
            .cluster
            .hosts
            .drop_unanswered(answered, self.job.out)
        {
            let why = "its local manager does not answer".to_string();
            EndHandler::of(&mut self.job).decide(Verdict::HostLost { host, why });
        }
    }

    /// Continues once every host has answered. Returns the events of which some may have reached
    /// no central manager.
    pub(in crate::central) fn continue_when_complete(&mut self) -> Vec<CentralInput> {
        let is_done = |host| self.job.cluster.hosts.is_done(host);
        match std::mem::replace(&mut self.job.course.phase, CentralPhase::Starting) {
            CentralPhase::Resuming(resuming) if resuming.is_complete(is_done) => {
                let (past, reports, later) = resuming.into_parts();
                let mut inputs = self.continue_job(&past, reports);
                inputs.extend(later);
                if self.job.returns.lost_hosts.is_pending() {
                    self.job.out.push(CentralEffect::RequestStored {
                        regions: self.job.commits.regions.epochs(),
                    });
                }
                inputs
            }
            before => {
                self.job.course.phase = before;
                Vec::new()
            }
        }
    }
}
