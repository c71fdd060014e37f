//! The stop of a job: a last checkpoint, and the end of the job when that is in files.
//!
//! A stop asks for a checkpoint into files as a user does. A checkpoint or files that fail are
//! tried again. The verdict comes while all ranks run: a rank that has ended by itself meanwhile is
//! judged first. If a signal asked for the stop, it has a grace time. When that is over, the job
//! ends as by a signal without a grace time, and the checkpoint before stays.

use super::event::Event;
use super::interface::{CentralEffect, Record};
use super::job_state::Central;
use super::phase::CentralPhase;
use super::stop_request::{StopRequest, StopSignal};
use crate::manager_messages::Time;
use crate::signal_numbers;
use crate::verdict::Verdict;
use rejoin_channel_table::Epoch;

impl Central {
    /// The job is to stop.
    pub(super) fn stop_asked(
        &mut self,
        now: Time,
        signal: Option<StopSignal>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let is_ending = self.phase == CentralPhase::Ending;
        if is_ending && self.stop.is_none() && self.may_need_files() {
            // The job has lost a host and will be launched again: the next launch stops.
            self.stop = Some(StopRequest::new(Epoch(0), signal, now));
            return;
        }
        let is_interrupted = self.end.interrupted().is_some();
        let is_second = is_interrupted || self.stop.is_some_and(|stop| stop.is_second(now));
        if let Some(StopSignal { number, .. }) = signal
            && (is_ending || is_second)
        {
            return self.end_at_once(now, number, effects);
        }
        if is_interrupted {
            return;
        }
        let before = self.stop;
        let is_same = |before: StopRequest| signal.is_none() || before.signal().is_some();
        if self.phase == CentralPhase::Ending || before.is_some_and(is_same) {
            return;
        }
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        let from = before.map_or(checkpoints.next_number(), |before| before.from());
        checkpoints.pursue_files(from);
        let request = StopRequest::new(from, signal, now);
        self.stop = Some(request);
        effects.push(CentralEffect::Persist(Record::Stopping {
            request: Some(request),
            input: None,
        }));
        effects.push(CentralEffect::Event(Event::Stopping { from, signal }));
        if before.is_none() {
            // The time may be short, and a move puts checkpoints off.
            self.end_moves(now, "the job is to stop", effects);
            self.checkpoint_asked(now, effects);
            self.request_next_groups(now, effects);
        }
    }

    /// The same, while the job waits for its next launch. The next launch gets the request anew.
    pub(super) fn stop_asked_between_launches(
        &mut self,
        now: Time,
        signal: Option<StopSignal>,
        effects: &mut Vec<CentralEffect>,
    ) {
        match (signal, self.stop) {
            (Some(StopSignal { number, .. }), Some(stop)) if stop.is_second(now) => {
                self.over(Verdict::Interrupted { signal: number }, effects);
            }
            (Some(_), None) => self.stop = Some(StopRequest::new(Epoch(0), signal, now)),
            _ => {}
        }
    }

    /// The checkpoint of the stop, if it is in files.
    fn stopped_at(&self) -> Option<Epoch> {
        let checkpoints = self.mode.checkpoints()?;
        checkpoints.in_files_since(self.stop?.from())
    }

    /// Ends the job if its last checkpoint is in files, and no rank is lost.
    pub(super) fn stop_when_in_files(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        if self.phase == CentralPhase::Running
            && !self.decides_on_loss()
            && let Some(epoch) = self.stopped_at()
        {
            self.decide(now, Verdict::Stopped { epoch }, effects);
        }
    }

    /// When the stop is given up, in phases that can do so.
    pub(super) fn stop_due(&self) -> Option<Time> {
        self.stop.and_then(|stop| stop.due())
    }

    /// Ends the job without a last checkpoint, if the grace time is over. Returns whether it is.
    pub(super) fn stop_tick(&mut self, now: Time, effects: &mut Vec<CentralEffect>) -> bool {
        let resumes = matches!(self.phase, CentralPhase::Resuming(_));
        let is_over = self.stop_due().is_some_and(|due| due <= now) && !resumes;
        if !is_over {
            return false;
        }
        // Ranks that have left MPI_Finalize may have acted since the checkpoint.
        let may_stop = matches!(
            self.phase,
            CentralPhase::Running | CentralPhase::Restoring(_)
        );
        let epoch = self.stopped_at().filter(|_| may_stop);
        let Some(signal) = self.stop.take().and_then(|stop| stop.signal()) else {
            return false;
        };
        if let Some(epoch) = epoch {
            self.decide(now, Verdict::Stopped { epoch }, effects);
            return true;
        }
        let checkpoints = self.mode.checkpoints_mut();
        let file = checkpoints.and_then(|checkpoints| {
            checkpoints.end_pursuit();
            checkpoints.epochs().file
        });
        effects.push(CentralEffect::Event(Event::StopGivenUp { signal, file }));
        self.signal(now, signal_numbers::TERM, effects);
        effects.push(CentralEffect::Persist(Record::Stopping {
            request: None,
            input: None,
        }));
        true
    }
}
