//! Local managers that probe each other, and central's watch over them, under a model checker.
//! Hosts die, leave and join, and links between two hosts are cut, at any moment and in any order
//! of messages. A message takes no time that a core could measure.
//!
//! `REJOIN_MODELS=soak` takes larger bounds than `full`; otherwise they are smaller.

use rejoin_managers_protocol::detector::{
    Detector, DetectorSettings, HostWatch, ProbeDuty, ProbeFailure, Prober, WatchEffect,
};
use rejoin_managers_protocol::manager_messages::Time;
use rejoin_tests::models::{full, soak, tell};
use stateright::{Checker, Model, Property};
use std::collections::BTreeSet;
use std::time::Instant;

/// Milliseconds.
const SETTINGS: DetectorSettings = DetectorSettings {
    detector: Detector::Ring,
    interval: 10,
    timeout: 10,
};

/// A millisecond.
const MILLI: u64 = 1_000_000;

#[derive(Debug, Clone, Copy)]
struct Ring {
    hosts: usize,
    /// Hosts that die.
    deaths: u8,
    /// Links between two hosts that are cut.
    cuts: u8,
    /// Hosts that leave in order.
    leaves: u8,
    /// The last host joins later than the others.
    joins: bool,
    /// Until when things happen.
    until: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Letter {
    Probe(usize, usize, u64),
    Answer(usize, usize, u64),
    Suspect(usize, usize),
    Watch(usize, u64),
    Ask(usize, u64),
    Alive(usize, u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    now: u64,
    probers: Vec<Prober>,
    /// Members that have not died; of others nothing comes.
    alive: Vec<bool>,
    watch: HostWatch,
    letters: BTreeSet<Letter>,
    /// Orders to each host, in their order.
    orders: Vec<Vec<Vec<usize>>>,
    cuts: BTreeSet<(usize, usize)>,
    suspected: BTreeSet<usize>,
    links: BTreeSet<(usize, usize)>,
    /// The last time at which something died, left, joined or was cut.
    last_fault: u64,
    left: (u8, u8, u8, bool),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    Arrive(Letter),
    Advance,
    Die(usize),
    Leave(usize),
    Join(usize),
    Cut(usize, usize),
    /// The lease of a suspected host has run out.
    LeaseEnds(usize),
}

impl State {
    fn time(&self) -> Time {
        Time(self.now * MILLI)
    }

    fn central(&mut self, act: impl FnOnce(&mut HostWatch, Time, &mut Vec<WatchEffect>)) {
        let (now, mut effects) = (self.time(), Vec::new());
        act(&mut self.watch, now, &mut effects);
        for effect in effects {
            match effect {
                WatchEffect::Watch(host, hosts) => {
                    self.orders[host].push(hosts);
                    self.letters.insert(Letter::Watch(host, 0));
                }
                WatchEffect::Ask(host, number) => {
                    self.letters.insert(Letter::Ask(host, number));
                }
                WatchEffect::Suspected { host, .. } => {
                    self.suspected.insert(host);
                }
                WatchEffect::LinkLost { from, to, .. } => {
                    assert!(self.links.insert((from, to)), "reported twice");
                }
                WatchEffect::Answers(_) => {}
            }
        }
    }

    fn duties(&mut self, host: usize, duties: Vec<ProbeDuty>) {
        for duty in duties {
            self.letters.insert(match duty {
                ProbeDuty::Send(to, number) => Letter::Probe(host, to, number),
                ProbeDuty::Suspect(other, _) => Letter::Suspect(host, other),
            });
        }
    }

    fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cuts.contains(&(one.min(other), one.max(other)))
    }

    fn arrive(&mut self, letter: Letter) {
        let now = self.time();
        match letter {
            Letter::Probe(from, to, number) if self.alive[to] && !self.is_cut(from, to) => {
                self.letters.insert(Letter::Answer(to, from, number));
            }
            Letter::Answer(from, to, number) if self.alive[to] && !self.is_cut(from, to) => {
                self.probers[to].answered(now, from, number);
            }
            Letter::Suspect(by, host) => {
                let failure = ProbeFailure::Silent;
                self.central(|watch, now, out| watch.suspect(now, (by, host), failure, out));
            }
            Letter::Watch(host, _) => {
                let hosts = self.orders[host].remove(0);
                if !self.orders[host].is_empty() {
                    self.letters.insert(letter);
                }
                if self.alive[host] {
                    self.probers[host].watch(now, hosts);
                }
            }
            Letter::Ask(host, number) if self.alive[host] => {
                self.letters.insert(Letter::Alive(host, number));
            }
            Letter::Alive(host, number) => {
                self.central(|watch, now, out| watch.alive(now, host, number, out));
            }
            _ => {}
        }
    }

    fn advance(&mut self) {
        let alive = (0..self.probers.len()).filter(|host| self.alive[*host]);
        let probers = alive
            .clone()
            .filter_map(|host| self.probers[host].deadline());
        let due = probers.chain(self.watch.deadline()).min();
        let Some(due) = due else {
            return;
        };
        self.now = self.now.max(due.0 / MILLI);
        let now = self.time();
        for host in alive.collect::<Vec<_>>() {
            let mut duties = Vec::new();
            self.probers[host].tick(now, &mut duties);
            self.duties(host, duties);
        }
        self.central(|watch, now, out| watch.tick(now, out));
    }

    /// Nothing is under way that a host could be noticed by.
    fn is_quiet(&self) -> bool {
        self.letters.is_empty()
    }

    fn members(&self) -> impl Iterator<Item = usize> {
        self.watch.members().iter().copied()
    }

    fn dead(&self) -> impl Iterator<Item = usize> {
        self.members().filter(|host| !self.alive[*host])
    }
}

impl Model for Ring {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            now: 0,
            probers: vec![Prober::new(SETTINGS); self.hosts],
            alive: vec![true; self.hosts],
            watch: HostWatch::new(SETTINGS),
            letters: BTreeSet::new(),
            orders: vec![Vec::new(); self.hosts],
            cuts: BTreeSet::new(),
            suspected: BTreeSet::new(),
            links: BTreeSet::new(),
            last_fault: 0,
            left: (self.deaths, self.cuts, self.leaves, self.joins),
        };
        for host in 0..self.hosts - usize::from(self.joins) {
            state.central(|watch, _, out| watch.join(host, out));
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(state.letters.iter().map(|letter| Action::Arrive(*letter)));
        if state.is_quiet() && state.now < self.until {
            actions.push(Action::Advance);
        }
        let (deaths, cuts, leaves, joins) = state.left;
        let alive = || state.members().filter(|host| state.alive[*host]);
        if deaths > 0 {
            actions.extend(alive().map(Action::Die));
        }
        if leaves > 0 {
            actions.extend(alive().map(Action::Leave));
        }
        if joins {
            actions.push(Action::Join(self.hosts - 1));
        }
        if cuts > 0 {
            for one in alive() {
                let others = alive().filter(|other| one < *other && !state.is_cut(one, *other));
                actions.extend(others.map(|other| Action::Cut(one, other)));
            }
        }
        let ended = state
            .suspected
            .iter()
            .filter(|host| state.members().any(|m| m == **host));
        actions.extend(ended.map(|host| Action::LeaseEnds(*host)));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Arrive(letter) => {
                state.letters.remove(&letter);
                state.arrive(letter);
            }
            Action::Advance => state.advance(),
            Action::Die(host) => {
                state.left.0 -= 1;
                state.alive[host] = false;
                state.last_fault = state.now;
            }
            Action::Cut(one, other) => {
                state.left.1 -= 1;
                state.cuts.insert((one, other));
                state.last_fault = state.now;
            }
            Action::Leave(host) => {
                state.left.2 -= 1;
                state.alive[host] = false;
                state.last_fault = state.now;
                state.central(|watch, _, out| watch.leave(host, out));
            }
            Action::Join(host) => {
                state.left.3 = false;
                state.last_fault = state.now;
                state.central(|watch, _, out| watch.join(host, out));
            }
            Action::LeaseEnds(host) => {
                state.central(|watch, _, out| watch.leave(host, out));
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("only a host that is dead is suspected", |_, s: &State| {
                s.suspected.iter().all(|host| !s.alive[*host])
            }),
            Property::always("only a link that is cut is reported", |_, s: &State| {
                s.links.iter().all(|(from, to)| s.is_cut(*from, *to))
            }),
            Property::always(
                "every lost host is noticed within a bound",
                |r: &Ring, s: &State| {
                    // The last one of neighbours is probed when those before it are suspected. A
                    // link that is lost, too, is noticed by the second missing answer.
                    let losses = u64::from(r.deaths) + 2 * u64::from(r.cuts);
                    let bound = SETTINGS.interval + (losses + 1) * SETTINGS.timeout;
                    let overdue = s.is_quiet() && s.now > s.last_fault + bound;
                    // Without a way from any other host, it is central's lease that tells.
                    let known = |host: usize| s.suspected.contains(&host) || s.is_isolated(host);
                    !overdue || s.dead().all(known)
                },
            ),
            Property::always("the ring closes around what is lost", |_, s: &State| {
                let works = |host: usize| {
                    let watcher = s.watch.watcher(host);
                    let is_fine = |w: usize| w != host && s.members().any(|m| m == w);
                    watcher.is_none_or(is_fine) && (watcher.is_some() || s.has_no_watcher(host))
                };
                s.members().all(works)
            }),
            Property::always(
                "each host probes what central has ordered",
                |_, s: &State| {
                    let agrees = |host: usize| {
                        let ordered = |other: &usize| s.watch.watcher(*other) == Some(host);
                        let watched = s.probers[host].watched();
                        let ordered: BTreeSet<usize> = s.members().filter(ordered).collect();
                        *watched == ordered
                    };
                    let mut members = s.members().filter(|host| s.alive[*host]);
                    !s.is_quiet() || members.all(agrees)
                },
            ),
            Property::sometimes("a dead host is suspected", |_, s: &State| {
                !s.suspected.is_empty()
            }),
        ]
    }
}

impl State {
    /// No host that lives has a link to this one.
    fn is_isolated(&self, host: usize) -> bool {
        let mut others = self
            .members()
            .filter(|other| *other != host && self.alive[*other]);
        others.all(|other| self.is_cut(host, other))
    }

    /// No member can be its watcher.
    fn has_no_watcher(&self, host: usize) -> bool {
        let mut others = self.members().filter(|other| *other != host);
        others.all(|other| {
            self.watch.is_suspected(other)
                || self.watch.is_suspected(host)
                || self.is_cut(host, other)
        })
    }
}

const CALM: Ring = Ring {
    hosts: 3,
    deaths: 0,
    cuts: 0,
    leaves: 0,
    joins: false,
    until: 80,
};

fn check(name: &str, ring: Ring) {
    let begun = Instant::now();
    let checker = ring.checker().threads(2).spawn_bfs().join();
    tell(name, begun, &checker, |_| String::new());
    if ring.deaths > 0 {
        checker.assert_properties();
    } else {
        for property in checker.model().properties() {
            if property.name != "a dead host is suspected" {
                checker.assert_no_discovery(property.name);
            }
        }
    }
}

#[test]
fn one_host_or_two_neighbours_die() {
    let deaths = 1 + full();
    check(
        "deaths",
        Ring {
            deaths,
            hosts: 4,
            until: 50,
            ..CALM
        },
    );
    check("three", Ring { deaths: 2, ..CALM });
}

#[test]
fn a_link_between_two_hosts_is_cut_and_another_host_dies() {
    let (hosts, cuts) = (3, 1);
    check(
        "cut",
        Ring {
            cuts,
            hosts,
            ..CALM
        },
    );
    check(
        "cut and death",
        Ring {
            cuts,
            deaths: 1,
            until: 60 + 20 * u64::from(full()),
            ..CALM
        },
    );
    if soak() > 0 {
        check(
            "cuts",
            Ring {
                cuts: 2,
                hosts: 4,
                ..CALM
            },
        );
    }
}

#[test]
fn hosts_join_and_leave_while_one_dies() {
    let calm = Ring {
        deaths: 1,
        joins: true,
        until: 60,
        ..CALM
    };
    check("joins", Ring { hosts: 3, ..calm });
    let hosts = 3 + usize::from(full());
    check(
        "leaves",
        Ring {
            leaves: 1,
            hosts,
            joins: false,
            ..calm
        },
    );
}
