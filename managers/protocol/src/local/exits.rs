//! Exits of processes, from their detection until central has acknowledged them.
//!
//! The exit of a large process takes tens of milliseconds, and only then is its status known.
//! Meanwhile managers begin the steps that a rollback and an end of the job have in common.

use super::{Local, LocalEffect};
use crate::control::{Cause, End, ProcessExit, ProcessInstance, Stage};
use rejoin_channel_table::{Incarnation, Rank};

impl Local {
    /// The exit of a process of an MPI rank is detected where none should be.
    pub(super) fn exit_detected(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        effects: &mut Vec<LocalEffect>,
    ) {
        let hold = self.hold;
        let Some(process) = self.find(rank, incarnation) else {
            return;
        };
        let early = hold && process.may_be_detected();
        let Some(pid) = process.child.filter(|_| early) else {
            return;
        };
        process.suspect = None;
        process.lose();
        let stage = process.stage.max(Stage::Registered);
        let exit = ProcessExit::detected(process.instance, pid, stage);
        self.tell(exit.news(), effects);
        self.exits.push(exit);
    }

    /// The status of an exit that was detected; `false` for others.
    pub(super) fn exit_status(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        end: End,
        effects: &mut Vec<LocalEffect>,
    ) -> bool {
        let waits = |exit: &mut ProcessExit| {
            let instance = exit.instance();
            let same = instance.rank == rank && instance.incarnation == incarnation;
            same && exit.status_known(end)
        };
        let Some(news) = self
            .exits
            .iter_mut()
            .find_map(|exit| waits(exit).then(|| exit.news()))
        else {
            return false;
        };
        self.tell(news, effects);
        if let Some(process) = self.find(rank, incarnation) {
            process.child_end = Some(end);
        }
        true
    }

    /// A rank failed, and everything is known of it.
    pub(super) fn fail(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        cause: Cause,
        effects: &mut Vec<LocalEffect>,
    ) {
        let Some(process) = self.find(rank, incarnation) else {
            return;
        };
        process.suspect = None;
        if process.is_reported() || process.is_retiring() {
            return;
        }
        process.lose();
        let exit = ProcessExit::failed(process.instance, process.pid(), cause);
        self.tell(exit.news(), effects);
        if self.hold {
            self.exits.push(exit);
        }
    }

    /// Central has stored how this process exited.
    pub(super) fn acknowledged(&mut self, instance: ProcessInstance) {
        self.exits
            .retain(|exit| !(exit.was_detected() && exit.instance() == instance));
    }

    /// A rank that failed does not come back.
    pub(super) fn release(&mut self, instance: ProcessInstance) {
        self.exits.retain(|exit| exit.instance() != instance);
        if let Some(process) = self.find(instance.rank, instance.incarnation) {
            process.release();
        }
    }
}
