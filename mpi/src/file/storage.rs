//! The one place where a file is read, written, made longer or shorter, and removed.
//!
//! Everything that changes a file passes here, so that a record of what was there before has one
//! place. Descriptors are ordinary ones of the program: an image opens them again.

use std::cell::{Cell, OnceCell};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rejoin_device::SettledLength;

use super::access_mode::AccessMode;
use super::range_lock::{LockKind, RangeLock};
use super::system_failure::failure;
use super::undo::{AppendMode, FileUndo, JobRollbacks};
use crate::error::{Error, ErrorClass, Result};

/// Number of the file systems whose clients see each other's bytes only after a lock: NFS.
const NFS: i64 = 0x6969;

/// How the job treats files at a rollback.
#[derive(Clone)]
pub(super) struct UndoneFiles {
    /// The rollbacks.
    pub job: Rc<dyn JobRollbacks>,
    /// The job continues when a host is lost.
    pub outlive_host: bool,
}

impl std::fmt::Debug for UndoneFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UndoneFiles(outlive_host: {})", self.outlive_host)
    }
}

/// An open file.
#[derive(Debug)]
pub(super) struct FileStorage {
    file: File,
    path: PathBuf,
    mode: AccessMode,
    /// Other hosts may have the file, and see what is written only if both sides lock it.
    locks_always: bool,
    /// Something was written since the last sync.
    is_dirty: Cell<bool>,
    /// How much of it images keep; unset: all.
    settled: OnceCell<SettledLength>,
    /// Records of what was there before; `None`: a rollback treats it as other files.
    undo: Option<FileUndo>,
}

impl FileStorage {
    /// Opens a file, and makes it if the mode says so and this rank `creates`. `permissions` are
    /// those of a new file, less the process's mask. With `undone`, a rollback of the job takes
    /// changes back.
    ///
    /// # Errors
    /// The class of what the system says; also if there can be no records beside the file.
    pub fn open(
        path: &Path,
        mode: AccessMode,
        creates: bool,
        permissions: u32,
        undone: Option<&UndoneFiles>,
    ) -> Result<Self> {
        let has = |flag| creates && mode.has(flag);
        let mut options = OpenOptions::new();
        // What a write destroys is read before.
        let reads = mode.reads() || undone.is_some();
        options.read(reads).write(mode.writes());
        let creation = match (has(AccessMode::CREATE), has(AccessMode::EXCL)) {
            (true, true) => libc::O_CREAT | libc::O_EXCL,
            (true, false) => libc::O_CREAT,
            (false, _) => 0,
        };
        let open = options.mode(permissions).custom_flags(creation).open(path);
        let file = open.map_err(|e| failure("open", path, &e))?;
        let status = file.metadata().map_err(|e| failure("open", path, &e))?;
        if status.is_dir() {
            let text = format!("can't open {}: it is a folder", path.display());
            return Err(Error::new(ErrorClass::BadFile, text));
        }
        let locks_always = is_of_nfs(&file);
        // The program may go to another folder.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let regular = undone.filter(|_| status.is_file());
        let undo = regular.map(|files| {
            let append = AppendMode {
                locks: locks_always,
                syncs: files.outlive_host,
            };
            FileUndo::new(files.job.clone(), &path, status.ino(), append)
        });
        let storage = Self {
            locks_always,
            file,
            path,
            mode,
            is_dirty: Cell::new(false),
            settled: OnceCell::new(),
            undo,
        };
        if storage.undo.is_some() {
            storage.begin_undo(status.len())?;
        }
        Ok(storage)
    }

    /// Images keep nothing of the file. What a rollback took back is undone.
    fn begin_undo(&self, length: u64) -> Result<()> {
        if self.mode.writes() && length > 0 {
            let folder = self.path.parent().unwrap_or(Path::new("/"));
            check_folder(folder).map_err(|error| {
                let class = failure("write to", folder, &error).class;
                let text = format!(
                    "can't write to the folder of {}: {error}. Changes of the file are recorded \
                     there, because a rollback takes them back. Move the file, or run with \
                     --recovery none",
                    self.path.display()
                );
                Error::new(class, text)
            })?;
        }
        let _ = self.settled.set(SettledLength::of_undone(self.identity()?));
        self.settle_rollback()
    }

    /// Undoes what a rollback took back, if that is not done yet.
    #[inline]
    fn settle_rollback(&self) -> Result<()> {
        match &self.undo {
            Some(undo) => undo.settle(&self.file, self.mode.writes()),
            None => Ok(()),
        }
    }

    /// Whether changes are undone at a rollback.
    pub fn is_undone(&self) -> bool {
        self.undo.is_some()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether accesses lock their range, because other hosts would not see them otherwise.
    pub fn locks_always(&self) -> bool {
        self.locks_always
    }

    /// Whether it can be read.
    pub fn is_readable(&self) -> bool {
        self.mode.reads()
    }

    /// The number of its file system, and its own there.
    pub fn identity(&self) -> Result<(u64, u64)> {
        let status = self
            .file
            .metadata()
            .map_err(|e| self.failure("ask for", &e))?;
        Ok((status.dev(), status.ino()))
    }

    /// Several ranks write the file, which had this length when they opened it: from now on images
    /// of this rank keep as much of it as this rank has written.
    pub fn share(&self, length: u64) -> Result<()> {
        let settled = SettledLength::new(self.identity()?, length);
        let _ = self.settled.set(settled);
        Ok(())
    }

    /// All bytes up to this one are written by this rank, or by ranks that it has waited for. While
    /// ranks write together, an image has no bytes that another one has not written yet.
    pub fn reach(&self, end: i64) {
        if let Some(settled) = self.settled.get() {
            settled.reach(end as u64);
        }
    }

    /// The file has this length on all ranks.
    pub fn settle(&self, length: i64) {
        if let Some(undo) = &self.undo {
            undo.resized(length as u64);
        }
        if let Some(settled) = self.settled.get() {
            settled.set(length as u64);
        }
    }

    /// Its size in bytes.
    pub fn size(&self) -> Result<i64> {
        self.settle_rollback()?;
        let status = self.file.metadata();
        let status = status.map_err(|e| self.failure("get the size of", &e))?;
        Ok(status.len() as i64)
    }

    /// Reads at a position. Returns the number of bytes; fewer than `len` only at the end of the
    /// file.
    ///
    /// # Errors
    /// The class of what the system says.
    ///
    /// # Safety
    /// `to` is valid for writes of `len` bytes.
    pub unsafe fn read(&self, at: i64, to: *mut u8, len: usize) -> Result<usize> {
        self.check_range(at, len)?;
        self.settle_rollback()?;
        let mut done = 0;
        while done < len {
            let (place, left) = (to.wrapping_add(done), len - done);
            let from = at + done as i64;
            // SAFETY: the rest of what the caller vouches for.
            let n = unsafe { libc::pread(self.fd(), place.cast(), left, from) };
            match usize::try_from(n) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(_) => self.check_interrupted("read")?,
            }
        }
        Ok(done)
    }

    /// Writes at a position.
    ///
    /// # Errors
    /// The class of what the system says. Some of the bytes may be written then.
    ///
    /// # Safety
    /// `from` is valid for reads of `len` bytes.
    pub unsafe fn write(&self, at: i64, from: *const u8, len: usize) -> Result<()> {
        self.record(at, len)?;
        self.is_dirty.set(true);
        let mut done = 0;
        while done < len {
            let (place, left) = (from.wrapping_add(done), len - done);
            let to = at + done as i64;
            // SAFETY: the rest of what the caller vouches for.
            let n = unsafe { libc::pwrite(self.fd(), place.cast(), left, to) };
            match usize::try_from(n) {
                Ok(0) => return Err(self.failure("write", &io::ErrorKind::WriteZero.into())),
                Ok(n) => done += n,
                Err(_) => self.check_interrupted("write")?,
            }
        }
        Ok(())
    }

    /// Records what a write of `len` bytes at a position is about to destroy.
    ///
    /// # Errors
    /// `NoSpace` if the records have no room; the class of what the system says.
    fn record(&self, at: i64, len: usize) -> Result<()> {
        self.check_range(at, len)?;
        let Some(undo) = &self.undo else {
            return Ok(());
        };
        self.settle_rollback()?;
        undo.before_write(&self.file, at as u64, len as u64)
    }

    /// Makes it this long: cuts it, or adds zeros.
    pub fn set_size(&self, size: i64) -> Result<()> {
        self.record_size(size)?;
        self.is_dirty.set(true);
        let set = self.file.set_len(size as u64);
        set.map_err(|e| self.failure("set the size of", &e))
    }

    /// Makes sure that the disk has room for so many bytes. Never makes the file shorter.
    pub fn allocate(&self, size: i64) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        self.record_size(size.max(self.size()?))?;
        self.is_dirty.set(true);
        loop {
            // SAFETY: touches no memory.
            match unsafe { libc::posix_fallocate(self.fd(), 0, size) } {
                0 => return Ok(()),
                // A checkpoint came between.
                libc::EINTR => {}
                errno => {
                    let error = io::Error::from_raw_os_error(errno);
                    return Err(self.failure("reserve room for", &error));
                }
            }
        }
    }

    fn record_size(&self, size: i64) -> Result<()> {
        let Some(undo) = &self.undo else {
            return Ok(());
        };
        self.settle_rollback()?;
        undo.before_resize(&self.file, size as u64)
    }

    /// Writes what is not on the disk yet.
    pub fn sync(&self) -> Result<()> {
        self.settle_rollback()?;
        if self.is_dirty.get() {
            match self.file.sync_all() {
                // A device has nothing to sync.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                synced => synced.map_err(|e| self.failure("sync", &e))?,
            }
            self.is_dirty.set(false);
        }
        Ok(())
    }

    /// Locks a range against other open descriptions of the file ([`RangeLock::take`]).
    ///
    /// # Errors
    /// The class of what the system says.
    pub fn lock(&self, range: Range<i64>, kind: LockKind) -> Result<RangeLock<'_>> {
        let kind = match kind {
            // A descriptor for writing can't have a shared lock.
            LockKind::Shared if self.is_readable() => LockKind::Shared,
            LockKind::Shared | LockKind::Exclusive => LockKind::Exclusive,
        };
        RangeLock::take(&self.file, range, kind).map_err(|e| self.failure("lock", &e))
    }

    fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    fn failure(&self, what: &str, error: &io::Error) -> Error {
        failure(what, &self.path, error)
    }

    /// The error of the last system call, unless a signal came.
    #[cold]
    fn check_interrupted(&self, what: &str) -> Result<()> {
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(self.failure(what, &error)),
        }
    }

    fn check_range(&self, at: i64, len: usize) -> Result<()> {
        let end = i64::try_from(len).ok().and_then(|len| at.checked_add(len));
        if at >= 0 && end.is_some() {
            return Ok(());
        }
        let path = self.path.display();
        let text = format!("{len} bytes at position {at} of {path}: no file reaches there");
        Err(Error::new(ErrorClass::Arg, text))
    }
}

/// Removes a file.
///
/// # Errors
/// The class of what the system says.
pub(super) fn remove(path: &Path) -> Result<()> {
    std::fs::remove_file(path).map_err(|e| failure("remove", path, &e))
}

/// Whether this process may make files in the folder.
fn check_folder(folder: &Path) -> io::Result<()> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let (may, as_effective_user) = (libc::W_OK | libc::X_OK, libc::AT_EACCESS);
    // SAFETY: the path ends with a zero byte.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), may, as_effective_user) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the file is on a file system that needs locks; one that can't be asked does not.
fn is_of_nfs(file: &File) -> bool {
    // SAFETY: `statfs` is plain data that the call fills in.
    unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        libc::fstatfs(file.as_raw_fd(), &raw mut system) == 0 && system.f_type == NFS
    }
}
