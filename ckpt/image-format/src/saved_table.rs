//! The table of an image: checked as a whole before anything is made from it.

use crate::error::ImageError;
use crate::header::ImageHeader;
use crate::records::{
    BASE_LENGTH, EXTENT_LENGTH, REGION_LENGTH, RegionKind, SavedBase, SavedExtent, SavedRegion,
    SavedThread, THREAD_LENGTH,
};
use crate::{EXTENT_PAGES, HEADER_LENGTH, MOST_BASES, PAGE, RESTARTER, USER_END, checksum};

/// A table that has been checked.
#[derive(Debug, Clone, Copy)]
pub struct SavedTable<'a> {
    threads: &'a [u8],
    regions: &'a [u8],
    extents: &'a [u8],
    bases: &'a [u8],
    auxiliary: &'a [u8],
    names: &'a [u8],
}

impl<'a> SavedTable<'a> {
    /// Checks the bytes of a table against the header: the checksum, then that regions are in
    /// order, do not overlap and leave the restarter's addresses free, that extents follow one
    /// another in the file and lie in their regions, that compressed blocks have the pages of their
    /// extents, that names are whole, and that each thread continues in memory that the image has.
    ///
    /// # Errors
    /// [`ImageError::TableDamaged`], [`ImageError::Malformed`].
    pub fn new(header: &ImageHeader, bytes: &'a [u8]) -> Result<Self, ImageError> {
        if bytes.len() as u64 != header.table.length || checksum(bytes) != header.table.checksum {
            return Err(ImageError::TableDamaged);
        }
        let mut rest = bytes;
        let mut part = |length: u64| -> Result<&'a [u8], ImageError> {
            let length = usize::try_from(length).map_err(|_| ImageError::Malformed(2))?;
            let (part, after) = rest
                .split_at_checked(length)
                .ok_or(ImageError::Malformed(2))?;
            rest = after;
            Ok(part)
        };
        let [threads, regions, extents, bases, auxiliary] = header.table.counts.lengths();
        let table = Self {
            threads: part(threads)?,
            regions: part(regions)?,
            extents: part(extents)?,
            bases: part(bases)?,
            auxiliary: part(auxiliary)?,
            names: rest,
        };
        table.check_regions()?;
        table.check_bases()?;
        table.check_extents(header)?;
        table.check_threads()?;
        Ok(table)
    }

    /// The threads.
    pub fn threads(&self) -> impl Iterator<Item = SavedThread> + use<'a> {
        self.threads
            .chunks_exact(THREAD_LENGTH)
            .map(SavedThread::decode)
    }

    /// The regions in the order of their addresses.
    pub fn regions(&self) -> impl Iterator<Item = SavedRegion> + use<'a> {
        let records = self.regions.chunks_exact(REGION_LENGTH);
        records.filter_map(SavedRegion::decode)
    }

    /// The extents of a region.
    pub fn extents_of(&self, region: &SavedRegion) -> impl Iterator<Item = SavedExtent> + use<'a> {
        let from = region.first_extent as usize * EXTENT_LENGTH;
        let length = region.extents as usize * EXTENT_LENGTH;
        let records = self.extents.get(from..from.saturating_add(length));
        let records = records.unwrap_or_default().chunks_exact(EXTENT_LENGTH);
        records.map(SavedExtent::decode)
    }

    /// How many extents all regions have.
    #[must_use]
    pub fn extent_count(&self) -> u32 {
        (self.extents.len() / EXTENT_LENGTH) as u32
    }

    /// An extent by its number, in the order of the file and of the regions.
    #[must_use]
    pub fn extent(&self, number: u32) -> Option<SavedExtent> {
        let from = number as usize * EXTENT_LENGTH;
        let record = self.extents.get(from..from.saturating_add(EXTENT_LENGTH))?;
        Some(SavedExtent::decode(record))
    }

    /// The path of a region's file, without a zero byte at its end.
    #[must_use]
    pub fn name_of(&self, region: &SavedRegion) -> &'a [u8] {
        let from = region.name as usize;
        let end = from.saturating_add(region.name_length as usize);
        self.names.get(from..end).unwrap_or_default()
    }

    /// Other files that extents are in.
    pub fn bases(&self) -> impl Iterator<Item = SavedBase> + use<'a> {
        self.bases.chunks_exact(BASE_LENGTH).map(SavedBase::decode)
    }

    /// The name of a base's file, without a zero byte at its end.
    #[must_use]
    pub fn base_name(&self, base: &SavedBase) -> &'a [u8] {
        let from = base.name as usize;
        let end = from.saturating_add(base.name_length as usize);
        self.names.get(from..end).unwrap_or_default()
    }

    /// The auxiliary vector, as the kernel gives it.
    #[must_use]
    pub fn auxiliary(&self) -> &'a [u8] {
        self.auxiliary
    }

    fn check_regions(&self) -> Result<(), ImageError> {
        let mut last_end = 0;
        for record in self.regions.chunks_exact(REGION_LENGTH) {
            let region = SavedRegion::decode(record).ok_or(ImageError::Malformed(3))?;
            let is_aligned = region.start.is_multiple_of(PAGE)
                && region.end.is_multiple_of(PAGE)
                && region.offset.is_multiple_of(PAGE);
            let is_in_order = last_end <= region.start && region.start < region.end;
            if !is_aligned || !is_in_order || region.start == 0 || region.end > USER_END {
                return Err(ImageError::Malformed(4));
            }
            if region.start < RESTARTER.end && RESTARTER.start < region.end {
                return Err(ImageError::Malformed(5));
            }
            let name = self.name_of(&region);
            let is_whole = name.len() == region.name_length as usize && !name.contains(&0);
            if !is_whole || region.kind.has_file() != name.starts_with(b"/") {
                return Err(ImageError::Malformed(6));
            }
            if region.kind == RegionKind::SharedFile && region.access & 2 != 0 {
                return Err(ImageError::Malformed(7));
            }
            last_end = region.end;
        }
        Ok(())
    }

    fn check_bases(&self) -> Result<(), ImageError> {
        for base in self.bases() {
            let name = self.base_name(&base);
            let is_whole = !name.is_empty() && name.len() == base.name_length as usize;
            if !is_whole || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
                return Err(ImageError::Malformed(15));
            }
        }
        match self.bases.len() <= MOST_BASES as usize * BASE_LENGTH {
            true => Ok(()),
            false => Err(ImageError::Malformed(16)),
        }
    }

    fn check_extents(&self, header: &ImageHeader) -> Result<(), ImageError> {
        let (mut number, mut position) = (0u64, HEADER_LENGTH as u64);
        let mut pages = 0u64;
        for region in self.regions() {
            if u64::from(region.first_extent) != number
                || (region.extents > 0 && !region.kind.has_extents())
            {
                return Err(ImageError::Malformed(8));
            }
            number += u64::from(region.extents);
            if number * EXTENT_LENGTH as u64 > self.extents.len() as u64 {
                return Err(ImageError::Malformed(9));
            }
            let mut address = region.start;
            for extent in self.extents_of(&region) {
                let in_region = extent.address.is_multiple_of(PAGE)
                    && extent.address >= address
                    && extent.address <= region.end
                    && extent.length() <= region.end - extent.address;
                if !in_region || extent.pages == 0 || extent.pages > EXTENT_PAGES {
                    return Err(ImageError::Malformed(10));
                }
                if !self.is_in_its_file(&extent, position) {
                    return Err(ImageError::Malformed(11));
                }
                let is_own = extent.file == 0;
                if extent.block.is_some_and(|b| !b.has(extent.pages, is_own)) {
                    return Err(ImageError::Malformed(17));
                }
                address = extent.address + extent.length();
                pages += u64::from(extent.pages);
                if extent.file == 0 {
                    // Below the length of the file, as the sum below shows.
                    position = position.saturating_add(extent.stored_length());
                }
            }
        }
        let all = number * EXTENT_LENGTH as u64 == self.extents.len() as u64;
        let hashes = &header.hashes;
        match all && position == hashes.position && pages == hashes.pages {
            true => Ok(()),
            false => Err(ImageError::Malformed(12)),
        }
    }

    /// Whether an extent is at this position of the own file, or anywhere in a base.
    fn is_in_its_file(&self, extent: &SavedExtent, position: u64) -> bool {
        let Some(number) = (extent.file as usize).checked_sub(1) else {
            return extent.position == position;
        };
        let end = extent.position.checked_add(extent.stored_length());
        let base = self.bases().nth(number);
        extent.position.is_multiple_of(PAGE)
            && extent.position >= HEADER_LENGTH as u64
            && base.is_some_and(|base| end.is_some_and(|end| end <= base.length))
    }

    fn check_threads(&self) -> Result<(), ImageError> {
        if self.threads.is_empty() {
            return Err(ImageError::Malformed(13));
        }
        for thread in self.threads() {
            let lies_in = |address: u64, access: u8| {
                let mut regions = self.regions();
                regions
                    .any(|r| r.start <= address && address < r.end && r.access & access == access)
            };
            if !lies_in(thread.entry, 4) || !lies_in(thread.stack, 3) {
                return Err(ImageError::Malformed(14));
            }
        }
        Ok(())
    }
}
