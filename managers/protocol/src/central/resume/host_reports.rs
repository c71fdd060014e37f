//! The state of the hosts, as they report it to a restarted central manager, and the orders that
//! are repeated.

use super::past::{Past, Reports};
use crate::central::checkpoint_handler::CheckpointHandler;
use crate::central::ending::EndHandler;
use crate::central::group_schedule::TurnHandler;
use crate::central::interface::{CentralInput, HostIndex};
use crate::central::moves::MoveHandler;
use crate::central::phase::CentralPhase;
use crate::central::recovery::{GlobalRestore, GroupCommitHandler};
use crate::central::registration::RegistrationHandler;
use crate::central::resume::ResumeHandler;
use crate::central::returns::{OrderHandler, ReturnHandler};
use crate::levels::CommittedEpochs;
use crate::manager_messages::{
    ImageMessage, ImageOrder, ProcessInstance, RankMoveOrder, RankReport, RegionMessage, Report,
    Stage, ToCentral, ToLocal,
};
use crate::region_commits::RegionWait;
use crate::verdict::Verdict;
use rejoin_channel_table::{Epoch, Generation, ImageId, Incarnation, Rank};
use std::collections::{BTreeMap, BTreeSet};

impl ResumeHandler<'_> {
    /// Every host has answered: takes over the reports, and repeats what may have been lost.
    /// Returns the events in the reports, of which some may have reached no central manager.
    pub(super) fn continue_job(&mut self, past: &Past, reports: Reports) -> Vec<CentralInput> {
        let now = self.job.out.now;
        self.job.course.phase = self.phase_after(past);
        if let (CentralPhase::Running, Some(checkpoints)) =
            (&self.job.course.phase, self.job.commits.checkpoints_mut())
        {
            checkpoints.begin_files(now);
        }
        // Ranks that come back while others stand are not waited for.
        let is_started = matches!(
            self.job.course.phase,
            CentralPhase::Running | CentralPhase::Finalized
        );
        if is_started && (past.finalized || self.job.commits.mode.logs_messages()) {
            self.job.cluster.ranks.recall_cards(&past.cards);
        }
        for (host, report) in reports.iter().enumerate() {
            self.adopt(host, report.as_deref());
        }
        self.job.cluster.ranks.adopted();
        self.vacate_strays(&reports);
        let by_host = self.job.cluster.ranks.by_host(self.job.cluster.hosts.len());
        for (host, (report, ranks)) in reports.iter().zip(by_host).enumerate() {
            if let Some(report) = report {
                self.repeat_orders(host, ranks, report, past);
            }
        }
        let checkpoints = self.job.commits.checkpoints();
        let writing = checkpoints.and_then(|c| c.epochs().writing);
        TurnHandler::of(&mut self.job).write_groups(writing);
        // Before any rank gets a table: that says where ranks on their way were before.
        let away = self.adopt_away(past, &reports);
        MoveHandler::of(&mut self.job).end_past_moves(past);
        // Of this generation, as it was when the hosts reported.
        let generation = self.job.cluster.ranks.generation();
        CheckpointHandler::of(&mut self.job).order_copies();
        self.continue_phase(past, &reports, &away);
        let checkpoints = self.job.commits.checkpoints();
        let committed = checkpoints.map(|c| c.epochs()).unwrap_or_default();
        let numbered = reports.into_iter().enumerate();
        let said = numbered.filter_map(|(host, report)| Some((host, *report?)));
        let counted = |rank| match self.job.commits.groups.committed(rank) {
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

    fn phase_after(&self, past: &Past) -> CentralPhase {
        match past.restored {
            _ if past.finalized => CentralPhase::Finalized,
            _ if past.started == Some(self.job.cluster.ranks.generation()) => CentralPhase::Running,
            Some(epoch) => CentralPhase::Restoring(GlobalRestore {
                epoch,
                since: self.job.returns.losses.since(),
            }),
            None => CentralPhase::Starting,
        }
    }

    /// Takes over a host's report about its ranks; one that is through says nothing.
    fn adopt(&mut self, host: HostIndex, report: Option<&Report>) {
        if self.job.cluster.hosts.is_lost(host) {
            return;
        }
        let finalized = self.job.course.phase == CentralPhase::Finalized;
        let Some(report) = report else {
            // No rank that ended well before the release of all ranks had called MPI_Init.
            let stage = if finalized {
                Stage::Left
            } else {
                Stage::Spawned
            };
            self.job.cluster.ranks.adopt_ended(host, stage);
            return;
        };
        if report.generation == Some(self.job.cluster.ranks.generation()) {
            for said in &report.ranks {
                self.job.cluster.ranks.adopt(host, said);
            }
        }
    }

    /// Ranks that hosts report, and that are on others: messages about that may not have arrived.
    /// Nor may those that ranks stay where they are, and that what is loaded of them is dropped: no
    /// move outlives a central manager.
    fn vacate_strays(&mut self, reports: &Reports) {
        for (host, report) in reports.iter().enumerate() {
            for rank in report.iter().flat_map(|report| &report.loads).copied() {
                let unload = ToLocal::Move(RankMoveOrder::Unload { rank });
                self.job.out.send(host, unload);
            }
            for said in report.iter().flat_map(|report| &report.ranks) {
                let instance = ProcessInstance {
                    generation: self.job.cluster.ranks.generation(),
                    rank: said.rank,
                    incarnation: said.incarnation,
                };
                if self.job.cluster.ranks.is_on(said.rank, host) {
                    // An earlier process makes room for the next one that is ordered.
                    let is_present = self
                        .job
                        .cluster
                        .ranks
                        .is_last_incarnation(said.rank, said.incarnation);
                    if let Some(number) = said.moves.filter(|_| is_present) {
                        let stay = ToLocal::Move(RankMoveOrder::Stay { instance, number });
                        self.job.out.send(host, stay);
                    }
                    continue;
                }
                self.job
                    .out
                    .send(host, ToLocal::Move(RankMoveOrder::Vacate { instance }));
                self.job.cluster.departures.begin(said.rank, host);
            }
        }
    }

    /// Repeats the messages that a host may not have received.
    fn repeat_orders(
        &mut self,
        host: HostIndex,
        mut ranks: Vec<(Rank, Incarnation)>,
        report: &Report,
        past: &Past,
    ) {
        let generation = self.job.cluster.ranks.generation();
        let epoch = past.restored.flatten();
        if report.generation.is_none() {
            return self.repeat_restore(epoch, ranks);
        }
        self.job.cluster.hosts.begins(host);
        // All of them, or those that come back alone.
        ranks.retain(|(rank, incarnation)| {
            let said = report.ranks.binary_search_by_key(rank, |said| said.rank);
            said.is_err() || said.is_ok_and(|at| report.ranks[at].incarnation < *incarnation)
        });
        self.repeat_restore(epoch, ranks);
        let here = report.ranks.iter().map(|said| said.rank);
        GroupCommitHandler::of(&mut self.job).repeat_group_commits(host, here);
        if past.last_epoch > Epoch(0) {
            let checkpoints = self.job.commits.checkpoints();
            let commit = ToLocal::Image(ImageOrder::Commit {
                generation,
                epochs: checkpoints.map(|c| c.epochs()).unwrap_or_default(),
                abandoned: past.last_epoch,
            });
            self.job.out.send(host, commit);
        }
        if let Some(signal) = self
            .job
            .course
            .end
            .interrupted()
            .filter(|_| report.signalled.is_none())
        {
            self.job.out.send(host, ToLocal::Signal { signal });
        }
    }

    /// Repeats the order to restore these ranks of a host, each from the checkpoint that counts for
    /// it.
    fn repeat_restore(&mut self, epoch: Option<Epoch>, ranks: Vec<(Rank, Incarnation)>) {
        let mut by_epoch: BTreeMap<Option<Epoch>, Vec<_>> = BTreeMap::new();
        for one in ranks {
            let of_group = self
                .job
                .commits
                .groups
                .committed(one.0)
                .map(|last| last.epoch);
            by_epoch.entry(of_group.or(epoch)).or_default().push(one);
        }
        for (epoch, ranks) in by_epoch {
            OrderHandler::of(&mut self.job).order_return_again(epoch, &ranks);
        }
    }

    /// The ranks that wait for their start by the hosts' reports.
    fn waiting(&self, reports: &Reports) -> Vec<Rank> {
        let present = |said: &&RankReport| {
            self.job
                .cluster
                .ranks
                .is_last_incarnation(said.rank, said.incarnation)
        };
        (reports.iter().flatten())
            .filter(|report| report.generation == Some(self.job.cluster.ranks.generation()))
            .flat_map(|report| &report.ranks)
            .filter(|said| said.waits && present(said))
            .map(|said| said.rank)
            .collect()
    }

    /// Finds the ranks of groups that are on their way back while the job runs.
    fn adopt_away(&mut self, past: &Past, reports: &Reports) -> BTreeSet<Rank> {
        if self.job.course.phase != CentralPhase::Running {
            return BTreeSet::new();
        }
        let waiting = self.waiting(reports);
        let is_away =
            |rank: &Rank| !self.job.cluster.ranks.has_returned(*rank) || waiting.contains(rank);
        let away: BTreeSet<Rank> = past.returning.iter().copied().filter(is_away).collect();
        let since = self.job.returns.losses.since();
        for rank in &away {
            self.job.cluster.ranks.adopt_away(*rank, since);
        }
        away
    }

    /// Ranks of groups that have come back, or were about to: those that are back start, and others
    /// learn where they are.
    fn return_again(&mut self, waiting: &[Rank], (past, away): (&Past, &BTreeSet<Rank>)) {
        for rank in past.returning.difference(away) {
            ReturnHandler::of(&mut self.job).notify_returned(&[*rank]);
        }
        for rank in waiting {
            ReturnHandler::of(&mut self.job).start_group(*rank);
        }
    }

    /// Continues the phase that the reports of all hosts describe.
    fn continue_phase(&mut self, past: &Past, reports: &Reports, away: &BTreeSet<Rank>) {
        if let (CentralPhase::Restoring(_), Some(signal)) =
            (&self.job.course.phase, self.job.course.end.interrupted())
        {
            return EndHandler::of(&mut self.job).decide(Verdict::Interrupted { signal });
        }
        let waiting = self.waiting(reports);
        match &self.job.course.phase {
            CentralPhase::Starting | CentralPhase::Restoring(_) => {
                for rank in self.job.cluster.ranks.with_limits() {
                    RegistrationHandler::of(&mut self.job).compare(rank);
                }
                RegistrationHandler::of(&mut self.job).start_when_complete();
            }
            CentralPhase::Running => {
                self.return_again(&waiting, (past, away));
                let lacks_table = reports.iter().flatten().any(|report| report.lacks_table);
                if !waiting.is_empty() || lacks_table {
                    self.start_again();
                }
                self.checkpoint_again(past);
                self.report_again(past);
                CheckpointHandler::of(&mut self.job).finalize_when_complete();
            }
            CentralPhase::Finalized => {
                let generation = self.job.cluster.ranks.generation();
                let released = || ToLocal::AllFinalized { generation };
                self.job.cluster.hosts.send_all(released, self.job.out);
                self.job.cluster.end_empty_hosts(self.job.out);
                self.job
                    .cluster
                    .ranks
                    .adopt_alone(&waiting, self.job.returns.losses.since());
                for rank in waiting {
                    ReturnHandler::of(&mut self.job).start_alone(rank);
                }
                self.job.returns.report_losses(self.job.out);
            }
            _ => {}
        }
    }

    /// Some hosts do not know that all ranks have registered, or do not have the table.
    fn start_again(&mut self) {
        let generation = self.job.cluster.ranks.generation();
        if let Some(table) = self.job.cluster.ranks.table() {
            let start = ToLocal::Start {
                generation,
                table,
                image: None,
            };
            self.job.cluster.hosts.spread(start, self.job.out);
        }
    }

    /// An order that was under way is void, another follows at once.
    fn checkpoint_again(&mut self, past: &Past) {
        let now = self.job.out.now;
        let Some(checkpoints) = self.job.commits.checkpoints_mut() else {
            return;
        };
        if past
            .committed
            .memory
            .is_none_or(|committed| committed.epoch < past.last_epoch)
        {
            CheckpointHandler::of(&mut self.job).on_checkpoint_request();
        } else {
            // Failures that come faster than checkpoints don't put them off.
            let newest = checkpoints.committed();
            let at = newest.and_then(|epoch| checkpoints.committed_at(epoch));
            checkpoints.schedule(at.unwrap_or(now));
            checkpoints.continue_pursuit(now);
        }
    }

    /// Tells of a recovery that may not have been told.
    fn report_again(&mut self, past: &Past) {
        match past.restored {
            Some(epoch) if !self.job.returns.losses.reports_recovery() => {
                let since = self.job.returns.losses.since();
                let restored = GlobalRestore { epoch, since };
                ReturnHandler::of(&mut self.job).report_recovered(&restored);
            }
            _ => self.job.returns.report_losses(self.job.out),
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
        events.extend(lost.map(|epoch| {
            ToCentral::Image(ImageMessage::Lost {
                instance,
                image: ImageId::Checkpoint(epoch),
                why: None,
            })
        }));
        let asked = said.asked;
        events
            .extend(asked.map(|after| ToCentral::Image(ImageMessage::Wanted { instance, after })));
        let RegionWait { number, commit } = said.regions;
        events.extend(
            number.map(|above| ToCentral::Regions(RegionMessage::NumberWanted { instance, above })),
        );
        events.extend(
            commit.map(|epoch| ToCentral::Regions(RegionMessage::Stored { instance, epoch })),
        );
    }
    events.extend(
        report
            .exits
            .iter()
            .map(|exit| ToCentral::Process(exit.message())),
    );
    events
}
