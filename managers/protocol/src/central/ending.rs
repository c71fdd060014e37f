//! The end of the job: by a signal, by the loss of a host, or because every host is done.

use super::interface::{CentralEffect, StoredState};
use super::job_state::Central;
use super::phase::CentralPhase;
use crate::manager_messages::{Time, ToLocal};
use crate::signal_numbers;
use crate::verdict::Verdict;

impl Central {
    /// The launcher got a signal.
    pub(super) fn signal(&mut self, now: Time, signal: i32, effects: &mut Vec<CentralEffect>) {
        // A process that waits would get it, and its successor would not.
        self.end_moves(now, "the job got a signal", effects);
        let ends = signal_numbers::ends(signal);
        let interrupted = self.end.interrupted().is_some();
        if ends && (interrupted || self.phase == CentralPhase::Ending) {
            // The second one means it.
            return self.end_at_once(now, signal, effects);
        }
        if ends {
            self.end.interrupt(signal, effects);
            if matches!(self.phase, CentralPhase::Restoring(_)) {
                // A rank that is being restored would not get the signal.
                return self.decide(now, Verdict::Interrupted { signal }, effects);
            }
        }
        if self.phase != CentralPhase::Ending {
            if !ends {
                self.end.pass(signal, effects);
            }
            self.hosts.send_all(|| ToLocal::Signal { signal }, effects);
        }
    }

    /// The launcher got a signal again: kills everything.
    pub(super) fn end_at_once(&mut self, now: Time, signal: i32, effects: &mut Vec<CentralEffect>) {
        if self.failover.is_some() && self.end.interrupted().is_none() {
            // Nor is the job launched again.
            self.end.interrupt(signal, effects);
        }
        self.decide(now, Verdict::Interrupted { signal }, effects);
        self.kill_all(effects);
    }

    /// Looks for hosts that have fallen silent, and for one that has been for too long.
    pub(super) fn silence_tick(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let silence = self.hosts.silence_tick(now, effects);
        self.watch_tick(now, effects);
        if let Some(host) = silence.lost {
            let why = "it has been silent for too long (--host-patience)".to_string();
            effects.push(CentralEffect::Drop(host));
            self.host_gone(now, host, why, effects);
        } else if silence.begins && self.failover.is_some() {
            effects.push(CentralEffect::AskRelaunchable {
                regions: self.regions.epochs(),
            });
        }
    }

    /// The job can continue without a lost host, so central does not wait for a silent one.
    pub(super) fn drop_silent(
        &mut self,
        now: Time,
        states: &[StoredState],
        effects: &mut Vec<CentralEffect>,
    ) {
        if let Some(host) = self.hosts.silent()
            && states.iter().any(|state| self.may_continue(*state))
        {
            effects.push(CentralEffect::Drop(host));
            self.host_gone(now, host, "it is silent".to_string(), effects);
        }
    }

    /// The job is over, or may be launched again, once every host is done.
    pub(super) fn close(&mut self, effects: &mut Vec<CentralEffect>) {
        let closed = matches!(
            self.phase,
            CentralPhase::Over | CentralPhase::Relaunching(_)
        );
        let waits = !self.hosts.all_done() || self.lost_hosts.is_pending();
        if closed || waits || self.relaunches(effects) {
            return;
        }
        let verdict = self.end.conclude(effects);
        self.over(verdict, effects);
    }
}
