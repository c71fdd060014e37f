//! The folder beside a file that has the records of its changes: for each job and interval one
//! file, to which all ranks append.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rejoin_channel_table::{Epoch, JobId};

use super::file_interval::FileInterval;
use super::record_scan::{PlacedRecord, scan};
use crate::file::range_lock::{LockKind, RangeLock};

/// How long records of another job stay without a change.
const FOREIGN: Duration = Duration::from_secs(3600);

/// The folder of one file's records.
#[derive(Debug)]
pub(super) struct UndoFolder {
    path: PathBuf,
    job: JobId,
}

/// How records get into the file system.
#[derive(Clone, Copy, Debug)]
pub(in crate::file) struct AppendMode {
    /// Hosts append at the same time only under a lock: NFS.
    pub locks: bool,
    /// The records outlive this host: it may be lost, and the job go on.
    pub syncs: bool,
}

impl UndoFolder {
    /// The folder of this file's records, and `job`'s part of it.
    pub fn new(file: &Path, job: JobId) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Self {
            path: file.with_file_name(format!(".{name}.rejoin-undo")),
            job,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Intervals of which the folder has records of the job, in order of time.
    ///
    /// # Errors
    /// The system's; a folder that is not there has none.
    pub fn intervals(&self) -> io::Result<Vec<FileInterval>> {
        let mut all = Vec::new();
        self.for_each(|name, _| {
            all.extend(FileInterval::of_file(name, self.job));
            Ok(())
        })?;
        all.sort_unstable();
        Ok(all)
    }

    /// The records of an interval, and the file that has them.
    pub fn records(&self, interval: FileInterval) -> io::Result<(File, Vec<PlacedRecord>)> {
        let file = self.open(interval)?;
        let len = file.metadata()?.len();
        let records = scan(len, |at, to| file.read_exact_at(to, at))?;
        Ok((file, records))
    }

    /// The file that has the records of an interval.
    pub fn open(&self, interval: FileInterval) -> io::Result<File> {
        File::open(self.file_of(interval))
    }

    /// Makes the file of an interval, and the folder. Returns whether the file was not there.
    pub fn make(&self, interval: FileInterval) -> io::Result<bool> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let path = self.file_of(interval);
        let made = options.open(&path).or_else(|error| match error.kind() {
            ErrorKind::NotFound => {
                let made = fs::DirBuilder::new().mode(0o700).create(&self.path);
                unless(ErrorKind::AlreadyExists, made)?;
                options.open(&path)
            }
            _ => Err(error),
        });
        match made {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Appends a record to the file of an interval. The file is opened anew: no image has it.
    pub fn append(
        &self,
        interval: FileInterval,
        record: &[u8],
        mode: AppendMode,
    ) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.append(true).open(self.file_of(interval))?;
        let lock = mode
            .locks
            .then(|| RangeLock::take(&file, 0..1, LockKind::Exclusive));
        let _lock = lock.transpose()?;
        // The rest of a part would not lie behind it.
        if (&file).write(record)? < record.len() {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        match mode.syncs {
            true => file.sync_data(),
            false => Ok(()),
        }
    }

    /// Removes the records of an interval.
    pub fn remove(&self, interval: FileInterval) -> io::Result<()> {
        unless(ErrorKind::NotFound, fs::remove_file(self.file_of(interval)))
    }

    /// Removes the job's records of intervals before a checkpoint, and what other jobs have left
    /// long ago.
    pub fn prune(&self, before: Epoch) -> io::Result<()> {
        let now = SystemTime::now();
        self.for_each(|name, path| {
            let is_old = match FileInterval::of_file(name, self.job) {
                Some(interval) => interval.epoch < before,
                None => {
                    let changed = fs::metadata(path).and_then(|status| status.modified());
                    let age = changed.map(|changed| now.duration_since(changed));
                    matches!(age, Ok(Ok(age)) if age > FOREIGN)
                }
            };
            match is_old {
                true => unless(ErrorKind::NotFound, fs::remove_file(path)),
                false => Ok(()),
            }
        })
    }

    fn for_each(&self, mut act: impl FnMut(&str, &Path) -> io::Result<()>) -> io::Result<()> {
        let all = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            all => all?,
        };
        for one in all {
            let one = one?;
            act(&one.file_name().to_string_lossy(), &one.path())?;
        }
        Ok(())
    }

    fn file_of(&self, interval: FileInterval) -> PathBuf {
        self.path.join(interval.file_name(self.job))
    }
}

/// An error of this kind means that nothing is left to be done.
fn unless(kind: ErrorKind, result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == kind => Ok(()),
        result => result,
    }
}
