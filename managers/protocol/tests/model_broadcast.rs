//! Broadcasts of central down a tree of local managers, under a model checker. Messages overtake
//! each other and are lost, hosts crash, timers fire too early, and working links seem lost.
//!
//! `REJOIN_MODELS=soak` takes larger bounds than `ci`; without the variable they are smaller.

use rejoin_channel_table::Generation;
use rejoin_managers_protocol::broadcast::{
    BroadcastEffect, BroadcastMessage, Member, Peer, Stamp, Tree,
};
use rejoin_managers_protocol::manager_messages::Time;
use rejoin_tests::models::{ci, soak, tell};
use stateright::{Checker, Model, Property};
use std::collections::BTreeSet;
use std::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Budget {
    /// Words that central casts, the last of a new generation if there are more than two.
    messages: u32,
    losses: u8,
    crashes: u8,
    /// Clocks that ring while messages are on their way.
    early: u8,
    /// Links that seem gone.
    cuts: u8,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    hosts: usize,
    fanout: usize,
    /// Where the hosts near central end; the others are at another site.
    near: usize,
    budget: Budget,
}

impl Job {
    fn tree(&self) -> Tree {
        Tree::new(0, self.fanout).with_sites([self.near, self.hosts])
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Letter {
    from: Peer,
    to: Peer,
    give: Option<u32>,
    stamp: Stamp,
    whole: bool,
    missing: Vec<usize>,
    absent: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    central: Member<u32>,
    hosts: Vec<Option<Member<u32>>>,
    letters: BTreeSet<Letter>,
    /// Crashed, and central does not know yet.
    untold: BTreeSet<usize>,
    /// Crashed, and central knows.
    told: BTreeSet<usize>,
    /// The host to which each message has crossed to the other site. Messages that come twice, and
    /// those to hosts that are adopted, are not counted.
    crossed: BTreeSet<(Stamp, usize)>,
    delivered: Vec<Vec<u32>>,
    cast: Vec<Stamp>,
    complete: Vec<Stamp>,
    left: Budget,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    Cast,
    Arrive(Letter),
    Lose(Letter),
    Tick(Peer),
    Crash(usize),
    TellLost(usize),
    Cut(usize, usize),
}

impl State {
    fn member(&mut self, peer: Peer) -> Option<&mut Member<u32>> {
        match peer {
            None => Some(&mut self.central),
            Some(host) => self.hosts[host].as_mut(),
        }
    }

    fn perform(&mut self, me: Peer, effects: Vec<BroadcastEffect<u32>>) {
        for effect in effects {
            match effect {
                BroadcastEffect::Send(to, message) => {
                    let letter = match message {
                        BroadcastMessage::Forward {
                            stamp,
                            whole,
                            absent,
                            payload,
                        } => {
                            if me.is_none() {
                                self.crossed.extend(to.map(|to| (stamp, to)));
                            }
                            Letter {
                                from: me,
                                to,
                                give: Some(payload),
                                stamp,
                                whole,
                                missing: Vec::new(),
                                absent,
                            }
                        }
                        BroadcastMessage::Acknowledge {
                            stamp,
                            whole,
                            missing,
                        } => Letter {
                            from: me,
                            to,
                            give: None,
                            stamp,
                            whole,
                            missing,
                            absent: Vec::new(),
                        },
                    };
                    self.letters.insert(letter);
                }
                BroadcastEffect::Deliver(payload) => {
                    if let Some(host) = me {
                        self.delivered[host].push(payload);
                    }
                }
                BroadcastEffect::Complete(stamp) => self.complete.push(stamp),
            }
        }
    }

    fn arrive(&mut self, letter: Letter) {
        let Letter {
            from,
            to,
            give,
            stamp,
            whole,
            missing,
            absent,
        } = letter;
        let message = match give {
            Some(payload) => BroadcastMessage::Forward {
                stamp,
                whole,
                absent,
                payload,
            },
            None => BroadcastMessage::Acknowledge {
                stamp,
                whole,
                missing,
            },
        };
        let mut effects = Vec::new();
        if let Some(member) = self.member(to) {
            member.on_message(Time(0), from, message, &mut effects);
        }
        self.perform(to, effects);
    }

    fn cast(&mut self) {
        self.left.messages -= 1;
        let number = self.cast.len() as u32;
        let series = (Generation(u32::from(number > 1)), 7);
        let mut effects = Vec::new();
        self.central.leave_out(self.told.clone());
        let stamp = self.central.cast(Time(0), series, number, &mut effects);
        self.cast.extend(stamp);
        self.perform(None, effects);
    }

    fn tick(&mut self, peer: Peer) {
        let mut effects = Vec::new();
        if let Some(member) = self.member(peer)
            && let Some(at) = member.deadline()
        {
            member.tick(at, &mut effects);
        }
        self.perform(peer, effects);
    }

    /// A host that lives has a message of the series that counts.
    fn has(&self, host: usize, number: usize) -> bool {
        self.hosts[host].is_none() || self.delivered[host].contains(&(number as u32))
    }

    fn is_done(&self) -> bool {
        let Some(last) = self.cast.last() else {
            return false;
        };
        let current = |stamp: &&Stamp| stamp.generation == last.generation;
        let complete = self
            .cast
            .iter()
            .filter(current)
            .all(|s| self.complete.contains(s));
        self.left.messages == 0 && complete
    }
}

impl Model for Job {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let tree = self.tree();
        let host = |position| Some(Member::new(Some(position), tree.clone()));
        vec![State {
            central: Member::new(None, tree.clone()),
            hosts: (0..self.hosts).map(host).collect(),
            letters: BTreeSet::new(),
            untold: BTreeSet::new(),
            told: BTreeSet::new(),
            crossed: BTreeSet::new(),
            delivered: vec![Vec::new(); self.hosts],
            cast: Vec::new(),
            complete: Vec::new(),
            left: self.budget,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let left = state.left;
        actions.extend(state.letters.iter().cloned().map(Action::Arrive));
        actions.extend(state.untold.iter().copied().map(Action::TellLost));
        if left.messages > 0 {
            actions.push(Action::Cast);
        }
        let quiet = actions.is_empty();
        let rings = |member: &Member<u32>| member.deadline().is_some();
        if quiet || left.early > 0 {
            if rings(&state.central) {
                actions.push(Action::Tick(None));
            }
            let hosts = state.hosts.iter().enumerate();
            let rings =
                |(_, host): &(usize, &Option<Member<u32>>)| host.as_ref().is_some_and(rings);
            actions.extend(hosts.filter(rings).map(|(n, _)| Action::Tick(Some(n))));
        }
        if left.losses > 0 {
            actions.extend(state.letters.iter().cloned().map(Action::Lose));
        }
        if left.crashes > 0 {
            let alive = (0..self.hosts).filter(|n| state.hosts[*n].is_some());
            actions.extend(alive.map(Action::Crash));
        }
        if left.cuts > 0 {
            let tree = self.tree();
            let below = |n| {
                let children = tree.children(Some(n)).into_iter();
                children.map(move |child| Action::Cut(n, child))
            };
            actions.extend((0..self.hosts).flat_map(below));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Cast => state.cast(),
            Action::Arrive(letter) => {
                state.letters.remove(&letter);
                state.arrive(letter);
            }
            Action::Lose(letter) => {
                state.left.losses -= 1;
                state.letters.remove(&letter);
            }
            Action::Tick(peer) => {
                if !state.letters.is_empty() || !state.untold.is_empty() || state.left.messages > 0
                {
                    state.left.early -= 1;
                }
                state.tick(peer);
            }
            Action::Crash(host) => {
                state.left.crashes -= 1;
                state.hosts[host] = None;
                state.untold.insert(host);
                state.letters.retain(|l| l.to != Some(host));
            }
            Action::TellLost(host) => {
                state.untold.remove(&host);
                state.told.insert(host);
                let mut effects = Vec::new();
                state.central.lost(Time(0), host, &mut effects);
                state.perform(None, effects);
            }
            Action::Cut(host, child) => {
                state.left.cuts -= 1;
                let mut effects = Vec::new();
                state.hosts[host]
                    .as_mut()?
                    .lost(Time(0), child, &mut effects);
                state.perform(Some(host), effects);
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::eventually("central knows that all have it", |_, s: &State| s.is_done()),
            Property::always("it is not complete before all have it", |_, s: &State| {
                let number = |stamp| s.cast.iter().position(|s| s == stamp);
                let mut numbers = s.complete.iter().filter_map(number);
                numbers.all(|n| (0..s.hosts.len()).all(|host| s.has(host, n)))
            }),
            Property::always("each message once and in order", |_, s: &State| {
                s.delivered
                    .iter()
                    .all(|messages| messages.windows(2).all(|w| w[0] < w[1]))
            }),
            Property::always("no message is left out of a series", |_, s: &State| {
                s.delivered
                    .iter()
                    .all(|messages| !messages.contains(&1) || messages.contains(&0))
            }),
            Property::always(
                "no more is on its way than a few letters a host",
                |_, s: &State| s.letters.len() <= 8 * s.hosts.len() * s.cast.len().max(1),
            ),
            Property::always(
                "undisturbed, a message crosses to a site once",
                |job: &Job, s: &State| {
                    let far = |(_, host): &&(Stamp, usize)| *host >= job.near;
                    let stamps: Vec<Stamp> = s.crossed.iter().filter(far).map(|c| c.0).collect();
                    let disturbed = job.budget.losses + job.budget.early + job.budget.cuts > 0;
                    let lost = s.told.iter().filter(|host| **host >= job.near).count();
                    // The message that is under way when a host is lost goes to those below it.
                    let twice = stamps.windows(2).filter(|two| two[0] == two[1]).count();
                    disturbed || twice <= lost * (job.hosts - job.near)
                },
            ),
            Property::sometimes(
                "central adopts the children of a crashed host",
                |_, s: &State| s.hosts[0].is_none() && s.is_done(),
            ),
        ]
    }
}

fn check(name: &str, job: Job) {
    let begun = Instant::now();
    let checker = job.checker().threads(2).spawn_bfs().join();
    tell(name, begun, &checker, |_| String::new());
    if job.budget.crashes > 0 {
        checker.assert_properties();
    } else {
        for property in checker.model().properties() {
            if !property.name.starts_with("central adopts") {
                checker.assert_no_discovery(property.name);
            }
        }
    }
}

const BUDGET: Budget = Budget {
    messages: 1,
    losses: 0,
    crashes: 0,
    early: 0,
    cuts: 0,
};

/// Two children of central's, each with one below it; or more.
const FOUR: Job = Job {
    hosts: 4,
    fanout: 2,
    near: 4,
    budget: BUDGET,
};

#[test]
fn lost_messages_and_clocks_that_ring_early() {
    let budget = Budget {
        losses: 1 + ci() + soak(),
        early: 1 + soak(),
        ..BUDGET
    };
    check("losses", Job { budget, ..FOUR });
}

#[test]
fn a_host_crashes() {
    let budget = Budget {
        crashes: 1 + soak(),
        losses: 1,
        early: ci() + soak(),
        ..BUDGET
    };
    check("crash", Job { budget, ..FOUR });
}

#[test]
fn a_link_between_hosts_seems_gone() {
    let budget = Budget {
        cuts: 1,
        crashes: 1,
        losses: ci() + soak(),
        ..BUDGET
    };
    check("cut", Job { budget, ..FOUR });
}

#[test]
fn words_in_order_and_a_new_generation() {
    let budget = Budget {
        messages: 2 + u32::from(ci()),
        losses: 1 + ci(),
        ..BUDGET
    };
    let job = Job {
        hosts: 3 + usize::from(soak()),
        fanout: 1,
        near: 3 + usize::from(soak()),
        budget,
    };
    check("messages", job);
}

/// One host near central and three at another site.
const SITES: Job = Job {
    near: 1,
    fanout: 1,
    ..FOUR
};

#[test]
fn a_message_crosses_to_a_site_once() {
    let budget = Budget {
        messages: 3,
        ..BUDGET
    };
    check("sites", Job { budget, ..SITES });
}

#[test]
fn the_first_host_of_a_site_crashes_between_generations() {
    let budget = Budget {
        messages: 2 + u32::from(ci()),
        crashes: 1,
        ..BUDGET
    };
    check("speakers", Job { budget, ..SITES });
}
