//! Hashes of pages, by which a later image knows the pages that have not changed.

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::PAGE;

/// Length of an encoded [`PageHash`] in bytes.
pub const PAGE_HASH_LENGTH: usize = 16;

/// The hash of a page's contents (XXH3, 128 bits). Pages with equal hashes count as equal: among
/// all pages of a year's images, the chance of an error is below that of a fault in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageHash([u64; 2]);

impl PageHash {
    /// Of the contents of a page.
    #[must_use]
    pub fn of(page: &[u8]) -> Self {
        let hash = xxh3_128(page);
        Self([hash as u64, (hash >> 64) as u64])
    }

    /// The bytes in a file.
    #[must_use]
    pub fn encode(&self) -> [u8; PAGE_HASH_LENGTH] {
        let [low, high] = self.0;
        (u128::from(low) | u128::from(high) << 64).to_le_bytes()
    }

    /// Reads [`PageHash::encode`]'s bytes.
    #[must_use]
    pub fn decode(bytes: &[u8; PAGE_HASH_LENGTH]) -> Self {
        let hash = u128::from_le_bytes(*bytes);
        Self([hash as u64, (hash >> 64) as u64])
    }

    /// The checksum of an extent whose pages have these hashes.
    #[must_use]
    pub fn combine(hashes: impl Iterator<Item = Self>) -> u64 {
        let mut sum = Xxh3::new();
        hashes.for_each(|hash| sum.update(&hash.encode()));
        sum.digest()
    }
}

/// The checksum of an extent.
#[must_use]
pub fn checksum_of_pages(bytes: &[u8]) -> u64 {
    PageHash::combine(bytes.chunks(PAGE as usize).map(PageHash::of))
}
