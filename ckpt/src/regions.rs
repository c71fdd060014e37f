//! Registered memory on disk: for programs that know their state.
//!
//! A program registers the ranges of its state and stores them at a call. A program that is started
//! again registers the same ranges and loads the stored state. It may run on any machine with the
//! same byte order and data layout. There is one file per rank and epoch, whole or not at all:
//! written beside, synced, renamed, the folder synced. Loading checks the whole file before it
//! touches the program's memory. It refuses a file that is torn, altered or another's, with the
//! reason, and tries the next older one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

mod format;
mod job_claim;
mod load;

pub use format::{REGION_LIMIT, Tag};
pub use job_claim::{JobClaim, is_claimed};
pub use load::{Loaded, RefusedFile, Wanted, Why};

use format::{CHUNK, FileHead, Sums};

/// Errors, apart from the refusal of single files.
#[derive(Debug, thiserror::Error)]
pub enum RegionsError {
    /// A number that is registered already.
    #[error("region {0} is registered already")]
    Registered(u32),
    /// Memory that is registered already, at least in part, under another number.
    #[error("the memory of region {id} overlaps that of region {other}")]
    Overlaps {
        /// The number that was to be registered.
        id: u32,
        /// The number under which the memory is registered.
        other: u32,
    },
    /// More than a file can name.
    #[error("no more than {REGION_LIMIT} regions can be registered")]
    TooMany,
    /// A build's name that does not fit.
    #[error("the name of the library's build is longer than 255 bytes")]
    LongBuild,
    /// The folder holds the registered memory of another job that lives.
    #[error("another job stores its registered memory in {0}: name another folder")]
    Taken(PathBuf),
    /// The system refused.
    #[error("{action} {path}: {error}")]
    System {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why the system refused it.
        #[source]
        error: io::Error,
    },
    /// No file can be used.
    #[error("no stored state of rank {rank} in {folder} can be used{}", load::reasons(.refused))]
    Nothing {
        /// The rank.
        rank: u32,
        /// Where it was looked for.
        folder: PathBuf,
        /// Each file that was tried, newest first.
        refused: Vec<RefusedFile>,
    },
}

impl RegionsError {
    fn system(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::System {
            action,
            path,
            error,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Region {
    id: u32,
    address: *mut u8,
    length: usize,
}

/// The registered memory of a process.
///
/// ```
/// use rejoin_ckpt::regions::{Regions, Tag, Wanted};
///
/// let folder = std::env::temp_dir().join(format!("rejoin-doc-{}", std::process::id()));
/// let mut grid = vec![1.5_f64; 1000];
/// let bytes = size_of_val(&grid[..]);
/// let mut regions = Regions::new();
/// // SAFETY: `grid` outlives the registration, and only this thread uses it.
/// unsafe { regions.register(1, grid.as_mut_ptr().cast(), bytes)? };
///
/// let tag = Tag {
///     job: 7,
///     rank: 0,
///     size: 1,
///     generation: 0,
///     incarnation: 0,
///     epoch: 1,
///     build: "doc".into(),
/// };
/// regions.store(&folder, &tag)?;
/// grid.fill(0.0);
///
/// let wanted = Wanted { job: Some(7), rank: 0, size: 1, epoch: None };
/// let loaded = regions.load(&folder, &wanted)?;
/// assert_eq!((loaded.tag.epoch, grid[999]), (1, 1.5));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Regions {
    list: Vec<Region>,
}

/// The result of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRegions {
    /// The file.
    pub path: PathBuf,
    /// Length of the file in bytes.
    pub bytes: u64,
}

impl Regions {
    /// No memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers `length` bytes at `address` under a number by which they are found again.
    ///
    /// # Errors
    /// [`RegionsError::Registered`], [`RegionsError::Overlaps`], [`RegionsError::TooMany`].
    ///
    /// # Safety
    /// The memory stays valid for reads and writes until it is unregistered. While
    /// [`Regions::store`] and [`Regions::load`] run, no other code uses it.
    pub unsafe fn register(
        &mut self,
        id: u32,
        address: *mut u8,
        length: usize,
    ) -> Result<(), RegionsError> {
        if self.list.iter().any(|r| r.id == id) {
            return Err(RegionsError::Registered(id));
        }
        let region = Region {
            id,
            address,
            length,
        };
        if let Some(Region { id: other, .. }) = self.list.iter().find(|r| r.overlaps(&region)) {
            return Err(RegionsError::Overlaps { id, other: *other });
        }
        if self.list.len() >= REGION_LIMIT {
            return Err(RegionsError::TooMany);
        }
        self.list.push(region);
        self.list.sort_by_key(|r| r.id);
        Ok(())
    }

    /// Forgets a range; `false` when none has the number.
    pub fn unregister(&mut self, id: u32) -> bool {
        let before = self.list.len();
        self.list.retain(|r| r.id != id);
        self.list.len() < before
    }

    /// Whether nothing is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The tag of the newest file up to epoch `limit` that [`Regions::load`] would accept, and the
    /// newer files that it would refuse. Does not change the program's memory.
    #[must_use]
    pub fn newest(
        &self,
        folder: &Path,
        wanted: &Wanted,
        limit: u32,
    ) -> (Option<Tag>, Vec<RefusedFile>) {
        let mut refused = Vec::new();
        let all = stored(folder, wanted.rank).into_iter().rev();
        for (epoch, path) in all.filter(|(epoch, _)| *epoch <= limit) {
            match load::check(&path, epoch, wanted, &self.table()) {
                Ok(checked) => return (Some(checked.tag), refused),
                Err(why) => refused.push(RefusedFile { path, why }),
            }
        }
        (None, refused)
    }

    /// All of it, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.list.iter().map(|r| r.length as u64).sum()
    }

    /// Writes all registered memory to a new file in `folder`, which is made if need be. Returns
    /// when the file would survive a power cut. Older files stay: see [`prune`].
    ///
    /// # Errors
    /// [`RegionsError::System`]; nothing of the attempt is left then. For rank 0,
    /// [`RegionsError::Taken`].
    pub fn store(&self, folder: &Path, tag: &Tag) -> Result<StoredRegions, RegionsError> {
        let head = FileHead {
            tag: tag.clone(),
            table: self.table(),
        };
        let head = head.encode().ok_or(RegionsError::LongBuild)?;
        fs::create_dir_all(folder).map_err(RegionsError::system("make the folder", folder))?;
        match tag.rank {
            // One rank for all: the job's ranks store together.
            0 => store_alone(folder, tag.job, || self.store_file(folder, tag, &head)),
            _ => self.store_file(folder, tag, &head),
        }
    }

    fn store_file(
        &self,
        folder: &Path,
        tag: &Tag,
        head: &[u8],
    ) -> Result<StoredRegions, RegionsError> {
        let path = folder.join(format::file_name(tag.rank, tag.epoch));
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        let result = self.write(&draft, head).and_then(|bytes| {
            let sync = || File::open(folder)?.sync_all();
            publish(&draft, &path, sync)?;
            Ok(bytes)
        });
        match result {
            Ok(bytes) => Ok(StoredRegions { path, bytes }),
            Err(error) => {
                let _ = fs::remove_file(&draft);
                Err(error)
            }
        }
    }

    fn table(&self) -> Vec<(u32, u64)> {
        self.list.iter().map(|r| (r.id, r.length as u64)).collect()
    }

    fn write(&self, draft: &Path, head: &[u8]) -> Result<u64, RegionsError> {
        let fail = || RegionsError::system("write", draft);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(draft).map_err(fail())?;
        let mut sums = Sums::new(head);
        file.write_all(head).map_err(fail())?;
        for region in &self.list {
            for chunk in region.chunks() {
                // SAFETY: the registered memory is valid, and no other code uses it now.
                let bytes = unsafe { std::slice::from_raw_parts(chunk.0, chunk.1) };
                sums.add(bytes);
                file.write_all(bytes).map_err(fail())?;
            }
        }
        let end = sums.encode();
        file.write_all(&end).map_err(fail())?;
        file.sync_all()
            .map_err(RegionsError::system("sync", draft))?;
        Ok(head.len() as u64 + self.bytes() + end.len() as u64)
    }

    /// Loads the newest file that is whole, undamaged and this rank's, of the wanted epoch if one
    /// is wanted. The same numbers must be registered with the same lengths. The program's memory
    /// is untouched unless a file has passed all checks.
    ///
    /// # Errors
    /// [`RegionsError::Nothing`] with the reasons; [`RegionsError::System`] when a file changes
    /// while it is loaded, and the memory is then undefined.
    pub fn load(&mut self, folder: &Path, wanted: &Wanted) -> Result<Loaded, RegionsError> {
        let mut refused = Vec::new();
        for (epoch, path) in stored(folder, wanted.rank).into_iter().rev() {
            if wanted.epoch.is_some_and(|e| e != epoch) {
                continue;
            }
            match load::check(&path, epoch, wanted, &self.table()) {
                Ok(checked) => {
                    self.fill(&path, &checked)?;
                    return Ok(Loaded {
                        tag: checked.tag,
                        path,
                        refused,
                    });
                }
                Err(why) => refused.push(RefusedFile { path, why }),
            }
        }
        Err(RegionsError::Nothing {
            rank: wanted.rank,
            folder: folder.to_owned(),
            refused,
        })
    }

    /// Reads a checked file into the memory, and checks it again on the way.
    fn fill(&mut self, path: &Path, checked: &load::Checked) -> Result<(), RegionsError> {
        let fail = || RegionsError::system("read", path);
        let mut file = load::open(path).map_err(fail())?;
        file.seek(SeekFrom::Start(checked.data)).map_err(fail())?;
        let mut sums = Sums::new(&checked.head);
        for region in &self.list {
            for chunk in region.chunks() {
                // SAFETY: the registered memory is valid, and no other code uses it now.
                let bytes = unsafe { std::slice::from_raw_parts_mut(chunk.0, chunk.1) };
                file.read_exact(bytes).map_err(fail())?;
                sums.add(bytes);
            }
        }
        if sums.root() != checked.root {
            return Err(fail()(io::Error::other("it changed while it was loaded")));
        }
        Ok(())
    }
}

impl Region {
    fn overlaps(&self, other: &Region) -> bool {
        let of = |r: &Region| (r.address.addr(), r.address.addr().saturating_add(r.length));
        let ((begin, end), (first, last)) = (of(self), of(other));
        begin.max(first) < end.min(last)
    }

    fn chunks(&self) -> impl Iterator<Item = (*mut u8, usize)> + use<> {
        let (address, length) = (self.address, self.length);
        (0..length)
            .step_by(CHUNK)
            .map(move |at| (address.wrapping_add(at), CHUNK.min(length - at)))
    }
}

/// Gives a synced draft its name, and syncs its folder. A file whose name may be lost is removed.
fn publish(
    draft: &Path,
    path: &Path,
    sync: impl FnOnce() -> io::Result<()>,
) -> Result<(), RegionsError> {
    fs::rename(draft, path).map_err(RegionsError::system("rename", draft))?;
    sync().map_err(|error| {
        let _ = fs::remove_file(path);
        RegionsError::system("sync the folder of", path)(error)
    })
}

/// Removes the files of a rank before `committed`, except those of the epochs in `keep`. Also
/// removes drafts that a crash left.
///
/// # Errors
/// When a file cannot be removed.
pub fn prune(folder: &Path, rank: u32, committed: u32, keep: &[u32]) -> Result<(), RegionsError> {
    let old = stored(folder, rank)
        .into_iter()
        .filter(|(epoch, _)| *epoch < committed && !keep.contains(epoch));
    let mut old: Vec<_> = old.map(|(_, path)| path).collect();
    let begin = format::file_name(rank, 0);
    let begin = begin.split("-epoch").next().unwrap_or_default().to_owned() + "-epoch";
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&begin) && name.ends_with(".draft") {
            old.push(entry.path());
        }
    }
    old.iter()
        .try_for_each(|path| fs::remove_file(path).map_err(RegionsError::system("remove", path)))
}

/// The highest epoch that any rank has stored.
#[must_use]
pub fn highest(folder: &Path) -> Option<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let epoch = |entry: fs::DirEntry| Some(format::read_name(entry.file_name().to_str()?)?.1);
    entries.filter_map(epoch).max()
}

/// The stored epochs of a rank, oldest first.
#[must_use]
pub fn stored(folder: &Path, rank: u32) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let (owner, epoch) = format::read_name(name.to_str()?)?;
            (owner == rank).then(|| (epoch, entry.path()))
        })
        .collect();
    all.sort();
    all
}

/// Whether another job than this one has stored registered memory in the folder, and lives.
#[must_use]
pub fn is_of_other(folder: &Path, job: u64) -> bool {
    let files = stored(folder, 0).into_iter();
    let jobs = files.filter_map(|(_, path)| Some(load::tag(&path).ok()?.job));
    let mut others = jobs.filter(|other| *other != job);
    others.any(|other| is_claimed(folder, other))
}

/// Runs `store`, which stores registered memory of rank 0, unless the folder is another job's.
fn store_alone<T>(
    folder: &Path,
    job: u64,
    store: impl FnOnce() -> Result<T, RegionsError>,
) -> Result<T, RegionsError> {
    let locked = job_claim::lock_folder(folder);
    let locked = locked.map_err(RegionsError::system("open", folder))?;
    if locked.is_none() || is_of_other(folder, job) {
        return Err(RegionsError::Taken(folder.to_owned()));
    }
    store()
}

/// The files of all ranks of all jobs in a folder, in no order.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.and_then(format::read_name).is_some()
    };
    entries.map(|entry| entry.path()).filter(is_one).collect()
}

/// The tag of a file whose head is whole. Its data is not read.
///
/// # Errors
/// Why the file has no such head.
pub fn tag(path: &Path) -> Result<Tag, Why> {
    load::tag(path)
}

/// Checks all sums of a file, whosever it is.
///
/// # Errors
/// Why it is not what was written.
pub fn check(path: &Path) -> Result<Tag, Why> {
    let tag = load::check_sums_of(path)?.tag;
    let name = path.file_name().and_then(|name| name.to_str());
    if let Some((rank, epoch)) = name.and_then(format::read_name) {
        let wanted = Wanted {
            rank,
            size: tag.size,
            ..Wanted::default()
        };
        load::foreign(&tag, epoch, &wanted)?;
    }
    Ok(tag)
}

/// The job sizes in the heads of a rank's files, oldest file first. A file without a whole head is
/// left out: [`Regions::load`] says why it refuses such a file.
#[must_use]
pub fn job_sizes(folder: &Path, rank: u32) -> Vec<u32> {
    let tags = stored(folder, rank)
        .into_iter()
        .map(|(_, path)| load::tag(&path));
    tags.filter_map(|tag| Some(tag.ok()?.size)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_where_the_folder_cannot_be_synced() {
        let folder = std::env::temp_dir().join(format!("rejoin-publish-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (draft, path) = (folder.join("draft"), folder.join("file"));
        for works in [true, false] {
            fs::write(&draft, "state").expect("a draft");
            let sync = || {
                works
                    .then_some(())
                    .ok_or_else(|| io::ErrorKind::StorageFull.into())
            };
            let done = publish(&draft, &path, sync);
            assert_eq!(
                (done.is_ok(), path.exists(), draft.exists()),
                (works, works, false)
            );
        }
        fs::remove_dir_all(&folder).expect("removed");
    }

    fn store(folder: &Path, job: u64, epoch: u32) -> Result<(), RegionsError> {
        let tag = Tag {
            job,
            size: 1,
            epoch,
            ..Tag::default()
        };
        Regions::new().store(folder, &tag).map(drop)
    }

    #[test]
    fn a_folder_is_that_of_the_job_which_has_stored_there_while_that_lives() {
        let folder = std::env::temp_dir().join(format!("rejoin-jobs-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let first = JobClaim::new(&folder, 1).expect("a claim");
        let second = JobClaim::new(&folder, 2).expect("a claim");
        let twice = JobClaim::new(&folder, 1).expect_err("the job has one");
        assert_eq!(twice.kind(), io::ErrorKind::ResourceBusy);
        assert!(!is_of_other(&folder, 1) && !is_of_other(&folder, 2));
        store(&folder, 1, 1).expect("the first job's");
        let refused = store(&folder, 2, 2).expect_err("the folder is the first job's");
        assert!(matches!(refused, RegionsError::Taken(_)), "{refused}");
        store(&folder, 1, 3).expect("it stores again");
        drop(first);
        store(&folder, 2, 4).expect("the first job has ended");
        drop(second);
        let left = fs::read_dir(&folder).expect("the folder").flatten();
        assert_eq!(left.count(), 3, "the three files, and no lock");
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn of_two_jobs_that_store_at_once_one_is_refused() {
        let folder = std::env::temp_dir().join(format!("rejoin-once-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let both = store_alone(&folder, 1, || Ok(store_alone(&folder, 2, || Ok(()))));
        let second = both.expect("the first one");
        assert!(matches!(second, Err(RegionsError::Taken(_))));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
