//! `rejoin images`: what jobs have stored in a folder of `mpirun --images`.

use crate::saved_images::{
    self, Running, SavedCheckpoint, SavedFile, SavedJob, SavedKind, Survey, Verification,
};
use crate::standard_output::print;
use clap::Subcommand;
use rejoin_managers_report::page::quantity::{bytes, counted, time};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Exit code when images are damaged, or nothing could be done.
const FAILED: i32 = 1;

#[derive(Debug, Subcommand)]
pub(super) enum ImagesCommand {
    /// List jobs, their checkpoints and files
    List {
        /// Which job: its name, or job- and the beginning of its id [default: all]
        job: Option<String>,
        /// The folder of mpirun --images
        #[arg(long, value_name = "DIR")]
        images: PathBuf,
        /// Print a list of jobs as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check all bytes of all files, and name those that are damaged; exit code 1 if there are any
    Verify {
        /// Which job: its name, or job- and the beginning of its id [default: all]
        job: Option<String>,
        /// The folder of mpirun --images
        #[arg(long, value_name = "DIR")]
        images: PathBuf,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove all that a job has stored, or older checkpoints; nothing of a job that runs
    Remove {
        /// Which job: its name, or job- and the beginning of its id [default with --keep: all]
        #[arg(required_unless_present = "keep")]
        job: Option<String>,
        /// The folder of mpirun --images
        #[arg(long, value_name = "DIR")]
        images: PathBuf,
        /// Keep the newest N complete checkpoints, and remove the files before them
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        keep: Option<u16>,
    },
}

/// Runs the command. Returns the exit code.
pub(super) fn run(command: &ImagesCommand) -> i32 {
    let done = match command {
        ImagesCommand::List { job, images, json } => list(images, job.as_deref(), *json),
        ImagesCommand::Verify { job, images, json } => verify(images, job.as_deref(), *json),
        ImagesCommand::Remove { job, images, keep } => remove(images, job.as_deref(), *keep),
    };
    done.unwrap_or_else(|why| {
        say_line!("rejoin: {why}");
        FAILED
    })
}

/// The jobs in a folder that are meant.
fn meant(images: &Path, job: Option<&str>) -> Result<Survey, String> {
    let mut survey = saved_images::survey(images)?;
    let Some(wanted) = job else {
        return Ok(survey);
    };
    let has_name = survey.jobs.iter().any(|job| job.name == wanted);
    survey.jobs.retain(|job| match has_name {
        true => job.name == wanted,
        false => {
            let id = wanted.strip_prefix("job-").filter(|id| !id.is_empty());
            id.is_some_and(|id| job.id.as_ref().is_some_and(|own| own.starts_with(id)))
        }
    });
    survey.strays.clear();
    let shown = images.display();
    match survey.jobs.as_slice() {
        [] => Err(format!("{shown} holds nothing of a job {wanted}")),
        [_] => Ok(survey),
        several => {
            let names: Vec<_> = several.iter().map(|job| job.name.as_str()).collect();
            Err(format!("{wanted} may be {}", names.join(" or ")))
        }
    }
}

fn list(images: &Path, job: Option<&str>, json: bool) -> Result<i32, String> {
    let survey = meant(images, job)?;
    if json {
        return as_json(&survey.jobs);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    let mut text = String::new();
    for job in &survey.jobs {
        text += &table(job, now);
    }
    for file in &survey.strays {
        text += &problem(file);
    }
    if text.is_empty() {
        text = format!("{} holds nothing of a job\n", images.display());
    }
    Ok(print("rejoin", &text))
}

fn as_json(value: &impl Serialize) -> Result<i32, String> {
    let text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    Ok(print("rejoin", &format!("{text}\n")))
}

/// A job in a few lines. Writing to a string does not fail.
fn table(job: &SavedJob, now: u64) -> String {
    let mut text = format!("job {}", job.name);
    if let Some(ranks) = job.ranks {
        text += &format!(", {}", counted(ranks.into(), "rank", "ranks"));
    }
    let host = job.host.as_deref().unwrap_or_default();
    text += &match job.running {
        Running::No => ", does not run".into(),
        Running::Yes => format!(", runs (host {host})"),
        Running::Unknown if job.host.is_none() => ", may run (its next launch is awaited)".into(),
        Running::Unknown => format!(", may run (host {host} has left a lock)"),
    };
    text.push('\n');
    for program in &job.programs {
        let _ = writeln!(text, "  {program}");
    }
    if let Some(why) = &job.problem {
        let _ = writeln!(text, "  {why}");
    }
    for one in &job.checkpoints {
        let _ = writeln!(text, "  {}", line(job, one, now));
        for file in &one.files {
            text += &problem(file);
        }
    }
    text
}

/// A checkpoint in one line.
fn line(job: &SavedJob, one: &SavedCheckpoint, now: u64) -> String {
    let what = match one.kind {
        SavedKind::ProcessImage => "process images",
        SavedKind::Regions => "registered regions",
    };
    let all = job.ranks.map_or("?".to_owned(), |ranks| ranks.to_string());
    let age = now.saturating_sub(one.written());
    let mut text = format!(
        "checkpoint {}: {what} of {} of {all} ranks, {}, {} ago",
        one.number,
        one.ranks(),
        bytes(one.bytes()),
        time(age.saturating_mul(1_000_000_000)),
    );
    if one.committed {
        text += ", committed";
    } else if !one.complete {
        text += ", not complete";
    }
    let earlier = one.files.iter().map(|file| file.earlier_files).max();
    if let Some(count @ 1..) = earlier {
        let files = counted(count.into(), "earlier file", "earlier files");
        text += &format!(", builds on up to {files}");
    }
    let builds: BTreeSet<_> = one
        .files
        .iter()
        .filter_map(|f| f.build.as_deref())
        .collect();
    if !builds.is_empty() {
        let builds: Vec<_> = builds.into_iter().collect();
        text += &format!(", build {}", builds.join(" and "));
    }
    text
}

fn problem(file: &SavedFile) -> String {
    let path = file.path.display();
    let problem = file.problem.as_ref();
    problem.map_or(String::new(), |why| format!("    {path}: {why}\n"))
}

fn verify(images: &Path, job: Option<&str>, json: bool) -> Result<i32, String> {
    let survey = meant(images, job)?;
    let result = saved_images::verify(&survey);
    let printed = match json {
        true => as_json(&result)?,
        false => print("rejoin", &judgement(&result)),
    };
    Ok(match result.damages.is_empty() {
        true => printed,
        false => FAILED,
    })
}

/// The result of a check in lines.
fn judgement(result: &Verification) -> String {
    let mut text = String::new();
    for damage in &result.damages {
        let _ = writeln!(text, "{}: {}", damage.path.display(), damage.why);
    }
    for path in &result.changed_here {
        let path = path.display();
        let _ = writeln!(
            text,
            "on this machine ranks can't be restored: they have mapped {path}, which is another here"
        );
    }
    let whole = counted(result.files, "file is whole", "files are whole");
    let bad = counted(result.damages.len() as u64, "problem", "problems");
    let _ = writeln!(text, "{whole} ({}), {bad}", bytes(result.bytes));
    text
}

fn remove(images: &Path, job: Option<&str>, keep: Option<u16>) -> Result<i32, String> {
    let mut survey = meant(images, job)?;
    let mut code = 0;
    for job in &mut survey.jobs {
        match saved_images::remove(images, job, keep.map(usize::from)) {
            Ok(removal) => {
                let files = counted(removal.files, "file", "files");
                let mut text = format!(
                    "job {}: {files} removed ({})",
                    job.name,
                    bytes(removal.bytes)
                );
                if !removal.kept.is_empty() {
                    let kept: Vec<_> = removal.kept.iter().map(u32::to_string).collect();
                    text += &format!(", kept: checkpoint {}", kept.join(" and "));
                }
                code = code.max(print("rejoin", &format!("{text}\n")));
            }
            Err(why) => {
                say_line!("rejoin: {why}");
                code = FAILED;
            }
        }
    }
    Ok(code)
}
