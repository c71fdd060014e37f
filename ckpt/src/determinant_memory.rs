//! The memory of a rank's determinants: the local manager makes it, and it outlives the rank.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// Name of the memory, which is part of no image.
pub(crate) const DETERMINANT_MEMORY: &CStr = c"rejoin-determinants";

/// Most bytes of such a memory.
const MOST: usize = 1 << 40;

/// The memory of one rank, as its manager has it.
#[derive(Debug)]
pub struct DeterminantMemory(OwnedFd);

impl DeterminantMemory {
    /// Makes memory of so many bytes, sealed against changes of its size. The system allocates a
    /// page when it is used.
    ///
    /// # Errors
    /// When the system gives no memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name ends with a zero byte; the descriptor is new.
        let memory = unsafe {
            let fd = libc::memfd_create(DETERMINANT_MEMORY.as_ptr(), flags);
            let fd = sys::check(fd.into()).map_err(io::Error::from_raw_os_error)?;
            OwnedFd::from_raw_fd(fd as i32)
        };
        let fd = memory.as_raw_fd();
        // SAFETY: touches no memory.
        let sized = sys::check(unsafe { libc::ftruncate(fd, bytes.min(MOST) as i64) }.into());
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        sized
            .and_then(|_| sys::control(fd, libc::F_ADD_SEALS, seals))
            .map_err(io::Error::from_raw_os_error)?;
        Ok(Self(memory))
    }
}

impl AsFd for DeterminantMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The memory in its rank, as words that are read and written one by one.
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
    /// Maps the memory. Clones of the process do not have the mapping.
    ///
    /// # Errors
    /// The system's reason, or a memory without a word.
    pub fn map(memory: BorrowedFd<'_>) -> io::Result<Self> {
        let status = sys::status(memory.as_raw_fd()).map_err(io::Error::from_raw_os_error)?;
        let length = usize::try_from(status.st_size).unwrap_or(0);
        let count = length / size_of::<u64>();
        if count == 0 || length > MOST {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no memory of words",
            ));
        }
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let (none, fd) = (std::ptr::null_mut(), memory.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let at = unsafe { libc::mmap(none, length, rights, libc::MAP_SHARED, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the advice is about the mapping just made.
        if unsafe { libc::madvise(at, length, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let first = at.cast_const().cast();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_mapping_stores_another_one_loads() {
        let memory = DeterminantMemory::new(4096).expect("memory");
        let one = MappedWords::map(memory.as_fd()).expect("a mapping");
        one.store(511, 7);
        let other = MappedWords::map(memory.as_fd()).expect("a mapping");
        assert_eq!((other.count(), other.load(511), other.load(0)), (512, 7, 0));
    }

    #[test]
    fn memory_without_a_word_is_refused() {
        let memory = DeterminantMemory::new(7).expect("memory");
        assert!(MappedWords::map(memory.as_fd()).is_err());
    }
}
