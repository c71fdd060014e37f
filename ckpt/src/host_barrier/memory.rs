//! The memory of the barrier: the local manager makes it, and each rank of the host maps it.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use crate::sys;

/// Name of the barrier's memory, which is part of no image.
pub(crate) const BARRIER_MEMORY: &CStr = c"rejoin-barrier";

/// Nanoseconds of one sleep: the end of another rank wakes nobody.
const LONGEST_SLEEP: u64 = 10_000_000;
/// Files that ranks of a host may make anew between two checkpoints. Of a further one, a second
/// loss before the next checkpoint ends the job.
const MOST_REMADE: usize = 256;

/// The beginning of the memory.
#[repr(C, align(64))]
pub(super) struct BarrierHeader {
    /// Not 0: ranks of this host share memory.
    pub sharing: AtomicU32,
    /// Counts the changes of all entries; waiting ranks sleep on it.
    pub changes: AtomicU32,
    /// The newest committed checkpoint, as the manager knows it.
    pub committed: AtomicU32,
    /// Not 0: the job has ranks on other hosts.
    pub other_hosts: AtomicU32,
    /// Files that restored ranks have made anew.
    pub remade: [RemadeFile; MOST_REMADE],
}

/// A file that a restored rank has made anew: its images name the earlier one.
#[repr(C)]
pub(super) struct RemadeFile {
    /// The rank, plus 1; 0 for none. Only this rank uses the entry.
    pub owner: AtomicU32,
    /// Which file it is in the rank's images.
    pub key: AtomicU64,
    /// File system of the file, and its number there.
    pub device: AtomicU64,
    pub inode: AtomicU64,
}

/// What a rank says of itself.
#[repr(C)]
pub(super) struct Entry {
    /// Process of the rank; 0 for none.
    pub pid: AtomicI32,
    /// The generation of the process. An entry of an earlier one counts no more: all ranks of a
    /// host join before any of them goes on.
    pub generation: AtomicU32,
    /// How far the rank is with its image ([`super::Phase`]).
    pub state: AtomicU64,
    /// How far the rank is with its return ([`super::return_pass::ReturnPhase`]).
    pub back: AtomicU64,
}

pub(super) const HEADER: usize = size_of::<BarrierHeader>();
pub(super) const ENTRY: usize = size_of::<Entry>();

/// The barrier of a host, as the manager has it.
#[derive(Debug)]
pub struct BarrierMemory {
    memory: OwnedFd,
    pub(super) mapped: Mapped,
}

impl BarrierMemory {
    /// Makes one for a job of so many ranks, sealed against changes of its size.
    ///
    /// # Errors
    /// When the system gives no memory.
    pub fn new(ranks: u32) -> io::Result<Self> {
        let length = HEADER + ranks as usize * ENTRY;
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name ends with a zero byte; the descriptor is new.
        let memory = unsafe {
            let fd = libc::memfd_create(BARRIER_MEMORY.as_ptr(), flags);
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
        let mapped = Mapped::map(std::ptr::null_mut(), fd, length)?;
        // Children of the manager map it themselves.
        // SAFETY: the mapping was made here.
        unsafe { libc::madvise(mapped.address.cast(), length, libc::MADV_DONTFORK) };
        Ok(Self { memory, mapped })
    }

    /// A rank, as if it had joined, that has got so far with its return.
    #[cfg(test)]
    pub fn set_returned(&self, rank: u32, generation: u32, phase: u64) {
        self.mapped.change(rank, |entry| {
            entry.pid.store(sys::pid(), SeqCst);
            entry.generation.store(generation, SeqCst);
            entry.back.store(phase, SeqCst);
        });
    }

    /// This checkpoint is committed.
    pub fn set_committed(&self, epoch: u32) {
        self.mapped.header().committed.fetch_max(epoch, SeqCst);
    }

    /// Whether the job has ranks on other hosts. They may map files of this host that lie on a
    /// shared file system.
    pub fn set_other_hosts(&self, has_others: bool) {
        let word = &self.mapped.header().other_hosts;
        word.store(u32::from(has_others), SeqCst);
    }
}

impl AsFd for BarrierMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

impl Drop for BarrierMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and no reference to it is left.
        unsafe { libc::munmap(self.mapped.address.cast(), self.mapped.length) };
    }
}

/// A mapping of a barrier's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapped {
    pub address: *mut u8,
    /// Length of the mapping in bytes.
    pub length: usize,
}

// SAFETY: the memory is used through atomics only.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    pub fn map(at: *mut u8, fd: i32, length: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
        let kind = libc::MAP_SHARED | fixed;
        // SAFETY: a new mapping, or one in place of an earlier mapping of this module.
        let address = unsafe { libc::mmap(at.cast(), length, access, kind, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::from_raw_os_error(sys::errno()));
        }
        let address = address.cast();
        Ok(Self { address, length })
    }

    pub fn header(&self) -> &BarrierHeader {
        // SAFETY: the mapping begins with a header, which consists of atomics.
        unsafe { &*self.address.cast::<BarrierHeader>() }
    }

    pub fn entries(&self) -> &[Entry] {
        let count = (self.length - HEADER) / ENTRY;
        // SAFETY: so many entries follow the header, and they consist of atomics.
        unsafe { std::slice::from_raw_parts(self.address.add(HEADER).cast(), count) }
    }

    /// Changes the entry of a rank, and wakes those that wait for it.
    pub fn change(&self, rank: u32, change: impl FnOnce(&Entry)) {
        if let Some(entry) = self.entries().get(rank as usize) {
            change(entry);
            self.wake();
        }
    }

    pub fn wake(&self) {
        let word = &self.header().changes;
        word.fetch_add(1, SeqCst);
        let (at, wake) = (word.as_ptr(), libc::FUTEX_WAKE);
        // SAFETY: a wake touches no memory.
        unsafe { libc::syscall(libc::SYS_futex, at, wake, i32::MAX, 0, 0, 0) };
    }

    /// Sleeps until an entry changes, if none has since `seen`.
    pub fn sleep(&self, seen: u32, most: u64) {
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: most.min(LONGEST_SLEEP) as i64,
        };
        let (at, wait) = (self.header().changes.as_ptr(), libc::FUTEX_WAIT);
        // SAFETY: the word is mapped, and the pointer is to a timespec.
        unsafe { libc::syscall(libc::SYS_futex, at, wait, seen, &raw const time, 0, 0) };
    }
}
