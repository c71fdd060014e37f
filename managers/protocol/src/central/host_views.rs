//! Which condition each host is in, and news of that.

use super::event::Event;
use super::host_condition::{HostCondition, HostView};
use super::interface::{CentralEffect, HostIndex};
use super::job_state::Central;

impl Central {
    /// The hosts as they are now, in their order.
    #[must_use]
    pub fn host_views(&self) -> Vec<HostView> {
        let has_ranks = self.ranks.hosts_with_ranks(self.hosts.len());
        let before = self.failover.iter().flat_map(|failover| &failover.lost);
        let before: Vec<HostIndex> = before.copied().collect();
        let hosts = has_ranks.into_iter().enumerate();
        let view = |(host, has_ranks)| {
            let (condition, why) = match before.contains(&host) {
                true => (
                    HostCondition::Lost,
                    Some("it was lost in an earlier launch".into()),
                ),
                false => self.hosts.condition(host, has_ranks),
            };
            HostView {
                name: self.hosts.name(host),
                condition,
                why,
                lan: self.hosts.lan(host),
            }
        };
        hosts.map(view).collect()
    }

    /// Tells the user which hosts are in another condition than the user knows. At the end of the
    /// job, all hosts leave it, which is no news.
    pub(super) fn tell_host_conditions(&mut self, effects: &mut Vec<CentralEffect>) {
        if !self.hosts.take_changed() || self.end.verdict().is_some() {
            return;
        }
        for (host, view) in self.host_views().into_iter().enumerate() {
            if self.hosts.tell_condition(host, view.condition) {
                effects.push(CentralEffect::Event(Event::HostChanged(view)));
            }
        }
    }
}
