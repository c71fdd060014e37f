//! Makes a process of a process image: `rejoin-restarter IMAGE SOCKET JOB RANK EPOCH STEP
//! [wait]`.
//!
//! The program replaces itself by the process. So it uses no C library, lies at addresses that
//! images leave out, and keeps its own state on a stack there. It checks the file before it
//! touches its own memory ([`rejoin_image_format`]). If it can't make the process, it sends the
//! reason over the socket and ends. Otherwise the process continues where it was saved, and has
//! the socket.
//!
//! With `wait`, it loads the image and answers. Then orders for later images of the rank follow
//! ([`rejoin_image_format::LoadOrder`]), of which it reads the pages that have changed. The process
//! continues from the last one. So a rank that moves waits only for what it has written since.

#![no_std]
#![no_main]

mod cpu;
mod fill;
mod freestanding;
mod image_files;
mod loaded_image;
mod own_mappings;
mod rebuild;
mod restart_arguments;
mod system_calls;
mod update;

use fill::FillSpeed;
use loaded_image::LoadedImage;
use rejoin_image_format::{ImageError, LOAD_ORDER_LENGTH, LOADED, LoadOrder};
use restart_arguments::RestartArguments;
use system_calls as calls;
use system_calls::RestartStep;

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
    let mut image = LoadedImage::open(&arguments.path, arguments, arguments.number, 0)?;
    own_mappings::replace(&image.table)?;
    let speed = match arguments.waits {
        true => FillSpeed::Calm,
        false => FillSpeed::Fast,
    };
    rebuild::regions(&image.files, &image.table, speed)?;
    image.files.close();
    if arguments.waits {
        image = follow(arguments, image)?;
    }
    rebuild::protect(&image.table)?;
    rebuild::set_layout(&image.header.layout, image.table.auxiliary());
    cpu::resume(&image.thread, arguments.socket).map_err(RestartStep::SetUpThread.because())
}

/// Loads later images as orders come. Returns the last one.
fn follow(arguments: &RestartArguments, first: LoadedImage) -> Result<LoadedImage, ImageError> {
    let mut image = first;
    for number in 1.. {
        calls::send(arguments.socket, &LOADED);
        let mut bytes = [0; LOAD_ORDER_LENGTH];
        calls::receive(arguments.socket, &mut bytes).map_err(RestartStep::ReadImage.because())?;
        let order = LoadOrder::decode(&bytes).ok_or(ImageError::Usage)?;
        // Its table lies where that of the image before the present one was.
        let next = LoadedImage::open(&order.path, arguments, order.number, number % 2)?;
        // The rank waits for the last one.
        let speed = match order.is_last {
            true => FillSpeed::Fast,
            false => FillSpeed::Calm,
        };
        update::regions(&image.table, &next, speed)?;
        next.files.close();
        image.forget()?;
        image = next;
        if order.is_last {
            break;
        }
    }
    Ok(image)
}
