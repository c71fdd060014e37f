//! Fills memory with the pages of extents.

use crate::{CompressedBlock, EXTENT_PAGES, ImageError, PAGE, SavedExtent, checksum_of_pages};

/// Bytes of each of the two buffers of an [`ExtentReader`].
pub const READER_BUFFER: usize = EXTENT_PAGES as usize * PAGE as usize;

/// Reads extents, decompresses them, and compares their checksums. It remembers the last block of
/// which an extent had a part, because the next extent often has another part.
#[derive(Debug)]
pub struct ExtentReader<'a> {
    /// Bytes of a block, as they are in the file.
    stored: &'a mut [u8],
    /// Pages of the block that is remembered.
    pages: &'a mut [u8],
    /// File and position of the remembered block.
    remembered: Option<(u32, u64)>,
}

impl<'a> ExtentReader<'a> {
    /// The buffers have [`READER_BUFFER`] bytes each, or none where no extent is compressed.
    pub fn new(stored: &'a mut [u8], pages: &'a mut [u8]) -> Self {
        Self {
            stored,
            pages,
            remembered: None,
        }
    }

    /// Fills `memory`, which is as long as the extent. `read` fills bytes from a position in the
    /// extent's file; both are multiples of the page size.
    ///
    /// # Errors
    /// The error of `read`, or [`ImageError::MemoryDamaged`].
    pub fn fill<E: From<ImageError>>(
        &mut self,
        extent: &SavedExtent,
        memory: &mut [u8],
        read: impl FnOnce(&mut [u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let damaged = ImageError::MemoryDamaged(extent.address);
        match extent.block {
            None => read(memory, extent.position)?,
            Some(block) if u32::from(block.pages) == extent.pages => {
                let stored = self.stored.get_mut(..block.stored_length() as usize);
                let stored = stored.ok_or(damaged)?;
                read(stored, extent.position)?;
                if !block.decompress(stored, memory) {
                    return Err(damaged.into());
                }
            }
            Some(block) => {
                let pages = self.pages_of(extent, &block, read)?;
                let from = usize::from(block.first) * PAGE as usize;
                let part = pages.get(from..from + memory.len());
                memory.copy_from_slice(part.ok_or(damaged)?);
            }
        }
        match checksum_of_pages(memory) == extent.checksum {
            true => Ok(()),
            false => Err(damaged.into()),
        }
    }

    /// All pages of a block, of which the extent has a part.
    fn pages_of<E: From<ImageError>>(
        &mut self,
        extent: &SavedExtent,
        block: &CompressedBlock,
        read: impl FnOnce(&mut [u8], u64) -> Result<(), E>,
    ) -> Result<&[u8], E> {
        let damaged = ImageError::MemoryDamaged(extent.address);
        let place = (extent.file, extent.position);
        let pages = self.pages.get_mut(..block.memory_length() as usize);
        let pages = pages.ok_or(damaged)?;
        // Two extents that claim different blocks at one place: the pages' checksums tell.
        if self.remembered != Some(place) {
            self.remembered = None;
            let stored = self.stored.get_mut(..block.stored_length() as usize);
            let stored = stored.ok_or(damaged)?;
            read(stored, extent.position)?;
            if !block.decompress(stored, pages) {
                return Err(damaged.into());
            }
            self.remembered = Some(place);
        }
        Ok(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression_room;

    /// A file of one block of four pages, and the pages.
    fn sample() -> (Vec<u8>, CompressedBlock, Vec<u8>) {
        let pages: Vec<u8> = (0..4 * PAGE).map(|at| (at / 100) as u8).collect();
        let mut file = vec![0; compression_room()];
        let block = CompressedBlock::compress(&pages, &mut file);
        let block = block.expect("a block");
        file.truncate(block.stored_length() as usize);
        (file, block, pages)
    }

    /// The extent of some pages of the block.
    fn extent(block: CompressedBlock, all: &[u8], first: u16, pages: u32) -> SavedExtent {
        let from = usize::from(first) * PAGE as usize;
        let part = &all[from..from + pages as usize * PAGE as usize];
        SavedExtent {
            address: 0x1000,
            position: 0,
            pages,
            file: 1,
            checksum: checksum_of_pages(part),
            block: Some(CompressedBlock { first, ..block }),
        }
    }

    #[test]
    fn parts_of_a_block_are_read_once() {
        let (file, block, all) = sample();
        let [mut stored, mut pages] = [(); 2].map(|()| vec![0; READER_BUFFER]);
        let mut reader = ExtentReader::new(&mut stored, &mut pages);
        let mut reads = 0;
        for (first, count) in [(0, 1), (1, 2), (3, 1), (0, 4)] {
            let extent = extent(block, &all, first, count);
            let mut memory = vec![0; extent.length() as usize];
            let read = |room: &mut [u8], position: u64| -> Result<(), ImageError> {
                assert_eq!((room.len(), position), (file.len(), 0));
                room.copy_from_slice(&file);
                reads += 1;
                Ok(())
            };
            reader.fill(&extent, &mut memory, read).expect("filled");
            let from = usize::from(first) * PAGE as usize;
            assert!(memory[..] == all[from..from + memory.len()]);
        }
        assert_eq!(reads, 2, "once for parts, once for the whole");
    }

    #[test]
    fn a_damaged_block_and_pages_of_another_place_are_refused() {
        let (mut file, block, all) = sample();
        let [mut stored, mut pages] = [(); 2].map(|()| vec![0; READER_BUFFER]);
        let mut reader = ExtentReader::new(&mut stored, &mut pages);
        let mut fill = |extent: &SavedExtent, file: &[u8]| {
            let mut memory = vec![0; extent.length() as usize];
            reader.fill(extent, &mut memory, |room, _| {
                room.copy_from_slice(file);
                Ok::<(), ImageError>(())
            })
        };
        let damaged = Err(ImageError::MemoryDamaged(0x1000));
        let mut other = extent(block, &all, 1, 1);
        other.block = Some(CompressedBlock { first: 2, ..block });
        assert_eq!(fill(&other, &file), damaged, "another page");
        assert_eq!(fill(&extent(block, &all, 1, 1), &file), Ok(()));
        file[block.length as usize / 2] ^= 1;
        assert_eq!(fill(&extent(block, &all, 0, 4), &file), damaged);
    }

    #[test]
    fn without_buffers_a_block_is_refused() {
        let (_, block, all) = sample();
        let mut reader = ExtentReader::new(&mut [], &mut []);
        for extent in [extent(block, &all, 0, 4), extent(block, &all, 1, 1)] {
            let mut memory = vec![0; extent.length() as usize];
            let read = |_: &mut [u8], _| -> Result<(), ImageError> { unreachable!() };
            let damaged = Err(ImageError::MemoryDamaged(0x1000));
            assert_eq!(reader.fill(&extent, &mut memory, read), damaged);
        }
    }
}
