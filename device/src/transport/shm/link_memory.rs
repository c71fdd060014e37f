//! The memory of a link: one memfd, mapped by both ends.
//!
//! | part | bytes |
//! |---|---|
//! | shared words | 8192 |
//! | cells, of either direction | 2 x 8192 |
//! | rings of short bodies, of either direction | 2 x 8192 |
//! | tables of blocks, two of either direction | 8 for each block and table |
//! | blocks, of both directions together | 2 x `capacity` |
//!
//! The parts before the blocks and the first blocks have memory from the start. The others get it
//! when the traffic asks for them ([`BlockGrowth`]). No side uses a block before a shared word says
//! that it has memory. The file is sealed against shrinking. So no access to a mapping of it fails.
//! A peer that keeps the descriptor can punch holes, which no seal forbids while both ends write,
//! or say that blocks have memory which have none. An access to such a page ends this process only
//! if no memory is available. The peer is a process of the same user and job, which could end this
//! process in any case. The file has no name in any file system, and is gone with its last mapping.
//! The mapping stays out of forks: an image of this process neither shares nor holds it.

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap};
use rejoin_ckpt::anonymous::{self, reserve};
use rejoin_ring::blocks::BlockLayout;

use crate::descriptors;

mod block_growth;

pub(crate) use block_growth::BlockGrowth;
use block_growth::FIRST_BLOCKS;

/// Version of the memory's layout and meaning: the words, cells, rings, blocks and copy batches.
/// Both ends must have the same.
const LAYOUT: u64 = 5;
/// The words that say so stay where they are in every version.
const VERSIONS: usize = 28;
/// The words behind them.
const RETURNED: usize = VERSIONS + 2;
const DISTANCE: usize = RETURNED + 2;
const BODY_WAYS: usize = DISTANCE + 2;
const MADE: usize = BODY_WAYS + 2;
/// Bytes before the cells: the shared words, each on two cache lines of its own, since processors
/// fetch lines in pairs.
const WORDS: usize = 8192;
const WORD: usize = 128;
/// Bytes of the descriptions of the pieces of a copy batch.
const CHUNK_WORDS: usize = rejoin_ring::chunks::MOST * 3 * 8;
const _: () = assert!(20 * WORD + 2 * CHUNK_WORDS.next_multiple_of(WORD) <= 26 * WORD);
const _: () = assert!(26 + 2 <= VERSIONS && (MADE + 1) * WORD <= WORDS);
/// Cells of one direction, between the words and the small rings. There are few, since they are
/// fastest if the first-level caches of both cores hold them all.
pub(crate) const CELLS: usize = 64;
/// Words from one cell to the next: its line, and one for a body that is too long for it.
pub(crate) const CELL_WORDS: usize = 2 * rejoin_ring::cells::WORDS;
const CELLS_BYTES: usize = CELLS * CELL_WORDS * 8;
/// Bytes of a ring for short bodies.
pub(crate) const SMALL_RING: usize = 8 << 10;
/// Bytes of a block. The other side copies one out while this side copies the next in: shorter ones
/// reduce the bandwidth of a stream by a quarter, and latency by nothing.
pub(crate) const BLOCK: usize = 16 << 10;
/// Least and most bytes of the blocks of one direction.
pub(crate) const LEAST: usize = 64 << 10;
const MOST: usize = 16 << 20;
/// Says that nothing in the file is to be executed (Linux 6.3); some systems demand it.
const NOEXEC_SEAL: libc::c_uint = 8;

/// A direction: from the side that dialed, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The direction in which the dialer writes.
    FromDialer,
    /// The direction in which the dialer reads.
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

/// A shared word, or a table of them.
macro_rules! word {
    ($pointer:expr) => {
        // SAFETY: it lies in memory that is mapped for as long as the link is there.
        unsafe { $pointer.as_ref() }
    };
}
pub(crate) use word;

/// A shared word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SharedWord {
    /// The events that wake the side which writes this direction.
    Doorbell(Direction),
    /// The writer's position.
    Tail(Direction),
    /// The reader's position.
    Head(Direction),
    /// Whether the side that writes this direction can read the other's memory: see
    /// `single_copy/peer_memory.rs`.
    CanRead(Direction),
    /// The reader's position among the cells.
    CellHead(Direction),
    /// The reader's position among the short bodies.
    SmallRingHead(Direction),
    /// Where that side's secret is: process id, address, value.
    Secret(Direction, usize),
    /// The copy batch of the side that writes this direction: see `single_copy/cooperative.rs`.
    CopyBatch(Direction),
    /// The other side's finished pieces of the batch.
    Done(Direction),
    /// The description of the batch: three words of each piece, on cache lines of their own.
    Chunks(Direction),
    /// The version of the layout that the side that writes this direction knows.
    Version(Direction),
    /// The number of blocks that the side that writes this direction has given back.
    Returned(Direction),
    /// How far the cores of both sides are from each other, as the reader of this direction has
    /// measured: see `buffered/cache_distance.rs`.
    Distance(Direction),
    /// Which way long bodies are to take, as the reader of this direction asks: see
    /// [`crate::cost`].
    BodyWays(Direction),
    /// How many blocks of each half have memory: see [`BlockGrowth`].
    Made,
}

/// A table of blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockTable {
    /// Which blocks the stream of this direction is in.
    Stream(Direction),
    /// Which blocks the side that writes this direction has given back.
    Returned(Direction),
}

impl BlockTable {
    fn number(self) -> usize {
        let (first, direction) = match self {
            Self::Stream(direction) => (0, direction),
            Self::Returned(direction) => (2, direction),
        };
        first + usize::from(direction == Direction::ToDialer)
    }
}

impl SharedWord {
    /// The number of its first word.
    fn number(self) -> usize {
        let (first, direction) = match self {
            Self::Doorbell(direction) => (0, direction),
            Self::Tail(direction) => (2, direction),
            Self::Head(direction) => (4, direction),
            Self::CanRead(direction) => (6, direction),
            Self::Secret(direction, part) => (8 + 2 * (part % 3), direction),
            Self::CellHead(direction) => (14, direction),
            Self::CopyBatch(direction) => (16, direction),
            Self::Done(direction) => (18, direction),
            Self::Chunks(direction) => (20, direction),
            Self::SmallRingHead(direction) => (26, direction),
            Self::Version(direction) => (VERSIONS, direction),
            Self::Returned(direction) => (RETURNED, direction),
            Self::Distance(direction) => (DISTANCE, direction),
            Self::BodyWays(direction) => (BODY_WAYS, direction),
            Self::Made => (MADE, Direction::FromDialer),
        };
        let lines = match self {
            Self::Chunks(_) => CHUNK_WORDS.div_ceil(WORD),
            _ => 1,
        };
        first + lines * usize::from(direction == Direction::ToDialer)
    }

    /// Where it lies in the file, in bytes.
    fn offset(self) -> u64 {
        (self.number() * WORD) as u64
    }
}

/// A mapping of the memory of a link.
pub(crate) struct LinkMemory {
    start: NonNull<u8>,
    capacity: usize,
}

impl LinkMemory {
    /// New memory, with blocks of up to `capacity` bytes for each direction, a power of two, and
    /// the descriptor that the other end maps.
    ///
    /// # Errors
    /// Why the system refuses.
    pub(crate) fn make(capacity: usize) -> io::Result<(Self, OwnedFd)> {
        let file = file(capacity)?;
        reserve(&file, bytes_with(capacity, FIRST_BLOCKS) as u64)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let memory = Self::map(&file, capacity)?;
        let made = match block_growth::is_possible(memory.start) {
            true => FIRST_BLOCKS,
            false => {
                // A page that is missing later would end the process.
                let made = block_growth::without_growth(memory.blocks());
                reserve(&file, bytes_with(capacity, made) as u64)?;
                made
            }
        };
        memory.growth().begin(made);
        memory.say_version(Direction::FromDialer);
        Ok((memory, file.into()))
    }

    /// Whether such memory is available, without the time to make them: an obstacle shows at the
    /// first page. Interruptions by signals do not count.
    ///
    /// # Errors
    /// Why the system refuses.
    pub(crate) fn attempt(capacity: usize) -> io::Result<()> {
        match reserve(&file(capacity)?, WORD as u64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            tried => tried,
        }
    }

    /// Maps the memory that the other end has made, and shows it this side's version of the layout.
    ///
    /// # Errors
    /// A file that is none of [`LinkMemory::make`], or of another version, or one that the system
    /// does not map.
    pub(crate) fn open(fd: OwnedFd) -> io::Result<Self> {
        let file = File::from(fd);
        let seals = fcntl(&file, FcntlArg::F_GET_SEALS)?;
        if !SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_SHRINK) {
            return Err(io::Error::other("the peer's memory may shrink"));
        }
        let mut theirs = [0; size_of::<u64>()];
        let place = SharedWord::Version(Direction::FromDialer);
        // Before anything else of it counts. A file that is too short for the word is none.
        if file.read_exact_at(&mut theirs, place.offset()).is_ok()
            && let Err(error) = check_version(u64::from_ne_bytes(theirs))
        {
            answer(&file);
            return Err(error);
        }
        let bytes = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let mut sizes = (LEAST.ilog2()..=MOST.ilog2()).map(|power| 1 << power);
        let Some(capacity) = sizes.find(|size| length(*size) == bytes) else {
            let problem = format!("the peer's memory has {bytes} bytes, which no link's has");
            return Err(io::Error::other(problem));
        };
        let memory = Self::map(&file, capacity)?;
        memory.say_version(Direction::ToDialer);
        Ok(memory)
    }

    /// Puts down which layout the side that writes this direction knows.
    fn say_version(&self, own: Direction) {
        let word = self.word(SharedWord::Version(own));
        // SAFETY: the word is mapped while `self` is.
        unsafe { word.as_ref() }.store(LAYOUT, Ordering::Release);
    }

    /// Whether the acceptor knows the same layout. It has said so if it has `opened` the memory;
    /// before that it may not have looked.
    ///
    /// # Errors
    /// The two versions.
    pub(crate) fn agreed(&self, opened: bool) -> io::Result<()> {
        let word = self.word(SharedWord::Version(Direction::ToDialer));
        // SAFETY: the word is mapped while `self` is.
        match unsafe { word.as_ref() }.load(Ordering::Acquire) {
            0 if !opened => Ok(()),
            theirs => check_version(theirs),
        }
    }

    fn map(file: impl AsFd, capacity: usize) -> io::Result<Self> {
        let length = length(capacity);
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // Pages are allocated when they are used. To touch them all now would be most of the cost
        // of making a link.
        let flags = MapFlags::MAP_SHARED;
        let size = NonZero::new(length).unwrap_or(NonZero::<usize>::MIN);
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
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

    /// Bytes of memory that the link has by now.
    pub(crate) fn used(&self) -> usize {
        bytes_with(self.capacity, self.growth().made())
    }

    /// The blocks that have no memory yet.
    pub(crate) fn growth(&self) -> BlockGrowth {
        let made = self.word(SharedWord::Made);
        BlockGrowth::new(self.first_block(), self.blocks(), made)
    }

    /// The number and size of the blocks.
    pub(crate) fn blocks(&self) -> BlockLayout {
        BlockLayout {
            count: count(self.capacity),
            size: BLOCK,
        }
    }

    /// The first byte of the first block.
    pub(crate) fn first_block(&self) -> NonNull<u8> {
        // SAFETY: the offset lies within the mapping.
        unsafe { self.start.add(blocks_at(self.capacity)) }
    }

    /// A table: an entry for each block. Good for as long as the memory is mapped.
    pub(crate) fn table(&self, table: BlockTable) -> NonNull<[AtomicU64]> {
        let count = count(self.capacity);
        let offset = TABLES + table.number() * count * 8;
        // SAFETY: the offset lies within the mapping, aligned.
        let first = unsafe { self.start.add(offset) };
        NonNull::slice_from_raw_parts(first.cast(), count)
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

    /// The ring for short bodies of a direction, [`SMALL_RING`] bytes.
    pub(crate) fn small_ring(&self, direction: Direction) -> NonNull<u8> {
        let number = usize::from(direction == Direction::ToDialer);
        // SAFETY: the offset lies within the mapping.
        unsafe {
            self.start
                .add(WORDS + 2 * CELLS_BYTES + number * SMALL_RING)
        }
    }

    /// A shared word; good for as long as the memory is mapped.
    pub(crate) fn word(&self, place: SharedWord) -> NonNull<AtomicU64> {
        // SAFETY: the words lie within the mapping, aligned.
        unsafe { self.start.add(place.number() * WORD).cast() }
    }

    /// Drops a mapping that this process does not have, without a system call.
    pub(crate) fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for LinkMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing of it is in use any more. A failure
        // would leave it mapped, which does no harm.
        let _ = unsafe { munmap(self.start.cast(), length(self.capacity)) };
    }
}

/// A page, on which the blocks begin.
const PAGE: usize = 4096;
/// Bytes before the tables.
const TABLES: usize = WORDS + 2 * CELLS_BYTES + 2 * SMALL_RING;

/// Blocks of both directions.
const fn count(capacity: usize) -> usize {
    2 * capacity / BLOCK
}

/// Bytes before the first block.
const fn blocks_at(capacity: usize) -> usize {
    (TABLES + 4 * count(capacity) * 8).next_multiple_of(PAGE)
}

const fn length(capacity: usize) -> usize {
    blocks_at(capacity) + 2 * capacity
}

/// Bytes up to the end of the blocks of which each half has so many with memory.
const fn bytes_with(capacity: usize, made: usize) -> usize {
    blocks_at(capacity) + 2 * made * BLOCK
}

/// A file of the length that blocks of this capacity need; nothing is behind it yet.
fn file(capacity: usize) -> io::Result<File> {
    let length = length(capacity);
    anonymous::allow(length as u64)?;
    let file = File::from(descriptors::raise(create()?).map_err(io::Error::other)?);
    file.set_len(length as u64)?;
    Ok(file)
}

/// Tells the dialer, whose memory is of another layout, which one the acceptor knows: by the words
/// alone, since they are all that both know. Where they cannot be mapped it learns nothing.
fn answer(file: &File) {
    if file.metadata().is_ok_and(|all| all.len() >= WORDS as u64) {
        // To write to the file instead may be beyond this process's limit on the size of files.
        let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let size = NonZero::new(WORDS).unwrap_or(NonZero::<usize>::MIN);
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let Ok(at) = (unsafe { mmap(None, size, rights, MapFlags::MAP_SHARED, file, 0) }) else {
            return;
        };
        let number = SharedWord::Version(Direction::ToDialer).number();
        // SAFETY: the words lie within the mapping, which is this function's own, and the file does
        // not shrink.
        unsafe {
            let word = at.cast::<u8>().add(number * WORD).cast::<AtomicU64>();
            word.as_ref().store(LAYOUT, Ordering::Release);
            let _ = munmap(at, WORDS);
        }
    }
}

fn check_version(theirs: u64) -> io::Result<()> {
    if theirs == LAYOUT {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the peer lays out shared memory by version {theirs}, this rank by version {LAYOUT}: they are of \
         different builds of Rejoin"
    )))
}

fn create() -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    for flags in [flags | NOEXEC_SEAL, flags] {
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(anonymous::LINK_MEMORY.as_ptr(), flags) };
        if fd >= 0 {
            // SAFETY: the descriptor is new, no other code owns it.
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
mod tests;
