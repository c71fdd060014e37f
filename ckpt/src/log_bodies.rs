//! Where a rank has the bodies of messages that it retains for other recovery groups: behind the
//! determinants in the memory of its log ([`crate::rank_log_memory`]), and where that ends in the
//! file into which the log spills ([`crate::log_spill`]). Both are one area of addresses.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::rank_log_memory::{DETERMINANT_BYTES, length_of};

/// Bytes of a page.
const PAGE: usize = 4096;

/// The descriptors of a rank's log.
#[derive(Debug, Clone, Copy)]
pub struct LogFiles<'a> {
    /// The memory.
    pub memory: BorrowedFd<'a>,
    /// The file into which it spills, if it does.
    pub spill: Option<BorrowedFd<'a>>,
}

/// A part of the area that one descriptor backs: addresses from the area's start, and where they
/// begin in the file.
struct BackedPart<'a> {
    range: Range<usize>,
    file: BorrowedFd<'a>,
    offset: usize,
}

impl<'a> LogFiles<'a> {
    /// Bytes of bodies for which the memory has room, in whole pages: the file has those behind
    /// them.
    ///
    /// # Errors
    /// The system's reason.
    pub fn in_memory(&self) -> io::Result<usize> {
        let bytes = length_of(self.memory)?.saturating_sub(DETERMINANT_BYTES);
        Ok(bytes / PAGE * PAGE)
    }

    /// The parts of an area of at most `most` bytes, in order.
    fn parts(&self, most: usize) -> io::Result<Vec<BackedPart<'a>>> {
        let memory = self.in_memory()?.min(most);
        let mut parts = vec![BackedPart {
            range: 0..memory,
            file: self.memory,
            offset: DETERMINANT_BYTES,
        }];
        if let Some(file) = self.spill {
            let whole = length_of(file)? / PAGE * PAGE;
            let end = memory.saturating_add(whole).min(most);
            parts.push(BackedPart {
                range: memory..end,
                file,
                offset: 0,
            });
        }
        parts.retain(|part| !part.range.is_empty());
        Ok(parts)
    }
}

impl BackedPart<'_> {
    /// Maps this part of the area that begins at an address.
    ///
    /// # Safety
    /// Nothing that is needed is there.
    unsafe fn map(&self, area: usize) -> io::Result<()> {
        let at = (area + self.range.start) as *mut c_void;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let file = (self.file.as_raw_fd(), self.offset as i64);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the caller's promise.
        unsafe { map_at(at, self.range.len(), (rights, flags), file).map(drop) }
    }
}

/// Maps the bodies, once in the life of a rank: clones of the process have the mapping at the same
/// place, and share the memory. So what an image needs there must not be written over.
///
/// # Errors
/// The system's reason, or a memory without room for bodies.
pub fn map_bodies(files: LogFiles<'_>) -> io::Result<&'static mut [u8]> {
    let parts = files.parts(usize::MAX)?;
    let length = parts.last().map_or(0, |part| part.range.end);
    if length == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no room"));
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory; its
    // parts are replaced, and never unmapped. Other processes that have it are images of this one.
    // They do not run while it does.
    unsafe {
        // The place alone, which costs no memory.
        let at = map_at(
            std::ptr::null_mut(),
            length,
            (libc::PROT_NONE, flags),
            (-1, 0),
        )?;
        if let Err(error) = parts.iter().try_for_each(|part| part.map(at.addr())) {
            libc::munmap(at, length);
            return Err(error);
        }
        // A core dump need not have it.
        libc::madvise(at, length, libc::MADV_DONTDUMP);
        Ok(std::slice::from_raw_parts_mut(at.cast(), length))
    }
}

/// A process that was made from a file has copies of its `bodies` in memory of its own, within
/// `area`, which was the mapping of [`map_bodies`]. Puts them into `files`, and maps these there as
/// before. If that fails, they stay where they are, and the rest of the area is memory of the
/// process as well: the reason is returned.
///
/// # Safety
/// The area is that of [`map_bodies`] in the process of the image, and no thread uses it meanwhile.
///
/// # Errors
/// The system gives no memory: the area is of no use.
pub unsafe fn share_again(
    files: LogFiles<'_>,
    area: &Range<usize>,
    bodies: &[Range<usize>],
) -> io::Result<Option<io::Error>> {
    let shared = copy_bodies(files, area, bodies).and_then(|parts| {
        // SAFETY: replaces the area, which the caller leaves to this function, by the same bytes.
        parts
            .iter()
            .try_for_each(|part| unsafe { part.map(area.start) })
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
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        if start < end {
            // SAFETY: between the bodies nothing is needed.
            unsafe { map_at(start as *mut c_void, end - start, (rights, flags), (-1, 0))? };
        }
    }
    Ok(Some(why))
}

/// Writes the bodies to their places in the files. Returns the parts of the area.
fn copy_bodies<'a>(
    files: LogFiles<'a>,
    area: &Range<usize>,
    bodies: &[Range<usize>],
) -> io::Result<Vec<BackedPart<'a>>> {
    let parts = files.parts(area.len())?;
    let room = parts.last().map_or(0, |part| part.range.end);
    let is_inside = |body: &Range<usize>| area.start <= body.start && body.end <= area.end;
    if room < area.len() || !bodies.iter().all(is_inside) {
        let text = "the memory of the log is smaller than before";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for part in &parts {
        for body in bodies {
            let start = (body.start - area.start).max(part.range.start);
            let end = (body.end - area.start).min(part.range.end);
            if start < end {
                let offset = part.offset + start - part.range.start;
                let from = area.start + start..area.start + end;
                write_all(part.file, from, offset)?;
            }
        }
    }
    Ok(parts)
}

/// Writes memory of this process to a place in a file.
fn write_all(file: BorrowedFd<'_>, from: Range<usize>, offset: usize) -> io::Result<()> {
    let mut at = from.start;
    while at < from.end {
        let (bytes, offset) = (at as *const c_void, (offset + at - from.start) as i64);
        // SAFETY: the bodies are memory of this process.
        let count = unsafe { libc::pwrite(file.as_raw_fd(), bytes, from.end - at, offset) };
        match count {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            1.. => at += count as usize,
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}

/// Maps memory, at this address if the flags say so. Returns where it is.
///
/// # Safety
/// Nothing that is needed is there.
unsafe fn map_at(
    at: *mut c_void,
    length: usize,
    (rights, flags): (i32, i32),
    (fd, offset): (i32, i64),
) -> io::Result<*mut c_void> {
    // SAFETY: the caller's promise.
    match unsafe { libc::mmap(at, length, rights, flags, fd, offset) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        at => Ok(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_spill::SpillFile;
    use crate::rank_log_memory::RankLogMemory;
    use std::os::fd::AsFd;

    fn memory(pages: usize) -> RankLogMemory {
        RankLogMemory::new((pages * PAGE) as u64).expect("memory")
    }

    fn spill(pages: usize) -> SpillFile {
        SpillFile::new(&std::env::temp_dir(), (pages * PAGE) as u64).expect("a file")
    }

    fn files<'a>(memory: &'a RankLogMemory, spill: Option<&'a SpillFile>) -> LogFiles<'a> {
        LogFiles {
            memory: memory.as_fd(),
            spill: spill.map(AsFd::as_fd),
        }
    }

    #[test]
    fn the_file_has_what_the_memory_has_no_room_for() {
        let (memory, spill) = (memory(2), spill(3));
        let files = files(&memory, Some(&spill));
        let mapped = map_bodies(files).expect("a mapping");
        assert_eq!(
            (mapped.len(), files.in_memory().expect("a length")),
            (5 * PAGE, 2 * PAGE)
        );
        mapped[2 * PAGE - 1] = 3;
        mapped[2 * PAGE] = 5;
        let mut last = [0; 2];
        let read = |fd: BorrowedFd<'_>, at: usize, into: &mut [u8]| {
            // SAFETY: the pointer and the length are those of a slice.
            let read = unsafe {
                libc::pread(
                    fd.as_raw_fd(),
                    into.as_mut_ptr().cast(),
                    into.len(),
                    at as i64,
                )
            };
            assert_eq!(read, into.len() as isize);
        };
        read(
            memory.as_fd(),
            DETERMINANT_BYTES + 2 * PAGE - 1,
            &mut last[..1],
        );
        read(spill.as_fd(), 0, &mut last[1..]);
        assert_eq!(last, [3, 5]);
    }

    #[test]
    fn the_file_begins_at_a_page() {
        let memory = RankLogMemory::new(PAGE as u64 + 5).expect("memory");
        let spill = SpillFile::new(&std::env::temp_dir(), PAGE as u64 + 7).expect("a file");
        let mapped = map_bodies(files(&memory, Some(&spill))).expect("a mapping");
        assert_eq!(mapped.len(), 2 * PAGE);
        mapped.fill(1);
    }

    #[test]
    fn bodies_of_a_file_are_shared_again_or_stay() {
        // As the restarter leaves it: a body, and room to which there is no access.
        let area = |old: LogFiles<'_>| {
            let mapped = map_bodies(old).expect("a mapping");
            let start = mapped.as_ptr().addr();
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: the memory was mapped just now for this test, which no other thread knows.
            unsafe {
                let rights = libc::PROT_READ | libc::PROT_WRITE;
                map_at(start as *mut c_void, 4 * PAGE, (rights, flags), (-1, 0)).expect("memory");
                libc::mprotect(start as *mut c_void, PAGE, libc::PROT_NONE);
                libc::mprotect((start + 3 * PAGE) as *mut c_void, PAGE, libc::PROT_NONE);
            }
            let body = start + PAGE..start + 3 * PAGE;
            mapped[PAGE..3 * PAGE].fill(7);
            (mapped, start..start + 4 * PAGE, body)
        };
        // All in memory; and with an end of the memory within the body.
        for (pages, more) in [(8, None), (1, Some(3)), (2, Some(2))] {
            let old = memory(4);
            let (mapped, all, body) = area(files(&old, None));
            let (memory, more) = (memory(pages), more.map(spill));
            let files = files(&memory, more.as_ref());
            // SAFETY: the area of above, which only this test has.
            let shared = unsafe { share_again(files, &all, &[body]) };
            assert!(shared.expect("memory").is_none());
            assert_eq!(mapped[PAGE..3 * PAGE], [7; 2 * PAGE]);
            (mapped[0], mapped[3 * PAGE]) = (5, 6);
            let other = map_bodies(files).expect("a mapping");
            let seen = [0, 1, 2, 3].map(|page| other[page * PAGE]);
            assert_eq!(seen, [5, 7, 7, 6], "{pages} pages of memory");
        }
        let old = memory(4);
        let (mapped, all, body) = area(files(&old, None));
        let (memory, spill) = (memory(1), spill(2));
        // SAFETY: as before.
        let shared = unsafe { share_again(files(&memory, Some(&spill)), &all, &[body]) };
        assert!(shared.expect("memory").is_some(), "it is too small");
        mapped[4 * PAGE - 1] = 5;
        assert_eq!((mapped[0], mapped[PAGE]), (0, 7));
    }

    #[test]
    fn memory_without_room_is_refused() {
        assert!(map_bodies(files(&memory(0), None)).is_err());
    }
}
