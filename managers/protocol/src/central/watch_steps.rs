//! The watch of local managers over each other, as far as central has to do with it.

use super::cluster::Cluster;
use super::event::Event;
use super::interface::HostIndex;
use super::out::Out;
use super::phase::CentralPhase;
use crate::detector::{HostWatch, WatchEffect, WatchOrder, WatchReport};
use crate::manager_messages::ToLocal;

/// Keeps the watch of local managers over each other.
pub(super) struct WatchHandler<'a> {
    pub(super) phase: &'a CentralPhase,
    pub(super) cluster: &'a mut Cluster,
    pub(super) watch: &'a mut Option<HostWatch>,
    pub(super) out: &'a mut Out,
}

impl WatchHandler<'_> {
    /// A host that takes part has said something: another one probes it from now on.
    pub(super) fn watch_host(&mut self, host: HostIndex) {
        let is_ending = *self.phase == CentralPhase::Ending;
        let Some(watch) = self.watch else {
            return;
        };
        if !is_ending && !self.cluster.hosts.is_done(host) && !watch.members().contains(&host) {
            let mut told = Vec::new();
            watch.join(host, &mut told);
            self.watch_effects(told);
        }
    }

    /// Hosts that take part no more are not probed any longer.
    pub(super) fn end_watch(&mut self) {
        let mut told = Vec::new();
        for host in self.cluster.hosts.take_ended() {
            if let Some(watch) = self
                .watch
                .as_mut()
                .filter(|_| self.cluster.hosts.is_done(host))
            {
                watch.leave(host, &mut told);
            }
        }
        self.watch_effects(told);
    }

    /// A local manager tells of its watch over other hosts.
    pub(super) fn watch_report(&mut self, host: HostIndex, report: WatchReport) {
        let now = self.out.now;
        let Some(watch) = self.watch.as_mut() else {
            return;
        };
        let mut told = Vec::new();
        match report {
            WatchReport::Suspect {
                host: other,
                failure,
            } => watch.suspect(now, (host, other), failure, &mut told),
            WatchReport::Alive { number } => watch.alive(now, host, number, &mut told),
            WatchReport::RequestRank(rank) => {
                if rank.0 < self.cluster.ranks.count() {
                    let order = WatchOrder::RankOn(rank, self.cluster.ranks.host_of(rank));
                    self.out.send(host, ToLocal::Watch(order));
                }
            }
        }
        self.watch_effects(told);
    }

    /// Looks for answers that are overdue.
    pub(super) fn watch_tick(&mut self) {
        let now = self.out.now;
        let mut told = Vec::new();
        if let Some(watch) = self.watch {
            watch.tick(now, &mut told);
        }
        self.watch_effects(told);
    }

    /// Central was suspended and could receive no message meanwhile.
    pub(super) fn was_suspended(&mut self) {
        let now = self.out.now;
        self.cluster.hosts.was_suspended(now);
        if let Some(watch) = self.watch {
            watch.was_suspended(now);
        }
    }

    fn watch_effects(&mut self, told: Vec<WatchEffect>) {
        let name = |host| self.cluster.hosts.name(host);
        for effect in told {
            let event = match effect {
                WatchEffect::Watch(host, hosts) => {
                    let order = ToLocal::Watch(WatchOrder::Watch(hosts));
                    self.out.send(host, order);
                    continue;
                }
                WatchEffect::Ask(host, number) => {
                    let order = ToLocal::Watch(WatchOrder::Ask { number });
                    self.out.send(host, order);
                    continue;
                }
                // The end of its lease was told, and that it is reachable again is.
                WatchEffect::Answers(host) if self.cluster.hosts.is_silent(host) => continue,
                WatchEffect::Answers(host) => Event::HostAnswers { name: name(host) },
                WatchEffect::Suspected { host, by, failure } => Event::HostSuspected {
                    name: name(host),
                    by: name(by),
                    failure,
                },
                WatchEffect::LinkLost { from, to, failure } => Event::HostLinkLost {
                    from: name(from),
                    to: name(to),
                    failure,
                },
            };
            self.out.event(event);
        }
    }
}
