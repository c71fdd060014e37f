//! The present process instance of each rank, as far as central knows it.

use super::interface::HostIndex;
use super::log_table::LogView;
use crate::manager_messages::{ProcessInstance, RankReport, Stage, Time};
use crate::verdict::Verdict;
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, Rank};
use rejoin_wire::Limits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A rank at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankView {
    /// Number of its host.
    pub host: HostIndex,
    /// Process id of the rank there; 0 while it has none.
    pub pid: u32,
    /// Incarnation of the rank.
    pub incarnation: Incarnation,
    /// How far it has come.
    pub stage: Stage,
    /// The rank's process has ended.
    pub ended: bool,
    /// The epoch of its last image that is there.
    pub image: Option<Epoch>,
    /// What its log holds, with message logging.
    pub log: Option<LogView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RankState {
    host: HostIndex,
    incarnation: Incarnation,
    /// The highest incarnation that a process may have had: of a move that was given up, too.
    highest: Incarnation,
    /// The incarnation before the present one, as far as that is known.
    before: Incarnation,
    stage: Stage,
    pid: u32,
    /// Shared with the tables that are made of it: a large job has many cards.
    card: Option<Arc<BusinessCard>>,
    limits: Option<Limits>,
    ended: bool,
    /// The rank is coming back alone, since this time.
    alone_since: Option<Time>,
}

impl RankState {
    /// The next incarnation, of which nothing is known yet.
    fn renew(&mut self) {
        self.before = self.incarnation;
        self.incarnation = self.incarnation.max(self.highest).next();
        self.stage = Stage::Spawned;
        self.pid = 0;
        self.card = None;
        self.ended = false;
    }
}

/// The job's generation, and the present process instance of each rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RankTable {
    generation: Generation,
    ranks: Vec<RankState>,
    /// A rank that ended without registering: a wait for it would never end.
    absent: Option<Rank>,
    /// Ranks below this one have registered: where to look first for one that has not.
    complete: usize,
    /// How many have registered since all ranks rolled back.
    registered: u32,
}

impl RankTable {
    /// These ranks by host.
    pub fn on_hosts(
        &self,
        ranks: &[(Rank, Incarnation)],
    ) -> BTreeMap<HostIndex, Vec<(Rank, Incarnation)>> {
        let mut by_host: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for one in ranks {
            let host = self.host_of(one.0);
            by_host.entry(host).or_default().push(*one);
        }
        by_host
    }

    /// Ranks that have not been started, each on its host.
    pub fn new(
        generation: Generation,
        incarnation: Incarnation,
        placement: &[HostIndex],
    ) -> RankTable {
        let rank = |&host: &HostIndex| RankState {
            host,
            incarnation,
            highest: incarnation,
            before: incarnation,
            stage: Stage::Spawned,
            pid: 0,
            card: None,
            limits: None,
            ended: false,
            alone_since: None,
        };
        RankTable {
            generation,
            ranks: placement.iter().map(rank).collect(),
            absent: None,
            complete: 0,
            registered: 0,
        }
    }

    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// How many ranks the job has.
    pub fn count(&self) -> u32 {
        u32::try_from(self.ranks.len()).unwrap_or(u32::MAX)
    }

    /// How many have registered since all ranks were started, or rolled back.
    pub fn registered_count(&self) -> u32 {
        self.registered
    }

    pub fn incarnations(&self) -> Vec<Incarnation> {
        self.all().map(|r| r.incarnation).collect()
    }

    /// For each rank its host.
    pub fn placement(&self) -> Vec<HostIndex> {
        self.all().map(|r| r.host).collect()
    }

    /// From now on the ranks are on these hosts.
    pub fn place(&mut self, placement: &[HostIndex]) {
        for (rank, host) in self.ranks.iter_mut().zip(placement) {
            rank.host = *host;
        }
    }

    /// Whether a rank has registered, and is not in `MPI_Finalize`.
    pub fn is_computing(&self, rank: Rank) -> bool {
        let rank = self.ranks.get(rank.index());
        rank.is_some_and(|rank| rank.stage == Stage::Registered && !rank.ended)
    }

    /// The incarnation of a process that is made elsewhere while the present one waits.
    pub fn next_incarnation(&self, rank: Rank) -> Incarnation {
        let rank = &self.ranks[rank.index()];
        rank.incarnation.max(rank.highest).next()
    }

    /// A process may have this incarnation, also if it does not become the present one.
    pub fn spend(&mut self, rank: Rank, incarnation: Incarnation) {
        if let Some(rank) = self.ranks.get_mut(rank.index()) {
            rank.highest = rank.highest.max(incarnation);
        }
    }

    /// The highest incarnations that processes of ranks may have had which are not the present
    /// ones.
    pub fn spent(&self) -> Vec<(Rank, Incarnation)> {
        let spent = self
            .numbered()
            .filter(|(_, rank)| rank.highest > rank.incarnation);
        spent.map(|(rank, state)| (rank, state.highest)).collect()
    }

    /// A rank is on this host from now on, in this incarnation.
    pub fn move_to(&mut self, rank: Rank, host: HostIndex, incarnation: Incarnation) {
        if let Some(rank) = self.ranks.get_mut(rank.index()) {
            (rank.host, rank.incarnation) = (host, incarnation);
            rank.highest = rank.highest.max(incarnation);
        }
    }

    /// A rank that has moved has registered.
    pub fn arrived(&mut self, rank: Rank, (pid, card, limits): (u32, BusinessCard, Limits)) {
        let rank = &mut self.ranks[rank.index()];
        rank.stage = Stage::Registered;
        (rank.pid, rank.card, rank.limits) = (pid, Some(card.into()), Some(limits));
    }

    /// Whether a rank is on this host.
    pub fn is_any_on(&self, host: HostIndex) -> bool {
        self.all().any(|rank| rank.host == host)
    }

    /// Whether a process of some rank was started on this host.
    pub fn is_any_started_on(&self, host: HostIndex) -> bool {
        self.all().any(|rank| rank.host == host && rank.pid != 0)
    }

    /// For each of so many hosts whether some rank is there.
    pub fn hosts_with_ranks(&self, hosts: usize) -> Vec<bool> {
        let mut any = vec![false; hosts];
        for rank in self.all() {
            if let Some(host) = any.get_mut(rank.host) {
                *host = true;
            }
        }
        any
    }

    /// For each of so many hosts its ranks.
    pub fn by_host(&self, hosts: usize) -> Vec<Vec<(Rank, Incarnation)>> {
        let mut lists = vec![Vec::new(); hosts];
        for (rank, state) in self.numbered() {
            if let Some(ranks) = lists.get_mut(state.host) {
                ranks.push((rank, state.incarnation));
            }
        }
        lists
    }

    pub fn host_of(&self, rank: Rank) -> HostIndex {
        self.ranks[rank.index()].host
    }

    /// The present instance of a rank.
    pub fn instance(&self, rank: Rank) -> ProcessInstance {
        ProcessInstance {
            generation: self.generation,
            rank,
            incarnation: self.ranks[rank.index()].incarnation,
        }
    }

    /// The ranks as they are now, in their order. `image` returns the epoch of a rank's last image.
    pub fn views(&self, image: impl Fn(Rank) -> Option<Epoch>) -> impl Iterator<Item = RankView> {
        self.numbered().map(move |(rank, state)| RankView {
            host: state.host,
            pid: state.pid,
            incarnation: state.incarnation,
            stage: state.stage,
            ended: state.ended,
            image: image(rank),
            log: None,
        })
    }

    /// All ranks, in their order. With many ranks, no message may have central look at all of them
    /// once for each host: tests count the looks.
    fn all(&self) -> impl Iterator<Item = &RankState> {
        let all = self.ranks.iter();
        #[cfg(test)]
        let all = all.inspect(|_| looks::count());
        all
    }

    fn numbered(&self) -> impl Iterator<Item = (Rank, &RankState)> {
        (0u32..).map(Rank).zip(self.all())
    }

    /// The rank of this instance, unless the news is of an older instance or from the wrong host.
    fn find(&mut self, host: HostIndex, instance: ProcessInstance) -> Option<&mut RankState> {
        let live = self.is_live(host, instance);
        self.ranks.get_mut(instance.rank.index()).filter(|_| live)
    }

    /// The instance is the present one of its rank, and may have ended.
    pub fn is_current(&self, instance: ProcessInstance) -> bool {
        instance.generation == self.generation
            && self.is_last_incarnation(instance.rank, instance.incarnation)
    }

    pub fn is_last_incarnation(&self, rank: Rank, incarnation: Incarnation) -> bool {
        let rank = self.ranks.get(rank.index());
        rank.is_some_and(|rank| rank.incarnation == incarnation)
    }

    /// The instance is the present one of its rank on this host, and has not ended.
    pub fn is_live(&self, host: HostIndex, instance: ProcessInstance) -> bool {
        let rank = self.ranks.get(instance.rank.index());
        self.is_current(instance) && rank.is_some_and(|rank| rank.host == host && !rank.ended)
    }

    /// There is such a rank, on this host.
    pub fn is_on(&self, rank: Rank, host: HostIndex) -> bool {
        let rank = self.ranks.get(rank.index());
        rank.is_some_and(|rank| rank.host == host)
    }

    /// The instance was the present one of its rank before the last rollback of all ranks.
    pub fn was_rolled_back(&self, instance: ProcessInstance) -> bool {
        let rank = self.ranks.get(instance.rank.index());
        let is_last = instance.generation.next() == self.generation;
        is_last && rank.is_some_and(|rank| rank.before == instance.incarnation)
    }

    /// The process of a live instance was started.
    pub fn spawned(&mut self, host: HostIndex, instance: ProcessInstance, pid: u32) {
        if let Some(rank) = self.find(host, instance) {
            rank.pid = pid;
        }
    }

    /// A live instance called `MPI_Init`; its process id, card and sizes are known. `false`: it is
    /// not live.
    pub fn registered(
        &mut self,
        host: HostIndex,
        instance: ProcessInstance,
        (pid, card, limits): (u32, BusinessCard, Limits),
    ) -> bool {
        let Some(rank) = self.find(host, instance) else {
            return false;
        };
        rank.pid = pid;
        let is_new = rank.card.replace(card.into()).is_none();
        rank.limits = Some(limits);
        rank.stage = rank.stage.max(Stage::Registered);
        self.registered += u32::from(is_new);
        true
    }

    /// A live instance called `MPI_Finalize`. `false`: it is not live.
    pub fn finalizing(&mut self, host: HostIndex, instance: ProcessInstance) -> bool {
        let Some(rank) = self.find(host, instance) else {
            return false;
        };
        rank.stage = rank.stage.max(Stage::Finalizing);
        true
    }

    /// A live instance ended as it should. `false`: it is not live.
    pub fn ended(&mut self, host: HostIndex, instance: ProcessInstance, stage: Stage) -> bool {
        let Some(rank) = self.find(host, instance) else {
            return false;
        };
        rank.ended = true;
        rank.stage = rank.stage.max(stage);
        if rank.stage == Stage::Spawned {
            self.absent = self.absent.or(Some(instance.rank));
        }
        true
    }

    /// A live instance failed. `false`: it is not live.
    pub fn failed(&mut self, host: HostIndex, instance: ProcessInstance) -> bool {
        let Some(rank) = self.find(host, instance) else {
            return false;
        };
        rank.ended = true;
        true
    }

    /// A rank ended without registering.
    pub fn has_absent(&self) -> bool {
        self.absent.is_some()
    }

    /// A rank that ended without registering, and one that waits for it in `MPI_Init`.
    pub fn waits_for_absent(&self) -> Option<(Rank, Rank)> {
        let absent = self.absent?;
        let (waiting, _) = self
            .numbered()
            .find(|(_, r)| r.stage >= Stage::Registered)?;
        Some((absent, waiting))
    }

    /// The verdict on a rank that goes by other settings than one that registered before it.
    pub fn differing(&self, rank: Rank) -> Option<Verdict> {
        let here = self.ranks.get(rank.index())?.limits?;
        // Earlier ranks have equal settings, so one of them represents all.
        let known = |(other, r): (Rank, &RankState)| Some((other, r.limits?));
        let mut others = self.numbered().filter(|(other, _)| *other != rank);
        let (other, theirs) = others.find_map(known)?;
        let (variable, here, there) = here.difference(&theirs)?;
        Some(Verdict::Differing {
            variable: variable.into(),
            one: (other, there),
            other: (rank, here),
        })
    }

    /// The ranks that have registered and said their settings.
    pub fn with_limits(&self) -> Vec<Rank> {
        let known = self.numbered().filter(|(_, r)| r.limits.is_some());
        known.map(|(rank, _)| rank).collect()
    }

    /// Incarnation and card of each rank, once all are known.
    pub fn table(&self) -> Option<Vec<(Incarnation, Arc<BusinessCard>)>> {
        let entry = |r: &RankState| {
            // One that is still on its way is not where the former was: others wait for its update.
            let is_coming = r.alone_since.is_some() && r.stage == Stage::Spawned;
            let incarnation = if is_coming { r.before } else { r.incarnation };
            Some((incarnation, r.card.clone()?))
        };
        self.all().map(entry).collect()
    }

    /// Incarnation and card of each rank, once all are known, for ranks that register one after the
    /// other. With many ranks, looking at all of them at each message would take longer than the
    /// messages.
    pub fn complete_table(&mut self) -> Option<Vec<(Incarnation, Arc<BusinessCard>)>> {
        let open = |r: &RankState| r.card.is_none();
        if let Some(more) = self.ranks[self.complete..].iter().position(open) {
            self.complete += more;
            return None;
        }
        let table = self.table()?;
        self.complete = 0;
        Some(table)
    }

    /// Every rank has called `MPI_Finalize`.
    pub fn all_finalizing(&self) -> bool {
        self.all().all(|r| r.stage >= Stage::Finalizing)
    }

    /// Every rank rolls back: a new generation begins.
    pub fn roll_back(&mut self) {
        self.generation = self.generation.next();
        for rank in &mut self.ranks {
            rank.renew();
            rank.alone_since = None;
        }
        (self.absent, self.complete, self.registered) = (None, 0, 0);
    }

    /// Only this rank comes back. It may fail again on its way.
    pub fn restore_alone(&mut self, now: Time, rank: Rank) {
        let state = &mut self.ranks[rank.index()];
        state.alone_since.get_or_insert(now);
        // Nothing is sent any more; others that come back alone must not wait for this one.
        let card = state.card.take();
        state.renew();
        state.card = card;
    }

    /// A rank of a group comes back while the others stand.
    pub fn is_away(&self, rank: Rank) -> bool {
        let rank = self.ranks.get(rank.index());
        rank.is_some_and(|rank| rank.alone_since.is_some())
    }

    /// Some rank comes back while others stand.
    pub fn is_any_away(&self) -> bool {
        self.all().any(|rank| rank.alone_since.is_some())
    }

    /// The rank has registered since it began to come back.
    pub fn has_returned(&self, rank: Rank) -> bool {
        let rank = self.ranks.get(rank.index());
        rank.is_some_and(|rank| rank.stage >= Stage::Registered && !rank.ended)
    }

    /// The instance was the present one of its rank before the rank began to come back.
    pub fn was_replaced(&self, instance: ProcessInstance) -> bool {
        let rank = self.ranks.get(instance.rank.index());
        instance.generation == self.generation
            && rank.is_some_and(|r| r.alone_since.is_some() && r.before == instance.incarnation)
    }

    /// Central was started again: these incarnations of ranks were ordered, to come back while the
    /// others stand.
    pub fn recall_group(&mut self, ranks: &[(Rank, Incarnation)]) {
        for (rank, incarnation) in ranks {
            if let Some(rank) = self.ranks.get_mut(rank.index()) {
                rank.before = rank.incarnation;
                rank.incarnation = *incarnation;
                rank.highest = rank.highest.max(*incarnation);
            }
        }
    }

    /// Central was started again, and does not know whether this rank is back.
    pub fn adopt_away(&mut self, rank: Rank, since: Time) {
        if let Some(rank) = self.ranks.get_mut(rank.index()) {
            rank.alone_since = Some(since);
        }
    }

    /// A rank that comes back alone is restored. Returns since when it was on its way.
    pub fn restored(&mut self, rank: Rank) -> Option<Time> {
        self.ranks[rank.index()].alone_since.take()
    }

    /// Central was started again: these process instances were last ordered.
    pub fn recall(&mut self, generation: Generation, incarnations: &[Incarnation]) {
        self.generation = generation;
        for (rank, incarnation) in self.ranks.iter_mut().zip(incarnations) {
            rank.incarnation = *incarnation;
            // Without moves, that is so.
            rank.before = Incarnation(incarnation.0.saturating_sub(1));
            rank.highest = rank.highest.max(*incarnation);
        }
    }

    /// Central was started again after the release of all ranks. Ranks that come back alone send
    /// nothing any more: an old card does for them.
    pub fn recall_cards(&mut self, cards: &[Arc<BusinessCard>]) {
        for (rank, card) in self.ranks.iter_mut().zip(cards) {
            rank.card = Some(Arc::clone(card));
        }
    }

    /// Takes over a host's report about one of its ranks.
    pub fn adopt(&mut self, host: HostIndex, said: &RankReport) {
        let Some(rank) = self.ranks.get_mut(said.rank.index()) else {
            return;
        };
        if rank.host != host || rank.incarnation != said.incarnation {
            return;
        }
        rank.pid = said.pid;
        rank.stage = said.stage;
        rank.ended = said.ended;
        if said.stage >= Stage::Registered {
            rank.card = said.card.clone().map(Arc::new).or(rank.card.take());
            rank.limits = said.limits;
        }
    }

    /// The ranks of a host that gives no report have ended, at this stage.
    pub fn adopt_ended(&mut self, host: HostIndex, stage: Stage) {
        for rank in self.ranks.iter_mut().filter(|r| r.host == host) {
            rank.ended = true;
            rank.stage = stage;
        }
    }

    /// All reports have been taken over: looks for a rank that ended without registering.
    pub fn adopted(&mut self) {
        let ended = |(_, r): &(Rank, &RankState)| r.ended && r.stage == Stage::Spawned;
        let absent = self.numbered().find(ended);
        self.absent = absent.map(|(rank, _)| rank);
        let known = self.all().filter(|rank| rank.card.is_some());
        self.registered = u32::try_from(known.count()).unwrap_or(u32::MAX);
    }

    /// Central was started again: these ranks, and all that begin, are coming back alone.
    pub fn adopt_alone(&mut self, waiting: &[Rank], since: Time) {
        for (rank, state) in (0u32..).map(Rank).zip(&mut self.ranks) {
            let begins = state.stage == Stage::Spawned && !state.ended;
            if begins || waiting.contains(&rank) {
                state.alone_since = Some(since);
            }
        }
    }
}

/// How often central has looked at a rank while it went through all of them.
#[cfg(test)]
pub(super) mod looks {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// The number of looks of this thread since the last call.
    pub fn take() -> u64 {
        LOOKS.take()
    }
}
