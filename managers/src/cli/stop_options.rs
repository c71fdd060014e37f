//! The options with which a job stops with a last checkpoint: `--stop-at`, `--grace` and
//! `--stop-signal`.

use super::arguments::{Given, JobArguments};
use crate::launch::launch_plan::Program;
use crate::launch::named_job::own_name;
use crate::mpirun::StopPlan;
use rejoin_channel_table::JobId;

/// When the job is to stop.
///
/// # Errors
/// The job takes no checkpoint from which it could continue, or the options contradict each other.
pub(super) fn plan(job: &JobArguments, given: Given<'_>) -> Result<StopPlan, String> {
    let option = match (job.stop_at, job.grace) {
        (None, None) => return Ok(StopPlan::default()),
        (Some(_), _) => "--stop-at",
        (None, Some(_)) => "--grace",
    };
    if !job.mode().masks_failures() {
        let recovery = given("recovery", &job.recovery);
        return Err(format!("{option}: {recovery} takes no checkpoints"));
    }
    if job.loads_regions() {
        return Err(format!(
            "{option}: --restart without a name continues from registered memory, and a job stops \
             with images of its processes; leave out --restart"
        ));
    }
    let is_both = |signal: &i32| job.stop_signal.contains(signal);
    if job.checkpoint_signal.as_ref().is_some_and(is_both) {
        return Err("--checkpoint-signal and --stop-signal name the same signal".into());
    }
    Ok(StopPlan::new(
        job.stop_at,
        job.grace,
        job.stop_signal.clone(),
    ))
}

/// The name of the job. Without one, nothing could continue the job after a stop, so it gets one.
pub(super) fn name(job: &JobArguments, programs: &[Program], id: JobId) -> Option<String> {
    let stops = job.stop_at.is_some() || job.grace.is_some();
    let unnamed = || stops.then(|| own_name(programs, id));
    job.job_name.clone().or_else(unnamed)
}
