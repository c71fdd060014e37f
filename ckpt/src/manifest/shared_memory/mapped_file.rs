//! One file or memory that is mapped and shared: its contents, and how it is made again.

use std::ffi::{CString, c_void};
use std::os::fd::RawFd;

use super::super::description::Description;
use super::super::open_file::file_system_is_of_one_host;
use super::super::positioned::{read_at, write_at};
use super::file_share::FileShare;
use super::new_file;
use super::other_mappers::{File, MappedPart, RankMappers};
use crate::error::{NotShared, Refused, WhyShared};
use crate::{host_barrier, proc, sys};

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

/// One file or memory.
pub(super) struct SharedFile {
    pub file: File,
    pub origin: Origin,
    /// How ranks share it, for a file.
    pub share: FileShare,
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
            share: FileShare::default(),
            ranges: Vec::new(),
            descriptions: Vec::new(),
            length: 0,
            mode: 0,
            seals: 0,
            pieces: Vec::new(),
        }
    }

    /// `None` for memory to which nobody writes.
    pub fn find(
        found: &Candidate<'_>,
        ranges: Vec<MappedRange>,
        others: &RankMappers,
    ) -> Result<Option<Self>, Refused> {
        let parts: Vec<_> = ranges.iter().map(|range| range.part(found.file)).collect();
        let (me, file) = (host_barrier::this_rank(), found.file);
        // Without its length, for the case that it needs none.
        if FileShare::find(me, &parts, others, 0).is_none() {
            return Ok(None);
        }
        let origin = origin(found).ok_or_else(|| Refused::SharedMemory {
            bytes: found.bytes,
            name: String::from_utf8_lossy(found.name).into_owned(),
            why: WhyShared::Kind,
        })?;
        let (origin, status) = origin;
        let mut one = Self::new(file, origin);
        one.ranges = ranges;
        let (Origin::File(path), Some(status)) = (&one.origin, status) else {
            return match others.of_file(file).next() {
                Some(_) => Err(one.refused(WhyShared::Nameless)),
                None => Ok(Some(one)),
            };
        };
        if host_barrier::may_have_other_hosts() && !file_system_is_of_one_host(path) {
            return Err(Refused::SharedWithHosts {
                bytes: one.bytes(),
                name: one.name(),
            });
        }
        one.length = status.st_size as u64;
        one.mode = status.st_mode & 0o7777;
        one.share = FileShare::find(me, &parts, others, one.length).unwrap_or_default();
        Ok(Some(one))
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

    pub fn refused(&self, why: WhyShared) -> Refused {
        Refused::SharedMemory {
            bytes: self.bytes(),
            name: self.name(),
            why,
        }
    }

    pub fn too_large(&self) -> Refused {
        Refused::SharedTooLarge {
            bytes: self.bytes().max(self.length),
            name: self.name(),
            is_file: matches!(self.origin, Origin::File(_)),
        }
    }

    /// Whether it is no file with a name.
    pub fn is_memory(&self) -> bool {
        matches!(self.origin, Origin::Memory(_))
    }

    /// Whether ranks of this host share it.
    pub fn is_of_ranks(&self) -> bool {
        !self.share.others.is_empty()
    }

    /// Whether it can be made anew: the images of the ranks have all of it.
    pub fn can_be_made(&self) -> bool {
        matches!(self.origin, Origin::File(_)) && self.share.is_whole
    }

    /// Reads the contents: all of a memory file, and the mapped parts of others as far as this rank
    /// saves them. Takes their size from `left`; an error if it is too small.
    pub fn read(&mut self, memory: RawFd, left: &mut u64) -> sys::Sys<()> {
        if matches!(self.origin, Origin::File(_)) {
            return self.read_saved(memory, left);
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

    /// Reads what this rank saves, through its mappings: a new descriptor of the file would end the
    /// program's locks on it.
    fn read_saved(&mut self, memory: RawFd, left: &mut u64) -> sys::Sys<()> {
        let mut rest = self.share.mine.clone();
        for range in &self.ranges {
            let part = range.part(self.file);
            for (from, to) in rest.within(part.from, part.to.min(self.length)) {
                let address = range.start + (from - range.offset);
                let bytes = read_at(memory, address, to - from, left)?;
                if bytes.len() as u64 != to - from {
                    return Err(libc::EIO);
                }
                self.pieces.push((from, bytes));
            }
            rest.remove(part.from, part.to);
        }
        Ok(())
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
            self.length = self.length.max(offset + bytes.len() as u64);
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

    /// In a runner: makes memory that is no file again.
    pub fn restore_memory(&self, name: &CString) -> sys::Sys<()> {
        let fd = self.make(name)?;
        self.write_pieces(fd)?;
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

    fn write_pieces(&self, fd: RawFd) -> sys::Sys<()> {
        let mut pieces = self.pieces.iter();
        pieces.try_for_each(|(offset, bytes)| write_at(fd, bytes, *offset))
    }

    /// Opens the file again, or makes it anew if it was removed since. Writes what this rank has of
    /// it, and maps it. Returns which file it is now.
    pub fn make_again(&self) -> Result<File, NotShared> {
        let (fd, is_new) = match self.open() {
            Err(libc::ENOENT) if self.can_be_made() => {
                (self.make_anew().map_err(self.failed())?, true)
            }
            Err(libc::ENOENT) => return Err(NotShared::Incomplete { name: self.name() }),
            opened => (opened.map_err(self.failed())?, false),
        };
        let status = sys::status(fd).map_err(self.failed())?;
        let (file, length) = ((status.st_dev, status.st_ino), status.st_size as u64);
        // By this rank, or by one that was killed before it set the mode.
        let was_made = is_new || host_barrier::remade(self.key()) == Some(file);
        // Device numbers differ between hosts.
        if !was_made && file.1 != self.file.1 {
            return Err(NotShared::Replaced { name: self.name() });
        }
        if was_made {
            // Whatever the program's `umask` is now.
            // SAFETY: touches no memory.
            unsafe { libc::fchmod(fd, self.mode) };
        }
        if length < self.length {
            if !self.can_be_made() {
                return Err(NotShared::Incomplete { name: self.name() });
            }
            // SAFETY: touches no memory.
            sys::check(unsafe { libc::ftruncate(fd, self.length as i64) }.into())
                .map_err(self.failed())?;
        }
        self.put_back(fd)?;
        Ok(file)
    }

    /// Opens the file that another rank has made again and maps, as `is_theirs` tells. Writes what
    /// this rank has of it, and maps it. Returns which file it is now.
    pub fn open_made(
        &self,
        rank: u32,
        is_theirs: impl Fn(File) -> bool,
    ) -> Result<File, NotShared> {
        let fd = self.open().map_err(self.failed())?;
        let status = sys::status(fd).map_err(self.failed())?;
        let file = (status.st_dev, status.st_ino);
        if !is_theirs(file) {
            let name = self.name();
            return Err(NotShared::Other { name, rank });
        }
        self.put_back(fd)?;
        Ok(file)
    }

    /// Writes what this rank has of the file, and maps it. Takes over `fd`.
    fn put_back(&self, fd: RawFd) -> Result<(), NotShared> {
        let mapped = self
            .write_pieces(fd)
            .and_then(|()| self.ranges.iter().try_for_each(|range| range.map(fd)));
        sys::close(fd);
        mapped.map_err(self.failed())
    }

    /// Checks that the file is as long as it was.
    pub fn check_length(&self) -> Result<(), NotShared> {
        let Origin::File(path) = &self.origin else {
            return Ok(());
        };
        let now = sys::path_status(path).map_err(self.failed())?.st_size as u64;
        match now == self.length {
            true => Ok(()),
            false => Err(NotShared::Length {
                name: self.name(),
                then: self.length,
                now,
            }),
        }
    }

    fn open(&self) -> sys::Sys<RawFd> {
        let Origin::File(path) = &self.origin else {
            return Err(libc::ENOTSUP);
        };
        // The program may permit itself more later (`mprotect`).
        match sys::open(path, libc::O_RDWR) {
            Err(libc::EACCES | libc::EPERM | libc::EROFS) => sys::open(path, libc::O_RDONLY),
            opened => opened,
        }
    }

    fn make_anew(&self) -> sys::Sys<RawFd> {
        let Origin::File(path) = &self.origin else {
            return Err(libc::ENOTSUP);
        };
        // Images of ranks name the earlier file until the next checkpoint.
        new_file::create(path, |file| host_barrier::note_remade(self.key(), file))
    }

    /// Which file it is in the images of this rank (FNV-1a of number and path).
    fn key(&self) -> u64 {
        let (Origin::Memory(name) | Origin::File(name)) = &self.origin;
        let number = self.file.1.to_le_bytes();
        let bytes = number.iter().chain(name.to_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// Why this is not there again, by the number of an error.
    pub fn failed(&self) -> impl Fn(i32) -> NotShared + '_ {
        |errno| NotShared::System {
            name: self.name(),
            errno,
        }
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

/// Where memory comes from, with the data of a file; `None` if it can't be made again.
fn origin(found: &Candidate<'_>) -> Option<(Origin, Option<libc::stat>)> {
    let name = found.name;
    if name == b"/dev/zero (deleted)" {
        return Some((Origin::Memory(c"anonymous".to_owned()), None));
    }
    if let Some(name) = memory_part(name) {
        let name = CString::new(name).ok()?;
        return Some((Origin::Memory(name), None));
    }
    let is_device = name.starts_with(b"/dev/") && !name.starts_with(b"/dev/shm/");
    // Files of the system itself, which are in no folder.
    let is_systems = name.starts_with(b"/SYSV") || name.starts_with(b"/[");
    if is_device || is_systems || !name.starts_with(b"/") {
        return None;
    }
    let file_at = |path: CString| match sys::path_status(&path) {
        Ok(data) if (data.st_dev, data.st_ino) == found.file => {
            Ok((Origin::File(path), Some(data)))
        }
        Ok(_) => Err(libc::EEXIST),
        Err(errno) => Err(errno),
    };
    let former = match (
        file_at(CString::new(name).ok()?),
        name.strip_suffix(b" (deleted)"),
    ) {
        (Ok(file), _) => return Some(file),
        (Err(_), Some(former)) => former,
        // Another process has removed the name since the kernel's list was read: a resource tracker
        // of Python does that after its process.
        (Err(libc::ENOENT), None) => name,
        (Err(_), None) => return None,
    };
    let (folder, last) = parts(former);
    // The C library makes a semaphore under a first name, which it removes when it has another.
    let other = sys::name_in(&CString::new(folder).ok()?, found.file.1);
    let other = other.and_then(|other| CString::new([folder, &other].concat()).ok());
    other.and_then(|path| file_at(path).ok()).or_else(|| {
        // Only this process has it.
        let name = CString::new(last).ok()?;
        Some((Origin::Memory(name), None))
    })
}

/// The folder of an absolute path, with the slash at its end, and the rest.
fn parts(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    path.split_at(end + 1)
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
    fn a_file_without_a_name_is_memory_and_one_with_a_second_name_is_found() {
        let folder = std::env::temp_dir().join(format!("rejoin-names-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let [first, second] = ["first", "second"].map(|name| folder.join(name));
        std::fs::write(&first, "").expect("a file");
        let file = sys::open(&c_path(&first), libc::O_RDONLY).expect("the file");
        let status = sys::status(file).expect("its data");
        let shown = first.display().to_string();
        let named = |name: &str| {
            let found = Candidate {
                name: name.as_bytes(),
                file: (status.st_dev, status.st_ino),
                bytes: 4096,
            };
            origin(&found).map(|(origin, _)| origin)
        };
        let of = || named(&format!("{shown} (deleted)")).expect("an origin");
        std::fs::rename(&first, &second).expect("renamed");
        assert!(matches!(of(), Origin::File(path) if path == c_path(&second)));
        std::fs::remove_file(&second).expect("removed");
        let is_first =
            |origin| matches!(origin, Some(Origin::Memory(name)) if name.as_c_str() == c"first");
        assert!(is_first(Some(of())));
        // It was there when the list was read.
        assert!(is_first(named(&shown)));
        // Another file of this name is another.
        std::fs::write(&first, "").expect("a file");
        assert!(matches!(of(), Origin::Memory(_)));
        assert!(named(&shown).is_none());
        sys::close(file);
        std::fs::remove_dir_all(folder).expect("removed");
    }

    fn c_path(path: &std::path::Path) -> CString {
        CString::new(path.to_str().expect("text")).expect("a path")
    }

    #[test]
    fn memory_that_can_be_made_again_is_known_by_its_name() {
        let is_known = |name: &[u8]| {
            let (file, bytes) = ((0, 0), 4096);
            origin(&Candidate { name, file, bytes }).is_some()
        };
        assert!(is_known(b"/dev/zero (deleted)") && is_known(b"/memfd:x (deleted)"));
        assert!(is_known(b"/dev/shm/gone (deleted)"));
        for name in [
            &b"/SYSV00000000 (deleted)"[..],
            b"/[aio] (deleted)",
            b"/dev/nvidia0",
            b"anon_inode:[perf_event]",
            b"/",
        ] {
            assert!(!is_known(name), "{}", String::from_utf8_lossy(name));
        }
    }
}
