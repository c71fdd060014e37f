//! Writable memory of a shared kind that no other process maps: anonymous shared memory, memory
//! files (`memfd_create`), and files.
//!
//! A clone would see what its process writes there later. So an image has a copy of the contents.
//! The zygote gives the memory up, and a restored process makes it anew or writes the copy back.

use std::ffi::{CString, c_void};
use std::ops::Range;
use std::os::fd::RawFd;

use super::description::Description;
use super::open_file::Descriptor;
use super::positioned::{read_at, write_at};
use crate::error::Refused;
use crate::{anonymous, proc, sys};

/// Most bytes of all copies.
const MOST_BYTES: u64 = 1 << 30;

/// Identity of a file: its file system and its number there.
type File = (u64, u64);

/// A mapping of the process.
#[derive(Debug, Clone, Copy)]
struct MappedRange {
    start: u64,
    end: u64,
    offset: u64,
    access: i32,
}

/// Where the memory comes from.
enum Origin {
    /// Anonymous memory, or a memory file; with the name of the file.
    Memory(CString),
    /// A file, with its path.
    File(CString),
}

/// One file or memory.
struct SharedFile {
    file: File,
    origin: Origin,
    ranges: Vec<MappedRange>,
    /// Numbers of a memory file, with its positions.
    descriptions: Vec<(Description, i64)>,
    /// Length in bytes, as far as it is known.
    length: u64,
    /// Permissions of a file.
    mode: u32,
    seals: i32,
    /// Contents, by position.
    pieces: Vec<(u64, Vec<u8>)>,
}

/// All of them.
#[derive(Default)]
pub(crate) struct SharedMemory {
    files: Vec<SharedFile>,
}

/// The mappings of the process.
pub(crate) struct MappedMemory<'a> {
    /// The kernel's list.
    pub text: &'a [u8],
    /// The page that this library shares with its manager.
    pub page: Option<Range<usize>>,
}

impl MappedMemory<'_> {
    /// Whether a mapping is this library's.
    fn is_ours(&self, mapping: &proc::Mapping<'_>) -> bool {
        let (from, to) = (mapping.start, mapping.end);
        let within = |page: &Range<usize>| page.start as u64 <= from && to <= page.end as u64;
        anonymous::is_link_memory(mapping.name) || self.page.as_ref().is_some_and(within)
    }
}

/// Ends this process with a message: its memory would not be that of the image.
pub(super) fn end_process(errno: i32) -> ! {
    let text = sys::ShortPath::new(format_args!(
        "rejoin: shared memory can't be made again: error {errno}\n"
    ));
    let _ = sys::write_all(2, text.as_c_str().to_bytes());
    sys::exit(1)
}

/// A candidate, before its contents are read.
struct Found<'a> {
    name: &'a [u8],
    file: File,
    bytes: u64,
}

impl SharedMemory {
    /// Reads them. `is_other` are descriptors that do not belong to the program alone.
    ///
    /// # Errors
    /// [`Refused::SharedMemory`] for memory that another process maps, or that can't be made again.
    pub fn capture(
        maps: &MappedMemory<'_>,
        all: &[Descriptor],
        is_other: impl Fn(&Descriptor) -> bool,
    ) -> Result<Self, Refused> {
        let mappings: Vec<_> = proc::lines(maps.text)
            .filter_map(proc::mapping)
            .filter(|mapping| mapping.shared && !maps.is_ours(mapping))
            .collect();
        let mut shared = Self::default();
        for mapping in mappings.iter().filter(|mapping| mapping.write) {
            let found = Found {
                name: mapping.name,
                file: (mapping.device, mapping.inode),
                bytes: mapping.end - mapping.start,
            };
            if shared.has(found.file) {
                continue;
            }
            let of_file = |m: &&proc::Mapping<'_>| (m.device, m.inode) == found.file;
            let ranges = mappings
                .iter()
                .filter(of_file)
                .map(MappedRange::of)
                .collect();
            shared.files.push(SharedFile::find(&found, ranges)?);
        }
        shared.add_descriptors(all, is_other);
        if let Some(file) = shared.files.iter().find(|file| !file.ranges.is_empty())
            && let Some(elsewhere) = shared.mapped_elsewhere()
        {
            let file = shared
                .files
                .iter()
                .find(|f| f.file == elsewhere)
                .unwrap_or(file);
            return Err(file.refused());
        }
        shared.read()?;
        Ok(shared)
    }

    /// Whether a file or memory is one of these.
    pub fn has(&self, file: File) -> bool {
        self.files.iter().any(|known| known.file == file)
    }

    /// Adds the numbers of memory files, and those files that are not mapped.
    fn add_descriptors(&mut self, all: &[Descriptor], is_other: impl Fn(&Descriptor) -> bool) {
        let is_file = |d: &Descriptor| d.mode & libc::S_IFMT == libc::S_IFREG;
        let is_regular = |d: &&Descriptor| is_file(d) && !is_other(d);
        for one in all.iter().filter(is_regular) {
            let Some(name) = memory_name(one.fd) else {
                continue;
            };
            let known = self.files.iter().position(|known| known.file == one.file);
            let at = known.unwrap_or(self.files.len());
            if known.is_none() {
                self.files
                    .push(SharedFile::new(one.file, Origin::Memory(name)));
            }
            if !self.files[at].descriptions.is_empty() {
                continue;
            }
            let same: Vec<_> = all.iter().filter(|d| d.file == one.file).collect();
            let position = |one: Description| {
                // SAFETY: touches no memory.
                let position = unsafe { libc::lseek(one.number(), 0, libc::SEEK_CUR) };
                (one, position.max(0))
            };
            let descriptions = Description::all(&same).into_iter().map(position);
            self.files[at].descriptions = descriptions.collect();
            self.files[at].length = one.size;
            self.files[at].seals = sys::control(one.fd, libc::F_GET_SEALS, 0).unwrap_or(0);
        }
    }

    /// Whether a descriptor is one of these.
    pub fn holds(&self, fd: RawFd) -> bool {
        let mut all = self.files.iter().flat_map(|file| &file.descriptions);
        all.any(|(one, _)| one.has(fd))
    }

    /// The first file of which another process maps the same part. A stopped process does not
    /// count: it takes no image, or it is an earlier instance of this rank.
    fn mapped_elsewhere(&self) -> Option<File> {
        let (me, mut found) = (sys::pid(), None);
        let mut text = Vec::new();
        let _ = sys::numbers_in(c"/proc", |pid| {
            if pid == me || found.is_some() {
                return;
            }
            let path = sys::ShortPath::new(format_args!("/proc/{pid}/maps"));
            if sys::read_file(path.as_c_str(), &mut text).is_err() {
                return; // Of another user, or gone.
            }
            let mut theirs = proc::lines(&text).filter_map(proc::mapping);
            let same = theirs.find(|m| m.shared && self.overlaps(m));
            let same = same.map(|m| (m.device, m.inode));
            drop(theirs);
            if same.is_some() && !is_stopped(pid, &mut text) {
                found = same;
            }
        });
        found
    }

    fn overlaps(&self, theirs: &proc::Mapping<'_>) -> bool {
        let (from, to) = (theirs.offset, theirs.offset + theirs.end - theirs.start);
        let file = |f: &&SharedFile| f.file == (theirs.device, theirs.inode);
        let mut ranges = self.files.iter().filter(file).flat_map(|f| &f.ranges);
        ranges.any(|r| r.offset < to && from < r.offset + (r.end - r.start))
    }

    fn read(&mut self) -> Result<(), Refused> {
        if self.files.is_empty() {
            return Ok(());
        }
        let mut left = MOST_BYTES;
        let memory = sys::open(c"/proc/thread-self/mem", libc::O_RDONLY)
            .map_err(|errno| Refused::system("open /proc/thread-self/mem", errno))?;
        let mut result = Ok(());
        for file in &mut self.files {
            if file.read(memory, &mut left).is_err() {
                result = Err(file.too_large());
                break;
            }
        }
        sys::close(memory);
        result
    }

    /// In the zygote: gives the memory up, and keeps its addresses. `instead` takes the numbers.
    pub fn release(&self, instead: RawFd) {
        for file in &self.files {
            for range in &file.ranges {
                range.reserve();
            }
            for (one, _) in &file.descriptions {
                // The number is open, so this replaces it and cannot run out of anything.
                let _ = one.put(instead);
            }
        }
    }

    /// In the zygote made from a file, whose addresses are kept already.
    pub fn reserve(&self, instead: RawFd) {
        let all = self.files.iter().flat_map(|file| &file.descriptions);
        for (one, _) in all {
            let _ = one.put(instead);
        }
    }

    /// In a runner: makes the memory again, and writes the contents of files back.
    pub fn restore(&self) -> sys::Sys<()> {
        self.files.iter().try_for_each(SharedFile::restore)
    }
}

impl SharedFile {
    fn new(file: File, origin: Origin) -> Self {
        Self {
            file,
            origin,
            ranges: Vec::new(),
            descriptions: Vec::new(),
            length: 0,
            mode: 0,
            seals: 0,
            pieces: Vec::new(),
        }
    }

    fn find(found: &Found<'_>, ranges: Vec<MappedRange>) -> Result<Self, Refused> {
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

    fn name(&self) -> String {
        let (Origin::Memory(name) | Origin::File(name)) = &self.origin;
        name.to_string_lossy().into_owned()
    }

    fn bytes(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.end - range.start)
            .sum()
    }

    fn refused(&self) -> Refused {
        Refused::SharedMemory {
            bytes: self.bytes(),
            name: self.name(),
        }
    }

    fn too_large(&self) -> Refused {
        Refused::SharedTooLarge {
            bytes: self.bytes().max(self.length),
            name: self.name(),
            is_file: matches!(self.origin, Origin::File(_)),
        }
    }

    /// Reads the contents: all of a memory file, the mapped parts of others. Takes their size from
    /// `left`; an error if it is too small.
    fn read(&mut self, memory: RawFd, left: &mut u64) -> sys::Sys<()> {
        if let Some((one, _)) = self.descriptions.first() {
            return self.read_file(one.number(), left);
        }
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

    /// The parts of a memory file that are no holes.
    fn read_file(&mut self, number: RawFd, left: &mut u64) -> sys::Sys<()> {
        let path = sys::ShortPath::new(format_args!("/proc/thread-self/fd/{number}"));
        // A description of its own, so that no position changes.
        let fd = sys::open(path.as_c_str(), libc::O_RDONLY)?;
        let mut at = 0;
        let result = loop {
            // SAFETY: touches no memory.
            let data = unsafe { libc::lseek(fd, at, libc::SEEK_DATA) };
            if data < 0 {
                break Ok(());
            }
            // SAFETY: touches no memory.
            at = unsafe { libc::lseek(fd, data, libc::SEEK_HOLE) };
            if at <= data {
                break Err(libc::EIO);
            }
            match read_at(fd, data as u64, (at - data) as u64, left) {
                Ok(bytes) => self.pieces.push((data as u64, bytes)),
                Err(errno) => break Err(errno),
            }
        };
        sys::close(fd);
        result
    }

    fn restore(&self) -> sys::Sys<()> {
        let fd = match &self.origin {
            Origin::Memory(name) => self.make(name)?,
            Origin::File(path) => self.open(path)?,
        };
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
    fn of(mapping: &proc::Mapping<'_>) -> Self {
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

    fn reserve(&self) {
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
fn origin(found: &Found<'_>) -> Option<Origin> {
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
fn memory_name(fd: RawFd) -> Option<CString> {
    let link = sys::ShortPath::new(format_args!("/proc/thread-self/fd/{fd}"));
    let mut buffer = [0; 512];
    let name = sys::read_link(link.as_c_str(), &mut buffer).ok()?;
    CString::new(memory_part(name)?).ok()
}

fn is_stopped(pid: i32, text: &mut Vec<u8>) -> bool {
    let path = sys::ShortPath::new(format_args!("/proc/{pid}/status"));
    let read = sys::read_file(path.as_c_str(), text);
    read.is_ok() && proc::field(text, "State:").is_some_and(|state| state.starts_with(b"T"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_own_shared_memory_is_known() {
        let is_ours = |line: &[u8], page| {
            let maps = MappedMemory { text: line, page };
            maps.is_ours(&proc::mapping(line).expect("a mapping"))
        };
        let file = b"3000-5000 rw-s 00000000 00:01 2 /dev/shm/a b";
        assert!(!is_ours(file, None));
        assert!(is_ours(file, Some(0x3000..0x5000)));
        assert!(!is_ours(file, Some(0x3000..0x4000)));
        let ring = b"1000-2000 rw-s 00000000 00:01 9 /memfd:rejoin-ring (deleted)";
        assert!(is_ours(ring, None));
        let other = b"1000-2000 rw-s 00000000 00:01 9 /memfd:ring (deleted)";
        assert!(!is_ours(other, None));
    }

    #[test]
    fn memory_that_can_be_made_again_is_known_by_its_name() {
        let is_known = |name: &[u8]| {
            let (file, bytes) = ((0, 0), 4096);
            origin(&Found { name, file, bytes }).is_some()
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
