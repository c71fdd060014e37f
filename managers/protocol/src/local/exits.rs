//! Ends of processes: passes their events to the process instances, and their reports to central.
//!
//! The exit of a large process takes tens of milliseconds, and only then is its status known.
//! Meanwhile managers begin the steps that a rollback and an end of the job have in common.

use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use super::process_exit::ExitNumber;
use super::rank_process::RankProcess;
use crate::handler_keys::handler;
use crate::manager_messages::{Cause, End, ToCentral};
use rejoin_channel_table::{Incarnation, Rank};

handler! {
    /// Ends of processes.
    pub(super) ExitHandler of HostParts {
        changes { processes, out }
    }
}

impl ExitHandler<'_> {
    /// Passes an event to the process instance that it concerns, and its news to central. A former
    /// instance gets no event.
    pub fn event(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        event: impl FnOnce(&mut RankProcess, ExitNumber) -> Option<ToCentral>,
    ) {
        let number = self.processes.next_exit();
        let process = self.processes.find(rank, incarnation);
        let news = process.and_then(|process| event(process, number));
        self.out.report_any(news);
    }

    /// A rank failed, and everything is known of it.
    pub fn fail(&mut self, rank: Rank, incarnation: Incarnation, cause: Cause) {
        self.event(rank, incarnation, |process, number| {
            process.fail(cause, number)
        });
    }

    /// A process could not be started.
    pub fn not_started(&mut self, rank: Rank, incarnation: Incarnation, why: String) {
        self.event(rank, incarnation, |process, number| {
            process.not_started(why, number)
        });
    }

    /// A rank closed its socket.
    pub fn closed(&mut self, rank: Rank, incarnation: Incarnation) {
        let now = self.out.now;
        self.event(rank, incarnation, |process, number| {
            process.closed(now, number)
        });
    }

    /// The process that was started ended, of any instance.
    pub fn child_ended(&mut self, rank: Rank, incarnation: Incarnation, end: End) {
        let news = self
            .processes
            .child_ended(self.out.now, rank, incarnation, end);
        self.out.report_any(news);
    }

    /// The process that registered, another one, ended.
    pub fn caller_ended(&mut self, rank: Rank, incarnation: Incarnation, end: End) {
        let now = self.out.now;
        self.event(rank, incarnation, |process, number| {
            process.caller_ended(now, end, number)
        });
    }

    /// Judges the ends of instances whose time is over.
    pub fn judge_due(&mut self) {
        let now = self.out.now;
        let due = |process: &&RankProcess| process.state().deadline().is_some_and(|at| at <= now);
        let due = self.processes.iter().filter(due);
        let due = due.map(|process| (process.instance(), process.state().may_register_late()));
        for (instance, may_register_late) in due.collect::<Vec<_>>() {
            if may_register_late {
                let text = "the process that mpirun started has ended, and what it left behind has \
                            not called MPI_Init: that is ended with the job";
                self.out
                    .push(LocalEffect::Note(instance.rank, true, text.into()));
            }
            let (rank, incarnation) = (instance.rank, instance.incarnation);
            self.event(rank, incarnation, RankProcess::time_over);
        }
    }
}
