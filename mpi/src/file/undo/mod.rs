//! Undoes what ranks wrote to files after the checkpoint to which the job has returned.
//!
//! Before a rank changes a file, it appends a record of the bytes that the change destroys to a
//! file beside it: `.NAME.rejoin-undo/JOB-GENERATION-EPOCH`, one for all ranks and for the time
//! between two checkpoints (an *interval*). So records of changes that messages order are in this
//! order. A rank that is killed leaves a whole record, or has not written yet.
//!
//! After a rollback, intervals that it took back are *stale* (`file_interval`). The first rank that
//! uses the file then writes the former bytes back in reverse order, under a lock, and removes the
//! records (`undo_plan`, `file_undo`). All earlier processes have been stopped by then. Records of
//! intervals before every checkpoint to which the job could return are removed when a rank begins a
//! new interval, and all at the end of the job.
//!
//! A byte that this rank has recorded in the interval needs no second record (`covered_ranges`).
//! Neither do bytes that other ranks have appended to the file in it (`former_length`).

mod covered_ranges;
mod file_interval;
mod file_undo;
mod former_length;
mod job_rollbacks;
mod record_scan;
#[cfg(test)]
pub(super) mod tests;
mod undo_folder;
mod undo_plan;
mod undo_record;

pub(super) use file_interval::FileInterval;
pub(super) use file_undo::FileUndo;
pub(super) use job_rollbacks::JobRollbacks;
pub(super) use undo_folder::AppendMode;
