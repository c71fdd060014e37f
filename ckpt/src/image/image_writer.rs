//! Writes a zygote's memory into a file.
//!
//! Nothing is allocated here: memory that changed while it is saved would not fit together. Only
//! the stack below the saved frame and scratch memory change.

use std::os::fd::RawFd;

use rejoin_image_format::{
    EXTENT_PAGES, HEADER_LENGTH, ImageHeader, PAGE, SavedExtent, SavedThread, TableCounts,
    TablePlace, checksum,
};

use super::extent_checksums::ExtentChecksums;
use super::pagemap::Pagemap;
use super::region_list::{RegionList, SavedPages};
use super::save_error::SaveError;
use super::scratch_list::ScratchList;
use crate::sys;

/// Most extents: enough for a terabyte that is dense.
pub(super) const MOST_EXTENTS: usize = 1 << 20;
/// Most bytes of a table, which has its own records and names.
const MOST_TABLE: usize = 64 << 20;
/// A run of so many pages of zeros is left out. Shorter ones would cost more than they save.
const ZERO_RUN: u64 = 4;
/// Bytes above and below this thread's stack pointer that may change while they are saved.
const LIVE_STACK: u64 = 128 << 10;

/// What is written, and where to.
pub(super) struct ImageWriter<'a> {
    /// The file.
    pub file: RawFd,
    /// The header, without the table's place.
    pub header: ImageHeader,
    /// The thread, without its frame.
    pub thread: SavedThread,
    /// The auxiliary vector.
    pub auxiliary: &'a [u8],
    /// The regions.
    pub list: RegionList,
    /// The kernel's table of pages.
    pub pagemap: Pagemap,
    /// Opened for memory that may not be read directly.
    pub memory: RawFd,
    /// Scratch memory.
    pub scratch: WriterScratch,
    /// Bytes written so far.
    pub position: u64,
}

/// Scratch memory of a writer.
pub(super) struct WriterScratch {
    extents: ScratchList<SavedExtent>,
    table: ScratchList<u8>,
    copy: ScratchList<u8>,
    sums: ExtentChecksums,
}

impl WriterScratch {
    pub fn new() -> Result<Self, SaveError> {
        Ok(Self {
            extents: ScratchList::new(MOST_EXTENTS)?,
            table: ScratchList::new(MOST_TABLE)?,
            copy: ScratchList::new(EXTENT_PAGES as usize * PAGE as usize)?,
            sums: ExtentChecksums::new()?,
        })
    }

    /// The addresses of this memory.
    pub fn addresses(&self) -> [std::ops::Range<u64>; 5] {
        let [jobs, stack] = self.sums.addresses();
        [
            self.extents.addresses(),
            self.table.addresses(),
            self.copy.addresses(),
            jobs,
            stack,
        ]
    }
}

impl ImageWriter<'_> {
    /// Writes the whole file; its length in bytes.
    pub fn write(&mut self) -> Result<u64, SaveError> {
        self.position = HEADER_LENGTH as u64;
        for number in 0..self.list.regions.len() {
            self.write_region(number)?;
        }
        let WriterScratch { extents, sums, .. } = &mut self.scratch;
        sums.finish(extents);
        self.write_table()?;
        let page = self.header.encode();
        let room = &mut self.scratch.copy.room()[..HEADER_LENGTH];
        room.copy_from_slice(&page);
        write_at(self.file, room, 0)?;
        // SAFETY: touches no memory.
        sys::check(unsafe { libc::fdatasync(self.file) }.into())
            .map_err(|errno| SaveError::System { errno })?;
        Ok(self.header.length)
    }

    fn write_region(&mut self, number: usize) -> Result<(), SaveError> {
        let listed = self.list.regions[number];
        let (mut at, end) = (listed.saved.start, listed.saved.end);
        let first = self.scratch.extents.len();
        let (of_file, whole) = match listed.pages {
            SavedPages::None => (false, None),
            SavedPages::Present => (false, Some(false)),
            SavedPages::Changed => (true, Some(false)),
            SavedPages::All => (false, Some(true)),
        };
        let is_readable = listed.saved.access & 1 != 0;
        match whole {
            None => {}
            // Beyond the end of its file a mapping must not be touched: the kernel reads it.
            Some(true) => self.write_range(at, end, false, true)?,
            Some(false) => {
                while at < end {
                    // The writer writes while it has the kernel's answer: the ranges are copied.
                    let (mut ranges, mut count) = ([(0, 0); 128], 0);
                    let (found, walked) = self
                        .pagemap
                        .next(at, end, of_file)
                        .map_err(|errno| SaveError::System { errno })?;
                    for (place, range) in ranges.iter_mut().zip(found) {
                        *place = (range.start, range.end);
                        count += 1;
                    }
                    for &(start, end) in &ranges[..count] {
                        self.write_range(start, end, is_readable, !of_file)?;
                    }
                    if walked <= at {
                        break;
                    }
                    at = walked;
                }
            }
        }
        let region = &mut self.list.regions[number].saved;
        region.first_extent = first as u32;
        region.extents = (self.scratch.extents.len() - first) as u32;
        Ok(())
    }

    /// Writes a range, without its longer runs of zeros if these may be left out.
    fn write_range(
        &mut self,
        start: u64,
        end: u64,
        is_readable: bool,
        without_zeros: bool,
    ) -> Result<(), SaveError> {
        let mut at = start;
        while at < end {
            let most = end.min(at + u64::from(EXTENT_PAGES) * PAGE);
            if !is_readable {
                self.write_extent(at, most, false)?;
                at = most;
                continue;
            }
            let zeros = if without_zeros {
                zero_pages(at, end)
            } else {
                0
            };
            if zeros >= ZERO_RUN || at + zeros * PAGE == end {
                at += zeros * PAGE;
                if zeros > 0 {
                    continue;
                }
            }
            let stop = match without_zeros {
                true => next_zero_run(at, most),
                false => most,
            };
            self.write_extent(at, stop, true)?;
            at = stop;
        }
        Ok(())
    }

    fn write_extent(&mut self, start: u64, end: u64, is_readable: bool) -> Result<(), SaveError> {
        let length = (end - start) as usize;
        let mut extent = SavedExtent {
            address: start,
            position: self.position,
            pages: (length as u64 / PAGE) as u32,
            checksum: 0,
        };
        let here = (&raw const length) as u64;
        let is_live = start < here + LIVE_STACK && here < end + LIVE_STACK;
        let WriterScratch {
            extents,
            copy,
            sums,
            ..
        } = &mut self.scratch;
        let bytes: &[u8] = if is_readable && !is_live {
            // SAFETY: the pages are present and may be read; only this thread runs, and it changes
            // nothing there.
            unsafe {
                sums.add(start, extent.pages, extents.len())?;
                std::slice::from_raw_parts(start as *const u8, length)
            }
        } else {
            let room = copy.room();
            let room = room.get_mut(..length).ok_or(SaveError::TooMany)?;
            match is_readable {
                // SAFETY: as above, but the memory may change with the next call.
                true => unsafe {
                    std::ptr::copy_nonoverlapping(start as *const u8, room.as_mut_ptr(), length);
                },
                false => read_memory(self.memory, room, start)?,
            }
            extent.checksum = checksum(room);
            room
        };
        write_at(self.file, bytes, self.position)?;
        extents.push(extent)?;
        self.position += length as u64;
        Ok(())
    }

    fn write_table(&mut self) -> Result<(), SaveError> {
        let WriterScratch { extents, table, .. } = &mut self.scratch;
        table.extend(&self.thread.encode())?;
        for region in self.list.regions.iter() {
            table.extend(&region.saved.encode())?;
        }
        for extent in extents.iter() {
            table.extend(&extent.encode())?;
        }
        let auxiliary = self.auxiliary.len() / 8;
        table.extend(&self.auxiliary[..auxiliary * 8])?;
        table.extend(&self.list.names)?;
        self.header.table = TablePlace {
            position: self.position,
            length: table.len() as u64,
            checksum: checksum(table),
            counts: TableCounts {
                threads: 1,
                regions: self.list.regions.len() as u32,
                extents: extents.len() as u32,
                auxiliary: auxiliary as u32,
            },
        };
        let padding = (table.len() as u64).next_multiple_of(PAGE) - table.len() as u64;
        table.extend(&[0; PAGE as usize][..padding as usize])?;
        write_at(self.file, table, self.position)?;
        self.position += table.len() as u64;
        self.header.length = self.position;
        Ok(())
    }
}

/// How many pages from an address on hold only zeros.
fn zero_pages(start: u64, end: u64) -> u64 {
    let mut at = start;
    while at < end && is_zero(at) {
        at += PAGE;
    }
    (at - start) / PAGE
}

/// Where the first longer run of zeros begins, from the second page on.
fn next_zero_run(start: u64, end: u64) -> u64 {
    let (mut at, mut run) = (start + PAGE, 0);
    while at < end {
        run = if is_zero(at) { run + 1 } else { 0 };
        at += PAGE;
        if run == ZERO_RUN {
            return at - run * PAGE;
        }
    }
    end
}

fn is_zero(page: u64) -> bool {
    // SAFETY: the page is present and may be read.
    let words = unsafe { std::slice::from_raw_parts(page as *const u64, PAGE as usize / 8) };
    words
        .chunks_exact(8)
        .all(|line| line.iter().fold(0, |sum, word| sum | word) == 0)
}

fn write_at(file: RawFd, bytes: &[u8], position: u64) -> Result<(), SaveError> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let from = (position + done as u64) as i64;
        // SAFETY: pointer and length describe the rest.
        let count = unsafe { libc::pwrite(file, rest.as_ptr().cast(), rest.len(), from) };
        match sys::check(count as i64) {
            Ok(0) => return Err(SaveError::System { errno: libc::EIO }),
            Ok(count) => done += count as usize,
            Err(libc::EINTR) => {}
            Err(errno) => return Err(SaveError::System { errno }),
        }
    }
    Ok(())
}

/// Reads memory that the process itself may not read.
fn read_memory(memory: RawFd, room: &mut [u8], start: u64) -> Result<(), SaveError> {
    let mut done = 0;
    while done < room.len() {
        let rest = &mut room[done..];
        let from = (start + done as u64) as i64;
        // SAFETY: pointer and length describe the rest.
        let count = unsafe { libc::pread(memory, rest.as_mut_ptr().cast(), rest.len(), from) };
        match sys::check(count as i64) {
            Ok(0) => return Err(SaveError::Mapping(start)),
            Ok(count) => done += count as usize,
            Err(libc::EINTR) => {}
            Err(_) => return Err(SaveError::Mapping(start)),
        }
    }
    Ok(())
}
