//! Memory for the bodies of the log. It is given once, and its blocks are used again: fresh memory
//! costs several times as much as the copy, because the system must make each page. A file may back
//! its end: the log *spills* there when the memory before has no block.
//!
//! The memory is shared with images of this process, which may be restored. So a block that is
//! needed no more is *held* until an image that was taken afterwards is committed. Until then, the
//! image that would be restored has the earlier body there.

use std::collections::VecDeque;
use std::ops::Range;

use rejoin_channel_table::ids::Epoch;

/// All blocks consist of pages.
const PAGE: usize = 4096;
/// Sizes of blocks for each doubling of their length: at most an eighth of a block is unused.
const PER_DOUBLING: usize = 8;

/// A part of the memory, with any content.
pub(crate) type LogBlock = &'static mut [u8];

/// Unused bytes between two blocks that are given as used: a list of fewer ranges is worth a few
/// pages.
const MOST_GAP: usize = 64 << 10;

/// Blocks of the memory. A copy of a process in tests has none.
#[derive(Debug, Default)]
pub(crate) struct LogSpace {
    /// The addresses of the whole memory.
    all: Range<usize>,
    /// The first address that a file backs.
    file_from: usize,
    /// What no block was made of yet: of memory, and of the file. So no block has parts of both.
    rest: [LogBlock; 2],
    /// Blocks to be used again, by class: those of memory, and those of the file.
    free: [Vec<Vec<LogBlock>>; 2],
    /// Blocks that an image may still need: the newest image when they were put back.
    held: VecDeque<(Epoch, LogBlock)>,
    /// The newest image that was taken.
    newest: Epoch,
    /// Bytes of the blocks that were taken, or are held: of memory, and of the file.
    used: [usize; 2],
    /// Bytes of bodies in the file's blocks that were taken.
    spilled: usize,
}

/// Blocks of memory, and those of the file.
const PLACES: [usize; 2] = [0, 1];

impl Clone for LogSpace {
    fn clone(&self) -> Self {
        Self::default()
    }
}

fn addresses(block: &[u8]) -> Range<usize> {
    let start = block.as_ptr().addr();
    start..start + block.len()
}

/// The class of the smallest blocks that have so many bytes, and their length.
fn class_of(len: usize) -> (usize, usize) {
    let pages = len.div_ceil(PAGE).max(1);
    if pages <= PER_DOUBLING {
        return (pages - 1, pages * PAGE);
    }
    // 8 < pages <= 16 is the first doubling, in steps of one page.
    let doubling = (pages - 1).ilog2() as usize - 3;
    let step = 1 << doubling;
    let steps = pages.div_ceil(step);
    let class = PER_DOUBLING * doubling + steps - 1;
    (class, steps * step * PAGE)
}

impl LogSpace {
    /// A file backs the memory but for the first `in_memory` bytes.
    pub(crate) fn new(memory: LogBlock, in_memory: usize) -> Self {
        let all = addresses(memory);
        let (before, behind) = memory.split_at_mut(in_memory.min(memory.len()));
        Self {
            file_from: all.start.saturating_add(in_memory),
            all,
            rest: [before, behind],
            ..Self::default()
        }
    }

    /// From now on a file backs the memory but for the first `in_memory` bytes.
    pub(crate) fn set_in_memory(&mut self, in_memory: usize) {
        self.file_from = self.all.start.saturating_add(in_memory);
        let middle = self.file_from.min(self.all.end);
        let parts = [self.all.start..middle, middle..self.all.end];
        let free = self.free.iter().flatten().flatten();
        let unused = free.chain(&self.rest).map(|block| addresses(block));
        let unused: Vec<_> = unused.collect();
        self.used = parts.map(|part| {
            let within = |of: &Range<usize>| {
                let end = of.end.min(part.end);
                end.saturating_sub(of.start.max(part.start))
            };
            part.len() - unused.iter().map(within).sum::<usize>()
        });
        let held = self.held.iter().map(|(_, block)| &**block);
        let held = held.filter(|block| self.place(block) == 1);
        let held: usize = held.map(<[u8]>::len).sum();
        self.spilled = self.used[1].saturating_sub(held);
    }

    /// The addresses of the whole memory.
    pub(crate) fn all(&self) -> Range<usize> {
        self.all.clone()
    }

    /// The addresses of the blocks that were taken and not put back, but for those that are
    /// `left_out`; in order, with short gaps between them.
    pub(crate) fn in_use(
        &self,
        left_out: impl IntoIterator<Item = Range<usize>>,
    ) -> Vec<Range<usize>> {
        let free = self.free.iter().flatten().flatten();
        let free = free.map(|block| addresses(block));
        let held = self.held.iter().map(|(_, block)| addresses(block));
        let mut unused: Vec<_> = free.chain(held).chain(left_out).collect();
        unused.extend(self.rest.iter().map(|rest| addresses(rest)));
        unused.retain(|range| !range.is_empty());
        unused.sort_unstable_by_key(|range| range.start);
        let mut used: Vec<Range<usize>> = Vec::new();
        let mut at = self.all.start;
        for unused in unused {
            if at < unused.start {
                match used.last_mut().filter(|last| at - last.end <= MOST_GAP) {
                    Some(last) => last.end = unused.start,
                    None => used.push(at..unused.start),
                }
            }
            at = unused.end;
        }
        used
    }

    /// Bytes of the blocks that were taken, or are held: of memory, and of the file.
    pub(crate) fn used(&self) -> [usize; 2] {
        self.used
    }

    /// Bytes of which blocks were made at any time.
    pub(crate) fn ever_used(&self) -> usize {
        let rest = self.rest.iter().map(|rest| rest.len());
        self.all.len() - rest.sum::<usize>()
    }

    /// Bytes of bodies in the file's blocks that were taken.
    pub(crate) fn spilled(&self) -> usize {
        self.spilled
    }

    fn place(&self, block: &[u8]) -> usize {
        usize::from(block.as_ptr().addr() >= self.file_from)
    }

    /// A block of at least so many bytes, and of not much more; `None` if there is none.
    pub(crate) fn take(&mut self, len: usize) -> Option<LogBlock> {
        let block = PLACES.into_iter().find_map(|place| self.find(place, len))?;
        let place = self.place(block);
        self.used[place] += block.len();
        self.spilled += place * len;
        Some(block)
    }

    fn find(&mut self, place: usize, len: usize) -> Option<LogBlock> {
        let (class, size) = class_of(len);
        if let Some(block) = self.free[place].get_mut(class).and_then(Vec::pop) {
            return Some(block);
        }
        if self.rest[place].len() >= size {
            let (block, rest) = std::mem::take(&mut self.rest[place]).split_at_mut(size);
            self.rest[place] = rest;
            return Some(block);
        }
        let free = &mut self.free[place];
        let most = class_of(2 * size).0.min(free.len().saturating_sub(1));
        free.get_mut(class..=most)?.iter_mut().find_map(Vec::pop)
    }

    /// Takes a block back, which was taken for so many bytes.
    pub(crate) fn hold(&mut self, block: LogBlock, len: usize) {
        let spilled = self.place(block) * len;
        self.spilled = self.spilled.saturating_sub(spilled);
        self.held.push_back((self.newest, block));
    }

    /// An image of this epoch is taken next.
    pub(crate) fn note_image(&mut self, epoch: Epoch) {
        self.newest = self.newest.max(epoch);
    }

    /// The image of this epoch is committed: it would be restored from now on.
    pub(crate) fn image_committed(&mut self, epoch: Epoch) {
        while let Some((_, block)) = self.held.pop_front_if(|(newest, _)| *newest < epoch) {
            let place = self.place(block);
            self.used[place] = self.used[place].saturating_sub(block.len());
            let (class, _) = class_of(block.len());
            let free = &mut self.free[place];
            if free.len() <= class {
                free.resize_with(class + 1, Vec::new);
            }
            free[class].push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(pages: usize) -> LogSpace {
        spilling(pages, 0)
    }

    /// Pages of memory, and then pages of a file.
    fn spilling(pages: usize, more: usize) -> LogSpace {
        let memory = vec![0; (pages + more) * PAGE].into_boxed_slice();
        LogSpace::new(Box::leak(memory), pages * PAGE)
    }

    fn used(space: &LogSpace) -> usize {
        space.used()[0]
    }

    #[test]
    fn a_block_is_an_eighth_too_large_at_most_and_of_its_own_class() {
        let mut last = 0;
        for pages in 1..5_000 {
            let (class, size) = class_of(pages * PAGE);
            assert!(size >= pages * PAGE && class >= last, "{pages}");
            assert!(size - pages * PAGE <= size / 8, "{pages}");
            assert_eq!(class_of(size), (class, size), "{pages}");
            assert!(class == last || class == last + 1, "no class is left out");
            last = class;
        }
        assert_eq!(class_of(1), (0, PAGE));
    }

    #[test]
    fn a_block_is_used_again_after_the_commit_of_a_later_image() {
        let mut space = space(4);
        space.note_image(Epoch(3));
        let block = space.take(4 * PAGE).expect("room");
        let address = block.as_ptr();
        space.hold(block, 1);
        space.image_committed(Epoch(3));
        assert!(space.take(PAGE).is_none(), "the image has a body there");
        space.note_image(Epoch(4));
        assert!(space.take(PAGE).is_none());
        assert_eq!(used(&space), 4 * PAGE, "it is held");
        space.image_committed(Epoch(4));
        assert_eq!(used(&space), 0);
        let again = space.take(4 * PAGE - 1).expect("room");
        assert_eq!((again.as_ptr(), again.len()), (address, 4 * PAGE));
        assert_eq!(used(&space), 4 * PAGE);
        assert!(space.take(1).is_none());
    }

    #[test]
    fn the_blocks_in_use_are_those_that_were_not_put_back() {
        let mut space = space(256);
        let start = space.all().start;
        assert!(space.in_use([]).is_empty());
        let mut blocks: Vec<_> = (0..8).map(|_| space.take(8 * PAGE)).collect();
        let page = |page: usize| start + page * PAGE;
        assert!(space.in_use([]).iter().eq([&(start..page(64))]));
        // One is free, one is held, and a gap of two is short.
        space.hold(blocks[0].take().expect("a block"), 1);
        space.note_image(Epoch(1));
        space.image_committed(Epoch(1));
        assert!(space.in_use([]).iter().eq([&(page(8)..page(64))]));
        for block in &mut blocks[3..5] {
            space.hold(block.take().expect("a block"), 1);
        }
        assert!(space.in_use([]).iter().eq([&(page(8)..page(64))]));
        space.hold(blocks[5].take().expect("a block"), 1);
        assert_eq!(space.in_use([]), [page(8)..page(24), page(48)..page(64)]);
        assert_eq!(space.all(), start..page(256));
    }

    #[test]
    fn a_body_for_which_there_is_no_room_leaves_it_to_others() {
        let mut space = space(4);
        assert!(space.take(5 * PAGE).is_none());
        assert_eq!(
            space.take(3 * PAGE).map(|block| block.len()),
            Some(3 * PAGE)
        );
        assert!(space.take(2 * PAGE).is_none());
        assert!(space.take(PAGE).is_some());
    }

    #[test]
    fn a_larger_block_serves_where_memory_is_short_unless_it_is_more_than_twice_as_large() {
        let mut space = space(12);
        let block = space.take(12 * PAGE).expect("room");
        space.hold(block, 1);
        space.image_committed(Epoch(1));
        assert!(space.take(PAGE).is_none());
        assert_eq!(
            space.take(7 * PAGE).map(|block| block.len()),
            Some(12 * PAGE)
        );
    }

    #[test]
    fn the_log_spills_when_memory_has_no_block_and_takes_memory_again() {
        let mut space = spilling(4, 8);
        let first = space.take(3 * PAGE).expect("memory");
        assert_eq!((space.used(), space.spilled()), ([3 * PAGE, 0], 0));
        // One page is left, and no block has parts of both.
        let spilled = space.take(2 * PAGE - 5).expect("the file");
        assert_eq!(space.used(), [3 * PAGE, 2 * PAGE]);
        assert_eq!(space.spilled(), 2 * PAGE - 5);
        let page = space.take(PAGE).expect("memory");
        assert_eq!(space.used(), [4 * PAGE, 2 * PAGE]);
        assert!(
            space
                .in_use([])
                .iter()
                .eq([&(space.all.start..space.all.start + 6 * PAGE)])
        );
        space.note_image(Epoch(1));
        space.hold(first, 3 * PAGE);
        space.hold(spilled, 2 * PAGE - 5);
        assert_eq!((space.used(), space.spilled()), ([4 * PAGE, 2 * PAGE], 0));
        space.image_committed(Epoch(2));
        assert_eq!(space.used(), [PAGE, 0]);
        // Both have a block, and the file has the rest.
        let again = space.take(3 * PAGE).expect("memory");
        assert_eq!(
            (again.as_ptr().addr(), space.spilled()),
            (space.all().start, 0)
        );
        let all: Vec<_> = (0..9).map_while(|_| space.take(2 * PAGE)).collect();
        assert_eq!((all.len(), space.spilled()), (4, 8 * PAGE), "the file");
        space.hold(page, PAGE);
    }

    #[test]
    fn what_backs_the_memory_may_change() {
        let mut space = spilling(4, 8);
        let blocks: Vec<_> = (0..5).map_while(|_| space.take(2 * PAGE)).collect();
        assert_eq!(
            (space.used(), space.spilled()),
            ([4 * PAGE, 6 * PAGE], 6 * PAGE)
        );
        space.set_in_memory(6 * PAGE);
        assert_eq!(
            (space.used(), space.spilled()),
            ([6 * PAGE, 4 * PAGE], 4 * PAGE)
        );
        space.set_in_memory(usize::MAX);
        assert_eq!((space.used(), space.spilled()), ([10 * PAGE, 0], 0));
        for block in blocks {
            space.hold(block, 2 * PAGE);
        }
        space.image_committed(Epoch(1));
        assert_eq!((space.used(), space.spilled()), ([0, 0], 0));
        let all: Vec<_> = (0..9).map_while(|_| space.take(2 * PAGE)).collect();
        assert_eq!(
            (all.len(), space.used()),
            (6, [12 * PAGE, 0]),
            "all of it again"
        );
    }
}
