//! Writes a zygote's memory into a file.
//!
//! Nothing is allocated here: memory that changed while it is saved would not fit together. Only
//! the stack below the saved frame, scratch memory, and the thread's area for the kernel change.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::os::fd::RawFd;

use rejoin_image_format::{
    EXTENT_PAGES, HEADER_LENGTH, HashesPlace, ImageHeader, PAGE, PageHash, SavedExtent,
    SavedThread, TableCounts, TablePlace, checksum,
};

use super::base_image::{BaseImage, PagePlace};
use super::page_hashes::PageHashes;
use super::page_output::{self, PageOutput};
use super::pagemap::Pagemap;
use super::region_list::{RegionList, SavedPages};
use super::save_error::SaveError;
use super::scratch_list::ScratchList;
use crate::sys;

/// Most extents: enough for a terabyte that is dense.
const MOST_EXTENTS: usize = 1 << 20;
/// From so many extents on, pages are written though the image before has them: looking for them
/// would make more and smaller extents.
const SPLIT_LIMIT: usize = MOST_EXTENTS / 2;
/// Extents whose hashes are computed before they are compared with those of the image before.
const WINDOW: usize = 64;
/// Most bytes of a table, which has its own records and names.
const MOST_TABLE: usize = 64 << 20;
/// A run of so many pages of zeros is left out. Shorter ones would cost more than they save.
const ZERO_RUN: u64 = 4;
/// Bytes above and below this thread's stack pointer that may change while they are saved.
const LIVE_STACK: u64 = 128 << 10;
/// Bytes above and below this thread's thread pointer that may change, too: the kernel writes there
/// on which processor the thread runs (rseq).
const LIVE_AREA: u64 = 8 << 10;

/// What is written, and where to.
pub(super) struct ImageWriter<'a> {
    /// The file, after the pages that are written.
    pub output: PageOutput,
    /// A request on this socket ends the writing: a restore must not wait for a file.
    pub requests: RawFd,
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
    /// The image before, and the name of its file.
    pub base: Option<(BaseImage, &'a [u8])>,
    /// Hashes are computed by this process, while it writes.
    pub in_one_pass: bool,
    /// Scratch memory.
    pub scratch: WriterScratch,
}

/// Scratch memory of a writer.
pub(super) struct WriterScratch {
    extents: ScratchList<SavedExtent>,
    table: ScratchList<u8>,
    copy: ScratchList<u8>,
    hashes: PageHashes,
    /// Extents that are not written yet.
    pending: ScratchList<Pending>,
}

/// Pages that may be in the image before.
#[derive(Clone, Copy)]
struct Pending {
    address: u64,
    pages: u32,
    /// The place of the first hash.
    first: usize,
}

impl WriterScratch {
    /// For a process with at most so many pages. `with_helper`: another process computes hashes.
    pub fn new(pages: usize, with_helper: bool) -> Result<Self, SaveError> {
        Ok(Self {
            extents: ScratchList::new(MOST_EXTENTS)?,
            table: ScratchList::new(MOST_TABLE)?,
            copy: ScratchList::new(EXTENT_PAGES as usize * PAGE as usize)?,
            hashes: PageHashes::new(pages, with_helper)?,
            pending: ScratchList::new(WINDOW)?,
        })
    }

    /// The addresses of this memory.
    pub fn addresses(&self) -> [std::ops::Range<u64>; 7] {
        let [hashes, jobs, stack] = self.hashes.addresses();
        [
            self.extents.addresses(),
            self.table.addresses(),
            self.copy.addresses(),
            self.pending.addresses(),
            hashes,
            jobs,
            stack,
        ]
    }
}

impl ImageWriter<'_> {
    /// Writes the whole file; its length in bytes.
    pub fn write(&mut self) -> Result<u64, SaveError> {
        for number in 0..self.list.regions.len() {
            self.write_region(number)?;
        }
        self.write_hashes()?;
        self.write_table()?;
        let page = self.header.encode();
        let room = &mut self.scratch.copy.room()[..HEADER_LENGTH];
        room.copy_from_slice(&page);
        self.output.complete(room)?;
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
        self.write_pending()?;
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
        if sys::is_readable(self.requests) {
            return Err(SaveError::Interrupted);
        }
        let length = (end - start) as usize;
        let pages = length as u64 / PAGE;
        let here = (&raw const length) as u64;
        let has_near = |place: u64, most: u64| start < place + most && place < end + most;
        let is_live = has_near(here, LIVE_STACK) || has_near(self.thread.fs, LIVE_AREA);
        if is_live || !is_readable {
            return self.write_copy(start, length, is_readable);
        }
        if self.in_one_pass {
            return self.write_hashed(start, length);
        }
        let first = self.scratch.hashes.count();
        // SAFETY: the pages are present and may be read; only this thread runs, and it changes
        // nothing there.
        unsafe { self.scratch.hashes.add(start, pages)? };
        if self.base.is_none() {
            return self.write_pages(start, pages as u32);
        }
        self.scratch.pending.push(Pending {
            address: start,
            pages: pages as u32,
            first,
        })?;
        match self.scratch.pending.len() < WINDOW {
            true => Ok(()),
            false => self.write_pending(),
        }
    }

    /// Writes pages, and computes their hashes in the same pass over the memory.
    fn write_hashed(&mut self, start: u64, length: usize) -> Result<(), SaveError> {
        // SAFETY: as in `write_extent`.
        let pages = unsafe { std::slice::from_raw_parts(start as *const u8, length) };
        let WriterScratch {
            hashes, extents, ..
        } = &mut self.scratch;
        let extent = self
            .output
            .put_in_pieces(start, pages, |piece| hashes.add_now(piece))?;
        extents.push(extent)
    }

    /// Writes pages that change while they are written, or that may not be read directly.
    fn write_copy(
        &mut self,
        start: u64,
        length: usize,
        is_readable: bool,
    ) -> Result<(), SaveError> {
        self.write_pending()?;
        let WriterScratch { copy, hashes, .. } = &mut self.scratch;
        let room = copy.room();
        let room = room.get_mut(..length).ok_or(SaveError::TooMany)?;
        match is_readable {
            // SAFETY: the pages are present and may be read, but may change with the next call.
            true => unsafe { page_output::copy(start as *const u8, room) },
            false => read_memory(self.memory, room, start)?,
        }
        hashes.add_now(room)?;
        let extent = self.output.put(start, room)?;
        self.scratch.extents.push(extent)
    }

    /// Writes pages as they are.
    fn write_pages(&mut self, start: u64, pages: u32) -> Result<(), SaveError> {
        let length = u64::from(pages) * PAGE;
        // SAFETY: as in `write_extent`.
        let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, length as usize) };
        let extent = self.output.put(start, bytes)?;
        self.scratch.extents.push(extent)
    }

    /// Writes the pending pages that the image before does not have, and refers to the others.
    fn write_pending(&mut self) -> Result<(), SaveError> {
        for number in 0..self.scratch.pending.len() {
            let pending = self.scratch.pending[number];
            let (mut from, mut last) = (0, None);
            for page in 0..=pending.pages {
                let place = match page == pending.pages {
                    true => None,
                    false => self.find(&pending, page),
                };
                let expected = last.map(|last: PagePlace| last.after(page - from));
                let continues = expected == place;
                if page == pending.pages || (page > from && !continues) {
                    let start = pending.address + u64::from(from) * PAGE;
                    self.write_run(start, page - from, last)?;
                    from = page;
                }
                if page == from {
                    last = place;
                }
            }
        }
        self.scratch.pending.clear();
        Ok(())
    }

    /// Where the image before has a page.
    fn find(&mut self, pending: &Pending, page: u32) -> Option<PagePlace> {
        let (base, _) = self.base.as_mut()?;
        if self.scratch.extents.len() > SPLIT_LIMIT {
            return None;
        }
        let hash = self.scratch.hashes.complete()[pending.first + page as usize];
        base.find(pending.address + u64::from(page) * PAGE, hash)
    }

    /// Writes pages, or refers to the file that has them.
    fn write_run(
        &mut self,
        start: u64,
        pages: u32,
        place: Option<PagePlace>,
    ) -> Result<(), SaveError> {
        let Some(place) = place else {
            return self.write_pages(start, pages);
        };
        self.scratch.extents.push(SavedExtent {
            address: start,
            position: place.position,
            pages,
            file: place.file,
            checksum: 0,
            block: place.block,
        })
    }

    /// Sets the checksums of the extents, and writes the hashes of all pages.
    fn write_hashes(&mut self) -> Result<(), SaveError> {
        let WriterScratch {
            extents, hashes, ..
        } = &mut self.scratch;
        let mut rest = hashes.complete();
        for extent in extents.iter_mut() {
            let pages = (extent.pages as usize).min(rest.len());
            let (of_extent, after) = rest.split_at(pages);
            extent.checksum = PageHash::combine(of_extent.iter().copied());
            rest = after;
        }
        let bytes = hashes.whole_pages();
        let pages = hashes.count() as u64;
        let place = HashesPlace {
            position: self.output.position(),
            pages,
            checksum: 0,
        };
        let checksum = checksum(&bytes[..place.length() as usize]);
        self.header.hashes = HashesPlace { checksum, ..place };
        self.output.put_plain(bytes)
    }

    /// Adds the names of the files that extents refer to. Returns their number.
    fn write_bases(&mut self) -> Result<u32, SaveError> {
        let (table, names) = (&mut self.scratch.table, &mut self.list.names);
        let mut count = 0;
        for (mut base, name) in self.base.iter().flat_map(|(base, name)| base.files(name)) {
            base.name = names.len() as u32;
            base.name_length = name.len() as u32;
            names.extend(name)?;
            table.extend(&base.encode())?;
            count += 1;
        }
        Ok(count)
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
        let bases = self.write_bases()?;
        let WriterScratch { extents, table, .. } = &mut self.scratch;
        let auxiliary = self.auxiliary.len() / 8;
        table.extend(&self.auxiliary[..auxiliary * 8])?;
        table.extend(&self.list.names)?;
        self.header.table = TablePlace {
            position: self.output.position(),
            length: table.len() as u64,
            checksum: checksum(table),
            counts: TableCounts {
                threads: 1,
                regions: self.list.regions.len() as u32,
                extents: extents.len() as u32,
                bases,
                auxiliary: auxiliary as u32,
            },
        };
        self.output.put_plain(table.whole_pages())?;
        self.header.length = self.output.position();
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

/// How far ahead [`is_zero`] fetches pages. It looks at one line of most pages, so the processor
/// does not fetch the next by itself, and waiting for each would take as long as hashing all.
const AHEAD: u64 = 16 * PAGE;

fn is_zero(page: u64) -> bool {
    // SAFETY: fetches at most, whatever is at the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>((page + AHEAD) as *const i8) };
    // SAFETY: the page is present and may be read.
    let words = unsafe { std::slice::from_raw_parts(page as *const u64, PAGE as usize / 8) };
    words
        .chunks_exact(8)
        .all(|line| line.iter().fold(0, |sum, word| sum | word) == 0)
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
