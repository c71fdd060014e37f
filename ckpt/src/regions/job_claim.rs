//! Whose registered memory a folder holds. Jobs may share a folder for images of their processes,
//! which have folders of their own below it. Files of registered memory lie in the folder itself,
//! so one job at a time may store them there.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Tries to lock a file that another process is removing.
const MOST_TRIES: u32 = 100;

/// Says that a job lives which may store registered memory in a folder. `mpirun` holds it.
#[derive(Debug)]
pub struct JobClaim {
    _lock: File,
    path: PathBuf,
}

impl JobClaim {
    /// Locks a file in the folder, which names the job. A file system may have no locks.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] if the job has a claim already; the system's reason.
    pub fn new(folder: &Path, job: u64) -> io::Result<Self> {
        remove_free(folder);
        let path = lock_of(folder, job);
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(0o600);
        for _ in 0..MOST_TRIES {
            let lock = options.open(&path)?;
            if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            // An earlier claim of the job may have removed it meanwhile.
            if path.exists() {
                return Ok(Self { _lock: lock, path });
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

impl Drop for JobClaim {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// How the name of a job's lock begins and ends.
const PREFIX: &str = "regions-";
const LOCK: &str = ".lock";

fn lock_of(folder: &Path, job: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{job:016x}{LOCK}"))
}

/// Removes the locks of jobs whose `mpirun` was killed.
fn remove_free(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_lock = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(LOCK));
        number.is_some_and(|number| u64::from_str_radix(number, 16).is_ok())
    };
    for path in entries.map(|entry| entry.path()).filter(is_lock) {
        if File::open(&path).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Whether the job's `mpirun` lives, as far as this host can tell.
#[must_use]
pub fn is_claimed(folder: &Path, job: u64) -> bool {
    let opened = File::open(lock_of(folder, job)).map(|lock| lock.try_lock());
    matches!(opened, Ok(Err(TryLockError::WouldBlock)))
}

/// Locks the folder for as long as the value lives, so that of two jobs that store for the first
/// time at once one is refused. `None`: another process has it locked.
///
/// # Errors
/// The system's reason.
pub(super) fn lock_folder(folder: &Path) -> io::Result<Option<File>> {
    let opened = File::open(folder)?;
    // A file system without locks has no claims, either.
    let is_locked = matches!(opened.try_lock(), Err(TryLockError::WouldBlock));
    Ok((!is_locked).then_some(opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_a_killed_mpirun_is_removed() {
        let folder = std::env::temp_dir().join(format!("rejoin-killed-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(lock_of(&folder, 1), "").expect("a lock that nobody holds");
        assert!(!is_claimed(&folder, 1));
        drop(JobClaim::new(&folder, 2).expect("a claim"));
        assert!(!lock_of(&folder, 1).exists());
        fs::remove_dir_all(&folder).expect("removed");
    }
}
