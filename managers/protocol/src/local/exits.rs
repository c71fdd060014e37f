//! Ends that are noticed early: a process has begun to end, and only its end's end tells how.
//!
//! Taking down a large process lasts tens of milliseconds. What has to be done in every case, whether
//! the job goes back or ends, is begun meanwhile.

use super::{Effect, Local};
use crate::control::{Cause, End, ProcessInstance, Stage, ToCentral, UnacknowledgedExit};
use rejoin_channel_table::{Incarnation, Rank};

/// A process whose end is not known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ExitDetected {
    pub instance: ProcessInstance,
    pub pid: u32,
    stage: Stage,
}

impl Local {
    /// A process of an MPI rank begins to end where none should.
    pub(super) fn dying(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        effects: &mut Vec<Effect>,
    ) {
        let mut instance = self.instance(rank, incarnation);
        let hold = self.hold;
        let Some(process) = self.find(rank, incarnation) else {
            return;
        };
        let early =
            hold && process.caller.is_none() && process.is_unfinished() && !process.reported;
        let Some(pid) = process.child.filter(|_| early) else {
            return;
        };
        process.reported = true;
        process.failed = true;
        process.suspect = None;
        let stage = process.stage.max(Stage::Registered);
        instance.generation = process.of.unwrap_or(instance.generation);
        self.dying.push(ExitDetected {
            instance,
            pid,
            stage,
        });
        self.tell(ToCentral::ExitDetected { instance, pid }, effects);
    }

    /// The end of a process that was said to be dying; `false` for others.
    pub(super) fn bury(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        end: End,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let same =
            |d: &ExitDetected| d.instance.rank == rank && d.instance.incarnation == incarnation;
        let Some(at) = self.dying.iter().position(same) else {
            return false;
        };
        let ExitDetected {
            instance,
            pid,
            stage,
        } = self.dying.remove(at);
        if let Some(process) = self.find(rank, incarnation) {
            process.child_end = Some(end);
        }
        let cause = Cause::Ended { end, stage };
        self.ends.push(UnacknowledgedExit {
            instance,
            pid,
            cause: Some(cause.clone()),
            early: true,
        });
        self.tell(
            ToCentral::ExitStatus {
                instance,
                pid,
                cause,
            },
            effects,
        );
        true
    }
}
