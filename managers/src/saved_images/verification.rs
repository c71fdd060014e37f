//! Checks files of images as those who restore from them do.

use super::saved_job::{Running, SavedCheckpoint, SavedFile, SavedJob, SavedKind};
use super::survey::Survey;
use crate::local::ImageNote;
use rejoin_channel_table::{Epoch, JobId, Rank};
use rejoin_ckpt::ImageNumber;
use rejoin_ckpt::image::image_check;
use rejoin_ckpt::regions;
use rejoin_ckpt::store::ImageFolder;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Something from which a job can't be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The file, or the folder that lacks one.
    pub path: PathBuf,
    /// What is wrong.
    pub why: String,
}

/// The result of a check.
#[derive(Debug, Default, Serialize)]
pub struct Verification {
    /// Files that were checked.
    pub files: u64,
    /// Lengths of these files together, in bytes.
    pub bytes: u64,
    /// What was found.
    pub damages: Vec<Damage>,
    /// Files that ranks had mapped and that are not the same on this machine: the ranks can't be
    /// restored here.
    pub changed_here: BTreeSet<PathBuf>,
}

/// Checks all files of a folder.
#[must_use]
pub fn verify(survey: &Survey) -> Verification {
    let mut result = Verification::default();
    for job in &survey.jobs {
        result.check_job(job);
        for (one, file) in job.checkpoints.iter().flat_map(|one| {
            let whole = one.files.iter().filter(|file| file.whole);
            whole.map(move |file| (one, file))
        }) {
            result.check_file(job, one, file);
        }
    }
    for file in &survey.strays {
        let why = file.problem.clone().unwrap_or_default();
        result.found(file.path.clone(), why);
    }
    result
}

/// Why a rank can't come back from its image of this checkpoint, of a job that is restarted.
/// `None`: the image is whole.
#[must_use]
pub fn damage_of(folder: &ImageFolder, job: JobId, rank: Rank, epoch: Epoch) -> Option<String> {
    let number = ImageNumber::of_checkpoint(epoch.0);
    let checked = match folder.find(rank.0, number) {
        Ok(image) => {
            let checked = image_check::check(image.path(), job.0, rank.0, number);
            checked.map(drop).map_err(|why| why.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    let checked = checked.and_then(|()| check_note(folder, true, rank.0, number));
    checked.err()
}

impl Verification {
    fn found(&mut self, path: PathBuf, why: String) {
        self.damages.push(Damage { path, why });
    }

    /// The record, and that the checkpoint to continue from is complete.
    fn check_job(&mut self, job: &SavedJob) {
        let folder = job.folder.path().to_owned();
        if let Some(why) = &job.problem {
            self.found(folder.clone(), why.clone());
        }
        // A job that runs changes its files meanwhile.
        if job.running == Running::Yes {
            return;
        }
        for one in job
            .checkpoints
            .iter()
            .filter(|one| one.committed && !one.complete)
        {
            let (number, ranks) = (one.number, one.ranks());
            let all = job.ranks.unwrap_or_default();
            let why = format!(
                "checkpoint {number} is committed, and has images of {ranks} of {all} ranks"
            );
            self.found(folder.clone(), why);
        }
    }

    fn check_file(&mut self, job: &SavedJob, one: &SavedCheckpoint, file: &SavedFile) {
        let checked = match one.kind {
            SavedKind::ProcessImage => self.check_image(job, one.number, file),
            SavedKind::Regions => regions::check(&file.path)
                .map(|_| ())
                .map_err(|why| why.to_string()),
        };
        let is_gone = || {
            let data = file.path.symlink_metadata();
            data.is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        match checked {
            // A job that runs has removed it.
            Err(_) if job.running == Running::Yes && is_gone() => return,
            Err(why) => self.found(file.path.clone(), why),
            Ok(()) => {}
        }
        self.files += 1;
        self.bytes += file.bytes;
    }

    fn check_image(&mut self, job: &SavedJob, epoch: u32, file: &SavedFile) -> Result<(), String> {
        let id = job.number.ok_or("no file tells the id of its job")?;
        let number = ImageNumber::of_checkpoint(epoch);
        let changed = image_check::check(&file.path, id, file.rank, number);
        self.changed_here
            .extend(changed.map_err(|why| why.to_string())?);
        check_note(&job.folder, job.is_named, file.rank, number)
    }
}

/// The note beside an image, without which its rank can't come back in a restarted job.
fn check_note(
    folder: &ImageFolder,
    needed: bool,
    rank: u32,
    number: ImageNumber,
) -> Result<(), String> {
    let said = |why: String| format!("its note: {why}");
    // The folder is one whose files stay, so this removes nothing.
    let image = folder.find(rank, number).map_err(|e| said(e.to_string()))?;
    match image.note() {
        Ok(note) => ImageNote::decode(&note).map(|_| ()).map_err(said),
        Err(error) if error.kind() == ErrorKind::NotFound && !needed => Ok(()),
        Err(error) => Err(said(error.to_string())),
    }
}
