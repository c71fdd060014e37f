use super::saved_job::{SavedCheckpoint, SavedFile, SavedJob, SavedKind};
use super::{Running, remove, survey, verify};
use rejoin_ckpt::store::{BaseFiles, ImageFolder};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A folder of images that is removed with the value.
struct Images(PathBuf);

impl Images {
    fn new(test: &str) -> Images {
        let path = std::env::temp_dir().join(format!("rejoin-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Images(path)
    }

    /// A job of two ranks with files of these checkpoints, all complete.
    fn job(&self, name: &str, epochs: &[u32]) -> SavedJob {
        let folder = ImageFolder::new(&self.0, 7, Some(name));
        let mut job = SavedJob::new(name.to_owned(), folder.clone());
        job.ranks = Some(2);
        for &number in epochs {
            let file = |rank| {
                let number = rejoin_ckpt::ImageNumber::of_checkpoint(number);
                let image = folder.begin(rank, number, BaseFiles::default());
                let image = image.expect("a file").complete(b"").expect("a name");
                SavedFile::new(rank, image.path().to_owned(), 10, SystemTime::UNIX_EPOCH)
            };
            job.checkpoints.push(SavedCheckpoint {
                number,
                kind: SavedKind::ProcessImage,
                complete: true,
                committed: false,
                files: vec![file(0), file(1)],
            });
        }
        job
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    names
}

#[test]
fn the_newest_complete_checkpoints_stay_and_those_before_go() {
    let images = Images::new("keep");
    let mut job = images.job("night", &[2, 4, 6, 8]);
    job.checkpoints[3].complete = false;
    let done = remove(&images.0, &mut job, Some(1)).expect("removed");
    assert_eq!((done.files, done.bytes, done.kept), (4, 40, vec![6]));
    let left = names(&images.0.join("night"));
    assert_eq!(
        left,
        [
            "rank-0.epoch-6.image",
            "rank-0.epoch-6.note",
            "rank-0.epoch-8.image",
            "rank-0.epoch-8.note",
            "rank-1.epoch-6.image",
            "rank-1.epoch-6.note",
            "rank-1.epoch-8.image",
            "rank-1.epoch-8.note",
        ]
    );
}

#[test]
fn the_committed_checkpoint_stays_however_old_it_is() {
    let images = Images::new("committed");
    let mut job = images.job("night", &[2, 4, 6]);
    job.checkpoints[1].committed = true;
    let done = remove(&images.0, &mut job, Some(1)).expect("removed");
    assert_eq!((done.files, done.kept), (2, vec![4, 6]));
}

#[test]
fn nothing_goes_if_no_checkpoint_is_complete() {
    let images = Images::new("incomplete");
    let mut job = images.job("night", &[2, 4]);
    job.checkpoints
        .iter_mut()
        .for_each(|one| one.complete = false);
    let done = remove(&images.0, &mut job, Some(1)).expect("removed");
    assert_eq!((done.files, done.kept.len()), (0, 0));
    assert_eq!(names(&images.0.join("night")).len(), 8);
}

#[test]
fn a_whole_job_goes_with_its_folder_but_not_while_it_runs() {
    let _alone = crate::alone();
    let images = Images::new("running");
    let mut job = images.job("night", &[2]);
    let host = nix::unistd::gethostname().expect("a name");
    let claim = ImageFolder::new(&images.0, 7, Some("night")).claim(&host.to_string_lossy());
    let why = remove(&images.0, &mut job, None).expect_err("it runs");
    assert!(why.starts_with("job night runs on host "), "{why}");
    assert_eq!(job.running, Running::Yes);
    drop(claim.expect("a claim"));
    let elsewhere = images.0.join("night/manager-elsewhere.0.lock");
    std::fs::write(&elsewhere, "").expect("a lock");
    let why = remove(&images.0, &mut job, None).expect_err("it may run");
    assert!(
        why.contains("a manager of host elsewhere has left its lock"),
        "{why}"
    );
    std::fs::remove_file(elsewhere).expect("removed");
    let done = remove(&images.0, &mut job, None).expect("removed");
    assert_eq!(done.files, 2);
    assert!(names(&images.0).is_empty());
}

#[test]
fn files_that_are_no_images_are_listed_and_named_as_damaged() {
    let images = Images::new("damaged");
    images.job("job-00000000000000ff", &[3]);
    std::fs::create_dir(images.0.join("of the user")).expect("a folder");
    let stray = "rank-000001-epoch-0000000002.rejoin";
    std::fs::write(images.0.join(stray), "no regions").expect("a file");
    let found = survey(&images.0).expect("the folder");
    let [job] = found.jobs.as_slice() else {
        panic!("{:?}", found.jobs);
    };
    assert_eq!(job.id.as_deref(), Some("00000000000000ff"));
    assert_eq!((job.ranks, job.running), (None, Running::No));
    let one = &job.checkpoints[0];
    assert_eq!((one.number, one.ranks(), one.complete), (3, 2, false));
    let result = verify(&found);
    let damaged: Vec<_> = result
        .damages
        .iter()
        .map(|one| names_of(&one.path))
        .collect();
    assert_eq!(
        damaged,
        ["rank-0.epoch-3.image", "rank-1.epoch-3.image", stray]
    );
}

fn names_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[test]
fn a_job_that_stores_registered_memory_runs_while_its_mpirun_does() {
    let images = Images::new("claimed");
    let mut job = images.job("night", &[2]);
    job.has_id(7);
    let claim = rejoin_ckpt::regions::JobClaim::new(&images.0, 7).expect("a claim");
    let why = remove(&images.0, &mut job, None).expect_err("it runs");
    assert!(why.starts_with("job night runs on host "), "{why}");
    drop(claim);
    let done = remove(&images.0, &mut job, None).expect("removed");
    assert_eq!(done.files, 2);
    assert!(names(&images.0).is_empty(), "no lock is left");
}
