//! What a host does to probe other hosts' managers, and to answer them.

use super::host_probes::HostProbes;
use super::host_state::Local;
use super::inputs::LocalEffect;
use crate::detector::{
    DetectorSettings, ProbeDuty, ProbeFailure, ProbeMessage, WatchOrder, WatchReport,
};
use crate::manager_messages::{HostMessage, Time, ToLocal};
use rejoin_channel_table::Rank;
use rejoin_wire::MOST_AWAITED;

impl Local {
    /// The local managers of this job probe each other.
    pub fn use_probes(&mut self, settings: DetectorSettings) {
        self.probes = Some(HostProbes::new(settings));
    }

    /// An order of central that concerns the watch over other hosts.
    pub(super) fn watch_order(
        &mut self,
        now: Time,
        order: WatchOrder,
        effects: &mut Vec<LocalEffect>,
    ) {
        match (order, &mut self.probes) {
            (WatchOrder::Ask { number }, _) => {
                self.tell(HostMessage::Watch(WatchReport::Alive { number }), effects);
            }
            (WatchOrder::Watch(hosts), Some(probes)) => {
                // What is due now comes with the next look at the clock, after answers.
                // Central that was started again has not received earlier questions.
                probes.forget_places();
                probes.prober.watch(now, hosts);
            }
            (WatchOrder::RankOn(rank, host), Some(probes)) => {
                probes.rank_on(rank, host);
                let mut duties = Vec::new();
                probes.prober.wait_for(now, Some(host), &mut duties);
                self.probe_duties(duties, effects);
            }
            _ => {}
        }
    }

    /// A rank of this host has been waiting for these for a while, or for any rank.
    pub(super) fn rank_waits(
        &mut self,
        now: Time,
        ranks: Vec<Rank>,
        any: bool,
        effects: &mut Vec<LocalEffect>,
    ) {
        let Some(probes) = &mut self.probes else {
            return;
        };
        let (mut duties, mut asked) = (Vec::new(), Vec::new());
        let is_elsewhere = |rank: &Rank| self.processes.of(*rank).is_none();
        for rank in ranks.into_iter().take(MOST_AWAITED).filter(is_elsewhere) {
            match probes.place_of(rank) {
                (Some(host), _) => probes.prober.wait_for(now, Some(host), &mut duties),
                (None, true) => asked.push(rank),
                (None, false) => {}
            }
        }
        if any {
            probes.prober.wait_for(now, None, &mut duties);
        }
        for rank in asked {
            self.tell(HostMessage::Watch(WatchReport::AskRank(rank)), effects);
        }
        self.probe_duties(duties, effects);
    }

    /// After some orders, ranks are on other hosts.
    pub(super) fn places_change(&mut self, order: &ToLocal) {
        if let (
            Some(probes),
            ToLocal::Start { .. } | ToLocal::Restore { .. } | ToLocal::Update { .. },
        ) = (&mut self.probes, order)
        {
            probes.forget_places();
        }
    }

    /// The manager of another host says this.
    pub(super) fn probed(
        &mut self,
        now: Time,
        host: usize,
        message: ProbeMessage,
        effects: &mut Vec<LocalEffect>,
    ) {
        match (message, &mut self.probes) {
            (ProbeMessage::Probe { number }, _) => {
                effects.push(LocalEffect::Probe(host, ProbeMessage::Answer { number }));
            }
            (ProbeMessage::Answer { number }, Some(probes)) => {
                probes.prober.answered(now, host, number);
            }
            _ => {}
        }
    }

    /// The driver has no connection to the manager of a host.
    pub(super) fn no_connection(&mut self, host: usize, failure: ProbeFailure) {
        if let Some(probes) = &mut self.probes {
            probes.prober.failed(host, failure);
        }
    }

    /// Looks at the clock for the probes.
    pub(super) fn probe_tick(&mut self, now: Time, effects: &mut Vec<LocalEffect>) {
        let mut duties = Vec::new();
        let is_over = self.is_over();
        if let Some(probes) = self.probes.as_mut().filter(|_| !is_over) {
            probes.prober.tick(now, &mut duties);
        }
        self.probe_duties(duties, effects);
    }

    fn probe_duties(&self, duties: Vec<ProbeDuty>, effects: &mut Vec<LocalEffect>) {
        for duty in duties {
            match duty {
                ProbeDuty::Send(host, number) => {
                    effects.push(LocalEffect::Probe(host, ProbeMessage::Probe { number }));
                }
                ProbeDuty::Suspect(host, failure) => {
                    let suspect = WatchReport::Suspect { host, failure };
                    self.tell(HostMessage::Watch(suspect), effects);
                }
            }
        }
    }
}
