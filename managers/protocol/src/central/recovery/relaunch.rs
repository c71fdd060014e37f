//! All ranks are launched again without a lost host, from state that their program has stored.
//!
//! The job has ended on every host that can be reached, with the loss as its verdict. The driver is
//! asked for the newest stored state. If there is one, central stores the decision and waits for
//! the end of the lost host's last lease. So no rank acts there when another one replaces it.

use super::relaunching::Relaunching;
use crate::central::{
    Central, CentralEffect, CentralInput, Failover, HostIndex, Phase, Record, Relaunch, placement,
};
use crate::control::Time;
use crate::signals;
use crate::verdict::Verdict;

impl Central {
    /// Every host is done. Asks whether the job can be launched again, if it ended for a lost host.
    pub(in crate::central) fn relaunches(&mut self, effects: &mut Vec<CentralEffect>) -> bool {
        if self.placement_without_lost().is_none() {
            return false;
        }
        self.phase = Phase::Relaunching(Relaunching::Asked);
        effects.push(CentralEffect::AskStored);
        true
    }

    /// The host by whose loss the job ended, and where its ranks can run.
    fn placement_without_lost(&self) -> Option<(HostIndex, Vec<HostIndex>)> {
        let Some(Verdict::HostLost { host: name, .. }) = &self.verdict else {
            return None;
        };
        let Failover { lost: before } = self.failover.as_ref()?;
        let host = self.hosts.iter().position(|h| h.name == *name)?;
        let placement: Vec<HostIndex> = self.ranks.iter().map(|r| r.host).collect();
        let usable = (0..self.hosts.len()).filter(|other| !before.contains(other));
        Some((host, placement::without(host, &placement, usable)?))
    }

    /// One step while the relaunch is decided and its moment waited for.
    pub(in crate::central) fn relaunching(
        &mut self,
        now: Time,
        input: CentralInput,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Phase::Relaunching(state) = &self.phase else {
            return;
        };
        match (input, state) {
            (CentralInput::Begin, Relaunching::Decided(relaunch, None)) => {
                let relaunch = relaunch.clone();
                effects.push(self.resumed());
                effects.extend(self.verdict.clone().map(CentralEffect::Decided));
                self.leases_again(now);
                self.wait_for_fence(now, relaunch, effects);
            }
            (CentralInput::Stored(state), Relaunching::Asked) => self.stored(now, state, effects),
            (CentralInput::Signal(signal), _) if signals::ends(signal) => {
                self.over(Verdict::Interrupted { signal }, effects);
            }
            (CentralInput::OutputLost(why), _) => {
                let lost = |why| Verdict::OutputLost { why };
                self.over(why.map_or(Verdict::Unread, lost), effects);
            }
            (CentralInput::Tick, _) if self.limit_at.is_some_and(|at| at <= now) => {
                let limit = self.limit.unwrap_or_default();
                self.over(Verdict::TimedOut { limit }, effects);
            }
            (CentralInput::Tick, Relaunching::Decided(relaunch, Some(at))) if *at <= now => {
                let relaunch = relaunch.clone();
                self.launch(*relaunch, effects);
            }
            _ => {}
        }
    }

    /// The newest state that every rank has stored, if there is one.
    fn stored(&mut self, now: Time, state: Option<u32>, effects: &mut Vec<CentralEffect>) {
        let next = state.and_then(|state| {
            let (host, placement) = self.placement_without_lost()?;
            Some(Relaunch {
                generation: self.generation.next(),
                lost: host,
                placement,
                state,
            })
        });
        match (next, self.interrupted) {
            (Some(_), Some(signal)) => self.over(Verdict::Interrupted { signal }, effects),
            (Some(relaunch), None) => {
                effects.push(CentralEffect::Persist(Record::Relaunching(
                    relaunch.clone(),
                )));
                self.wait_for_fence(now, Box::new(relaunch), effects);
            }
            (None, _) => {
                let verdict = self.verdict.clone().unwrap_or(Verdict::Success);
                self.over(verdict, effects);
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
        let leases = self.hosts.iter().filter_map(|h| h.lease.as_ref());
        let fence = leases.filter_map(|lease| lease.runs_out()).max();
        match fence.filter(|at| *at > now) {
            None => self.launch(*relaunch, effects),
            fence => self.phase = Phase::Relaunching(Relaunching::Decided(relaunch, fence)),
        }
    }

    fn launch(&mut self, relaunch: Relaunch, effects: &mut Vec<CentralEffect>) {
        self.phase = Phase::Over;
        effects.push(CentralEffect::Relaunch(relaunch));
    }

    /// When the relaunch may begin.
    pub(in crate::central) fn relaunch_due(&self) -> Option<Time> {
        match &self.phase {
            Phase::Relaunching(Relaunching::Decided(_, at)) => *at,
            _ => None,
        }
    }
}
