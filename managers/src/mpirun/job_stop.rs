//! The stop of a job with a last checkpoint, as mpirun asks central for it.
//!
//! mpirun holds output before it asks. So the marks of the images that the job stops with come
//! while output is held, and nothing is shown that is written again after a restart.

use super::Launcher;
use rejoin_managers_protocol::central::{CentralInput, StopSignal};

impl Launcher {
    /// Asks for the stop if its time has come.
    pub(super) fn run_stop_timer(&mut self) {
        if self.launch.stop.is_time(self.launch.begun) {
            self.ask_stop(None);
        }
    }

    /// An earlier launch was asked to stop by a signal: so is this one.
    pub(super) fn continue_stop(&mut self) {
        if let Some(signal) = self.launch.stop.pending_signal() {
            self.ask_stop(Some(signal));
        }
    }

    /// mpirun got a signal. Returns whether the job is to stop by it.
    pub(super) fn stops_by(&mut self, signal: i32) -> bool {
        let stop = self.launch.stop.by_signal(signal);
        if stop.is_some() {
            self.ask_stop(stop);
        }
        stop.is_some()
    }

    fn ask_stop(&mut self, signal: Option<StopSignal>) {
        self.streams.begin_stop();
        self.central.tell(CentralInput::Stop(signal));
    }
}
