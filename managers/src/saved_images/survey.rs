//! Looks at all that lies in a folder of images. Reads heads of files only.

use super::saved_job::{SavedCheckpoint, SavedFile, SavedJob, SavedKind};
use crate::launch::machines::quoted;
use crate::launch::named_job::NamedJob;
use rejoin_ckpt::image::image_check;
use rejoin_ckpt::regions;
use rejoin_ckpt::store::{ImageFolder, ListedImage, job_folders};
use rejoin_managers_host::error::system_text;
use std::collections::BTreeMap;
use std::path::Path;

/// What lies in a folder.
#[derive(Debug)]
pub struct Survey {
    /// The jobs, in the order of their names.
    pub jobs: Vec<SavedJob>,
    /// Files of registered regions whose heads can't be read, so that no job is known.
    pub strays: Vec<SavedFile>,
}

/// Looks at a folder of `--images`.
///
/// # Errors
/// For the user: the folder can't be read.
pub fn survey(images: &Path) -> Result<Survey, String> {
    let said = |error| format!("--images {}: {}", images.display(), system_text(&error));
    let mut jobs = Vec::new();
    for name in job_folders(images).map_err(said)? {
        jobs.extend(process_images(images, name)?);
    }
    let mut strays = Vec::new();
    for path in regions::files(images) {
        let Ok(data) = path.metadata() else {
            continue;
        };
        let written = data.modified().map_err(said)?;
        let mut file = SavedFile::new(0, path, data.len(), written);
        match regions::tag(&file.path) {
            Ok(tag) => {
                file.rank = tag.rank;
                file.build = Some(tag.build.clone()).filter(|build| !build.is_empty());
                add_regions(&mut jobs, images, &tag, file);
            }
            Err(why) => {
                file.problem = Some(why.to_string());
                strays.push(file);
            }
        }
    }
    for job in &mut jobs {
        for one in &mut job.checkpoints {
            one.files.sort_by_key(|file| file.rank);
            let is_readable = one.files.iter().all(|file| file.problem.is_none());
            let has_all = job.ranks.is_some_and(|ranks| one.ranks() == ranks as usize);
            one.complete = has_all && is_readable;
        }
        job.checkpoints.sort_by_key(|one| (one.kind, one.number));
        job.look_for_managers();
    }
    jobs.sort_by(|one, other| one.name.cmp(&other.name));
    strays.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(Survey { jobs, strays })
}

/// The job whose process images are in this folder, if it is one of a job.
fn process_images(images: &Path, name: String) -> Result<Option<SavedJob>, String> {
    let folder = ImageFolder::new(images, 0, Some(&name)).that_stays();
    let said = |error| format!("{}: {}", folder.path().display(), system_text(&error));
    let files = folder.files().map_err(said)?;
    let is_named = NamedJob::has_record(images, &name);
    let id = name.strip_prefix("job-").filter(|id| id.len() == 16);
    let id = id.and_then(|id| u64::from_str_radix(id, 16).ok());
    if files.is_empty() && !is_named && id.is_none() {
        return Ok(None);
    }
    let mut job = SavedJob::new(name, folder.clone());
    job.is_named = is_named;
    if let Some(id) = id {
        job.has_id(id);
    }
    let mut committed = None;
    if is_named {
        match NamedJob::open(images, &job.name) {
            Ok(record) => {
                job.has_id(record.id().0);
                job.ranks = Some(record.programs().map(|(ranks, _)| ranks).sum());
                job.programs = record.programs().map(|(_, words)| shown(&words)).collect();
                committed = record.committed();
            }
            Err(why) => job.problem = Some(why),
        }
    }
    let mut checkpoints = BTreeMap::new();
    for file in files {
        let number = file.epoch;
        let file = described(&mut job, file);
        let one = checkpoints
            .entry(number)
            .or_insert_with(|| SavedCheckpoint {
                number,
                kind: SavedKind::ProcessImage,
                complete: false,
                committed: committed.is_some_and(|committed| committed.0 == number),
                files: Vec::new(),
            });
        one.files.push(file);
    }
    job.checkpoints = checkpoints.into_values().collect();
    Ok(Some(job))
}

/// The command line of a program.
fn shown(words: &[std::ffi::OsString]) -> String {
    let words = words.iter().map(|word| quoted(word));
    let words: Vec<String> = words.map(|w| w.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// What the header of an image says; it may tell id and size of the job.
fn described(job: &mut SavedJob, file: ListedImage) -> SavedFile {
    let mut saved = SavedFile::new(file.rank, file.path, file.bytes, file.written);
    saved.whole = file.is_whole;
    if !file.is_whole {
        return saved;
    }
    match image_check::summary(&saved.path) {
        Ok(summary) => {
            saved.earlier_files = summary.bases;
            saved.build = Some(summary.build).filter(|build| !build.is_empty());
            job.ranks.get_or_insert(summary.identity.size);
            if job.number.is_none() {
                job.has_id(summary.identity.job);
            }
        }
        Err(why) => saved.problem = Some(why.to_string()),
    }
    saved
}

/// Adds a file of registered regions to its job, which may have process images, too.
fn add_regions(jobs: &mut Vec<SavedJob>, images: &Path, tag: &regions::Tag, file: SavedFile) {
    let at = jobs.iter().position(|job| job.number == Some(tag.job));
    let at = at.unwrap_or_else(|| {
        let mut job = SavedJob::new(
            format!("job-{:016x}", tag.job),
            ImageFolder::new(images, tag.job, None).that_stays(),
        );
        job.has_id(tag.job);
        jobs.push(job);
        jobs.len() - 1
    });
    let job = &mut jobs[at];
    job.ranks.get_or_insert(tag.size);
    let kind = SavedKind::Regions;
    let same = |one: &SavedCheckpoint| (one.kind, one.number) == (kind, tag.epoch);
    match job.checkpoints.iter_mut().find(|one| same(one)) {
        Some(one) => one.files.push(file),
        None => job.checkpoints.push(SavedCheckpoint {
            number: tag.epoch,
            kind,
            complete: false,
            committed: false,
            files: vec![file],
        }),
    }
}
