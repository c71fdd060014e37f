//! Memory that another rank makes again.

use super::mapped_file::{Origin, SharedFile};
use super::other_mappers;
use crate::error::NotShared;
use crate::{host_barrier, sys};

/// Memory that a restored process maps again once the ranks with which it shares the memory have
/// made it: the addresses are reserved until then.
#[derive(Default)]
pub struct LateMemory {
    files: Vec<(u32, SharedFile)>,
    /// The process shares memory with other ranks, whichever of them makes it.
    is_shared: bool,
}

impl std::fmt::Debug for LateMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LateMemory")
            .field("files", &self.files.len())
            .finish()
    }
}

impl LateMemory {
    pub(super) fn of(files: Vec<(u32, SharedFile)>, is_shared: bool) -> Self {
        Self { files, is_shared }
    }

    /// Maps all of it. To be called when all ranks have joined the job again, and before any of
    /// them continues.
    ///
    /// # Errors
    /// A rank that made the memory is not on this host, or has other memory; or the system refuses
    /// it. The process must not continue then.
    pub fn map(&self) -> Result<(), NotShared> {
        if self.is_shared {
            // The manager may be another one. A rank that takes its next image before all have
            // mapped the memory must not take itself for the only one that does.
            host_barrier::announce_sharing();
        }
        let others = host_barrier::others();
        for (rank, file) in &self.files {
            let (rank, name) = (*rank, file.name());
            let Some((_, pid)) = others.iter().find(|(other, _)| *other == rank) else {
                return Err(NotShared::Apart { name, rank });
            };
            let system = |errno| NotShared::System {
                name: file.name(),
                errno,
            };
            let fd = open(file).map_err(system)?;
            let status = sys::status(fd).map_err(system)?;
            if !other_mappers::maps(*pid, (status.st_dev, status.st_ino)) {
                sys::close(fd);
                return Err(NotShared::Other { name, rank });
            }
            file.map(fd).map_err(system)?;
        }
        Ok(())
    }
}

fn open(file: &SharedFile) -> sys::Sys<i32> {
    let Origin::File(path) = &file.origin else {
        return Err(libc::ENOTSUP);
    };
    let access = match file.ranges.iter().any(|range| range.is_written()) {
        true => libc::O_RDWR,
        false => libc::O_RDONLY,
    };
    sys::open(path, access)
}
