//! Ranks of one host that share memory take their images together, and return together.
//!
//! A rank that finds memory which another rank maps, too, announces that. From then on each rank of
//! the host that takes an image waits at a barrier until all of them are parked. The contents of
//! the memory are read then, and no rank continues before that is done. So the contents match all
//! images of the epoch. Restored ranks wait for each other ([`ReturnPass`]) until all memory is
//! back.
//!
//! The barrier lies in memory of the local manager, which each rank maps. A rank that waits is at
//! its safe point, where no other rank needs it. Every wait is bounded. If some rank is late, all
//! of them refuse the image, and the next request tries it again.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use rejoin_image_format::ImageNumber;

use crate::error::Refused;
use crate::sys;

mod memory;
mod return_pass;

pub(crate) use memory::BARRIER_MEMORY;
pub use memory::BarrierMemory;
use memory::{ENTRY, Entry, HEADER, Mapped};
pub(crate) use return_pass::{ReturnPass, ReturnPhase};

/// Nanoseconds for which a parked rank waits at most for the others to be parked.
const PARKED_IN: u64 = 1_000_000_000;
/// Nanoseconds for which a parked rank waits at most for the contents to be read.
const READ_IN: u64 = 10_000_000_000;

/// A rank that has nothing to put back is as far as any other one ([`ReturnPhase`]).
const ALL_BACK: u64 = u64::MAX;

/// How far a rank is with an image: the lowest byte of [`Entry::state`], which has the image's
/// number above that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The rank's threads are parked.
    Parked = 1,
    /// The rank has read what it has to.
    Ready = 2,
    /// The rank takes no image.
    Failed = 3,
    /// The rank took its image without waiting for others.
    Alone = 4,
}

fn state(number: ImageNumber, phase: Phase) -> u64 {
    place(number) << 8 | phase as u64
}

/// A number of 56 bits that has the order of images.
fn place(number: ImageNumber) -> u64 {
    u64::from(number.epoch) << 24 | u64::from(number.step.min(0xff_ffff))
}

/// The mapping that this process has made, or the process of its image; null for none.
static PLACE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// Length of the mapping in bytes.
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// This process takes part.
static IS_JOINED: AtomicBool = AtomicBool::new(false);
/// The rank that this process is.
static RANK: AtomicU32 = AtomicU32::new(0);
/// The generation of this process.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// This restored process has yet to put memory back.
static IS_RETURNING: AtomicBool = AtomicBool::new(false);
/// File system and number of the memory.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

fn joined() -> Option<Mapped> {
    let (address, length) = (PLACE.load(Acquire), LENGTH.load(Relaxed));
    let is_joined = IS_JOINED.load(Acquire) && !address.is_null();
    is_joined.then_some(Mapped { address, length })
}

/// This process takes part in no barrier until it joins one. In a process that was made from a
/// file, nothing is at the place of the former mapping.
pub fn forget() {
    IS_JOINED.store(false, SeqCst);
}

/// Makes this process take part in the barrier as this rank. A restored process calls it again, for
/// the memory of its manager.
///
/// # Errors
/// When the memory can't be mapped, or has no place for the rank. Memory that the rank shares with
/// others then refuses its images.
pub fn join(memory: BorrowedFd<'_>, rank: u32, generation: u32) -> io::Result<()> {
    forget();
    let status = sys::status(memory.as_raw_fd()).map_err(io::Error::from_raw_os_error)?;
    let length = usize::try_from(status.st_size).unwrap_or(0);
    if length < HEADER + (rank as usize + 1) * ENTRY {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such rank"));
    }
    // Images keep the place of such a mapping free.
    let is_as_long = LENGTH.load(Relaxed) == length;
    let at = match is_as_long {
        true => PLACE.load(Acquire),
        false => std::ptr::null_mut(),
    };
    let mapped = Mapped::map(at, memory.as_raw_fd(), length)?;
    let entry = &mapped.entries()[rank as usize];
    entry.state.store(0, SeqCst);
    let is_returning = IS_RETURNING.load(Relaxed);
    let back = if is_returning { 0 } else { ALL_BACK };
    entry.back.store(back, SeqCst);
    entry.generation.store(generation, SeqCst);
    entry.pid.store(sys::pid(), SeqCst);
    RANK.store(rank, Relaxed);
    GENERATION.store(generation, Relaxed);
    DEVICE.store(status.st_dev, Relaxed);
    INODE.store(status.st_ino, Relaxed);
    LENGTH.store(length, Relaxed);
    PLACE.store(mapped.address, SeqCst);
    IS_JOINED.store(true, SeqCst);
    Ok(())
}

/// Whether this process, which was restored, has yet to put memory back that other processes may
/// see. To be said before [`join`].
pub(crate) fn set_returning(is_returning: bool) {
    IS_RETURNING.store(is_returning, Relaxed);
}

/// Nobody waits for this process any more: it takes no further image.
pub fn leave() {
    if let Some(mapped) = joined() {
        forget();
        PLACE.store(std::ptr::null_mut(), SeqCst);
        mapped.change(this_rank(), |entry| entry.pid.store(0, SeqCst));
        // SAFETY: the mapping was made by `join`, and no reference to it is left.
        unsafe { libc::munmap(mapped.address.cast(), mapped.length) };
    }
}

/// This process takes no image of this number, so the others need not wait for it. They then take
/// none, either; so this process first says why.
pub fn fail(number: ImageNumber) {
    if let Some(mapped) = joined() {
        set_state(&mapped, number, Phase::Failed);
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
    let others = present(mapped.entries(), this_rank(), this_generation());
    others.map(|(rank, pid, _)| (rank, pid)).collect()
}

/// The entries of other ranks that are on this host now, with rank and process.
fn present(
    entries: &[Entry],
    me: u32,
    generation: u32,
) -> impl Iterator<Item = (u32, i32, &Entry)> {
    let entries = (0..).zip(entries);
    let all = entries.map(|(rank, entry)| (rank, entry.pid.load(SeqCst), entry));
    all.filter(move |(rank, pid, entry)| {
        *rank != me && *pid != 0 && entry.generation.load(SeqCst) == generation
    })
}

/// The rank that this process is.
pub(crate) fn this_rank() -> u32 {
    RANK.load(Relaxed)
}

/// The generation of this process.
pub(crate) fn this_generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// File system and number of the barrier's memory, by which a process of this job is known.
pub(crate) fn identity() -> Option<(u64, u64)> {
    joined().map(|_| (DEVICE.load(Relaxed), INODE.load(Relaxed)))
}

/// Whether ranks of other hosts may map files of this one. That is unknown without a barrier.
pub(crate) fn may_have_other_hosts() -> bool {
    joined().is_none_or(|mapped| mapped.header().other_hosts.load(SeqCst) != 0)
}

/// The file that this rank has made anew in place of one that its images name by `key`.
pub(crate) fn remade(key: u64) -> Option<(u64, u64)> {
    let mapped = joined()?;
    let mut all = mapped.header().remade.iter();
    let mine = this_rank() + 1;
    let is_it =
        |one: &&memory::RemadeFile| one.owner.load(SeqCst) == mine && one.key.load(SeqCst) == key;
    let one = all.find(is_it)?;
    Some((one.device.load(SeqCst), one.inode.load(SeqCst)))
}

/// This rank has made such a file anew. Without room for the note, a second loss before the next
/// checkpoint ends the job.
pub(crate) fn note_remade(key: u64, file: (u64, u64)) {
    let Some(mapped) = joined() else {
        return;
    };
    let (all, mine) = (&mapped.header().remade, this_rank() + 1);
    let is_it =
        |one: &&memory::RemadeFile| one.owner.load(SeqCst) == mine && one.key.load(SeqCst) == key;
    let claims = |one: &&memory::RemadeFile| {
        let claimed = one.owner.compare_exchange(0, mine, SeqCst, SeqCst);
        claimed.is_ok()
    };
    let found = all.iter().find(is_it);
    if let Some(one) = found.or_else(|| all.iter().find(claims)) {
        one.key.store(key, SeqCst);
        one.device.store(file.0, SeqCst);
        one.inode.store(file.1, SeqCst);
    }
}

fn set_state(mapped: &Mapped, number: ImageNumber, phase: Phase) {
    let state = state(number, phase);
    mapped.change(this_rank(), |entry| entry.state.store(state, SeqCst));
}

/// This process at the barrier of an epoch. If it takes no image, the others wait until [`fail`].
#[derive(Debug)]
pub(crate) struct BarrierPass {
    number: ImageNumber,
    /// All ranks of the host are parked.
    is_together: bool,
}

impl BarrierPass {
    /// Waits for the other ranks of the host, if ranks of this host are known to share memory.
    pub fn begin(number: ImageNumber) -> Result<Self, Refused> {
        let mut pass = Self {
            number,
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
        set_state(&mapped, self.number, Phase::Parked);
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
        set_state(&mapped, self.number, phase);
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
            let others = present(mapped.entries(), this_rank(), this_generation());
            match find_late(others, self.number, phase) {
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
    /// The rank is not so far yet.
    Missing { rank: u32, pid: i32 },
    /// The rank takes no image of this epoch together with the others.
    Fails { rank: u32 },
}

/// The first rank that is not in this phase of the epoch. One that fails comes before others.
fn find_late<'a>(
    others: impl Iterator<Item = (u32, i32, &'a Entry)>,
    number: ImageNumber,
    phase: Phase,
) -> Option<Late> {
    let (mut missing, number) = (None, place(number));
    for (rank, pid, entry) in others {
        let state = entry.state.load(SeqCst);
        let (theirs, their_phase) = (state >> 8, state & 0xff);
        let fails = their_phase >= Phase::Failed as u64;
        if theirs > number || (theirs == number && fails) {
            return Some(Late::Fails { rank });
        }
        let is_there = theirs == number && their_phase >= phase as u64;
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
            let number = ImageNumber::of_checkpoint(*epoch);
            entry.state.store(state(number, *phase), SeqCst);
        }
        memory
    }

    #[test]
    fn a_rank_waits_for_those_that_are_behind() {
        use Phase::{Alone, Failed, Parked, Ready};
        let me = sys::pid();
        let late = |states: &[(i32, u32, Phase)], phase| {
            let memory = memory(states);
            let seventh = ImageNumber::of_checkpoint(7);
            find_late(present(memory.mapped.entries(), 0, 0), seventh, phase)
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

    #[test]
    fn an_entry_of_an_earlier_generation_counts_no_more() {
        let memory = memory(&[(1, 6, Phase::Parked), (sys::pid(), 6, Phase::Parked)]);
        let count = |generation| present(memory.mapped.entries(), 0, generation).count();
        assert_eq!((count(0), count(1)), (1, 0));
    }
}
