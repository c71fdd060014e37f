//! The job's verdict, and the signals that the user sent to the ranks.

use super::interface::{CentralEffect, Record};
use super::out::Out;
use crate::manager_messages::{Cause, End, Time};
use crate::verdict::Verdict;
use std::collections::BTreeSet;

/// Milliseconds that local managers have to end all processes before central drops them.
pub const END_BOUND: u64 = 2000;

/// The end of the job, as far as it is decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct JobEnd {
    verdict: Option<Verdict>,
    /// The last signal that asked the ranks to end.
    interrupted: Option<i32>,
    /// Other signals that were passed on to the ranks.
    passed: BTreeSet<i32>,
    /// When hosts that have not ended are dropped.
    drop_at: Option<Time>,
}

impl JobEnd {
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    pub fn interrupted(&self) -> Option<i32> {
        self.interrupted
    }

    pub fn drop_at(&self) -> Option<Time> {
        self.drop_at
    }

    /// The user asks the ranks to end; stores that.
    pub fn interrupt(&mut self, signal: i32, out: &mut Out) {
        self.interrupted = Some(signal);
        let input = None;
        out.persist(Record::Interrupted { signal, input });
    }

    /// The user sends ranks a signal that does not ask them to end; stores that.
    pub fn pass(&mut self, signal: i32, out: &mut Out) {
        if self.passed.insert(signal) {
            out.persist(Record::Passed { signal });
        }
    }

    /// The signal by which a process ended, if the user sent it to the ranks. Then the end is no
    /// failure: the user asked for it.
    pub fn sent(&self, cause: &Cause) -> Option<i32> {
        let Cause::Ended {
            end: End::Signaled(signal),
            ..
        } = *cause
        else {
            return None;
        };
        let sent = self.interrupted == Some(signal) || self.passed.contains(&signal);
        sent.then_some(signal)
    }

    /// Gives the verdict, unless there is one.
    pub fn decide(&mut self, verdict: Verdict, out: &mut Out) {
        let fresh = self.verdict.is_none();
        let verdict = self.verdict.get_or_insert(verdict).clone();
        out.persist(Record::Decided(verdict.clone()));
        if fresh {
            out.push(CentralEffect::Decided(verdict));
        }
    }

    /// Gives the verdict, unless there is one, while ranks continue.
    pub fn settle(&mut self, verdict: Verdict, out: &mut Out) {
        if self.verdict.is_none() {
            out.persist(Record::Settled(verdict.clone()));
            out.push(CentralEffect::Decided(verdict.clone()));
            self.verdict = Some(verdict);
        }
    }

    /// Every host is done. Without a verdict by then, the job has succeeded.
    pub fn conclude(&mut self, out: &mut Out) -> Verdict {
        let verdict = self.verdict.get_or_insert(Verdict::Success).clone();
        if verdict == Verdict::Success {
            out.persist(Record::Decided(Verdict::Success));
        }
        verdict
    }

    /// Hosts get the order to end now. Returns the reason for the ranks.
    pub fn begin(&mut self, now: Time) -> String {
        self.drop_at = Some(now.plus_millis(END_BOUND));
        let verdict = self.verdict.as_ref().unwrap_or(&Verdict::Success);
        format!("the job ends: {verdict}")
    }

    /// Hosts that have not ended are dropped now.
    pub fn is_overdue(&mut self, now: Time) -> bool {
        self.drop_at.take_if(|at| *at <= now).is_some()
    }

    /// Central was started again: this verdict was given.
    pub fn recall_verdict(&mut self, verdict: Verdict) {
        self.verdict = Some(verdict);
    }

    /// Central was started again: the user had sent this signal.
    pub fn recall_interrupted(&mut self, signal: i32) {
        self.interrupted = Some(signal);
    }

    /// Central was started again: the user had sent ranks this other signal.
    pub fn recall_passed(&mut self, signal: i32) {
        self.passed.insert(signal);
    }

    /// Central was started again: tells observers the verdict once more.
    pub fn notify_again(&self, out: &mut Out) {
        out.effects
            .extend(self.verdict.clone().map(CentralEffect::Decided));
    }
}
