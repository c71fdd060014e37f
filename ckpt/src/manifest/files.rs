//! Open files: each restored process gets descriptions of its own, at the positions of the image.

use std::ffi::CString;
use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use super::duplicates;
use super::locks::Lock;
use crate::error::Caveat;
use crate::sys;

/// An open descriptor of the program's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptor {
    /// Number of the descriptor.
    pub fd: RawFd,
    /// Kind and permissions.
    pub mode: u32,
    /// File system and number there.
    pub file: (u64, u64),
    /// The device's own number, for a device.
    pub special: u64,
    /// Length in bytes.
    pub size: u64,
}

/// All descriptors below `block`.
pub(crate) fn descriptors(block: RawFd) -> sys::Sys<Vec<Descriptor>> {
    let mut all = Vec::new();
    sys::numbers_in(c"/proc/thread-self/fd", |fd| {
        if fd >= block {
            return;
        }
        if let Ok(stat) = sys::status(fd) {
            all.push(Descriptor {
                fd,
                mode: stat.st_mode,
                file: (stat.st_dev, stat.st_ino),
                special: stat.st_rdev,
                size: stat.st_size as u64,
            });
        }
    })?;
    Ok(all)
}

/// A file that was open for writing at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Where it was, as the system names it.
    pub path: String,
    /// Number of its file system.
    pub device: u64,
    /// Its number there. Two ranks with the same file share it: it must not be cut.
    pub inode: u64,
    /// Its length at the image, in bytes.
    pub length: u64,
}

/// How a restore treats files.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// Cut written files back at all.
    pub is_wanted: bool,
    /// Device and inode of those to be left alone.
    pub spared: Vec<(u64, u64)>,
}

/// Flags that an open may be given again: not those that would make or empty the file.
const KEPT_FLAGS: i32 = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_DIRECT
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_NOATIME
    | libc::O_LARGEFILE
    | libc::O_DIRECTORY;

struct OpenFile {
    fd: RawFd,
    file: (u64, u64),
    path: String,
    flags: i32,
    is_cloexec: bool,
    offset: i64,
    length: u64,
    /// Another number of the same description, which comes earlier in the list.
    same_as: Option<RawFd>,
    is_written: bool,
    can_write: bool,
    locks: Vec<Lock>,
}

/// The open files.
#[derive(Default)]
pub(crate) struct Files {
    files: Vec<OpenFile>,
    pub(crate) caveats: Vec<Caveat>,
}

impl Files {
    /// Reads them. `is_known` are descriptors that are no files, but need no caveat;
    /// `is_memory` are memory files.
    pub fn capture(
        all: &[Descriptor],
        is_known: impl Fn(&Descriptor) -> bool,
        is_memory: impl Fn(&Descriptor) -> bool,
    ) -> Self {
        let mut files = Self::default();
        let mut text = Vec::new();
        for one in all {
            match one.mode & libc::S_IFMT {
                libc::S_IFREG if is_memory(one) => {}
                libc::S_IFREG | libc::S_IFDIR => files.add(one, &mut text),
                _ if is_known(one) => {}
                _ => files.mention(one),
            }
        }
        files
    }

    fn add(&mut self, one: &Descriptor, text: &mut Vec<u8>) {
        let Ok(flags) = sys::control(one.fd, libc::F_GETFL, 0) else {
            return;
        };
        if flags & libc::O_PATH != 0 {
            return; // It has no position.
        }
        let is_cloexec = sys::control(one.fd, libc::F_GETFD, 0).is_ok_and(|f| f != 0);
        // SAFETY: touches no memory.
        let offset = unsafe { libc::lseek(one.fd, 0, libc::SEEK_CUR) }.max(0);
        let is_regular = one.mode & libc::S_IFMT == libc::S_IFREG;
        let can_write = is_regular && flags & libc::O_ACCMODE != libc::O_RDONLY;
        let at_end = flags & libc::O_APPEND != 0 || offset as u64 == one.size;
        let path = name_of(one.fd);
        if can_write && !at_end {
            self.caveats
                .push(Caveat::WrittenInPlace { path: path.clone() });
        }
        let same_as = self
            .files
            .iter()
            .find(|f| f.same_as.is_none() && f.is_same(one, flags, offset));
        let same_as = same_as.map(|f| f.fd);
        let info = sys::ShortPath::new(format_args!("/proc/thread-self/fdinfo/{}", one.fd));
        let locks = match same_as {
            None if sys::read_file(info.as_c_str(), text).is_ok() => Lock::all(text),
            _ => Vec::new(),
        };
        self.files.push(OpenFile {
            fd: one.fd,
            file: one.file,
            path,
            flags: flags & KEPT_FLAGS,
            is_cloexec,
            offset,
            length: one.size,
            same_as,
            is_written: can_write && at_end,
            can_write,
            locks,
        });
    }

    /// Adds a caveat for a descriptor that cannot be restored. The standard streams and ordinary
    /// devices need none.
    fn mention(&mut self, one: &Descriptor) {
        let major = libc::major(one.special);
        let is_plain =
            one.mode & libc::S_IFMT == libc::S_IFCHR && matches!(major, 1 | 4 | 5 | 136..=143);
        if one.fd > 2 && !is_plain {
            self.caveats.push(Caveat::Shared {
                fd: one.fd,
                what: name_of(one.fd),
            });
        }
    }

    /// The files that a restore cuts back.
    pub fn written(&self) -> Vec<WrittenFile> {
        let written = self
            .files
            .iter()
            .filter(|f| f.is_written && f.same_as.is_none());
        written
            .map(|f| WrittenFile {
                path: f.path.clone(),
                device: f.file.0,
                inode: f.file.1,
                length: f.length,
            })
            .collect()
    }

    /// Every file that is open for writing.
    pub fn writable(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = self
            .files
            .iter()
            .filter(|f| f.can_write)
            .map(|f| f.file)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether this process holds locks, which another process can take once this one is dead.
    pub fn has_locks(&self) -> bool {
        self.files.iter().any(|f| !f.locks.is_empty())
    }

    /// In a clone: stops sharing open file descriptions with the rank. A lock of a shared
    /// description (`flock`) would outlast the rank's last `close` and keep other processes from
    /// the file. Returns the number of files that could not be opened anew and stay shared.
    pub fn detach(&self) -> u16 {
        let own = self.files.iter().filter(|f| f.same_as.is_none());
        let shared = own.filter(|file| self.open_anew(file).is_err()).count();
        u16::try_from(shared).unwrap_or(u16::MAX)
    }

    /// Checks that each file has a path that leads to it; otherwise its number.
    pub fn check_paths(&self) -> Result<(), RawFd> {
        let is_lost = |f: &&OpenFile| f.same_as.is_none() && !f.is_at_its_path();
        match self.files.iter().find(is_lost) {
            Some(file) => Err(file.fd),
            None => Ok(()),
        }
    }

    /// In a process that has none of the descriptors: opens each file by its path; otherwise the
    /// number of one that is not there any more.
    pub fn open_by_path(&self) -> Result<(), RawFd> {
        for file in self.files.iter().filter(|f| f.same_as.is_none()) {
            let new = file.open_path().ok_or(file.fd)?;
            seek(new, file.offset);
            let same = |f: &&OpenFile| f.fd == file.fd || f.same_as == Some(file.fd);
            for number in self.files.iter().filter(same) {
                let _ = sys::duplicate(new, number.fd, number.is_cloexec);
            }
            if !self.files.iter().any(|f| f.fd == new) {
                sys::close(new);
            }
        }
        Ok(())
    }

    /// Opens all of them again. Locks come last: closing any descriptor of a file drops the
    /// process's locks on it.
    pub fn restore(&self, cut: &Cut, caveats: &mut Vec<Caveat>) {
        for file in self.files.iter().filter(|f| f.same_as.is_none()) {
            self.reopen(file, caveats);
            if cut.is_wanted && file.is_written && !cut.spared.contains(&file.file) {
                file.cut_back(caveats);
            }
        }
        for file in &self.files {
            for lock in &file.locks {
                if let Err(errno) = lock.take(file.fd) {
                    caveats.push(Caveat::LockLost {
                        path: file.path.clone(),
                        errno,
                    });
                }
            }
        }
    }

    fn reopen(&self, file: &OpenFile, caveats: &mut Vec<Caveat>) {
        if let Err(errno) = self.open_anew(file) {
            seek(file.fd, file.offset);
            caveats.push(Caveat::NotReopened {
                path: file.path.clone(),
                errno,
            });
        }
    }

    /// Replaces a shared description, under all its numbers, with one of this process's own.
    fn open_anew(&self, file: &OpenFile) -> sys::Sys<()> {
        let new = file.open_again()?;
        seek(new, file.offset);
        let same = |f: &&OpenFile| f.fd == file.fd || f.same_as == Some(file.fd);
        for number in self.files.iter().filter(same) {
            let _ = sys::duplicate(new, number.fd, number.is_cloexec);
        }
        if new != file.fd {
            sys::close(new);
        }
        Ok(())
    }
}

impl OpenFile {
    /// Whether `other` is a second number of this description.
    fn is_same(&self, other: &Descriptor, flags: i32, offset: i64) -> bool {
        self.file == other.file
            && self.flags == flags & KEPT_FLAGS
            && self.offset == offset
            && duplicates::are_one(self.fd, other.fd)
    }

    fn is_at_its_path(&self) -> bool {
        let path = CString::new(self.path.as_bytes());
        path.is_ok_and(|path| sys::status_of(&path) == Ok(self.file))
    }

    /// Opens the file at the path, if it is still this one: device numbers differ between hosts,
    /// but not the file's number on a shared file system.
    fn open_path(&self) -> Option<RawFd> {
        let path = CString::new(self.path.as_bytes()).ok()?;
        let new = sys::open(&path, self.flags).ok()?;
        if sys::status(new).is_ok_and(|status| status.st_ino == self.file.1) {
            return Some(new);
        }
        sys::close(new);
        None
    }

    fn open_again(&self) -> sys::Sys<RawFd> {
        let link = link_of(self.fd);
        sys::open(link.as_c_str(), self.flags).or_else(|errno| match errno {
            // Only the owner may ask for it.
            libc::EPERM => sys::open(link.as_c_str(), self.flags & !libc::O_NOATIME),
            errno => Err(errno),
        })
    }

    fn cut_back(&self, caveats: &mut Vec<Caveat>) {
        let Ok(stat) = sys::status(self.fd) else {
            return;
        };
        let now = stat.st_size as u64;
        if now > self.length {
            // SAFETY: touches no memory.
            unsafe { libc::ftruncate(self.fd, self.length as i64) };
        } else if now < self.length {
            caveats.push(Caveat::Shrunk {
                path: self.path.clone(),
                then: self.length,
                now,
            });
        }
    }
}

fn seek(fd: RawFd, offset: i64) {
    // SAFETY: touches no memory.
    unsafe { libc::lseek(fd, offset, libc::SEEK_SET) };
}

fn name_of(fd: RawFd) -> String {
    let mut buffer = [0; 512];
    let name = sys::read_link(link_of(fd).as_c_str(), &mut buffer).unwrap_or(b"?");
    String::from_utf8_lossy(name).into_owned()
}

/// `/proc/thread-self/fd/N`.
fn link_of(fd: i32) -> sys::ShortPath {
    sys::ShortPath::new(format_args!("/proc/thread-self/fd/{fd}"))
}
