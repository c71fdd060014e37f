//! The image before, of which a new one takes the pages that have not changed.

use std::ops::Range;
use std::os::fd::RawFd;

use rejoin_image_format::{
    CompressedBlock, HEADER_LENGTH, ImageHeader, ImageIdentity, PAGE, PageHash, SavedBase,
    SavedExtent, SavedTable, checksum,
};

use super::scratch_list::ScratchList;
use crate::sys;

/// Where a page's contents are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PagePlace {
    /// The file, as the new image numbers it.
    pub file: u32,
    /// The position of the page, or of the block that it is in.
    pub position: u64,
    /// The block that it is in, with its number there.
    pub block: Option<CompressedBlock>,
}

impl PagePlace {
    /// The place so many pages later in the same extent.
    pub fn after(self, pages: u32) -> Self {
        match self.block {
            None => Self {
                position: self.position + u64::from(pages) * PAGE,
                ..self
            },
            // A block has at most 256 pages.
            Some(block) => Self {
                block: Some(CompressedBlock {
                    first: block.first.saturating_add(pages as u16),
                    ..block
                }),
                ..self
            },
        }
    }
}

/// The image before. Its pages are asked for in the order of their addresses.
pub(super) struct BaseImage {
    /// Refers to `bytes`.
    table: SavedTable<'static>,
    bytes: ScratchList<u8>,
    hashes: ScratchList<PageHash>,
    /// The file itself; the name is that of the caller.
    file: SavedBase,
    /// The extent that the last page was in, its number, and the place of its first hash.
    extent: SavedExtent,
    number: u32,
    first: usize,
}

impl BaseImage {
    /// Reads the table and the hashes. `None` if the file is not whole, or no image of the rank:
    /// then the new image is complete in itself.
    pub fn read(file: RawFd, identity: &ImageIdentity) -> Option<Self> {
        let mut page = [0; HEADER_LENGTH];
        read_at(file, &mut page, 0)?;
        let length = sys::status(file).ok()?.st_size as u64;
        let header = ImageHeader::decode(&page, length).ok()?;
        let of = &header.identity;
        if (of.job, of.rank) != (identity.job, identity.rank) || of.number >= identity.number {
            return None;
        }
        let mut bytes = ScratchList::new(header.table.length as usize).ok()?;
        read_at(file, bytes.room(), header.table.position)?;
        // SAFETY: the memory stays where it is, and unchanged, as long as this value lives.
        let whole = unsafe {
            let start = bytes.room().as_ptr();
            std::slice::from_raw_parts(start, header.table.length as usize)
        };
        let table = SavedTable::new(&header, whole).ok()?;
        let mut hashes = ScratchList::<PageHash>::new(header.hashes.pages as usize).ok()?;
        read_at(file, hashes.room_bytes(), header.hashes.position)?;
        if checksum(hashes.room_bytes()) != header.hashes.checksum {
            return None;
        }
        hashes.grow(header.hashes.pages as usize);
        Some(Self {
            extent: table.extent(0).unwrap_or_default(),
            table,
            bytes,
            hashes,
            file: SavedBase {
                length,
                checksum: ImageHeader::checksum_in(&page),
                name: 0,
                name_length: 0,
            },
            number: 0,
            first: 0,
        })
    }

    /// The addresses of this memory.
    pub fn addresses(&self) -> [Range<u64>; 2] {
        [self.bytes.addresses(), self.hashes.addresses()]
    }

    /// File of the image, and then the files that it refers to, with their names.
    pub fn files<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = (SavedBase, &'a [u8])> {
        let others = self.table.bases();
        let others = others.map(|base| (base, self.table.base_name(&base)));
        std::iter::once((self.file, name)).chain(others)
    }

    /// Where the contents of the page at an address are, if they have this hash there.
    pub fn find(&mut self, address: u64, hash: PageHash) -> Option<PagePlace> {
        while self.extent.address + self.extent.length() <= address {
            let next = self.table.extent(self.number + 1)?;
            self.first += self.extent.pages as usize;
            self.number += 1;
            self.extent = next;
        }
        let within = address.checked_sub(self.extent.address)? / PAGE;
        let known = self.hashes.get(self.first + within as usize)?;
        let begin = PagePlace {
            // The file itself is the first base of the new image.
            file: self.extent.file + 1,
            position: self.extent.position,
            block: self.extent.block,
        };
        (*known == hash).then(|| begin.after(within as u32))
    }
}

/// Fills the room from a position in a file.
fn read_at(file: RawFd, room: &mut [u8], position: u64) -> Option<()> {
    let mut done = 0;
    while done < room.len() {
        let rest = &mut room[done..];
        let from = (position + done as u64) as i64;
        // SAFETY: pointer and length describe the rest of the room.
        let count = unsafe { libc::pread(file, rest.as_mut_ptr().cast(), rest.len(), from) };
        match sys::check(count as i64) {
            Ok(count @ 1..) => done += count as usize,
            Err(libc::EINTR) => {}
            _ => return None,
        }
    }
    Some(())
}
