//! A restarted central manager: the state from its records, the questions to the hosts, and the
//! repeated orders.
//!
//! Messages that its predecessor sent after its last record may have reached some hosts, all, or
//! none. Messages of the hosts in the meantime are lost. So central assumes nothing. Each host
//! describes its whole state in one report, which includes all its earlier messages. An order that
//! central then repeats is either new to a host or has no effect there.

use super::recovery::Relaunching;
use super::{
    Central, CentralEffect, CentralInput, FailureHistory, HostIndex, Job, Phase, Record, Relaunch,
};
use crate::control::{ProcessInstance, RankReport, Report, Stage, Time, ToCentral, ToLocal};
use crate::verdict::Verdict;
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, Rank};
use rejoin_wire::ImageCost;

/// Milliseconds that a host has for its report.
pub const REPORT_BOUND: u64 = 10_000;

/// The job's course according to the records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Past {
    began: bool,
    /// The last generation in which all ranks were released from `MPI_Init`.
    started: Option<Generation>,
    /// Where their ranks listened.
    cards: Vec<BusinessCard>,
    /// The checkpoint that the job last rolled back to.
    restored: Option<Option<Epoch>>,
    ordered: Epoch,
    committed: Option<(Epoch, Time, ImageCost)>,
    finalized: bool,
    decided: bool,
    relaunching: Option<Relaunch>,
}

/// Hosts are being asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Resuming {
    past: Past,
    asked: bool,
    due: Option<Time>,
    reports: Vec<Option<Box<Report>>>,
    /// Inputs that arrived meanwhile.
    later: Vec<CentralInput>,
}

impl Resuming {
    /// When hosts without an answer count as lost. Hosts that may fall silent have as long as their
    /// leases give.
    pub fn due(&self) -> Option<Time> {
        self.due
    }
}

impl Central {
    /// Central of a job that another central manager has begun and recorded.
    /// [`CentralInput::Begin`] comes first, then [`CentralInput::HostLost`] or
    /// [`CentralInput::HostGone`] for each host that the driver knows to be lost.
    #[must_use]
    pub fn resume(job: Job, records: Vec<Record>) -> Self {
        let mut central = Central::new(job);
        let mut past = Past::default();
        for record in records {
            central.recall(record, &mut past);
        }
        if let Some(checkpoints) = central.mode.checkpoints_mut() {
            checkpoints.resume(past.committed, past.ordered);
        }
        if let Some(relaunch) = past.relaunching {
            let decided = Relaunching::Decided(Box::new(relaunch), None);
            central.phase = Phase::Relaunching(decided);
        } else if past.decided {
            central.phase = Phase::Ending;
        } else if past.began {
            central.phase = Phase::Resuming(Box::new(Resuming {
                past,
                asked: false,
                due: None,
                reports: vec![None; central.hosts.len()],
                later: Vec::new(),
            }));
        }
        central
    }

    fn recall(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::Began {
                generation,
                incarnations,
                at,
            } => {
                past.began = true;
                self.began = at;
                self.recall_lives(generation, &incarnations);
                self.limit_at = self.limit_from(at);
            }
            Record::Started { generation, table } => {
                past.started = Some(generation);
                past.cards = table.into_iter().map(|(_, card)| card).collect();
            }
            Record::Ordered { epoch } => past.ordered = past.ordered.max(epoch),
            Record::Committed { epoch, at, cost } => {
                past.ordered = past.ordered.max(epoch);
                past.committed = Some((epoch, at, cost));
            }
            Record::Restoring {
                generation,
                epoch,
                incarnations,
                memory,
            } => {
                past.restored = Some(epoch);
                self.recall_lives(generation, &incarnations);
                self.recall_memory(*memory);
            }
            Record::Finalized { last, .. } => {
                past.finalized = true;
                self.mode.set_last_checkpoint(last);
            }
            Record::HostDone(host) => {
                if let Some(state) = self.hosts.get_mut(host) {
                    (state.done, state.left) = (true, true);
                }
            }
            Record::Decided(verdict) => {
                past.decided = true;
                self.verdict = Some(verdict);
            }
            Record::Settled(verdict) => self.verdict = Some(verdict),
            Record::Memory(memory) => self.recall_memory(*memory),
            Record::Interrupted { signal, .. } => self.interrupted = Some(signal),
            Record::Relaunching(relaunch) => past.relaunching = Some(relaunch),
        }
    }

    fn recall_lives(&mut self, generation: Generation, incarnations: &[Incarnation]) {
        self.generation = generation;
        for (rank, incarnation) in self.ranks.iter_mut().zip(incarnations) {
            rank.incarnation = *incarnation;
        }
    }

    fn recall_memory(&mut self, memory: FailureHistory) {
        self.mode.set_history(memory.history);
        self.losses = memory.losses;
    }

    /// For those who follow the checkpoints.
    pub(super) fn resumed(&self) -> CentralEffect {
        let checkpoints = self.mode.checkpoints();
        CentralEffect::Resumed {
            committed: checkpoints.and_then(|c| c.committed()),
            abandoned: checkpoints.map(|c| c.last_number()).unwrap_or_default(),
        }
    }

    /// The end of the job was already decided: sends the order to all hosts once more.
    pub(super) fn end_again(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        effects.push(self.resumed());
        self.leases_again(now);
        self.without_ranks_done();
        effects.extend(self.verdict.clone().map(CentralEffect::Decided));
        self.end_all(now, effects);
    }

    /// Nothing is known of the leases that were given: they are counted from now.
    pub(super) fn leases_again(&mut self, now: Time) {
        let leases = self.hosts.iter_mut().filter_map(|h| h.lease.as_mut());
        leases.for_each(|lease| lease.count_from(now));
    }

    /// Central was suspended and could receive no message meanwhile.
    pub(super) fn slept(&mut self, now: Time) {
        let leases = self.hosts.iter_mut().filter_map(|h| h.lease.as_mut());
        leases.for_each(|lease| lease.slept(now));
    }

    fn without_ranks_done(&mut self) {
        let ranks = self.ranks_by_host();
        for (host, ranks) in self.hosts.iter_mut().zip(ranks) {
            host.done |= ranks.is_empty();
        }
    }

    /// One step while hosts are asked.
    pub(super) fn resuming(
        &mut self,
        now: Time,
        input: CentralInput,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Phase::Resuming(resuming) = &mut self.phase else {
            return;
        };
        match input {
            CentralInput::Begin => {
                resuming.asked = true;
                resuming.due = Some(now.plus_millis(REPORT_BOUND));
                self.leases_again(now);
                effects.push(self.resumed());
                effects.extend(self.verdict.clone().map(CentralEffect::Decided));
                self.without_ranks_done();
                self.send_all(|| ToLocal::Report, effects);
            }
            CentralInput::Local(host, ToCentral::Report(report)) => {
                if let Some(place) = resuming.reports.get_mut(host) {
                    place.get_or_insert(report);
                }
            }
            CentralInput::Local(host, ToCentral::Done) => self.host_done(host, effects),
            CentralInput::Local(_, ToCentral::Renew { .. })
            | CentralInput::HostLost(_)
            | CentralInput::HostGone(..) => {
                return self.take(now, input, effects);
            }
            // The report of a host includes its earlier messages.
            CentralInput::Local(host, _) => {
                if matches!(resuming.reports.get(host), Some(Some(_))) {
                    resuming.later.push(input);
                }
            }
            CentralInput::Slept => {
                // No message could arrive meanwhile.
                resuming.due = resuming.due.map(|_| now.plus_millis(REPORT_BOUND));
                return self.slept(now);
            }
            CentralInput::Tick => return self.unanswered(now, effects),
            input => resuming.later.push(input),
        }
        self.go_on_when_complete(now, effects);
    }

    /// A host that does not answer in time is lost.
    fn unanswered(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let Phase::Resuming(resuming) = &mut self.phase else {
            return;
        };
        if resuming.due.is_none_or(|at| at > now) {
            return self.tick(now, effects);
        }
        resuming.due = None;
        let mut lost = None;
        for (host, (state, report)) in self.hosts.iter_mut().zip(&resuming.reports).enumerate() {
            if !state.done && report.is_none() && state.lease.is_none() {
                state.done = true;
                effects.push(CentralEffect::Drop(host));
                lost.get_or_insert(state.name.clone());
            }
        }
        if let Some(host) = lost {
            let why = "its local manager does not answer".to_string();
            self.decide(now, Verdict::HostLost { host, why }, effects);
        }
    }

    /// Continues once every host has answered.
    fn go_on_when_complete(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let Phase::Resuming(resuming) = &self.phase else {
            return;
        };
        let mut known = self.hosts.iter().zip(&resuming.reports);
        if !resuming.asked || !known.all(|(state, report)| state.done || report.is_some()) {
            return;
        }
        let Phase::Resuming(resuming) = std::mem::replace(&mut self.phase, Phase::Starting) else {
            return;
        };
        let Resuming {
            past,
            reports,
            later,
            ..
        } = *resuming;
        self.phase = self.phase_after(&past);
        if past.finalized {
            // Nothing is sent any more by those that come back alone: an old card does.
            for (rank, card) in self.ranks.iter_mut().zip(&past.cards) {
                rank.card = Some(card.clone());
            }
        }
        for (host, report) in reports.iter().enumerate() {
            self.adopt(host, report.as_deref());
        }
        let ended = |(_, r): &(Rank, &super::RankState)| r.ended && r.stage == Stage::Spawned;
        let mut numbered = (0u32..).map(Rank).zip(&self.ranks);
        self.absent = numbered.find(ended).map(|(rank, _)| rank);
        let ranks = self.ranks_by_host();
        for (host, (report, ranks)) in reports.iter().zip(ranks).enumerate() {
            if let Some(report) = report {
                self.say_again(host, ranks, report, &past, effects);
            }
        }
        self.go_on(now, &past, &reports, effects);
        for (host, report) in reports.into_iter().enumerate() {
            if let Some(report) = report {
                self.hear_again(now, host, *report, effects);
            }
        }
        for input in later {
            self.take(now, input, effects);
        }
    }

    fn phase_after(&self, past: &Past) -> Phase {
        match past.restored {
            _ if past.finalized => Phase::Finalized,
            _ if past.started == Some(self.generation) => Phase::Running,
            Some(epoch) => Phase::Restoring(super::GlobalRestore {
                epoch,
                since: self.losses.since(),
            }),
            None => Phase::Starting,
        }
    }

    /// Takes over a host's report about its ranks; one that is through says nothing.
    fn adopt(&mut self, host: HostIndex, report: Option<&Report>) {
        let finalized = self.phase == Phase::Finalized;
        let Some(report) = report else {
            for rank in self.ranks.iter_mut().filter(|r| r.host == host) {
                rank.ended = true;
                // No rank that ended well before the release of all ranks had called MPI_Init.
                rank.stage = if finalized {
                    Stage::Left
                } else {
                    Stage::Spawned
                };
            }
            return;
        };
        if report.generation != Some(self.generation) {
            return;
        }
        for said in &report.ranks {
            let Some(rank) = self.ranks.get_mut(said.rank.index()) else {
                continue;
            };
            if rank.host != host || rank.incarnation != said.incarnation {
                continue;
            }
            rank.pid = said.pid;
            rank.stage = said.stage;
            rank.ended = said.ended;
            if said.stage >= Stage::Registered {
                rank.card = said.card.clone().or(rank.card.take());
                rank.limits = said.limits;
            }
        }
    }

    /// Repeats the messages that a host may not have received.
    fn say_again(
        &mut self,
        host: HostIndex,
        mut ranks: Vec<(Rank, Incarnation)>,
        report: &Report,
        past: &Past,
        effects: &mut Vec<CentralEffect>,
    ) {
        let generation = self.generation;
        if report.generation.is_none() {
            let order = ToLocal::Spawn {
                generation,
                ranks,
                hold: self.mode.recovers(),
            };
            effects.push(CentralEffect::Send(host, order));
            return;
        }
        // All of them, or those that come back alone.
        ranks.retain(|(rank, incarnation)| {
            let said = report.ranks.binary_search_by_key(rank, |said| said.rank);
            said.is_err() || said.is_ok_and(|at| report.ranks[at].incarnation < *incarnation)
        });
        if !ranks.is_empty() {
            let order = ToLocal::Restore {
                generation,
                epoch: past.restored.flatten(),
                ranks,
            };
            effects.push(CentralEffect::Send(host, order));
        }
        if past.ordered > Epoch(0) {
            let keep = ToLocal::Keep {
                generation,
                epoch: past.committed.map(|(epoch, ..)| epoch),
                abandoned: past.ordered,
            };
            effects.push(CentralEffect::Send(host, keep));
        }
        if let Some(signal) = self.interrupted.filter(|_| report.signalled.is_none()) {
            effects.push(CentralEffect::Send(host, ToLocal::Signal { signal }));
        }
    }

    /// Continues after the reports of all hosts.
    fn go_on(
        &mut self,
        now: Time,
        past: &Past,
        reports: &[Option<Box<Report>>],
        effects: &mut Vec<CentralEffect>,
    ) {
        if let (Phase::Restoring(_), Some(signal)) = (&self.phase, self.interrupted) {
            return self.decide(now, Verdict::Interrupted { signal }, effects);
        }
        let waiting: Vec<Rank> = reports
            .iter()
            .flatten()
            .filter(|report| report.generation == Some(self.generation))
            .flat_map(|report| &report.ranks)
            .filter(|said| said.waits && self.is_of_last_incarnation(said))
            .map(|said| said.rank)
            .collect();
        match &self.phase {
            Phase::Starting | Phase::Restoring(_) => {
                for rank in (0u32..).map(Rank).take(self.ranks.len()) {
                    if let Some(limits) = self.ranks[rank.index()].limits {
                        self.compare(now, rank, limits, effects);
                    }
                }
                self.start_when_complete(now, effects);
            }
            Phase::Running => {
                let lacks_table = reports.iter().flatten().any(|report| report.lacks_table);
                if !waiting.is_empty() || lacks_table {
                    self.start_again(effects);
                }
                self.checkpoint_again(now, past, effects);
                self.retell(now, past, effects);
                self.finalize_when_complete(now, effects);
            }
            Phase::Finalized => {
                let generation = self.generation;
                self.send_all(|| ToLocal::AllFinalized { generation }, effects);
                self.alone_again(&waiting);
                for rank in waiting {
                    self.start_alone(now, rank, effects);
                }
                self.tell_of_recovery(effects);
            }
            _ => {}
        }
    }

    fn is_of_last_incarnation(&self, said: &RankReport) -> bool {
        let rank = self.ranks.get(said.rank.index());
        rank.is_some_and(|rank| rank.incarnation == said.incarnation)
    }

    /// Some hosts do not know that all ranks have registered, or do not have the table.
    fn start_again(&self, effects: &mut Vec<CentralEffect>) {
        let cards = self
            .ranks
            .iter()
            .map(|r| Some((r.incarnation, r.card.clone()?)));
        let table: Option<Vec<(Incarnation, BusinessCard)>> = cards.collect();
        let generation = self.generation;
        if let Some(table) = table {
            self.spread(
                ToLocal::Start {
                    generation,
                    table,
                    image: None,
                },
                effects,
            );
        }
    }

    /// An order that was under way is void, another follows at once.
    fn checkpoint_again(&mut self, now: Time, past: &Past, effects: &mut Vec<CentralEffect>) {
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        if past
            .committed
            .is_none_or(|(epoch, ..)| epoch < past.ordered)
        {
            self.checkpoint_asked(now, effects);
        } else {
            // Failures that come faster than checkpoints don't put them off.
            checkpoints.schedule(checkpoints.committed_at());
        }
    }

    /// Tells of a recovery that may not have been told.
    fn retell(&mut self, now: Time, past: &Past, effects: &mut Vec<CentralEffect>) {
        match past.restored {
            Some(epoch) if !self.losses.tells_recovery() => {
                let since = self.losses.since();
                self.tell_recovered(now, &super::GlobalRestore { epoch, since }, effects);
            }
            _ => self.tell_of_recovery(effects),
        }
    }

    /// Handles the events in a host's report that may have reached no central manager.
    fn hear_again(
        &mut self,
        now: Time,
        host: HostIndex,
        report: Report,
        effects: &mut Vec<CentralEffect>,
    ) {
        let committed = self.mode.checkpoints().and_then(|c| c.committed());
        for said in report.ranks {
            let instance = ProcessInstance {
                generation: self.generation,
                rank: said.rank,
                incarnation: said.incarnation,
            };
            if let Some(epoch) = committed.filter(|epoch| !said.images.contains(epoch)) {
                self.heard(now, host, ToCentral::ImageLost { instance, epoch }, effects);
            }
            if let Some(after) = said.asked {
                self.heard(
                    now,
                    host,
                    ToCentral::Checkpoint { instance, after },
                    effects,
                );
            }
        }
        for exit in report.exits {
            self.heard(now, host, exit.news(), effects);
        }
    }
}
