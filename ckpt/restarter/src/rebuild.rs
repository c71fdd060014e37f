//! Makes the process's memory.

use rejoin_image_format::{
    ImageError, MemoryLayout, RegionAdvice, RegionKind, SavedRegion, SavedTable,
};

use crate::fill::{self, FillSpeed};
use crate::image_files::ImageFiles;
use crate::system_calls::{self as calls, RestartStep};

const READ_WRITE: u64 = 3;

const SHARED: u64 = 1;
const PRIVATE: u64 = 2;
const DROPPABLE: u64 = 8;
const ANONYMOUS: u64 = 0x20;
const GROWS_DOWN: u64 = 0x100;
const NO_RESERVE: u64 = 0x4000;
const FIXED_NO_REPLACE: u64 = 0x10_0000;

/// Longest path of a mapped file, with a zero byte at its end.
const PATH: usize = 4096;

/// Checks that the files which the process had mapped are as they were.
pub fn check_files(table: &SavedTable<'_>) -> Result<(), ImageError> {
    for (number, region) in table.regions().enumerate() {
        if region.kind.has_file() {
            calls::close(open_file(table, &region, number)?);
        }
    }
    Ok(())
}

fn open_file(
    table: &SavedTable<'_>,
    region: &SavedRegion,
    number: usize,
) -> Result<i32, ImageError> {
    let changed = ImageError::FileChanged(number as u32);
    let name = table.name_of(region);
    let mut path = [0; PATH];
    let room = path[..PATH - 1].get_mut(..name.len()).ok_or(changed)?;
    room.copy_from_slice(name);
    let file = calls::open(&path).map_err(|_| changed)?;
    match calls::status(file) {
        Ok(status) if status == (region.file_length, region.changed) => Ok(file),
        _ => {
            calls::close(file);
            Err(changed)
        }
    }
}

/// Maps all regions but the kernel's, and fills them. They may be written until [`protect`].
pub fn regions(
    files: &ImageFiles,
    table: &SavedTable<'_>,
    speed: FillSpeed,
) -> Result<(), ImageError> {
    for (number, saved) in table.regions().enumerate() {
        if saved.kind != RegionKind::Kernel {
            region(table, &saved, number)?;
        }
    }
    fill::all(files, table, &|_| false, speed)
}

/// Maps a region.
pub fn region(
    table: &SavedTable<'_>,
    region: &SavedRegion,
    number: usize,
) -> Result<(), ImageError> {
    let file = match region.kind.has_file() {
        true => Some(open_file(table, region, number)?),
        false => None,
    };
    let mapped = map(region, file);
    if let Some(file) = file {
        calls::close(file);
    }
    mapped
}

/// Sets the access that the process has to each region.
pub fn protect(table: &SavedTable<'_>) -> Result<(), ImageError> {
    for region in table.regions() {
        let access = u64::from(region.access);
        if region.kind != RegionKind::Kernel && access_for_now(&region) != access {
            // SAFETY: the process uses this memory only once it continues.
            unsafe { calls::protect(region.start, region.length(), access) }
                .map_err(RestartStep::ProtectMemory.because())?;
        }
    }
    Ok(())
}

/// The access to a region until all images are loaded.
pub fn access_for_now(region: &SavedRegion) -> u64 {
    match region.extents {
        0 => region.access.into(),
        _ => u64::from(region.access) | READ_WRITE,
    }
}

fn map(region: &SavedRegion, file: Option<i32>) -> Result<(), ImageError> {
    let flags = match region.kind {
        RegionKind::PrivateFile => PRIVATE,
        RegionKind::SharedFile => SHARED,
        RegionKind::Stack => PRIVATE | ANONYMOUS | GROWS_DOWN,
        RegionKind::Droppable => DROPPABLE | ANONYMOUS,
        _ => PRIVATE | ANONYMOUS | NO_RESERVE,
    };
    let range = (region.start, region.length());
    let from = file.map_or((-1, 0), |file| (file, region.offset));
    let access = access_for_now(region);
    // SAFETY: the flag leaves other mappings alone.
    unsafe { calls::map(range, access, flags | FIXED_NO_REPLACE, from) }
        .map_err(RestartStep::MapMemory.because())?;
    for (bit, advice) in RegionAdvice::ALL.iter().enumerate() {
        if region.advice & 1 << bit != 0 {
            calls::advise(range, advice.number);
        }
    }
    Ok(())
}

/// Tells the kernel where the process has its parts. Without it the heap begins elsewhere and `ps`
/// shows the restarter's arguments, which a process survives.
pub fn set_layout(layout: &MemoryLayout, auxiliary: &[u8]) {
    #[repr(C)]
    struct Map {
        addresses: [u64; 11],
        auxiliary: u64,
        auxiliary_length: u32,
        executable: i32,
    }
    let map = Map {
        addresses: layout.addresses,
        auxiliary: auxiliary.as_ptr() as u64,
        auxiliary_length: auxiliary.len() as u32,
        executable: -1,
    };
    // SAFETY: the kernel's structure is laid out like this.
    let _ = unsafe { calls::set_memory_map((&raw const map) as u64, size_of::<Map>() as u64) };
}
