//! The memory of a rank's log, which its local manager has: determinants, and bodies.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use rejoin_ckpt::log_bodies::{self, LogFiles};
use rejoin_ckpt::rank_log_memory::MappedWords;
use rejoin_logging::determinants::LogMemory;
use rejoin_wire::Images;

use crate::log::log_words::LogWords;
use crate::recovery::managers_memory;

/// Opens the memory of this rank's determinants.
///
/// # Errors
/// The manager has none for this rank, or the system does not map it.
pub(crate) fn open(images: Option<&Images>) -> io::Result<Box<dyn LogMemory + Send>> {
    let words = MappedWords::map(memory(images)?.as_fd())?;
    let count = words.count();
    Ok(Box::new(LogWords::new(words, count)))
}

/// Maps the memory of the bodies that this rank logs: once, because images share it. Also returns
/// how many bytes of it no file backs.
///
/// # Errors
/// The errors are those of [`open`].
pub(crate) fn map_bodies(images: Option<&Images>) -> io::Result<(&'static mut [u8], usize)> {
    with_files(images, |files| {
        Ok((log_bodies::map_bodies(files)?, files.in_memory()?))
    })
}

/// Opens the memory in which this rank logs what it receives of other recovery groups; `None`: the
/// manager has none.
///
/// # Errors
/// The system does not map it.
pub(crate) fn open_received(
    images: Option<&Images>,
) -> io::Result<Option<Box<dyn LogMemory + Send>>> {
    let place = images.and_then(|images| Some((images.manager, images.receive_log?)));
    let Some((manager, descriptor)) = place else {
        return Ok(None);
    };
    let words = MappedWords::map_all(managers_memory(manager, descriptor)?.as_fd())?;
    let count = words.count();
    Ok(Some(Box::new(LogWords::new(words, count))))
}

/// In a process that was made from a file: puts its `bodies` into the memory that the manager has
/// for it now, and maps that where it was before.
///
/// Returns how many bytes of it no file backs; or why they are in memory of the process instead.
///
/// # Errors
/// The errors are those of [`open`], or the system gives no memory.
pub(crate) fn share_again(
    images: Option<&Images>,
    area: &Range<usize>,
    bodies: &[Range<usize>],
) -> io::Result<Result<usize, io::Error>> {
    with_files(images, |files| {
        // SAFETY: the area is the engine's memory for bodies, which nothing uses while the rank
        // joins the job again.
        let private = unsafe { log_bodies::share_again(files, area, bodies) }?;
        Ok(match private {
            Some(why) => Err(why),
            None => Ok(files.in_memory()?),
        })
    })
}

fn with_files<T>(
    images: Option<&Images>,
    act: impl FnOnce(LogFiles<'_>) -> io::Result<T>,
) -> io::Result<T> {
    let memory = memory(images)?;
    let spill = images.and_then(|images| Some((images.manager, images.log_spill?)));
    let spill = spill.map(|(manager, descriptor)| managers_memory(manager, descriptor));
    let spill = spill.transpose()?;
    act(LogFiles {
        memory: memory.as_fd(),
        spill: spill.as_ref().map(AsFd::as_fd),
    })
}

fn memory(images: Option<&Images>) -> io::Result<File> {
    let place = images.and_then(|images| Some((images.manager, images.log?)));
    let (manager, descriptor) =
        place.ok_or_else(|| io::Error::other("the local manager gives no memory for a log"))?;
    managers_memory(manager, descriptor)
}
