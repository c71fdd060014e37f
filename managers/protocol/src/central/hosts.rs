//! Hosts that fall silent, and hosts that take no part any more.

use super::{Central, CentralEffect, Event, HostIndex, Leases, Record};
use crate::control::{Time, ToLocal};
use crate::lease::{Giver, Standing};
use crate::verdict::Verdict;

/// The lease of a host that may fall silent.
pub(super) fn giver(leases: Option<&Leases>, host: HostIndex) -> Option<Giver> {
    let leases = leases.filter(|l| l.hosts.contains(&host))?;
    Some(Giver::new(leases.terms))
}

impl Central {
    /// A host renews its lease. One that has a successor, or that the job has no use for any more,
    /// gets nothing and runs out.
    pub(super) fn renewed(
        &mut self,
        now: Time,
        host: HostIndex,
        number: u64,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(state) = self.hosts.get_mut(host).filter(|state| !state.done) else {
            return;
        };
        if let Some(lease) = &mut state.lease {
            if lease.renewed(now) {
                let name = state.name.clone();
                effects.push(CentralEffect::Event(Event::HostHeard { name }));
            }
            effects.push(CentralEffect::Send(host, ToLocal::Granted { number }));
        }
    }

    /// A local manager has ended, and every process below it: no process uses its lease any more.
    pub(super) fn nothing_acts_on(&mut self, host: HostIndex) {
        if let Some(state) = self.hosts.get_mut(host) {
            state.lease = None;
        }
    }

    /// No process of the job is left on a host. Its local manager may leave once that is stored:
    /// the next central manager could not ask it any more.
    pub(super) fn host_done(&mut self, host: HostIndex, effects: &mut Vec<CentralEffect>) {
        self.nothing_acts_on(host);
        if let Some(state) = self.hosts.get_mut(host) {
            state.done = true;
            if !std::mem::replace(&mut state.left, true) {
                effects.push(CentralEffect::Persist(Record::HostDone(host)));
            }
            effects.push(CentralEffect::Send(host, ToLocal::Leave));
        }
    }

    /// Central was started again: local managers may not have received the permission to leave.
    pub(super) fn let_leave_again(&self, effects: &mut Vec<CentralEffect>) {
        let left = self.hosts.iter().enumerate().filter(|(_, h)| h.left);
        effects.extend(left.map(|(host, _)| CentralEffect::Send(host, ToLocal::Leave)));
    }

    /// When a lease runs out, or patience does.
    pub(super) fn silence_due(&self) -> Option<Time> {
        let open = self.hosts.iter().filter(|h| !h.done);
        open.filter_map(|h| h.lease.as_ref()?.deadline()).min()
    }

    pub(super) fn silence_tick(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let (mut lost, mut silent) = (None, false);
        for (host, state) in self.hosts.iter_mut().enumerate() {
            let Some(lease) = state.lease.as_mut().filter(|_| !state.done) else {
                continue;
            };
            let name = state.name.clone();
            match lease.tick(now) {
                Standing::Same => {}
                Standing::Silent => {
                    effects.push(CentralEffect::Event(Event::HostSilent { host, name }));
                    silent = true;
                }
                Standing::Lost => lost = lost.or(Some(host)),
            }
        }
        if let Some(host) = lost {
            let why = "it has been silent for too long (--host-patience)".to_string();
            effects.push(CentralEffect::Drop(host));
            self.host_gone(now, host, why, effects);
        } else if silent && self.failover.is_some() {
            effects.push(CentralEffect::AskRelaunchable);
        }
    }

    /// The job can be launched again without a lost host, so central does not wait for a silent
    /// one.
    pub(super) fn give_up_silent(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let silent = |lease: &Giver| lease.is_silent();
        let mut hosts = self.hosts.iter();
        let host = hosts.position(|h| !h.done && h.lease.as_ref().is_some_and(silent));
        if let Some(host) = host {
            effects.push(CentralEffect::Drop(host));
            self.host_gone(now, host, "it is silent".to_string(), effects);
        }
    }

    /// A host is lost, with everything that ran there.
    pub(super) fn host_gone(
        &mut self,
        now: Time,
        host: HostIndex,
        why: String,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(state) = self.hosts.get_mut(host) else {
            return;
        };
        if !state.done {
            state.done = true;
            let host = state.name.clone();
            self.decide(now, Verdict::HostLost { host, why }, effects);
        }
    }
}
