//! Removes what a job does not need, or all of it. Never files of a job that runs.

use super::saved_job::{Running, SavedCheckpoint, SavedJob, SavedKind};
use crate::launch::{determinants_file, named_job, shown_output};
use rejoin_ckpt::image::image_check;
use rejoin_ckpt::regions::JobClaim;
use rejoin_managers_host::error::system_text;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The result of a removal.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Removal {
    /// Files that were removed.
    pub files: u64,
    /// Lengths of these files together, in bytes.
    pub bytes: u64,
    /// Checkpoints that stay, the oldest first.
    pub kept: Vec<u32>,
}

/// Removes the files of a job. `keep`: only those before so many complete checkpoints, counted from
/// the newest, and unfinished ones; `None`: everything.
///
/// # Errors
/// For the user: the job runs or may run, a file that must stay can't be read, or one can't be
/// removed.
pub fn remove(images: &Path, job: &mut SavedJob, keep: Option<usize>) -> Result<Removal, String> {
    job.look_for_managers();
    refuse_running(job)?;
    // As long as it is held, mpirun does not continue the job.
    let claim = job.number.map(|number| JobClaim::new(images, number));
    let _claim = claim.transpose().map_err(|error| said(images, &error))?;
    let (kept, needed) = match keep {
        Some(count) => needed(job, count)?,
        None => (Vec::new(), BTreeSet::new()),
    };
    let mut removal = Removal {
        kept,
        ..Removal::default()
    };
    let oldest = |kind| {
        let kept = job.newest_complete(kind).take(keep.unwrap_or_default());
        let committed = job
            .checkpoints
            .iter()
            .filter(|one| one.committed && one.kind == kind);
        kept.chain(committed.map(|one| one.number)).min()
    };
    for one in &job.checkpoints {
        let is_old = oldest(one.kind).is_some_and(|oldest| one.number < oldest);
        for file in &one.files {
            let is_over = keep.is_none() || is_old || !file.whole;
            if is_over && !needed.contains(&file.path) {
                remove_file(&file.path)?;
                removal.files += 1;
                removal.bytes += file.bytes;
            }
        }
    }
    if keep.is_none() {
        if job.is_named {
            remove_file(&named_job::record_path(job.folder.path()))?;
            shown_output::remove(job.folder.path());
            determinants_file::remove(job.folder.path());
        }
        // Notes without images, too.
        match job.folder.clear(&[]) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(said(job.folder.path(), &error));
            }
            _ => job.folder.remove_free_claims(),
        }
        job.folder.remove_if_empty();
    }
    Ok(removal)
}

/// Refuses to touch files of a job that runs, or of which nobody knows.
fn refuse_running(job: &SavedJob) -> Result<(), String> {
    let (name, shown) = (&job.name, job.folder.path().display());
    let host = job.host.as_deref().unwrap_or("this host");
    match job.running {
        Running::Yes => Err(format!(
            "job {name} runs on host {host}: nothing is removed"
        )),
        Running::Unknown if job.host.is_none() => Err(format!(
            "job {name} may run: its next launch is to come within an hour of the last. Nothing is removed"
        )),
        Running::Unknown => Err(format!(
            "job {name} may run: a manager of host {host} has left its lock in {shown}, and only that host \
             can tell. Run this command there, or remove the lock"
        )),
        Running::No => Ok(()),
    }
}

/// The numbers of the complete checkpoints that stay, and the files that these need.
fn needed(job: &SavedJob, count: usize) -> Result<(Vec<u32>, BTreeSet<PathBuf>), String> {
    let mut numbers = BTreeSet::new();
    let mut files = BTreeSet::new();
    for kind in [SavedKind::ProcessImage, SavedKind::Regions] {
        let newest: BTreeSet<u32> = job.newest_complete(kind).take(count).collect();
        let stays = |one: &&SavedCheckpoint| {
            one.kind == kind && (one.committed || newest.contains(&one.number))
        };
        for one in job.checkpoints.iter().filter(stays) {
            numbers.insert(one.number);
            for file in one.files.iter().filter(|file| file.whole) {
                files.insert(file.path.clone());
                if file.earlier_files > 0 {
                    let bases = image_check::bases(&file.path);
                    let shown = file.path.display();
                    files.extend(
                        bases.map_err(|why| format!("nothing is removed: {shown}: {why}"))?,
                    );
                }
            }
        }
    }
    Ok((numbers.into_iter().collect(), files))
}

/// Removes a file, and the note beside an image.
fn remove_file(path: &Path) -> Result<(), String> {
    let is_image = path.extension().is_some_and(|kind| kind == "image");
    let note = is_image.then(|| path.with_extension("note"));
    for path in [Some(path.to_owned()), note].into_iter().flatten() {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(said(&path, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn said(path: &Path, error: &io::Error) -> String {
    format!("{}: {}", path.display(), system_text(error))
}
