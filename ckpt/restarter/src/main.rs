//! Makes a process of a process image: `rejoin-restarter IMAGE SOCKET JOB RANK EPOCH`.
//!
//! The program replaces itself by the process. So it uses no C library, lies at addresses that
//! images leave out, and keeps its own state on a stack there. It checks the file before it
//! touches its own memory ([`rejoin_image_format`]). If it can't make the process, it sends the
//! reason over the socket and ends. Otherwise the process continues where it was saved, and has
//! the socket.

#![no_std]
#![no_main]

mod cpu;
mod fill;
mod freestanding;
mod image_files;
mod own_mappings;
mod rebuild;
mod restart_arguments;
mod system_calls;

use image_files::ImageFiles;
use rejoin_image_format::{HEADER_LENGTH, ImageError, ImageHeader, RESTARTER, SavedTable};
use restart_arguments::RestartArguments;
use system_calls as calls;
use system_calls::RestartStep;

/// Where the table is read to.
const TABLE_AT: u64 = RESTARTER.start + (1 << 36);
/// Code of a process that could not be made.
const FAILED: i32 = 1;

/// Called on the program's own stack, with the kernel's: number of arguments, then pointers.
///
/// # Safety
/// `stack` is the stack pointer at the start of the program.
#[unsafe(no_mangle)]
unsafe extern "C" fn restarter_main(stack: *const u64) -> ! {
    calls::block_signals();
    // SAFETY: the caller's promise.
    let arguments = unsafe { RestartArguments::read(stack) };
    let socket = arguments.as_ref().map_or(-1, |a| a.socket);
    let done = arguments
        .ok_or(ImageError::Usage)
        .and_then(|arguments| restart(&arguments));
    if let Err(error) = done {
        calls::send(socket, &error.encode());
    }
    calls::exit(FAILED)
}

/// Returns only if it fails.
fn restart(arguments: &RestartArguments) -> Result<(), ImageError> {
    let file = calls::open(&arguments.path).map_err(RestartStep::OpenImage.because())?;
    let length = calls::length(file).map_err(RestartStep::ReadImage.because())?;
    let mut page = [0; HEADER_LENGTH];
    if length < HEADER_LENGTH as u64 {
        return Err(ImageError::NotAnImage);
    }
    calls::read_at(file, &mut page, 0).map_err(RestartStep::ReadImage.because())?;
    let header = ImageHeader::decode(&page, length)?;
    let identity = &header.identity;
    identity.check(arguments.job, arguments.rank, arguments.epoch)?;
    header.processor.check(&cpu::features())?;

    let bytes = own_mappings::own_memory(TABLE_AT, header.table.length)?;
    calls::read_at(file, bytes, header.table.position).map_err(RestartStep::ReadImage.because())?;
    let table = SavedTable::new(&header, bytes)?;
    let mut threads = table.threads();
    let (Some(thread), None) = (threads.next(), threads.next()) else {
        return Err(ImageError::Threads(table.threads().count() as u32));
    };
    rebuild::check_files(&table)?;
    let files = ImageFiles::open(file, &arguments.path, &table)?;
    own_mappings::replace(&table)?;
    rebuild::regions(&files, &table)?;
    rebuild::set_layout(&header.layout, table.auxiliary());
    files.close();
    cpu::resume(&thread, arguments.socket).map_err(RestartStep::SetUpThread.because())
}
