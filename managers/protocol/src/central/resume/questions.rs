//! The questions of a restarted central manager to the hosts, until all have answered.

use crate::central::event::Event;
use crate::central::interface::{CentralEffect, CentralInput};
use crate::central::job_state::Central;
use crate::central::phase::CentralPhase;
use crate::manager_messages::{Time, ToCentral, ToLocal};
use crate::verdict::Verdict;

impl Central {
    /// Where the job stands, for observers of checkpoints.
    pub(in crate::central) fn resumed(&self) -> CentralEffect {
        let checkpoints = self.mode.checkpoints();
        CentralEffect::Resumed {
            committed: checkpoints.map(|c| c.epochs()).unwrap_or_default(),
            abandoned: checkpoints.map(|c| c.last_number()).unwrap_or_default(),
        }
    }

    /// Tells observers where the job stands, and prepares the hosts' state.
    fn prepare_hosts(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        effects.push(self.resumed());
        self.tell_added(effects);
        let epochs = self.regions.epochs();
        if epochs.newest.is_some() {
            effects.push(CentralEffect::Event(Event::RegionsCommitted { epochs }));
        }
        self.end.tell_again(effects);
        let by_host = self.ranks.by_host(self.hosts.len());
        self.hosts.with_ranks_take_part(&by_host);
        for host in self.departures.visited() {
            self.hosts.join(host);
            effects.push(CentralEffect::Join(host));
        }
        // Any of them may have a lease of the last central manager.
        self.hosts.count_leases_from(now);
        effects.extend(self.placement().cloned().map(CentralEffect::Placed));
    }

    /// The end of the job was already decided: sends the order to all hosts once more.
    pub(in crate::central) fn end_again(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        self.prepare_hosts(now, effects);
        self.end_all(now, effects);
    }

    /// One step while hosts are asked. Returns the inputs that are to be handled as in a job that
    /// was not taken up again.
    pub(in crate::central) fn resuming(
        &mut self,
        now: Time,
        input: CentralInput,
        effects: &mut Vec<CentralEffect>,
    ) -> Vec<CentralInput> {
        let CentralPhase::Resuming(resuming) = &mut self.phase else {
            return vec![input];
        };
        match input {
            CentralInput::Begin => {
                resuming.ask(now);
                self.prepare_hosts(now, effects);
                self.hosts.send_all(|| ToLocal::Report, effects);
            }
            CentralInput::Local(host, ToCentral::Report(report)) => resuming.reported(host, report),
            CentralInput::Local(host, ToCentral::Done) => {
                self.host_done(host, effects);
            }
            CentralInput::Local(_, ToCentral::Renew { .. })
            | CentralInput::HostCalled(_)
            | CentralInput::HostLost(_)
            | CentralInput::HostGone(..)
            | CentralInput::HostEnded(..) => return vec![input],
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
                self.unanswered(now, effects);
                return Vec::new();
            }
            input => resuming.postpone(input),
        }
        self.continue_when_complete(now, effects)
    }

    /// A host that does not answer in time is lost.
    fn unanswered(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let CentralPhase::Resuming(resuming) = &self.phase else {
            return;
        };
        let answered = |host| resuming.has_reported(host);
        if let Some(host) = self.hosts.drop_unanswered(answered, effects) {
            let why = "its local manager does not answer".to_string();
            self.decide(now, Verdict::HostLost { host, why }, effects);
        }
    }

    /// Continues once every host has answered. Returns the events of which some may have reached
    /// no central manager.
    pub(in crate::central) fn continue_when_complete(
        &mut self,
        now: Time,
        effects: &mut Vec<CentralEffect>,
    ) -> Vec<CentralInput> {
        let is_done = |host| self.hosts.is_done(host);
        match std::mem::replace(&mut self.phase, CentralPhase::Starting) {
            CentralPhase::Resuming(resuming) if resuming.is_complete(is_done) => {
                let (past, reports, later) = resuming.into_parts();
                let mut inputs = self.continue_job(now, &past, reports, effects);
                inputs.extend(later);
                inputs
            }
            before => {
                self.phase = before;
                Vec::new()
            }
        }
    }
}
