//! The memory of a rank's log: the local manager makes it, and it outlives the rank. It has the
//! determinants, and behind them the bodies of messages for other recovery groups.

use std::ffi::{CStr, c_void};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// Name of the memory, which is part of no image.
pub(crate) const RANK_LOG_MEMORY: &CStr = c"rejoin-log";

/// Whether a mapping's name, as `/proc/PID/maps` shows it, is that of the memory.
pub(crate) fn is_its_name(name: &[u8]) -> bool {
    let name = name.strip_prefix(b"/memfd:");
    name.and_then(|name| name.strip_suffix(b" (deleted)")) == Some(RANK_LOG_MEMORY.to_bytes())
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

/// A process that was made from a file has copies of its `bodies` in memory of its own, within
/// `area`, which was the mapping of [`map_bodies`]. Puts them into `memory`, and maps this there as
/// before. If that fails, they stay where they are, and the rest of the area is memory of the
/// process as well: the reason is returned.
///
/// # Safety
/// The area is that of [`map_bodies`] in the process of the image, and no thread uses it meanwhile.
///
/// # Errors
/// The system gives no memory: the area is of no use.
pub unsafe fn share_again(
    memory: BorrowedFd<'_>,
    area: &Range<usize>,
    bodies: &[Range<usize>],
) -> io::Result<Option<io::Error>> {
    let shared = copy_bodies(memory, area, bodies).and_then(|()| {
        let (at, offset) = (area.start as *mut c_void, DETERMINANT_BYTES as i64);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: replaces the area, which the caller leaves to this function, by the same bytes.
        unsafe { map_at(at, area.len(), flags, (memory.as_raw_fd(), offset)) }
    });
    let Err(why) = shared else {
        // SAFETY: as in `map_bodies`.
        unsafe { libc::madvise(area.start as *mut c_void, area.len(), libc::MADV_DONTDUMP) };
        return Ok(None);
    };
    let ends = bodies.iter().map(|body| body.end);
    let starts = bodies.iter().map(|body| body.start);
    let before = std::iter::once(area.start).chain(ends);
    for (start, end) in before.zip(starts.chain([area.end])) {
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let flags = private | libc::MAP_FIXED;
        if start < end {
            // SAFETY: between the bodies nothing is needed.
            unsafe { map_at(start as *mut c_void, end - start, flags, (-1, 0))? };
        }
    }
    Ok(Some(why))
}

/// Writes the bodies to their places in the memory.
fn copy_bodies(
    memory: BorrowedFd<'_>,
    area: &Range<usize>,
    bodies: &[Range<usize>],
) -> io::Result<()> {
    let room = length_of(memory)?.saturating_sub(DETERMINANT_BYTES);
    let is_inside = |body: &Range<usize>| area.start <= body.start && body.end <= area.end;
    if room < area.len() || !bodies.iter().all(is_inside) {
        let text = "the memory of the log is smaller than before";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for body in bodies {
        let mut at = body.start;
        while at < body.end {
            let (from, length) = (at as *const c_void, body.end - at);
            let offset = (DETERMINANT_BYTES + at - area.start) as i64;
            // SAFETY: the bodies are memory of this process.
            let count = unsafe { libc::pwrite(memory.as_raw_fd(), from, length, offset) };
            match count {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                1.. => at += count as usize,
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
    }
    Ok(())
}

/// Maps memory at an address.
///
/// # Safety
/// Nothing that is needed is there.
unsafe fn map_at(
    at: *mut c_void,
    length: usize,
    flags: i32,
    (fd, offset): (i32, i64),
) -> io::Result<()> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller's promise.
    match unsafe { libc::mmap(at, length, rights, flags, fd, offset) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(()),
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
        one.store_all(3, &[[1; 8], 9_u64.to_le_bytes()]);
        assert_eq!([other.load(3), other.load(4)], [0x0101_0101_0101_0101, 9]);
        let received = RankLogMemory::for_received(8192).expect("memory");
        let all = MappedWords::map_all(received.as_fd()).expect("a mapping");
        assert_eq!(all.count(), 1024);
    }

    #[test]
    fn bodies_of_a_file_are_shared_again_or_stay() {
        const PAGE: usize = 4096;
        let area = |_| {
            let memory = RankLogMemory::new(4 * PAGE as u64).expect("memory");
            let mapped = map_bodies(memory.as_fd()).expect("a mapping");
            let start = mapped.as_ptr().addr();
            // As the restarter leaves it: a body, and room to which there is no access.
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: the memory was mapped just now for this test, which no other thread knows.
            unsafe {
                map_at(start as *mut c_void, 4 * PAGE, flags, (-1, 0)).expect("memory");
                libc::mprotect(start as *mut c_void, PAGE, libc::PROT_NONE);
                libc::mprotect((start + 2 * PAGE) as *mut c_void, 2 * PAGE, libc::PROT_NONE);
            }
            let body = start + PAGE..start + 2 * PAGE;
            mapped[PAGE..2 * PAGE].fill(7);
            (mapped, start..start + 4 * PAGE, body)
        };
        let (mapped, all, body) = area(());
        let memory = RankLogMemory::new(8 * PAGE as u64).expect("memory");
        // SAFETY: the area of above, which only this test has.
        let shared = unsafe { share_again(memory.as_fd(), &all, &[body]) };
        assert!(shared.expect("memory").is_none());
        assert_eq!(mapped[PAGE..2 * PAGE], [7; PAGE]);
        mapped[0] = 5;
        let other = map_bodies(memory.as_fd()).expect("a mapping");
        assert_eq!((other[0], other[PAGE], other[2 * PAGE]), (5, 7, 0));

        let (mapped, all, body) = area(());
        let memory = RankLogMemory::new(2 * PAGE as u64).expect("memory");
        // SAFETY: as before.
        let shared = unsafe { share_again(memory.as_fd(), &all, &[body]) };
        assert!(shared.expect("memory").is_some(), "it is too small");
        mapped[4 * PAGE - 1] = 5;
        assert_eq!((mapped[0], mapped[PAGE]), (0, 7));
    }

    #[test]
    fn memory_without_room_is_refused() {
        let memory = RankLogMemory::new(0).expect("memory");
        assert!(map_bodies(memory.as_fd()).is_err());
        let other = std::fs::File::open("/dev/null").expect("a file");
        assert!(MappedWords::map(other.as_fd()).is_err());
    }
}
