//! The report of this host's state to a restarted central manager.

use super::host_state::{Local, LocalPhase};
use super::inputs::LocalEffect;
use super::rank_process::RankProcess;
use crate::manager_messages::{RankReport, Report, Stage, ToCentral};
use crate::region_commits::RegionWait;

impl Local {
    /// Reports the whole state, including all earlier messages.
    pub(super) fn report(&mut self, effects: &mut Vec<LocalEffect>) {
        if self.phase == LocalPhase::Over {
            return;
        }
        self.images.resumed();
        let report = Report {
            generation: (!self.processes.is_empty()).then_some(self.processes.generation()),
            signalled: self.signalled,
            lacks_table: self.lacks_table(),
            ranks: self.processes.iter().map(|p| self.report_of(p)).collect(),
            exits: self.processes.exits(),
        };
        self.tell(ToCentral::Report(Box::new(report)), effects);
    }

    fn report_of(&self, process: &RankProcess) -> RankReport {
        let instance = process.instance();
        let ordered = self.ordered(instance.rank).unwrap_or_default();
        let mut said = RankReport {
            rank: instance.rank,
            incarnation: ordered,
            stage: Stage::Spawned,
            pid: 0,
            card: process.card().cloned(),
            limits: process.limits(),
            waits: false,
            ended: false,
            asked: None,
            regions: RegionWait::default(),
            images: self.images.of(instance.rank).collect(),
        };
        // Of one that is to begin, nothing else can be said.
        if ordered == instance.incarnation {
            said.stage = process.stage();
            said.pid = process.pid();
            said.waits = process.waits();
            said.ended = process.state().is_settled();
            said.asked = process.asked();
            said.regions = process.region_wait();
        }
        said
    }
}
