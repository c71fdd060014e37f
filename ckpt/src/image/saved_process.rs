//! What a process tells of itself before it is saved.

use std::ops::Range;
use std::os::fd::RawFd;

use super::page_output::ImageCompression;
use crate::manifest::Manifest;

/// The process, seen from the library.
pub(crate) struct SavedProcess<'a> {
    /// The first descriptor of the library.
    pub block: RawFd,
    /// Descriptors that belong to the manager, too.
    pub inherited: &'a [(RawFd, (u64, u64))],
    /// The local manager's process number; 0 if there is none.
    pub manager: i32,
    /// The zygote's socket, which also keeps the numbers of the standard streams.
    pub socket: RawFd,
    /// The file to write.
    pub file: RawFd,
    /// The file of the image before, in the same folder, and its name.
    pub base: Option<(RawFd, &'a [u8])>,
    /// How pages are compressed.
    pub compression: ImageCompression,
    /// The file is on its disk when it is whole.
    pub lasts: bool,
    /// Where the memory of the rank's log has bodies that the process needs, in order.
    pub log_bodies: &'a [Range<usize>],
    /// Open files.
    pub manifest: &'a Manifest,
}
