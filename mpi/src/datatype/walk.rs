//! The walk over a layout: finds the blocks of any range of the packed stream.
//!
//! No state is kept between calls. The walk finds a range by division in loops and by binary search
//! in lists. So a message can be packed in segments that begin and end at any byte.

use super::layout::{Block, Layout, LayoutPart, LayoutShape};
use super::movers::Mover;

/// The half-open range of the packed stream that a walk covers; empty ranges are skipped.
#[derive(Clone, Copy)]
struct Window {
    from: i64,
    to: i64,
}

/// Address `by` bytes after `base`; wraps, as absolute displacements do.
#[inline(always)]
fn at(base: usize, by: i64) -> usize {
    base.wrapping_add_signed(by as isize)
}

/// Walks bytes `[from, to)` of the packed stream of `count` elements, `extent` bytes apart.
///
/// # Safety
/// `0 <= from <= to <= count * layout.size`, and every block in the range is valid for the mover.
pub(super) unsafe fn walk_elements<M: Mover>(
    layout: &Layout,
    count: i64,
    extent: i64,
    base: usize,
    range: (i64, i64),
    mover: &mut M,
) {
    let window = Window {
        from: range.0,
        to: range.1,
    };
    if window.from >= window.to {
        return;
    }
    // SAFETY: passed on from the caller.
    unsafe {
        match &layout.shape {
            _ if count == 1 => walk(layout, base, window, mover),
            LayoutShape::Bytes if extent == layout.size => mover.run(
                at(base, layout.offset.wrapping_add(window.from)),
                (window.to - window.from) as usize,
            ),
            LayoutShape::Bytes => {
                let base = at(base, layout.offset);
                let place = |i: i64| at(base, i.wrapping_mul(extent));
                equal_blocks(layout.size, window, mover, place, |m, first, n| {
                    m.strided(
                        place(first),
                        n as usize,
                        layout.size as usize,
                        extent as isize,
                    );
                });
            }
            _ => repeat(layout, extent, base, window, mover),
        }
    }
}

/// Walks a window of one element.
///
/// # Safety
/// The conditions of `walk_elements` with one element.
unsafe fn walk<M: Mover>(layout: &Layout, base: usize, window: Window, mover: &mut M) {
    let base = at(base, layout.offset);
    // SAFETY: passed on from the caller.
    unsafe {
        match &layout.shape {
            LayoutShape::Bytes => {
                mover.run(at(base, window.from), (window.to - window.from) as usize)
            }
            LayoutShape::Strided { len, stride, .. } => {
                let place = |i: i64| at(base, i.wrapping_mul(*stride));
                equal_blocks(*len, window, mover, place, |m, first, n| {
                    m.strided(place(first), n as usize, *len as usize, *stride as isize);
                });
            }
            LayoutShape::Blocks { len, at: places } => {
                let place = |i: i64| at(base, places[i as usize]);
                equal_blocks(*len, window, mover, place, |m, first, n| {
                    let some = &places[first as usize..(first + n) as usize];
                    m.scattered(base, some, *len as usize);
                });
            }
            LayoutShape::List(blocks) => list(blocks, base, window, mover),
            LayoutShape::Repeat { stride, child, .. } => {
                repeat(child, *stride, base, window, mover)
            }
            LayoutShape::Sequence(parts) => sequence(parts, base, window, mover),
        }
    }
}

/// Blocks of one length: a partial first one, whole ones (`whole(mover, first index, count)`), a
/// partial last one.
///
/// # Safety
/// The conditions of `walk`.
#[inline]
unsafe fn equal_blocks<M: Mover>(
    len: i64,
    window: Window,
    mover: &mut M,
    place: impl Fn(i64) -> usize,
    whole: impl FnOnce(&mut M, i64, i64),
) {
    let Window { mut from, to } = window;
    let mut index = from / len;
    let inside = from % len;
    // SAFETY: passed on from the caller; each piece lies in one block of the window.
    unsafe {
        if inside != 0 {
            let piece = (len - inside).min(to - from);
            mover.run(at(place(index), inside), piece as usize);
            from += piece;
            index += 1;
        }
        let blocks = (to - from) / len;
        if blocks > 0 {
            whole(mover, index, blocks);
            index += blocks;
            from += blocks * len;
        }
        if from < to {
            mover.run(place(index), (to - from) as usize);
        }
    }
}

/// Copies of a layout, `stride` bytes apart: a partial first one, whole ones, a partial last one.
///
/// # Safety
/// The conditions of `walk`.
unsafe fn repeat<M: Mover>(
    child: &Layout,
    stride: i64,
    base: usize,
    window: Window,
    mover: &mut M,
) {
    let Window { mut from, to } = window;
    let place = |i: i64| at(base, i.wrapping_mul(stride));
    let mut index = from / child.size;
    let inside = from % child.size;
    // SAFETY: passed on from the caller; each piece lies in one copy of the window.
    unsafe {
        if inside != 0 {
            let piece = (child.size - inside).min(to - from);
            let part = Window {
                from: inside,
                to: inside + piece,
            };
            walk(child, place(index), part, mover);
            from += piece;
            index += 1;
        }
        let copies = (to - from) / child.size;
        for i in index..index + copies {
            whole(child, place(i), mover);
        }
        from += copies * child.size;
        if from < to {
            let part = Window {
                from: 0,
                to: to - from,
            };
            walk(child, place(index + copies), part, mover);
        }
    }
}

/// Walks all of a layout, without a search for a first and last byte. Most copies of a loop are of
/// this kind.
///
/// # Safety
/// The conditions of `walk`.
unsafe fn whole<M: Mover>(layout: &Layout, base: usize, mover: &mut M) {
    let base = at(base, layout.offset);
    // SAFETY: passed on from the caller.
    unsafe {
        match &layout.shape {
            LayoutShape::Bytes => mover.run(base, layout.size as usize),
            LayoutShape::Strided { count, len, stride } => {
                mover.strided(base, *count as usize, *len as usize, *stride as isize);
            }
            LayoutShape::Blocks { len, at } => mover.scattered(base, at, *len as usize),
            LayoutShape::List(blocks) => {
                for b in blocks.iter() {
                    mover.run(at(base, b.at), b.len as usize);
                }
            }
            LayoutShape::Repeat {
                count,
                stride,
                child,
            } => {
                for i in 0..*count {
                    whole(child, at(base, i.wrapping_mul(*stride)), mover);
                }
            }
            LayoutShape::Sequence(parts) => {
                for p in parts.iter() {
                    whole(&p.layout, base, mover);
                }
            }
        }
    }
}

/// Blocks of different lengths.
///
/// # Safety
/// The conditions of `walk`.
unsafe fn list<M: Mover>(blocks: &[Block], base: usize, window: Window, mover: &mut M) {
    let first = match window.from {
        0 => 0,
        from => blocks.partition_point(|b| b.start <= from) - 1,
    };
    for b in &blocks[first..] {
        if b.start >= window.to {
            break;
        }
        let from = (window.from - b.start).max(0);
        let to = (window.to - b.start).min(b.len);
        // SAFETY: passed on from the caller; the piece lies in the block.
        unsafe { mover.run(at(base, b.at.wrapping_add(from)), (to - from) as usize) }
    }
}

/// Layouts one after the other.
///
/// # Safety
/// The conditions of `walk`.
unsafe fn sequence<M: Mover>(parts: &[LayoutPart], base: usize, window: Window, mover: &mut M) {
    let first = match window.from {
        0 => 0,
        from => parts.partition_point(|p| p.start <= from) - 1,
    };
    for p in &parts[first..] {
        if p.start >= window.to {
            break;
        }
        let part = Window {
            from: (window.from - p.start).max(0),
            to: (window.to - p.start).min(p.layout.size),
        };
        // SAFETY: passed on from the caller; the window lies in the part.
        unsafe { walk(&p.layout, base, part, mover) }
    }
}
