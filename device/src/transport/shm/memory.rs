//! The memory of a link: one memfd with two rings, mapped by both ends.
//!
//! The file is sealed against shrinking, so no access to a mapping of it can fail, whatever the other
//! end does. It has no name in any file system, and is gone with its last mapping. The mapping stays out
//! of forks: an image of this process neither shares nor holds it.

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::descriptors;

/// Bytes before the cells: the shared words, each on two cache lines of its own, since processors
/// fetch lines in pairs.
const WORDS: usize = 4096;
const WORD: usize = 128;
/// Bytes of what describes the pieces on a desk.
const PIECES: usize = rejoin_ring::desk::MOST * 3 * 8;
const _: () = assert!(20 * WORD + 2 * PIECES.next_multiple_of(WORD) <= 26 * WORD);
const _: () = assert!(28 * WORD <= WORDS);
/// Cells of one direction, which lie between the words and the rings.
pub(crate) const CELLS: usize = 128;
const CELLS_BYTES: usize = CELLS * rejoin_ring::cells::WORDS * 8;
/// Smallest and largest ring, in bytes.
pub(crate) const LEAST: usize = 64 << 10;
const MOST: usize = 16 << 20;
/// As the list of mappings shows it; `rejoin-ckpt` lets a mapping of this name pass.
const NAME: &std::ffi::CStr = c"rejoin-ring";
/// Says that nothing in the file is to be executed (Linux 6.3); some systems demand it.
const NOEXEC_SEAL: libc::c_uint = 8;

/// A direction: from the side that dialed, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// What the dialer writes.
    FromDialer,
    /// What the dialer reads.
    ToDialer,
}

impl Direction {
    /// The other one.
    pub(crate) fn opposite(self) -> Self {
        match self {
            Self::FromDialer => Self::ToDialer,
            Self::ToDialer => Self::FromDialer,
        }
    }
}

/// A shared word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// What would wake the side that writes this direction.
    Bell(Direction),
    /// The writer's position.
    Tail(Direction),
    /// The reader's position.
    Head(Direction),
    /// Whether the side that writes this direction can read the other's memory: see `peer.rs`.
    Reach(Direction),
    /// The reader's position among the cells.
    CellHead(Direction),
    /// Where that side's secret is: process id, address, value.
    Secret(Direction, usize),
    /// How the reader wants this direction's bytes written: see `store.rs`.
    Asked(Direction),
    /// The desk of the side that writes this direction: see `help.rs`.
    Desk(Direction),
    /// What the other side has done of what lies there.
    Done(Direction),
    /// What describes it: three words of each piece, on cache lines of their own.
    Pieces(Direction),
}

/// A mapping of the two rings of a link.
pub(crate) struct Memory {
    start: NonNull<u8>,
    capacity: usize,
}

impl Memory {
    /// Two new rings of `capacity` bytes each, a power of two, and the descriptor that the other end maps.
    ///
    /// # Errors
    /// Why the system refuses.
    pub(crate) fn make(capacity: usize) -> io::Result<(Self, OwnedFd)> {
        let file = file(capacity)?;
        // All of it now: a page that is missing later would end the process.
        reserve(&file, length(capacity))?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Ok((Self::map(&file, capacity)?, file.into()))
    }

    /// Whether such rings can be had, without the time that they take: what stands in the way does so at the
    /// first page.
    ///
    /// # Errors
    /// Why the system refuses.
    pub(crate) fn attempt(capacity: usize) -> io::Result<()> {
        reserve(&file(capacity)?, WORD)
    }

    /// Maps the rings that the other end has made.
    ///
    /// # Errors
    /// A file that is none of [`Memory::make`], or one that the system does not map.
    pub(crate) fn open(fd: OwnedFd) -> io::Result<Self> {
        let file = File::from(fd);
        let seals = fcntl(&file, FcntlArg::F_GET_SEALS)?;
        if !SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_SHRINK) {
            return Err(io::Error::other("the peer's memory may shrink"));
        }
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let capacity = bytes.saturating_sub(RINGS) / 2;
        let is_ring = capacity.is_power_of_two() && (LEAST..=MOST).contains(&capacity);
        if !is_ring || length(capacity) != bytes {
            let problem = format!("the peer's memory has {bytes} bytes, which is no pair of rings");
            return Err(io::Error::other(problem));
        }
        Self::map(&file, capacity)
    }

    fn map(file: impl AsFd, capacity: usize) -> io::Result<Self> {
        let length = length(capacity);
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // Pages come as they are used: to touch them all now would cost most of what making a link does.
        let flags = MapFlags::MAP_SHARED;
        let size = NonZero::new(length).unwrap_or(NonZero::<usize>::MIN);
        // SAFETY: a new mapping at an address of the kernel's choice touches nobody's memory.
        let at = unsafe { mmap(None, size, rights, flags, file, 0) }?;
        // From here on dropping it unmaps the memory.
        let memory = Self {
            start: at.cast(),
            capacity,
        };
        // SAFETY: the advice is about the mapping just made.
        unsafe { madvise(at, length, MmapAdvise::MADV_DONTFORK) }?;
        Ok(memory)
    }

    /// Bytes of one ring.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of memory that the link takes.
    pub(crate) fn length(&self) -> usize {
        length(self.capacity)
    }

    /// The ring of a direction, `capacity` bytes.
    pub(crate) fn ring(&self, direction: Direction) -> NonNull<u8> {
        let offset = match direction {
            Direction::FromDialer => RINGS,
            Direction::ToDialer => RINGS + self.capacity,
        };
        // SAFETY: the offset lies within the mapping.
        unsafe { self.start.add(offset) }
    }

    /// The first of the words of the cells of a direction.
    pub(crate) fn cells(&self, direction: Direction) -> NonNull<AtomicU64> {
        let offset = match direction {
            Direction::FromDialer => WORDS,
            Direction::ToDialer => WORDS + CELLS_BYTES,
        };
        // SAFETY: the offset lies within the mapping, aligned to its page.
        unsafe { self.start.add(offset).cast() }
    }

    /// A shared word; good for as long as the memory is mapped.
    pub(crate) fn word(&self, place: Place) -> NonNull<AtomicU64> {
        let (first, direction) = match place {
            Place::Bell(direction) => (0, direction),
            Place::Tail(direction) => (2, direction),
            Place::Head(direction) => (4, direction),
            Place::Reach(direction) => (6, direction),
            Place::Secret(direction, part) => (8 + 2 * (part % 3), direction),
            Place::CellHead(direction) => (14, direction),
            Place::Desk(direction) => (16, direction),
            Place::Done(direction) => (18, direction),
            Place::Pieces(direction) => (20, direction),
            Place::Asked(direction) => (26, direction),
        };
        let lines = match place {
            Place::Pieces(_) => PIECES.div_ceil(WORD),
            _ => 1,
        };
        let number = first + lines * usize::from(direction == Direction::ToDialer);
        // SAFETY: the words lie within the mapping, aligned.
        unsafe { self.start.add(number * WORD).cast() }
    }

    /// Lets go of a mapping that this process does not have, without a system call.
    pub(crate) fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing of it is in use any more. A failure would
        // leave it mapped, which harms nobody.
        let _ = unsafe { munmap(self.start.cast(), self.length()) };
    }
}

/// Bytes before the first ring.
const RINGS: usize = WORDS + 2 * CELLS_BYTES;

const fn length(capacity: usize) -> usize {
    RINGS + 2 * capacity
}

/// A file of the length that rings of this capacity need; nothing is behind it yet.
fn file(capacity: usize) -> io::Result<File> {
    let length = length(capacity);
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
    if limit != RLIM_INFINITY && limit < length as u64 {
        // To go on would end the process by SIGXFSZ.
        return Err(io::Error::other(format!(
            "the limit on the size of files (ulimit -f) is below {length} bytes"
        )));
    }
    let file = File::from(descriptors::raise(create()?).map_err(io::Error::other)?);
    file.set_len(length as u64)?;
    Ok(file)
}

/// Has the system put memory behind the first bytes of a file.
fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    // SAFETY: the call touches no memory of this process.
    let got = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as libc::off_t) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn create() -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    for flags in [flags | NOEXEC_SEAL, flags] {
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(NAME.as_ptr(), flags) };
        if fd >= 0 {
            // SAFETY: the descriptor is new, nobody else owns it.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
    }
    Err(io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn word(memory: &Memory, place: Place) -> &AtomicU64 {
        // SAFETY: the memory is mapped while it is borrowed.
        unsafe { memory.word(place).as_ref() }
    }

    #[test]
    fn both_ends_see_the_same_memory() {
        let (ours, fd) = Memory::make(LEAST).expect("made");
        let theirs = Memory::open(fd).expect("mapped");
        assert_eq!(theirs.capacity(), LEAST);
        let all = [Direction::FromDialer, Direction::ToDialer]
            .into_iter()
            .flat_map(|d| [Place::Bell(d), Place::Tail(d), Place::Head(d)]);
        for (number, place) in all.clone().enumerate() {
            word(&ours, place).store(number as u64 + 1, Ordering::Relaxed);
        }
        for (number, place) in all.enumerate() {
            assert_eq!(
                word(&theirs, place).load(Ordering::Relaxed),
                number as u64 + 1
            );
        }
        // SAFETY: the last byte of each ring.
        unsafe {
            ours.ring(Direction::FromDialer).add(LEAST - 1).write(7);
            ours.ring(Direction::ToDialer).add(LEAST - 1).write(8);
            assert_eq!(theirs.ring(Direction::FromDialer).add(LEAST - 1).read(), 7);
            assert_eq!(theirs.ring(Direction::ToDialer).add(LEAST - 1).read(), 8);
        }
    }

    #[test]
    fn foreign_memory_is_refused() {
        let plain = create().expect("a file");
        let file = File::from(plain);
        file.set_len(length(LEAST) as u64).expect("long");
        let said = Memory::open(file.into()).err().map(|e| e.to_string());
        assert_eq!(said.as_deref(), Some("the peer's memory may shrink"));
        for bytes in [
            0,
            4096,
            length(LEAST) + 1,
            length(LEAST / 2),
            length(MOST * 2),
        ] {
            let file = File::from(create().expect("a file"));
            file.set_len(bytes as u64).expect("long");
            let seals = SealFlag::F_SEAL_SHRINK;
            fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).expect("sealed");
            assert!(Memory::open(file.into()).is_err(), "{bytes}");
        }
        let null = File::open("/dev/null").expect("open");
        assert!(Memory::open(null.into()).is_err());
    }

    #[test]
    fn it_stays_out_of_forks() {
        let (memory, _fd) = Memory::make(LEAST).expect("made");
        let start = memory.start.as_ptr() as usize;
        let text = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
        let mut lines = text.lines();
        let of = format!("{start:x}-");
        let head = lines.find(|line| line.starts_with(&of)).expect("mapped");
        assert!(head.ends_with("/memfd:rejoin-ring (deleted)"), "{head}");
        let flags = lines.find(|line| line.starts_with("VmFlags:"));
        assert!(flags.expect("flags").split(' ').any(|f| f == "dc"));
    }
}
