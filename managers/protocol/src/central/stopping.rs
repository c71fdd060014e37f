//! The stop of a job: a last checkpoint, and the end of the job when that is in files.
//!
//! A stop asks for a checkpoint into files as a user does. A checkpoint or files that fail are
//! tried again. The verdict comes while all ranks run: a rank that has ended by itself meanwhile is
//! judged first. If a signal asked for the stop, it has a grace time. When that is over, the job
//! ends as by a signal without a grace time, and the checkpoint before stays.

use super::checkpoint_handler::CheckpointHandler;
use super::ending::EndHandler;
use super::event::Event;
use super::group_schedule::TurnHandler;
use super::interface::Record;
use super::job_parts::JobParts;
use super::moves::MoveHandler;
use super::phase::CentralPhase;
use super::stop_request::{StopRequest, StopSignal};
use crate::manager_messages::ToLocal;
use crate::signal_numbers;
use crate::verdict::Verdict;
use rejoin_channel_table::Epoch;

/// Stops the job, or ends it by a signal.
pub(in crate::central) struct StopHandler<'a> {
    /// All parts: what it does can touch each of them.
    pub(in crate::central) job: JobParts<'a>,
}

impl<'a> StopHandler<'a> {
    /// The handler of a step.
    pub(in crate::central) fn of(job: &'a mut JobParts<'_>) -> Self {
        StopHandler { job: job.all() }
    }
}

impl StopHandler<'_> {
    /// The job is to stop.
    pub(super) fn on_stop_request(&mut self, signal: Option<StopSignal>) {
        let now = self.job.out.now;
        let is_ending = self.job.course.phase == CentralPhase::Ending;
        let is_interrupted = self.job.course.end.interrupted().is_some();
        let is_second =
            is_interrupted || self.job.course.stop.is_some_and(|stop| stop.is_second(now));
        if let Some(StopSignal { number, .. }) = signal
            && (is_ending || is_second)
        {
            return self.end_at_once(number);
        }
        if is_interrupted {
            return;
        }
        let before = self.job.course.stop;
        let is_same = |before: StopRequest| signal.is_none() || before.signal().is_some();
        if self.job.course.phase == CentralPhase::Ending || before.is_some_and(is_same) {
            return;
        }
        let Some(checkpoints) = self.job.commits.checkpoints_mut() else {
            return;
        };
        let from = before.map_or(checkpoints.next_number(), |before| before.from());
        checkpoints.pursue_files(from);
        let request = StopRequest::new(from, signal, now);
        self.job.course.stop = Some(request);
        self.job.out.persist(Record::Stopping {
            request: Some(request),
            input: None,
        });
        self.job.out.event(Event::Stopping { from, signal });
        if before.is_none() {
            // The time may be short, and a move puts checkpoints off.
            MoveHandler::of(&mut self.job).end_moves("the job is to stop");
            CheckpointHandler::of(&mut self.job).on_checkpoint_request();
            TurnHandler::of(&mut self.job).request_next_groups();
        }
    }

    /// The checkpoint of the stop, if it is in files.
    fn stopped_at(&self) -> Option<Epoch> {
        let checkpoints = self.job.commits.checkpoints()?;
        checkpoints.in_files_since(self.job.course.stop?.from())
    }

    /// Ends the job if its last checkpoint is in files, and no rank is lost.
    pub(super) fn stop_when_in_files(&mut self) {
        if self.job.course.phase == CentralPhase::Running
            && !self.job.returns.decides_on_loss(&self.job.course.phase)
            && let Some(epoch) = self.stopped_at()
        {
            EndHandler::of(&mut self.job).decide(Verdict::Stopped { epoch });
        }
    }

    /// Ends the job without a last checkpoint, if the grace time is over. Returns whether it is.
    pub(super) fn stop_tick(&mut self) -> bool {
        let now = self.job.out.now;
        let resumes = matches!(self.job.course.phase, CentralPhase::Resuming(_));
        let is_over = self.job.course.stop_due().is_some_and(|due| due <= now) && !resumes;
        if !is_over {
            return false;
        }
        // Ranks that have left MPI_Finalize may have acted since the checkpoint.
        let may_stop = matches!(
            self.job.course.phase,
            CentralPhase::Running | CentralPhase::Restoring(_)
        );
        let epoch = self.stopped_at().filter(|_| may_stop);
        let Some(signal) = self.job.course.stop.take().and_then(|stop| stop.signal()) else {
            return false;
        };
        if let Some(epoch) = epoch {
            EndHandler::of(&mut self.job).decide(Verdict::Stopped { epoch });
            return true;
        }
        let checkpoints = self.job.commits.checkpoints_mut();
        let file = checkpoints.and_then(|checkpoints| {
            checkpoints.end_pursuit();
            checkpoints.epochs().file
        });
        self.job.out.event(Event::StopGivenUp { signal, file });
        self.signal(signal_numbers::TERM);
        self.job.out.persist(Record::Stopping {
            request: None,
            input: None,
        });
        true
    }

    /// The launcher got a signal.
    pub(super) fn signal(&mut self, signal: i32) {
        // A process that waits would get it, and its successor would not.
        MoveHandler::of(&mut self.job).end_moves("the job got a signal");
        let ends = signal_numbers::ends(signal);
        let interrupted = self.job.course.end.interrupted().is_some();
        if ends && (interrupted || self.job.course.phase == CentralPhase::Ending) {
            // The second one means it.
            return self.end_at_once(signal);
        }
        if ends {
            self.job.course.end.interrupt(signal, self.job.out);
            if matches!(self.job.course.phase, CentralPhase::Restoring(_)) {
                // A rank that is being restored would not get the signal.
                return EndHandler::of(&mut self.job).decide(Verdict::Interrupted { signal });
            }
        }
        if self.job.course.phase != CentralPhase::Ending {
            if !ends {
                self.job.course.end.pass(signal, self.job.out);
            }
            self.job
                .cluster
                .hosts
                .send_all(|| ToLocal::Signal { signal }, self.job.out);
        }
    }

    /// The launcher got a signal again: kills everything.
    pub(super) fn end_at_once(&mut self, signal: i32) {
        if self.job.terms.failover.is_some() && self.job.course.end.interrupted().is_none() {
            // Nor does the job continue without a lost host.
            self.job.course.end.interrupt(signal, self.job.out);
        }
        EndHandler::of(&mut self.job).decide(Verdict::Interrupted { signal });
        EndHandler::of(&mut self.job).kill_all();
    }
}
