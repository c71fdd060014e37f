//! The file format of process images, and the check of a file that claims to be one.
//!
//! A file is a [header](ImageHeader) of one page, the extents (pages of memory, which may be
//! [compressed](CompressedBlock)), and a [table](SavedTable) of what they are. The writer writes
//! the header last. This crate has no input and output and allocates nothing: callers pass the
//! bytes. So ranks, managers and the freestanding restarter share it. `docs/process-images.md`
//! describes the whole.
//!
//! ```
//! use rejoin_image_format::{HEADER_LENGTH, ImageError, ImageHeader};
//!
//! let torn = [0; HEADER_LENGTH];
//! assert_eq!(ImageHeader::decode(&torn, 4096), Err(ImageError::NotAnImage));
//! ```

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use core::ops::Range;

mod bytes;
mod compressed_block;
mod error;
mod extent_reader;
mod header;
mod image_number;
mod load_order;
mod page_hash;
mod processor;
mod records;
mod saved_table;

pub use compressed_block::{CompressedBlock, compression_room};
pub use error::{ERROR_LENGTH, ImageError};
pub use extent_reader::{ExtentReader, READER_BUFFER};
pub use header::{HashesPlace, ImageHeader, ImageIdentity, MemoryLayout, TablePlace};
pub use image_number::ImageNumber;
pub use load_order::{LOAD_ORDER_LENGTH, LOAD_PATH, LOADED, LoadOrder};
pub use page_hash::{PAGE_HASH_LENGTH, PageHash, checksum_of_pages};
pub use processor::{ProcessorFeatures, WORDS};
pub use records::{
    BASE_LENGTH, EXTENT_LENGTH, REGION_LENGTH, RegionAdvice, RegionKind, SavedBase, SavedExtent,
    SavedRegion, SavedThread, THREAD_LENGTH, TableCounts,
};
pub use saved_table::SavedTable;

/// Bytes of a page. Positions of extents are multiples of it.
pub const PAGE: u64 = 4096;
/// Length of the header in bytes.
pub const HEADER_LENGTH: usize = 4096;
/// The format's version. A reader refuses a newer one.
pub const VERSION: u32 = 4;
/// Most bytes of a table.
pub const TABLE_LIMIT: u64 = 256 << 20;
/// Most pages of an extent: 1 MiB.
pub const EXTENT_PAGES: u32 = 256;
/// Most files that an image refers to.
pub const MOST_BASES: u32 = 64;
/// The addresses that belong to the restarter. No image has memory there. The system places
/// nothing there by itself, nor do AddressSanitizer, ThreadSanitizer and LeakSanitizer.
/// MemorySanitizer takes all addresses.
pub const RESTARTER: Range<u64> = 0x4800_0000_0000..0x4900_0000_0000;
/// The address after the last that a process may have.
pub const USER_END: u64 = 0x7fff_ffff_f000;
/// Set in the result of a saved frame that the restarter resumes; the low half is the number of the
/// socket to the local manager.
pub const RESUMED: u64 = 1 << 63;

/// The checksum of a piece of a file (XXH3, 64 bits). It finds damage, and is no protection from
/// somebody who forges a file.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
