//! The time between two checkpoints of a generation, and the file that has its records.

use rejoin_channel_table::{Epoch, Generation, JobId};
use rejoin_device::Rollback;

/// What a rank does between two images. The order is that of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::file) struct FileInterval {
    /// The generation of the job.
    pub generation: Generation,
    /// The checkpoint at its beginning.
    pub epoch: Epoch,
}

impl FileInterval {
    /// The name of the file that has the job's records of this interval.
    pub fn file_name(self, job: JobId) -> String {
        let (generation, epoch) = (self.generation.0, self.epoch.0);
        format!("{}{generation}-{epoch}", prefix(job))
    }

    /// The interval that a file of this job has the records of.
    pub fn of_file(name: &str, job: JobId) -> Option<Self> {
        let rest = name.strip_prefix(&prefix(job))?;
        let (generation, epoch) = rest.split_once('-')?;
        Some(Self {
            generation: Generation(generation.parse().ok()?),
            epoch: Epoch(epoch.parse().ok()?),
        })
    }

    /// The interval in one number, which is not 0.
    pub fn to_word(self) -> u64 {
        (u64::from(self.generation.0) + 1) << 32 | u64::from(self.epoch.0)
    }

    /// The interval of such a number; `None` for 0.
    pub fn of_word(word: u64) -> Option<Self> {
        let generation = (word >> 32).checked_sub(1)?;
        Some(Self {
            generation: Generation(generation as u32),
            epoch: Epoch(word as u32),
        })
    }

    /// Whether one of these rollbacks took back what was done in the interval.
    pub fn is_stale(self, rollbacks: &[Rollback]) -> bool {
        let takes_back = |r: &Rollback| self.generation < r.generation && self.epoch >= r.to;
        rollbacks.iter().any(takes_back)
    }
}

/// How the names of all files of a job begin.
pub(super) fn prefix(job: JobId) -> String {
    format!("{:x}-", job.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(generation: u32, epoch: u32) -> FileInterval {
        FileInterval {
            generation: Generation(generation),
            epoch: Epoch(epoch),
        }
    }

    #[test]
    fn a_file_belongs_to_one_job_and_interval() {
        let (job, other) = (JobId(0xab), JobId(0xa));
        let name = interval(3, 17).file_name(job);
        assert_eq!(name, "ab-3-17");
        assert_eq!(FileInterval::of_file(&name, job), Some(interval(3, 17)));
        assert_eq!(FileInterval::of_file(&name, other), None);
        assert_eq!(FileInterval::of_file("ab-3-x", job), None);
        for one in [interval(0, 0), interval(3, 17), interval(7, u32::MAX)] {
            assert_eq!(FileInterval::of_word(one.to_word()), Some(one));
        }
        assert_eq!(FileInterval::of_word(0), None);
    }

    #[test]
    fn a_rollback_takes_back_what_came_after_its_checkpoint() {
        let rollback = |generation, to| Rollback {
            generation: Generation(generation),
            to: Epoch(to),
        };
        // From checkpoint 5, and then from 7, which the first generation has not had.
        let past = [rollback(1, 5), rollback(2, 7)];
        for (generation, epoch, is_stale) in [
            (0, 4, false),
            (0, 5, true),
            (0, 6, true),
            (1, 5, false),
            (1, 6, false),
            (1, 7, true),
            (2, 7, false),
        ] {
            assert_eq!(interval(generation, epoch).is_stale(&past), is_stale);
        }
        assert!(!interval(0, 5).is_stale(&[]));
    }
}
