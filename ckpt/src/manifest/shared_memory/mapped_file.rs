//! One file or memory that is mapped and shared: its contents, and how it is made again.

use std::ffi::{CString, c_void};
use std::os::fd::RawFd;

use super::super::description::Description;
use super::super::positioned::{read_at, write_at};
use super::other_mappers::{File, MappedPart};
use crate::error::Refused;
use crate::{proc, sys};

/// A candidate, before its contents are read.
pub(super) struct Candidate<'a> {
    pub name: &'a [u8],
    pub file: File,
    pub bytes: u64,
}

/// A mapping of the process.
#[derive(Debug, Clone, Copy)]
pub(super) struct MappedRange {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    access: i32,
}

/// Where the memory comes from.
#[derive(Debug)]
pub(super) enum Origin {
    /// Anonymous memory, or a memory file; with the name of the file.
    Memory(CString),
    /// A file, with its path.
    File(CString),
}

/// Who makes a file or memory again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    /// This process, which alone maps it.
    Alone,
    /// This rank, for all ranks that map it.
    ThisRank,
    /// Another rank of this host.
    Rank(u32),
}

/// One file or memory.
pub(super) struct SharedFile {
    pub file: File,
    pub origin: Origin,
    pub maker: Maker,
    pub ranges: Vec<MappedRange>,
    /// Numbers of a memory file, with its positions.
    pub descriptions: Vec<(Description, i64)>,
    /// Length in bytes, as far as it is known.
    pub length: u64,
    /// Permissions of a file.
    mode: u32,
    pub seals: i32,
    /// Contents, by position.
    pieces: Vec<(u64, Vec<u8>)>,
}

impl SharedFile {
    pub fn new(file: File, origin: Origin) -> Self {
        Self {
            file,
            origin,
            maker: Maker::Alone,
            ranges: Vec::new(),
            descriptions: Vec::new(),
            length: 0,
            mode: 0,
            seals: 0,
            pieces: Vec::new(),
        }
    }

    pub fn find(found: &Candidate<'_>, ranges: Vec<MappedRange>) -> Result<Self, Refused> {
        let origin = origin(found).ok_or_else(|| Refused::SharedMemory {
            bytes: found.bytes,
            name: String::from_utf8_lossy(found.name).into_owned(),
        })?;
        let mut file = Self::new(found.file, origin);
        if let Origin::File(path) = &file.origin
            && let Ok(status) = sys::path_status(path)
        {
            file.length = status.st_size as u64;
            file.mode = status.st_mode & 0o7777;
        }
        file.ranges = ranges;
        Ok(file)
    }

    pub fn name(&self) -> String {
        let (Origin::Memory(name) | Origin::File(name)) = &self.origin;
        name.to_string_lossy().into_owned()
    }

    fn bytes(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }

    pub fn refused(&self) -> Refused {
        Refused::SharedMemory {
            bytes: self.bytes(),
            name: self.name(),
        }
    }

    pub fn too_large(&self) -> Refused {
        Refused::SharedTooLarge {
            bytes: self.bytes().max(self.length),
            name: self.name(),
            is_file: matches!(self.origin, Origin::File(_)),
        }
    }

    /// Reads the contents: all of a memory file, and of a file that ranks share; the mapped parts
    /// of others. Takes their size from `left`; an error if it is too small.
    pub fn read(&mut self, memory: RawFd, left: &mut u64) -> sys::Sys<()> {
        match (&self.origin, self.maker) {
            (_, Maker::Rank(_)) => return Ok(()),
            (Origin::File(path), Maker::ThisRank) => {
                let fd = sys::open(path, libc::O_RDONLY)?;
                let read = self.read_shared(fd, left);
                sys::close(fd);
                return read;
            }
            _ => {}
        }
        if let Some((one, _)) = self.descriptions.first() {
            let path = sys::ShortPath::new(format_args!("/proc/thread-self/fd/{}", one.number()));
            // A description of its own, so that no position changes.
            let fd = sys::open(path.as_c_str(), libc::O_RDONLY)?;
            let read = self.read_file(fd, left);
            sys::close(fd);
            return read;
        }
        self.read_ranges(memory, left)
    }

    fn read_shared(&mut self, fd: RawFd, left: &mut u64) -> sys::Sys<()> {
        let status = sys::status(fd)?;
        if (status.st_dev, status.st_ino) != self.file {
            return Err(libc::ESTALE);
        }
        self.length = status.st_size as u64;
        self.read_file(fd, left)
    }

    fn read_ranges(&mut self, memory: RawFd, left: &mut u64) -> sys::Sys<()> {
        let mut ranges = self.ranges.clone();
        ranges.sort_unstable_by_key(|range| range.offset);
        let mut done = 0;
        for range in ranges {
            let skipped = done.max(range.offset) - range.offset;
            let (from, length) = (range.start + skipped, range.end - range.start);
            if skipped >= length {
                continue;
            }
            let bytes = read_at(memory, from, length - skipped, left)?;
            done = range.offset + length;
            let offset = range.offset + skipped;
            if matches!(self.origin, Origin::Memory(_)) {
                self.length = self.length.max(offset + bytes.len() as u64);
            }
            self.pieces.push((offset, bytes));
        }
        Ok(())
    }

    /// The parts of a file that are no holes.
    fn read_file(&mut self, fd: RawFd, left: &mut u64) -> sys::Sys<()> {
        let mut at = 0;
        loop {
            // SAFETY: touches no memory.
            let data = unsafe { libc::lseek(fd, at, libc::SEEK_DATA) };
            if data < 0 {
                return match sys::errno() {
                    // No data behind this position.
                    libc::ENXIO => Ok(()),
                    errno => Err(errno),
                };
            }
            // SAFETY: touches no memory.
            at = unsafe { libc::lseek(fd, data, libc::SEEK_HOLE) };
            if at <= data {
                return Err(libc::EIO);
            }
            let bytes = read_at(fd, data as u64, (at - data) as u64, left)?;
            self.pieces.push((data as u64, bytes));
        }
    }

    pub fn restore(&self) -> sys::Sys<()> {
        let fd = match &self.origin {
            Origin::Memory(name) => self.make(name)?,
            Origin::File(path) => self.open(path)?,
        };
        if self.maker == Maker::ThisRank {
            // Holes at the image are holes again.
            for length in [0, self.length] {
                // SAFETY: touches no memory.
                sys::check(unsafe { libc::ftruncate(fd, length as i64) }.into())?;
            }
        }
        for (offset, bytes) in &self.pieces {
            write_at(fd, bytes, *offset)?;
        }
        for range in &self.ranges {
            range.map(fd)?;
        }
        for (one, position) in &self.descriptions {
            let path = sys::ShortPath::new(format_args!("/proc/thread-self/fd/{fd}"));
            let new = sys::open(path.as_c_str(), one.access())?;
            // SAFETY: touches no memory.
            unsafe { libc::lseek(new, *position, libc::SEEK_SET) };
            one.install(new)?;
        }
        if self.seals & !libc::F_SEAL_SEAL != 0 {
            sys::control(fd, libc::F_ADD_SEALS, self.seals)?;
        }
        sys::close(fd);
        Ok(())
    }

    /// Maps it again. Takes over `fd`.
    pub fn map(&self, fd: RawFd) -> sys::Sys<()> {
        let mapped = self.ranges.iter().try_for_each(|range| range.map(fd));
        sys::close(fd);
        mapped
    }

    fn make(&self, name: &CString) -> sys::Sys<RawFd> {
        let seals = match self.seals == libc::F_SEAL_SEAL {
            true => 0,
            false => libc::MFD_ALLOW_SEALING,
        };
        // SAFETY: the name ends with a zero byte.
        let made = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | seals) };
        let fd = sys::check(made.into())? as RawFd;
        // SAFETY: touches no memory.
        sys::check(unsafe { libc::ftruncate(fd, self.length as i64) }.into())?;
        Ok(fd)
    }

    /// Opens the file, if it is still this one, and makes it long enough. A file that was removed
    /// since is made anew.
    fn open(&self, path: &CString) -> sys::Sys<RawFd> {
        let opened = sys::open(path, libc::O_RDWR);
        let is_gone = opened == Err(libc::ENOENT);
        let fd = match opened {
            Err(libc::ENOENT) => create(path, self.mode)?,
            opened => opened?,
        };
        let status = sys::status(fd)?;
        if !is_gone && status.st_ino != self.file.1 {
            sys::close(fd);
            return Err(libc::ESTALE);
        }
        if (status.st_size as u64) < self.length {
            // SAFETY: touches no memory.
            sys::check(unsafe { libc::ftruncate(fd, self.length as i64) }.into())?;
        }
        Ok(fd)
    }
}

impl MappedRange {
    pub fn of(mapping: &proc::Mapping<'_>) -> Self {
        let bits = [
            (mapping.read, libc::PROT_READ),
            (mapping.write, libc::PROT_WRITE),
            (mapping.execute, libc::PROT_EXEC),
        ];
        Self {
            start: mapping.start,
            end: mapping.end,
            offset: mapping.offset,
            access: bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum(),
        }
    }

    /// Where it lies in its file.
    pub fn part(&self, file: File) -> MappedPart {
        MappedPart {
            file,
            from: self.offset,
            to: self.offset + (self.end - self.start),
            writes: self.is_written(),
        }
    }

    /// Whether the program may write there.
    pub fn is_written(&self) -> bool {
        self.access & libc::PROT_WRITE != 0
    }

    pub fn reserve(&self) {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        self.place(libc::PROT_NONE, kind, -1, 0).ok();
    }

    fn map(&self, fd: RawFd) -> sys::Sys<()> {
        self.place(self.access, libc::MAP_SHARED, fd, self.offset as i64)
    }

    fn place(&self, access: i32, kind: i32, fd: RawFd, offset: i64) -> sys::Sys<()> {
        let (start, length) = (self.start as *mut c_void, (self.end - self.start) as usize);
        // SAFETY: replaces a mapping of the program's that no code of this library uses.
        let at = unsafe { libc::mmap(start, length, access, kind | libc::MAP_FIXED, fd, offset) };
        if at == libc::MAP_FAILED {
            return Err(sys::errno());
        }
        Ok(())
    }
}

fn create(path: &CString, mode: u32) -> sys::Sys<RawFd> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero byte.
    let made = unsafe { libc::open(path.as_ptr(), flags, mode) };
    sys::check(made.into()).map(|fd| fd as RawFd)
}

/// Where memory comes from; `None` if it can't be made again.
pub(super) fn origin(found: &Candidate<'_>) -> Option<Origin> {
    let name = found.name;
    if name == b"/dev/zero (deleted)" {
        return Some(Origin::Memory(c"anonymous".to_owned()));
    }
    if let Some(name) = memory_part(name) {
        return CString::new(name).ok().map(Origin::Memory);
    }
    let is_device = name.starts_with(b"/dev/") && !name.starts_with(b"/dev/shm/");
    if is_device || !name.starts_with(b"/") {
        return None;
    }
    let path = CString::new(name).ok()?;
    (sys::status_of(&path) == Ok(found.file)).then_some(Origin::File(path))
}

/// The name in `/memfd:NAME (deleted)`.
fn memory_part(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(b"/memfd:")?.strip_suffix(b" (deleted)")
}

/// The name of a memory file by one of its numbers.
pub(super) fn memory_name(fd: RawFd) -> Option<CString> {
    let link = sys::ShortPath::new(format_args!("/proc/thread-self/fd/{fd}"));
    let mut buffer = [0; 512];
    let name = sys::read_link(link.as_c_str(), &mut buffer).ok()?;
    CString::new(memory_part(name)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_can_be_made_again_is_known_by_its_name() {
        let is_known = |name: &[u8]| {
            let (file, bytes) = ((0, 0), 4096);
            origin(&Candidate { name, file, bytes }).is_some()
        };
        assert!(is_known(b"/dev/zero (deleted)") && is_known(b"/memfd:x (deleted)"));
        for name in [
            &b"/SYSV00000000 (deleted)"[..],
            b"/dev/shm/gone (deleted)",
            b"/dev/nvidia0",
            b"anon_inode:[perf_event]",
            b"/",
        ] {
            assert!(!is_known(name), "{}", String::from_utf8_lossy(name));
        }
    }
}
