//! The probes of one local manager.

use super::{Detector, DetectorSettings, ProbeFailure};
use crate::manager_messages::Time;
use std::collections::{BTreeMap, BTreeSet};

/// A duty of the local manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeDuty {
    /// Send a probe of this number to a host.
    Send(usize, u64),
    /// Tell central that a host has not answered.
    Suspect(usize, ProbeFailure),
}

/// A probe that is not answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OpenProbe {
    number: u64,
    due: Time,
    failure: ProbeFailure,
    /// This manager was late itself, and waits once more.
    extended: bool,
}

/// Which hosts a local manager probes, and which have not answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prober {
    settings: DetectorSettings,
    /// The hosts that central has ordered to probe.
    watched: BTreeSet<usize>,
    open: BTreeMap<usize, OpenProbe>,
    /// Central knows that these do not answer, and has not settled that.
    suspected: BTreeSet<usize>,
    /// When hosts that ranks wait for have answered last.
    answered: BTreeMap<usize, Time>,
    next: Time,
    number: u64,
}

impl Prober {
    /// A prober that has no host to probe.
    #[must_use]
    pub fn new(settings: DetectorSettings) -> Prober {
        Prober {
            settings,
            watched: BTreeSet::new(),
            open: BTreeMap::new(),
            suspected: BTreeSet::new(),
            answered: BTreeMap::new(),
            next: Time(0),
            number: 0,
        }
    }

    fn is_periodic(&self) -> bool {
        self.settings.detector == Detector::Ring
    }

    /// The hosts that central has ordered to probe.
    #[must_use]
    pub fn watched(&self) -> &BTreeSet<usize> {
        &self.watched
    }

    /// Central orders which hosts to probe. New ones are probed at once.
    pub fn watch(&mut self, now: Time, hosts: impl IntoIterator<Item = usize>) {
        let hosts: BTreeSet<usize> = hosts.into_iter().collect();
        let is_settled = |host: &usize| self.suspected.contains(host);
        if hosts.difference(&self.watched).next().is_some() || hosts.iter().any(is_settled) {
            self.next = now;
        }
        self.suspected.clear();
        self.watched = hosts;
        let watched = &self.watched;
        if self.settings.detector == Detector::Ring {
            self.open.retain(|host, _| watched.contains(host));
        }
    }

    /// A rank waits for one on this host; without a host, for any rank.
    pub fn wait_for(&mut self, now: Time, host: Option<usize>, duties: &mut Vec<ProbeDuty>) {
        let hosts = match host {
            Some(host) => vec![host],
            None => self.watched.iter().copied().collect(),
        };
        for host in hosts {
            let at = self.answered.get(&host).copied();
            let is_due = at.is_none_or(|at| at.plus_millis(self.settings.interval) <= now);
            if is_due && !self.is_periodic() {
                self.probe(now, host, duties);
            }
        }
    }

    fn probe(&mut self, now: Time, host: usize, duties: &mut Vec<ProbeDuty>) {
        if self.open.contains_key(&host) || self.suspected.contains(&host) {
            return;
        }
        self.number += 1;
        let probe = OpenProbe {
            number: self.number,
            due: now.plus_millis(self.settings.timeout),
            failure: ProbeFailure::Silent,
            extended: false,
        };
        self.open.insert(host, probe);
        duties.push(ProbeDuty::Send(host, self.number));
    }

    /// A host has answered the probe of this number.
    pub fn answered(&mut self, now: Time, host: usize, number: u64) {
        let open = self.open.get(&host);
        if open.is_some_and(|probe| probe.number == number) {
            self.open.remove(&host);
            if !self.is_periodic() {
                self.answered.insert(host, now);
            }
        }
    }

    /// The driver has no connection to a host, for this reason. Another attempt may succeed.
    pub fn failed(&mut self, host: usize, failure: ProbeFailure) {
        if let Some(probe) = self.open.get_mut(&host) {
            probe.failure = failure;
        }
    }

    /// When [`Prober::tick`] has something.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let open = self.open.values().map(|probe| probe.due);
        let probes = self.is_periodic() && !self.watched.is_empty();
        open.chain(probes.then_some(self.next)).min()
    }

    /// Looks at the clock. Answers that have arrived must have been passed on before.
    pub fn tick(&mut self, now: Time, duties: &mut Vec<ProbeDuty>) {
        let timeout = self.settings.timeout;
        let mut suspects = Vec::new();
        for (host, probe) in &mut self.open {
            if probe.due > now {
                continue;
            }
            // Whoever was suspended or got no processor time may have missed an answer.
            let is_late = probe.due.plus_millis(timeout / 2) <= now;
            if is_late && !std::mem::replace(&mut probe.extended, true) {
                probe.due = now.plus_millis(timeout);
            } else {
                suspects.push((*host, probe.failure));
            }
        }
        for (host, failure) in suspects {
            self.open.remove(&host);
            self.suspected.insert(host);
            duties.push(ProbeDuty::Suspect(host, failure));
        }
        if self.is_periodic() && self.next <= now {
            self.next = now.plus_millis(self.settings.interval);
            for host in self.watched.clone() {
                self.probe(now, host, duties);
            }
        }
    }
}
