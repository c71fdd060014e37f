//! Which job folders are in use. A manager holds a lock in its job's folder as long as it lives. So
//! a later manager of the same host knows the folders that were left behind.

use super::file_names::PARTIAL_KIND;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Managers of one job on hosts that have the same name, and tries to lock a file that another
/// process is removing.
const MOST_TRIES: u32 = 1000;

/// The lock of a manager in a job's folder. Dropping it gives the folder up.
#[derive(Debug)]
pub struct FolderClaim {
    _lock: File,
    path: PathBuf,
}

impl FolderClaim {
    /// Makes the folder, and locks a file in it, which names this host.
    ///
    /// # Errors
    /// The system's reason.
    pub(super) fn new(folder: &Path, host: &str) -> io::Result<Self> {
        for number in 0..MOST_TRIES {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
            // Hosts of one name may have folders of their own: the name tells the folder, too.
            let random = RandomState::new().hash_one(std::process::id());
            let name = format!("{}{number}-{random:016x}{LOCK}", prefix(host));
            let path = folder.join(name);
            let mut options = OpenOptions::new();
            let opened = options.write(true).create(true).mode(0o600).open(&path);
            let lock = match opened {
                // Somebody has removed the empty folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            match lock.try_lock() {
                Ok(()) if is_at(&lock, &path) => {
                    let _ = fs::remove_file(folder.join(KEPT));
                    return Ok(Self { _lock: lock, path });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

impl FolderClaim {
    /// The name of its file in the folder, by which other hosts see that it is the same folder.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

impl Drop for FolderClaim {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

const LOCK: &str = ".lock";

/// Whether managers of a job use its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderUse {
    /// No manager has a lock in it.
    Free,
    /// A manager of this host does.
    ByHost(String),
    /// A manager of this host may: its lock is there, and only that host can tell.
    Unknown(String),
    /// No manager has a lock now, and the next launch of the job is to claim the folder.
    Awaited,
}

/// Whether managers use this folder, as this host sees it.
pub(super) fn in_use(folder: &Path, host: &str) -> FolderUse {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = match is_kept(folder) {
        true => FolderUse::Awaited,
        false => FolderUse::Free,
    };
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let of = name.strip_prefix("manager-");
        let of = of.and_then(|name| name.strip_suffix(LOCK)?.rsplit_once('.'));
        let Some((of, _)) = of else {
            continue;
        };
        let tried = File::open(entry.path()).map(|lock| lock.try_lock());
        match tried {
            Ok(Err(TryLockError::WouldBlock)) => return FolderUse::ByHost(of.to_owned()),
            Ok(Ok(())) if name.starts_with(&prefix(host)) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => found = FolderUse::Unknown(of.to_owned()),
        }
    }
    found
}

/// The mark of a folder that the next launch of its job will claim.
const KEPT: &str = "kept";
/// A launch that has not come after this time does not.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// Marks a folder that the next launch of its job will claim.
pub(super) fn keep(folder: &Path) -> io::Result<()> {
    File::create(folder.join(KEPT)).map(drop)
}

/// Whether the next launch of the folder's job may still come.
fn is_kept(folder: &Path) -> bool {
    let marked = fs::metadata(folder.join(KEPT)).and_then(|mark| mark.modified());
    let age = marked.map(|at| at.elapsed().unwrap_or_default());
    age.is_ok_and(|age| age < KEPT_FOR)
}

/// How the names of a host's locks begin.
fn prefix(host: &str) -> String {
    // A name with a slash would be in another folder.
    format!("manager-{}.", host.replace('/', "_"))
}

/// Removes the locks in this folder that nobody holds, because their managers were killed, and the
/// mark of a launch that did not come.
pub(super) fn remove_free(folder: &Path) {
    if !is_kept(folder) {
        let _ = fs::remove_file(folder.join(KEPT));
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    for path in paths.filter(|path| path.to_string_lossy().ends_with(LOCK)) {
        let is_free = |lock: &File| lock.try_lock().is_ok() && is_at(lock, &path);
        if File::open(&path).is_ok_and(|lock| is_free(&lock)) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Whether the file still has this name.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Removes the job folders beside this one whose managers were all of this host and are gone.
/// Returns how many. Folders of other hosts stay: nobody can tell from here whether their managers
/// live.
pub(super) fn remove_abandoned(own: &Path, host: &str) -> u32 {
    let entries = own.parent().map(fs::read_dir).into_iter().flatten();
    let paths = entries.flatten().flatten().map(|entry| entry.path());
    let folders = paths.filter(|path| path != own && is_jobs(path));
    folders.filter_map(|folder| remove(&folder, host)).count() as u32
}

fn is_jobs(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix("job-"));
    number.is_some_and(|number| number.len() == 16 && u64::from_str_radix(number, 16).is_ok())
}

/// Removes one such folder, if nobody uses it.
fn remove(folder: &Path, host: &str) -> Option<()> {
    if is_kept(folder) {
        return None;
    }
    let entries = fs::read_dir(folder).ok()?.flatten();
    let files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let ends_in = |path: &&PathBuf, end: &str| path.to_string_lossy().ends_with(end);
    let locks: Vec<&PathBuf> = files.iter().filter(|path| ends_in(path, LOCK)).collect();
    let mut held = Vec::new();
    for path in &locks {
        let name = path.file_name()?.to_str()?;
        let lock = name
            .starts_with(&prefix(host))
            .then(|| File::open(path))?
            .ok()?;
        lock.try_lock().ok()?;
        held.push(lock);
    }
    let was_kept = folder.join(KEPT).exists();
    // A manager that leaves marks the folder before it drops its lock.
    if is_kept(folder) || (held.is_empty() && !was_kept) {
        return None;
    }
    // Also of notes without a name.
    let kinds = [".image", ".move", PARTIAL_KIND, ".note", KEPT];
    let images = |path: &&PathBuf| kinds.iter().any(|kind| ends_in(path, kind));
    for path in files.iter().filter(images).chain(locks) {
        fs::remove_file(path).ok()?;
    }
    fs::remove_dir(folder).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_killed_managers_are_removed_and_others_stay() {
        let folder = std::env::temp_dir().join(format!("rejoin-locks-{}", std::process::id()));
        let held = FolderClaim::new(&folder, "here").expect("a claim");
        let mut free = FolderClaim::new(&folder, "there").expect("a claim");
        let left = std::mem::take(&mut free.path);
        drop(free);
        assert!(left.exists());
        remove_free(&folder);
        assert!(!left.exists() && folder.join(held.name()).exists());
        drop(held);
        fs::remove_dir(&folder).expect("empty");
    }

    #[test]
    fn a_lock_tells_whether_its_manager_lives_if_that_is_of_this_host() {
        let folder = std::env::temp_dir().join(format!("rejoin-use-{}", std::process::id()));
        assert_eq!(in_use(&folder, "here"), FolderUse::Free);
        let held = FolderClaim::new(&folder, "here.too").expect("a claim");
        let by = FolderUse::ByHost("here.too".into());
        assert_eq!(in_use(&folder, "here.too"), by);
        assert_eq!(in_use(&folder, "there"), by);
        let mut free = FolderClaim::new(&folder, "here").expect("a claim");
        let left = std::mem::take(&mut free.path);
        drop((held, free));
        assert!(left.exists());
        assert_eq!(in_use(&folder, "here"), FolderUse::Free);
        keep(&folder).expect("a mark");
        assert_eq!(in_use(&folder, "here"), FolderUse::Awaited);
        let old = std::time::SystemTime::now() - 2 * KEPT_FOR;
        let mark = File::options().write(true).open(folder.join(KEPT));
        mark.and_then(|mark| mark.set_modified(old))
            .expect("an old mark");
        assert_eq!(in_use(&folder, "here"), FolderUse::Free);
        remove_free(&folder);
        assert!(!folder.join(KEPT).exists() && !left.exists());
        fs::write(&left, "").expect("a lock");
        let unknown = FolderUse::Unknown("here".into());
        assert_eq!(in_use(&folder, "there"), unknown);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn folders_are_removed_once_their_managers_are_gone() {
        let images = std::env::temp_dir().join(format!("rejoin-claims-{}", std::process::id()));
        let job = |number: u32| images.join(format!("job-{number:016x}"));
        let claim = |number, host| FolderClaim::new(&job(number), host).expect("a claim");
        let left = |number, host| {
            let mut kept = claim(number, host);
            fs::write(job(number).join("rank-0.epoch-1.image"), "x").expect("a file");
            fs::write(job(number).join("rank-0.epoch-1+2.move"), "x").expect("a file");
            fs::write(job(number).join("rank-0.epoch-2.3-partial"), "x").expect("a file");
            // As if the manager was killed: the lock is gone, and its file is not.
            let name = std::mem::take(&mut kept.path);
            drop(kept);
            assert!(name.exists());
        };
        left(1, "here");
        left(2, "there");
        let (first, second) = (claim(3, "here"), claim(3, "here"));
        assert_ne!(first.path, second.path);
        fs::create_dir(job(4)).expect("a folder");
        fs::write(job(4).join("rank-0.epoch-1.image"), "x").expect("a file");
        fs::create_dir(images.join("other")).expect("a folder");
        left(5, "here");
        fs::write(job(5).join("notes"), "x").expect("a file of the user's");
        left(6, "here");
        assert_eq!(remove_abandoned(&job(6), "here"), 1, "only the first");
        assert!(!job(1).exists() && job(2).exists() && job(3).exists() && job(4).exists());
        assert!(job(5).join("notes").exists());
        drop(first);
        assert_eq!(remove_abandoned(&job(6), "here"), 0, "one manager lives");
        drop(second);
        assert!(fs::read_dir(job(3)).expect("the folder").next().is_none());
        assert_eq!(remove_abandoned(&job(6), "there"), 1);
        fs::remove_dir_all(&images).expect("removed");
    }
}
