//! The watch of local managers over each other, as far as central has to do with it.

use super::event::Event;
use super::interface::{CentralEffect, HostIndex};
use super::job_state::Central;
use super::phase::CentralPhase;
use crate::detector::{WatchEffect, WatchOrder, WatchReport};
use crate::manager_messages::{Time, ToLocal};

impl Central {
    /// A host that takes part has said something: another one probes it from now on.
    pub(super) fn watch_host(&mut self, host: HostIndex, effects: &mut Vec<CentralEffect>) {
        let is_ending = self.phase == CentralPhase::Ending;
        let Some(watch) = &mut self.watch else {
            return;
        };
        if !is_ending && !self.hosts.is_done(host) && !watch.members().contains(&host) {
            let mut told = Vec::new();
            watch.join(host, &mut told);
            self.watch_effects(told, effects);
        }
    }

    /// Hosts that take part no more are not probed any longer.
    pub(super) fn end_watch(&mut self, effects: &mut Vec<CentralEffect>) {
        let mut told = Vec::new();
        for host in self.hosts.take_ended() {
            if let Some(watch) = self.watch.as_mut().filter(|_| self.hosts.is_done(host)) {
                watch.leave(host, &mut told);
            }
        }
        self.watch_effects(told, effects);
    }

    /// A local manager tells of its watch over other hosts.
    pub(super) fn watch_report(
        &mut self,
        now: Time,
        host: HostIndex,
        report: WatchReport,
        effects: &mut Vec<CentralEffect>,
    ) {
        let mut told = Vec::new();
        match (report, &mut self.watch) {
            (
                WatchReport::Suspect {
                    host: other,
                    failure,
                },
                Some(watch),
            ) => {
                watch.suspect(now, (host, other), failure, &mut told);
            }
            (WatchReport::Alive { number }, Some(watch)) => {
                watch.alive(now, host, number, &mut told);
            }
            (WatchReport::AskRank(rank), Some(_)) if rank.0 < self.ranks.count() => {
                let order = WatchOrder::RankOn(rank, self.ranks.host_of(rank));
                effects.push(CentralEffect::Send(host, ToLocal::Watch(order)));
            }
            _ => {}
        }
        self.watch_effects(told, effects);
    }

    /// Looks for answers that are overdue.
    pub(super) fn watch_tick(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let mut told = Vec::new();
        if let Some(watch) = &mut self.watch {
            watch.tick(now, &mut told);
        }
        self.watch_effects(told, effects);
    }

    /// Central was suspended and could receive no message meanwhile.
    pub(super) fn was_suspended(&mut self, now: Time) {
        self.hosts.was_suspended(now);
        if let Some(watch) = &mut self.watch {
            watch.was_suspended(now);
        }
    }

    fn watch_effects(&self, told: Vec<WatchEffect>, effects: &mut Vec<CentralEffect>) {
        let name = |host| self.hosts.name(host);
        for effect in told {
            let event = match effect {
                WatchEffect::Watch(host, hosts) => {
                    let order = ToLocal::Watch(WatchOrder::Watch(hosts));
                    effects.push(CentralEffect::Send(host, order));
                    continue;
                }
                WatchEffect::Ask(host, number) => {
                    let order = ToLocal::Watch(WatchOrder::Ask { number });
                    effects.push(CentralEffect::Send(host, order));
                    continue;
                }
                // The end of its lease was told, and that it is reachable again is.
                WatchEffect::Answers(host) if self.hosts.is_silent(host) => continue,
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
            effects.push(CentralEffect::Event(event));
        }
    }
}
