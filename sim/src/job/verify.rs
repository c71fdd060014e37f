//! How a job may end.

use super::JobWorld;
use super::work::Work;
use rejoin_managers_protocol::central::Record;
use rejoin_managers_protocol::verdict::Verdict;

impl<W: Work> JobWorld<W> {
    /// Checks the end of a job, when no event is left.
    pub(super) fn verify(&mut self) -> Result<(), String> {
        let Some(verdict) = self.over.clone() else {
            return Err(self.stuck());
        };
        // The signal is lost with a run of central that dies before it has stored it.
        let stored = |r: &Record| matches!(r, Record::Interrupted { .. });
        let taken = self.signalled == Some(self.boots) || self.records.iter().any(stored);
        self.tally.interrupted = self.signalled.is_some() && taken;
        self.tally.fallbacks = self.stored.fallbacks;
        self.tally.stopped = u64::from(matches!(verdict, Verdict::Stopped { .. }));
        if !self.tally.allows(&verdict) {
            return Err(format!("{verdict:?} without a cause: {:?}", self.tally));
        }
        if let Some(process) = self.processes.values().find(|p| p.acts()) {
            return Err(format!("it outlives the job: {process:?}"));
        }
        Ok(())
    }
}
