//! Where the bytes of one element lie, in an optimised form that the pack engine walks.
//!
//! A layout keeps the order of the type map (MPI-5.0 §5.1): byte `k` of the packed stream is byte
//! `k` of the type map. Adjacent blocks are merged and regular patterns become loops, so that a
//! vector of vectors of a million blocks stays a few words.

use std::rc::Rc;

/// Deepest nesting of loops and sequences: the walk recurses once for each level.
pub(super) const MAX_DEPTH: u32 = 512;

/// Sequences of at most this many parts are spliced into the sequence that holds them.
const SPLICE: usize = 16;

/// A contiguous piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Displacement in bytes.
    pub at: i64,
    /// Length in bytes, positive.
    pub len: i64,
    /// Position of its first byte in the packed stream of its list.
    pub start: i64,
}

/// One part of a sequence.
#[derive(Clone, Debug)]
pub(super) struct LayoutPart {
    /// Position of its first byte in the packed stream of its sequence.
    pub start: i64,
    /// The layout at this place; its offset holds the displacement.
    pub layout: Layout,
}

/// The pattern of a layout, relative to its offset.
#[derive(Clone, Debug)]
pub(super) enum LayoutShape {
    /// `size` bytes in a row (also the empty layout).
    Bytes,
    /// `count` blocks of `len` bytes, `stride` bytes from start to start.
    Strided { count: i64, len: i64, stride: i64 },
    /// Blocks of `len` bytes at displacements.
    Blocks { len: i64, at: Rc<[i64]> },
    /// Blocks of different lengths.
    List(Rc<[Block]>),
    /// `count` copies of a layout, `stride` bytes apart.
    Repeat {
        count: i64,
        stride: i64,
        child: Rc<Layout>,
    },
    /// Layouts one after the other.
    Sequence(Rc<[LayoutPart]>),
}

/// A pattern of bytes at an offset from the address of an element.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Displacement of the pattern's origin in bytes.
    pub offset: i64,
    /// Bytes of data.
    pub size: i64,
    /// Levels of loops and sequences.
    pub depth: u32,
    /// The pattern.
    pub shape: LayoutShape,
}

impl Layout {
    /// No data at all.
    pub fn empty() -> Self {
        Self::bytes(0)
    }

    /// `len` bytes at the origin.
    pub fn bytes(len: i64) -> Self {
        Self {
            offset: 0,
            size: len,
            depth: 1,
            shape: LayoutShape::Bytes,
        }
    }

    /// The same pattern `by` bytes further.
    pub fn shifted(mut self, by: i64) -> Self {
        if self.size != 0 {
            self.offset = self.offset.wrapping_add(by);
        }
        self
    }

    /// `count` copies, `stride` bytes apart. The caller has checked that the size fits.
    pub fn repeated(self, count: i64, stride: i64) -> Self {
        if count <= 0 || self.size == 0 {
            return Self::empty();
        }
        if count == 1 {
            return self;
        }
        let size = self.size * count;
        let (offset, depth) = (self.offset, self.depth);
        let same = |shape| Self {
            offset,
            size,
            depth,
            shape,
        };
        match self.shape {
            LayoutShape::Bytes if stride == self.size => same(LayoutShape::Bytes),
            LayoutShape::Bytes => same(LayoutShape::Strided {
                count,
                len: self.size,
                stride,
            }),
            LayoutShape::Strided {
                count: inner,
                len,
                stride: step,
            } if step.checked_mul(inner) == Some(stride) => same(LayoutShape::Strided {
                count: inner * count,
                len,
                stride: step,
            }),
            LayoutShape::Repeat {
                count: inner,
                stride: step,
                child,
            } if step.checked_mul(inner) == Some(stride) => same(LayoutShape::Repeat {
                count: inner * count,
                stride: step,
                child,
            }),
            _ => Self {
                offset: 0,
                size,
                depth: depth + 1,
                shape: LayoutShape::Repeat {
                    count,
                    stride,
                    child: Rc::new(self),
                },
            },
        }
    }

    /// Blocks `(displacement, length)` in this order; empty ones are dropped, adjacent ones merged.
    pub fn from_blocks(blocks: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let mut list: Vec<Block> = Vec::new();
        let mut start = 0;
        for (at, len) in blocks {
            if len == 0 {
                continue;
            }
            match list.last_mut() {
                Some(last) if last.at.wrapping_add(last.len) == at => last.len += len,
                _ => list.push(Block { at, len, start }),
            }
            start += len;
        }
        let Some(first) = list.first().copied() else {
            return Self::empty();
        };
        if list.len() == 1 {
            return Self::bytes(first.len).shifted(first.at);
        }
        let shape = if list.iter().any(|b| b.len != first.len) {
            LayoutShape::List(list.into())
        } else {
            let step = list[1].at.wrapping_sub(first.at);
            if list
                .windows(2)
                .all(|w| w[1].at.wrapping_sub(w[0].at) == step)
            {
                let count = list.len() as i64;
                return Self::bytes(first.len)
                    .repeated(count, step)
                    .shifted(first.at);
            }
            LayoutShape::Blocks {
                len: first.len,
                at: list.iter().map(|b| b.at).collect(),
            }
        };
        Self {
            offset: 0,
            size: start,
            depth: 1,
            shape,
        }
    }

    /// Layouts one after the other, each at its own offset.
    pub fn sequence(parts: Vec<Layout>) -> Self {
        let mut flat: Vec<Layout> = Vec::with_capacity(parts.len());
        for part in parts {
            part.splice_into(&mut flat);
        }
        if flat.iter().all(|l| matches!(l.shape, LayoutShape::Bytes)) {
            return Self::from_blocks(flat.iter().map(|l| (l.offset, l.size)));
        }
        if flat.len() == 1 {
            return flat.remove(0);
        }
        let depth = flat.iter().map(|l| l.depth).max().unwrap_or(0) + 1;
        let mut start = 0;
        let parts: Rc<[LayoutPart]> = flat
            .into_iter()
            .map(|layout| {
                let part = LayoutPart { start, layout };
                start += part.layout.size;
                part
            })
            .collect();
        Self {
            offset: 0,
            size: start,
            depth,
            shape: LayoutShape::Sequence(parts),
        }
    }

    /// Adds this layout to a sequence, short sequences and lists piece by piece.
    fn splice_into(self, flat: &mut Vec<Layout>) {
        if self.size == 0 {
            return;
        }
        match &self.shape {
            LayoutShape::Sequence(parts) if parts.len() <= SPLICE => {
                flat.extend(parts.iter().map(|p| p.layout.clone().shifted(self.offset)))
            }
            LayoutShape::List(blocks) if blocks.len() <= SPLICE => {
                for b in blocks.iter() {
                    push_bytes(flat, self.offset.wrapping_add(b.at), b.len);
                }
            }
            LayoutShape::Blocks { len, at } if at.len() <= SPLICE => {
                for a in at.iter() {
                    push_bytes(flat, self.offset.wrapping_add(*a), *len);
                }
            }
            LayoutShape::Bytes => push_bytes(flat, self.offset, self.size),
            _ => flat.push(self),
        }
    }
}

/// Appends a block, merged with the one before it where they touch.
fn push_bytes(flat: &mut Vec<Layout>, at: i64, len: i64) {
    if let Some(last) = flat.last_mut()
        && matches!(last.shape, LayoutShape::Bytes)
        && last.offset.wrapping_add(last.size) == at
    {
        last.size += len;
        return;
    }
    flat.push(Layout::bytes(len).shifted(at));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_blocks_become_one() {
        let l = Layout::from_blocks([(8, 4), (12, 4), (16, 0), (16, 8)]);
        assert!(matches!(l.shape, LayoutShape::Bytes));
        assert_eq!((l.offset, l.size), (8, 16));
    }

    #[test]
    fn equal_steps_become_a_loop() {
        let l = Layout::from_blocks([(8, 4), (0, 4), (-8, 4)]);
        assert!(matches!(
            l.shape,
            LayoutShape::Strided {
                count: 3,
                len: 4,
                stride: -8
            }
        ));
        assert_eq!(l.offset, 8);
    }

    #[test]
    fn nested_loops_that_continue_each_other_become_one() {
        let row = Layout::bytes(4).repeated(1000, 8);
        let all = row.repeated(1000, 8000);
        assert!(matches!(
            all.shape,
            LayoutShape::Strided {
                count: 1_000_000,
                len: 4,
                stride: 8
            }
        ));
        let gap = Layout::bytes(4).repeated(1000, 8).repeated(1000, 10_000);
        assert!(matches!(gap.shape, LayoutShape::Repeat { count: 1000, .. }));
        assert_eq!(gap.size, 4_000_000);
    }

    #[test]
    fn sequences_of_mixed_parts_keep_their_order() {
        let strided = Layout::bytes(4).repeated(3, 8);
        let l = Layout::sequence(vec![
            Layout::bytes(8),
            Layout::bytes(8).shifted(8),
            strided.shifted(100),
        ]);
        let LayoutShape::Sequence(parts) = &l.shape else {
            panic!("a sequence expected")
        };
        assert_eq!(parts.len(), 2);
        assert_eq!((parts[1].start, parts[1].layout.offset), (16, 100));
    }
}
