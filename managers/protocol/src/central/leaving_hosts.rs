//! Hosts that say themselves that ranks should not be there: by their health commands, or because
//! their local managers are about to end.
//!
//! A host that is to leave is drained as by the user. It repeats its wish until its ranks are gone.
//! So a drain that fails is tried again, and a central manager that was started again learns of it.

use super::event::Event;
use super::interface::{CentralEffect, HostIndex};
use super::job_state::Central;
use super::moves::MoveRequest;
use crate::host_health::HostHealth;
use crate::manager_messages::{Time, ToCentral, ToLocal};

impl Central {
    /// A local manager speaks for its host.
    pub(super) fn host_says(
        &mut self,
        now: Time,
        host: HostIndex,
        message: ToCentral,
        effects: &mut Vec<CentralEffect>,
    ) {
        match message {
            ToCentral::HostEnds => self.host_leaves(now, host, effects),
            ToCentral::Health(health) => self.health(now, host, health, effects),
            ToCentral::Done => self.host_done(host, effects),
            _ => {}
        }
    }

    /// The health command of a host has answered.
    fn health(
        &mut self,
        now: Time,
        host: HostIndex,
        health: HostHealth,
        effects: &mut Vec<CentralEffect>,
    ) {
        if self.hosts.is_done(host) {
            return;
        }
        match health {
            HostHealth::Fine => self.hosts.set_suspect(host, None),
            HostHealth::Suspect(why) => self.hosts.set_suspect(host, Some(why)),
            HostHealth::Leave(why) => self.leave_asked(now, host, (why, false), effects),
            HostHealth::NoAnswer(why) => {
                let name = self.hosts.name(host);
                effects.push(CentralEffect::Event(Event::NoHealth { name, why }));
            }
        }
    }

    /// The local manager of a host was told to end, and has a deadline. If its ranks can't move
    /// before, it ends with them. A job that stops or ends anyway has no use for moves, and the
    /// manager takes part until its deadline.
    fn host_leaves(&mut self, now: Time, host: HostIndex, effects: &mut Vec<CentralEffect>) {
        if self.hosts.is_done(host) {
            return;
        }
        let why = "its local manager got SIGTERM".to_owned();
        self.hosts.set_ends(host);
        self.leave_asked(now, host, (why, true), effects);
        let stays = !self.mode.recovers() || self.refuses_logs();
        if stays || self.has_nowhere_to_go(host) {
            effects.push(CentralEffect::Send(host, ToLocal::CanNotLeave));
        }
    }

    /// The ranks of a host are to leave it, for this reason. `is_urgent`: it is about to end.
    fn leave_asked(
        &mut self,
        now: Time,
        host: HostIndex,
        (why, is_urgent): (String, bool),
        effects: &mut Vec<CentralEffect>,
    ) {
        if self.is_drained(host) {
            return;
        }
        self.hosts.set_leave_reason(host, why.clone());
        self.end_moves_to(now, host, effects);
        if is_urgent {
            self.moves.hasten(host);
        }
        let is_asked = match is_urgent {
            true => self.moves.drains_urgently(host),
            false => self.moves.drains(host),
        };
        if is_asked {
            return;
        }
        if let Some(refusal) = self.refuses_drain(host) {
            if self.hosts.note_refusal(host, &refusal) {
                effects.push(CentralEffect::Event(Event::HostStays {
                    name: self.hosts.name(host),
                    why,
                    refusal,
                }));
            }
            return;
        }
        self.moves.want(MoveRequest::of_host(host, is_urgent));
    }

    /// Ranks of a drained host are on it again, because the job has rolled back to images there:
    /// they move away again.
    pub(super) fn drain_again(&mut self) {
        let hosts = self.hosts.draining();
        let again = hosts.filter(|host| self.ranks.is_any_on(*host) && !self.moves.drains(*host));
        for host in again.collect::<Vec<_>>() {
            self.moves.want(MoveRequest::of_host(host, false));
        }
    }

    /// The host is drained already, and has no ranks.
    fn is_drained(&self, host: HostIndex) -> bool {
        self.hosts.drains(host) && !self.ranks.is_any_on(host)
    }

    /// Why a host can't be drained now.
    pub(super) fn refuses_drain(&self, host: HostIndex) -> Option<String> {
        if let Some(refusal) = self.refuses_moves() {
            return Some(refusal.to_owned());
        }
        if !self.ranks.is_any_on(host) {
            return None;
        }
        let mut others = self.possible_hosts();
        others.retain(|other| other.host != host);
        if others.is_empty() {
            return Some("there is no other host".into());
        }
        let waits = !others.iter().any(|other| self.hosts.takes_in(other.host));
        waits.then(|| "no other host takes ranks in now".into())
    }

    /// A host has ranks, and no other one can take them in.
    pub(super) fn has_nowhere_to_go(&self, host: HostIndex) -> bool {
        let mut others = self.possible_hosts().into_iter();
        self.ranks.is_any_on(host) && !others.any(|other| other.host != host)
    }
}
