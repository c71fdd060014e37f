//! Passes each event to its handler.

use super::added_hosts::AddedHostsHandler;
use super::checkpoint_handler::CheckpointHandler;
use super::ending::EndHandler;
use super::event::Event;
use super::failure::Failure;
use super::host_views::host_views;
use super::interface::{CentralEffect, CentralInput, HostIndex};
use super::job_state::Central;
use super::moves::MoveHandler;
use super::out::Out;
use super::phase::CentralPhase;
use super::recovery::{FailureHandler, GroupCommitHandler, HostLossHandler};
use super::region_checkpoints::RegionHandler;
use super::registration::RegistrationHandler;
use super::resume::ResumeHandler;
use super::returns::OrderHandler;
use super::stopping::StopHandler;
use crate::manager_messages::{
    FileMessage, HostMessage, ImageMessage, LogMessage, ProcessMessage, Time, ToCentral,
};
use crate::verdict::Verdict;
use rejoin_channel_table::{ImageId, Rank};
use rejoin_logging::determinants::LogUsage;

impl Central {
    /// One step. Its effects come behind those that are there.
    pub fn step(&mut self, now: Time, input: CentralInput, effects: &mut Vec<CentralEffect>) {
        let mut out = Out::new(now, std::mem::take(effects));
        self.step_to(input, &mut out);
        *effects = out.effects;
    }

    fn step_to(&mut self, input: CentralInput, out: &mut Out) {
        if input == CentralInput::Begin {
            self.cluster.hosts.repeat_leave(out);
        }
        match self.course.phase {
            CentralPhase::Over => return,
            CentralPhase::Resuming(_) => {
                // Inputs that a resumption does not answer, or no longer.
                for input in ResumeHandler::of(&mut self.parts(out)).resuming(input) {
                    self.take(input, out);
                }
                // A host that is lost reports no more.
                for input in ResumeHandler::of(&mut self.parts(out)).continue_when_complete() {
                    self.take(input, out);
                }
            }
            _ => self.take(input, out),
        }
        for input in self.returns.lost_hosts.take_later() {
            self.take(input, out);
        }
        StopHandler::of(&mut self.parts(out)).stop_when_in_files();
        MoveHandler::of(&mut self.parts(out)).carry_moves_on();
        // Whatever has ended them: all ranks may be there by now.
        if self.moves.take_closed() {
            CheckpointHandler::of(&mut self.parts(out)).finalize_when_complete();
        }
        self.report_conditions(out);
        self.watch(out).end_watch();
        self.commits.logs.sum_up(out.now);
        EndHandler::of(&mut self.parts(out)).close();
    }

    fn take(&mut self, input: CentralInput, out: &mut Out) {
        let now = out.now;
        let input = match self.returns.decides_on_loss(&self.course.phase) {
            true => self.returns.lost_hosts.postpone(input),
            false => Some(input),
        };
        let Some(input) = input else {
            return;
        };
        match input {
            CentralInput::Begin if self.course.phase == CentralPhase::Ending => {
                ResumeHandler::of(&mut self.parts(out)).end_again();
            }
            CentralInput::Begin => RegistrationHandler::of(&mut self.parts(out)).begin(),
            CentralInput::Local(host, _) if self.cluster.hosts.is_lost(host) => {}
            CentralInput::Local(host, message) => self.message(host, message, out),
            CentralInput::HostCalled(host) => self.cluster.hosts.called(now, host),
            CentralInput::HostLost(host) => {
                let why = "its local manager ended".to_string();
                self.cluster.hosts.drop_lease(host);
                HostLossHandler::of(&mut self.parts(out)).host_gone(host, why);
            }
            CentralInput::HostGone(host, why) => {
                HostLossHandler::of(&mut self.parts(out)).host_gone(host, why)
            }
            CentralInput::HostEnded(host, why) => {
                self.cluster.hosts.drop_lease(host);
                HostLossHandler::of(&mut self.parts(out)).host_gone(host, why);
            }
            CentralInput::Signal(signal) => StopHandler::of(&mut self.parts(out)).signal(signal),
            CentralInput::Checkpoint => {
                if let Some(checkpoints) = self.commits.checkpoints_mut() {
                    checkpoints.want_files();
                }
                CheckpointHandler::of(&mut self.parts(out)).on_checkpoint_request();
            }
            CentralInput::Stop(signal) => {
                StopHandler::of(&mut self.parts(out)).on_stop_request(signal)
            }
            CentralInput::Move(request) => {
                MoveHandler::of(&mut self.parts(out)).on_move_request(request)
            }
            CentralInput::AddHosts(request) => {
                AddedHostsHandler::of(&mut self.parts(out)).on_hosts_request(request)
            }
            CentralInput::OutputLost(why) => {
                let lost = |why| Verdict::OutputLost { why };
                EndHandler::of(&mut self.parts(out)).decide(why.map_or(Verdict::Unread, lost));
            }
            CentralInput::Tick => self.tick(out),
            CentralInput::Suspended => self.watch(out).was_suspended(),
            CentralInput::Stored(states) => {
                HostLossHandler::of(&mut self.parts(out)).on_stored_states(&states)
            }
        }
    }

    /// A local manager has sent a message.
    fn message(&mut self, host: HostIndex, message: ToCentral, out: &mut Out) {
        self.watch(out).watch_host(host);
        match message {
            ToCentral::Process(message) => {
                let rest = MoveHandler::of(&mut self.parts(out)).arrival_message(host, message);
                if let Some(message) = rest {
                    self.process_message(host, message, out);
                }
            }
            ToCentral::Image(message) => self.image_message(host, message, out),
            ToCentral::File(message) => {
                if self.course.counts_files() {
                    self.file_message(host, message, out);
                }
            }
            ToCentral::Log(LogMessage::Whole { instance }) => {
                GroupCommitHandler::of(&mut self.parts(out)).log_is_whole(host, instance);
            }
            ToCentral::Log(LogMessage::Used(logs)) => self.logs_used(out.now, host, &logs),
            ToCentral::Move(message) => {
                MoveHandler::of(&mut self.parts(out)).move_message(host, message);
            }
            ToCentral::Regions(message) => {
                RegionHandler::of(&mut self.parts(out)).region_message(host, message);
            }
            ToCentral::Host(message) => self.host_message(host, message, out),
            // The answer to a question of a predecessor.
            ToCentral::Report(_) => {}
        }
    }

    /// About the process of a rank that does not move here.
    fn process_message(&mut self, host: HostIndex, message: ProcessMessage, out: &mut Out) {
        let ranks = &mut self.cluster.ranks;
        match message {
            ProcessMessage::Spawned { instance, pid } => ranks.spawned(host, instance, pid),
            ProcessMessage::Registered {
                instance,
                pid,
                card,
                limits,
            } => {
                if ranks.registered(host, instance, (pid, card, limits)) {
                    RegistrationHandler::of(&mut self.parts(out)).registered(instance.rank);
                }
            }
            ProcessMessage::Counters { instance, counters } => {
                if ranks.is_live(host, instance) {
                    out.push(CentralEffect::Counters(instance.rank, counters));
                }
            }
            ProcessMessage::Finalizing { instance } => {
                CheckpointHandler::of(&mut self.parts(out)).finalizing(host, instance);
            }
            ProcessMessage::Ended { instance, stage } => {
                if ranks.ended(host, instance, stage) {
                    RegistrationHandler::of(&mut self.parts(out)).start_when_complete();
                }
            }
            ProcessMessage::ExitDetected { instance, pid: _ } => {
                FailureHandler::of(&mut self.parts(out)).exit_detected(host, instance);
            }
            ProcessMessage::ExitStatus {
                instance,
                pid,
                cause,
            } => {
                let failure = Failure::new(host, instance, pid, cause);
                FailureHandler::of(&mut self.parts(out)).exit_status(failure);
            }
            ProcessMessage::Failed {
                instance,
                pid,
                cause,
            } => {
                let failure = Failure::new(host, instance, pid, cause);
                FailureHandler::of(&mut self.parts(out)).has_failed(failure);
            }
            ProcessMessage::Vacated { instance } => {
                OrderHandler::of(&mut self.parts(out)).vacated(host, instance.rank);
            }
        }
    }

    /// About an image of a rank.
    fn image_message(&mut self, host: HostIndex, message: ImageMessage, out: &mut Out) {
        let mut parts = self.parts(out);
        match message {
            ImageMessage::Taken {
                instance,
                image,
                cost,
            } => match image {
                ImageId::Move(number) => MoveHandler::of(&mut parts).taken(instance.rank, number),
                ImageId::Checkpoint(epoch) => {
                    CheckpointHandler::of(&mut parts).taken(host, instance, epoch, cost);
                }
            },
            ImageMessage::NotTaken {
                instance,
                image,
                why,
                outlives,
            } => match image {
                ImageId::Move(number) => {
                    MoveHandler::of(&mut parts).not_taken(host, instance, number, &why);
                }
                ImageId::Checkpoint(epoch) => {
                    let mut checkpoints = CheckpointHandler::of(&mut parts);
                    checkpoints.not_taken(host, instance, epoch, (why, outlives));
                }
            },
            ImageMessage::Lost {
                instance,
                image,
                why,
            } => match image {
                ImageId::Move(number) => {
                    let why = why.as_deref().unwrap_or("its image was ended");
                    MoveHandler::of(&mut parts).has_no_image(instance.rank, number, why);
                }
                ImageId::Checkpoint(epoch) => {
                    CheckpointHandler::of(&mut parts).is_lost(host, instance, epoch, why);
                }
            },
            ImageMessage::Wanted { instance, after } => {
                CheckpointHandler::of(&mut parts)
                    .on_checkpoint_request_after(host, instance, after);
            }
            ImageMessage::FilesWanted { instance, of } => {
                CheckpointHandler::of(&mut parts).files_wanted(host, instance, of);
            }
        }
    }

    /// About the file of an image. A checkpoint has one image of a rank, also if the rank has
    /// rolled back since. So the message counts in every generation.
    fn file_message(&mut self, host: HostIndex, message: FileMessage, out: &mut Out) {
        let mut parts = self.parts(out);
        match message {
            FileMessage::Stored { rank, image } => match image {
                ImageId::Move(number) => MoveHandler::of(&mut parts).stored(host, rank, number),
                ImageId::Checkpoint(epoch) => {
                    CheckpointHandler::of(&mut parts).image_stored(host, rank, epoch);
                }
            },
            FileMessage::NotStored { rank, image, why } => match image {
                ImageId::Move(number) => {
                    let why = why.as_deref().unwrap_or("its image was interrupted");
                    MoveHandler::of(&mut parts).has_no_image(rank, number, why);
                }
                ImageId::Checkpoint(epoch) => {
                    CheckpointHandler::of(&mut parts).image_not_stored(host, rank, epoch, why);
                }
            },
            FileMessage::Copied { rank, epoch } => {
                CheckpointHandler::of(&mut parts).image_copied(host, rank, epoch);
            }
            FileMessage::NotCopied { rank, epoch, why } => {
                CheckpointHandler::of(&mut parts).image_not_copied(host, rank, epoch, why);
            }
        }
    }

    /// About the host itself.
    fn host_message(&mut self, host: HostIndex, message: HostMessage, out: &mut Out) {
        match message {
            HostMessage::Ends => MoveHandler::of(&mut self.parts(out)).host_leaves(host),
            HostMessage::Health(health) => {
                MoveHandler::of(&mut self.parts(out)).host_health(host, health);
            }
            HostMessage::Done => self.cluster.hosts.done(host, out),
            HostMessage::Renew { number } => {
                let hosts = &mut self.cluster.hosts;
                hosts.renewed(out.now, host, number, out);
            }
            HostMessage::Watch(report) => self.watch(out).watch_report(host, report),
        }
    }

    /// A host says what the logs of its ranks hold.
    fn logs_used(&mut self, now: Time, host: HostIndex, logs: &[(Rank, LogUsage)]) {
        for (rank, log) in logs {
            if self.cluster.ranks.is_on(*rank, host) {
                self.commits.logs.note(now, *rank, log);
            }
        }
    }

    fn tick(&mut self, out: &mut Out) {
        let now = out.now;
        if self.course.phase == CentralPhase::Ending {
            if self.course.end.is_overdue(now) {
                self.cluster.hosts.drop_open(out);
            }
        } else if let Some(limit) = self.course.clock.exceeded(now) {
            EndHandler::of(&mut self.parts(out)).decide(Verdict::TimedOut { limit });
        } else if !self.returns.decides_on_loss(&self.course.phase)
            && !StopHandler::of(&mut self.parts(out)).stop_tick()
            && !FailureHandler::of(&mut self.parts(out)).restore_tick()
        {
            OrderHandler::of(&mut self.parts(out)).release_orders();
            CheckpointHandler::of(&mut self.parts(out)).checkpoint_tick();
            let silence = self.cluster.hosts.silence_tick(now, out);
            self.watch(out).watch_tick();
            HostLossHandler::of(&mut self.parts(out)).silence(silence);
        }
    }

    /// Reports which hosts are in another condition than the user knows. At the end of the job, all
    /// hosts leave it, which the user expects.
    fn report_conditions(&mut self, out: &mut Out) {
        let is_over = self.course.phase == CentralPhase::Finalized;
        let ends = self.course.end.verdict().is_some() || is_over;
        if !self.cluster.hosts.take_changed() || ends {
            return;
        }
        let views = host_views(&self.cluster, &self.terms);
        for (host, view) in views.into_iter().enumerate() {
            if self.cluster.hosts.report_condition(host, view.condition) {
                out.event(Event::HostChanged(view));
            }
        }
    }
}
