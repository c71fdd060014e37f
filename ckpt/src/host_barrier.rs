//! Ranks of one host that share memory take their images together.
//!
//! A rank that finds memory which another rank maps, too, announces that. From then on each rank of
//! the host that takes an image waits at a barrier until all of them are parked. The contents of
//! the memory are read then, and no rank continues before that is done. So the contents match all
//! images of the epoch.
//!
//! The barrier lies in memory of the local manager, which each rank maps. A rank that waits is at
//! its safe point, where no other rank needs it. Every wait is bounded. If some rank is late, all
//! of them refuse the image, and the next request tries it again.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use crate::error::Refused;
use crate::sys;

/// Name of the barrier's memory, which is part of no image.
pub(crate) const BARRIER_MEMORY: &CStr = c"rejoin-barrier";

/// Nanoseconds for which a parked rank waits at most for the others to be parked.
const PARKED_IN: u64 = 1_000_000_000;
/// Nanoseconds for which a parked rank waits at most for the contents to be read.
const READ_IN: u64 = 10_000_000_000;
/// Nanoseconds of one sleep: the end of another rank wakes nobody.
const LONGEST_SLEEP: u64 = 10_000_000;

/// The beginning of the memory.
#[repr(C, align(64))]
struct Header {
    /// Not 0: ranks of this host share memory.
    sharing: AtomicU32,
    /// Counts the changes of all entries; waiting ranks sleep on it.
    changes: AtomicU32,
    /// The newest committed checkpoint, as the manager knows it.
    committed: AtomicU32,
}

/// What a rank says of itself.
#[repr(C)]
struct Entry {
    /// Its process; 0 for none.
    pid: AtomicI32,
    /// The [`Phase`] of the rank in the lowest byte, and the epoch above that.
    state: AtomicU64,
}

const HEADER: usize = size_of::<Header>();
const ENTRY: usize = size_of::<Entry>();

/// How far a rank is with its image of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Its threads are parked.
    Parked = 1,
    /// It has read what it has to.
    Ready = 2,
    /// It takes no image.
    Failed = 3,
    /// It took its image without waiting for others.
    Alone = 4,
}

fn state(epoch: u32, phase: Phase) -> u64 {
    u64::from(epoch) << 8 | phase as u64
}

/// The barrier of a host, as the manager has it.
#[derive(Debug)]
pub struct BarrierMemory {
    memory: OwnedFd,
    mapped: Mapped,
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

    /// This checkpoint is committed.
    pub fn set_committed(&self, epoch: u32) {
        self.mapped.header().committed.fetch_max(epoch, SeqCst);
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
struct Mapped {
    address: *mut u8,
    /// Its length in bytes.
    length: usize,
}

// SAFETY: the memory is used through atomics only.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn map(at: *mut u8, fd: i32, length: usize) -> io::Result<Self> {
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

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header, which consists of atomics.
        unsafe { &*self.address.cast::<Header>() }
    }

    fn entries(&self) -> &[Entry] {
        let count = (self.length - HEADER) / ENTRY;
        // SAFETY: so many entries follow the header, and they consist of atomics.
        unsafe { std::slice::from_raw_parts(self.address.add(HEADER).cast(), count) }
    }

    fn set(&self, rank: u32, state: u64) {
        if let Some(entry) = self.entries().get(rank as usize) {
            entry.state.store(state, SeqCst);
            self.wake();
        }
    }

    fn wake(&self) {
        let word = &self.header().changes;
        word.fetch_add(1, SeqCst);
        let (at, wake) = (word.as_ptr(), libc::FUTEX_WAKE);
        // SAFETY: a wake touches no memory.
        unsafe { libc::syscall(libc::SYS_futex, at, wake, i32::MAX, 0, 0, 0) };
    }

    /// Sleeps until an entry changes, if none has since `seen`.
    fn sleep(&self, seen: u32, most: u64) {
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: most.min(LONGEST_SLEEP) as i64,
        };
        let (at, wait) = (self.header().changes.as_ptr(), libc::FUTEX_WAIT);
        // SAFETY: the word is mapped, and the pointer is to a timespec.
        unsafe { libc::syscall(libc::SYS_futex, at, wait, seen, &raw const time, 0, 0) };
    }
}

/// The mapping of this process; null for none.
static JOINED: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// Its length in bytes.
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// The rank that this process is.
static RANK: AtomicU32 = AtomicU32::new(0);

fn joined() -> Option<Mapped> {
    let (address, length) = (JOINED.load(Acquire), LENGTH.load(Relaxed));
    (!address.is_null()).then_some(Mapped { address, length })
}

/// Makes this process take part in the barrier as this rank. A restored process calls it again, for
/// the memory of its manager.
///
/// # Errors
/// When the memory can't be mapped, or has no place for the rank. Memory that the rank shares with
/// others then refuses its images.
pub fn join(memory: BorrowedFd<'_>, rank: u32) -> io::Result<()> {
    let status = sys::status(memory.as_raw_fd()).map_err(io::Error::from_raw_os_error)?;
    let length = usize::try_from(status.st_size).unwrap_or(0);
    let before = joined();
    if length < HEADER + (rank as usize + 1) * ENTRY {
        JOINED.store(std::ptr::null_mut(), SeqCst);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such rank"));
    }
    let at = before.filter(|before| before.length == length);
    let at = at.map_or(std::ptr::null_mut(), |before| before.address);
    JOINED.store(std::ptr::null_mut(), SeqCst);
    let mapped = Mapped::map(at, memory.as_raw_fd(), length)?;
    let entry = &mapped.entries()[rank as usize];
    entry.state.store(0, SeqCst);
    entry.pid.store(sys::pid(), SeqCst);
    RANK.store(rank, Relaxed);
    LENGTH.store(length, Relaxed);
    JOINED.store(mapped.address, SeqCst);
    Ok(())
}

/// Nobody waits for this process any more: it takes no further image.
pub fn leave() {
    if let Some(mapped) = joined() {
        JOINED.store(std::ptr::null_mut(), SeqCst);
        if let Some(entry) = mapped.entries().get(RANK.load(Relaxed) as usize) {
            entry.pid.store(0, SeqCst);
            mapped.wake();
        }
        // SAFETY: the mapping was made by `join`, and no reference to it is left.
        unsafe { libc::munmap(mapped.address.cast(), mapped.length) };
    }
}

/// This process takes no image of the epoch, so the others need not wait for it. They then take
/// none, either; so this process first says why.
pub fn fail(epoch: u32) {
    if let Some(mapped) = joined() {
        mapped.set(RANK.load(Relaxed), state(epoch, Phase::Failed));
    }
}

/// This process was restored from a checkpoint of this epoch, which therefore is committed.
pub fn note_committed(epoch: u32) {
    if let Some(mapped) = joined() {
        mapped.header().committed.fetch_max(epoch, SeqCst);
    }
}

/// Ranks of this host share memory: all of them wait for each other from now on.
pub(crate) fn announce_sharing() {
    if let Some(mapped) = joined() {
        mapped.header().sharing.store(1, SeqCst);
    }
}

/// Whether ranks of this host are known to share memory.
pub(crate) fn is_sharing() -> bool {
    joined().is_some_and(|mapped| mapped.header().sharing.load(SeqCst) != 0)
}

/// The newest committed checkpoint; 0 if none is known.
pub(crate) fn committed() -> u32 {
    joined().map_or(0, |mapped| mapped.header().committed.load(SeqCst))
}

/// The other ranks of this host, with their processes.
pub(crate) fn others() -> Vec<(u32, i32)> {
    let Some(mapped) = joined() else {
        return Vec::new();
    };
    let me = RANK.load(Relaxed);
    let entries = (0..).zip(mapped.entries());
    entries
        .filter(|(rank, _)| *rank != me)
        .map(|(rank, entry)| (rank, entry.pid.load(SeqCst)))
        .filter(|(_, pid)| *pid != 0)
        .collect()
}

/// The rank that this process is.
pub(crate) fn this_rank() -> u32 {
    RANK.load(Relaxed)
}

/// This process at the barrier of an epoch. If it takes no image, the others wait until [`fail`].
#[derive(Debug)]
pub(crate) struct BarrierPass {
    epoch: u32,
    /// All ranks of the host are parked.
    is_together: bool,
}

impl BarrierPass {
    /// Waits for the other ranks of the host, if ranks of this host are known to share memory.
    pub fn begin(epoch: u32) -> Result<Self, Refused> {
        let mut pass = Self {
            epoch,
            is_together: false,
        };
        if is_sharing() {
            pass.wait_for_all()?;
        }
        Ok(pass)
    }

    /// Whether all ranks of the host are parked.
    pub fn is_together(&self) -> bool {
        self.is_together
    }

    /// Waits until all ranks of the host are parked: this one shares memory with others.
    pub fn wait_for_all(&mut self) -> Result<(), Refused> {
        let Some(mapped) = joined().filter(|_| !self.is_together) else {
            return Ok(());
        };
        announce_sharing();
        mapped.set(this_rank(), state(self.epoch, Phase::Parked));
        self.wait(&mapped, Phase::Parked, PARKED_IN)?;
        self.is_together = true;
        Ok(())
    }

    /// This rank has read what it has to. Waits until that is so of all.
    pub fn end(self) -> Result<(), Refused> {
        let Some(mapped) = joined() else {
            return Ok(());
        };
        let phase = match self.is_together {
            true => Phase::Ready,
            false => Phase::Alone,
        };
        mapped.set(this_rank(), state(self.epoch, phase));
        if self.is_together {
            self.wait(&mapped, Phase::Ready, READ_IN)?;
        }
        Ok(())
    }

    fn wait(&self, mapped: &Mapped, phase: Phase, most: u64) -> Result<(), Refused> {
        let end = sys::now() + most;
        loop {
            let seen = mapped.header().changes.load(SeqCst);
            let now = sys::now();
            match find_late(mapped.entries(), this_rank(), self.epoch, phase) {
                None => return Ok(()),
                Some(Late::Fails { rank }) => return Err(Refused::OtherRankFailed { rank }),
                Some(Late::Missing { rank, pid }) if now >= end => {
                    return Err(Refused::OtherRankLate { rank, pid });
                }
                Some(Late::Missing { .. }) => mapped.sleep(seen, end - now),
            }
        }
    }
}

/// Whether nothing is left of a process. A rank that was lost has a successor soon, or is on
/// another host.
fn is_gone(pid: i32) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { libc::kill(pid, 0) != 0 && sys::errno() == libc::ESRCH }
}

/// A rank for which others can't continue.
#[derive(Debug, PartialEq, Eq)]
enum Late {
    /// It is not so far yet.
    Missing { rank: u32, pid: i32 },
    /// It takes no image of this epoch together with the others.
    Fails { rank: u32 },
}

/// The first rank that is not in this phase of the epoch. One that fails comes before others.
fn find_late(entries: &[Entry], me: u32, epoch: u32, phase: Phase) -> Option<Late> {
    let mut missing = None;
    for (rank, entry) in (0..).zip(entries) {
        let pid = entry.pid.load(SeqCst);
        if pid == 0 || rank == me {
            continue;
        }
        let state = entry.state.load(SeqCst);
        let (theirs, their_phase) = ((state >> 8) as u32, state & 0xff);
        let fails = their_phase >= Phase::Failed as u64;
        if theirs > epoch || (theirs == epoch && fails) {
            return Some(Late::Fails { rank });
        }
        let is_there = theirs == epoch && their_phase >= phase as u64;
        if !is_there && missing.is_none() && !is_gone(pid) {
            missing = Some(Late::Missing { rank, pid });
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(states: &[(i32, u32, Phase)]) -> BarrierMemory {
        let memory = BarrierMemory::new(states.len() as u32).expect("memory");
        for (rank, (pid, epoch, phase)) in (0..).zip(states) {
            let entry = &memory.mapped.entries()[rank as usize];
            entry.pid.store(*pid, SeqCst);
            memory.mapped.set(rank, state(*epoch, *phase));
        }
        memory
    }

    #[test]
    fn a_rank_waits_for_those_that_are_behind() {
        use Phase::{Alone, Failed, Parked, Ready};
        let me = sys::pid();
        let late = |states: &[(i32, u32, Phase)], phase| {
            find_late(memory(states).mapped.entries(), 0, 7, phase)
        };
        let missing = Some(Late::Missing { rank: 1, pid: me });
        let fails = Some(Late::Fails { rank: 1 });
        let first = (me, 7, Parked);
        assert_eq!(late(&[first], Parked), None);
        assert_eq!(late(&[first, (0, 0, Parked)], Parked), None);
        assert_eq!(late(&[first, (me, 7, Parked)], Parked), None);
        assert_eq!(late(&[first, (me, 7, Ready)], Parked), None);
        assert_eq!(late(&[first, (me, 7, Parked)], Ready), missing);
        assert_eq!(late(&[first, (me, 6, Ready)], Parked), missing);
        // A failure of an earlier epoch says nothing about this one.
        assert_eq!(late(&[first, (me, 6, Failed)], Parked), missing);
        assert_eq!(late(&[first, (me, 7, Failed)], Parked), fails);
        assert_eq!(late(&[first, (me, 7, Alone)], Ready), fails);
        assert_eq!(late(&[first, (me, 8, Parked)], Ready), fails);
        // Nobody waits for another one if the epoch fails.
        let both = [first, (me, 6, Ready), (me, 7, Failed)];
        assert_eq!(late(&both, Parked), Some(Late::Fails { rank: 2 }));
        // No process has this number.
        assert_eq!(late(&[first, (i32::MAX, 6, Ready)], Parked), None);
    }
}
