//! Pages that were compressed together.
//!
//! A block is of the LZ4 block format. It decompresses to at most 1 MiB, whatever its bytes are.

use lz4rip::block::{compress_into, decompress_into, get_maximum_output_size};

use crate::bytes::{RecordReader, RecordWriter};
use crate::{EXTENT_PAGES, PAGE, checksum};

/// A block in a file, of which an extent has some of the pages, or all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompressedBlock {
    /// Bytes of the block in the file. Zeros follow up to the end of a page.
    pub length: u32,
    /// How many pages it decompresses to.
    pub pages: u16,
    /// The first of these pages that belongs to the extent.
    pub first: u16,
    /// Checksum of its bytes in the file.
    pub checksum: u64,
}

impl CompressedBlock {
    /// Compresses whole pages, at most [`EXTENT_PAGES`], to the beginning of `room`, which then has
    /// zeros up to the end of a page. `None` if that saves no page of a file. It needs about 20 KiB
    /// of the stack.
    #[must_use]
    pub fn compress(pages: &[u8], room: &mut [u8]) -> Option<Self> {
        // A page alone needs a page.
        if pages.len() as u64 <= PAGE {
            return None;
        }
        let length = compress_into(pages, room).ok()?;
        let block = Self {
            length: u32::try_from(length).ok()?,
            pages: u16::try_from(pages.len() as u64 / PAGE).ok()?,
            first: 0,
            checksum: checksum(room.get(..length)?),
        };
        if block.stored_length() >= block.memory_length() {
            return None;
        }
        let rest = room.get_mut(length..block.stored_length() as usize)?;
        rest.fill(0);
        Some(block)
    }

    /// Bytes of the block in the file, with the zeros after it.
    #[must_use]
    pub fn stored_length(&self) -> u64 {
        u64::from(self.length).next_multiple_of(PAGE)
    }

    /// Bytes of all of its pages.
    #[must_use]
    pub fn memory_length(&self) -> u64 {
        u64::from(self.pages) * PAGE
    }

    /// Decompresses it from the beginning of `stored` into all of `memory`. `false` if these are
    /// not its bytes, or if they are no block of this length.
    #[must_use]
    pub fn decompress(&self, stored: &[u8], memory: &mut [u8]) -> bool {
        let Some(bytes) = stored.get(..self.length as usize) else {
            return false;
        };
        memory.len() as u64 == self.memory_length()
            && checksum(bytes) == self.checksum
            && decompress_into(bytes, memory) == Ok(memory.len())
    }

    /// Whether it is of a length that a block can have, and has so many pages of an extent. One in
    /// the image's own file has no other pages.
    pub(crate) fn has(&self, pages: u32, is_own: bool) -> bool {
        let end = u32::from(self.first).saturating_add(pages);
        let is_exact = self.first == 0 && end == self.pages.into();
        self.length > 0
            && u32::from(self.pages) <= EXTENT_PAGES
            && end <= self.pages.into()
            && self.stored_length() < self.memory_length()
            && (is_exact || !is_own)
    }

    pub(crate) fn put(&self, fields: &mut RecordWriter<'_>) {
        fields.word(self.length);
        fields.put(&self.pages.to_le_bytes());
        fields.put(&self.first.to_le_bytes());
        fields.long(self.checksum);
    }

    pub(crate) fn take(fields: &mut RecordReader<'_>) -> Self {
        Self {
            length: fields.word(),
            pages: u16::from_le_bytes(fields.take()),
            first: u16::from_le_bytes(fields.take()),
            checksum: fields.long(),
        }
    }
}

/// Bytes of the room that [`CompressedBlock::compress`] needs.
#[must_use]
pub fn compression_room() -> usize {
    get_maximum_output_size(EXTENT_PAGES as usize * PAGE as usize).next_multiple_of(PAGE as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of words from a short list, or of random bytes.
    fn pages(count: usize, is_random: bool) -> Vec<u8> {
        let mut state = 7u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        let mut bytes = Vec::new();
        while bytes.len() < count * PAGE as usize {
            match is_random {
                true => bytes.push(next() as u8),
                false => bytes.extend([&b"rank "[..], b"window ", b"ack "][next() as usize % 3]),
            }
        }
        bytes.truncate(count * PAGE as usize);
        bytes
    }

    #[test]
    fn pages_come_back_from_a_block() {
        let mut room = vec![9; compression_room()];
        for count in [2, 3, EXTENT_PAGES as usize] {
            let pages = pages(count, false);
            let block = CompressedBlock::compress(&pages, &mut room).expect("a block");
            assert_eq!(usize::from(block.pages), count);
            let stored = block.stored_length() as usize;
            assert!(stored < pages.len());
            assert!(room[block.length as usize..stored].iter().all(|b| *b == 0));
            let mut back = vec![1; pages.len()];
            assert!(block.decompress(&room[..stored], &mut back));
            assert!(back == pages);
            assert!(
                !block.decompress(&room[..stored], &mut back[1..]),
                "other memory"
            );
            assert!(
                !block.decompress(&room[..block.length as usize - 1], &mut back),
                "cut off"
            );
            room[block.length as usize / 2] ^= 4;
            assert!(!block.decompress(&room[..stored], &mut back), "altered");
        }
    }

    #[test]
    fn pages_that_do_not_get_shorter_make_no_block() {
        let mut room = vec![0; compression_room()];
        for (count, is_random) in [(1, false), (0, false), (4, true), (256, true)] {
            let made = CompressedBlock::compress(&pages(count, is_random), &mut room);
            assert_eq!(made, None, "{count} {is_random}");
        }
    }
}
