//! How a job may end.

use super::JobWorld;
use super::work::Work;
use rejoin_managers_protocol::central::Record;

impl<W: Work> JobWorld<W> {
    /// Nothing happens any more.
    pub(super) fn verify(&mut self) -> Result<(), String> {
        let Some(verdict) = self.over.clone() else {
            return Err(self.stuck());
        };
        // A run that dies before it has stored the signal takes it along.
        let stored = |r: &Record| matches!(r, Record::Interrupted { .. });
        let taken = self.signalled == Some(self.boots) || self.records.iter().any(stored);
        self.tally.interrupted = self.signalled.is_some() && taken;
        if !self.tally.allows(&verdict) {
            return Err(format!("{verdict:?} without a cause: {:?}", self.tally));
        }
        if let Some(process) = self.processes.values().find(|p| p.acts()) {
            return Err(format!("it outlives the job: {process:?}"));
        }
        Ok(())
    }
}
