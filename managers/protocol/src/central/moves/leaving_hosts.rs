//! Hosts that say themselves that ranks should not be there: by their health commands, or because
//! their local managers are about to end.
//!
//! A host that is to leave is drained as by the user. It repeats its wish until its ranks are gone.
//! So a drain that fails is tried again, and a central manager that was started again learns of it.

use super::move_request::MoveRequest;
use super::move_steps::MoveHandler;
use crate::central::event::Event;
use crate::central::interface::HostIndex;
use crate::host_health::HostHealth;
use crate::manager_messages::ToLocal;

impl MoveHandler<'_> {
    /// The health command of a host has answered.
    pub(in crate::central) fn host_health(&mut self, host: HostIndex, health: HostHealth) {
        if self.cluster.hosts.is_done(host) {
            return;
        }
        match health {
            HostHealth::Fine => self.cluster.hosts.set_suspect(host, None),
            HostHealth::Suspect(why) => self.cluster.hosts.set_suspect(host, Some(why)),
            HostHealth::Leave(why) => self.on_leave_request(host, (why, false)),
            HostHealth::NoAnswer(why) => {
                let name = self.cluster.hosts.name(host);
                self.out.event(Event::NoHealth { name, why });
            }
        }
    }

    /// The local manager of a host was told to end, and has a deadline. If its ranks can't move
    /// before, it ends with them. A job that stops or ends anyway has no use for moves, and the
    /// manager takes part until its deadline.
    pub(in crate::central) fn host_leaves(&mut self, host: HostIndex) {
        if self.cluster.hosts.is_done(host) {
            return;
        }
        let why = "its local manager got SIGTERM".to_owned();
        self.cluster.hosts.set_ends(host);
        self.on_leave_request(host, (why, true));
        let stays = !self.commits.mode.recovers() || self.rules().refuses_logs();
        if stays || self.rules().has_nowhere_to_go(host) {
            self.out.send(host, ToLocal::CanNotLeave);
        }
    }

    /// The ranks of a host are to leave it, for this reason. `is_urgent`: it is about to end.
    fn on_leave_request(&mut self, host: HostIndex, (why, is_urgent): (String, bool)) {
        if self.is_drained(host) {
            return;
        }
        self.cluster.hosts.set_leave_reason(host, why.clone());
        self.end_moves_to(host);
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
        if let Some(refusal) = self.rules().refuses_drain(host) {
            if self.cluster.hosts.note_refusal(host, &refusal) {
                self.out.event(Event::HostStays {
                    name: self.cluster.hosts.name(host),
                    why,
                    refusal,
                });
            }
            return;
        }
        self.moves.want(MoveRequest::of_host(host, is_urgent));
    }

    /// The host is drained already, and has no ranks.
    fn is_drained(&self, host: HostIndex) -> bool {
        self.cluster.hosts.drains(host) && !self.cluster.ranks.is_any_on(host)
    }
}
