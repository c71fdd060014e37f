//! All ranks are launched again without a lost host, from what they have stored: images of their
//! processes, or memory that the program has registered.
//!
//! The job has ended on every host that can be reached, with the loss as its verdict. The driver is
//! asked for the newest stored state. If there is one, central stores the decision and waits for
//! the end of the lost host's last lease. So no rank acts there when another one replaces it.

use super::phases::Relaunching;
use crate::central::interface::{
    CentralEffect, CentralInput, Failover, HostIndex, Record, Relaunch, StoredState,
};
use crate::central::job_state::Central;
use crate::central::phase::CentralPhase;
use crate::central::placement;
use crate::manager_messages::Time;
use crate::signal_numbers;
use crate::verdict::Verdict;

impl Central {
    /// Every host is done. Asks whether the job can be launched again, if it ended for a lost host.
    pub(in crate::central) fn relaunches(&mut self, effects: &mut Vec<CentralEffect>) -> bool {
        if self.placement_without_lost().is_none() {
            return false;
        }
        self.phase = CentralPhase::Relaunching(Relaunching::Asked);
        effects.push(CentralEffect::AskStored {
            regions: self.regions.epochs(),
        });
        true
    }

    /// No process is left on a host.
    pub(in crate::central) fn host_done(
        &mut self,
        host: HostIndex,
        effects: &mut Vec<CentralEffect>,
    ) {
        let keeps_files = self.may_need_files();
        self.hosts.done(host, keeps_files, effects);
    }

    /// The job may be launched again from files of images that hosts have for themselves.
    pub(in crate::central) fn may_need_files(&self) -> bool {
        self.placement_without_lost().is_some()
    }

    /// The host by whose loss the job ended, and where its ranks can run.
    fn placement_without_lost(&self) -> Option<(HostIndex, Vec<HostIndex>)> {
        let Some(Verdict::HostLost { host: name, .. }) = self.end.verdict() else {
            return None;
        };
        let Failover { lost: before, .. } = self.failover.as_ref()?;
        let host = self.hosts.position(name)?;
        let placement = self.ranks.placement();
        let replaced = self
            .placement()
            .map_or(&[][..], |placement| &placement.lost[..]);
        let is_lost = |other: &HostIndex| before.contains(other) || replaced.contains(other);
        let others = (0..self.hosts.len()).filter(|other| *other != host && !is_lost(other));
        // One that was drained is better than none, and one that was lost beside this one may be
        // reached again by then.
        let flaws = |other: HostIndex| (self.hosts.is_lost(other), self.hosts.drains(other));
        let least = others.clone().map(flaws).min()?;
        let best = others.filter(|other| flaws(*other) == least);
        let next = placement::without(host, &placement, best);
        Some((host, next?))
    }

    /// One step while the relaunch is decided and its moment waited for.
    pub(in crate::central) fn relaunching(
        &mut self,
        now: Time,
        input: CentralInput,
        effects: &mut Vec<CentralEffect>,
    ) {
        let CentralPhase::Relaunching(state) = &self.phase else {
            return;
        };
        match (input, state) {
            (CentralInput::Begin, Relaunching::Decided(relaunch, None)) => {
                let relaunch = relaunch.clone();
                effects.push(self.resumed());
                self.end.tell_again(effects);
                self.hosts.count_leases_from(now);
                self.wait_for_fence(now, relaunch, effects);
            }
            (CentralInput::Stored(states), Relaunching::Asked) => {
                self.stored(now, &states, effects)
            }
            (CentralInput::Signal(signal), _) if signal_numbers::ends(signal) => {
                self.over(Verdict::Interrupted { signal }, effects);
            }
            (CentralInput::Stop(signal), _) => {
                self.stop_asked_between_launches(now, signal, effects);
            }
            (CentralInput::OutputLost(why), _) => {
                let lost = |why| Verdict::OutputLost { why };
                self.over(why.map_or(Verdict::Unread, lost), effects);
            }
            (CentralInput::Tick, state) => {
                let due = state.due().is_some_and(|at| at <= now);
                if let Some(limit) = self.clock.exceeded(now) {
                    self.over(Verdict::TimedOut { limit }, effects);
                } else if let (Relaunching::Decided(relaunch, _), true) = (state, due) {
                    let relaunch = relaunch.clone();
                    self.launch(*relaunch, effects);
                }
            }
            _ => {}
        }
    }

    /// The states that every rank has stored, the newest one first.
    fn stored(&mut self, now: Time, states: &[StoredState], effects: &mut Vec<CentralEffect>) {
        let mut states = states.iter().copied();
        let next = states.find(|state| self.may_continue(*state));
        let next = next.and_then(|state| {
            let (host, placement) = self.placement_without_lost()?;
            Some(Relaunch {
                requested: self.last_number(),
                generation: self.ranks.generation().next(),
                lost: host,
                drained: self.hosts.drained(),
                placement,
                state,
            })
        });
        match (next, self.end.interrupted()) {
            (Some(_), Some(signal)) => self.over(Verdict::Interrupted { signal }, effects),
            (Some(relaunch), None) => {
                effects.push(CentralEffect::Persist(Record::Relaunching(
                    relaunch.clone(),
                )));
                self.wait_for_fence(now, Box::new(relaunch), effects);
            }
            (None, _) => {
                let verdict = self.end.verdict().cloned();
                let verdict = verdict.unwrap_or(Verdict::Success);
                self.over(verdict, effects);
            }
        }
    }

    /// Whether the program gives a right answer from there.
    pub(in crate::central) fn may_continue(&self, state: StoredState) -> bool {
        match state {
            StoredState::Regions(_) => true,
            StoredState::Images(epoch) => {
                // What ranks log is there if other hosts can take them in.
                let takes_in = self.failover.as_ref().is_some_and(|f| f.takes_in);
                let has_logs = takes_in || !self.groups.are_several();
                has_logs && self.mode.outlived(epoch).is_none()
            }
        }
    }

    /// Launches once no lease that was given can last any more.
    fn wait_for_fence(
        &mut self,
        now: Time,
        relaunch: Box<Relaunch>,
        effects: &mut Vec<CentralEffect>,
    ) {
        match self.hosts.fence().filter(|at| *at > now) {
            None => self.launch(*relaunch, effects),
            fence => self.phase = CentralPhase::Relaunching(Relaunching::Decided(relaunch, fence)),
        }
    }

    fn launch(&mut self, relaunch: Relaunch, effects: &mut Vec<CentralEffect>) {
        self.phase = CentralPhase::Over;
        effects.push(CentralEffect::Relaunch(relaunch));
    }
}
