//! Data for a clone beside its memory.

use std::os::fd::RawFd;

use super::renewed_streams::RenewedStreams;
use crate::manifest::Manifest;
use crate::threads::kernel_state::{RegisteredAddresses, Scheduling};

/// Data for a clone beside its memory.
pub(super) struct CloneContext {
    pub wait: RawFd,
    pub manager_end: RawFd,
    pub streams: RenewedStreams,
    pub manifest: Manifest,
}

/// What the clone's one thread has to set again: that of the process's first thread.
pub(super) struct FirstThread {
    pub addresses: RegisteredAddresses,
    pub name: [u8; 16],
    /// A clone inherits it, and a process made from a file does not.
    pub scheduling: Scheduling,
}
