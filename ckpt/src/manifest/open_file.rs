//! One open file of the program's, and how it is opened again.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;

use super::duplicates;
use super::locks::Lock;
use super::settled_lengths;
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
    sys::own_descriptors(|fd| {
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

/// How a restore treats files.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// Cut written files back at all.
    pub is_wanted: bool,
    /// Device and inode of those to be left alone.
    pub spared: Vec<(u64, u64)>,
    /// Ranks run on other hosts, too.
    pub has_other_hosts: bool,
}

impl Cut {
    /// Whether a file is to be left alone.
    pub fn spares(&self, file: (u64, u64)) -> bool {
        !self.is_wanted || self.spared.contains(&file)
    }

    /// Whether another rank may write this file, which is open under the number `fd`. Nobody knows
    /// the files of other hosts' ranks.
    pub fn may_be_shared(&self, file: (u64, u64), fd: RawFd) -> bool {
        self.spares(file) || (self.has_other_hosts && !is_of_this_host(fd))
    }
}

/// Numbers of file systems that no other host can mount at the same time: ext2 to ext4, XFS, btrfs,
/// tmpfs, ramfs, overlayfs, F2FS, ZFS, bcachefs.
const FILE_SYSTEMS_OF_ONE_HOST: [i64; 9] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
    0xf2f5_2010,
    0x2fc1_2fc1,
    0xca45_1a4e,
];

/// Whether only processes of this host can have a file that lies where this path leads. A file
/// system that can't be asked may be one of several hosts.
pub(super) fn file_system_is_of_one_host(path: &CStr) -> bool {
    // SAFETY: the path ends with a zero byte; `statfs` is plain data that the call fills in.
    unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        libc::statfs(path.as_ptr(), &raw mut system) == 0
            && FILE_SYSTEMS_OF_ONE_HOST.contains(&system.f_type)
    }
}

/// Whether only processes of this host can have the file of this descriptor.
fn is_of_this_host(fd: RawFd) -> bool {
    // SAFETY: `statfs` is plain data that the call fills in.
    unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        libc::fstatfs(fd, &raw mut system) == 0 && FILE_SYSTEMS_OF_ONE_HOST.contains(&system.f_type)
    }
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

/// What else has to do with a descriptor.
pub(super) struct DescriptorUse {
    /// The descriptor needs no caveat, though it is no file.
    pub is_known: bool,
    /// The descriptor is that of a memory file.
    pub is_memory: bool,
    /// The descriptor was not inherited from the process that started the job.
    pub is_own: bool,
    /// The process maps the descriptor's file, to write to it.
    pub is_mapped: bool,
    /// The process maps the file to write to it, and all of its contents are in images of ranks:
    /// the file is made again with the memory.
    pub is_remade: bool,
}

/// An open file or folder.
pub(super) struct OpenFile {
    /// Number of the descriptor in this process.
    pub fd: RawFd,
    /// File system and number there.
    pub file: (u64, u64),
    /// Where it was, as the system names it. Files of `/proc` about the process itself have a name
    /// that leads every process to its own.
    pub path: String,
    /// Flags of the open file that are in [`KEPT_FLAGS`].
    pub flags: i32,
    /// The descriptor is closed when another program is executed.
    pub is_cloexec: bool,
    /// Position in the file, in bytes.
    pub offset: i64,
    /// Length of the file in bytes.
    pub length: u64,
    /// Another number of the same description, which comes earlier in the list.
    pub same_as: Option<RawFd>,
    /// The file is a regular one that this number can change.
    pub can_write: bool,
    /// The descriptor was not inherited from the process that started the job.
    pub is_own: bool,
    /// The file's memory is mapped, and written.
    pub is_mapped: bool,
    /// The file is opened when the memory is there again, and none of its contents are kept.
    pub is_remade: bool,
    /// The library undoes writes itself: a restore leaves the contents alone.
    pub is_undone: bool,
    /// Locks that this process holds on it.
    pub locks: Vec<Lock>,
}

impl OpenFile {
    /// Reads what the system knows of a descriptor; `None` if it has no position. `known` are those
    /// with smaller numbers.
    pub fn read(
        one: &Descriptor,
        found: &DescriptorUse,
        known: &[OpenFile],
        text: &mut Vec<u8>,
    ) -> Option<Self> {
        let flags = sys::control(one.fd, libc::F_GETFL, 0).ok()?;
        if flags & libc::O_PATH != 0 {
            return None;
        }
        // SAFETY: touches no memory.
        let offset = unsafe { libc::lseek(one.fd, 0, libc::SEEK_CUR) }.max(0);
        let mut first = known.iter().filter(|f| f.same_as.is_none());
        let same_as = first.find(|f| f.is_same(one, flags, offset)).map(|f| f.fd);
        let info = sys::ShortPath::new(format_args!("/proc/thread-self/fdinfo/{}", one.fd));
        let locks = match same_as {
            None if sys::read_file(info.as_c_str(), text).is_ok() => Lock::all(text),
            _ => Vec::new(),
        };
        let is_regular = one.mode & libc::S_IFMT == libc::S_IFREG;
        Some(Self {
            fd: one.fd,
            file: one.file,
            path: in_any_process(name_of(one.fd), sys::pid()),
            flags: flags & KEPT_FLAGS,
            is_cloexec: sys::control(one.fd, libc::F_GETFD, 0).is_ok_and(|f| f != 0),
            offset,
            length: one.size,
            same_as,
            can_write: is_regular && flags & libc::O_ACCMODE != libc::O_RDONLY,
            is_own: found.is_own,
            is_mapped: found.is_mapped,
            is_remade: found.is_remade,
            is_undone: settled_lengths::is_undone(one.file),
            locks,
        })
    }

    /// Whether the next write makes the file longer.
    pub fn is_at_end(&self) -> bool {
        self.appends() || self.offset as u64 == self.length
    }

    /// Whether a restore cuts it back.
    pub fn is_written(&self) -> bool {
        self.can_write && !self.is_undone && (self.is_own || self.is_at_end())
    }

    /// Whether every write through this number goes to the end of the file.
    pub fn appends(&self) -> bool {
        self.flags & libc::O_APPEND != 0
    }

    /// Whether it can be read through this number, in any pieces.
    pub fn is_readable(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_WRONLY && self.flags & libc::O_DIRECT == 0
    }

    /// Whether the process holds locks on it that end with any descriptor of the file.
    pub fn has_process_locks(&self) -> bool {
        self.locks.iter().any(Lock::is_process)
    }

    /// Whether `other` is a second number of this description.
    fn is_same(&self, other: &Descriptor, flags: i32, offset: i64) -> bool {
        self.file == other.file
            && self.flags == flags & KEPT_FLAGS
            && self.offset == offset
            && duplicates::are_one(self.fd, other.fd)
    }

    pub fn is_at_its_path(&self) -> bool {
        if self.is_about_itself() {
            return true;
        }
        let path = CString::new(self.path.as_bytes());
        path.is_ok_and(|path| sys::status_of(&path) == Ok(self.file))
    }

    /// Opens the file at the path, if it is still this one: device numbers differ between hosts,
    /// but not the file's number on a shared file system.
    pub fn open_path(&self) -> Option<RawFd> {
        if self.is_about_itself() {
            return self.open_own().ok();
        }
        let path = CString::new(self.path.as_bytes()).ok()?;
        let new = sys::open(&path, self.flags).ok()?;
        if sys::status(new).is_ok_and(|status| status.st_ino == self.file.1) {
            return Some(new);
        }
        sys::close(new);
        None
    }

    /// Whether it tells of the process that opened it. Through the description of another process,
    /// which is dead or in another state, a restored one would read nothing or something wrong.
    fn is_about_itself(&self) -> bool {
        let is_below = |root: &&str| {
            let rest = self.path.strip_prefix(*root);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        [OWN, OWN_THREAD].iter().any(is_below)
    }

    /// Opens the file of this process that tells the same.
    fn open_own(&self) -> sys::Sys<RawFd> {
        let path = CString::new(self.path.as_bytes()).map_err(|_| libc::ENOENT)?;
        sys::open(&path, self.flags)
    }

    pub fn open_again(&self) -> sys::Sys<RawFd> {
        if self.is_about_itself() {
            return self.open_own();
        }
        let link = link_of(self.fd);
        sys::open(link.as_c_str(), self.flags).or_else(|errno| match errno {
            // Only the owner may ask for it.
            libc::EPERM => sys::open(link.as_c_str(), self.flags & !libc::O_NOATIME),
            errno => Err(errno),
        })
    }

    pub fn cut_back(&self, caveats: &mut Vec<Caveat>) {
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

/// Folder of each process's own files.
const OWN: &str = "/proc/self";

/// Folder of each thread's own files. Images are restored in the first thread.
const OWN_THREAD: &str = "/proc/thread-self";

/// The name of a file of `/proc` that leads every process to its own, if the path is that of
/// process `pid` or of its first thread; otherwise the path.
fn in_any_process(path: String, pid: i32) -> String {
    let own = format!("/proc/{pid}");
    let below = |root: &str| {
        let rest = path.strip_prefix(root)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
    };
    if let Some(rest) = below(&format!("{own}/task/{pid}")) {
        return format!("{OWN_THREAD}{rest}");
    }
    below(&own).map_or_else(|| path.clone(), |rest| format!("{OWN}{rest}"))
}

/// The path of a descriptor's file, as the system names it.
pub(super) fn name_of(fd: RawFd) -> String {
    let mut buffer = [0; 512];
    let name = sys::read_link(link_of(fd).as_c_str(), &mut buffer).unwrap_or(b"?");
    String::from_utf8_lossy(name).into_owned()
}

/// `/proc/thread-self/fd/N`.
pub(super) fn link_of(fd: i32) -> sys::ShortPath {
    sys::ShortPath::new(format_args!("/proc/thread-self/fd/{fd}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_about_the_process_itself_are_known() {
        let name = |path: &str| in_any_process(path.to_owned(), 12);
        assert_eq!(name("/proc/12/status"), "/proc/self/status");
        assert_eq!(name("/proc/12"), "/proc/self");
        assert_eq!(name("/proc/12/task/12/stat"), "/proc/thread-self/stat");
        assert_eq!(name("/proc/12/task/13/stat"), "/proc/self/task/13/stat");
        for other in [
            "/proc/123/status",
            "/proc/1/maps",
            "/tmp/proc/12",
            "/proc/stat",
        ] {
            assert_eq!(name(other), other);
        }
    }

    #[test]
    fn files_that_ranks_of_other_hosts_may_have_are_known() {
        let cut = |has_other_hosts| Cut {
            is_wanted: true,
            spared: vec![(1, 2)],
            has_other_hosts,
        };
        // No file of /proc is on a disk of this host.
        let other = sys::open(c"/proc/self/maps", libc::O_RDONLY).expect("a file");
        let here = sys::open(c"/dev/shm", libc::O_RDONLY).expect("a folder");
        assert!(!cut(false).may_be_shared((1, 3), other));
        assert!(cut(true).may_be_shared((1, 3), other));
        assert!(!cut(true).may_be_shared((1, 3), here));
        assert!(cut(false).may_be_shared((1, 2), here));
        [other, here].into_iter().for_each(sys::close);
        assert!(file_system_is_of_one_host(c"/dev/shm"));
        assert!(!file_system_is_of_one_host(c"/proc/self/maps"));
        assert!(!file_system_is_of_one_host(c"/dev/shm/none"));
    }
}
