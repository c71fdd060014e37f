//! Central's part of the tree that the table goes down: it is the top.

use crate::error::Result;
use crate::launch::tree::{TreeOrder, TreePlace};
use rejoin_channel_table::{BusinessCard, Generation, Rank};
use rejoin_managers_protocol::broadcast::{BroadcastEffect, BroadcastMessage, Member, Stamp};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::lookup::{self, Directory};
use rejoin_managers_protocol::manager_messages::{ProcessInstance, Time, ToLocal};
use rejoin_wire::ProcessMap;
use std::collections::{BTreeSet, VecDeque};
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
            generation, table, ..
        } = order
        else {
            return None;
        };
        for (rank, (incarnation, card)) in (0..).map(Rank).zip(table) {
            // No rank waits here for an answer.
            let (card, told) = (Arc::clone(card), &mut Vec::new());
            self.directory
                .learn(*generation, rank, *incarnation, card, told);
        }
        let places = &self.places;
        begin(order, |rank| {
            places.get(rank).copied().unwrap_or(usize::MAX)
        })
    }
}

/// The order with which ranks begin and ask, for a start. `place`: the position of a rank's host.
fn begin(order: &ToLocal, place: impl Fn(usize) -> usize) -> Option<ToLocal> {
    let ToLocal::Start {
        generation,
        table,
        image,
    } = order
    else {
        return None;
    };
    Some(ToLocal::Begin {
        generation: *generation,
        process_map: ProcessMap::of(table, place),
        image: *image,
    })
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
    /// Updates that wait, because too many messages are under way.
    waiting: VecDeque<(Generation, ToLocal)>,
    /// The message that carries the present addresses, once there is one.
    carrier: Option<Stamp>,
    /// All hosts have the present addresses: later messages do without them. They are the longest
    /// part of an update.
    are_known: bool,
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
            waiting: VecDeque::new(),
            carrier: None,
            are_known: false,
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
        let Some(position) = self.position(host) else {
            return;
        };
        if self.addresses[position] != addresses {
            self.addresses[position] = addresses;
            (self.carrier, self.are_known) = (None, false);
        }
    }

    /// What a host gets directly instead of the table, if ranks look cards up: the table of a large
    /// job is too long for a message. The host knows which managers to ask, or asks central.
    pub fn without_table(&self, order: &ToLocal) -> Option<ToLocal> {
        self.lookups.as_ref()?;
        begin(order, |_| usize::MAX)
    }

    /// Begins to spread the table of a generation. If ranks look cards up, the data with which they
    /// begin goes ahead of it. `None`: it can't go this way.
    pub fn cast(
        &mut self,
        now: Time,
        generation: Generation,
        order: &ToLocal,
    ) -> Result<Option<Outgoing>> {
        self.waiting.retain(|(of, _)| *of >= generation);
        if let ToLocal::Update { instance, card } = order {
            if let Some(lookups) = &mut self.lookups {
                lookups.learn(*instance, card);
            }
            if self.member.is_full() || !self.waiting.is_empty() {
                self.waiting.push_back((generation, order.clone()));
                return Ok(Some(Outgoing::new()));
            }
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
        let addresses = match self.are_known {
            true => Vec::new(),
            false => self.addresses.clone(),
        };
        let Ok(payload) = TreeOrder::new(addresses, order) else {
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
            self.carrier = self.carrier.or(stamp);
        }
        Ok(stamp.map(|_| self.outgoing(effects)))
    }

    /// A local manager says this.
    pub fn heard(
        &mut self,
        now: Time,
        host: HostIndex,
        message: BroadcastMessage<TreeOrder>,
    ) -> Result<Outgoing> {
        let mut effects = Vec::new();
        if let Some(position) = self.position(host) {
            self.member.hear(now, Some(position), message, &mut effects);
        }
        self.continues(now, effects)
    }

    /// Sends messages, and the updates that have waited for the end of others.
    fn continues(
        &mut self,
        now: Time,
        effects: Vec<BroadcastEffect<TreeOrder>>,
    ) -> Result<Outgoing> {
        let mut outgoing = self.outgoing(effects);
        while !self.member.is_full()
            && let Some((generation, order)) = self.waiting.pop_front()
        {
            outgoing.extend(self.cast_one(now, generation, &order)?.unwrap_or_default());
        }
        Ok(outgoing)
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
    pub fn lost(&mut self, now: Time, host: HostIndex) -> Result<Outgoing> {
        let mut effects = Vec::new();
        if let Some(position) = self.position(host) {
            self.member.lost(now, position, &mut effects);
        }
        self.continues(now, effects)
    }

    /// Checks which members are late.
    pub fn tick(&mut self, now: Time) -> Result<Outgoing> {
        let mut effects = Vec::new();
        if self.deadline().is_some_and(|at| at <= now) {
            self.member.tick(now, &mut effects);
        }
        self.continues(now, effects)
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
            ToLocal::Checkpoint { .. } if self.is_spreading() => {
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
        match self.is_spreading() {
            false => std::mem::take(&mut self.held),
            true => Vec::new(),
        }
    }

    /// A table or an update is under way, or waits for its turn.
    fn is_spreading(&self) -> bool {
        self.under_way.is_some() || !self.waiting.is_empty()
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
                    self.are_known |= self.carrier.is_some_and(|carrier| carrier <= stamp);
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
    use rejoin_managers_protocol::broadcast::MOST;

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

    fn heard(
        top: &mut Top,
        now: u64,
        host: HostIndex,
        message: BroadcastMessage<TreeOrder>,
    ) -> Outgoing {
        let out = top.heard(Time(now), host, message);
        out.expect("no error")
    }

    fn update(number: u32) -> ToLocal {
        ToLocal::Update {
            instance: ProcessInstance {
                generation: GENERATION,
                rank: Rank(0),
                incarnation: Incarnation(number),
            },
            card: BusinessCard::default(),
        }
    }

    /// How many managers' addresses a message carries.
    fn addresses(out: &Outgoing) -> usize {
        let BroadcastMessage::Forward { payload, .. } = &out[0].1 else {
            panic!("no message: {out:?}");
        };
        payload.addresses().len()
    }

    #[test]
    fn an_update_carries_addresses_only_until_all_hosts_have_them() {
        let mut top = top();
        top.listens(2, vec!["10.0.0.1:99".parse().expect("an address")]);
        let send = |top: &mut Top, number| {
            let sent = top.cast(Time(0), GENERATION, &update(number));
            sent.expect("no error").expect("it goes down the tree")
        };
        let first = send(&mut top, 1);
        assert_eq!(addresses(&first), 3);
        // Some host may not have the first.
        assert_eq!(addresses(&send(&mut top, 2)), 3);
        heard(&mut top, 1, 0, got(&first, Vec::new()));
        assert_eq!(addresses(&send(&mut top, 3)), 0);
        top.listens(2, vec!["10.0.0.1:98".parse().expect("an address")]);
        assert_eq!(addresses(&send(&mut top, 4)), 3);
    }

    #[test]
    fn many_updates_wait_for_each_other_and_a_checkpoint_for_all() {
        let mut top = top();
        let count = 3 * MOST;
        let mut sent = Outgoing::new();
        for number in 0..count {
            let out = top.cast(Time(0), GENERATION, &update(number as u32));
            sent.extend(out.expect("no error").expect("it goes down the tree"));
        }
        assert_eq!(sent.len(), MOST);
        let checkpoint = ToLocal::Checkpoint {
            generation: GENERATION,
            epoch: Epoch(2),
        };
        assert!(top.hold(2, &checkpoint));
        for number in 0..count {
            assert_eq!(top.released(), [], "{number} have arrived");
            let one = vec![sent[number].clone()];
            sent.extend(heard(&mut top, 1, 0, got(&one, Vec::new())));
        }
        let order = |(_, message): &(HostIndex, BroadcastMessage<TreeOrder>)| match message {
            BroadcastMessage::Forward { payload, .. } => payload.order().expect("an order"),
            BroadcastMessage::Acknowledge { .. } => panic!("an answer"),
        };
        let arrived: Vec<ToLocal> = sent.iter().map(order).collect();
        let all: Vec<ToLocal> = (0..count as u32).map(update).collect();
        assert_eq!(arrived, all);
        assert_eq!(top.released(), [(2, checkpoint)]);
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
        assert!(heard(&mut top, 1, 0, got(&out, Vec::new())).is_empty());
        assert_eq!(top.released(), [(3, order)]);
    }

    #[test]
    fn a_host_that_is_named_as_missing_gets_the_table_once() {
        let mut top = top();
        let out = cast(&mut top);
        let to = heard(&mut top, 1, 0, got(&out, vec![1]));
        assert_eq!(to.iter().map(|(host, _)| *host).collect::<Vec<_>>(), [2]);
        let due = top.deadline().expect("it waits for the answer");
        assert!(
            top.tick(due).expect("no error").is_empty(),
            "the link has it already"
        );
        assert!(top.deadline().is_some_and(|at| at > due));
        assert!(top.lost(due, 2).expect("no error").is_empty());
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
        let table: Vec<_> = (0..3)
            .map(|pid| (Incarnation(4), Arc::new(card(pid))))
            .collect();
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
        heard(&mut top, 2, 0, got(&sent, Vec::new()));
        assert_eq!(top.released(), [(2, checkpoint)]);
        assert!(top.deadline().is_some(), "the table is under way");
    }
}
