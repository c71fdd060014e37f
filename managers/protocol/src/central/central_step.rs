//! Passes each event to its handler.

use super::failure::Failure;
use super::interface::{CentralEffect, CentralInput, HostIndex};
use super::job_state::Central;
use super::phase::CentralPhase;
use crate::manager_messages::{RankLogUse, Time, ToCentral};
use crate::verdict::Verdict;

impl Central {
    /// One step.
    pub fn step(&mut self, now: Time, input: CentralInput, effects: &mut Vec<CentralEffect>) {
        if input == CentralInput::Begin {
            self.hosts.repeat_leave(self.may_need_files(), effects);
        }
        match self.phase {
            CentralPhase::Over => return,
            CentralPhase::Resuming(_) => {
                // Inputs that a resumption does not answer, or no longer.
                for input in self.resuming(now, input, effects) {
                    self.take(now, input, effects);
                }
                // A host that is lost reports no more.
                for input in self.continue_when_complete(now, effects) {
                    self.take(now, input, effects);
                }
            }
            CentralPhase::Relaunching(_) => self.relaunching(now, input, effects),
            _ => self.take(now, input, effects),
        }
        for input in self.lost_hosts.take_later() {
            self.take(now, input, effects);
        }
        self.stop_when_in_files(now, effects);
        self.move_when_quiet(now, effects);
        self.tell_host_conditions(effects);
        self.end_watch(effects);
        self.logs.sum_up(now);
        self.close(effects);
    }

    fn take(&mut self, now: Time, input: CentralInput, effects: &mut Vec<CentralEffect>) {
        let input = match self.decides_on_loss() {
            true => self.lost_hosts.postpone(input),
            false => Some(input),
        };
        let Some(input) = input else {
            return;
        };
        match input {
            CentralInput::Begin if self.phase == CentralPhase::Ending => {
                self.end_again(now, effects);
            }
            CentralInput::Begin => self.begin(now, effects),
            CentralInput::Local(host, _) if self.hosts.is_lost(host) => {}
            CentralInput::Local(host, message) => self.heard(now, host, message, effects),
            CentralInput::HostCalled(host) => self.hosts.called(now, host),
            CentralInput::HostLost(host) => {
                let why = "its local manager ended".to_string();
                self.hosts.drop_lease(host);
                self.host_gone(now, host, why, effects);
            }
            CentralInput::HostGone(host, why) => self.host_gone(now, host, why, effects),
            CentralInput::HostEnded(host, why) => {
                self.hosts.drop_lease(host);
                self.host_gone(now, host, why, effects);
            }
            CentralInput::Signal(signal) => self.signal(now, signal, effects),
            CentralInput::Checkpoint => {
                if let Some(checkpoints) = self.mode.checkpoints_mut() {
                    checkpoints.want_files();
                }
                self.checkpoint_asked(now, effects);
            }
            CentralInput::Stop(signal) => self.stop_asked(now, signal, effects),
            CentralInput::Move(request) => self.move_asked(request, effects),
            CentralInput::AddHosts(request) => self.hosts_asked(request, effects),
            CentralInput::OutputLost(why) => {
                let lost = |why| Verdict::OutputLost { why };
                self.decide(now, why.map_or(Verdict::Unread, lost), effects);
            }
            CentralInput::Tick => self.tick(now, effects),
            CentralInput::Suspended => self.was_suspended(now),
            CentralInput::Relaunchable(states) => self.relaunchable(now, &states, effects),
            // No pending question, or the answer to a question of a predecessor.
            CentralInput::Stored(_) => {}
        }
    }

    fn heard(
        &mut self,
        now: Time,
        host: HostIndex,
        message: ToCentral,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(message) = self.move_message(now, host, message, effects) else {
            return;
        };
        self.watch_host(host, effects);
        match message {
            ToCentral::Spawned { instance, pid } => self.ranks.spawned(host, instance, pid),
            ToCentral::Registered {
                instance,
                pid,
                card,
                limits,
            } => {
                if self.ranks.registered(host, instance, (pid, card, limits)) {
                    self.registered(now, instance.rank, effects);
                }
            }
            ToCentral::Imaged { .. }
            | ToCentral::NotImaged { .. }
            | ToCentral::ImageLost { .. }
            | ToCentral::WantFiles { .. }
            | ToCentral::Checkpoint { .. } => self.image_message(now, host, message, effects),
            ToCentral::LogIsWhole { instance } => self.log_is_whole(host, instance),
            ToCentral::AskRegionsNumber { .. } | ToCentral::RegionsStored { .. } => {
                self.region_message(host, message, effects);
            }
            ToCentral::Counters { instance, counters } if self.ranks.is_live(host, instance) => {
                effects.push(CentralEffect::Counters(instance.rank, counters));
            }
            ToCentral::Finalizing { instance } => self.finalizing(now, host, instance, effects),
            ToCentral::Ended { instance, stage } => {
                if self.ranks.ended(host, instance, stage) {
                    self.start_when_complete(now, effects);
                }
            }
            ToCentral::ExitDetected { instance, .. } => {
                self.exit_detected(now, host, instance, effects)
            }
            ToCentral::ExitStatus {
                instance,
                pid,
                cause,
            } => self.exit_status(now, Failure::new(host, instance, pid, cause), effects),
            ToCentral::Failed {
                instance,
                pid,
                cause,
            } => {
                let failure = Failure::new(host, instance, pid, cause);
                self.has_failed(now, failure, effects);
            }
            ToCentral::HostEnds | ToCentral::Health(_) | ToCentral::Done => {
                self.host_says(now, host, message, effects);
            }
            ToCentral::Vacated { instance } => self.vacated(now, host, instance.rank, effects),
            ToCentral::Renew { number } => self.hosts.renewed(now, host, number, effects),
            ToCentral::Watch(report) => self.watch_report(now, host, report, effects),
            ToCentral::LogsUsed(logs) => self.logs_used(now, host, &logs),
            // Of an instance that has a successor; the answer to a question of a predecessor.
            ToCentral::Counters { .. } | ToCentral::Report(_) => {}
            of_file => self.file_message(now, host, of_file, effects),
        }
    }

    /// A host says what the logs of its ranks hold.
    fn logs_used(&mut self, now: Time, host: HostIndex, logs: &[RankLogUse]) {
        for log in logs {
            if self.ranks.is_on(log.rank, host) {
                self.logs.note(now, log);
            }
        }
    }

    fn tick(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        if self.phase == CentralPhase::Ending {
            if self.end.is_overdue(now) {
                self.hosts.drop_open(effects);
            }
        } else if let Some(limit) = self.clock.exceeded(now) {
            self.decide(now, Verdict::TimedOut { limit }, effects);
        } else if !self.decides_on_loss()
            && !self.stop_tick(now, effects)
            && !self.restore_tick(now, effects)
        {
            self.held_tick(now, effects);
            self.held_groups_tick(now, effects);
            self.checkpoint_tick(now, effects);
            self.silence_tick(now, effects);
        }
    }
}
