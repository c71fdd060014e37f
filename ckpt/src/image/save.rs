//! A zygote saves itself.

use std::ffi::{CStr, CString, c_void};
use std::ops::Range;
use std::os::fd::RawFd;

use rejoin_image_format::{
    HashesPlace, ImageHeader, ImageIdentity, MemoryLayout, RESTARTER, RESUMED, SavedThread,
    TablePlace,
};

use super::base_image::BaseImage;
use super::image_writer::{ImageWriter, WriterScratch};
use super::page_output::PageOutput;
use super::pagemap::Pagemap;
use super::process_state::ProcessState;
use super::region_list::RegionList;
use super::save_error::SaveError;
use super::saved_frame::with_saved_frame;
use super::saved_process::SavedProcess;
use super::{build_id, processor_here};
use crate::{proc, sys};

/// On which side [`save`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saved {
    /// The file is written.
    Written {
        /// Length of the file in bytes.
        bytes: u64,
    },
    /// A process made from it. Its descriptors are the program's files, and this socket to the
    /// manager.
    Restored {
        /// The socket's number.
        socket: RawFd,
    },
    /// A process made from it that can't continue: some of its state can't be set again.
    Broken(SaveError),
}

/// Writes this process into a file. Returns again in each process that is made from it.
///
/// # Errors
/// [`SaveError`]; the file is then of no use.
pub(crate) fn save(
    identity: ImageIdentity,
    program: &SavedProcess<'_>,
) -> Result<Saved, SaveError> {
    let mut thread = SavedThread::default();
    for (code, base) in [(ARCH_GET_FS, &mut thread.fs), (ARCH_GET_GS, &mut thread.gs)] {
        // SAFETY: the pointer is to a number, which the kernel sets.
        sys::check(unsafe { libc::syscall(libc::SYS_arch_prctl, code, std::ptr::from_mut(base)) })
            .map_err(|errno| SaveError::System { errno })?;
    }
    program
        .manifest
        .check_paths()
        .map_err(SaveError::Descriptor)?;
    let state = ProcessState::capture(program, thread.fs)?;
    let executable = executable();
    match write(identity, thread, program)? {
        Ok(bytes) => Ok(Saved::Written { bytes }),
        Err(socket) => Ok(match settle(&state, executable.as_ref(), program, socket) {
            Ok(socket) => Saved::Restored { socket },
            Err(why) => Saved::Broken(why),
        }),
    }
}

/// In a process made from an image: sets again what the kernel keeps. Returns the number of the
/// socket.
fn settle(
    state: &ProcessState,
    executable: Option<&CString>,
    program: &SavedProcess<'_>,
    socket: RawFd,
) -> Result<RawFd, SaveError> {
    // SAFETY: nothing of the restarter is used any more.
    unsafe {
        let length = (RESTARTER.end - RESTARTER.start) as usize;
        libc::munmap(RESTARTER.start as *mut c_void, length);
    }
    if let Some(path) = executable {
        set_executable(path);
    }
    let restored = state.restore();
    let socket = take_number(socket, program.socket)?;
    restored?;
    program
        .manifest
        .open_by_path()
        .map_err(SaveError::Descriptor)?;
    state.open_devices()?;
    state.restrict()?;
    Ok(socket)
}

/// The path of the program's file.
fn executable() -> Option<CString> {
    let mut buffer = [0; libc::PATH_MAX as usize];
    let path = sys::read_link(c"/proc/self/exe", &mut buffer).ok()?;
    CString::new(path).ok()
}

/// Where the system allows it (`CAP_CHECKPOINT_RESTORE`), `/proc/self/exe` is the program's file
/// again, and no longer the restarter. Nothing of the restarter's file may be mapped.
fn set_executable(path: &CStr) {
    /// The kernel's `prctl_mm_map`. The auxiliary vector stays if it has no length.
    #[repr(C)]
    struct Map {
        addresses: [u64; 11],
        auxiliary: u64,
        auxiliary_length: u32,
        executable: RawFd,
    }
    let mut text = Vec::new();
    let read = sys::read_file(c"/proc/self/stat", &mut text);
    let (Ok(()), Ok(executable)) = (read, sys::open(path, libc::O_RDONLY)) else {
        return;
    };
    if let Some(MemoryLayout { addresses }) = layout(&text) {
        let map = Map {
            addresses,
            auxiliary: 0,
            auxiliary_length: 0,
            executable,
        };
        let (set, which) = (libc::PR_SET_MM, libc::PR_SET_MM_MAP);
        let (at, length) = (&raw const map, size_of::<Map>());
        // SAFETY: the pointer is to the kernel's structure, with its length.
        unsafe { libc::syscall(libc::SYS_prctl, set, which, at, length, 0) };
    }
    sys::close(executable);
}

/// Most pages of a process that a file can hold: a terabyte.
const MOST_PAGES: u64 = 1 << 28;

const ARCH_GET_FS: i32 = 0x1003;
const ARCH_GET_GS: i32 = 0x1004;

/// Moves a descriptor to the number of the zygote's socket, which belongs to no program.
fn take_number(socket: RawFd, number: RawFd) -> Result<RawFd, SaveError> {
    sys::duplicate(socket, number, true).map_err(|errno| SaveError::System { errno })?;
    if socket != number {
        sys::close(socket);
    }
    Ok(number)
}

/// Writes the file. `Err` with the socket in a process made from it.
fn write(
    identity: ImageIdentity,
    thread: SavedThread,
    program: &SavedProcess<'_>,
) -> Result<Result<u64, RawFd>, SaveError> {
    let system = |errno| SaveError::System { errno };
    let mut text = Vec::new();
    let mut auxiliary = Vec::new();
    let read = sys::read_file(c"/proc/self/auxv", &mut auxiliary);
    read.map_err(|errno| match errno {
        libc::EACCES => SaveError::Undumpable,
        errno => SaveError::System { errno },
    })?;
    sys::read_file(c"/proc/self/stat", &mut text).map_err(system)?;
    let layout = layout(&text).ok_or(SaveError::System { errno: libc::EIO })?;
    sys::read_file(c"/proc/self/statm", &mut text).map_err(system)?;
    let pages = proc::words(&text).next().and_then(proc::number);
    let pages = pages.ok_or(SaveError::System { errno: libc::EIO })?;
    let base = program.base.and_then(|(file, name)| {
        let base = BaseImage::read(file, &identity)?;
        Some((base, name))
    });
    let output = PageOutput::new(program.file, program.compression, program.lasts)?;
    // A helper pays while this process waits for a disk, compresses, or mostly computes hashes.
    let in_one_pass = base.is_none() && output.is_copy_in_memory();
    let mut writer = ImageWriter {
        output,
        requests: program.socket,
        header: ImageHeader {
            identity,
            build: build_id::build_id(),
            processor: processor_here::features(),
            kernel: kernel(),
            layout,
            hashes: HashesPlace::default(),
            table: TablePlace::default(),
            length: 0,
        },
        thread,
        auxiliary: &auxiliary,
        list: RegionList::new()?,
        pagemap: Pagemap::open().map_err(system)?,
        memory: sys::open(c"/proc/self/mem", libc::O_RDONLY).map_err(system)?,
        base,
        in_one_pass,
        scratch: WriterScratch::new(pages.min(MOST_PAGES) as usize, !in_one_pass)?,
    };
    let mut writing = Writing {
        writer: &mut writer,
        log_bodies: program.log_bodies,
        result: Err(SaveError::TooMany),
    };
    // From here on nothing is allocated.
    // SAFETY: `write_here` takes such an argument.
    let result = unsafe { with_saved_frame(write_here, (&raw mut writing).cast()) };
    if result & RESUMED != 0 {
        // The memory of the writer is not there, and its descriptors are others by now.
        std::mem::forget(writer);
        return Ok(Err(result as u32 as RawFd));
    }
    let done = writing.result;
    sys::close(writer.memory);
    done.map(Ok)
}

/// The argument and the result of [`write_here`].
struct Writing<'a, 'b> {
    writer: &'a mut ImageWriter<'b>,
    log_bodies: &'a [Range<usize>],
    result: Result<u64, SaveError>,
}

/// Writes the file, in whose process the frame is resumed at `entry`.
///
/// # Safety
/// The argument is a [`Writing`].
unsafe extern "C" fn write_here(argument: *mut c_void, frame: u64, entry: u64) -> u64 {
    // SAFETY: the caller's promise.
    let writing = unsafe { &mut *argument.cast::<Writing<'_, '_>>() };
    let writer = &mut *writing.writer;
    writer.thread.stack = frame;
    writer.thread.entry = entry;
    let [a, b, c] = writer.list.addresses();
    let [d, e, f, g, h, i, j] = writer.scratch.addresses();
    let base = writer.base.as_ref().map(|(base, _)| base.addresses());
    let [k, l] = base.unwrap_or_default();
    let [m, n] = writer.output.addresses();
    let left_out = [a, b, c, d, e, f, g, h, i, j, k, l, m, n];
    let listed = writer.list.read(&left_out, writing.log_bodies);
    writing.result = listed.and_then(|()| writer.write());
    0
}

/// The layout of this process, from its line of numbers: fields 26 to 28 and 45 to 51, counted from
/// 1; the second field is a name in parentheses.
fn layout(text: &[u8]) -> Option<MemoryLayout> {
    let after = text.iter().rposition(|b| *b == b')')? + 1;
    let fields = || proc::words(text[after..].trim_ascii());
    let field = |number: usize| proc::number(fields().nth(number - 3)?);
    // SAFETY: asks for the present end of the heap.
    let heap_end = unsafe { libc::syscall(libc::SYS_brk, 0) } as u64;
    Some(MemoryLayout {
        addresses: [
            field(26)?,
            field(27)?,
            field(45)?,
            field(46)?,
            field(47)?,
            heap_end,
            field(28)?,
            field(48)?,
            field(49)?,
            field(50)?,
            field(51)?,
        ],
    })
}

/// The kernel's release.
fn kernel() -> [u8; 64] {
    let mut release = [0; 64];
    // SAFETY: plain data for which all zeros is a value; the call fills it in.
    let name = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        libc::uname(&raw mut name);
        name
    };
    for (place, byte) in release.iter_mut().zip(name.release) {
        *place = byte as u8;
    }
    release
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_this_process_is_in_order() {
        let text = std::fs::read("/proc/self/stat").expect("a line");
        let [code, code_end, data, data_end, heap, heap_end, ..] =
            layout(&text).expect("a layout").addresses;
        assert!(code < code_end && code_end <= data && data < data_end);
        assert!(data_end <= heap && heap <= heap_end);
    }
}
