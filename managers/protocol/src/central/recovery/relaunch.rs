//! All ranks are launched again without a lost host, from what they have stored: images of their
//! processes, or memory that the program has registered.
//!
//! The job has ended on every host that can be reached, with the loss as its verdict. The driver is
//! asked for the newest stored state. If there is one, central stores the decision and waits for
//! the end of the lost host's last lease. So no rank acts there when another one replaces it.

use super::phases::Relaunching;
use crate::central::ending::EndHandler;
use crate::central::interface::{
    CentralEffect, CentralInput, HostIndex, Record, Relaunch, StoredState,
};
use crate::central::job_parts::{JobParts, keys};
use crate::central::phase::CentralPhase;
use crate::central::recovery::LaunchRules;
use crate::handler_keys::handler;
use crate::signal_numbers;
use crate::verdict::Verdict;

handler! {
    /// Ends the job once all hosts are done, or launches it again.
    pub(in crate::central) RelaunchHandler of JobParts {
        changes { course, cluster, returns, out }
        reads { commits, terms }
    }
}

impl RelaunchHandler<'_> {
    fn end(&mut self) -> EndHandler<'_> {
        EndHandler {
            course: self.course,
            cluster: self.cluster,
            lost_hosts: &mut self.returns.lost_hosts,
            out: self.out,
        }
    }

    fn launch_rules(&self) -> LaunchRules<'_> {
        LaunchRules {
            course: self.course,
            cluster: self.cluster,
            commits: self.commits,
            terms: self.terms,
        }
    }

    /// Every host is done. Asks whether the job can be launched again, if it ended for a lost host.
    pub(in crate::central) fn relaunches(&mut self) -> bool {
        if self.launch_rules().placement_without_lost().is_none() {
            return false;
        }
        self.course.phase = CentralPhase::Relaunching(Relaunching::Asked);
        self.out.push(CentralEffect::RequestStored {
            regions: self.commits.regions.epochs(),
        });
        true
    }

    /// No process is left on a host.
    pub(in crate::central) fn host_done(&mut self, host: HostIndex) {
        let keeps_files = self.launch_rules().may_need_files();
        self.cluster.hosts.done(host, keeps_files, self.out);
    }

    /// One step while the relaunch is decided and its moment waited for.
    pub(in crate::central) fn relaunching(&mut self, input: CentralInput) {
        let now = self.out.now;
        let CentralPhase::Relaunching(state) = &self.course.phase else {
            return;
        };
        match (input, state) {
            (CentralInput::Begin, Relaunching::Decided(relaunch, None)) => {
                let relaunch = relaunch.clone();
                self.out.push(self.commits.resumed());
                self.course.end.notify_again(self.out);
                self.cluster.hosts.count_leases_from(now);
                self.wait_for_fence(relaunch);
            }
            (CentralInput::Stored(states), Relaunching::Asked) => self.stored(&states),
            (CentralInput::Signal(signal), _) if signal_numbers::ends(signal) => {
                self.end().over(Verdict::Interrupted { signal });
            }
            (CentralInput::OutputLost(why), _) => {
                let lost = |why| Verdict::OutputLost { why };
                self.end().over(why.map_or(Verdict::Unread, lost));
            }
            (CentralInput::Tick, state) => {
                let due = state.due().is_some_and(|at| at <= now);
                if let Some(limit) = self.course.clock.exceeded(now) {
                    self.end().over(Verdict::TimedOut { limit });
                } else if let (Relaunching::Decided(relaunch, _), true) = (state, due) {
                    let relaunch = relaunch.clone();
                    self.launch(*relaunch);
                }
            }
            _ => {}
        }
    }

    /// The states that every rank has stored, the newest one first.
    fn stored(&mut self, states: &[StoredState]) {
        let mut states = states.iter().copied();
        let next = states.find(|state| self.launch_rules().may_continue(*state));
        let next = next.and_then(|state| {
            let (host, placement) = self.launch_rules().placement_without_lost()?;
            Some(Relaunch {
                requested: self.commits.last_number(),
                generation: self.cluster.ranks.generation().next(),
                lost: host,
                drained: self.cluster.hosts.drained(),
                placement,
                state,
            })
        });
        match (next, self.course.end.interrupted()) {
            (Some(_), Some(signal)) => self.end().over(Verdict::Interrupted { signal }),
            (Some(relaunch), None) => {
                self.out.persist(Record::Relaunching(relaunch.clone()));
                self.wait_for_fence(Box::new(relaunch));
            }
            (None, _) => {
                let verdict = self.course.end.verdict().cloned();
                let verdict = verdict.unwrap_or(Verdict::Success);
                self.end().over(verdict);
            }
        }
    }

    /// Launches once no lease that was given can last any more.
    fn wait_for_fence(&mut self, relaunch: Box<Relaunch>) {
        let now = self.out.now;
        match self.cluster.hosts.fence().filter(|at| *at > now) {
            None => self.launch(*relaunch),
            fence => {
                self.course.phase = CentralPhase::Relaunching(Relaunching::Decided(relaunch, fence))
            }
        }
    }

    fn launch(&mut self, relaunch: Relaunch) {
        self.course.phase = CentralPhase::Over;
        self.out.push(CentralEffect::Relaunch(relaunch));
    }

    /// The job is over, or may be launched again, once every host is done.
    pub(in crate::central) fn close(&mut self) {
        let closed = matches!(
            self.course.phase,
            CentralPhase::Over | CentralPhase::Relaunching(_)
        );
        let waits = !self.cluster.hosts.all_done() || self.returns.lost_hosts.is_pending();
        if closed || waits || self.relaunches() {
            return;
        }
        let verdict = self.course.end.conclude(self.out);
        self.end().over(verdict);
    }
}
