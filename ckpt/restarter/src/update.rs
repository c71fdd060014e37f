//! Makes the memory of an image of that of the image before, which is in place.
//!
//! A page that the new image takes from an earlier file is in memory already, at its address: the
//! writer compares pages with those at the same address in the image before. So only pages in the
//! new file are read, unless their region is another one now.

use rejoin_image_format::{ImageError, RegionKind, SavedExtent, SavedRegion, SavedTable};

use crate::fill::{self, FillSpeed};
use crate::loaded_image::LoadedImage;
use crate::rebuild;
use crate::system_calls::{self as calls, RestartStep};

/// Whether the memory of a region serves a region of the next image, which may have grown.
fn serves(
    (before, old): (&SavedTable<'_>, &SavedRegion),
    (next, new): (&SavedTable<'_>, &SavedRegion),
) -> bool {
    let place = |r: &SavedRegion| (r.start, r.kind, r.access, r.advice, r.offset);
    let file = |r: &SavedRegion| (r.file_length, r.changed);
    let has_grown = old.kind == RegionKind::Memory && old.end < new.end;
    place(old) == place(new)
        && file(old) == file(new)
        && (old.end == new.end || has_grown)
        && before.name_of(old) == next.name_of(new)
}

/// The region that begins at an address.
fn beginning_at(table: &SavedTable<'_>, address: u64) -> Option<SavedRegion> {
    table.regions().find(|region| region.start == address)
}

/// Brings all regions to the state of the next image.
pub fn regions(
    before: &SavedTable<'_>,
    next: &LoadedImage,
    speed: FillSpeed,
) -> Result<(), ImageError> {
    let table = &next.table;
    for old in before.regions() {
        let new = beginning_at(table, old.start);
        if new.is_some_and(|new| serves((before, &old), (table, &new))) {
            continue;
        }
        if old.kind == RegionKind::Kernel {
            return Err(ImageError::OtherKernel);
        }
        // SAFETY: this memory is the process's, which does not run yet.
        unsafe { calls::unmap(old.start, old.length()) }.map_err(RestartStep::Unmap.because())?;
    }
    for (number, new) in table.regions().enumerate() {
        let old = beginning_at(before, new.start);
        let old = old.filter(|old| serves((before, old), (table, &new)));
        match (new.kind, old) {
            (RegionKind::Kernel, Some(_)) => {}
            (RegionKind::Kernel, None) => return Err(ImageError::OtherKernel),
            (_, Some(old)) => keep((before, &old), (table, &new), number)?,
            (_, None) => rebuild::region(table, &new, number)?,
        }
    }
    let is_there = |extent: &SavedExtent| is_there(before, table, extent);
    fill::all(&next.files, table, &is_there, speed)
}

/// Drops pages that the region has no more, maps what it has grown by, and lets it be written.
fn keep(
    (before, old): (&SavedTable<'_>, &SavedRegion),
    (table, new): (&SavedTable<'_>, &SavedRegion),
    number: usize,
) -> Result<(), ImageError> {
    let access = rebuild::access_for_now(new);
    if rebuild::access_for_now(old) != access {
        // SAFETY: the process uses this memory only once it continues.
        unsafe { calls::protect(old.start, old.length(), access) }
            .map_err(RestartStep::ProtectMemory.because())?;
    }
    if old.end < new.end {
        let rest = SavedRegion {
            start: old.end,
            ..*new
        };
        rebuild::region(table, &rest, number)?;
    }
    // Pages that are in neither image are not touched.
    let mut at = old.end;
    let mut end = old.start;
    for extent in before.extents_of(old) {
        at = at.min(extent.address);
        end = extent.address + extent.length();
    }
    for extent in table.extents_of(new) {
        drop_between(at, extent.address.min(end))?;
        at = at.max(extent.address + extent.length());
    }
    drop_between(at, end)
}

fn drop_between(from: u64, to: u64) -> Result<(), ImageError> {
    if from >= to {
        return Ok(());
    }
    // SAFETY: the process uses this memory only once it continues.
    unsafe { calls::drop_contents(from, to - from) }.map_err(RestartStep::Unmap.because())
}

/// Whether the pages of an extent are in memory: they are in an earlier file, and in memory that
/// serves their region. Two regions may have become one since: the second was unmapped, and an
/// extent may have pages of both.
fn is_there(before: &SavedTable<'_>, table: &SavedTable<'_>, extent: &SavedExtent) -> bool {
    let end = extent.address + extent.length();
    let around = |r: &SavedRegion| r.start <= extent.address && end <= r.end;
    if extent.file == 0 {
        return false;
    }
    let (old, new) = (before.regions().find(around), table.regions().find(around));
    match (old, new) {
        (Some(old), Some(new)) => serves((before, &old), (table, &new)),
        _ => false,
    }
}
