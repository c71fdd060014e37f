//! Data for a clone beside its memory.

use std::os::fd::RawFd;

use super::clone::ThreadState;
use super::renewed_streams::RenewedStreams;
use crate::manifest::Manifest;

/// Data for a clone beside its memory.
pub(super) struct CloneContext {
    pub wait: RawFd,
    pub manager_end: RawFd,
    pub streams: RenewedStreams,
    pub manifest: Manifest,
    pub state: ThreadState,
    pub name: [u8; 16],
}
