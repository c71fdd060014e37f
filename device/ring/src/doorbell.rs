//! The doorbell: it wakes a side that sleeps, and costs nothing while both sides are awake.
//!
//! Each side has a word of events, zero while it is awake. Before it sleeps, it stores the events
//! that shall wake it, then reads the shared words once more. The other side publishes, then reads
//! the events. Each side has a fence between its two steps, so at least one of them sees the
//! other's step (the pattern of Dekker's algorithm). The side that finds its event clears the word
//! and sends one wake-up.
//!
//! A writer of several steps reads the events after the first one and after the last one: a reader
//! that sleeps in between wakes for the last. A reader does so when it gives blocks back.

use std::sync::atomic::Ordering;

use crate::Word;

/// Wakes when there is something to read.
pub const DATA: u64 = 1;
/// Wakes when there is room to write.
pub const ROOM: u64 = 2;

/// Stores the events that wake this side. The caller reads the shared words once more before it
/// sleeps.
#[inline]
pub fn arm<W: Word>(own: &W, events: u64) {
    own.store(events, Ordering::Relaxed);
    W::fence();
}

/// This side is awake. A wake-up that is on its way may still come.
#[inline]
pub fn disarm<W: Word>(own: &W) {
    own.store(0, Ordering::Relaxed);
}

/// After something was published or released: whether the doorbell must be rung for it. True once
/// for each time that it has armed its doorbell.
#[inline]
pub fn must_ring<W: Word>(theirs: &W, event: u64) -> bool {
    W::fence();
    theirs.load(Ordering::Relaxed) & event != 0 && theirs.swap(0, Ordering::Relaxed) != 0
}
