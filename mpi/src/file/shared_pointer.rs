//! The shared file pointer (MPI-5.0 §14.4.4): one number for all ranks that have opened a file
//! together.
//!
//! It is in a file of its own, which the first access makes. In a job on one host, ranks map this
//! file together: a checkpoint then holds it as other memory that ranks share. Otherwise the file
//! is beside the program's one, and is read and written under a lock.

use std::cell::{Cell, OnceCell};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::access_mode::AccessMode;
use super::range_lock::{LockKind, RangeLock};
use super::storage::{FileStorage, UndoneFiles, remove};
use super::system_failure::failure;
use super::undo::{FileInterval, JobRollbacks};
use crate::error::{Error, ErrorClass, Result};

/// Bytes of the file that is mapped: a page.
const PAGE: usize = 4096;

/// Bytes of the number in the other file.
const WORD: usize = 8;

/// One rank's end of the pointer.
#[derive(Debug)]
pub(super) struct SharedPointer {
    path: PathBuf,
    is_mapped: bool,
    /// The pointer, in etypes, is the number in the file and this: it begins there without a file.
    base: Cell<i64>,
    place: OnceCell<PointerPlace>,
    /// A rollback moves the pointer back: with this, in a file; otherwise, as memory.
    undone: Option<UndoneFiles>,
}

/// Where the number is.
#[derive(Debug)]
enum PointerPlace {
    Mapped(MappedNumber),
    Locked(Box<FileStorage>),
}

/// A number in a mapped page.
#[derive(Debug)]
struct MappedNumber(NonNull<PointerPage>);

/// The beginning of the page.
#[repr(C)]
struct PointerPage {
    number: AtomicI64,
    /// The interval in which a rank has first mapped the page ([`FileInterval::to_word`]), and 0
    /// before. No image has the page as it was then.
    begun: AtomicU64,
}

impl SharedPointer {
    /// The pointer of a file, which begins at `base`. No other open file of any job has this `key`.
    pub fn new(
        file: &Path,
        key: &str,
        is_mapped: bool,
        base: i64,
        undone: Option<UndoneFiles>,
    ) -> Self {
        let path = match is_mapped {
            true => PathBuf::from(format!("/dev/shm/rejoin-file-pointer-{key}")),
            false => {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                file.with_file_name(format!(".{name}.pointer-{key}"))
            }
        };
        Self {
            path,
            is_mapped,
            base: Cell::new(base),
            place: OnceCell::new(),
            undone,
        }
    }

    /// Adds to the pointer; gives its value before.
    pub fn fetch_add(&self, etypes: i64) -> Result<i64> {
        let before = match self.place()? {
            PointerPlace::Mapped(number) => number.get().fetch_add(etypes, Ordering::AcqRel),
            PointerPlace::Locked(file) => {
                let _lock = file.lock(0..WORD as i64, LockKind::Exclusive)?;
                let before = load(file)?;
                store(file, before.saturating_add(etypes))?;
                before
            }
        };
        Ok(before.saturating_add(self.base.get()))
    }

    /// The pointer.
    pub fn get(&self) -> Result<i64> {
        let now = match self.place()? {
            PointerPlace::Mapped(number) => number.get().load(Ordering::Acquire),
            PointerPlace::Locked(file) => {
                let _lock = file.lock(0..WORD as i64, LockKind::Shared)?;
                load(file)?
            }
        };
        Ok(now.saturating_add(self.base.get()))
    }

    /// Whether this rank has used the pointer.
    pub fn is_used(&self) -> bool {
        self.place.get().is_some()
    }

    /// Sets the pointer, which some rank has used or none. One rank does that while no other one
    /// uses it. The clients of a shared folder may not see yet that the file exists.
    pub fn set(&self, etypes: i64, is_used: bool) -> Result<()> {
        if etypes == self.base.get() && !is_used && !self.path.exists() {
            return Ok(());
        }
        let value = etypes.saturating_sub(self.base.get());
        match self.place()? {
            PointerPlace::Mapped(number) => number.get().store(value, Ordering::Release),
            PointerPlace::Locked(file) => {
                let _lock = file.lock(0..WORD as i64, LockKind::Exclusive)?;
                store(file, value)?;
            }
        }
        Ok(())
    }

    /// Removes the file, if there is one. In a folder that can't be written there is none, and the
    /// call that removes would say so.
    pub fn remove(&self) -> Result<()> {
        match self.path.exists() {
            true => remove(&self.path),
            false => Ok(()),
        }
    }

    fn place(&self) -> Result<&PointerPlace> {
        if let Some(place) = self.place.get() {
            return Ok(place);
        }
        let place = match self.is_mapped {
            true => {
                let job = self.undone.as_ref().map(|files| &*files.job);
                PointerPlace::Mapped(MappedNumber::open(&self.path, job)?)
            }
            false => {
                let undone = self.undone.as_ref();
                let mode = AccessMode::new(AccessMode::RDWR | AccessMode::CREATE)?;
                let file = FileStorage::open(&self.path, mode, true, 0o600, undone)?;
                PointerPlace::Locked(Box::new(file))
            }
        };
        Ok(self.place.get_or_init(|| place))
    }
}

/// The number in a file; 0 in an empty one.
fn load(file: &FileStorage) -> Result<i64> {
    let mut bytes = [0; WORD];
    // SAFETY: the array.
    unsafe { file.read(0, bytes.as_mut_ptr(), WORD) }?;
    Ok(i64::from_le_bytes(bytes))
}

fn store(file: &FileStorage, value: i64) -> Result<()> {
    let bytes = value.to_le_bytes();
    // SAFETY: the array.
    unsafe { file.write(0, bytes.as_ptr(), WORD) }
}

/// Makes the file a page long, and sure that there is memory for it: a mapped page without any
/// would end the process.
fn reserve(file: &File) -> io::Result<()> {
    loop {
        // SAFETY: touches no memory.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, PAGE as i64) } {
            0 => return Ok(()),
            libc::EINTR => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl MappedNumber {
    /// Maps the number of a file, which is made if there is none. A rollback to before its first
    /// use leaves one, whose number counts no more.
    fn open(path: &Path, job: Option<&dyn JobRollbacks>) -> Result<Self> {
        let failed = |error: &io::Error| failure("map", path, error);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(0o600).open(path).map_err(|e| failed(&e))?;
        reserve(&file).map_err(|e| failed(&e))?;
        // SAFETY: a new mapping of a page that the file has.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        let error = io::Error::last_os_error();
        let start = NonNull::new(start).filter(|start| start.as_ptr() != libc::MAP_FAILED);
        let start = start.ok_or_else(|| failed(&error))?;
        let mapped = Self(start.cast());
        if let Some(job) = job {
            let lock = RangeLock::take(&file, 0..PAGE as i64, LockKind::Exclusive);
            let _lock = lock.map_err(|e| failed(&e))?;
            mapped.begin(job);
        }
        Ok(mapped)
    }

    /// The number begins at 0 in a page that is new, or was begun in an interval that a rollback
    /// took back. No other rank begins the page meanwhile.
    fn begin(&self, job: &dyn JobRollbacks) {
        let page = self.page();
        let begun = FileInterval::of_word(page.begun.load(Ordering::Acquire));
        if begun.is_none_or(|interval| interval.is_stale(&job.rollbacks())) {
            // A rank that is killed between both leaves a page that is still to be begun.
            page.number.store(0, Ordering::Release);
            let now = job.interval().to_word();
            page.begun.store(now, Ordering::Release);
        }
    }

    fn page(&self) -> &PointerPage {
        // SAFETY: the mapping lives as long as the value, and all that use it do so atomically.
        unsafe { self.0.as_ref() }
    }

    fn get(&self) -> &AtomicI64 {
        &self.page().number
    }
}

impl Drop for MappedNumber {
    fn drop(&mut self) {
        // SAFETY: the mapping that `open` made.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PAGE) };
    }
}

/// The error of a job whose ranks come back alone.
pub(super) fn not_with_logging() -> Error {
    let text = "shared file pointers are not there with message logging: their values would not be \
                repeated";
    Error::new(ErrorClass::UnsupportedOperation, text)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use rejoin_channel_table::{Epoch, Generation};
    use rejoin_device::Rollback;

    use super::super::undo::tests::Course;
    use super::*;

    #[test]
    fn two_ends_of_either_kind_see_one_number() {
        let folder = std::env::temp_dir();
        for is_mapped in [true, false] {
            let key = format!("test-{}", std::process::id());
            let file = folder.join("some file");
            let end = || SharedPointer::new(&file, &key, is_mapped, 100, None);
            let (a, b) = (end(), end());
            a.set(100, false).unwrap();
            assert!(!a.path.exists(), "nothing to be stored");
            assert_eq!(a.fetch_add(5).unwrap(), 100);
            assert_eq!(b.fetch_add(7).unwrap(), 105);
            assert_eq!(a.get().unwrap(), 112);
            b.set(3, true).unwrap();
            assert_eq!((a.get().unwrap(), b.fetch_add(1).unwrap()), (3, 3));
            a.remove().unwrap();
            b.remove().unwrap();
            assert!(!a.path.exists());
        }
    }

    #[test]
    fn a_rollback_to_before_the_first_use_takes_the_number_back() {
        let course = Rc::new(Course::default());
        let undone = UndoneFiles {
            job: course.clone(),
            outlive_host: false,
        };
        let key = format!("test-back-{}", std::process::id());
        let file = std::env::temp_dir().join("some file");
        let end = || SharedPointer::new(&file, &key, true, 0, Some(undone.clone()));
        let interval = |generation, epoch| FileInterval {
            generation: Generation(generation),
            epoch: Epoch(epoch),
        };
        course.interval.set(interval(0, 1));
        assert_eq!(end().fetch_add(5).unwrap(), 0);
        course.interval.set(interval(0, 2));
        assert_eq!(end().fetch_add(5).unwrap(), 5, "another rank's first use");
        let back = |generation, to| Rollback {
            generation: Generation(generation),
            to: Epoch(to),
        };
        course.rollbacks.borrow_mut().push(back(1, 2));
        course.interval.set(interval(1, 2));
        assert_eq!(end().get().unwrap(), 10, "an image has the page");
        course.rollbacks.borrow_mut().push(back(2, 1));
        course.interval.set(interval(2, 1));
        let (first, second) = (end(), end());
        assert_eq!(first.fetch_add(7).unwrap(), 0);
        assert_eq!(second.get().unwrap(), 7, "the page was begun anew once");
        first.remove().unwrap();
    }
}
