//! The memory of a rank's log: the local manager makes it, and it outlives the rank. It has the
//! determinants, and behind them the bodies of messages for other recovery groups
//! (`log_bodies.rs`).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// Name of the memory, which is part of no image.
const RANK_LOG_MEMORY: &CStr = c"rejoin-log";

/// The begin of the name of a file into which it spills, which is part of no image, either.
pub(crate) const SPILL_FILE: &str = "rejoin-log.";

/// Whether a mapping's name, as `/proc/PID/maps` shows it, is that of the memory or of such a file.
pub(crate) fn is_its_name(name: &[u8]) -> bool {
    let Some(path) = name.strip_suffix(b" (deleted)") else {
        return false;
    };
    if let Some(memory) = path.strip_prefix(b"/memfd:") {
        return memory == RANK_LOG_MEMORY.to_bytes();
    }
    let last = path.rsplit(|byte| *byte == b'/').next();
    path.starts_with(b"/") && last.is_some_and(|last| last.starts_with(SPILL_FILE.as_bytes()))
}

/// Bytes of a rank's determinants, of which the system allocates what is used: a million records
/// of 32 bytes.
pub const DETERMINANT_BYTES: usize = 32 << 20;

/// Most bytes of the bodies.
const MOST: usize = 1 << 40;

/// The memory of one rank's log, as its manager has it.
#[derive(Debug)]
pub struct RankLogMemory(OwnedFd);

impl RankLogMemory {
    /// Makes memory for [`DETERMINANT_BYTES`] and so many bytes of bodies, sealed against changes
    /// of its size. The system allocates a page when it is used.
    ///
    /// # Errors
    /// When the system gives no memory.
    pub fn new(bodies: u64) -> io::Result<Self> {
        let bodies = usize::try_from(bodies).unwrap_or(MOST).min(MOST);
        Self::of(DETERMINANT_BYTES + bodies)
    }

    /// Makes memory for so many bytes of messages that the rank receives, as
    /// [`RankLogMemory::new`].
    ///
    /// # Errors
    /// When the system gives no memory.
    pub fn for_received(bytes: u64) -> io::Result<Self> {
        Self::of(usize::try_from(bytes).unwrap_or(MOST).min(MOST))
    }

    fn of(length: usize) -> io::Result<Self> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name ends with a zero byte; the descriptor is new.
        let memory = unsafe {
            let fd = libc::memfd_create(RANK_LOG_MEMORY.as_ptr(), flags);
            let fd = sys::check(fd.into()).map_err(io::Error::from_raw_os_error)?;
            OwnedFd::from_raw_fd(fd as i32)
        };
        let fd = memory.as_raw_fd();
        // SAFETY: touches no memory.
        let sized = sys::check(unsafe { libc::ftruncate(fd, length as i64) }.into());
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        sized
            .and_then(|_| sys::control(fd, libc::F_ADD_SEALS, seals))
            .map_err(io::Error::from_raw_os_error)?;
        Ok(Self(memory))
    }
}

impl AsFd for RankLogMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The determinants in their rank, as words that are read and written one by one.
///
/// The words are never unmapped: clones of the process do not have the mapping, so its place there
/// may be another one's.
#[derive(Debug)]
pub struct MappedWords {
    first: *const AtomicU64,
    count: usize,
}

// SAFETY: the words are used as atomics only, and stay mapped.
unsafe impl Send for MappedWords {}

impl MappedWords {
    /// Maps them. Clones of the process do not have the mapping.
    ///
    /// # Errors
    /// The system's reason, or a memory that is too small.
    pub fn map(memory: BorrowedFd<'_>) -> io::Result<Self> {
        Self::map_first(memory, DETERMINANT_BYTES)
    }

    /// Maps memory that was made for received messages, as [`MappedWords::map`].
    ///
    /// # Errors
    /// The system's reason.
    pub fn map_all(memory: BorrowedFd<'_>) -> io::Result<Self> {
        Self::map_first(memory, length_of(memory)?)
    }

    /// Maps the first `bytes` of a file or of memory, as [`MappedWords::map`].
    ///
    /// # Errors
    /// The system's reason, or there are fewer.
    pub fn map_first(memory: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        if length_of(memory)? < bytes {
            let text = "no memory of determinants";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let at = map(memory, 0, bytes)?;
        // SAFETY: the advice is about the mapping just made.
        if unsafe { libc::madvise(at.cast(), bytes, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let (first, count) = (at.cast_const().cast(), bytes / size_of::<u64>());
        Ok(Self { first, count })
    }

    /// Number of words.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.count, "a word beyond the memory");
        // SAFETY: the word is within the mapping, which stays, and is aligned like its page.
        unsafe { &*self.first.add(index) }
    }

    /// The word at this index.
    ///
    /// # Panics
    /// When there is no such word.
    #[inline]
    #[must_use]
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    /// Writes the word at this index, after all words before.
    ///
    /// # Panics
    /// When there is no such word.
    #[inline]
    pub fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Release);
    }

    /// Writes bytes from the word at this index on. Words that [`MappedWords::store`] writes
    /// afterwards are written after them.
    ///
    /// # Panics
    /// When there are not so many words.
    pub fn store_all(&self, index: usize, words: &[[u8; 8]]) {
        let end = index.checked_add(words.len());
        let is_inside = end.is_some_and(|end| end <= self.count);
        assert!(is_inside, "words beyond the memory");
        // SAFETY: the words are within the mapping, which nothing in this process borrows. The
        // manager reads them only after a later word says that they are there.
        unsafe {
            let to = self.first.add(index).cast_mut().cast();
            std::ptr::copy_nonoverlapping(words.as_ptr(), to, words.len());
        }
    }
}

/// Nanoseconds of the clock by which a rank and its manager give times in the memory
/// (`CLOCK_MONOTONIC`).
#[must_use]
pub fn clock() -> u64 {
    sys::now()
}

pub(crate) fn length_of(memory: BorrowedFd<'_>) -> io::Result<usize> {
    let status = sys::status(memory.as_raw_fd()).map_err(io::Error::from_raw_os_error)?;
    Ok(usize::try_from(status.st_size).unwrap_or(0))
}

fn map(memory: BorrowedFd<'_>, offset: usize, length: usize) -> io::Result<*mut u8> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let (none, fd) = (std::ptr::null_mut(), memory.as_raw_fd());
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let at = unsafe { libc::mmap(none, length, rights, libc::MAP_SHARED, fd, offset as i64) };
    match at == libc::MAP_FAILED {
        true => Err(io::Error::last_os_error()),
        false => Ok(at.cast()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_mapping_stores_another_one_loads() {
        let memory = RankLogMemory::new(4096).expect("memory");
        let one = MappedWords::map(memory.as_fd()).expect("a mapping");
        one.store(511, 7);
        let other = MappedWords::map(memory.as_fd()).expect("a mapping");
        assert_eq!((other.load(511), other.load(0)), (7, 0));
        assert_eq!(other.count(), DETERMINANT_BYTES / 8);
        assert_eq!(other.load(other.count() - 1), 0);
        one.store_all(3, &[[1; 8], 9_u64.to_le_bytes()]);
        assert_eq!([other.load(3), other.load(4)], [0x0101_0101_0101_0101, 9]);
        let received = RankLogMemory::for_received(8192).expect("memory");
        let all = MappedWords::map_all(received.as_fd()).expect("a mapping");
        assert_eq!(all.count(), 1024);
    }

    #[test]
    fn what_is_no_memory_of_a_log_is_refused() {
        let other = std::fs::File::open("/dev/null").expect("a file");
        assert!(MappedWords::map(other.as_fd()).is_err());
    }
}
