//! From the first process on this host to the end of the last one.

use super::host_state::{Local, LocalPhase};
use super::inputs::LocalEffect;
use super::rank_process::RankProcess;
use crate::host_health::HostHealth;
use crate::manager_messages::{HostMessage, ProcessMessage, Stage, Time, ToLocal};
use crate::signal_numbers::{self, CONT, KILL, TERM, TSTP};
use rejoin_channel_table::{ImageId, Incarnation, Rank};
use rejoin_wire::FromManager;

/// Milliseconds between the polite signal and SIGKILL.
pub const GRACE: u64 = 200;

impl Local {
    /// The job begins on this host, as soon as anything may run here.
    pub(super) fn begin(&mut self, order: ToLocal, effects: &mut Vec<LocalEffect>) {
        let starts = matches!(&order, ToLocal::Spawn { ranks, .. } if !ranks.is_empty());
        if starts && self.lease.is_suspended() {
            return self.lease.postpone(order);
        }
        let ToLocal::Spawn {
            generation,
            ranks,
            hold,
            from,
            moved,
        } = order
        else {
            return;
        };
        self.phase = LocalPhase::Running;
        self.hold = hold;
        self.take_in(moved, (from.map(ImageId::Checkpoint), &[]), effects);
        if let Some(epoch) = from {
            self.images
                .continue_from(epoch, ranks.iter().map(|(rank, _)| *rank));
        }
        self.processes.begin(generation, ranks, from.is_some());
        let instances = self.processes.iter().map(|process| process.instance());
        effects.extend(instances.map(|instance| match from {
            None => LocalEffect::Spawn(instance),
            Some(epoch) => LocalEffect::Restore(instance, ImageId::Checkpoint(epoch)),
        }));
    }

    /// A process was started.
    pub(super) fn spawned(
        &mut self,
        now: Time,
        rank: Rank,
        incarnation: Incarnation,
        pid: u32,
        effects: &mut Vec<LocalEffect>,
    ) {
        if let Some(process) = self.processes.find(rank, incarnation) {
            process.started(now, pid);
            let instance = self.processes.instance(rank, incarnation);
            self.tell(ProcessMessage::Spawned { instance, pid }, effects);
        }
        if self.lease.is_suspended() {
            // It was on its way when the lease ended.
            effects.push(LocalEffect::StopAll);
        }
        // A process that was being started when all got the order to end has not received it.
        match self.phase {
            LocalPhase::Ending(Some(_)) => effects.push(LocalEffect::SignalAll(TERM)),
            LocalPhase::Ending(None) => effects.push(LocalEffect::SignalAll(KILL)),
            _ => {}
        }
    }

    /// Sends a signal on to the ranks' process groups.
    pub(super) fn pass_signal(&mut self, signal: i32, effects: &mut Vec<LocalEffect>) {
        match signal {
            TSTP => self.halted = true,
            CONT => self.halted = false,
            _ => {}
        }
        if self.lease.is_suspended() {
            // It must not resume a suspended process.
            self.held_signal = Some(signal)
                .filter(|s| signal_numbers::ends(*s))
                .or(self.held_signal);
            return;
        }
        if signal_numbers::ends(signal) {
            self.signalled = Some(signal);
        }
        for process in self.processes.iter().filter(|r| !r.has_ended()) {
            // A process that has left the process group of the started process gets the signal
            // separately.
            let to = match process.child_has_ended() {
                false => LocalEffect::SignalGroup,
                true => LocalEffect::SignalCaller,
            };
            let rank = process.instance().rank;
            effects.push(to(rank, signal));
            if signal_numbers::ends(signal) {
                // A stopped process would keep it pending.
                effects.push(to(rank, CONT));
            }
        }
    }

    /// The job is over: orders every process to end.
    pub(super) fn end(&mut self, now: Time, why: String, effects: &mut Vec<LocalEffect>) {
        if self.lease.is_suspended() {
            // A suspended process can't end politely.
            return self.kill(effects);
        }
        let to = self
            .processes
            .listening(&[Stage::Registered, Stage::Finalizing]);
        effects.push(LocalEffect::Ranks(to, FromManager::Stop { why }));
        effects.push(LocalEffect::SignalAll(TERM));
        // A stopped process takes no other signal but SIGKILL.
        effects.push(LocalEffect::SignalAll(CONT));
        // No successor comes any more.
        self.cancel_restore();
        self.phase = LocalPhase::Ending(Some(now.plus_millis(GRACE)));
    }

    /// The health command of this host has answered. At the end of the job nobody asks.
    pub(super) fn health(&mut self, health: HostHealth, effects: &mut Vec<LocalEffect>) {
        if matches!(self.phase, LocalPhase::Idle | LocalPhase::Running) {
            self.tell(HostMessage::Health(health), effects);
        }
    }

    /// Ends every process at once.
    pub(super) fn kill(&mut self, effects: &mut Vec<LocalEffect>) {
        if !matches!(
            self.phase,
            LocalPhase::Sweeping | LocalPhase::Done | LocalPhase::Over
        ) {
            self.cancel_restore();
            self.phase = LocalPhase::Ending(None);
            effects.push(LocalEffect::SignalAll(KILL));
        }
    }

    /// Central does not come back: the rest of the job on this host ends.
    pub(super) fn abandoned_by_central(&mut self, effects: &mut Vec<LocalEffect>) {
        self.central = false;
        self.kill(effects);
        // It may be another launch of the job that has no use for this manager.
        self.leave(true, effects);
    }

    /// This local manager is no longer needed if every process of the job has ended.
    pub(super) fn leave(&mut self, keeps_files: bool, effects: &mut Vec<LocalEffect>) {
        if self.phase == LocalPhase::Done {
            self.phase = LocalPhase::Over;
            effects.push(LocalEffect::Exit { keeps_files });
        }
    }

    /// No process is left.
    pub(super) fn swept(&mut self, effects: &mut Vec<LocalEffect>) {
        if self.phase == LocalPhase::Sweeping {
            self.phase = LocalPhase::Done;
            self.tell(HostMessage::Done, effects);
            if !self.central {
                self.leave(true, effects);
            }
        }
    }

    /// Ends the remaining processes once every rank is settled.
    pub(super) fn sweep_when_empty(&mut self, effects: &mut Vec<LocalEffect>) {
        let ending = matches!(self.phase, LocalPhase::Ending(_));
        // A failed rank delays the end of the host until central has decided how to continue.
        let is_over =
            |r: &RankProcess| r.state().is_settled() || (r.state().is_lost() && !self.hold);
        let settled = |r: &RankProcess| r.has_ended() && (ending || is_over(r));
        // Nor may it be gone before central has stored how its ranks ended.
        let told = !self.hold || self.processes.are_exits_acknowledged();
        let busy =
            ending || (self.phase == LocalPhase::Running && !self.processes.is_empty() && told);
        if busy && self.processes.iter().all(settled) {
            for process in self.processes.iter_mut() {
                process.state_mut().stop_waits();
            }
            self.phase = LocalPhase::Sweeping;
            effects.push(LocalEffect::Sweep);
        }
    }
}
