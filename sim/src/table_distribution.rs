//! How long the table of a large job takes to its ranks, and the cost for central. The simulation
//! runs the cores of [`broadcast`] and [`lookup`], or central alone. Links have a latency, and the
//! work of managers takes time.

use crate::job::queue::Queue;
use rejoin_channel_table::{
    Address, BusinessCard, Generation, Incarnation, LanId, LocalHostId, Rank,
};
use rejoin_managers_protocol::broadcast::{self, Member, Peer, Tree};
use rejoin_managers_protocol::lookup::{self, Directory};
use rejoin_managers_protocol::manager_messages::{Time, ToLocal};
use rejoin_wire::ProcessMap;
use rejoin_wire::codec::{self, CodecError};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// How ranks learn the addresses of other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableRoute {
    /// Central sends the table to every host.
    Star,
    /// Down a tree in which each has so many children.
    Tree(usize),
    /// The data that ranks start with, without cards, goes down the same tree. Each rank asks for
    /// the cards of its neighbours in a three-dimensional grid. The table, which follows, is left
    /// out.
    Asked(usize),
}

/// Costs in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// From one host to another.
    pub latency: u64,
    /// A manager's work for each message that it sends or takes.
    pub message: u64,
    /// A sender's work for each 1024 bytes.
    pub kibibyte: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            latency: 20_000,
            message: 2_000,
            kibibyte: 1_000,
        }
    }
}

/// The result of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Ranks.
    pub ranks: u32,
    /// Hosts.
    pub hosts: usize,
    /// Nanoseconds until the last rank has what it needs.
    pub time: u64,
    /// Messages that central sent and took.
    pub messages: u64,
    /// Bytes that central sent and took.
    pub bytes: u64,
}

#[derive(Debug, Clone)]
enum TableMessage {
    /// Central's own table, without a tree.
    Table,
    Broadcast(broadcast::BroadcastMessage<()>),
    Lookup(lookup::LookupMessage),
}

#[derive(Debug)]
struct Arrival {
    from: Peer,
    to: Peer,
    message: TableMessage,
}

/// Sizes of the messages in bytes.
#[derive(Debug)]
struct Sizes {
    payload: usize,
    got: usize,
    question: usize,
    card: usize,
}

struct Distribution {
    costs: Costs,
    per_host: u32,
    ranks: u32,
    way: TableRoute,
    sizes: Sizes,
    queue: Queue<Arrival>,
    /// Until when central (first entry) and each host are busy.
    busy: Vec<u64>,
    members: Vec<Member<()>>,
    directories: Vec<Directory>,
    /// Number of cards that each rank still waits for.
    missing: Vec<u32>,
    figure: Figure,
}

/// A card as ranks have them.
#[must_use]
pub fn card(rank: u32, host: usize) -> BusinessCard {
    let address = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + host as u32), 40_000));
    BusinessCard {
        addresses: vec![Address::Tcp(address)],
        host: format!("node{host:05}"),
        lan: LanId("10.0.0.0/12".into()),
        local_host: LocalHostId("6f1c2f0e-8d1d-4c2b-9b0a-2f7f7a8c1d3e".into()),
        pid: 100_000 + rank,
        log_ends: Vec::new(),
    }
}

pub(crate) fn length<T: serde::Serialize>(value: &T) -> Result<usize, CodecError> {
    let mut out = Vec::new();
    codec::encode(value, codec::MANAGER_LIMIT, &mut out)?;
    Ok(out.len())
}

impl Sizes {
    fn new(way: TableRoute, ranks: u32, per_host: u32) -> Result<Sizes, CodecError> {
        let host = |rank: u32| (rank / per_host) as usize;
        let entry = |rank| (Incarnation(0), Arc::new(card(rank, host(rank))));
        let (generation, image) = (Generation(0), None);
        let table: Vec<_> = (0..ranks).map(entry).collect();
        let start = match way {
            TableRoute::Asked(_) => ToLocal::Begin {
                generation,
                process_map: ProcessMap::of(&table, |rank| rank / per_host as usize),
                image,
            },
            _ => ToLocal::Start {
                generation,
                table,
                image,
            },
        };
        let got = broadcast::BroadcastMessage::<()>::Acknowledge {
            stamp: broadcast::Stamp {
                generation: Generation(0),
                run: 0,
                number: 1,
            },
            whole: true,
            missing: Vec::new(),
        };
        let question = lookup::LookupMessage::Where {
            generation: Generation(0),
            rank: Rank(ranks),
            least: Incarnation(0),
        };
        let here = lookup::LookupMessage::Here {
            generation: Generation(0),
            rank: Rank(ranks),
            incarnation: Incarnation(0),
            card: card(ranks, 0),
        };
        Ok(Sizes {
            payload: length(&start)?,
            got: length(&got)?,
            question: length(&question)?,
            card: length(&here)?,
        })
    }
}

/// Spreads the table of a job of so many ranks.
///
/// # Errors
/// Its table is larger than a message of a manager may be.
pub fn measure(
    ranks: u32,
    per_host: u32,
    way: TableRoute,
    costs: Costs,
) -> Result<Figure, CodecError> {
    let hosts = ranks.div_ceil(per_host) as usize;
    let sizes = Sizes::new(way, ranks, per_host)?;
    let fanout = match way {
        TableRoute::Star => hosts,
        TableRoute::Tree(fanout) | TableRoute::Asked(fanout) => fanout,
    };
    // The time of a level, and as much again for the ranks of the host.
    let level =
        costs.kibibyte * (sizes.payload as u64 >> 10) * (fanout as u64 + u64::from(per_host));
    let patience = broadcast::PATIENCE + 2 * level / 1_000_000;
    let tree = Tree::new(hosts, fanout).with_patience(patience);
    let peers = || std::iter::once(None).chain((0..hosts).map(Some));
    let asks = matches!(way, TableRoute::Asked(_));
    let place = |rank: u32| (rank / per_host) as usize;
    let places: Arc<[usize]> = (0..ranks).map(place).collect();
    let directory = |peer| Directory::new(peer, Arc::clone(&places));
    let mut spread = Distribution {
        costs,
        per_host,
        ranks,
        way,
        sizes,
        queue: Queue::default(),
        busy: vec![0; hosts + 1],
        members: peers()
            .map(|peer| Member::new(peer, tree.clone()))
            .collect(),
        directories: if asks {
            peers().map(directory).collect()
        } else {
            Vec::new()
        },
        missing: vec![1; ranks as usize],
        figure: Figure {
            ranks,
            hosts,
            time: 0,
            messages: 0,
            bytes: 0,
        },
    };
    spread.run();
    Ok(spread.figure)
}

pub(crate) fn index(peer: Peer) -> usize {
    peer.map_or(0, |host| host + 1)
}

impl Distribution {
    fn run(&mut self) {
        let learn = matches!(self.way, TableRoute::Asked(_));
        for rank in (0..self.ranks).filter(|_| learn) {
            // All have registered: their managers know them, and so does central.
            let host = (rank / self.per_host) as usize;
            for peer in [None, Some(host)] {
                let known = card(rank, host);
                let directory = &mut self.directories[index(peer)];
                let (rank, incarnation) = (Rank(rank), Incarnation(0));
                directory.learn(Generation(0), rank, incarnation, known, &mut Vec::new());
            }
        }
        if self.way == TableRoute::Star {
            for host in 0..self.figure.hosts {
                self.send(0, None, Some(host), TableMessage::Table);
            }
        } else {
            let mut effects = Vec::new();
            self.members[0].cast(Time(0), (Generation(0), 0), (), &mut effects);
            self.spread(0, None, effects);
        }
        while let Some((time, arrival)) = self.queue.pop() {
            self.arrive(time, arrival);
        }
    }

    /// When a manager has done this work.
    fn work(&mut self, now: u64, peer: Peer, bytes: usize) -> u64 {
        let cost = self.costs.message + ((bytes as u64 * self.costs.kibibyte) >> 10);
        let busy = &mut self.busy[index(peer)];
        *busy = now.max(*busy) + cost;
        *busy
    }

    fn size(&self, message: &TableMessage) -> usize {
        match message {
            TableMessage::Table => self.sizes.payload,
            TableMessage::Broadcast(broadcast::BroadcastMessage::Forward { .. }) => {
                self.sizes.payload + self.sizes.got
            }
            TableMessage::Broadcast(_) => self.sizes.got,
            TableMessage::Lookup(lookup::LookupMessage::Here { .. }) => self.sizes.card,
            TableMessage::Lookup(_) => self.sizes.question,
        }
    }

    fn send(&mut self, now: u64, from: Peer, to: Peer, message: TableMessage) {
        let bytes = self.size(&message);
        let sent = self.work(now, from, bytes);
        if from.is_none() || to.is_none() {
            self.figure.messages += 1;
            self.figure.bytes += bytes as u64;
        }
        let arrival = Arrival { from, to, message };
        self.queue.at(sent + self.costs.latency, arrival);
    }

    fn arrive(&mut self, time: u64, arrival: Arrival) {
        let Arrival { from, to, message } = arrival;
        let now = self.work(time, to, 0);
        match message {
            TableMessage::Table => self.deliver(now, to),
            TableMessage::Broadcast(message) => {
                let mut effects = Vec::new();
                self.members[index(to)].on_message(Time(now), from, message, &mut effects);
                self.spread(now, to, effects);
            }
            TableMessage::Lookup(message) => {
                let mut effects = Vec::new();
                self.directories[index(to)].on_message(Time(now), from, message, &mut effects);
                self.look(now, to, effects);
            }
        }
    }

    /// Other hosts first: a delay of the own ranks delays no other host.
    fn spread(&mut self, now: u64, peer: Peer, effects: Vec<broadcast::BroadcastEffect<()>>) {
        let mut delivers = false;
        for effect in effects {
            match effect {
                broadcast::BroadcastEffect::Send(to, message) => {
                    self.send(now, peer, to, TableMessage::Broadcast(message));
                }
                broadcast::BroadcastEffect::Deliver(()) => delivers = true,
                broadcast::BroadcastEffect::Complete(_) => {}
            }
        }
        if delivers {
            self.deliver(now, peer);
        }
    }

    /// A host passes the message to its ranks; a rank without a table asks for cards.
    fn deliver(&mut self, now: u64, peer: Peer) {
        let Some(host) = peer else {
            return;
        };
        let first = host as u32 * self.per_host;
        for rank in first..(first + self.per_host).min(self.ranks) {
            let done = self.work(now, peer, self.sizes.payload);
            if self.directories.is_empty() {
                self.has(rank, done);
                continue;
            }
            let neighbours = neighbours(rank, self.ranks);
            self.missing[rank as usize] = neighbours.len() as u32;
            for neighbour in neighbours {
                let asked = self.work(done, peer, 0);
                let mut effects = Vec::new();
                let (asker, wanted) = (Rank(rank), Rank(neighbour));
                let directory = &mut self.directories[index(peer)];
                directory.request(Time(asked), asker, wanted, Incarnation(0), &mut effects);
                self.look(asked, peer, effects);
            }
        }
    }

    fn look(&mut self, now: u64, peer: Peer, effects: Vec<lookup::LookupEffect>) {
        for effect in effects {
            match effect {
                lookup::LookupEffect::Send(to, message) => {
                    self.send(now, peer, to, TableMessage::Lookup(message));
                }
                lookup::LookupEffect::Tell(ranks, ..) => {
                    for rank in ranks {
                        let done = self.work(now, peer, self.sizes.card);
                        self.has(rank.0, done);
                    }
                }
            }
        }
    }

    fn has(&mut self, rank: u32, time: u64) {
        let missing = &mut self.missing[rank as usize];
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            self.figure.time = self.figure.time.max(time);
        }
    }
}

/// The six neighbours of a rank in a periodic grid that is as near to a cube as powers of two
/// allow.
fn neighbours(rank: u32, ranks: u32) -> Vec<u32> {
    let side = (f64::from(ranks).cbrt() as u32).max(1);
    let mut neighbours: Vec<u32> = [1, side, side * side]
        .into_iter()
        .flat_map(|step| [step, ranks - step % ranks])
        .map(|step| (rank + step) % ranks)
        .filter(|neighbour| *neighbour != rank)
        .collect();
    neighbours.sort_unstable();
    neighbours.dedup();
    neighbours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_served_and_a_tree_spares_central() {
        let costs = Costs::default();
        let of = |way| measure(1000, 8, way, costs).expect("a small table");
        let (star, tree, asked) = (
            of(TableRoute::Star),
            of(TableRoute::Tree(8)),
            of(TableRoute::Asked(8)),
        );
        assert_eq!(star.messages, 125);
        // Its children, and their acknowledgements: no child was adopted.
        assert_eq!(tree.messages, 16);
        assert!(tree.bytes * 10 < star.bytes && asked.bytes * 5 < tree.bytes);
        assert!(tree.time < star.time && asked.time < tree.time);
        assert!(asked.time > 4 * costs.latency, "there and back");
    }

    #[test]
    fn neighbours_are_mutual() {
        for rank in 0..1000 {
            for other in neighbours(rank, 1000) {
                assert!(neighbours(other, 1000).contains(&rank));
            }
        }
    }
}
