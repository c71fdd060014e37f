//! The library's descriptors are in one high block, apart from the program's. So an image of the
//! process can drop them all as one range, and the program gets the low numbers that it expects.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::fstat;
use rejoin_ckpt::passed;

use crate::error::{Error, Result};

/// What becomes of the descriptors that a device had before
/// [`Device::reopen`](crate::Device::reopen).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldDescriptors {
    /// The descriptors are this process's: they are closed.
    Close,
    /// The descriptors belonged to the process of the image. Their numbers may be in other use by
    /// now, so they are dropped without a system call.
    Forget,
}

/// The lowest descriptor that a plain limit of 1024 allows the block to start at.
const LOWEST_BLOCK: i32 = 512;
/// Where the block starts when the limit allows: above what most programs ever open.
const USUAL_BLOCK: i32 = 16_384;

/// The first number of the block. It stays the same for the life of the process, also when the
/// limit on open files changes.
static BLOCK: OnceLock<RawFd> = OnceLock::new();
/// Descriptors that found no number in the block: number, file system and inode.
static BELOW: Mutex<Vec<(RawFd, u64, u64)>> = Mutex::new(Vec::new());

/// The first number of the block: half of the first limit on open files, at least 512 where that
/// fits, at most 16,384.
#[must_use]
pub fn block_start() -> RawFd {
    *BLOCK.get_or_init(|| {
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let half = i32::try_from(limit / 2)
            .unwrap_or(i32::MAX)
            .min(USUAL_BLOCK);
        if limit > 600 {
            half.max(LOWEST_BLOCK)
        } else {
            half
        }
    })
}

/// Moves a descriptor into the block and closes the old number. Close-on-exec is set. When the
/// block is above the limit on open files, that limit is raised for a moment, as far as the system
/// lets it. When that does not help, the descriptor keeps its number, and no image can be taken
/// while it is open ([`below_block`]).
///
/// # Errors
/// When the system neither moves nor keeps it.
pub fn raise(descriptor: OwnedFd) -> Result<OwnedFd> {
    if let Ok(raised) = passed::raised(&descriptor, block_start()) {
        return Ok(raised);
    }
    fcntl(descriptor.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
        .map_err(|errno| Error::system("set close-on-exec", errno))?;
    if descriptor.as_raw_fd() < block_start() {
        let file = identity(descriptor.as_raw_fd())
            .map_err(|errno| Error::system("look at a descriptor", errno))?;
        let mut below = BELOW.lock().unwrap_or_else(PoisonError::into_inner);
        below.retain(is_open);
        below.push(file);
    }
    Ok(descriptor)
}

/// A descriptor of the library's that is open among the program's numbers. An image would keep it,
/// and the peer behind it would not see the rank's end.
#[must_use]
pub fn below_block() -> Option<RawFd> {
    let below = BELOW.lock().unwrap_or_else(PoisonError::into_inner);
    below.iter().find(|file| is_open(file)).map(|file| file.0)
}

/// The hard limit on open files of this process.
pub(crate) fn most_open() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_, hard)| hard)
}

/// Number, file system and inode of an open descriptor.
fn identity(number: RawFd) -> nix::Result<(RawFd, u64, u64)> {
    // SAFETY: the number is only asked about, and a closed one is an error.
    let file = fstat(unsafe { BorrowedFd::borrow_raw(number) })?;
    Ok((number, file.st_dev, file.st_ino))
}

fn is_open(file: &(RawFd, u64, u64)) -> bool {
    identity(file.0) == Ok(*file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_descriptors_are_high_and_closed_on_exec() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let raised = raise(a.into()).expect("raised");
        assert!(raised.as_raw_fd() >= block_start());
        let flags = fcntl(raised.as_fd(), FcntlArg::F_GETFD).expect("flags");
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }
}
