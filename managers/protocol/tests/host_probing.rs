//! Probes of local managers, and central's choice of who probes whom.

use proptest::prelude::*;
use rejoin_channel_table::{Generation, Incarnation, Rank};
use rejoin_managers_protocol::detector::{
    Detector, DetectorSettings, HostWatch, ProbeDuty, ProbeFailure, ProbeMessage, Prober,
    WatchEffect, WatchOrder, WatchReport,
};
use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::{HostMessage, Time, ToCentral, ToLocal};
use rejoin_wire::ToManager;
use std::collections::{BTreeMap, BTreeSet};

fn settings(detector: Detector) -> DetectorSettings {
    DetectorSettings {
        detector,
        interval: 100,
        timeout: 50,
    }
}

fn at(millis: u64) -> Time {
    Time(millis * 1_000_000)
}

fn step(core: &mut Local, millis: u64, input: LocalInput) -> Vec<LocalEffect> {
    let mut effects = Vec::new();
    core.step(at(millis), input, &mut effects);
    effects
}

fn waits(ranks: &[u32], any: bool) -> LocalInput {
    let ranks = ranks.iter().copied().map(Rank).collect();
    let message = ToManager::Waits { ranks, any };
    LocalInput::FromRank(Rank(0), Incarnation(0), 1, message)
}

fn order(order: WatchOrder) -> LocalInput {
    LocalInput::Central(ToLocal::Watch(order))
}

fn probe(host: usize, number: u64) -> LocalEffect {
    LocalEffect::Probe(host, ProbeMessage::Probe { number })
}

fn suspect(host: usize, failure: ProbeFailure) -> LocalEffect {
    let report = WatchReport::Suspect { host, failure };
    LocalEffect::Central(ToCentral::Host(HostMessage::Watch(report)))
}

#[test]
fn a_sporadic_detector_probes_the_host_of_an_awaited_rank_and_nothing_else() {
    let mut core = Local::new();
    core.use_probes(settings(Detector::Sporadic));
    assert_eq!(step(&mut core, 0, order(WatchOrder::Watch(vec![2]))), []);
    // Nobody waits.
    assert_eq!(core.deadline(), None);
    let asks = |rank| {
        LocalEffect::Central(ToCentral::Host(HostMessage::Watch(
            WatchReport::RequestRank(Rank(rank)),
        )))
    };
    assert_eq!(step(&mut core, 10, waits(&[7], false)), [asks(7)]);
    assert_eq!(
        step(&mut core, 11, waits(&[7], false)),
        [],
        "it was asked for"
    );
    let found = order(WatchOrder::RankOn(Rank(7), 3));
    assert_eq!(step(&mut core, 12, found), [probe(3, 1)]);
    let answer = LocalInput::Probed(3, ProbeMessage::Answer { number: 1 });
    assert_eq!(step(&mut core, 13, answer), []);
    assert_eq!(
        step(&mut core, 50, waits(&[7], false)),
        [],
        "it has answered just now"
    );
    // Any rank may end this wait: the successor in the ring is probed.
    assert_eq!(step(&mut core, 60, waits(&[], true)), [probe(2, 2)]);
    assert_eq!(step(&mut core, 113, waits(&[7], false)), [probe(3, 3)]);
    let silent = suspect(2, ProbeFailure::Silent);
    assert_eq!(step(&mut core, 114, LocalInput::Tick), [silent]);
    let refused = LocalInput::NoConnection(3, ProbeFailure::Refused);
    assert_eq!(step(&mut core, 120, refused), []);
    let refused = suspect(3, ProbeFailure::Refused);
    assert_eq!(step(&mut core, 163, LocalInput::Tick), [refused]);
    assert_eq!(step(&mut core, 300, waits(&[7], true)), [], "central knows");
    // Ranks may have moved since: central is asked again.
    let restore = ToLocal::Restore {
        generation: Generation(1),
        regions: None,
        from: None,
        ranks: Vec::new(),
        moved: Vec::new(),
    };
    step(&mut core, 310, LocalInput::Central(restore));
    assert_eq!(step(&mut core, 320, waits(&[7], false)), [asks(7)]);
}

#[test]
fn a_manager_that_was_late_itself_waits_once_more() {
    let mut prober = Prober::new(settings(Detector::Ring));
    let mut duties = Vec::new();
    prober.watch(at(0), [4]);
    prober.tick(at(0), &mut duties);
    assert_eq!(duties, [ProbeDuty::Send(4, 1)]);
    duties.clear();
    // It was suspended for a second: the answer may be there and not read yet.
    prober.tick(at(1000), &mut duties);
    assert_eq!(duties, []);
    prober.tick(at(1050), &mut duties);
    assert_eq!(duties, [ProbeDuty::Suspect(4, ProbeFailure::Silent)]);
}

#[test]
fn a_host_counts_as_suspected_though_the_one_that_missed_it_has_left() {
    let mut watch = HostWatch::new(settings(Detector::Ring));
    let mut effects = Vec::new();
    (0..3).for_each(|host| watch.join(host, &mut effects));
    let failure = ProbeFailure::Silent;
    watch.suspect(at(0), (0, 1), failure, &mut effects);
    watch.leave(0, &mut effects);
    watch.tick(at(49), &mut effects);
    let suspected = WatchEffect::Suspected {
        host: 1,
        by: 0,
        failure,
    };
    assert!(!effects.contains(&suspected), "{effects:?}");
    watch.tick(at(50), &mut effects);
    assert_eq!(effects.last(), Some(&suspected));
    assert_eq!(watch.deadline(), None);
}

#[test]
fn a_link_counts_as_lost_when_a_living_host_is_missed_twice_and_is_tried_again_later() {
    let mut watch = HostWatch::new(settings(Detector::Ring));
    let mut effects = Vec::new();
    (0..2).for_each(|host| watch.join(host, &mut effects));
    let miss = |watch: &mut HostWatch, millis, number| {
        let mut effects = Vec::new();
        watch.suspect(at(millis), (0, 1), ProbeFailure::Silent, &mut effects);
        assert!(
            effects.contains(&WatchEffect::Ask(1, number)),
            "{effects:?}"
        );
        effects.clear();
        watch.alive(at(millis + 10), 1, number, &mut effects);
        // A suspected host watches no other meanwhile.
        effects.retain(|effect| !matches!(effect, WatchEffect::Watch(1, _)));
        effects
    };
    let again = WatchEffect::Watch(0, vec![1]);
    assert_eq!(miss(&mut watch, 0, 1), std::slice::from_ref(&again));
    let lost = WatchEffect::LinkLost {
        from: 0,
        to: 1,
        failure: ProbeFailure::Silent,
    };
    let unwatched = WatchEffect::Watch(0, Vec::new());
    assert_eq!(miss(&mut watch, 100, 2), [lost, unwatched]);
    let (due, mut effects) = (watch.deadline().expect("a time"), Vec::new());
    watch.tick(due, &mut effects);
    assert_eq!(effects, [again], "another attempt, and no other report");
}

/// What may happen to central's watch.
#[derive(Debug, Clone, Copy)]
enum Act {
    Join(usize),
    Leave(usize),
    Suspect(usize, usize),
    Alive(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let host = || 0usize..7;
    prop_oneof![
        3 => host().prop_map(Act::Join),
        1 => host().prop_map(Act::Leave),
        4 => (host(), host()).prop_map(|(by, host)| Act::Suspect(by, host)),
        4 => host().prop_map(Act::Alive),
    ]
}

/// The rule by which hosts get watchers, as a search over all of them.
#[derive(Default)]
struct Rule {
    members: BTreeSet<usize>,
    by: BTreeMap<usize, BTreeSet<usize>>,
    missed: BTreeMap<(usize, usize), u32>,
}

impl Rule {
    fn watcher(&self, host: usize) -> Option<usize> {
        let before = self.members.range(..host).rev();
        let mut before = before.chain(self.members.range(host + 1..).rev());
        let can = |watcher: &&usize| {
            !self.by.contains_key(watcher)
                && self
                    .missed
                    .get(&(**watcher, host))
                    .is_none_or(|missed| *missed < 2)
                && self.by.get(&host).is_none_or(|by| !by.contains(watcher))
        };
        before.find(can).copied()
    }

    fn apply(&mut self, act: Act) {
        match act {
            Act::Join(host) => _ = self.members.insert(host),
            Act::Leave(host) => {
                self.members.remove(&host);
                self.by.remove(&host);
                self.by.values_mut().for_each(|by| _ = by.remove(&host));
                self.missed
                    .retain(|(from, to), _| *from != host && *to != host);
            }
            Act::Suspect(by, host) => {
                let both = self.members.contains(&by) && self.members.contains(&host);
                let is_lost = self
                    .missed
                    .get(&(by, host))
                    .is_some_and(|missed| *missed > 1);
                if both && by != host && !is_lost {
                    self.by.entry(host).or_default().insert(by);
                }
            }
            Act::Alive(host) => {
                for by in self.by.remove(&host).unwrap_or_default() {
                    *self.missed.entry((by, host)).or_default() += 1;
                }
            }
        }
    }
}

proptest! {
    /// Every host has the nearest watcher that can be, and watchers know it.
    #[test]
    fn watchers_are_those_of_the_rule(acts in proptest::collection::vec(act(), 1..60)) {
        let mut watch = HostWatch::new(settings(Detector::Ring));
        let (mut rule, mut told) = (Rule::default(), BTreeMap::new());
        let mut asked = BTreeMap::new();
        for one in acts {
            let mut effects = Vec::new();
            match one {
                Act::Join(host) => watch.join(host, &mut effects),
                Act::Leave(host) => watch.leave(host, &mut effects),
                Act::Suspect(by, host) => {
                    watch.suspect(at(0), (by, host), ProbeFailure::Silent, &mut effects);
                }
                Act::Alive(host) => {
                    let number = asked.get(&host).copied().unwrap_or(0);
                    watch.alive(at(0), host, number, &mut effects);
                }
            }
            rule.apply(one);
            for effect in effects {
                match effect {
                    WatchEffect::Watch(host, hosts) => _ = told.insert(host, hosts),
                    WatchEffect::Ask(host, number) => _ = asked.insert(host, number),
                    _ => {}
                }
            }
            if let Act::Leave(host) = one {
                // Its manager has ended; another one that joins later knows nothing.
                told.remove(&host);
            }
            for host in &rule.members {
                prop_assert_eq!(watch.watcher(*host), rule.watcher(*host), "of {}", host);
                let watched = rule.members.iter().filter(|h| rule.watcher(**h) == Some(*host));
                let watched: Vec<usize> = watched.copied().collect();
                let told = told.get(host).cloned().unwrap_or_default();
                prop_assert_eq!(told, watched, "by {}", host);
            }
        }
    }
}
