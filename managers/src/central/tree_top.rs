//! Central's part of the tree that the table goes down: it is the top.

use crate::error::Result;
use crate::launch::tree::{TreeOrder, TreePlace};
use rejoin_channel_table::{BusinessCard, Generation, Rank};
use rejoin_managers_protocol::broadcast::{BroadcastEffect, BroadcastMessage, Member, Stamp};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::lookup::{self, Directory};
use rejoin_managers_protocol::manager_messages::{ProcessInstance, Time, ToLocal};
use rejoin_wire::ProcessMap;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

/// Answers local managers that ask for a card that they do not know.
pub(super) struct Lookups {
    directory: Directory,
    /// For each rank the position of its host.
    places: Arc<[usize]>,
}

impl Lookups {
    /// Makes it for ranks placed on hosts, which are in ascending order.
    pub fn new(placement: &[HostIndex], hosts: &[HostIndex]) -> Lookups {
        let place = |host| hosts.binary_search(host).unwrap_or(usize::MAX);
        let places: Arc<[usize]> = placement.iter().map(place).collect();
        Lookups {
            directory: Directory::new(None, Arc::clone(&places)),
            places,
        }
    }

    /// A rank has moved or come back.
    fn learn(&mut self, instance: ProcessInstance, card: &BusinessCard) {
        let ProcessInstance {
            generation,
            rank,
            incarnation,
        } = instance;
        // No rank waits here for an answer.
        let told = &mut Vec::new();
        self.directory
            .learn(generation, rank, incarnation, card.clone(), told);
    }

    /// Learns the table of a start. The order that goes ahead of it, with which ranks begin and
    /// ask.
    fn ahead(&mut self, order: &ToLocal) -> Option<ToLocal> {
        let ToLocal::Start {
            generation,
            table,
            image,
        } = order
        else {
            return None;
        };
        for (rank, (incarnation, card)) in (0..).map(Rank).zip(table) {
            // No rank waits here for an answer.
            let (card, told) = (card.clone(), &mut Vec::new());
            self.directory
                .learn(*generation, rank, *incarnation, card, told);
        }
        let places = &self.places;
        let place = |rank: usize| places.get(rank).copied().unwrap_or(usize::MAX);
        Some(ToLocal::Begin {
            generation: *generation,
            process_map: ProcessMap::of(table, place),
            image: *image,
        })
    }
}

/// Messages to send, with their hosts.
pub(super) type Outgoing = Vec<(HostIndex, BroadcastMessage<TreeOrder>)>;

/// The top of the tree.
pub(super) struct Top {
    member: Member<TreeOrder>,
    /// The host at each position, ascending.
    hosts: Vec<HostIndex>,
    /// Where each listens, as far as it has said.
    addresses: Vec<Vec<SocketAddr>>,
    run: u64,
    under_way: Option<Stamp>,
    /// The messages sent so far, with their hosts. mpirun's links lose nothing, so once is enough.
    given: BTreeSet<(Stamp, usize, bool)>,
    /// Orders that may not come before the table.
    held: Vec<(HostIndex, ToLocal)>,
    /// Of a job whose ranks look cards up.
    lookups: Option<Lookups>,
}

impl Top {
    /// For these hosts, in ascending order. A later central manager has a greater number of the
    /// run.
    pub fn new(place: TreePlace, run: u64, hosts: Vec<HostIndex>, lookups: Option<Lookups>) -> Top {
        Top {
            member: Member::new(None, place.tree()),
            addresses: vec![Vec::new(); hosts.len()],
            hosts,
            run,
            under_way: None,
            given: BTreeSet::new(),
            held: Vec::new(),
            lookups,
        }
    }

    /// The position of a host.
    pub fn position(&self, host: HostIndex) -> Option<usize> {
        self.hosts.binary_search(&host).ok()
    }

    /// The host at a position.
    pub fn host_at(&self, position: usize) -> Option<HostIndex> {
        self.hosts.get(position).copied()
    }

    /// A local manager says where it listens.
    pub fn listens(&mut self, host: HostIndex, addresses: Vec<SocketAddr>) {
        if let Some(position) = self.position(host) {
            self.addresses[position] = addresses;
        }
    }

    /// Begins to spread the table of a generation. If ranks look cards up, the data with which they
    /// begin goes ahead of it. `None`: it can't go this way.
    pub fn cast(
        &mut self,
        now: Time,
        generation: Generation,
        order: &ToLocal,
    ) -> Result<Option<Outgoing>> {
        if let (ToLocal::Update { instance, card }, Some(lookups)) = (order, &mut self.lookups) {
            lookups.learn(*instance, card);
        }
        let ahead = self.lookups.as_mut().and_then(|l| l.ahead(order));
        let Some(begun) = &ahead else {
            return self.cast_one(now, generation, order);
        };
        let Some(mut outgoing) = self.cast_one(now, generation, begun)? else {
            return self.cast_one(now, generation, order);
        };
        let begun = self.under_way;
        match self.cast_one(now, generation, order)? {
            Some(table) => outgoing.extend(table),
            None => tracing::info!("the table does not go to the hosts: all is asked for here"),
        }
        // A host that has the first has begun.
        self.under_way = begun;
        Ok(Some(outgoing))
    }

    fn cast_one(
        &mut self,
        now: Time,
        generation: Generation,
        order: &ToLocal,
    ) -> Result<Option<Outgoing>> {
        let Ok(payload) = TreeOrder::new(self.addresses.clone(), order) else {
            // A direct send returns the error, which names the length.
            return Ok(None);
        };
        let mut effects = Vec::new();
        let series = (generation, self.run);
        self.given
            .retain(|(stamp, ..)| stamp.generation == generation);
        let stamp = self.member.cast(now, series, payload, &mut effects);
        if stamp.is_some() {
            self.under_way = stamp;
        }
        Ok(stamp.map(|_| self.outgoing(effects)))
    }

    /// A local manager says this.
    pub fn heard(
        &mut self,
        now: Time,
        host: HostIndex,
        message: BroadcastMessage<TreeOrder>,
    ) -> Outgoing {
        let mut effects = Vec::new();
        if let Some(position) = self.position(host) {
            self.member.hear(now, Some(position), message, &mut effects);
        }
        self.outgoing(effects)
    }

    /// A local manager asks where a rank is. The answer.
    pub fn answer_lookup(
        &mut self,
        now: Time,
        host: HostIndex,
        question: lookup::LookupMessage,
    ) -> Option<lookup::LookupMessage> {
        let position = self.position(host);
        let mut effects = Vec::new();
        let directory = &mut self.lookups.as_mut()?.directory;
        directory.hear(now, position, question, &mut effects);
        effects.into_iter().find_map(|effect| match effect {
            lookup::LookupEffect::Send(to, answer) => (to == position).then_some(answer),
            lookup::LookupEffect::Tell(..) => None,
        })
    }

    /// A host's link is closed for good.
    pub fn lost(&mut self, now: Time, host: HostIndex) -> Outgoing {
        let mut effects = Vec::new();
        if let Some(position) = self.position(host) {
            self.member.lost(now, position, &mut effects);
        }
        self.outgoing(effects)
    }

    /// Checks which members are late.
    pub fn tick(&mut self, now: Time) -> Outgoing {
        let mut effects = Vec::new();
        if self.deadline().is_some_and(|at| at <= now) {
            self.member.tick(now, &mut effects);
        }
        self.outgoing(effects)
    }

    /// When [`Top::tick`] is due.
    pub fn deadline(&self) -> Option<Time> {
        self.member.deadline()
    }

    /// Holds an order that may not arrive before the table under way. A rank without the table
    /// can't enter an epoch. All other orders are valid at any time: `Commit` is about images,
    /// `AllFinalized` follows messages of ranks that have the table, and an end needs no table.
    pub fn hold(&mut self, host: HostIndex, order: &ToLocal) -> bool {
        match order {
            ToLocal::Checkpoint { .. } if self.under_way.is_some() => {
                self.held.push((host, order.clone()));
                true
            }
            ToLocal::Restore { .. } => {
                // Of an older generation.
                self.held.retain(|(held, _)| *held != host);
                false
            }
            _ => false,
        }
    }

    /// The held orders, when all hosts have the table.
    pub fn released(&mut self) -> Vec<(HostIndex, ToLocal)> {
        match self.under_way {
            None => std::mem::take(&mut self.held),
            Some(_) => Vec::new(),
        }
    }

    fn outgoing(&mut self, effects: Vec<BroadcastEffect<TreeOrder>>) -> Outgoing {
        let mut outgoing = Vec::new();
        for effect in effects {
            match effect {
                BroadcastEffect::Send(Some(position), message) => {
                    let fresh = match &message {
                        BroadcastMessage::Forward { stamp, whole, .. } => {
                            self.given.insert((*stamp, position, *whole))
                        }
                        BroadcastMessage::Acknowledge { .. } => true,
                    };
                    if let Some(host) = self.hosts.get(position).filter(|_| fresh) {
                        tracing::debug!(host, "the table goes to a host");
                        outgoing.push((*host, message));
                    }
                }
                BroadcastEffect::Complete(stamp) => {
                    tracing::debug!(?stamp, "all hosts have the table");
                    if self.under_way == Some(stamp) {
                        self.under_way = None;
                    }
                }
                BroadcastEffect::Send(None, _) | BroadcastEffect::Deliver(_) => {}
            }
        }
        outgoing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::{Epoch, Incarnation};

    const GENERATION: Generation = Generation(1);

    /// A chain of three hosts, of which number 1 has no ranks.
    fn top() -> Top {
        let place = TreePlace {
            position: 0,
            hosts: 3,
            fanout: 1,
            patience: 100,
            launch: 0,
        };
        Top::new(place, 1, vec![0, 2, 3], None)
    }

    fn cast(top: &mut Top) -> Outgoing {
        let order = ToLocal::AllFinalized {
            generation: GENERATION,
        };
        let sent = top.cast(Time(0), GENERATION, &order);
        sent.expect("no error").expect("it goes down the tree")
    }

    fn got(out: &Outgoing, missing: Vec<usize>) -> BroadcastMessage<TreeOrder> {
        let BroadcastMessage::Forward { stamp, whole, .. } = out[0].1 else {
            panic!("no message: {out:?}");
        };
        BroadcastMessage::Acknowledge {
            stamp,
            whole,
            missing,
        }
    }

    #[test]
    fn an_order_to_checkpoint_waits_for_the_table() {
        let mut top = top();
        let order = ToLocal::Checkpoint {
            generation: GENERATION,
            epoch: Epoch(2),
        };
        assert!(!top.hold(3, &order), "nothing is under way");
        let out = cast(&mut top);
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].0, 0);
        assert!(top.hold(3, &order) && top.hold(2, &order));
        assert!(!top.hold(3, &ToLocal::Kill));
        assert_eq!(top.released(), []);
        let restore = ToLocal::Restore {
            generation: GENERATION.next(),
            epoch: None,
            ranks: Vec::new(),
            moved: Vec::new(),
        };
        assert!(!top.hold(2, &restore));
        assert!(top.heard(Time(1), 0, got(&out, Vec::new())).is_empty());
        assert_eq!(top.released(), [(3, order)]);
    }

    #[test]
    fn a_host_that_is_named_as_missing_gets_the_table_once() {
        let mut top = top();
        let out = cast(&mut top);
        let to = top.heard(Time(1), 0, got(&out, vec![1]));
        assert_eq!(to.iter().map(|(host, _)| *host).collect::<Vec<_>>(), [2]);
        let due = top.deadline().expect("it waits for the answer");
        assert!(top.tick(due).is_empty(), "the link has it already");
        assert!(top.deadline().is_some_and(|at| at > due));
        assert!(top.lost(due, 2).is_empty());
        assert_eq!(top.deadline(), None);
    }

    #[test]
    fn ranks_begin_ahead_of_the_table_and_central_answers_for_who_does_not_know() {
        let place = TreePlace {
            position: 0,
            hosts: 2,
            fanout: 1,
            patience: 100,
            launch: 0,
        };
        // Host 1 has no ranks, the first two are on host 2.
        let hosts = vec![0, 2];
        let lookups = Lookups::new(&[2, 2, 0], &hosts);
        let mut top = Top::new(place, 1, hosts, Some(lookups));
        let card = |pid| BusinessCard {
            pid,
            ..BusinessCard::default()
        };
        let table: Vec<_> = (0..3).map(|pid| (Incarnation(4), card(pid))).collect();
        let order = ToLocal::Start {
            generation: GENERATION,
            table: table.clone(),
            image: Some(Epoch(1)),
        };
        let sent = top.cast(Time(0), GENERATION, &order);
        let sent = sent.expect("no error").expect("it goes down the tree");
        let orders = sent.iter().map(|(host, message)| match message {
            BroadcastMessage::Forward { payload, .. } => {
                (*host, payload.order().expect("an order"))
            }
            BroadcastMessage::Acknowledge { .. } => panic!("an answer"),
        });
        let orders: Vec<_> = orders.collect();
        let ahead = ToLocal::Begin {
            generation: GENERATION,
            process_map: ProcessMap::of(&table, |rank| [1, 1, 0][rank]),
            image: Some(Epoch(1)),
        };
        assert_eq!(orders, [(0, ahead), (0, order)]);
        let ask = |rank, least| lookup::LookupMessage::Where {
            generation: GENERATION,
            rank,
            least: Incarnation(least),
        };
        let here = lookup::LookupMessage::Here {
            generation: GENERATION,
            rank: Rank(1),
            incarnation: Incarnation(4),
            card: card(1),
        };
        assert_eq!(top.answer_lookup(Time(1), 2, ask(Rank(1), 4)), Some(here));
        for (rank, least) in [(Rank(1), 5), (Rank(3), 0), (Rank(u32::MAX), 0)] {
            let generation = GENERATION;
            let unknown = lookup::LookupMessage::Unknown { generation, rank };
            assert_eq!(
                top.answer_lookup(Time(1), 2, ask(rank, least)),
                Some(unknown)
            );
        }
        // A checkpoint waits until all have begun, not for the table.
        let checkpoint = ToLocal::Checkpoint {
            generation: GENERATION,
            epoch: Epoch(2),
        };
        assert!(top.hold(2, &checkpoint));
        top.heard(Time(2), 0, got(&sent, Vec::new()));
        assert_eq!(top.released(), [(2, checkpoint)]);
        assert!(top.deadline().is_some(), "the table is under way");
    }
}
