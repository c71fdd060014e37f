//! Broadcasts from central to all hosts, down a tree of local managers.
//!
//! Central sends to a few hosts only. Each host forwards the message to its own children, and
//! acknowledges it to its parent when its whole subtree has it. A child that does not answer in
//! time is *adopted*: its children get the message from its parent, which also repeats it to the
//! child a few times. A child that still does not answer is reported upwards, and central itself
//! sends to it until it answers or is lost. Every message may arrive twice; a host only
//! acknowledges a repeated one. Messages of one run of central in one generation are delivered in
//! the order in which they were sent. A newer generation or run ends the older.
//!
//! [`broadcast_tree`](super::broadcast_tree) has the shape of the tree. With each generation or run
//! it may be another one: hosts that are lost are left out, and others have joined.

use crate::manager_messages::Time;
use rejoin_channel_table::Generation;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub use crate::broadcast_tree::{PATIENCE, Peer, Tree};

/// How often a host other than central gives to one that does not answer.
pub const TRIES: u32 = 3;
/// Messages under way at a time.
pub const MOST: usize = 16;
/// Longest wait between two tries of central, as a power of two of the first.
const SLOWEST: u32 = 6;

/// Which message it is. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The job's generation.
    pub generation: Generation,
    /// The run of central; a later one has a greater number.
    pub run: u64,
    /// Counted from 1 in each run and generation.
    pub number: u32,
}

impl Stamp {
    fn series(self) -> (Generation, u64) {
        (self.generation, self.run)
    }
}

/// Messages between members of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BroadcastMessage<P> {
    /// Downwards.
    Forward {
        /// Stamp of the message.
        stamp: Stamp,
        /// For the receiver's whole subtree, or for itself alone.
        whole: bool,
        /// Positions that the tree of this generation and run leaves out, ascending.
        absent: Vec<usize>,
        /// The message itself.
        payload: P,
    },
    /// To the member that sent the message.
    Acknowledge {
        /// Stamp of the received message.
        stamp: Stamp,
        /// The whole subtree has it, or the sender.
        whole: bool,
        /// But for these positions, which did not answer.
        missing: Vec<usize>,
    },
}

/// An effect of a member of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BroadcastEffect<P> {
    /// Send this.
    Send(Peer, BroadcastMessage<P>),
    /// This message is for this host: the next in order.
    Deliver(P),
    /// All hosts that are not lost have it, and all before it.
    Complete(Stamp),
}

/// A member that has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Duty {
    whole: bool,
    tries: u32,
    due: Time,
}

/// A message that is under way below.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Cast<P> {
    payload: P,
    duties: BTreeMap<usize, Duty>,
    missing: BTreeSet<usize>,
    /// The members that wait for the subtree's answer.
    givers: BTreeSet<Peer>,
}

/// A member of the tree: central, or a host's local manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member<P> {
    me: Peer,
    tree: Tree,
    series: (Generation, u64),
    casts: BTreeMap<u32, Cast<P>>,
    /// Messages that arrived before their turn.
    early: BTreeMap<u32, P>,
    /// The last that was delivered, or cast.
    last: u32,
    /// Messages whose whole subtree has answered, the latest ones.
    through: BTreeMap<u32, Vec<usize>>,
    lost: BTreeSet<usize>,
    /// At central: the hosts that the tree of the next generation or run leaves out.
    leaves_out: BTreeSet<usize>,
}

impl<P: Clone> Member<P> {
    /// Central (`None`) or the host at a position.
    #[must_use]
    pub fn new(me: Peer, tree: Tree) -> Self {
        Member {
            me,
            tree,
            series: (Generation(0), 0),
            casts: BTreeMap::new(),
            early: BTreeMap::new(),
            last: 0,
            through: BTreeMap::new(),
            lost: BTreeSet::new(),
            leaves_out: BTreeSet::new(),
        }
    }

    /// Central: the tree of the next generation or run is without these hosts, and with all others.
    pub fn leave_out(&mut self, absent: BTreeSet<usize>) {
        self.leaves_out = absent;
    }

    /// The present tree has a place for this host.
    #[must_use]
    pub fn reaches(&self, position: usize) -> bool {
        self.tree.has(position)
    }

    /// No message is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.casts.is_empty()
    }

    /// As many messages are under way as can be.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.casts.len() >= MOST
    }

    /// When [`Member::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let duties = self.casts.values().flat_map(|cast| cast.duties.values());
        duties.map(|duty| duty.due).min()
    }

    /// Central sends a message to all hosts. `None`: it is not central, or [`MOST`] are under way.
    pub fn cast(
        &mut self,
        now: Time,
        series: (Generation, u64),
        payload: P,
        effects: &mut Vec<BroadcastEffect<P>>,
    ) -> Option<Stamp> {
        if self.me.is_some() || series < self.series {
            return None;
        }
        self.renew(series, &self.leaves_out.clone());
        if self.is_full() {
            return None;
        }
        self.last += 1;
        let number = self.last;
        self.begin(now, number, payload, None, effects);
        self.close(number, effects);
        Some(self.stamp(number))
    }

    /// Another member says this.
    pub fn on_message(
        &mut self,
        now: Time,
        from: Peer,
        message: BroadcastMessage<P>,
        effects: &mut Vec<BroadcastEffect<P>>,
    ) {
        match message {
            BroadcastMessage::Forward {
                stamp,
                whole,
                absent,
                payload,
            } => {
                if self.me.is_none() || stamp.series() < self.series {
                    return;
                }
                self.renew(stamp.series(), &absent.into_iter().collect());
                self.given(now, from, stamp, whole, payload, effects);
            }
            BroadcastMessage::Acknowledge {
                stamp,
                whole,
                missing,
            } => {
                let Some(child) = from.filter(|_| stamp.series() == self.series) else {
                    return;
                };
                self.answered(now, child, stamp.number, whole, missing, effects);
            }
        }
    }

    /// The host at a position is gone, or the link to it: its children are adopted at once. Central
    /// does not wait for it any more; others name it upwards, because only central knows which
    /// hosts are lost.
    pub fn lost(&mut self, now: Time, position: usize, effects: &mut Vec<BroadcastEffect<P>>) {
        let central = self.me.is_none();
        if central && !self.lost.insert(position) {
            return;
        }
        for number in self.numbers() {
            let Some(cast) = self.casts.get_mut(&number) else {
                continue;
            };
            if let Some(duty) = cast.duties.remove(&position) {
                if !central {
                    cast.missing.insert(position);
                }
                if duty.whole {
                    self.give_children(now, number, position, effects);
                }
            }
            self.close(number, effects);
        }
    }

    /// The deadline may have come.
    pub fn tick(&mut self, now: Time, effects: &mut Vec<BroadcastEffect<P>>) {
        for number in self.numbers() {
            let Some(cast) = self.casts.get(&number) else {
                continue;
            };
            let due = cast.duties.iter().filter(|(_, duty)| duty.due <= now);
            let late: Vec<usize> = due.map(|(position, _)| *position).collect();
            for position in late {
                self.again(now, number, position, effects);
            }
            self.close(number, effects);
        }
    }

    fn stamp(&self, number: u32) -> Stamp {
        Stamp {
            generation: self.series.0,
            run: self.series.1,
            number,
        }
    }

    fn numbers(&self) -> Vec<u32> {
        self.casts.keys().copied().collect()
    }

    /// A newer series ends the older.
    fn renew(&mut self, series: (Generation, u64), absent: &BTreeSet<usize>) {
        if series > self.series {
            self.series = series;
            self.tree = self.tree.without(absent);
            self.casts.clear();
            self.early.clear();
            self.through.clear();
            self.last = 0;
        }
    }

    fn begin(
        &mut self,
        now: Time,
        number: u32,
        payload: P,
        giver: Option<Peer>,
        effects: &mut Vec<BroadcastEffect<P>>,
    ) {
        let cast = Cast {
            payload,
            duties: BTreeMap::new(),
            missing: BTreeSet::new(),
            givers: giver.into_iter().collect(),
        };
        self.casts.insert(number, cast);
        self.give(now, number, self.tree.children(self.me), true, effects);
    }

    fn give(
        &mut self,
        now: Time,
        number: u32,
        positions: impl IntoIterator<Item = usize>,
        whole: bool,
        effects: &mut Vec<BroadcastEffect<P>>,
    ) {
        for position in positions {
            if whole && self.lost.contains(&position) {
                self.give_children(now, number, position, effects);
                continue;
            }
            let stamp = self.stamp(number);
            let levels = if whole { self.tree.height(position) } else { 0 };
            let Some(cast) = self.casts.get_mut(&number) else {
                return;
            };
            let tries = cast.duties.get(&position).map_or(0, |duty| duty.tries + 1);
            let first = self.tree.patience().saturating_mul(u64::from(1 + levels));
            let wait = first.saturating_mul(1 << tries.min(SLOWEST));
            let duty = Duty {
                whole,
                tries,
                due: now.plus_millis(wait),
            };
            cast.duties.insert(position, duty);
            let payload = cast.payload.clone();
            let give = BroadcastMessage::Forward {
                stamp,
                whole,
                absent: self.tree.absent().to_vec(),
                payload,
            };
            effects.push(BroadcastEffect::Send(Some(position), give));
        }
    }

    fn give_children(
        &mut self,
        now: Time,
        number: u32,
        position: usize,
        effects: &mut Vec<BroadcastEffect<P>>,
    ) {
        let children = self.tree.children(Some(position));
        self.give(now, number, children, true, effects);
    }

    /// A member has not answered in time.
    fn again(
        &mut self,
        now: Time,
        number: u32,
        position: usize,
        effects: &mut Vec<BroadcastEffect<P>>,
    ) {
        let central = self.me.is_none();
        let Some(cast) = self.casts.get_mut(&number) else {
            return;
        };
        let Some(duty) = cast.duties.get(&position).copied() else {
            return;
        };
        if !central && duty.tries + 1 >= TRIES {
            cast.duties.remove(&position);
            cast.missing.insert(position);
        } else {
            self.give(now, number, [position], false, effects);
        }
        if duty.whole {
            self.give_children(now, number, position, effects);
        }
    }

    fn given(
        &mut self,
        now: Time,
        from: Peer,
        stamp: Stamp,
        whole: bool,
        payload: P,
        effects: &mut Vec<BroadcastEffect<P>>,
    ) {
        let number = stamp.number;
        // Central has not more under way, so one further ahead is none of its messages.
        if number > self.last.saturating_add(MOST as u32) {
            return;
        }
        if number > self.last {
            self.early.insert(number, payload.clone());
            while let Some(next) = self.early.remove(&(self.last + 1)) {
                self.last += 1;
                effects.push(BroadcastEffect::Deliver(next));
            }
        }
        if !whole {
            let missing = Vec::new();
            let got = BroadcastMessage::Acknowledge {
                stamp,
                whole,
                missing,
            };
            effects.push(BroadcastEffect::Send(from, got));
        } else if let Some(missing) = self.through.get(&number).cloned() {
            let got = BroadcastMessage::Acknowledge {
                stamp,
                whole,
                missing,
            };
            effects.push(BroadcastEffect::Send(from, got));
        } else if let Some(cast) = self.casts.get_mut(&number) {
            cast.givers.insert(from);
        } else {
            self.begin(now, number, payload, Some(from), effects);
            self.close(number, effects);
        }
    }

    fn answered(
        &mut self,
        now: Time,
        child: usize,
        number: u32,
        whole: bool,
        missing: Vec<usize>,
        effects: &mut Vec<BroadcastEffect<P>>,
    ) {
        let (tree, central) = (&self.tree, self.me.is_none());
        let Some(cast) = self.casts.get_mut(&number) else {
            return;
        };
        cast.missing.remove(&child);
        // A child that was asked for its subtree and has only its own copy is still asked.
        match cast.duties.get(&child) {
            Some(duty) if duty.whole && !whole => {}
            _ => {
                cast.duties.remove(&child);
            }
        }
        if whole {
            cast.duties.retain(|p, _| !tree.is_within(*p, child));
            cast.missing.retain(|p| !tree.is_within(*p, child));
            let below = |p: &usize| tree.is_within(*p, child) && !self.lost.contains(p);
            let missing: Vec<usize> = missing.into_iter().filter(below).collect();
            if central {
                self.give(now, number, missing, false, effects);
            } else {
                cast.missing.extend(missing);
            }
        }
        self.close(number, effects);
    }

    /// No answer is pending any more.
    fn close(&mut self, number: u32, effects: &mut Vec<BroadcastEffect<P>>) {
        if self.me.is_none() {
            // In order: a host may hold a message until it has those before it.
            while let Some(first) = self.casts.first_entry()
                && first.get().duties.is_empty()
            {
                let (number, _) = first.remove_entry();
                effects.push(BroadcastEffect::Complete(self.stamp(number)));
            }
            return;
        }
        let done = |cast: &Cast<P>| cast.duties.is_empty();
        if !self.casts.get(&number).is_some_and(done) {
            return;
        }
        let stamp = self.stamp(number);
        let Some(cast) = self.casts.remove(&number) else {
            return;
        };
        let missing: Vec<usize> = cast.missing.into_iter().collect();
        self.through.insert(number, missing.clone());
        while self.through.len() > MOST {
            self.through.pop_first();
        }
        for giver in cast.givers {
            let got = BroadcastMessage::Acknowledge {
                stamp,
                whole: true,
                missing: missing.clone(),
            };
            effects.push(BroadcastEffect::Send(giver, got));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forged_positions_do_no_harm() {
        let mut central = Member::new(None, Tree::new(3, 2));
        let mut effects = Vec::new();
        let stamp = central.cast(Time(0), (Generation(0), 0), 'x', &mut effects);
        let got = BroadcastMessage::Acknowledge {
            stamp: stamp.expect("a stamp"),
            whole: true,
            missing: vec![usize::MAX, 77],
        };
        effects.clear();
        central.on_message(Time(0), Some(1), got, &mut effects);
        assert_eq!(effects, []);
    }

    #[test]
    fn a_word_of_an_older_generation_or_far_ahead_is_not_taken() {
        let mut host = Member::new(Some(0), Tree::new(1, 2));
        let give = |generation, number| BroadcastMessage::Forward {
            stamp: Stamp {
                generation: Generation(generation),
                run: 0,
                number,
            },
            whole: true,
            absent: Vec::new(),
            payload: number,
        };
        let mut effects = Vec::new();
        host.on_message(Time(0), None, give(1, 1), &mut effects);
        assert!(effects.contains(&BroadcastEffect::Deliver(1)));
        effects.clear();
        host.on_message(Time(0), None, give(0, 1), &mut effects);
        host.on_message(Time(0), None, give(1, 2 + MOST as u32), &mut effects);
        assert_eq!(effects, []);
        // A message before its turn waits for it, and is acknowledged.
        host.on_message(Time(0), None, give(1, 3), &mut effects);
        assert!(!effects.contains(&BroadcastEffect::Deliver(3)));
        host.on_message(Time(0), None, give(1, 2), &mut effects);
        let delivered = effects
            .iter()
            .filter(|e| matches!(e, BroadcastEffect::Deliver(_)));
        assert_eq!(delivered.count(), 2);
    }
}
