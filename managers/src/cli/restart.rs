//! `--restart=NAME`: continues a job whose processes have all ended.

use super::arguments::{JobArguments, ProgramArguments, Stable};
use crate::launch::named_job::{NamedJob, check_name};
use crate::launch::spawn::resolve;
use crate::mpirun::Launch;
use rejoin_channel_table::Epoch;
use rejoin_wire::RecoveryMode;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

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
    let Some(name) = job.continued() else {
        return Ok(None);
    };
    let has_program = programs.iter().any(|p| !p.command.is_empty());
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
    let is_logging = matches!(job.mode(), RecoveryMode::SenderLog(_));
    match (record.log_groups().is_empty(), is_logging) {
        (true, true) => Err("the job logs no messages: leave --recovery out".into()),
        (false, false) => Err("the job logs messages: give --recovery sender-log again".into()),
        _ if job.stable == Some(Stable::Rank) => {
            Err("--stable rank: the job needs its nondeterministic answers in files".into())
        }
        _ => Ok(()),
    }
}

/// Whether the word behind `--restart` is the name of a job, and not the program that continues
/// from its registered memory: a job of this name has left its record, or there is no such program.
/// `line`: all arguments, which may name the folder of images.
pub(super) fn is_name(line: &[OsString], word: &OsStr) -> bool {
    let may_be = |name: &&str| !name.starts_with('-') && check_name(name).is_ok();
    let Some(name) = word.to_str().filter(may_be) else {
        return false;
    };
    let path = std::env::var_os("PATH");
    images_in(line).is_some_and(|images| NamedJob::has_record(&images, name))
        || resolve(word, path.as_deref(), None).is_err()
}

/// The folder of images that the line names, wherever the option stands.
fn images_in(line: &[OsString]) -> Option<PathBuf> {
    let mut words = line.iter();
    let value = words.find_map(|word| {
        let option = word.to_str()?.strip_prefix('-')?;
        let option = option.strip_prefix('-').unwrap_or(option);
        Some(option.strip_prefix("images")?.to_owned())
    })?;
    match value.strip_prefix('=') {
        Some(folder) => Some(folder.into()),
        None => words.next().map(PathBuf::from),
    }
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
        launch.before = self.job.before(self.from);
        launch.plan.options.restart = false;
        if let Some(log) = launch.plan.options.recovery.log_mut() {
            log.groups = self.job.log_groups().to_vec();
            log.stable_node = true;
        }
        launch.plan.stdin = self.job.stdin();
        launch.plan.interactive &= launch.plan.stdin.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_behind_restart_is_a_name_if_there_is_no_such_program() {
        let folder = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            images_in(&words)
        };
        assert_eq!(
            folder(&["--restart", "a", "--images", "d"]),
            Some("d".into())
        );
        assert_eq!(folder(&["-images=d", "--restart", "a"]), Some("d".into()));
        assert_eq!(folder(&["--image-interval", "d"]), None);
        let is_name = |word: &str| is_name(&[], OsStr::new(word));
        assert!(is_name("no-such-program"));
        assert!(!is_name("sh") && !is_name("./a.out") && !is_name("-n"));
    }
}
