//! From the first process on this host to the end of the last one.

use super::host_course::LocalPhase;
use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use super::instance_state::InstanceState;
use super::rank_process::RankProcess;
use crate::handler_keys::handler;
use crate::host_health::HostHealth;
use crate::manager_messages::{HostMessage, Stage};
use crate::signal_numbers::{CONT, KILL, TERM};
use rejoin_wire::FromManager;

/// Milliseconds between the polite signal and SIGKILL.
pub const GRACE: u64 = 200;

handler! {
    /// The end of the job on this host.
    pub(super) HostEndHandler of HostParts {
        changes { course, processes, restore, out }
        reads { lease }
    }
}

impl HostEndHandler<'_> {
    /// The job is over: orders every process to end.
    pub fn end(&mut self, why: String) {
        if self.lease.is_suspended() {
            // A suspended process can't end politely.
            return self.kill();
        }
        let to = self
            .processes
            .listening(&[Stage::Registered, Stage::Finalizing]);
        self.out
            .push(LocalEffect::Ranks(to, FromManager::Stop { why }));
        self.out.push(LocalEffect::SignalAll(TERM));
        // A stopped process takes no other signal but SIGKILL.
        self.out.push(LocalEffect::SignalAll(CONT));
        // No successor comes any more.
        self.cancel_restore();
        self.course.phase = LocalPhase::Ending(Some(self.out.now.plus_millis(GRACE)));
    }

    /// The health command of this host has answered. At the end of the job nobody asks.
    pub fn health(&mut self, health: HostHealth) {
        if matches!(self.course.phase, LocalPhase::Idle | LocalPhase::Running) {
            self.out.report(HostMessage::Health(health));
        }
    }

    /// Ends every process at once.
    pub fn kill(&mut self) {
        if !matches!(
            self.course.phase,
            LocalPhase::Sweeping | LocalPhase::Done | LocalPhase::Over
        ) {
            self.cancel_restore();
            self.course.phase = LocalPhase::Ending(None);
            self.out.push(LocalEffect::SignalAll(KILL));
        }
    }

    /// The time for a polite end is over.
    pub fn kill_when_due(&mut self) {
        if let LocalPhase::Ending(Some(at)) = self.course.phase
            && at <= self.out.now
        {
            self.kill();
        }
    }

    /// Central does not come back: the rest of the job on this host ends.
    pub fn abandoned_by_central(&mut self) {
        self.out.has_central = false;
        self.kill();
        // The job may go on elsewhere.
        self.leave(true);
    }

    /// This local manager is no longer needed if every process of the job has ended.
    pub fn leave(&mut self, keeps_files: bool) {
        if self.course.phase == LocalPhase::Done {
            self.course.phase = LocalPhase::Over;
            self.out.push(LocalEffect::Exit { keeps_files });
        }
    }

    /// No process is left.
    pub fn swept(&mut self) {
        if self.course.phase == LocalPhase::Sweeping {
            self.course.phase = LocalPhase::Done;
            self.out.report(HostMessage::Done);
            if !self.out.has_central {
                self.leave(true);
            }
        }
    }

    /// Ends the remaining processes once every rank is settled.
    pub fn sweep_when_empty(&mut self) {
        let ending = matches!(self.course.phase, LocalPhase::Ending(_));
        // A failed rank delays the end of the host until central has decided how to continue.
        let settled = |r: &RankProcess| r.has_ended() && (ending || r.state().is_settled());
        // Nor may it be gone before central has stored how its ranks ended.
        let told = self.processes.are_exits_acknowledged();
        let busy = ending
            || (self.course.phase == LocalPhase::Running && !self.processes.is_empty() && told);
        if busy && self.processes.iter().all(settled) {
            for process in self.processes.iter_mut() {
                process.state_mut().stop_waits();
            }
            self.course.phase = LocalPhase::Sweeping;
            self.out.push(LocalEffect::Sweep);
        }
    }

    /// The job ends: no successor comes any more.
    fn cancel_restore(&mut self) {
        self.restore.cancel();
        let states = self.processes.iter_mut().map(RankProcess::state_mut);
        states.for_each(InstanceState::stop_waits);
    }
}
