//! The stop of a job with a last checkpoint, as mpirun asks central for it.
//!
//! mpirun holds output before it asks. So the marks of the images that the job stops with come
//! while output is held, and nothing is shown that is written again after a restart.

use super::Launcher;
use crate::launch::shown_output;
use rejoin_channel_table::Epoch;
use rejoin_managers_protocol::central::{CentralInput, StopSignal};
use rejoin_managers_report::user_log;

impl Launcher {
    /// Asks for the stop if its time has come.
    pub(super) fn run_stop_timer(&mut self) {
        if self.launch.stop.is_time(self.launch.begun) {
            self.request_stop(None);
        }
    }

    /// An earlier launch was asked to stop by a signal: so is this one.
    pub(super) fn continue_stop(&mut self) {
        if let Some(signal) = self.launch.stop.pending_signal() {
            self.request_stop(Some(signal));
        }
    }

    /// mpirun got a signal. Returns whether the job is to stop by it.
    pub(super) fn stops_by(&mut self, signal: i32) -> bool {
        let stop = self.launch.stop.by_signal(signal);
        if stop.is_some() {
            self.request_stop(stop);
        }
        stop.is_some()
    }

    /// The job has stopped, and its output is written: stores what it had shown beyond this
    /// checkpoint.
    pub(super) fn store_shown(&self, checkpoint: Epoch) {
        let Some(named) = &self.named else {
            return;
        };
        let shown = self.streams.shown_beyond();
        if shown.is_empty() {
            return;
        }
        if let Err(why) = shown_output::store(named.folder(), named.id(), checkpoint, shown) {
            user_log::say(&format!(
                "some lines appear again when the job continues, because it can't be stored which: \
                 {why}"
            ));
        }
    }

    /// The job continues from this checkpoint: learns what it had shown beyond it.
    pub(super) fn load_shown(&mut self, checkpoint: Epoch) {
        let Some(named) = &self.named else {
            return;
        };
        match shown_output::load(named.folder(), named.id(), checkpoint) {
            Ok(shown) => self.streams.was_shown(checkpoint, shown),
            Err(why) => user_log::say(&format!(
                "lines that the job has shown before may appear again: {why}"
            )),
        }
    }

    fn request_stop(&mut self, signal: Option<StopSignal>) {
        self.streams.begin_stop();
        self.central.notify(CentralInput::Stop(signal));
    }
}
