//! What a host does to probe other hosts' managers, and to answer them.

use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use crate::detector::{ProbeDuty, ProbeFailure, ProbeMessage, WatchOrder, WatchReport};
use crate::handler_keys::handler;
use crate::manager_messages::{HostMessage, ToLocal};
use rejoin_channel_table::Rank;
use rejoin_wire::MOST_AWAITED;

handler! {
    /// Probes of other hosts, and answers to theirs.
    pub(super) ProbeHandler of HostParts {
        changes { probes, out }
        reads { course, processes }
    }
}

impl ProbeHandler<'_> {
    /// An order of central that concerns the watch over other hosts.
    pub fn watch_order(&mut self, order: WatchOrder) {
        match order {
            WatchOrder::Ask { number } => {
                let alive = WatchReport::Alive { number };
                self.out.report(HostMessage::Watch(alive));
            }
            WatchOrder::Watch(hosts) => {
                if let Some(probes) = self.probes.as_mut() {
                    // What is due now comes with the next look at the clock, after answers.
                    // Central that was started again has not received earlier questions.
                    probes.forget_places();
                    probes.prober.watch(self.out.now, hosts);
                }
            }
            WatchOrder::RankOn(rank, host) => {
                let mut duties = Vec::new();
                if let Some(probes) = self.probes.as_mut() {
                    probes.rank_on(rank, host);
                    probes
                        .prober
                        .wait_for(self.out.now, Some(host), &mut duties);
                }
                self.probe_duties(duties);
            }
        }
    }

    /// A rank of this host has been waiting for these for a while, or for any rank.
    pub fn rank_waits(&mut self, ranks: Vec<Rank>, any: bool) {
        let Some(probes) = self.probes.as_mut() else {
            return;
        };
        let (mut duties, mut asked) = (Vec::new(), Vec::new());
        let is_elsewhere = |rank: &Rank| self.processes.of(*rank).is_none();
        for rank in ranks.into_iter().take(MOST_AWAITED).filter(is_elsewhere) {
            match probes.place_of(rank) {
                (Some(host), _) => probes
                    .prober
                    .wait_for(self.out.now, Some(host), &mut duties),
                (None, true) => asked.push(rank),
                (None, false) => {}
            }
        }
        if any {
            probes.prober.wait_for(self.out.now, None, &mut duties);
        }
        for rank in asked {
            self.out
                .report(HostMessage::Watch(WatchReport::RequestRank(rank)));
        }
        self.probe_duties(duties);
    }

    /// After some orders, ranks are on other hosts.
    pub fn places_change(&mut self, order: &ToLocal) {
        if let (
            Some(probes),
            ToLocal::Start { .. } | ToLocal::Restore { .. } | ToLocal::Update { .. },
        ) = (self.probes.as_mut(), order)
        {
            probes.forget_places();
        }
    }

    /// The manager of another host says this.
    pub fn probed(&mut self, host: usize, message: ProbeMessage) {
        match message {
            ProbeMessage::Probe { number } => {
                let answer = ProbeMessage::Answer { number };
                self.out.push(LocalEffect::Probe(host, answer));
            }
            ProbeMessage::Answer { number } => {
                if let Some(probes) = self.probes.as_mut() {
                    probes.prober.answered(self.out.now, host, number);
                }
            }
        }
    }

    /// The driver has no connection to the manager of a host.
    pub fn no_connection(&mut self, host: usize, failure: ProbeFailure) {
        if let Some(probes) = self.probes.as_mut() {
            probes.prober.failed(host, failure);
        }
    }

    /// Looks at the clock for the probes.
    pub fn probe_tick(&mut self) {
        let mut duties = Vec::new();
        let is_over = self.course.is_over();
        if let Some(probes) = self.probes.as_mut().filter(|_| !is_over) {
            probes.prober.tick(self.out.now, &mut duties);
        }
        self.probe_duties(duties);
    }

    fn probe_duties(&mut self, duties: Vec<ProbeDuty>) {
        for duty in duties {
            match duty {
                ProbeDuty::Send(host, number) => {
                    self.out
                        .push(LocalEffect::Probe(host, ProbeMessage::Probe { number }));
                }
                ProbeDuty::Suspect(host, failure) => {
                    let suspect = WatchReport::Suspect { host, failure };
                    self.out.report(HostMessage::Watch(suspect));
                }
            }
        }
    }
}
