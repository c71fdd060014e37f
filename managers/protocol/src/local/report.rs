//! The report of this host's state to a restarted central manager.

use super::host_course::LocalPhase;
use super::host_parts::{HostParts, keys};
use super::rank_process::RankProcess;
use crate::handler_keys::handler;
use crate::manager_messages::{RankReport, Report, Stage, ToCentral};
use crate::region_commits::RegionWait;
use rejoin_channel_table::{Incarnation, Rank};

handler! {
    /// The report to a restarted central manager.
    pub(super) ReportHandler of HostParts {
        changes { images, out }
        reads { course, processes, restore, moves, lookups }
    }
}

impl ReportHandler<'_> {
    /// Reports the whole state, including all earlier messages.
    pub fn report(&mut self) {
        if self.course.phase == LocalPhase::Over {
            return;
        }
        self.images.resumed();
        let report = Report {
            generation: (self.course.phase != LocalPhase::Idle)
                .then_some(self.processes.generation()),
            signalled: self.course.signalled,
            lacks_table: self.lacks_table(),
            ranks: self.rank_reports(),
            loads: self.moves.loads(),
            exits: self.processes.exits(),
        };
        self.out.report(ToCentral::Report(Box::new(report)));
    }

    /// Ranks of this host have begun, and the table of their generation has not come.
    fn lacks_table(&self) -> bool {
        let generation = self.processes.generation();
        let lookups = self.lookups.as_ref();
        lookups.is_some_and(|lookups| lookups.lacks_table(generation))
    }

    /// In rank order: the ranks with processes, and those that are to come.
    fn rank_reports(&self) -> Vec<RankReport> {
        let mut ranks: Vec<_> = self.processes.iter().map(|p| self.report_of(p)).collect();
        let is_new = |rank: &Rank| self.processes.of(*rank).is_none();
        let to_come = self.restore.ranks().filter(|(rank, _)| is_new(rank));
        ranks.extend(to_come.map(|(rank, incarnation)| self.not_begun(rank, incarnation)));
        ranks.sort_by_key(|said| said.rank);
        ranks
    }

    /// Of a rank that is to begin, nothing else can be said.
    fn not_begun(&self, rank: Rank, incarnation: Incarnation) -> RankReport {
        RankReport {
            rank,
            incarnation,
            stage: Stage::Spawned,
            pid: 0,
            card: None,
            limits: None,
            waits: false,
            ended: false,
            asked: None,
            regions: RegionWait::default(),
            moves: None,
            images: self.images.of(rank).collect(),
        }
    }

    fn report_of(&self, process: &RankProcess) -> RankReport {
        let instance = process.instance();
        let ordered = self
            .restore
            .latest(instance.rank, self.processes)
            .unwrap_or_default();
        let mut said = RankReport {
            card: process.card().cloned(),
            limits: process.limits(),
            ..self.not_begun(instance.rank, ordered)
        };
        if ordered == instance.incarnation {
            said.stage = process.stage();
            said.pid = process.pid();
            said.waits = process.waits();
            said.ended = process.state().is_settled();
            said.asked = process.requested();
            said.regions = process.region_wait();
            said.moves = self.moves.latest(instance.rank);
        }
        said
    }
}
