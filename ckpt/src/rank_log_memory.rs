//! The memory of a rank's log: the local manager makes it, and it outlives the rank. It has the
//! determinants, and behind them the bodies of messages for other recovery groups.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// Name of the memory, which is part of no image.
pub(crate) const RANK_LOG_MEMORY: &CStr = c"rejoin-log";

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
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name ends with a zero byte; the descriptor is new.
        let memory = unsafe {
            let fd = libc::memfd_create(RANK_LOG_MEMORY.as_ptr(), flags);
            let fd = sys::check(fd.into()).map_err(io::Error::from_raw_os_error)?;
            OwnedFd::from_raw_fd(fd as i32)
        };
        let (fd, length) = (memory.as_raw_fd(), DETERMINANT_BYTES + bodies);
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
/// It is never unmapped: clones of the process do not have the mapping, so its place there may be
/// another one's.
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
        if length_of(memory)? < DETERMINANT_BYTES {
            let text = "no memory of determinants";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let at = map(memory, 0, DETERMINANT_BYTES)?;
        // SAFETY: the advice is about the mapping just made.
        if unsafe { libc::madvise(at.cast(), DETERMINANT_BYTES, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let (first, count) = (at.cast_const().cast(), DETERMINANT_BYTES / size_of::<u64>());
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
}

/// Maps the bodies, once in the life of a rank: clones of the process have the mapping at the same
/// place, and share the memory. So what an image needs there must not be written over.
///
/// # Errors
/// The system's reason, or a memory without room for bodies.
pub fn map_bodies(memory: BorrowedFd<'_>) -> io::Result<&'static mut [u8]> {
    let length = length_of(memory)?.saturating_sub(DETERMINANT_BYTES);
    if length == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no room"));
    }
    let at = map(memory, DETERMINANT_BYTES, length)?;
    // SAFETY: the mapping was just made, is never unmapped, and has so many bytes. Other processes
    // that have it are images of this one. They do not run while it does.
    unsafe {
        // A core dump need not have it.
        libc::madvise(at.cast(), length, libc::MADV_DONTDUMP);
        Ok(std::slice::from_raw_parts_mut(at, length))
    }
}

fn length_of(memory: BorrowedFd<'_>) -> io::Result<usize> {
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
        let bodies = map_bodies(memory.as_fd()).expect("a mapping");
        bodies.fill(0xdd);
        let other = MappedWords::map(memory.as_fd()).expect("a mapping");
        assert_eq!((other.load(511), other.load(0), bodies.len()), (7, 0, 4096));
        assert_eq!(other.count(), DETERMINANT_BYTES / 8);
        assert_eq!(other.load(other.count() - 1), 0);
    }

    #[test]
    fn memory_without_room_is_refused() {
        let memory = RankLogMemory::new(0).expect("memory");
        assert!(map_bodies(memory.as_fd()).is_err());
        let other = std::fs::File::open("/dev/null").expect("a file");
        assert!(MappedWords::map(other.as_fd()).is_err());
    }
}
