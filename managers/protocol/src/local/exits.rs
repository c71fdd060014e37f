//! Exits of processes, from their detection until central has acknowledged them.
//!
//! The exit of a large process takes tens of milliseconds, and only then is its status known.
//! Meanwhile managers begin the steps that a rollback and an end of the job have in common.

use super::host_state::{Local, LocalPhase};
use super::inputs::LocalEffect;
use crate::control::{Cause, End, ProcessExit, ProcessInstance, Stage, Time, ToCentral};
use rejoin_channel_table::{Incarnation, Rank};

/// Milliseconds that a wrapper has to pass on how its rank ended.
pub const WRAPPER_GRACE: u64 = 100;

/// Milliseconds that a process has to call `MPI_Init` after the one that was started has left it
/// behind and ended well, as `setsid` does.
pub const FORK_GRACE: u64 = 5000;

/// Milliseconds that a rank has to end after it closed its socket.
pub const CLOSED_GRACE: u64 = 1000;

impl Local {
    /// The exit of a process of an MPI rank is detected where none should be.
    pub(super) fn exit_detected(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        effects: &mut Vec<LocalEffect>,
    ) {
        let hold = self.hold;
        let Some(process) = self.processes.find(rank, incarnation) else {
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
        if let Some(process) = self.processes.find(rank, incarnation) {
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
        let Some(process) = self.processes.find(rank, incarnation) else {
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
        if let Some(process) = self.processes.find(instance.rank, instance.incarnation) {
            process.release();
        }
    }

    /// A rank closed its socket.
    pub(super) fn closed(
        &mut self,
        now: Time,
        rank: Rank,
        incarnation: Incarnation,
        effects: &mut Vec<LocalEffect>,
    ) {
        let Some(process) = self.processes.find(rank, incarnation) else {
            return;
        };
        process.closed = true;
        let waits = matches!(process.stage, Stage::Registered | Stage::Finalizing);
        if waits && process.suspect.is_none() {
            process.suspect = Some(now.plus_millis(CLOSED_GRACE));
        } else if process.stage == Stage::Spawned && process.child_end.is_some() {
            self.judge(rank, incarnation, effects);
        }
    }

    /// The process that registered, another one than was started, ended.
    pub(super) fn caller_ended(
        &mut self,
        now: Time,
        rank: Rank,
        incarnation: Incarnation,
        end: End,
        effects: &mut Vec<LocalEffect>,
    ) {
        let Some(process) = self.processes.find(rank, incarnation) else {
            return;
        };
        process.caller_end = Some(end);
        if end == End::Unknown && process.child_end.is_none() {
            process.suspect = Some(now.plus_millis(WRAPPER_GRACE));
        } else {
            self.judge(rank, incarnation, effects);
        }
    }

    /// The process that was started ended, and its exit was not detected before.
    pub(super) fn child_ended(
        &mut self,
        now: Time,
        rank: Rank,
        incarnation: Incarnation,
        end: End,
        effects: &mut Vec<LocalEffect>,
    ) {
        let Some(process) = self.processes.find(rank, incarnation) else {
            return;
        };
        process.child_end = Some(end);
        if process.may_have_forked() {
            process.suspect = Some(now.plus_millis(FORK_GRACE));
        } else {
            self.judge(rank, incarnation, effects);
        }
    }

    /// Decides about a rank of which a process ended.
    fn judge(&mut self, rank: Rank, incarnation: Incarnation, effects: &mut Vec<LocalEffect>) {
        let instance = self.processes.instance(rank, incarnation);
        let Some(process) = self.processes.find(rank, incarnation) else {
            return;
        };
        // One that came back has been an MPI process all along.
        let stage = match process.stage {
            Stage::Spawned if process.from_image => Stage::Registered,
            stage => stage,
        };
        if let Some(end) = process.failure() {
            return self.fail(rank, incarnation, Cause::Ended { end, stage }, effects);
        }
        if process.ended() && !process.is_reported() && !process.is_retiring() {
            process.end_well();
            process.suspect = None;
            self.tell(ToCentral::Ended { instance, stage }, effects);
        }
    }

    /// Looks at the ranks whose wait is over, and at the deadline of the job's end.
    pub(super) fn tick(&mut self, now: Time, effects: &mut Vec<LocalEffect>) {
        self.ask_again(now, effects);
        if let LocalPhase::Ending(Some(at)) = self.phase
            && at <= now
        {
            self.kill(effects);
        }
        let due: Vec<_> = self
            .processes
            .iter()
            .filter(|r| r.suspect.is_some_and(|at| at <= now))
            .map(|r| {
                (
                    r.instance.rank,
                    r.instance.incarnation,
                    r.caller_end,
                    r.stage,
                )
            })
            .collect();
        for (rank, incarnation, caller_end, stage) in due {
            if let Some(process) = self.processes.find(rank, incarnation) {
                process.suspect = None;
            }
            if stage == Stage::Spawned {
                let text = "the process that mpirun started has ended, and what it left behind has \
                            not called MPI_Init: that is ended with the job";
                effects.push(LocalEffect::Note(rank, true, text.into()));
            }
            if caller_end.is_some() || stage == Stage::Spawned {
                self.judge(rank, incarnation, effects);
            } else if stage < Stage::Finalized {
                let why = "it closed its socket to the manager before MPI_Finalize".to_string();
                self.fail(rank, incarnation, Cause::Misbehaved { why }, effects);
            }
        }
    }
}
