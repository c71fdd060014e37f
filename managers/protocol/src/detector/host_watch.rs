//! Central's part: which local manager probes which, and what is behind a missing answer.
//!
//! Each host has one watcher: the nearest host before it in the ring of numbers that is not
//! suspected itself and can reach it. So the ring closes around hosts that are suspected, lost or
//! have left, around broken links between two hosts, and takes in hosts that join. Two neighbours
//! that are lost at once are both noticed: the watcher of the first one becomes that of the second.
//!
//! A suspicion is a question, not a verdict. Central asks the suspected host itself. One that
//! answers is alive. If that repeats, the link between the two hosts is lost, which is reported
//! once. One that does not answer counts as suspected until its lease runs out.

use super::{DetectorSettings, ProbeFailure};
use crate::manager_messages::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Milliseconds after which a lost link between two hosts is tried again, at least.
const FORGET: u64 = 60_000;

/// What central does for its watch over hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEffect {
    /// Order a host to probe these.
    Watch(usize, Vec<usize>),
    /// Ask a host itself: the question of this number.
    Ask(usize, u64),
    /// Tell the user that a host answers neither another host nor central.
    Suspected {
        /// The host.
        host: usize,
        /// The host that has probed it.
        by: usize,
        /// What became of the probe.
        failure: ProbeFailure,
    },
    /// Tell the user that a suspected host answers.
    Answers(usize),
    /// Tell the user that a host can't reach another one, which is alive.
    LinkLost {
        /// The host that has probed.
        from: usize,
        /// The host that it can't reach.
        to: usize,
        /// What became of the probe.
        failure: ProbeFailure,
    },
}

/// A host that has not answered a probe.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Suspicion {
    /// The host that has probed it first, which may have left since.
    first: (usize, ProbeFailure),
    /// The hosts that have probed it.
    by: BTreeMap<usize, ProbeFailure>,
    /// Number of central's question.
    number: u64,
    /// When its answer is overdue; `None`: it is, and the user knows.
    due: Option<Time>,
}

/// A link on which a host that is alive has not answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Doubt {
    /// An answer is missing again: the link is not used.
    is_lost: bool,
    /// The link counts as sound again.
    until: Time,
}

/// Central's watch over the hosts of a job whose local managers probe each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostWatch {
    settings: DetectorSettings,
    members: BTreeSet<usize>,
    /// The host that probes a host.
    watchers: BTreeMap<usize, usize>,
    /// The hosts that a host probes.
    duties: BTreeMap<usize, BTreeSet<usize>>,
    suspicions: BTreeMap<usize, Suspicion>,
    /// By the host that has probed and the probed one.
    doubts: BTreeMap<(usize, usize), Doubt>,
    /// Lost links that the user knows.
    told: BTreeSet<(usize, usize)>,
    number: u64,
}

impl HostWatch {
    /// A watch over no host.
    #[must_use]
    pub fn new(settings: DetectorSettings) -> HostWatch {
        HostWatch {
            settings,
            members: BTreeSet::new(),
            watchers: BTreeMap::new(),
            duties: BTreeMap::new(),
            suspicions: BTreeMap::new(),
            doubts: BTreeMap::new(),
            told: BTreeSet::new(),
            number: 0,
        }
    }

    /// The host that probes this one.
    #[must_use]
    pub fn watcher(&self, host: usize) -> Option<usize> {
        self.watchers.get(&host).copied()
    }

    /// The hosts that take part.
    #[must_use]
    pub fn members(&self) -> &BTreeSet<usize> {
        &self.members
    }

    /// The host has not answered another one, and that is not settled.
    #[must_use]
    pub fn is_suspected(&self, host: usize) -> bool {
        self.suspicions.contains_key(&host)
    }

    /// A host has a local manager that has said something: it is probed from now on.
    pub fn join(&mut self, host: usize, effects: &mut Vec<WatchEffect>) {
        if self.members.insert(host) {
            self.assign(host, BTreeSet::new(), effects);
        }
    }

    /// A host is lost, or has left.
    pub fn leave(&mut self, host: usize, effects: &mut Vec<WatchEffect>) {
        if !self.members.remove(&host) {
            return;
        }
        self.doubts
            .retain(|(from, to), _| ![*from, *to].contains(&host));
        self.suspicions.remove(&host);
        for suspicion in self.suspicions.values_mut() {
            suspicion.by.remove(&host);
        }
        let orphans: Vec<usize> = self.duties.remove(&host).into_iter().flatten().collect();
        let mut changed = BTreeSet::new();
        if let Some(watcher) = self.watchers.remove(&host) {
            self.unwatch(watcher, host);
            changed.insert(watcher);
        }
        for orphan in orphans {
            self.watchers.remove(&orphan);
            self.assign(orphan, std::mem::take(&mut changed), effects);
        }
        self.assign(host, changed, effects);
    }

    /// A host says that another one has not answered it.
    pub fn suspect(
        &mut self,
        now: Time,
        (by, host): (usize, usize),
        failure: ProbeFailure,
        effects: &mut Vec<WatchEffect>,
    ) {
        let both = self.members.contains(&by) && self.members.contains(&host) && by != host;
        if !both || self.is_lost(by, host) {
            return;
        }
        if let Some(open) = self.suspicions.get_mut(&host) {
            open.by.insert(by, failure);
        } else {
            self.number += 1;
            let suspicion = Suspicion {
                first: (by, failure),
                by: BTreeMap::from([(by, failure)]),
                number: self.number,
                due: Some(now.plus_millis(self.settings.timeout)),
            };
            self.suspicions.insert(host, suspicion);
            effects.push(WatchEffect::Ask(host, self.number));
        }
        self.assign(host, BTreeSet::new(), effects);
    }

    /// A host has answered central's question of this number.
    pub fn alive(&mut self, now: Time, host: usize, number: u64, effects: &mut Vec<WatchEffect>) {
        let open = self.suspicions.get(&host);
        if open.is_none_or(|suspicion| suspicion.number != number) {
            return;
        }
        let Some(Suspicion { by, due, .. }) = self.suspicions.remove(&host) else {
            return;
        };
        if due.is_none() {
            // Central did not reach it either: that says nothing about a link.
            effects.push(WatchEffect::Answers(host));
        } else {
            for (from, failure) in &by {
                self.doubt(now, (*from, host), *failure, effects);
            }
        }
        self.assign(host, by.into_keys().collect(), effects);
    }

    /// A host that is alive has not answered this one. Once may be chance; the link is lost if it
    /// happens again.
    fn doubt(
        &mut self,
        now: Time,
        (from, to): (usize, usize),
        failure: ProbeFailure,
        effects: &mut Vec<WatchEffect>,
    ) {
        let until = now.plus_millis(FORGET.max(10 * self.settings.interval));
        let is_lost = self.doubts.contains_key(&(from, to));
        self.doubts.insert((from, to), Doubt { is_lost, until });
        if is_lost && self.told.insert((from, to)) {
            effects.push(WatchEffect::LinkLost { from, to, failure });
        }
    }

    /// Central was suspended: hosts may have answered meanwhile.
    pub fn was_suspended(&mut self, now: Time) {
        let due = now.plus_millis(self.settings.timeout);
        let open = self.suspicions.values_mut();
        open.filter_map(|s| s.due.as_mut()).for_each(|at| *at = due);
    }

    /// When [`HostWatch::tick`] has something.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let answers = self.suspicions.values().filter_map(|s| s.due);
        answers.chain(self.doubts.values().map(|d| d.until)).min()
    }

    /// Looks at the clock. Answers that have arrived must have been passed on before.
    pub fn tick(&mut self, now: Time, effects: &mut Vec<WatchEffect>) {
        for (host, suspicion) in &mut self.suspicions {
            if suspicion.due.take_if(|due| *due <= now).is_some() {
                let (by, failure) = suspicion.first;
                effects.push(WatchEffect::Suspected {
                    host: *host,
                    by,
                    failure,
                });
            }
        }
        let over: Vec<_> = self.doubts.extract_if(.., |_, d| d.until <= now).collect();
        for ((from, to), doubt) in over {
            if doubt.is_lost {
                self.assign(to, BTreeSet::from([from]), effects);
            }
        }
    }

    fn is_lost(&self, from: usize, to: usize) -> bool {
        self.doubts.get(&(from, to)).is_some_and(|d| d.is_lost)
    }

    /// The members before a host, the nearest first.
    fn before(&self, host: usize) -> impl Iterator<Item = usize> {
        let lower = self.members.range(..host).rev();
        lower.chain(self.members.range(host + 1..).rev()).copied()
    }

    fn nearest_watcher(&self, host: usize) -> Option<usize> {
        let by = self.suspicions.get(&host).map(|suspicion| &suspicion.by);
        let can = |watcher: &usize| {
            !self.suspicions.contains_key(watcher)
                && !self.is_lost(*watcher, host)
                && by.is_none_or(|by| !by.contains_key(watcher))
        };
        self.before(host).find(can)
    }

    /// This host watches the next one whatever happens to others.
    fn can_watch_next(&self, host: usize) -> bool {
        let mut doubts = self.doubts.range((host, 0)..=(host, usize::MAX));
        let suspects = |suspicion: &Suspicion| suspicion.by.contains_key(&host);
        !self.suspicions.contains_key(&host)
            && !doubts.any(|(_, doubt)| doubt.is_lost)
            && !self.suspicions.values().any(suspects)
    }

    fn unwatch(&mut self, watcher: usize, host: usize) {
        if let Some(duties) = self.duties.get_mut(&watcher) {
            duties.remove(&host);
        }
    }

    /// Something has changed at this host: gives it and those behind it their watchers, and tells
    /// watchers whose duties have changed, and `changed`.
    fn assign(
        &mut self,
        host: usize,
        mut changed: BTreeSet<usize>,
        effects: &mut Vec<WatchEffect>,
    ) {
        let mut next = host;
        for _ in 0..self.members.len() {
            let from_here = self.members.range(next..).next();
            let Some(&member) = from_here.or(self.members.first()) else {
                break;
            };
            next = member + 1;
            let watcher = self.nearest_watcher(member);
            let before = match watcher {
                Some(watcher) => self.watchers.insert(member, watcher),
                None => self.watchers.remove(&member),
            };
            if before != watcher {
                if let Some(before) = before {
                    self.unwatch(before, member);
                    changed.insert(before);
                }
                if let Some(watcher) = watcher {
                    self.duties.entry(watcher).or_default().insert(member);
                    changed.insert(watcher);
                }
            } else if member != host && self.can_watch_next(member) {
                break;
            }
        }
        for watcher in changed {
            if self.members.contains(&watcher) {
                let duties = self.duties.get(&watcher);
                let duties = duties.into_iter().flatten().copied().collect();
                effects.push(WatchEffect::Watch(watcher, duties));
            }
        }
    }
}
