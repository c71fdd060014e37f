//! Central's part of the tree that the table goes down: it is the top.

use crate::launch::tree::{JobTree, TreeOrder};
use rejoin_channel_table::Generation;
use rejoin_managers_host::error::Result;
use rejoin_managers_net::address::ManagerReach;
use rejoin_managers_protocol::broadcast::{BroadcastEffect, BroadcastMessage, Member, Stamp};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::central_lookups::CentralLookups;
use rejoin_managers_protocol::lookup::LookupMessage;
use rejoin_managers_protocol::manager_messages::{ImageOrder, Time, ToLocal};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// For each rank the position of its host. A host that was added to the job has none: central is
/// asked for its ranks.
fn places(placement: &[HostIndex], positions: &[usize]) -> Arc<[usize]> {
    let place = |host: &HostIndex| positions.get(*host).copied().unwrap_or(usize::MAX);
    placement.iter().map(place).collect()
}

/// More trees than a run of central has.
pub(super) const TREES: u64 = 1 << 16;

/// Messages to send, with their hosts.
pub(super) type Outgoing = Vec<(HostIndex, BroadcastMessage<TreeOrder>)>;

/// The top of the tree.
pub(super) struct Top {
    member: Member<TreeOrder>,
    /// The host at each position.
    hosts: Vec<HostIndex>,
    /// The position of each host.
    positions: Vec<usize>,
    /// The positions of hosts that have a manager.
    present: BTreeSet<usize>,
    /// Where each listens, as far as it has said.
    addresses: Vec<ManagerReach>,
    /// The number of the run of central, raised each time that the tree changes.
    run: u64,
    /// The generation in which the tree was changed last.
    arranged: Option<Generation>,
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
    /// A request for a checkpoint, which may not come before the table.
    held: Option<(Generation, ToLocal)>,
    /// Of a job whose ranks look cards up.
    lookups: Option<CentralLookups>,
}

impl Top {
    /// For a job whose ranks are placed like this. A later central manager has a greater number of
    /// the run, by at least [`TREES`]. `has_lookups`: ranks look cards up.
    pub fn new(tree: &JobTree, run: u64, placement: &[HostIndex], has_lookups: bool) -> Top {
        let hosts = tree.hosts().to_vec();
        let mut positions = vec![usize::MAX; hosts.len()];
        for (position, host) in hosts.iter().enumerate() {
            positions[*host] = position;
        }
        let present = placement.iter().filter_map(|host| positions.get(*host));
        Top {
            member: Member::new(None, tree.tree()),
            present: present.copied().collect(),
            addresses: vec![ManagerReach::default(); hosts.len()],
            lookups: has_lookups.then(|| CentralLookups::new(places(placement, &positions))),
            hosts,
            positions,
            run,
            arranged: None,
            under_way: None,
            waiting: VecDeque::new(),
            carrier: None,
            are_known: false,
            given: BTreeSet::new(),
            held: None,
        }
    }

    /// From now on the ranks are on these hosts.
    pub fn place(&mut self, placement: &[HostIndex]) {
        if let Some(lookups) = &mut self.lookups {
            lookups.place(places(placement, &self.positions));
        }
    }

    /// The position of a host. One that was added later has none.
    pub fn position(&self, host: HostIndex) -> Option<usize> {
        self.positions.get(host).copied()
    }

    /// The present tree reaches a host. Another one, whose manager has come later, is told directly
    /// until the next generation.
    pub fn reaches(&self, host: HostIndex) -> bool {
        let position = self.position(host);
        position.is_some_and(|position| self.member.reaches(position))
    }

    /// The host at a position.
    pub fn host_at(&self, position: usize) -> Option<HostIndex> {
        self.hosts.get(position).copied()
    }

    /// A local manager says where it listens.
    pub fn listens(&mut self, host: HostIndex, reach: ManagerReach) {
        let Some(position) = self.position(host) else {
            return;
        };
        self.present.insert(position);
        if self.addresses[position] != reach {
            self.addresses[position] = reach;
            (self.carrier, self.are_known) = (None, false);
        }
    }

    /// What a host gets directly instead of the table, if ranks look cards up: the table of a large
    /// job is too long for a message. The host knows which managers to ask, or asks central.
    pub fn without_table(&mut self, order: &ToLocal) -> Option<ToLocal> {
        self.lookups.as_mut()?.ahead(order)
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
        self.held.take_if(|(of, _)| *of < generation);
        if matches!(order, ToLocal::Image(ImageOrder::Checkpoint { .. })) && self.is_spreading() {
            // A rank without the table can't enter an epoch.
            self.held = Some((generation, order.clone()));
            return Ok(Some(Outgoing::new()));
        }
        if let ToLocal::Update { instance, card } = order {
            if let Some(lookups) = &mut self.lookups {
                lookups.update(*instance, card);
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
        self.arrange(generation);
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

    /// Changes the tree, if hosts have come or are lost. Hosts come in with a new generation only:
    /// what they were told directly before may still be on its way. Within a generation, a message
    /// that is under way keeps its tree.
    fn arrange(&mut self, generation: Generation) {
        let is_newer = self.arranged.is_none_or(|before| generation > before);
        let all = 0..self.hosts.len();
        let is_out = |position: &usize| {
            !self.present.contains(position) || !is_newer && !self.member.reaches(*position)
        };
        let absent: BTreeSet<usize> = all.filter(is_out).collect();
        let is_lost = |position: &usize| self.member.reaches(*position);
        if !is_newer && (!self.member.is_idle() || !absent.iter().any(is_lost)) {
            return;
        }
        self.member.leave_out(absent);
        self.run += 1;
        self.arranged = Some(generation);
        (self.carrier, self.are_known) = (None, false);
    }

    /// A local manager says this.
    pub fn on_report(
        &mut self,
        now: Time,
        host: HostIndex,
        message: BroadcastMessage<TreeOrder>,
    ) -> Result<Outgoing> {
        let mut effects = Vec::new();
        if let Some(position) = self.position(host) {
            self.member
                .on_message(now, Some(position), message, &mut effects);
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
        if !self.is_spreading()
            && let Some((generation, order)) = self.held.take()
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
        question: LookupMessage,
    ) -> Option<LookupMessage> {
        let position = self.position(host);
        self.lookups.as_mut()?.answer(now, position, question)
    }

    /// A host's link is closed for good.
    pub fn lost(&mut self, now: Time, host: HostIndex) -> Result<Outgoing> {
        let mut effects = Vec::new();
        if let Some(position) = self.position(host) {
            self.present.remove(&position);
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
mod tests;
