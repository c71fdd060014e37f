//! How long the update of one rank takes to all ranks, and what it costs. The simulation runs the
//! cores of [`rejoin_managers_protocol::broadcast`]. Links have a latency, the work of managers
//! takes time, and messages may be lost or come twice.

use crate::job::queue::Queue;
use crate::rng::Rng;
use crate::table_distribution::{Costs, card, index, length};
use rejoin_channel_table::{Generation, Incarnation, Rank};
use rejoin_managers_protocol::broadcast::{
    BroadcastEffect, BroadcastMessage, Member, PATIENCE, Peer, Stamp, Tree,
};
use rejoin_managers_protocol::manager_messages::{
    ProcessInstance, ProcessMessage, Time, ToCentral, ToLocal,
};
use rejoin_wire::Limits;
use rejoin_wire::codec::CodecError;
use std::collections::VecDeque;

/// A job, and how many of its ranks move at the same time.
#[derive(Debug, Clone, Copy)]
pub struct UpdateLoad {
    /// Ranks of the job.
    pub ranks: u32,
    /// Ranks of each host.
    pub per_host: u32,
    /// Children of each manager.
    pub fanout: usize,
    /// Sites of the hosts, each with as many; central is at the first.
    pub sites: usize,
    /// Updates that central sends one after the other.
    pub updates: u32,
    /// A recovery begins after so many of them: a message of the next generation follows.
    pub recovery_after: Option<u32>,
}

/// What happens to messages and managers.
#[derive(Debug, Clone, Default)]
pub struct UpdateFaults {
    /// Messages of a hundred that are lost.
    pub lost: u64,
    /// Messages of a hundred that come twice.
    pub repeated: u64,
    /// Positions of managers that end, each in this nanosecond. Central learns of it two seconds
    /// later.
    pub ended: Vec<(usize, u64)>,
}

/// The result of a simulation. Times are nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpdateFigure {
    /// Ranks.
    pub ranks: u32,
    /// Hosts.
    pub hosts: usize,
    /// From the registration of the new process until central has it.
    pub report: u64,
    /// From there until the last local manager has the last update.
    pub broadcast: u64,
    /// From there until the last rank has it.
    pub propagation: u64,
    /// Messages that central has sent and taken.
    pub central_messages: u64,
    /// Bytes that central has sent and taken.
    pub central_bytes: u64,
    /// Messages between managers.
    pub messages: u64,
    /// Bytes between managers.
    pub bytes: u64,
    /// Updates between managers of different sites.
    pub crossings: u64,
}

/// Nanoseconds until central learns that a manager has ended.
const NOTICE: u64 = 2_000_000_000;

/// What goes down the tree: an update by its number, or the start of the next generation.
type Payload = u32;

#[derive(Debug)]
enum Event {
    Arrival(Peer, Peer, BroadcastMessage<Payload>),
    Tick(Peer),
    Ended(usize),
    Noticed(usize),
}

struct UpdateRun<'a> {
    costs: Costs,
    load: UpdateLoad,
    per_site: usize,
    faults: &'a UpdateFaults,
    rng: Rng,
    update_bytes: usize,
    acknowledge_bytes: usize,
    queue: Queue<Event>,
    /// Until when central (first entry) and each host are busy.
    busy: Vec<u64>,
    members: Vec<Member<Payload>>,
    /// When the next tick of each is scheduled.
    ticks: Vec<Option<u64>>,
    is_ended: Vec<bool>,
    waiting: VecDeque<(Generation, Payload)>,
    /// What each host has got, in its order.
    delivered: Vec<Vec<(Generation, Payload)>>,
    last_host: u64,
    last_rank: u64,
    figure: UpdateFigure,
}

fn instance(rank: u32) -> ProcessInstance {
    ProcessInstance {
        generation: Generation(0),
        rank: Rank(rank),
        incarnation: Incarnation(1),
    }
}

/// Simulates the updates.
///
/// # Errors
/// A live host has not got each update once and in order, or has got one behind a recovery.
pub fn measure(
    load: UpdateLoad,
    costs: Costs,
    faults: &UpdateFaults,
    seed: u64,
) -> Result<UpdateFigure, String> {
    let hosts = load.ranks.div_ceil(load.per_host) as usize;
    let sizes = sizes(load).map_err(|error| error.to_string())?;
    let each = hosts.div_ceil(load.sites);
    let ends = (1..=load.sites).map(|site| hosts.min(site * each));
    let tree = Tree::new(hosts, load.fanout).with_sites(ends);
    let tree = tree.with_patience(PATIENCE);
    let peers = std::iter::once(None).chain((0..hosts).map(Some));
    let mut spread = UpdateRun {
        costs,
        load,
        per_site: each,
        faults,
        rng: Rng::new(seed),
        update_bytes: sizes.0,
        acknowledge_bytes: sizes.1,
        queue: Queue::default(),
        busy: vec![0; hosts + 1],
        members: peers.map(|peer| Member::new(peer, tree.clone())).collect(),
        ticks: vec![None; hosts + 1],
        is_ended: vec![false; hosts],
        waiting: VecDeque::new(),
        delivered: vec![Vec::new(); hosts],
        last_host: 0,
        last_rank: 0,
        figure: UpdateFigure {
            ranks: load.ranks,
            hosts,
            report: costs.latency + 2 * costs.message + ((sizes.2 as u64 * costs.kibibyte) >> 10),
            ..UpdateFigure::default()
        },
    };
    spread.run();
    spread.check()?;
    let mut figure = spread.figure;
    figure.broadcast = spread.last_host;
    figure.propagation = spread.last_rank.saturating_sub(spread.last_host);
    Ok(figure)
}

/// Bytes of an update on its way, of an acknowledgement, and of the report.
fn sizes(load: UpdateLoad) -> Result<(usize, usize, usize), CodecError> {
    let rank = load.ranks - 1;
    let card = card(rank, (rank / load.per_host) as usize);
    let update = ToLocal::Update {
        instance: instance(rank),
        card: card.clone(),
    };
    let acknowledge = BroadcastMessage::<()>::Acknowledge {
        stamp: Stamp {
            generation: Generation(0),
            run: 0,
            number: 1,
        },
        whole: true,
        missing: Vec::new(),
    };
    let report = ToCentral::Process(ProcessMessage::Registered {
        instance: instance(rank),
        pid: card.pid,
        card,
        limits: Limits::default(),
    });
    let acknowledge = length(&acknowledge)?;
    Ok((
        length(&update)? + acknowledge,
        acknowledge,
        length(&report)?,
    ))
}

impl UpdateRun<'_> {
    fn run(&mut self) {
        for (host, at) in &self.faults.ended {
            self.queue.at(*at, Event::Ended(*host));
            self.queue.at(*at + NOTICE, Event::Noticed(*host));
        }
        for number in 0..self.load.updates {
            if self.load.recovery_after == Some(number) {
                self.waiting.clear();
                self.waiting.push_back((Generation(1), u32::MAX));
                self.send_waiting(0);
                break;
            }
            self.waiting.push_back((Generation(0), number));
            self.send_waiting(0);
        }
        while let Some((now, event)) = self.queue.pop() {
            match event {
                Event::Arrival(from, to, message) => self.arrive(now, from, to, message),
                Event::Tick(peer) => self.tick(now, peer),
                Event::Ended(host) => self.is_ended[host] = true,
                Event::Noticed(host) => {
                    let mut effects = Vec::new();
                    self.members[0].lost(Time(now), host, &mut effects);
                    self.carry_out(now, None, effects);
                }
            }
        }
    }

    /// Central sends the updates that wait, as far as it may.
    fn send_waiting(&mut self, now: u64) {
        while let Some((generation, payload)) = self.waiting.front().copied() {
            let is_new = generation > Generation(0);
            if self.members[0].is_full() && !is_new {
                return;
            }
            let mut effects = Vec::new();
            let series = (generation, 0);
            let stamp = self.members[0].cast(Time(now), series, payload, &mut effects);
            if stamp.is_none() {
                return;
            }
            self.waiting.pop_front();
            self.carry_out(now, None, effects);
        }
    }

    fn is_there(&self, peer: Peer) -> bool {
        peer.is_none_or(|host| !self.is_ended[host])
    }

    fn work(&mut self, now: u64, peer: Peer, bytes: usize) -> u64 {
        let cost = self.costs.message + ((bytes as u64 * self.costs.kibibyte) >> 10);
        let busy = &mut self.busy[index(peer)];
        *busy = now.max(*busy) + cost;
        *busy
    }

    fn send(&mut self, now: u64, from: Peer, to: Peer, message: BroadcastMessage<Payload>) {
        let bytes = match message {
            BroadcastMessage::Forward { .. } => self.update_bytes,
            BroadcastMessage::Acknowledge { .. } => self.acknowledge_bytes,
        };
        let sent = self.work(now, from, bytes);
        let site = |peer: Peer| peer.map_or(0, |host| host / self.per_site);
        if matches!(message, BroadcastMessage::Forward { .. }) && site(from) != site(to) {
            self.figure.crossings += 1;
        }
        self.figure.messages += 1;
        self.figure.bytes += bytes as u64;
        if from.is_none() || to.is_none() {
            self.figure.central_messages += 1;
            self.figure.central_bytes += bytes as u64;
        }
        if self.faults.lost > 0 && self.rng.chance(self.faults.lost) {
            return;
        }
        let at = sent + self.costs.latency;
        if self.faults.repeated > 0 && self.rng.chance(self.faults.repeated) {
            let late = at + self.rng.below(100 * self.costs.latency);
            let again = Event::Arrival(from, to, message.clone());
            self.queue.at(late, again);
        }
        self.queue.at(at, Event::Arrival(from, to, message));
    }

    fn arrive(&mut self, now: u64, from: Peer, to: Peer, message: BroadcastMessage<Payload>) {
        if !self.is_there(to) {
            return;
        }
        let now = self.work(now, to, 0);
        let mut effects = Vec::new();
        self.members[index(to)].on_message(Time(now), from, message, &mut effects);
        self.carry_out(now, to, effects);
        if to.is_none() {
            self.send_waiting(now);
        }
    }

    fn tick(&mut self, now: u64, peer: Peer) {
        self.ticks[index(peer)] = None;
        if !self.is_there(peer) {
            return;
        }
        let mut effects = Vec::new();
        self.members[index(peer)].tick(Time(now), &mut effects);
        self.carry_out(now, peer, effects);
        if peer.is_none() {
            self.send_waiting(now);
        }
    }

    fn carry_out(&mut self, now: u64, peer: Peer, effects: Vec<BroadcastEffect<Payload>>) {
        for effect in effects {
            match effect {
                BroadcastEffect::Send(to, message) => self.send(now, peer, to, message),
                BroadcastEffect::Deliver(payload) => self.deliver(now, peer, payload),
                BroadcastEffect::Complete(_) => {}
            }
        }
        let due = self.members[index(peer)].deadline();
        let tick = &mut self.ticks[index(peer)];
        if let Some(Time(at)) = due
            && tick.is_none_or(|tick| at < tick)
        {
            let at = at.max(now + 1);
            *tick = Some(at);
            self.queue.at(at, Event::Tick(peer));
        }
    }

    /// A host has an update: it passes it to its ranks.
    fn deliver(&mut self, now: u64, peer: Peer, payload: Payload) {
        let Some(host) = peer else {
            return;
        };
        let generation = Generation(u32::from(payload == u32::MAX));
        self.delivered[host].push((generation, payload));
        self.last_host = self.last_host.max(now);
        for _ in 0..self.load.per_host {
            let done = self.work(now, peer, self.update_bytes);
            self.last_rank = self.last_rank.max(done);
        }
    }

    fn check(&self) -> Result<(), String> {
        let all: Vec<(Generation, Payload)> = match self.load.recovery_after {
            None => (0..self.load.updates).map(|n| (Generation(0), n)).collect(),
            Some(_) => vec![(Generation(1), u32::MAX)],
        };
        for (host, got) in self.delivered.iter().enumerate() {
            let right = match self.load.recovery_after {
                None => *got == all,
                // What came before the recovery may be a part of it, and nothing comes after.
                Some(_) => {
                    let before = got.len().saturating_sub(1);
                    let of_before = (0u32..).map(|n| (Generation(0), n)).take(before);
                    got.ends_with(&all) && of_before.eq(got[..before].iter().copied())
                }
            };
            if !right && !self.is_ended[host] {
                return Err(format!("host {host} has got {got:?}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: UpdateLoad = UpdateLoad {
        ranks: 10_000,
        per_host: 8,
        fanout: 8,
        sites: 1,
        updates: 1,
        recovery_after: None,
    };

    fn spread(load: UpdateLoad, faults: &UpdateFaults, seed: u64) -> UpdateFigure {
        let figure = measure(load, Costs::default(), faults, seed);
        figure.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"))
    }

    #[test]
    fn one_update_takes_a_time_that_grows_with_the_levels_of_the_tree() {
        let none = UpdateFaults::default();
        let of = |ranks| spread(UpdateLoad { ranks, ..JOB }, &none, 1);
        // Each level has 8 times the hosts of the level above.
        let (small, large) = (of(8 * 584), of(8 * 584 * 64));
        assert_eq!(small.central_messages, 16, "its children and their answers");
        assert_eq!(large.central_messages, 16);
        assert!(large.broadcast < 2 * small.broadcast, "{small:?} {large:?}");
        assert_eq!(large.propagation, small.propagation);
        assert_eq!(large.messages, 2 * large.hosts as u64);
    }

    #[test]
    fn an_update_crosses_to_each_site_once() {
        let none = UpdateFaults::default();
        let load = UpdateLoad {
            sites: 5,
            updates: 20,
            ..JOB
        };
        let figure = spread(load, &none, 1);
        assert_eq!(figure.crossings, 4 * 20);
        assert_eq!(figure.messages, 2 * 20 * figure.hosts as u64);
        let one = spread(UpdateLoad { updates: 20, ..JOB }, &none, 1);
        // One level more, at most.
        assert!(figure.broadcast < 2 * one.broadcast, "{figure:?} {one:?}");
        // The first hosts of two sites end: of their sites, the hosts below them are adopted.
        let faults = UpdateFaults {
            ended: vec![(250, 0), (500, 0)],
            ..UpdateFaults::default()
        };
        let figure = spread(load, &faults, 1);
        assert!(figure.crossings <= 20 * (2 + 2 * 2 * (1 + 8)), "{figure:?}");
    }

    #[test]
    fn many_updates_at_once_reach_all_in_order() {
        let none = UpdateFaults::default();
        let figure = spread(
            UpdateLoad {
                updates: 200,
                ..JOB
            },
            &none,
            1,
        );
        assert_eq!(figure.central_messages, 200 * 16);
    }

    #[test]
    fn lost_and_repeated_updates_reach_all_once() {
        let faults = UpdateFaults {
            lost: 2,
            repeated: 10,
            ended: Vec::new(),
        };
        for seed in 0..5 {
            spread(UpdateLoad { updates: 40, ..JOB }, &faults, seed);
        }
    }

    #[test]
    fn a_recovery_that_overtakes_updates_ends_them() {
        let faults = UpdateFaults {
            repeated: 20,
            ..UpdateFaults::default()
        };
        for seed in 0..5 {
            let load = UpdateLoad {
                updates: 40,
                recovery_after: Some(10 + seed as u32),
                ..JOB
            };
            spread(load, &faults, seed);
        }
    }

    #[test]
    fn managers_that_end_keep_updates_from_no_other() {
        for seed in 0..5 {
            let mut rng = Rng::new(seed);
            let ended = (0..20).map(|_| (rng.below(1250) as usize, rng.below(3_000_000)));
            let ended: Vec<(usize, u64)> = ended.collect();
            let faults = UpdateFaults {
                lost: rng.below(3),
                repeated: rng.below(10),
                ended,
            };
            spread(UpdateLoad { updates: 30, ..JOB }, &faults, seed);
        }
    }
}
