//! Open files: each restored process gets descriptions of its own, at the positions of the image.

use std::ffi::CString;
use std::os::fd::RawFd;

use serde::{Deserialize, Serialize};

use super::kept_files::{KeptFiles, Overwritten};
use super::locks::Lock;
use super::message_queues::is_message_queue;
use super::open_file::{Cut, Descriptor, DescriptorUse, OpenFile, name_of};
use super::prefix_hashes::PrefixHashes;
use crate::error::{Caveat, Refused};
use crate::sys;

/// A file that was open for writing at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Where it was, as the system names it.
    pub path: String,
    /// Number of its file system.
    pub device: u64,
    /// Number of the file in its file system. Two ranks with the same file share it: it must not be
    /// cut.
    pub inode: u64,
    /// Length of the file at the image, in bytes.
    pub length: u64,
}

/// The open files.
#[derive(Default)]
pub(crate) struct Files {
    files: Vec<OpenFile>,
    kept: KeptFiles,
    pub(crate) caveats: Vec<Caveat>,
}

impl Files {
    /// Reads them. `hashes` are those of the image before.
    ///
    /// # Errors
    /// [`Refused::Contents`] for a file with a lease: the image would open it, which breaks the
    /// lease.
    pub fn capture(
        all: &[Descriptor],
        use_of: impl Fn(&Descriptor) -> DescriptorUse,
        hashes: &mut PrefixHashes,
    ) -> Result<Self, Refused> {
        let mut files = Self::default();
        let mut text = Vec::new();
        for one in all {
            let found = use_of(one);
            match one.mode & libc::S_IFMT {
                libc::S_IFREG if found.is_memory => {}
                libc::S_IFREG if is_message_queue(one.fd) => {
                    files.mention(one, "message queue ");
                }
                libc::S_IFREG | libc::S_IFDIR => files.add(one, &found, &mut text)?,
                _ if found.is_known => {}
                _ => files.mention(one, ""),
            }
        }
        files.kept = KeptFiles::capture(&files.files, hashes);
        files.caveats.extend(files.kept.caveats());
        Ok(files)
    }

    fn add(
        &mut self,
        one: &Descriptor,
        found: &DescriptorUse,
        text: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        let Some(file) = OpenFile::read(one, found, &self.files, text) else {
            return Ok(());
        };
        if file.locks.iter().any(Lock::is_lease) {
            return Err(Refused::Contents {
                fd: one.fd,
                what: file.path,
                errno: libc::ENOLCK,
            });
        }
        if file.can_write && !file.is_own && !file.is_at_end() {
            let path = file.path.clone();
            self.caveats.push(Caveat::WrittenInPlace { path });
        }
        self.files.push(file);
        Ok(())
    }

    /// Adds a caveat for a descriptor of this kind that cannot be restored. The standard streams
    /// and ordinary devices need none.
    fn mention(&mut self, one: &Descriptor, kind: &str) {
        let major = libc::major(one.special);
        let is_plain =
            one.mode & libc::S_IFMT == libc::S_IFCHR && matches!(major, 1 | 4 | 5 | 136..=143);
        if one.fd > 2 && !is_plain {
            self.caveats.push(Caveat::Shared {
                fd: one.fd,
                what: kind.to_owned() + &name_of(one.fd),
            });
        }
    }

    /// The files that a restore cuts back.
    pub fn written(&self) -> Vec<WrittenFile> {
        let written = self
            .files
            .iter()
            .filter(|f| f.is_written() && f.same_as.is_none());
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

    /// Bytes that a restore may have to read again.
    pub fn hashed_bytes(&self) -> u64 {
        self.kept.hashed_bytes()
    }

    /// In a zygote: whether the files are as they were at the image, or can be made so.
    pub fn check_contents(&self, cut: &Cut) -> Result<(), Overwritten> {
        self.kept.check(cut)
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
        for file in self.descriptions(false) {
            let new = file.open_path().or_else(|| self.open_made(file));
            self.install(new.ok_or(file.fd)?, file);
        }
        Ok(())
    }

    /// The files, each description once: those that are made again with the program's memory, or
    /// the others.
    fn descriptions(&self, are_remade: bool) -> impl Iterator<Item = &OpenFile> {
        let own = self.files.iter().filter(|f| f.same_as.is_none());
        own.filter(move |f| f.is_remade == are_remade)
    }

    /// In a process that has none of the descriptors: keeps the numbers of files that are made
    /// again with the program's memory.
    pub fn reserve(&self, instead: RawFd) {
        for file in self.files.iter().filter(|f| f.is_remade) {
            let _ = sys::duplicate(instead, file.fd, file.is_cloexec);
        }
    }

    /// Opens files that were made again with the program's memory. `file_now` tells which file it
    /// is now.
    ///
    /// # Errors
    /// The system's, with the path: the process must not continue.
    pub fn reopen_remade(
        &self,
        cut: &Cut,
        file_now: impl Fn((u64, u64)) -> Option<(u64, u64)>,
        caveats: &mut Vec<Caveat>,
    ) -> Result<(), (i32, &str)> {
        for file in self.descriptions(true) {
            let path = CString::new(file.path.as_bytes()).map_err(|_| libc::ENOENT);
            let opened = path.and_then(|path| sys::open(&path, file.flags));
            let new = opened.map_err(|errno| (errno, &file.path[..]))?;
            let found = sys::status(new).map(|status| (status.st_dev, status.st_ino));
            if found.ok() != file_now(file.file) {
                return Err((libc::ESTALE, &file.path));
            }
            self.install(new, file);
        }
        for file in self.descriptions(true) {
            if file.is_written() && !cut.spares(file.file) {
                file.cut_back(caveats);
            }
        }
        Ok(())
    }

    /// Opens a file anew that its path no longer leads to, if its contents are in the image. They
    /// are written later.
    fn open_made(&self, file: &OpenFile) -> Option<RawFd> {
        if !self.kept.is_to_be_made(file.file) || self.kept.make(file.file).is_err() {
            return None;
        }
        let path = CString::new(file.path.as_bytes()).ok()?;
        sys::open(&path, file.flags).ok()
    }

    /// Opens all of them again, but those that are made again with the program's memory. Locks come
    /// last: closing any descriptor of a file drops the process's locks on it. Ends the process if
    /// contents can't be written back.
    pub fn restore(&self, cut: &Cut, caveats: &mut Vec<Caveat>) {
        for file in self.descriptions(false) {
            let made = (!cut.may_be_shared(file.file, file.fd)).then(|| self.open_made(file));
            match made.flatten() {
                Some(new) => self.install(new, file),
                None => self.reopen(file, caveats),
            }
        }
        if let Err((errno, path)) = self.kept.restore(cut) {
            end_process(errno, path);
        }
        for file in self.descriptions(false) {
            if file.is_written() && !cut.spares(file.file) {
                file.cut_back(caveats);
            }
        }
        self.take_locks(caveats, |file| !file.is_mapped);
    }

    /// Takes the locks on some of the files again.
    pub fn take_locks(&self, caveats: &mut Vec<Caveat>, which: impl Fn(&OpenFile) -> bool) {
        for file in self.files.iter().filter(|file| which(file)) {
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
        self.install(file.open_again()?, file);
        Ok(())
    }

    /// Puts a new description under all numbers of a file, at its position.
    fn install(&self, new: RawFd, file: &OpenFile) {
        seek(new, file.offset);
        let same = |f: &&OpenFile| f.fd == file.fd || f.same_as == Some(file.fd);
        for number in self.files.iter().filter(same) {
            let _ = sys::duplicate(new, number.fd, number.is_cloexec);
        }
        if !self.files.iter().any(|f| f.fd == new) {
            sys::close(new);
        }
    }
}

/// Ends this process with a message: a file would not be that of the image.
fn end_process(errno: i32, path: &str) -> ! {
    let why = std::io::Error::from_raw_os_error(errno);
    let text = format!("rejoin: the contents of {path} can't be written back: {why}\n");
    let _ = sys::write_all(2, text.as_bytes());
    sys::exit(1)
}

fn seek(fd: RawFd, offset: i64) {
    // SAFETY: touches no memory.
    unsafe { libc::lseek(fd, offset, libc::SEEK_SET) };
}
