//! Reads the extents into memory and compares their checksums, in several processes that share it.
//!
//! They are processes and no threads: when the parent has waited for one, nothing is left of it.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rejoin_image_format::{ImageError, RESTARTER, SavedExtent, SavedTable, checksum_of_pages};

use crate::image_files::ImageFiles;
use crate::own_mappings;
use crate::system_calls::{self as calls, RestartStep};

/// Where the stacks of the helpers are.
const STACKS_AT: u64 = RESTARTER.start + (1 << 37);
/// Length of a helper's stack in bytes.
const STACK: u64 = 256 << 10;
/// Most helpers: one processor copies about a fourth of what memory and a fast disk give.
const HELPERS: usize = 3;
/// Extents that are worth a helper: 16 MiB.
const WORTH: u32 = 16;
/// Extents that a process takes at once: 4 MiB, which follow one another in the file.
const BATCH: u32 = 4;

/// What is left to do.
struct Work<'a> {
    files: &'a ImageFiles,
    table: &'a SavedTable<'a>,
    /// The first extent that nobody has taken.
    next: AtomicU32,
    has_failed: AtomicBool,
}

/// A process that shares this memory.
struct Helper<'a> {
    work: &'a Work<'a>,
    /// Set at its end.
    result: Option<Result<(), ImageError>>,
}

/// Fills all regions, which may be written now.
pub fn all(files: &ImageFiles, table: &SavedTable<'_>) -> Result<(), ImageError> {
    let work = Work {
        files,
        table,
        next: AtomicU32::new(0),
        has_failed: AtomicBool::new(false),
    };
    let count = (table.extent_count() / WORTH) as usize;
    let count = count
        .min(calls::processors().saturating_sub(1))
        .min(HELPERS);
    if count > 0 {
        own_mappings::own_memory(STACKS_AT, STACK * count as u64)?;
    }
    let mut helpers: [Helper<'_>; HELPERS] = core::array::from_fn(|_| Helper {
        work: &work,
        result: None,
    });
    let mut pids = [0; HELPERS];
    for ((helper, pid), end) in helpers.iter_mut().zip(&mut pids).zip(1..=count as u64) {
        let argument = core::ptr::from_mut(helper) as u64;
        // SAFETY: the stack is the helper's alone. The structure outlives it, as it is waited for.
        let made = unsafe { calls::share_memory(STACKS_AT + end * STACK, help, argument) };
        // Without help it takes longer.
        *pid = made.unwrap_or(0);
    }
    let mut result = work.run();
    for (helper, pid) in helpers.iter().zip(pids).filter(|(_, pid)| *pid != 0) {
        let ended = calls::wait_for(pid);
        // SAFETY: the process has ended, so nobody writes the result any more. The compiler does
        // not know that it was written.
        let helped = unsafe { core::ptr::read_volatile(&raw const helper.result) };
        let helped = ended.ok().and(helped);
        result = result.and(helped.unwrap_or(Err(RestartStep::ReadImage.because()(5))));
    }
    result
}

/// The whole life of a helper.
///
/// # Safety
/// The argument is a [`Helper`] that nobody else uses until this process has ended.
unsafe extern "C" fn help(argument: u64) -> ! {
    calls::end_with_parent();
    // SAFETY: the caller's promise.
    let helper = unsafe { &mut *(argument as *mut Helper<'_>) };
    let result = helper.work.run();
    // SAFETY: as above. Written at once, because the compiler sees nobody read it.
    unsafe { core::ptr::write_volatile(&raw mut helper.result, Some(result)) };
    calls::exit(0)
}

impl Work<'_> {
    /// Fills batches until none is left, or one fails in any process.
    fn run(&self) -> Result<(), ImageError> {
        let count = self.table.extent_count();
        while !self.has_failed.load(Ordering::Relaxed) {
            let first = self.next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= count {
                break;
            }
            for number in first..count.min(first + BATCH) {
                let extent = self.table.extent(number);
                let filled = extent.map_or(Err(ImageError::Malformed(12)), |e| self.fill(&e));
                filled.inspect_err(|_| self.has_failed.store(true, Ordering::Relaxed))?;
            }
        }
        Ok(())
    }

    fn fill(&self, extent: &SavedExtent) -> Result<(), ImageError> {
        let file = self
            .files
            .of(extent.file)
            .ok_or(ImageError::Malformed(11))?;
        calls::populate(extent.address, extent.length());
        // SAFETY: the extent lies in its region, which was mapped just now and may be written. No
        // two extents overlap, and no two processes fill the same one.
        let memory = unsafe {
            core::slice::from_raw_parts_mut(extent.address as *mut u8, extent.length() as usize)
        };
        calls::read_at(file, memory, extent.position).map_err(RestartStep::ReadImage.because())?;
        match checksum_of_pages(memory) == extent.checksum {
            true => Ok(()),
            false => Err(ImageError::MemoryDamaged(extent.address)),
        }
    }
}
