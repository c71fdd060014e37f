//! What an image keeps of the contents of files that are open for writing.
//!
//! A program may overwrite bytes that were there at the image. A restored process that reads them
//! would compute something else. So an image has a copy of small files, which a restored process
//! writes back. Of larger ones it has a hash, by which a restore finds out that they were
//! overwritten; then it is refused. Bytes that were appended since are cut off.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;

use super::open_file::{Cut, OpenFile, link_of};
use super::positioned::{read_at, read_once, write_at};
use super::prefix_hashes::{HashBudget, PrefixHashes, is_prefix};
use super::settled_lengths::settled_length;
use crate::error::Caveat;
use crate::sys;

/// Most bytes of all copies in an image.
const MOST_COPIED: u64 = 16 << 20;

/// Bytes that are compared at once.
const STEP: usize = 64 << 10;

/// Nanoseconds after which the time of a change is certainly an earlier one than that of the next
/// change.
const SETTLED: i128 = 100_000_000;

/// When a file was changed, as far as the file system tells.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Times {
    contents: (i64, i64),
    status: (i64, i64),
}

impl Times {
    fn of(status: &libc::stat) -> Self {
        Self {
            contents: (status.st_mtime, status.st_mtime_nsec),
            status: (status.st_ctime, status.st_ctime_nsec),
        }
    }

    /// Whether a change from now on shows in the times.
    fn are_settled(&self) -> bool {
        let nanoseconds = |(s, ns): (i64, i64)| i128::from(s) * 1_000_000_000 + i128::from(ns);
        let last = nanoseconds(self.contents).max(nanoseconds(self.status));
        sys::real_time() - last > SETTLED
    }
}

/// What is kept of the contents.
enum Kept {
    /// All bytes.
    Copy(Vec<u8>),
    /// The hash of all bytes.
    Hash(u128),
    /// Nothing but the times of the last change.
    Times,
}

/// A file that is open for writing.
struct KeptFile {
    file: (u64, u64),
    /// One of the numbers under which the file is open.
    fd: RawFd,
    path: String,
    /// So many bytes are kept: all, unless ranks write to the file together.
    length: u64,
    mode: u32,
    times: Times,
    /// A write in the same moment as the image could have the same times.
    is_settled: bool,
    /// The program can only append to it.
    is_appended: bool,
    /// The file's path led to it at the image.
    is_at_path: bool,
    kept: Kept,
}

/// All files that are kept.
#[derive(Default)]
pub(super) struct KeptFiles {
    files: Vec<KeptFile>,
}

/// Why a file is not as it was at the image, and can't be made so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overwritten {
    /// A number under which the program has it.
    pub fd: RawFd,
    /// Several ranks may have it open for writing. Their images are not of the same moment.
    pub is_shared: bool,
}

impl KeptFiles {
    /// Reads what is to be kept. No file of `/proc` or `/sys` is kept: what they show is no
    /// contents.
    pub fn capture(files: &[OpenFile], hashes: &mut PrefixHashes) -> Self {
        let mut all = Self::default();
        let is_kept = |f: &&OpenFile| f.can_write && f.is_own && !f.is_remade && !f.is_undone;
        for open in files.iter().filter(is_kept) {
            match all.files.iter_mut().find(|known| known.file == open.file) {
                Some(known) => known.is_appended &= open.appends(),
                None => all.files.extend(KeptFile::find(open)),
            }
        }
        // Those that are most likely overwritten come first, then the smallest.
        all.files.sort_by_key(|f| (f.is_appended, f.length));
        let (mut room, mut budget) = (MOST_COPIED, HashBudget::default());
        all.files.retain_mut(|one| {
            let Some(fd) = one.readable(files) else {
                return true;
            };
            let is_ordinary = one.keep(fd, &mut room, &mut budget, hashes);
            if !files.iter().any(|open| open.fd == fd) {
                sys::close(fd);
            }
            is_ordinary
        });
        hashes.forget_unused();
        all
    }

    /// What the user should know of files of which nothing is kept.
    pub fn caveats(&self) -> impl Iterator<Item = Caveat> + '_ {
        let unknown = |f: &&KeptFile| matches!(f.kept, Kept::Times) && !f.is_appended;
        self.files.iter().filter(unknown).map(|f| Caveat::NotKept {
            path: f.path.clone(),
        })
    }

    /// Bytes that a restore may have to read again.
    pub fn hashed_bytes(&self) -> u64 {
        let hashed = self.files.iter();
        let hashed = hashed.filter(|f| matches!(f.kept, Kept::Hash(_)));
        hashed.map(|f| f.length).sum()
    }

    /// In a zygote, before it makes a runner: whether each file is as it was at the image, or can
    /// be made so.
    pub fn check(&self, cut: &Cut) -> Result<(), Overwritten> {
        for one in &self.files {
            let is_shared = cut.may_be_shared(one.file, one.fd);
            if !one.can_be_restored(is_shared) {
                let fd = one.fd;
                return Err(Overwritten { fd, is_shared });
            }
        }
        Ok(())
    }

    /// Whether a file is copied, and its path, which led to it at the image, leads elsewhere now.
    /// A restored process makes it anew: a program that writes a new file and then renames it finds
    /// it again.
    pub fn is_to_be_made(&self, file: (u64, u64)) -> bool {
        let is_this = |f: &&KeptFile| f.file == file && f.is_at_path;
        let found = self.files.iter().find(is_this);
        found.is_some_and(|f| matches!(f.kept, Kept::Copy(_)) && !f.is_still_at_path())
    }

    /// Makes the file at its path if there is none.
    pub fn make(&self, file: (u64, u64)) -> sys::Sys<()> {
        match self.files.iter().find(|f| f.file == file) {
            Some(file) => file.make(),
            None => Ok(()),
        }
    }

    /// In a runner, whose files are open again: writes the copies back.
    ///
    /// # Errors
    /// The system's, with the file: the process must not continue.
    pub fn restore(&self, cut: &Cut) -> Result<(), (i32, &str)> {
        let alone = |f: &&KeptFile| !cut.may_be_shared(f.file, f.fd);
        for one in self.files.iter().filter(alone) {
            if let Kept::Copy(bytes) = &one.kept {
                one.write_back(bytes)
                    .map_err(|errno| (errno, &one.path[..]))?;
            }
        }
        Ok(())
    }
}

impl KeptFile {
    fn find(open: &OpenFile) -> Option<Self> {
        let status = sys::status(open.fd).ok()?;
        let times = Times::of(&status);
        let mut one = Self {
            file: open.file,
            fd: open.fd,
            path: open.path.clone(),
            length: settled_length(open.file, status.st_size as u64),
            mode: status.st_mode & 0o7777,
            times,
            is_settled: times.are_settled(),
            is_appended: open.appends(),
            is_at_path: false,
            kept: Kept::Times,
        };
        // A mapped file is made again together with its memory.
        one.is_at_path = !open.is_mapped && one.is_still_at_path();
        Some(one)
    }

    fn is_still_at_path(&self) -> bool {
        let status = self.c_path().and_then(|path| sys::path_status(&path).ok());
        // Device numbers differ between hosts.
        status.is_some_and(|status| status.st_ino == self.file.1)
    }

    fn c_path(&self) -> Option<CString> {
        CString::new(self.path.as_bytes()).ok()
    }

    /// A descriptor for reading: the program's own, or a new one. The end of a new one would drop
    /// the process's locks on the file.
    fn readable(&self, files: &[OpenFile]) -> Option<RawFd> {
        let mut all = files.iter().filter(|f| f.file == self.file);
        if let Some(own) = all.clone().find(|f| f.is_readable()) {
            return Some(own.fd);
        }
        if all.any(OpenFile::has_process_locks) {
            return None;
        }
        sys::open(link_of(self.fd).as_c_str(), libc::O_RDONLY).ok()
    }

    /// Reads what is to be kept; `false` for a file that is shorter than it says.
    fn keep(
        &mut self,
        fd: RawFd,
        room: &mut u64,
        budget: &mut HashBudget,
        hashes: &mut PrefixHashes,
    ) -> bool {
        if self.length <= *room {
            if let Ok(bytes) = read_at(fd, 0, self.length, room) {
                let is_ordinary = bytes.len() as u64 == self.length;
                self.kept = Kept::Copy(bytes);
                return is_ordinary;
            }
        } else if let Some(hash) = hashes.hash(self.file, fd, self.length, budget) {
            self.kept = Kept::Hash(hash);
        }
        true
    }

    fn can_be_restored(&self, is_shared: bool) -> bool {
        let Ok(status) = sys::status(self.fd) else {
            return false;
        };
        let is_long_enough = status.st_size as u64 >= self.length;
        let is_untouched = self.is_settled
            && Times::of(&status) == self.times
            && status.st_size as u64 == self.length;
        match &self.kept {
            Kept::Copy(bytes) if is_shared => is_long_enough && self.is_equal(bytes),
            Kept::Copy(bytes) => self.opens_for_writing() || self.is_equal(bytes),
            Kept::Hash(hash) => is_untouched || (is_long_enough && self.has_prefix(*hash)),
            Kept::Times => is_untouched || (self.is_appended && is_long_enough),
        }
    }

    fn has_prefix(&self, hash: u128) -> bool {
        self.with_open(libc::O_RDONLY, |fd| is_prefix(fd, self.length, hash))
            .unwrap_or(false)
    }

    fn is_equal(&self, bytes: &[u8]) -> bool {
        let equal = |fd| Ok(differences(fd, bytes).all(|piece| piece.is_none()));
        self.with_open(libc::O_RDONLY, equal).unwrap_or(false)
    }

    fn opens_for_writing(&self) -> bool {
        self.with_open(libc::O_RDWR, |_| Ok(())).is_ok()
    }

    /// Opens the file once more. There are no locks yet that a close would drop.
    fn with_open<T>(&self, flags: i32, act: impl FnOnce(RawFd) -> sys::Sys<T>) -> sys::Sys<T> {
        let fd = sys::open(link_of(self.fd).as_c_str(), flags)?;
        let result = act(fd);
        sys::close(fd);
        result
    }

    fn make(&self) -> sys::Sys<()> {
        let path = self.c_path().ok_or(libc::ENOENT)?;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC;
        create(&path, flags, self.mode).map(sys::close)
    }

    /// Writes what differs, and no more: other programs may watch the file.
    fn write_back(&self, bytes: &[u8]) -> sys::Sys<()> {
        let length = sys::status(self.fd)?.st_size as u64;
        if length == self.length && self.is_equal(bytes) {
            return Ok(());
        }
        self.with_open(libc::O_RDWR, |fd| {
            for piece in differences(fd, bytes).flatten() {
                let end = (piece + STEP).min(bytes.len());
                write_at(fd, &bytes[piece..end], piece as u64)?;
            }
            if length != self.length {
                // SAFETY: touches no memory.
                sys::check(unsafe { libc::ftruncate(fd, self.length as i64) }.into())?;
            }
            Ok(())
        })
    }
}

/// For each piece of `bytes`, its position if the file has others there.
fn differences(fd: RawFd, bytes: &[u8]) -> impl Iterator<Item = Option<usize>> {
    let mut buffer = vec![0; STEP];
    let pieces = bytes.chunks(STEP).enumerate();
    pieces.map(move |(number, piece)| {
        let at = number * STEP;
        (!is_there(fd, piece, at as u64, &mut buffer)).then_some(at)
    })
}

/// Whether the file has these bytes at this position.
fn is_there(fd: RawFd, piece: &[u8], position: u64, buffer: &mut [u8]) -> bool {
    let mut done = 0;
    while done < piece.len() {
        let room = &mut buffer[..piece.len() - done];
        match read_once(fd, room, position + done as u64, false) {
            Ok(count) if count > 0 && room[..count] == piece[done..done + count] => done += count,
            _ => return false,
        }
    }
    true
}

fn create(path: &CStr, flags: i32, mode: u32) -> sys::Sys<RawFd> {
    // SAFETY: the path ends with a zero byte.
    sys::check(unsafe { libc::open(path.as_ptr(), flags, mode) }.into()).map(|fd| fd as RawFd)
}
