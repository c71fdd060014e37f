//! `--restart=NAME`: continues a job whose processes have all ended.

use super::arguments::{JobArguments, ProgramArguments, Stable};
use super::log_options::SENDER_LOG;
use crate::launch::named_job::{NamedJob, check_name};
use crate::mpirun::Launch;
use rejoin_channel_table::Epoch;
use std::ffi::OsString;
use std::path::Path;

/// A job to be continued, and the checkpoint.
pub(super) struct Continued {
    job: NamedJob,
    from: Epoch,
}

/// The job that the options name, if they name one. `programs`: what stands on the command line.
pub(super) fn continued(
    job: &JobArguments,
    programs: &[ProgramArguments],
) -> Result<Option<Continued>, String> {
    let Some(images) = job.images_folder() else {
        return Ok(None);
    };
    let (name, has_program) = match job.continued() {
        Some(name) => (name, programs.iter().any(|p| !p.command.is_empty())),
        // The parser takes the last word for the program.
        None => match programs {
            [only] if job.loads_regions() && is_named(images, &only.command) => {
                (only.command[0].to_str().unwrap_or_default(), false)
            }
            _ => return Ok(None),
        },
    };
    let said = |why: String| format!("--restart={name}: {why}");
    let record = NamedJob::open(images, name).map_err(said)?;
    if has_program {
        let why = "the program comes from the images, so none can be given";
        return Err(said(why.into()));
    }
    let size: u32 = record.programs().map(|(ranks, _)| ranks).sum();
    let given: Vec<u32> = programs.iter().filter_map(|program| program.n).collect();
    if !given.is_empty() && given != [size] {
        return Err(said(format!("the job has {size} ranks; leave out -n")));
    }
    check_mode(&record, job).map_err(said)?;
    let from = record.checkpoint().map_err(said)?;
    Ok(Some(Continued { job: record, from }))
}

/// The images of a job that logs messages have its recovery groups.
fn check_mode(record: &NamedJob, job: &JobArguments) -> Result<(), String> {
    let is_logging = job.recovery == SENDER_LOG;
    match (record.log_groups().is_empty(), is_logging) {
        (true, true) => Err("the job logs no messages: leave --recovery out".into()),
        (false, false) => Err("the job logs messages: give --recovery sender-log again".into()),
        _ if job.stable == Some(Stable::Rank) => {
            Err("--stable rank: the job needs its nondeterministic answers in files".into())
        }
        _ => Ok(()),
    }
}

/// Whether these words are the name of a job that has left its record.
fn is_named(images: &Path, words: &[OsString]) -> bool {
    let [name] = words else {
        return false;
    };
    let name = name.to_str().filter(|name| check_name(name).is_ok());
    name.is_some_and(|name| NamedJob::has_record(images, name))
}

impl Continued {
    /// The programs of the job. `first`: what stands on the command line beside a program.
    pub(super) fn programs(&self, first: Option<ProgramArguments>) -> Vec<ProgramArguments> {
        let mut first = first;
        let programs = self
            .job
            .programs()
            .map(|(ranks, command)| ProgramArguments {
                n: Some(ranks),
                command,
                ..first.take().unwrap_or_default()
            });
        programs.collect()
    }

    /// Makes a launch continue the job.
    pub(super) fn apply(&self, launch: &mut Launch) {
        launch.generation = self.job.next_generation();
        launch.plan.job = self.job.id();
        launch.plan.name = Some(self.job.name().to_owned());
        launch.plan.from = Some(self.from);
        launch.requested = self.job.requested();
        launch.plan.options.restart = false;
        let options = &mut launch.plan.options;
        options.log_groups = self.job.log_groups().to_vec();
        options.stable_node = !options.log_groups.is_empty();
        launch.plan.stdin = self.job.stdin();
        launch.plan.interactive &= launch.plan.stdin.is_some();
    }
}
