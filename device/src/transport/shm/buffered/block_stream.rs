//! The streams of bytes of a link, in blocks that both directions share ([`rejoin_ring::blocks`]).

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rejoin_ring::OutOfBounds;
use rejoin_ring::blocks::{BlockPool, BlockReader, BlockWriter, DirectionWords, Returns};

use super::super::link_memory::{BlockGrowth, BlockTable, Direction, LinkMemory, SharedWord, word};
use super::cache_distance::{CacheDistance, DistanceMeter, PROBE};
use super::streaming_store::StreamingStore;

/// The addresses of one direction; good for as long as the memory is mapped.
struct Shared {
    /// The writer's position, and the reader's.
    tail: NonNull<AtomicU64>,
    head: NonNull<AtomicU64>,
    /// Which blocks the stream is in.
    stream: NonNull<[AtomicU64]>,
    /// The blocks that the writer has given back.
    returned: NonNull<AtomicU64>,
    returns: NonNull<[AtomicU64]>,
    /// What the reader has found of the way between both cores.
    distance: NonNull<AtomicU64>,
}

impl Shared {
    fn new(memory: &LinkMemory, direction: Direction) -> Self {
        Self {
            tail: memory.word(SharedWord::Tail(direction)),
            head: memory.word(SharedWord::Head(direction)),
            stream: memory.table(BlockTable::Stream(direction)),
            returned: memory.word(SharedWord::Returned(direction)),
            returns: memory.table(BlockTable::Returned(direction)),
            distance: memory.word(SharedWord::Distance(direction)),
        }
    }

    #[inline(always)]
    fn distance(&self) -> CacheDistance {
        CacheDistance::of_word(word!(self.distance).load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn returns(&self) -> Returns<'_, AtomicU64> {
        Returns {
            count: word!(self.returned),
            table: word!(self.returns),
        }
    }

    #[inline(always)]
    fn words(&self) -> DirectionWords<'_, AtomicU64> {
        DirectionWords {
            head: word!(self.head),
            returned: self.returns(),
        }
    }
}

/// Loads a byte of each line of the first [`PROBE`] bytes, all at once.
///
/// # Safety
/// The first [`PROBE`] bytes are readable.
unsafe fn load_lines(from: *const u8) {
    let line = |index| {
        // SAFETY: the offset is below `PROBE`; the caller's promise.
        unsafe { from.add(index).read_volatile() }
    };
    let sum = (0..PROBE).step_by(64).map(line).fold(0, u8::wrapping_add);
    std::hint::black_box(sum);
}

/// Both streams of a link, as one of its sides has them.
pub(in crate::transport::shm) struct BlockStream {
    pool: BlockPool,
    writer: BlockWriter,
    reader: BlockReader,
    /// The direction that this side writes, and the one that it reads.
    out: Shared,
    come: Shared,
    first: NonNull<u8>,
    growth: BlockGrowth,
    store: StreamingStore,
    meter: DistanceMeter,
}

impl BlockStream {
    /// Of the side that writes this direction. The memory stays mapped for as long as this value
    /// is there.
    pub(in crate::transport::shm) fn new(
        memory: &LinkMemory,
        out: Direction,
        shared_cores: bool,
    ) -> Self {
        let (blocks, growth) = (memory.blocks(), memory.growth().between(shared_cores));
        Self {
            pool: BlockPool::new(blocks, out == Direction::FromDialer, growth.made()),
            writer: BlockWriter::default(),
            reader: BlockReader::new(blocks),
            out: Shared::new(memory, out),
            come: Shared::new(memory, out.opposite()),
            first: memory.first_block(),
            growth,
            store: StreamingStore::new(shared_cores),
            meter: DistanceMeter::new(),
        }
    }

    /// So many bytes of bodies came, through blocks or by single copy.
    #[inline]
    pub(in crate::transport::shm) fn passed(&mut self, len: usize) {
        let news = self.meter.pass(len);
        self.tell(news);
    }

    #[inline]
    fn tell(&self, news: Option<CacheDistance>) {
        if let Some(distance) = news {
            word!(self.come.distance).store(distance.to_word(), Ordering::Relaxed);
        }
    }

    /// How many of `wanted` bytes there is room for.
    ///
    /// # Errors
    /// The peer says what cannot be.
    #[inline]
    pub(in crate::transport::shm) fn room(&mut self, wanted: usize) -> Result<usize, OutOfBounds> {
        loop {
            let (returns, made) = (self.come.returns(), self.growth.word());
            let room = self.writer.room(&mut self.pool, wanted, returns, made)?;
            if room == wanted || !self.growth.extend() {
                return Ok(room);
            }
        }
    }

    /// Copies bytes behind those that were written, as far as there is room; the reader does not
    /// see them yet.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    #[inline]
    pub(super) unsafe fn put(&mut self, from: *const u8, len: usize) {
        let mut done = 0;
        while done < len {
            let table = word!(self.out.stream);
            let place = self.writer.next(&mut self.pool, table, len - done);
            let count = place.range.len();
            if count == 0 {
                return;
            }
            // SAFETY: the range is of the blocks, which the peer does not read before it is
            // published; the caller promises readable memory.
            unsafe {
                let to = self.first.as_ptr().add(place.range.start);
                let from = from.add(done);
                if place.was_read || self.out.distance() == CacheDistance::Near {
                    std::ptr::copy_nonoverlapping(from, to, count);
                } else {
                    self.store.copy(to, from, count);
                }
            }
            done += count;
        }
    }

    /// Bytes until the next written one is of another block.
    #[inline(always)]
    pub(super) fn step_out(&self) -> usize {
        self.writer.step(&self.pool)
    }

    /// Bytes until the next one read is of another block.
    #[inline(always)]
    pub(super) fn step_in(&self) -> usize {
        self.reader.step()
    }

    /// Shows the reader all that was copied.
    #[inline]
    pub(super) fn publish(&self) {
        self.writer.publish(word!(self.out.tail));
    }

    /// Bytes written so far, the low half of the number.
    #[inline(always)]
    pub(in crate::transport::shm) fn written(&self) -> u32 {
        self.writer.position()
    }

    /// Changes when the peer takes bytes of this side, or gives blocks back.
    #[inline]
    pub(in crate::transport::shm) fn taken(&self) -> u64 {
        let bytes = word!(self.out.head).load(Ordering::Relaxed);
        bytes.wrapping_add(word!(self.come.returned).load(Ordering::Relaxed))
    }

    /// How many of `wanted` bytes have come.
    ///
    /// # Errors
    /// The peer says what cannot be.
    #[inline]
    pub(super) fn ready(&mut self, wanted: usize) -> Result<usize, OutOfBounds> {
        self.reader.ready(word!(self.come.tail), wanted)
    }

    /// So many bytes have come, as a cell says.
    ///
    /// # Errors
    /// So many bytes cannot have come.
    #[inline]
    pub(super) fn shown(&mut self, len: usize) -> Result<(), OutOfBounds> {
        self.reader.shown(len)
    }

    /// How many bytes come before this position of the peer's stream.
    ///
    /// # Errors
    /// The position is impossible.
    #[inline]
    pub(super) fn until(&self, position: u32) -> Result<usize, OutOfBounds> {
        self.reader.until(position)
    }

    /// Takes `len` bytes that have come, and copies the first of them to where they go. The caller
    /// then [releases](BlockStream::release) them.
    ///
    /// # Safety
    /// `to` is writable for `wanted` bytes, which nothing else uses.
    ///
    /// # Errors
    /// The peer says what cannot be: not all were copied.
    #[inline]
    pub(super) unsafe fn take(
        &mut self,
        len: usize,
        to: *mut u8,
        wanted: usize,
    ) -> Result<(), OutOfBounds> {
        let mut done = 0;
        while done < len {
            let table = word!(self.come.stream);
            let range = self.reader.next(&mut self.pool, table, len - done)?;
            let count = range.len().min(wanted.saturating_sub(done));
            // SAFETY: the range is of the blocks, and was published; this side does not write it
            // before the next call; the caller promises the rest.
            unsafe {
                let from = self.first.as_ptr().add(range.start);
                let news = match self.meter.begin(count) {
                    Some(begin) => {
                        load_lines(from);
                        self.meter.end(begin.elapsed())
                    }
                    None => self.meter.pass(count),
                };
                self.tell(news);
                std::ptr::copy_nonoverlapping(from, to.wrapping_add(done), count);
            }
            done += range.len();
        }
        Ok(())
    }

    /// Shows the peer how far this side has read, and gives it blocks beyond this side's share;
    /// true if it did.
    ///
    /// # Errors
    /// The peer says what cannot be.
    #[inline]
    pub(super) fn release(&mut self) -> Result<bool, OutOfBounds> {
        let (pool, writer) = (&mut self.pool, &mut self.writer);
        let (come, out) = (self.come.words(), self.out.words());
        self.reader
            .release(pool, writer, come, out, self.growth.word())
    }

    /// Bytes read so far, the low half of the number.
    #[inline(always)]
    pub(in crate::transport::shm) fn read(&self) -> u32 {
        self.reader.position()
    }

    /// Whether no byte has come that is not read. May lag; fails never.
    #[inline]
    pub(in crate::transport::shm) fn is_empty(&self) -> bool {
        self.reader.is_empty(word!(self.come.tail))
    }
}
