//! The restarter's own mappings: all but its program make room for the process's.

use rejoin_image_format::{ImageError, PAGE, RESTARTER, RegionKind, SavedTable};

use crate::system_calls::{self as calls, RestartStep};

/// Where the kernel's mappings wait until the place for them is free.
const SPARE_AT: u64 = RESTARTER.start + (1 << 38);
/// Most mappings of a new process.
const MOST: usize = 64;
/// Bytes of the list of mappings; a new process has about 1,000.
const TEXT: usize = 16 * 1024;

/// A few ranges of addresses.
struct Ranges {
    all: [(u64, u64); MOST],
    count: usize,
}

impl Ranges {
    const fn new() -> Self {
        Self {
            all: [(0, 0); MOST],
            count: 0,
        }
    }

    fn push(&mut self, range: (u64, u64)) -> Result<(), ImageError> {
        let place = self.all.get_mut(self.count);
        *place.ok_or(RestartStep::ListMappings.because()(7))? = range;
        self.count += 1;
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.all[..self.count].iter().copied()
    }
}

/// Memory of this program's own: for the table, of which the header has said that the file is long
/// enough, and for stacks.
pub fn own_memory(at: u64, length: u64) -> Result<&'static mut [u8], ImageError> {
    let rounded = length.next_multiple_of(PAGE).max(PAGE);
    // Private, without a file, and no other mapping's place.
    let (read_write, flags) = (3, 2 | 0x20 | 0x10_0000);
    // SAFETY: the range is within this program's addresses, and free.
    unsafe {
        calls::map((at, rounded), read_write, flags, (-1, 0))
            .map_err(RestartStep::MapMemory.because())?;
        Ok(core::slice::from_raw_parts_mut(
            at as *mut u8,
            length as usize,
        ))
    }
}

/// Gives memory of [`own_memory`] back.
pub fn give_back(at: u64, length: u64) -> Result<(), ImageError> {
    let rounded = length.next_multiple_of(PAGE).max(PAGE);
    // SAFETY: the caller's memory is used no more.
    unsafe { calls::unmap(at, rounded) }.map_err(RestartStep::Unmap.because())
}

/// Removes all mappings but those of this program, and moves the kernel's to where the process had
/// them.
pub fn replace(table: &SavedTable<'_>) -> Result<(), ImageError> {
    let (kernels, others) = list()?;
    let is_kernels = |region: &rejoin_image_format::SavedRegion| region.kind == RegionKind::Kernel;
    let lengths = kernels.iter().map(|(start, end)| end - start);
    if !table
        .regions()
        .filter(is_kernels)
        .map(|r| r.length())
        .eq(lengths)
    {
        return Err(ImageError::OtherKernel);
    }
    for (start, end) in others.iter() {
        // SAFETY: this program uses its own addresses only.
        unsafe { calls::unmap(start, end - start) }.map_err(RestartStep::Unmap.because())?;
    }
    let base = kernels.iter().next().map_or(0, |(start, _)| start);
    let spare = |start: u64| SPARE_AT + (start - base);
    for (start, end) in kernels.iter() {
        // SAFETY: this program makes no use of the vDSO.
        unsafe { calls::move_mapping(start, end - start, spare(start)) }
            .map_err(RestartStep::MoveVdso.because())?;
    }
    for ((start, end), region) in kernels.iter().zip(table.regions().filter(is_kernels)) {
        // SAFETY: nothing is left where the process had it.
        unsafe { calls::move_mapping(spare(start), end - start, region.start) }
            .map_err(RestartStep::MoveVdso.because())?;
    }
    Ok(())
}

/// The kernel's mappings, and all others but this program's.
fn list() -> Result<(Ranges, Ranges), ImageError> {
    let file = calls::open(b"/proc/self/maps\0").map_err(RestartStep::ListMappings.because())?;
    let (mut text, mut length) = ([0; TEXT], 0);
    loop {
        match calls::read(file, &mut text[length..]).map_err(RestartStep::ListMappings.because())? {
            0 => break,
            count => length += count,
        }
    }
    calls::close(file);
    let (mut kernels, mut others) = (Ranges::new(), Ranges::new());
    for line in text[..length]
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
    {
        let range = range_of(line).ok_or(RestartStep::ListMappings.because()(22))?;
        if RESTARTER.contains(&range.0) || line.ends_with(b"[vsyscall]") {
            continue;
        }
        let name = line.rsplit(|b| *b == b' ').next().unwrap_or_default();
        match name.starts_with(b"[vvar") || name == b"[vdso]" {
            true => kernels.push(range)?,
            false => others.push(range)?,
        }
    }
    Ok((kernels, others))
}

/// The addresses at the beginning of a line.
fn range_of(line: &[u8]) -> Option<(u64, u64)> {
    let mut ends = line.split(|b| *b == b' ').next()?.split(|b| *b == b'-');
    let mut number = || {
        let digits = ends.next().filter(|digits| digits.len() <= 16)?;
        digits.iter().try_fold(0u64, |sum, byte| {
            let digit = char::from(*byte).to_digit(16)?;
            Some(sum << 4 | u64::from(digit))
        })
    };
    Some((number()?, number()?))
}
