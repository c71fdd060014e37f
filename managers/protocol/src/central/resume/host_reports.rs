//! The state of the hosts, as they report it to a restarted central manager, and the orders that
//! are repeated.

use super::past::{Past, Reports};
use crate::central::interface::{CentralEffect, CentralInput, HostIndex};
use crate::central::job_state::Central;
use crate::central::phase::CentralPhase;
use crate::central::recovery::GlobalRestore;
use crate::levels::CommittedEpochs;
use crate::manager_messages::{
    ProcessInstance, RankReport, Report, Stage, Time, ToCentral, ToLocal,
};
use crate::region_commits::RegionWait;
use crate::verdict::Verdict;
use rejoin_channel_table::{Epoch, Generation, Incarnation, Rank};
use std::collections::{BTreeMap, BTreeSet};

impl Central {
    /// Every host has answered: takes over the reports, and repeats what may have been lost.
    /// Returns the events in the reports, of which some may have reached no central manager.
    pub(super) fn continue_job(
        &mut self,
        now: Time,
        past: &Past,
        reports: Reports,
        effects: &mut Vec<CentralEffect>,
    ) -> Vec<CentralInput> {
        self.phase = self.phase_after(now, past);
        if let (CentralPhase::Running, Some(checkpoints)) =
            (&self.phase, self.mode.checkpoints_mut())
        {
            checkpoints.begin_files(now);
        }
        // Ranks that come back while others stand are not waited for.
        let is_started = matches!(self.phase, CentralPhase::Running | CentralPhase::Finalized);
        if is_started && (past.finalized || self.groups.are_several()) {
            self.ranks.recall_cards(&past.cards);
        }
        for (host, report) in reports.iter().enumerate() {
            self.adopt(host, report.as_deref());
        }
        self.ranks.adopted();
        self.vacate_strays(&reports, effects);
        let by_host = self.ranks.by_host(self.hosts.len());
        for (host, (report, ranks)) in reports.iter().zip(by_host).enumerate() {
            if let Some(report) = report {
                self.repeat_orders(now, host, ranks, report, past, effects);
            }
        }
        let checkpoints = self.mode.checkpoints();
        let writing = checkpoints.and_then(|c| c.epochs().writing);
        self.write_groups(writing, effects);
        // Before any rank gets a table: that says where ranks on their way were before.
        let away = self.adopt_away(past, &reports);
        self.end_past_moves(past, effects);
        // Of this generation, as it was when the hosts reported.
        let generation = self.ranks.generation();
        self.order_copies(effects);
        self.continue_phase(now, past, &reports, &away, effects);
        let checkpoints = self.mode.checkpoints();
        let committed = checkpoints.map(|c| c.epochs()).unwrap_or_default();
        let numbered = reports.into_iter().enumerate();
        let said = numbered.filter_map(|(host, report)| Some((host, *report?)));
        let counted = |rank| match self.groups.committed(rank) {
            Some(last) => CommittedEpochs {
                memory: Some(last.epoch),
                ..CommittedEpochs::default()
            },
            None => committed,
        };
        said.flat_map(|(host, report)| {
            let events = events_of(report, generation, counted);
            events
                .into_iter()
                .map(move |event| CentralInput::Local(host, event))
        })
        .collect()
    }

    fn phase_after(&self, now: Time, past: &Past) -> CentralPhase {
        match past.restored {
            _ if past.finalized => CentralPhase::Finalized,
            _ if past.started == Some(self.ranks.generation()) => CentralPhase::Running,
            Some(epoch) => CentralPhase::Restoring(GlobalRestore {
                epoch,
                since: self.losses.since(),
                held: self.held_orders(now),
                awaiting: BTreeSet::new(),
            }),
            None => CentralPhase::Starting,
        }
    }

    /// Takes over a host's report about its ranks; one that is through says nothing.
    fn adopt(&mut self, host: HostIndex, report: Option<&Report>) {
        if self.hosts.is_lost(host) {
            return;
        }
        let finalized = self.phase == CentralPhase::Finalized;
        let Some(report) = report else {
            // No rank that ended well before the release of all ranks had called MPI_Init.
            let stage = if finalized {
                Stage::Left
            } else {
                Stage::Spawned
            };
            self.ranks.adopt_ended(host, stage);
            return;
        };
        if report.generation == Some(self.ranks.generation()) {
            for said in &report.ranks {
                self.ranks.adopt(host, said);
            }
        }
    }

    /// Ranks that hosts report, and that are on others: messages about that may not have arrived.
    /// Nor may those that ranks stay where they are, and that what is loaded of them is dropped: no
    /// move outlives a central manager.
    fn vacate_strays(&mut self, reports: &Reports, effects: &mut Vec<CentralEffect>) {
        for (host, report) in reports.iter().enumerate() {
            for rank in report.iter().flat_map(|report| &report.loads).copied() {
                let unload = ToLocal::Unload { rank };
                effects.push(CentralEffect::Send(host, unload));
            }
            for said in report.iter().flat_map(|report| &report.ranks) {
                let instance = ProcessInstance {
                    generation: self.ranks.generation(),
                    rank: said.rank,
                    incarnation: said.incarnation,
                };
                if self.ranks.is_on(said.rank, host) {
                    // An earlier process makes room for the next one that is ordered.
                    let is_present = self.ranks.is_last_incarnation(said.rank, said.incarnation);
                    if let Some(number) = said.moves.filter(|_| is_present) {
                        let stay = ToLocal::Stay { instance, number };
                        effects.push(CentralEffect::Send(host, stay));
                    }
                    continue;
                }
                effects.push(CentralEffect::Send(host, ToLocal::Vacate { instance }));
                self.departures.begin(said.rank, host);
            }
        }
        let awaiting = self.awaiting_hosts();
        if let CentralPhase::Restoring(restoring) = &mut self.phase {
            restoring.awaiting = awaiting;
        }
    }

    /// Repeats the messages that a host may not have received.
    fn repeat_orders(
        &mut self,
        now: Time,
        host: HostIndex,
        mut ranks: Vec<(Rank, Incarnation)>,
        report: &Report,
        past: &Past,
        effects: &mut Vec<CentralEffect>,
    ) {
        let generation = self.ranks.generation();
        let epoch = past.restored.flatten();
        let is_held = matches!(
            &self.phase,
            CentralPhase::Restoring(GlobalRestore { held: Some(held), .. })
                if held.hosts.contains(&host)
        ) || matches!(
            &self.phase,
            CentralPhase::Restoring(restoring) if restoring.awaiting.contains(&host)
        );
        if report.generation.is_none() {
            if !is_held {
                self.repeat_restore(now, host, epoch, ranks, effects);
            }
            return;
        }
        self.hosts.begins(host);
        // All of them, or those that come back alone.
        ranks.retain(|(rank, incarnation)| {
            let said = report.ranks.binary_search_by_key(rank, |said| said.rank);
            said.is_err() || said.is_ok_and(|at| report.ranks[at].incarnation < *incarnation)
        });
        if !is_held {
            self.repeat_restore(now, host, epoch, ranks, effects);
        }
        let here = report.ranks.iter().map(|said| said.rank);
        self.repeat_group_commits(host, here, effects);
        if past.last_epoch > Epoch(0) {
            let checkpoints = self.mode.checkpoints();
            let commit = ToLocal::Commit {
                generation,
                epochs: checkpoints.map(|c| c.epochs()).unwrap_or_default(),
                abandoned: past.last_epoch,
            };
            effects.push(CentralEffect::Send(host, commit));
        }
        if let Some(signal) = self
            .end
            .interrupted()
            .filter(|_| report.signalled.is_none())
        {
            effects.push(CentralEffect::Send(host, ToLocal::Signal { signal }));
        }
    }

    /// Repeats the order to restore these ranks of a host, each from the checkpoint that counts for
    /// it.
    fn repeat_restore(
        &mut self,
        now: Time,
        host: HostIndex,
        epoch: Option<Epoch>,
        ranks: Vec<(Rank, Incarnation)>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let mut by_epoch: BTreeMap<Option<Epoch>, Vec<_>> = BTreeMap::new();
        for one in ranks {
            let of_group = self.groups.committed(one.0).map(|last| last.epoch);
            by_epoch.entry(of_group.or(epoch)).or_default().push(one);
        }
        for (epoch, ranks) in by_epoch {
            match epoch.filter(|_| self.groups.are_several()) {
                Some(epoch) => self.order_group_again(now, epoch, &ranks, effects),
                None => self.order_restore(host, epoch, ranks, effects),
            }
        }
    }

    /// The ranks that wait for their start by the hosts' reports.
    fn waiting(&self, reports: &Reports) -> Vec<Rank> {
        let present =
            |said: &&RankReport| self.ranks.is_last_incarnation(said.rank, said.incarnation);
        (reports.iter().flatten())
            .filter(|report| report.generation == Some(self.ranks.generation()))
            .flat_map(|report| &report.ranks)
            .filter(|said| said.waits && present(said))
            .map(|said| said.rank)
            .collect()
    }

    /// Finds the ranks of groups that are on their way back while the job runs.
    fn adopt_away(&mut self, past: &Past, reports: &Reports) -> BTreeSet<Rank> {
        if self.phase != CentralPhase::Running {
            return BTreeSet::new();
        }
        let waiting = self.waiting(reports);
        let is_away = |rank: &Rank| !self.ranks.has_returned(*rank) || waiting.contains(rank);
        let away: BTreeSet<Rank> = past.returning.iter().copied().filter(is_away).collect();
        let since = self.losses.since();
        for rank in &away {
            self.ranks.adopt_away(*rank, since);
        }
        away
    }

    /// Ranks of groups that have come back, or were about to: those that are back start, and others
    /// learn where they are.
    fn return_again(
        &mut self,
        now: Time,
        waiting: &[Rank],
        (past, away): (&Past, &BTreeSet<Rank>),
        effects: &mut Vec<CentralEffect>,
    ) {
        for rank in past.returning.difference(away) {
            self.tell_returned(&[*rank], effects);
        }
        for rank in waiting {
            self.start_group(now, *rank, effects);
        }
    }

    /// Continues the phase that the reports of all hosts describe.
    fn continue_phase(
        &mut self,
        now: Time,
        past: &Past,
        reports: &Reports,
        away: &BTreeSet<Rank>,
        effects: &mut Vec<CentralEffect>,
    ) {
        if let (CentralPhase::Restoring(_), Some(signal)) = (&self.phase, self.end.interrupted()) {
            return self.decide(now, Verdict::Interrupted { signal }, effects);
        }
        let waiting = self.waiting(reports);
        match &self.phase {
            CentralPhase::Starting | CentralPhase::Restoring(_) => {
                for rank in self.ranks.with_limits() {
                    self.compare(now, rank, effects);
                }
                self.start_when_complete(now, effects);
            }
            CentralPhase::Running => {
                self.return_again(now, &waiting, (past, away), effects);
                let lacks_table = reports.iter().flatten().any(|report| report.lacks_table);
                if !waiting.is_empty() || lacks_table {
                    self.start_again(effects);
                }
                self.checkpoint_again(now, past, effects);
                self.report_again(now, past, effects);
                self.finalize_when_complete(now, effects);
            }
            CentralPhase::Finalized => {
                let generation = self.ranks.generation();
                let released = || ToLocal::AllFinalized { generation };
                self.hosts.send_all(released, effects);
                self.end_empty_hosts(effects);
                self.ranks.adopt_alone(&waiting, self.losses.since());
                for rank in waiting {
                    self.start_alone(now, rank, effects);
                }
                self.report_losses(effects);
            }
            _ => {}
        }
    }

    /// Some hosts do not know that all ranks have registered, or do not have the table.
    fn start_again(&self, effects: &mut Vec<CentralEffect>) {
        let generation = self.ranks.generation();
        if let Some(table) = self.ranks.table() {
            let start = ToLocal::Start {
                generation,
                table,
                image: None,
            };
            self.hosts.spread(start, effects);
        }
    }

    /// An order that was under way is void, another follows at once.
    fn checkpoint_again(&mut self, now: Time, past: &Past, effects: &mut Vec<CentralEffect>) {
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        if past
            .committed
            .memory
            .is_none_or(|committed| committed.epoch < past.last_epoch)
        {
            self.checkpoint_asked(now, effects);
        } else {
            // Failures that come faster than checkpoints don't put them off.
            let newest = checkpoints.committed();
            let at = newest.and_then(|epoch| checkpoints.committed_at(epoch));
            checkpoints.schedule(at.unwrap_or(now));
            checkpoints.continue_pursuit(now);
        }
    }

    /// Tells of a recovery that may not have been told.
    fn report_again(&mut self, now: Time, past: &Past, effects: &mut Vec<CentralEffect>) {
        match past.restored {
            Some(epoch) if !self.losses.reports_recovery() => {
                let since = self.losses.since();
                let restored = GlobalRestore {
                    epoch,
                    since,
                    held: None,
                    awaiting: BTreeSet::new(),
                };
                self.report_recovered(now, &restored, effects);
            }
            _ => self.report_losses(effects),
        }
    }
}

/// The events in a host's report, as the host would report them now. `generation`: that of its
/// ranks.
fn events_of(
    report: Report,
    generation: Generation,
    counted: impl Fn(Rank) -> CommittedEpochs,
) -> Vec<ToCentral> {
    let mut events = Vec::new();
    for said in report.ranks {
        let instance = ProcessInstance {
            generation,
            rank: said.rank,
            incarnation: said.incarnation,
        };
        let lost = counted(said.rank)
            .newest_first()
            .filter(|epoch| !said.images.contains(epoch));
        events.extend(lost.map(|epoch| ToCentral::ImageLost {
            instance,
            epoch,
            why: None,
        }));
        let asked = said.asked;
        events.extend(asked.map(|after| ToCentral::Checkpoint { instance, after }));
        let RegionWait { number, commit } = said.regions;
        events.extend(number.map(|above| ToCentral::AskRegionsNumber { instance, above }));
        events.extend(commit.map(|epoch| ToCentral::RegionsStored { instance, epoch }));
    }
    events.extend(report.exits.iter().map(|exit| exit.news()));
    events
}
