//! The addresses of one direction of a link's rings and cells, for each of its sides.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::link_memory::{Direction, LinkMemory, SharedWord};

/// What one side writes and the other reads, of parts of this kind; its pointers are good for as
/// long as the memory is mapped.
pub(super) struct RingSide<T> {
    /// The first part.
    pub(super) first: NonNull<T>,
    /// The reader's position.
    pub(super) head: NonNull<AtomicU64>,
}

impl RingSide<u8> {
    /// Of the rings for short bodies.
    pub(super) fn small_ring(memory: &LinkMemory, direction: Direction) -> Self {
        Self {
            first: memory.small_ring(direction),
            head: memory.word(SharedWord::SmallRingHead(direction)),
        }
    }
}

impl RingSide<AtomicU64> {
    /// Of the cells.
    pub(super) fn cells(memory: &LinkMemory, direction: Direction) -> Self {
        Self {
            first: memory.cells(direction),
            head: memory.word(SharedWord::CellHead(direction)),
        }
    }
}
