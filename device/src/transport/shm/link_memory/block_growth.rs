//! Memory for further blocks of a link, once its traffic needs them.
//!
//! Much of it makes a stream faster: a block that is written again soon is still in caches of the
//! other core, which the write has to wait for. A link of few messages needs little.

use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::sys::mman::{MmapAdvise, madvise};
use rejoin_ring::blocks::BlockLayout;

/// Blocks of each half that have memory from the start. A first message waits for all of their
/// pages.
pub(super) const FIRST_BLOCKS: usize = 2;
/// Most blocks of each half that ranks ask for if they share cores: then the caches of their core
/// have more of what the other rank has written.
const SHARED_CORE_BLOCKS: usize = 16;

/// Blocks of each half where the system can't give memory to more later.
pub(super) fn without_growth(blocks: BlockLayout) -> usize {
    SHARED_CORE_BLOCKS.min(blocks.count / 2)
}

/// The blocks that have no memory yet. Either side gives it to as many of each half.
pub(crate) struct BlockGrowth {
    first_block: NonNull<u8>,
    blocks: BlockLayout,
    /// Blocks of each half that this side asks for.
    most: usize,
    /// The shared word: how many of each half have memory.
    word: NonNull<AtomicU64>,
    /// What this side knows of it.
    made: usize,
    /// The system has no memory.
    is_over: bool,
}

impl BlockGrowth {
    /// Of these blocks; both pointers are good for as long as the memory is mapped, and longer than
    /// this value.
    pub(super) fn new(
        first_block: NonNull<u8>,
        blocks: BlockLayout,
        word: NonNull<AtomicU64>,
    ) -> Self {
        Self {
            first_block,
            blocks,
            most: blocks.count / 2,
            word,
            made: 0,
            is_over: false,
        }
    }

    /// Of ranks that may share cores.
    pub(in crate::transport::shm) fn between(self, shared_cores: bool) -> Self {
        let most = match shared_cores {
            true => self.most.min(SHARED_CORE_BLOCKS),
            false => self.most,
        };
        Self { most, ..self }
    }

    /// So many blocks of each half of a new link have memory.
    pub(super) fn begin(&self, made: usize) {
        self.word().store(made as u64, Ordering::Release);
    }

    /// How many blocks of each half have memory; the peer's word counts only within bounds.
    pub(in crate::transport::shm) fn made(&self) -> usize {
        let made = self.word().load(Ordering::Acquire);
        let made = usize::try_from(made).unwrap_or(usize::MAX);
        made.clamp(FIRST_BLOCKS, self.blocks.count / 2)
    }

    /// The shared word.
    pub(in crate::transport::shm) fn word(&self) -> &AtomicU64 {
        // SAFETY: the word is mapped for longer than this value.
        unsafe { self.word.as_ref() }
    }

    /// Doubles the blocks that have memory. False: there are no more, or the system has no memory.
    ///
    /// The other side may know of half as many, and has then more than its share of them: it gives
    /// some back when it reads. A side that asks for one block at a time never doubles them twice
    /// without showing the other side bytes in between.
    #[cold]
    #[inline(never)]
    pub(in crate::transport::shm) fn extend(&mut self) -> bool {
        // A malicious peer may lower the word, but not make this side try for ever.
        let made = self.made.max(self.made());
        if self.is_over || made >= self.most {
            return false;
        }
        let to = (2 * made).min(self.most);
        // SAFETY: the halves lie block by block in the mapping, which outlives this value.
        let from = unsafe { self.first_block.add(2 * made * self.blocks.size) };
        match populate(from, 2 * (to - made) * self.blocks.size) {
            Ok(()) => {
                self.made = to;
                self.word().fetch_max(to as u64, Ordering::AcqRel);
                true
            }
            Err(errno) => {
                // A signal came between: the next look tries again.
                self.is_over = errno != Errno::EINTR;
                false
            }
        }
    }
}

/// Whether the system can give memory to parts of a mapping (Linux 5.14). The first page has some.
pub(super) fn is_possible(start: NonNull<u8>) -> bool {
    populate(start, 1).is_ok()
}

/// Gives memory to a part of a shared mapping, and writes nothing.
fn populate(from: NonNull<u8>, len: usize) -> Result<(), Errno> {
    let Some(len) = NonZero::new(len) else {
        return Ok(());
    };
    // SAFETY: the part is of the caller's mapping; the advice changes no byte of it.
    unsafe { madvise(from.cast(), len.get(), MmapAdvise::MADV_POPULATE_WRITE) }
}
