//! Which pages of this process have contents of their own.
//!
//! Linux 6.7 and newer answers with ranges. An older kernel has one number for each page, of which
//! a large empty mapping has many: 2 MiB to be read for each GiB.

use std::os::fd::RawFd;

use rejoin_image_format::PAGE;

use crate::sys;

/// Categories of pages (`linux/fs.h`).
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vector: u64,
    vector_length: u64,
    max_pages: u64,
    inverted: u64,
    required: u64,
    any_of: u64,
    returned: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PageRange {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    categories: u64,
}

/// Bits of a page's number in the file (`Documentation/admin-guide/mm/pagemap.rst`). The second is
/// set for pages of files and of shared memory.
const ENTRY_PRESENT: u64 = 1 << 63 | 1 << 62;
const ENTRY_OF_FILE: u64 = 1 << 61;

/// Ranges of one answer.
const RANGES: usize = 128;
/// Pages whose numbers are read at once.
const ENTRIES: usize = 512;

/// The kernel's table of this process's pages.
pub(super) struct Pagemap {
    file: RawFd,
    ranges: [PageRange; RANGES],
    /// The kernel does not answer with ranges.
    is_old_kernel: bool,
}

impl Pagemap {
    pub fn open() -> sys::Sys<Self> {
        Ok(Self {
            file: sys::open(c"/proc/self/pagemap", libc::O_RDONLY)?,
            ranges: [PageRange::default(); RANGES],
            is_old_kernel: false,
        })
    }

    /// The first ranges with contents between two addresses, and the address up to which that is
    /// all. In a private mapping of a file (`of_file`), pages of the file itself do not count.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn next(&mut self, start: u64, end: u64, of_file: bool) -> sys::Sys<(&[PageRange], u64)> {
        let found = match self.is_old_kernel {
            false => self.scan(start, end, of_file),
            true => self.read_entries(start, end, of_file),
        };
        let found = match found {
            Err(libc::ENOTTY) => {
                self.is_old_kernel = true;
                self.read_entries(start, end, of_file)
            }
            other => other,
        };
        let (count, walked) = found?;
        Ok((&self.ranges[..count], walked))
    }

    /// Has the kernel find the ranges. Returns their number.
    ///
    /// # Errors
    /// `ENOTTY` before Linux 6.7.
    fn scan(&mut self, start: u64, end: u64, of_file: bool) -> sys::Sys<(usize, u64)> {
        let own = if of_file { IS_FILE } else { 0 };
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            start,
            end,
            vector: self.ranges.as_mut_ptr() as u64,
            vector_length: RANGES as u64,
            inverted: own,
            required: own,
            any_of: IS_PRESENT | IS_SWAPPED,
            returned: IS_PRESENT | IS_SWAPPED,
            ..ScanArgument::default()
        };
        // SAFETY: the argument names an array with its length; the kernel fills it in.
        let count =
            sys::check(unsafe { libc::ioctl(self.file, PAGEMAP_SCAN, &raw mut argument) }.into())?;
        let count = usize::try_from(count).unwrap_or(0).min(RANGES);
        Ok((count, argument.walk_end))
    }

    /// Finds the ranges by the number of each page, up to some pages behind `start`.
    fn read_entries(&mut self, start: u64, end: u64, of_file: bool) -> sys::Sys<(usize, u64)> {
        let mut entries = [0u64; ENTRIES];
        let wanted = usize::try_from((end - start) / PAGE).unwrap_or(ENTRIES);
        let wanted = wanted.min(ENTRIES);
        let from = i64::try_from(start / PAGE * 8).map_err(|_| libc::EOVERFLOW)?;
        let (place, bytes) = (entries.as_mut_ptr().cast(), wanted * 8);
        // SAFETY: the kernel writes at most so many bytes into the array.
        let read = sys::check(unsafe { libc::pread(self.file, place, bytes, from) } as i64)?;
        let known = usize::try_from(read).unwrap_or(0) / 8;
        if known == 0 {
            return Err(libc::EIO);
        }
        let (mut count, mut at) = (0usize, start);
        for entry in &entries[..known] {
            let is_own = entry & ENTRY_PRESENT != 0 && !(of_file && entry & ENTRY_OF_FILE != 0);
            if is_own {
                let last = count.checked_sub(1).map(|last| &mut self.ranges[last]);
                match last.filter(|range| range.end == at) {
                    Some(range) => range.end += PAGE,
                    None if count == RANGES => return Ok((count, at)),
                    None => {
                        self.ranges[count] = PageRange {
                            start: at,
                            end: at + PAGE,
                            categories: 0,
                        };
                        count += 1;
                    }
                }
            }
            at += PAGE;
        }
        Ok((count, at))
    }
}

impl Drop for Pagemap {
    fn drop(&mut self) {
        sys::close(self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    /// Maps so many pages, privately.
    fn map(pages: u64, file: Option<&File>) -> u64 {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (kind, fd) = match file {
            None => (libc::MAP_ANONYMOUS, -1),
            Some(file) => (0, file.as_raw_fd()),
        };
        let (none, length) = (std::ptr::null_mut(), (pages * PAGE) as usize);
        // SAFETY: a new mapping of this length, which stays.
        let at = unsafe { libc::mmap(none, length, access, kind | libc::MAP_PRIVATE, fd, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        at as u64
    }

    /// The pages that are found, counted from the first of the mapping.
    fn found(is_old_kernel: bool, start: u64, pages: u64, of_file: bool) -> Vec<u64> {
        let mut pagemap = Pagemap::open().expect("the table of pages");
        pagemap.is_old_kernel = is_old_kernel;
        let (mut all, mut at, end) = (Vec::new(), start, start + pages * PAGE);
        while at < end {
            let (ranges, walked) = pagemap.next(at, end, of_file).expect("pages");
            for range in ranges {
                assert!(range.start < range.end && range.end <= walked);
                all.extend((range.start..range.end).step_by(PAGE as usize));
            }
            assert!(walked > at);
            at = walked;
        }
        all.iter().map(|at| (at - start) / PAGE).collect()
    }

    fn write(start: u64, page: u64) {
        // SAFETY: the page is in a mapping that the test has made, and may be written.
        unsafe { ((start + page * PAGE) as *mut u8).write_volatile(1) };
    }

    #[test]
    fn both_ways_find_the_pages_that_were_written() {
        // More ranges than one answer has, and more pages than are read at once.
        let pages = 4 * ENTRIES as u64 + 3;
        let start = map(pages, None);
        let written: Vec<u64> = (0..pages)
            .filter(|page| page % 3 != 1 && page / 700 != 1)
            .collect();
        written.iter().for_each(|page| write(start, *page));
        for is_old_kernel in [false, true] {
            assert_eq!(found(is_old_kernel, start, pages, false), written);
        }
    }

    #[test]
    fn pages_of_a_file_that_were_only_read_do_not_count() {
        let path = std::env::temp_dir().join(format!("rejoin-pagemap-{}", std::process::id()));
        std::fs::write(&path, vec![7; 8 * PAGE as usize]).expect("a file");
        let file = File::open(&path).expect("the file");
        std::fs::remove_file(&path).expect("its name");
        let start = map(8, Some(&file));
        for page in 0..8 {
            // SAFETY: the page is in the mapping.
            let byte = unsafe { ((start + page * PAGE) as *const u8).read_volatile() };
            assert_eq!(byte, 7);
        }
        write(start, 2);
        write(start, 5);
        for is_old_kernel in [false, true] {
            assert_eq!(found(is_old_kernel, start, 8, true), [2, 5]);
            assert_eq!(found(is_old_kernel, start, 8, false).len(), 8);
        }
    }
}
