//! The library's descriptors are in one high block, apart from the program's. So an image of the
//! process can drop them all as one range, and the program gets the low numbers that it expects.

use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit};

use crate::error::{Error, Result};

/// What becomes of the descriptors that a device had before
/// [`Device::reopen`](crate::Device::reopen).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// They are this process's: closed.
    Close,
    /// They belonged to the process of the image. Their numbers may be in other use by now, so they
    /// are dropped without a system call.
    Forget,
}

/// The lowest descriptor that a plain limit of 1024 allows the block to start at.
const LOWEST_BLOCK: i32 = 512;
/// Where the block starts when the limit allows: above what most programs ever open.
const USUAL_BLOCK: i32 = 16_384;

/// The first number of the block: half of the limit on open files, at least 512 where that fits,
/// at most 16,384.
#[must_use]
pub fn block_start() -> i32 {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    let half = i32::try_from(limit / 2)
        .unwrap_or(i32::MAX)
        .min(USUAL_BLOCK);
    if limit > 600 {
        half.max(LOWEST_BLOCK)
    } else {
        half
    }
}

/// Moves a descriptor into the block and closes the old number. Close-on-exec is set. A full block
/// is no failure: the descriptor then keeps its number.
///
/// # Errors
/// When the system neither moves nor keeps it.
pub fn raise(descriptor: OwnedFd) -> Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    match fcntl(descriptor.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(block_start())) {
        // SAFETY: fcntl has just made this descriptor, no other code owns it.
        Ok(raw) => Ok(unsafe { OwnedFd::from_raw_fd(raw) }),
        Err(_) => {
            let flag = nix::fcntl::FdFlag::FD_CLOEXEC;
            fcntl(descriptor.as_fd(), FcntlArg::F_SETFD(flag))
                .map_err(|errno| Error::system("set close-on-exec", errno))?;
            Ok(descriptor)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn raised_descriptors_are_high_and_closed_on_exec() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let raised = raise(a.into()).expect("raised");
        assert!(raised.as_raw_fd() >= block_start());
        let flags = fcntl(raised.as_fd(), FcntlArg::F_GETFD).expect("flags");
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }
}
