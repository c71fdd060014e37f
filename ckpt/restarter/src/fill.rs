//! Reads the extents into memory, decompresses them and compares their checksums, in several
//! processes that share it.
//!
//! They are processes and no threads: when the parent has waited for one, nothing is left of it.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rejoin_image_format::{
    ExtentReader, ImageError, READER_BUFFER, RESTARTER, SavedExtent, SavedTable,
};

use crate::image_files::ImageFiles;
use crate::own_mappings;
use crate::system_calls::{self as calls, RestartStep};

/// Where the stacks of the helpers are.
const STACKS_AT: u64 = RESTARTER.start + (1 << 37);
/// Where the buffers for compressed blocks are, two for each process.
const BUFFERS_AT: u64 = STACKS_AT + (1 << 36);
/// Length of a helper's stack in bytes.
const STACK: u64 = 256 << 10;
/// Most helpers: one processor copies about a fourth of what memory and a fast disk give.
const HELPERS: usize = 3;
/// Extents that are worth a helper: 16 MiB.
const WORTH: u32 = 16;
/// Extents that a process takes at once: 4 MiB, which follow one another in the file.
const BATCH: u32 = 4;

/// Nanoseconds of a pause.
const PAUSE: u64 = 50_000;

/// How fast the extents are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FillSpeed {
    /// The rank waits: with helpers.
    Fast,
    /// The rank runs elsewhere: others come first. One process reads, and pauses after each extent.
    /// So a rank that wakes up does not wait for the system's time slice.
    Calm,
}

/// What is left to do.
struct Work<'a> {
    files: &'a ImageFiles,
    table: &'a SavedTable<'a>,
    /// Whether the pages of an extent are in memory already.
    is_there: &'a dyn Fn(&SavedExtent) -> bool,
    speed: FillSpeed,
    /// The first extent that nobody has taken.
    next: AtomicU32,
    has_failed: AtomicBool,
}

/// A process that shares this memory.
struct Helper<'a> {
    work: &'a Work<'a>,
    reader: ExtentReader<'static>,
    /// Set at its end.
    result: Option<Result<(), ImageError>>,
}

/// Memory for compressed blocks.
struct Buffers {
    /// What is not taken yet.
    rest: &'static mut [u8],
    length: u64,
}

impl Buffers {
    /// For so many processes; none if no extent is compressed.
    fn for_processes(table: &SavedTable<'_>, count: usize) -> Result<Self, ImageError> {
        let mut extents = (0..table.extent_count()).filter_map(|number| table.extent(number));
        if !extents.any(|extent| extent.block.is_some()) {
            return Ok(Self {
                rest: &mut [],
                length: 0,
            });
        }
        let length = 2 * READER_BUFFER as u64 * count as u64;
        let rest = own_mappings::own_memory(BUFFERS_AT, length)?;
        Ok(Self { rest, length })
    }

    /// A reader with two of the buffers, as far as there are any.
    fn take(&mut self) -> ExtentReader<'static> {
        let mut next = || {
            let rest = core::mem::take(&mut self.rest);
            let (buffer, rest) = rest.split_at_mut(READER_BUFFER.min(rest.len()));
            self.rest = rest;
            buffer
        };
        ExtentReader::new(next(), next())
    }
}

/// Fills all regions, which may be written now, but for the extents that are there already.
pub fn all(
    files: &ImageFiles,
    table: &SavedTable<'_>,
    is_there: &dyn Fn(&SavedExtent) -> bool,
    speed: FillSpeed,
) -> Result<(), ImageError> {
    let work = Work {
        files,
        table,
        is_there,
        speed,
        next: AtomicU32::new(0),
        has_failed: AtomicBool::new(false),
    };
    let count = (table.extent_count() / WORTH) as usize;
    let most = match speed {
        FillSpeed::Fast => calls::processors().saturating_sub(1).min(HELPERS),
        FillSpeed::Calm => 0,
    };
    let count = count.min(most);
    if count > 0 {
        own_mappings::own_memory(STACKS_AT, STACK * count as u64)?;
    }
    let mut buffers = Buffers::for_processes(table, 1 + count)?;
    let mut reader = buffers.take();
    let mut helpers: [Helper<'_>; HELPERS] = core::array::from_fn(|_| Helper {
        work: &work,
        reader: buffers.take(),
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
    let mut result = work.run(&mut reader);
    for (helper, pid) in helpers.iter().zip(pids).filter(|(_, pid)| *pid != 0) {
        let ended = calls::wait_for(pid);
        // SAFETY: the process has ended, so nobody writes the result any more. The compiler does
        // not know that it was written.
        let helped = unsafe { core::ptr::read_volatile(&raw const helper.result) };
        let helped = ended.ok().and(helped);
        result = result.and(helped.unwrap_or(Err(RestartStep::ReadImage.because()(5))));
    }
    // No helper is left.
    if count > 0 {
        own_mappings::give_back(STACKS_AT, STACK * count as u64)?;
    }
    if buffers.length > 0 {
        own_mappings::give_back(BUFFERS_AT, buffers.length)?;
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
    let result = helper.work.run(&mut helper.reader);
    // SAFETY: as above. Written at once, because the compiler sees nobody read it.
    unsafe { core::ptr::write_volatile(&raw mut helper.result, Some(result)) };
    calls::exit(0)
}

impl Work<'_> {
    /// Fills batches until none is left, or one fails in any process.
    fn run(&self, reader: &mut ExtentReader<'_>) -> Result<(), ImageError> {
        let count = self.table.extent_count();
        while !self.has_failed.load(Ordering::Relaxed) {
            let first = self.next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= count {
                break;
            }
            for number in first..count.min(first + BATCH) {
                let extent = self.table.extent(number);
                let filled = extent.map_or(Err(ImageError::Malformed(12)), |extent| {
                    match (self.is_there)(&extent) {
                        true => Ok(()),
                        false => self.fill(&extent, reader),
                    }
                });
                filled.inspect_err(|_| self.has_failed.store(true, Ordering::Relaxed))?;
            }
        }
        Ok(())
    }

    fn fill(&self, extent: &SavedExtent, reader: &mut ExtentReader<'_>) -> Result<(), ImageError> {
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
        reader.fill(extent, memory, |room, position| {
            calls::read_at(file, room, position).map_err(RestartStep::ReadImage.because())
        })?;
        if self.speed == FillSpeed::Calm {
            calls::sleep(PAUSE);
        }
        Ok(())
    }
}
