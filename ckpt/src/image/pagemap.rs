//! Which pages of this process have contents of their own.

use std::os::fd::RawFd;

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

/// Ranges of one answer.
const RANGES: usize = 128;

/// The kernel's table of this process's pages.
pub(super) struct Pagemap {
    file: RawFd,
    ranges: [PageRange; RANGES],
}

impl Pagemap {
    pub fn open() -> sys::Sys<Self> {
        Ok(Self {
            file: sys::open(c"/proc/self/pagemap", libc::O_RDONLY)?,
            ranges: [PageRange::default(); RANGES],
        })
    }

    /// The first ranges with contents between two addresses, and the address up to which that is
    /// all. In a private mapping of a file (`of_file`), pages of the file itself do not count.
    ///
    /// # Errors
    /// `ENOTTY` before Linux 6.7.
    pub fn next(&mut self, start: u64, end: u64, of_file: bool) -> sys::Sys<(&[PageRange], u64)> {
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
        Ok((&self.ranges[..count], argument.walk_end))
    }
}

impl Drop for Pagemap {
    fn drop(&mut self) {
        sys::close(self.file);
    }
}
