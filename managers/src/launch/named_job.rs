//! A job with a name (`--job-name`) can be restarted after all of its processes have ended
//! (`--restart`). Its folder below that of `--images` holds the ranks' images and one record: what
//! was launched, and the last two checkpoints that were committed. If the newer one is damaged, the
//! job continues from the one before.

use crate::launch::determinants_file;
use crate::launch::launch_plan::{self as plan, LaunchPlan};
use crate::launch::machines::quoted;
use crate::launch::shown_output;
use nix::sys::statvfs::statvfs;
use rejoin_channel_table::{Epoch, Generation, JobId, Rank};
use rejoin_ckpt::store::ImageFolder;
use rejoin_managers_host::error::system_text;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;

/// The format of the record. Another one is refused.
const FORMAT: u32 = 2;
/// The record's file.
const RECORD: &str = "job.json";
/// Longest name.
const LONGEST: usize = 64;
/// Most bytes of a record.
const RECORD_LIMIT: u64 = 16 << 20;

/// One program of the job, for the user to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Program {
    ranks: u32,
    command: Vec<String>,
}

/// The record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct JobRecord {
    format: u32,
    job: u64,
    size: u32,
    programs: Vec<Program>,
    stdin: Option<u32>,
    /// For each rank its recovery group, if messages are logged.
    log_groups: Vec<u32>,
    /// The last generation that the ranks have run in.
    generation: u32,
    /// The last checkpoint that was committed, if there is one.
    checkpoint: Option<u32>,
    /// The one before, if its files are kept, too.
    #[serde(default)]
    before: Option<u32>,
}

/// A named job: its folder and its record.
#[derive(Debug, Clone)]
pub struct NamedJob {
    name: String,
    folder: ImageFolder,
    record: JobRecord,
    /// The last checkpoint that was not taken.
    passed: Option<u32>,
    /// The record in the folder is an earlier one, because this one could not be written.
    is_stale: bool,
}

/// Whether a job can have this name: it is that of a folder.
///
/// # Errors
/// What a name may be, for the user.
pub fn check_name(name: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fine = (1..=LONGEST).contains(&name.len()) && name.chars().all(allowed);
    // Jobs without a name have folders that begin so.
    if fine && !name.starts_with('.') && !name.starts_with("job-") {
        return Ok(name.to_owned());
    }
    Err(format!(
        "up to {LONGEST} letters, digits, '-', '_' and '.' are needed, which begin neither with '.' nor with 'job-'"
    ))
}

/// The record of the job in this folder.
#[must_use]
pub fn record_path(folder: &Path) -> PathBuf {
    folder.join(RECORD)
}

/// A name for a job to which the user has given none: that of its first program, and its number.
#[must_use]
pub fn own_name(programs: &[plan::Program], id: JobId) -> String {
    let first = programs.first().and_then(|program| program.argv.first());
    let path = first.map_or(Path::new(""), |word| Path::new(OsStr::from_bytes(word)));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = name.chars().filter(char::is_ascii_alphanumeric);
    let plain: String = plain.take(LONGEST / 2).collect();
    let number = id.0 as u32;
    match plain.as_str() {
        "" | "job" => format!("unnamed-{number:08x}"),
        plain => format!("{plain}-{number:08x}"),
    }
}

/// Whether the files of two checkpoints are kept. What logs hold begins at the newer one, so a job
/// that logs messages has no use for the other.
#[must_use]
pub fn keeps_two(plan: &LaunchPlan) -> bool {
    plan.name.is_some() && plan.options.recovery.log().is_none()
}

impl NamedJob {
    /// Of a plan that has a name, and that begins in this generation. `before`: the checkpoint
    /// before the one from which it begins.
    #[must_use]
    pub fn of(
        plan: &LaunchPlan,
        generation: Generation,
        before: Option<Epoch>,
    ) -> Option<NamedJob> {
        let (name, images) = (plan.name.clone()?, &plan.images.as_ref()?.folder);
        let log = plan.options.recovery.log();
        let count = |program: usize| {
            plan.ranks
                .iter()
                .filter(|r| r.1 as usize == program)
                .count()
        };
        let programs = plan.programs.iter().enumerate();
        let programs = programs.map(|(number, program)| Program {
            ranks: count(number) as u32,
            command: program.argv.iter().map(|word| text(word)).collect(),
        });
        Some(NamedJob {
            folder: ImageFolder::new(Path::new(images), plan.job.0, Some(&name)),
            name,
            passed: None,
            is_stale: false,
            record: JobRecord {
                format: FORMAT,
                job: plan.job.0,
                size: plan.size,
                programs: programs.collect(),
                stdin: plan.stdin.map(|rank| rank.0),
                log_groups: log.map(|log| log.groups.clone()).unwrap_or_default(),
                generation: generation.0,
                checkpoint: plan.from.map(|epoch| epoch.0),
                before: before.map(|epoch| epoch.0),
            },
        })
    }

    /// Whether a job of this name has left a record below the folder of images.
    #[must_use]
    pub fn has_record(images: &Path, name: &str) -> bool {
        images.join(name).join(RECORD).is_file()
    }

    /// The record of a job that has ended, below the folder of images.
    ///
    /// # Errors
    /// For the user: there is none, or it can't be used.
    pub fn open(images: &Path, name: &str) -> Result<NamedJob, String> {
        let shown = images.display();
        let mut folder = ImageFolder::new(images, 0, Some(name));
        let path = folder.path().join(RECORD);
        let bytes = read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("{shown} holds no job of this name"),
            _ => format!("{}: {}", path.display(), system_text(&error)),
        })?;
        let torn = |why: String| format!("{} is torn or altered: {why}", path.display());
        let record: JobRecord = serde_json::from_slice(&bytes).map_err(|e| torn(e.to_string()))?;
        if record.format != FORMAT {
            let other = record.format;
            return Err(format!(
                "{} has format {other}, and {FORMAT} is known here",
                path.display()
            ));
        }
        let ranks = record
            .programs
            .iter()
            .try_fold(0u32, |all, p| all.checked_add(p.ranks));
        let stdin_is_one = record.stdin.is_none_or(|rank| rank < record.size);
        let groups = record.log_groups.len();
        let groups_fit = groups == 0 || groups == record.size as usize;
        if ranks != Some(record.size) || record.size == 0 || !stdin_is_one || !groups_fit {
            return Err(torn("its ranks do not fit together".into()));
        }
        folder = ImageFolder::new(images, record.job, Some(name));
        Ok(NamedJob {
            name: name.to_owned(),
            folder,
            record,
            passed: None,
            is_stale: false,
        })
    }

    /// The checkpoint to continue from: the last one that was committed, or the newest of which
    /// there is an image of every rank.
    ///
    /// # Errors
    /// There is none, for the user.
    pub fn checkpoint(&self) -> Result<Epoch, String> {
        let folder = self.folder.path().display();
        let size = self.record.size;
        let whole = self.folder.complete_epochs(size);
        let whole = whole.map_err(|error| format!("{folder}: {}", system_text(&error)))?;
        let committed = self.record.checkpoint.filter(|epoch| whole.contains(epoch));
        let newest = committed.or(whole.last().copied());
        newest.map(Epoch).ok_or_else(|| {
            format!("{folder} holds no checkpoint with an image of each of the {size} ranks")
        })
    }

    /// The checkpoint that was committed before the one to continue from, if there is an image of
    /// every rank.
    #[must_use]
    pub fn before(&self, from: Epoch) -> Option<Epoch> {
        let before = self.record.before.filter(|before| *before < from.0)?;
        let whole = self.folder.complete_epochs(self.record.size).ok()?;
        whole.contains(&before).then_some(Epoch(before))
    }

    /// The last checkpoint that was committed.
    #[must_use]
    pub fn committed(&self) -> Option<Epoch> {
        self.record.checkpoint.map(Epoch)
    }

    /// The job's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The images in the folder.
    #[must_use]
    pub fn images(&self) -> &ImageFolder {
        &self.folder
    }

    /// The folder with the record and the images.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The job's id, which its images name.
    #[must_use]
    pub fn id(&self) -> JobId {
        JobId(self.record.job)
    }

    /// The generation after the last one of the job.
    #[must_use]
    pub fn next_generation(&self) -> Generation {
        Generation(self.record.generation.saturating_add(1))
    }

    /// The highest number of a checkpoint that the job may have requested. A host that was cut off
    /// may still write files with such numbers.
    #[must_use]
    pub fn requested(&self) -> Epoch {
        let highest = self.folder.highest_epoch().ok().flatten();
        Epoch(highest.max(self.record.checkpoint).unwrap_or(0))
    }

    /// The programs, with their numbers of ranks.
    pub fn programs(&self) -> impl Iterator<Item = (u32, Vec<OsString>)> {
        self.record.programs.iter().map(|program| {
            let words = program.command.iter().map(OsString::from);
            (program.ranks, words.collect())
        })
    }

    /// The rank that reads standard input.
    #[must_use]
    pub fn stdin(&self) -> Option<Rank> {
        self.record.stdin.map(Rank)
    }

    /// For each rank the number of its recovery group; empty: the job logs no messages.
    #[must_use]
    pub fn log_groups(&self) -> &[u32] {
        &self.record.log_groups
    }

    /// The job begins. `from`: the checkpoint that it continues from.
    ///
    /// # Errors
    /// Another job has the name, or the record can't be written; for the user.
    pub fn begin(&self, from: Option<Epoch>) -> Result<(), String> {
        let folder = self.folder.path().display().to_string();
        let said = |error: io::Error| format!("{folder}: {}", system_text(&error));
        self.folder.make().map_err(said)?;
        if from.is_none() && self.folder.path().join(RECORD).exists() {
            let name = &self.name;
            return Err(format!(
                "--job-name {name}: {folder} holds a job of this name; continue it with \
                 --restart={name}, or remove the folder"
            ));
        }
        let kept = from.map(|epoch| epoch.0).into_iter();
        let kept: Vec<u32> = kept.chain(self.record.before).collect();
        self.folder.clear(&kept).map_err(said)?;
        self.store().map_err(said)
    }

    /// A checkpoint was committed, or ranks were rolled back, in this generation.
    ///
    /// # Errors
    /// The record can't be written, which it could before; for the user.
    pub fn note(&mut self, generation: Generation, committed: Option<Epoch>) -> Result<(), String> {
        self.record.generation = generation.0;
        let last = self.record.checkpoint;
        self.record.checkpoint = committed.map(|e| e.0).or(last);
        let is_later = self.record.checkpoint > last;
        if is_later {
            // A rank may have had state that no rollback takes back when one was not taken.
            let is_safe = self.record.log_groups.is_empty() && self.passed <= last;
            self.record.before = last.filter(|_| is_safe);
        }
        let kept = self.keep();
        if is_later {
            self.remove_earlier();
        }
        kept
    }

    /// This checkpoint was not taken: the job does not go back behind it.
    ///
    /// # Errors
    /// The errors of [`NamedJob::note`].
    pub fn passes(&mut self, epoch: Epoch) -> Result<(), String> {
        self.passed = self.passed.max(Some(epoch.0));
        self.keep_one()
    }

    /// Files of a checkpoint could not be written: those of the one before make room.
    ///
    /// # Errors
    /// The errors of [`NamedJob::note`].
    pub fn makes_room(&mut self) -> Result<(), String> {
        self.keep_one()
    }

    fn keep_one(&mut self) -> Result<(), String> {
        if self.record.before.take().is_none() {
            return Ok(());
        }
        let kept = self.keep();
        self.remove_earlier();
        kept
    }

    /// The last checkpoint is damaged, and the job continues from the one before.
    ///
    /// # Errors
    /// The errors of [`NamedJob::note`].
    pub fn falls_back(&mut self, before: Epoch) -> Result<(), String> {
        (self.record.checkpoint, self.record.before) = (Some(before.0), None);
        self.keep()
    }

    fn keep(&mut self) -> Result<(), String> {
        let stored = self.store().map_err(|error| {
            let why = system_text(&error);
            format!("{}: {why}", self.folder.path().display())
        });
        let was_stale = std::mem::replace(&mut self.is_stale, stored.is_err());
        stored.or_else(|why| if was_stale { Ok(()) } else { Err(why) })
    }

    /// Removes the files of checkpoints that nobody needs, in the background: those before the last
    /// two, and the earlier of these two if there is no room for the files of another checkpoint.
    fn remove_earlier(&self) {
        // Groups that log messages may need earlier ones.
        let newest = self
            .record
            .checkpoint
            .filter(|_| self.record.log_groups.is_empty());
        let Some(newest) = newest else {
            return;
        };
        let (folder, before) = (self.folder.clone(), self.record.before);
        let removed = thread::Builder::new().spawn(move || {
            let fits = has_room(&folder, newest).unwrap_or(true);
            let first = before.filter(|_| fits).unwrap_or(newest);
            if let Err(error) = folder.remove_before(first) {
                tracing::warn!(%error, "files of earlier checkpoints");
            }
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "files of earlier checkpoints");
        }
    }

    /// The job has ended badly. Returns how to continue it, or why that can't be done, for the
    /// user. A job without a checkpoint in files leaves nothing behind, so its name is free again.
    #[must_use]
    pub fn ended_badly(&self) -> String {
        let name = &self.name;
        let images = self.folder.path().parent().unwrap_or(Path::new("."));
        let left = match NamedJob::open(images, name) {
            Ok(left) => left,
            Err(why) => return format!("the job can't be continued: {why}"),
        };
        match left.checkpoint() {
            Ok(Epoch(number)) => {
                let images = quoted(images.as_os_str());
                let images = images.to_string_lossy();
                format!(
                    "to continue the job from checkpoint {number}, type: \
                     mpirun --images {images} --restart={name}"
                )
            }
            Err(why) => {
                let size = self.record.size;
                if left
                    .folder
                    .complete_epochs(size)
                    .is_ok_and(|all| all.is_empty())
                {
                    left.remove();
                }
                format!("the job can't be continued: {why}")
            }
        }
    }

    /// The job has ended well: removes everything.
    pub fn remove(&self) {
        // What can't be removed does no harm: without a record there is no job.
        let _ = fs::remove_file(self.folder.path().join(RECORD));
        shown_output::remove(self.folder.path());
        determinants_file::remove(self.folder.path());
        let _ = self.folder.clear(&[]);
        self.folder.remove_if_empty();
    }

    fn store(&self) -> io::Result<()> {
        let path = self.folder.path().join(RECORD);
        let partial = path.with_extension("partial");
        let mut file = File::create(&partial)?;
        file.write_all(&serde_json::to_vec(&self.record)?)?;
        file.sync_all()?;
        fs::rename(&partial, &path)
    }
}

/// Whether there is room for the files of one more checkpoint of the size of this one, and a
/// quarter.
fn has_room(folder: &ImageFolder, epoch: u32) -> io::Result<bool> {
    let files = folder.files()?.into_iter();
    let bytes: u64 = files
        .filter(|file| file.epoch == epoch)
        .map(|file| file.bytes)
        .sum();
    let system = statvfs(folder.path())?;
    let free = system.blocks_available() * system.fragment_size();
    Ok(free >= bytes.saturating_add(bytes / 4))
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

fn read(path: &PathBuf) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(RECORD_LIMIT)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_ckpt::ImageNumber;
    use rejoin_ckpt::store::BaseFiles;
    use std::time::{Duration, Instant};

    #[test]
    fn a_name_is_that_of_a_folder() {
        for fine in ["a", "night-run_3.2", &"x".repeat(LONGEST)] {
            assert_eq!(check_name(fine).as_deref(), Ok(fine));
        }
        for wrong in ["", ".", "..", "a/b", "job-7", "ä", &"x".repeat(LONGEST + 1)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_job_without_a_name_gets_one_that_is_allowed() {
        for argv in ["./a.out", "/usr/bin/job", "", "../..", "ä"] {
            let program = plan::Program {
                argv: vec![argv.as_bytes().to_vec().into()],
                set: Vec::new(),
                unset: Vec::new(),
                wdir: None,
            };
            let name = own_name(&[program], JobId(7));
            assert_eq!(check_name(&name), Ok(name.clone()), "{argv}");
        }
    }

    /// Images of three ranks at these checkpoints, of a job that has committed another one.
    fn left_behind(test: &str, epochs: &[u32]) -> (PathBuf, NamedJob) {
        let images = std::env::temp_dir().join(format!("rejoin {test}-{}", std::process::id()));
        let folder = ImageFolder::new(&images, 7, Some("night"));
        folder.make().unwrap();
        for (epoch, rank) in epochs
            .iter()
            .flat_map(|e| (0..3).map(move |rank| (*e, rank)))
        {
            let image = folder
                .begin(
                    rank,
                    ImageNumber::of_checkpoint(epoch),
                    BaseFiles::default(),
                )
                .unwrap();
            image.complete(b"").unwrap();
        }
        let record = JobRecord {
            format: FORMAT,
            job: 7,
            size: 3,
            programs: vec![Program {
                ranks: 3,
                command: vec!["./app".into()],
            }],
            stdin: None,
            log_groups: Vec::new(),
            generation: 0,
            checkpoint: Some(9),
            before: None,
        };
        let name = "night".to_owned();
        let job = NamedJob {
            name,
            folder,
            record,
            passed: None,
            is_stale: false,
        };
        job.store().unwrap();
        (images, job)
    }

    #[test]
    fn a_job_that_ended_badly_says_from_where_it_can_be_continued() {
        let (images, job) = left_behind("continued", &[4, 6]);
        let shown = images.display();
        assert_eq!(
            job.ended_badly(),
            format!(
                "to continue the job from checkpoint 6, type: \
                 mpirun --images '{shown}' --restart=night"
            )
        );
        assert!(NamedJob::has_record(&images, "night"));
        fs::remove_dir_all(images).unwrap();
    }

    /// Waits for the thread that removes files.
    fn epochs(job: &NamedJob, wanted: &[u32]) {
        let begun = Instant::now();
        while job.folder.complete_epochs(3).unwrap() != wanted {
            assert!(begun.elapsed() < Duration::from_secs(60), "{wanted:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn files_of_two_checkpoints_are_kept_unless_one_between_them_was_not_taken() {
        let (images, mut job) = left_behind("two", &[4, 6, 7, 8, 9]);
        let note = |job: &mut NamedJob, epoch| job.note(Generation(0), Some(Epoch(epoch))).unwrap();
        job.record.checkpoint = Some(4);
        note(&mut job, 6);
        // The same again, after a restart of central.
        note(&mut job, 6);
        epochs(&job, &[4, 6, 7, 8, 9]);
        note(&mut job, 7);
        epochs(&job, &[6, 7, 8, 9]);
        let left = NamedJob::open(&images, "night").unwrap();
        assert_eq!(left.checkpoint(), Ok(Epoch(7)));
        assert_eq!(left.before(Epoch(7)), Some(Epoch(6)));
        // Nothing goes back behind one that was not taken, also if an earlier one is committed
        // after that.
        job.passes(Epoch(9)).unwrap();
        epochs(&job, &[7, 8, 9]);
        note(&mut job, 8);
        assert_eq!(job.before(Epoch(8)), None);
        note(&mut job, 9);
        epochs(&job, &[9]);
        assert_eq!(job.before(Epoch(9)), None);
        fs::remove_dir_all(&images).unwrap();
        let (images, mut job) = left_behind("two more", &[8, 9]);
        job.record.checkpoint = Some(8);
        note(&mut job, 9);
        assert_eq!(job.before(Epoch(9)), Some(Epoch(8)));
        // A restart from the newest keeps both.
        job.begin(Some(Epoch(9))).unwrap();
        epochs(&job, &[8, 9]);
        fs::remove_dir_all(images).unwrap();
    }

    #[test]
    fn a_job_without_a_checkpoint_in_files_leaves_its_name_to_others() {
        let (images, job) = left_behind("abandoned", &[]);
        let said = job.ended_badly();
        let why = "holds no checkpoint with an image of each of the 3 ranks";
        assert!(
            said.starts_with("the job can't be continued: ") && said.ends_with(why),
            "{said}"
        );
        assert!(!images.join("night").exists());
        fs::remove_dir(images).unwrap();
    }
}
